#!/usr/bin/env bash
# Builds a fuzz target with clang++ in a temporary folder and runs it on the committed corpus.
#   tests/fuzz/run.sh TARGET RUNS [ARGUMENT_OF_LIBFUZZER...]    targets: header, manifest,
#   load, index
# What it finds is left in that folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

sources_of() {  # TARGET: the sources of the library that it needs
  local checkpoint=lib/checkpoint
  case $1 in
    header) echo $checkpoint/{json_reader,safetensors}.cpp lib/base/status.cpp ;;
    manifest)
      echo $checkpoint/{json_place,json_reader,json_text,manifest,safetensors}.cpp \
        $checkpoint/{safetensors_layout,schedule_record}.cpp lib/base/status.cpp ;;
    load | index)  # all of it, with one rule
      find lib capi -maxdepth 2 -name '*.cpp' | sort | tr '\n' ' ' ;;
    *) echo "no target '$1'" >&2; return 1 ;;
  esac
}
seeds_of() {  # TARGET: folders
  case $1 in
    header) echo tests/fuzz/corpus/header tests/checkpoint/files ;;
    *) echo "tests/fuzz/corpus/$1" ;;
  esac
}

[[ $# -ge 2 ]] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
target=$1 runs=$2
shift 2
if ! command -v clang++ >/dev/null; then
  echo "SKIPPED: no clang++"
  exit 77
fi
sources=$(sources_of "$target")  # its failure ends the script, that of a here-string does not
read -ra sources <<<"$sources"
read -ra seeds <<<"$(seeds_of "$target")"

folder=$(mktemp -d)
trap '[[ $? -ne 0 ]] && echo "left in $folder" >&2 || rm -rf "$folder"' EXIT
mkdir "$folder/capi"
sed -E 's/@[a-z_]+@/0/g' capi/build_info.h.in >"$folder/capi/build_info.h"
clang++ -std=c++20 -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
  -fno-sanitize-recover=undefined -ffp-contract=off -fno-math-errno -I. -Iinclude -I"$folder" \
  -DTALUS_RULE_FILE='"tests/fuzz/rules.inl"' -DTALUS_ONE_SIMD_TARGET -DTALUS_BUILDING \
  "tests/fuzz/fuzz_$target.cpp" "${sources[@]}" -o "$folder/fuzz_$target"
mkdir "$folder/corpus"
"$folder/fuzz_$target" -runs="$runs" -rss_limit_mb=2048 -dict=tests/fuzz/checkpoint.dict \
  -artifact_prefix="$folder/" -print_final_stats=1 "$@" "$folder/corpus" "${seeds[@]}"
