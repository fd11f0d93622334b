#!/bin/sh
# Builds the sdist and the wheel, installs each into a clean environment, and runs the tests there.
#   install.sh [PYTHON]     needs the network, for meson-python; the sdist has what is committed
# Minutes: the library is compiled twice. Exit status 77: no pip, or no package index.
set -eu
source=$(cd "$(dirname "$0")/../../.." && pwd)
python=${1:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset TALUS_LIB PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 TALUS_TEST_INSTALLED=1

skip() { echo "SKIPPED: $1"; exit 77; }

quietly() {  # COMMAND...: shows the end of what it said where it fails
  "$@" >"$folder/log" 2>&1 || { tail -n 40 "$folder/log"; exit 1; }
}

environment() {  # NAME: a new one
  "$python" -m venv "$folder/$1" >"$folder/log" 2>&1 || skip "no venv in $python"
}

check() {  # NAME PACKAGE: installs the package and tests what was installed
  environment "$1"
  quietly "$folder/$1/bin/pip" install --no-cache-dir "$2"
  cd "$folder"
  "$folder/$1/bin/python" -c 'import os, talus
beside = os.path.dirname(talus.__file__)
assert beside.startswith(os.environ["VENV"]), beside
assert os.path.dirname(talus._c.PATH) == beside, talus._c.PATH
assert os.path.exists(os.path.join(beside, "py.typed"))'
  quietly "$folder/$1/bin/python" -B "$source/capi/python/tests/run.py" test_declarations \
    test_optimizer test_memory test_checkpoint test_schedule test_arguments
  quietly "$folder/$1/bin/pip" uninstall --yes talus
  left=$(find "$folder/$1" -name '*talus*' | head -n 1)
  [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
  echo "$1: $(basename "$2") installs, passes its tests and goes"
}

environment tools
"$folder/tools/bin/pip" install build wheel >"$folder/log" 2>&1 ||
  skip "no package index: $(tail -n 1 "$folder/log")"
cd "$source"
quietly "$folder/tools/bin/python" -m build --sdist --wheel --outdir "$folder/dist" .
# Nothing in it is compiled for one Python, which meson-python cannot know.
quietly "$folder/tools/bin/wheel" tags --remove --python-tag py3 --abi-tag none \
  "$folder"/dist/*.whl
for package in "$folder"/dist/*.whl "$folder"/dist/*.tar.gz; do
  name=$(basename "$package" | sed 's/.*whl$/wheel/; s/.*gz$/sdist/')
  VENV="$folder/$name" check "$name" "$package"
done
