#!/bin/sh
# Compares the ABI of a library, built with -g, with a committed dump of it.
#   check_abi.sh LIBRARY HEADER_FOLDER BASELINE.abi [--update]
# Dump against dump on purpose: abidiff 2.2 aborts on a dump with --drop-private-types, and a
# library with headers misses an argument that goes from 64 to 32 bits.
set -eu
for tool in abidw abidiff; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool (abigail-tools)"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
abidw --headers-dir "$2" --drop-private-types --exported-interfaces-only --no-corpus-path \
  --no-comp-dir-path --no-show-locs "$1" --out-file "$folder/new.abi"
# Folders, needed libraries and the machine are no part of what a caller compiles against.
sed -i -e "s/ path='[^']*\/\([^/']*\)'/ path='\1'/" -e "s/ architecture='[^']*'//" \
  -e "/<elf-needed>/,/<\/elf-needed>/d" "$folder/new.abi"
grep -q "<function-decl name='talus_step'" "$folder/new.abi" ||
  { echo "SKIPPED: the library has no debug information"; exit 77; }
if [ "${4:-}" = --update ]; then
  cp "$folder/new.abi" "$3"
  exit 0
fi
result=0
abidiff "$3" "$folder/new.abi" || result=$?
[ $result = 0 ] && exit 0
echo "abidiff $result: 4 is an addition or change, bit 8 an incompatible one (abi_major moves)."
echo "If it is meant: $0 LIBRARY HEADER_FOLDER BASELINE.abi --update, and have the diff read."
exit 1
