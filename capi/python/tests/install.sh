#!/usr/bin/env bash
# Builds a wheel and an sdist of the package, and trains with each in a virtual environment of its own.
#   install.sh FOLDER      an empty one, for all that is made; takes minutes, and meson-python from PyPI
set -euo pipefail
source=$(realpath "$(dirname "$0")/../../..")
mkdir -p "$1"
cd "$1"

train() {  # PYTHON
  "$1" -I -B - <<'END'
import array, pathlib, talus
from talus import _c
assert pathlib.Path(_c.PATH).parent == pathlib.Path(talus.__file__).parent, f"the library is {_c.PATH}"
weights, gradient = array.array("f", [1, 2, 3]), array.array("f", [1, 1, 1])
with talus.Optimizer("sgd", lr=0.5) as opt:
    opt.add(weights, gradient, name="w")
    opt.step()
assert list(weights) == [0.5, 1.5, 2.5], weights
END
}

install() {  # NAME FILE
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet "$2"
  env -u TALUS_LIB -u PYTHONPATH "$PWD/$1/bin/python" -c 'import talus; print(talus.__file__)'
  env -u TALUS_LIB -u PYTHONPATH bash -c "$(declare -f train); train '$PWD/$1/bin/python'"
  echo "$1: trains"
}

python3 -m venv build
build/bin/pip install --quiet build
build/bin/python -m build --wheel --outdir dist "$source"
build/bin/python -m build --sdist --outdir dist "$source"
install wheel dist/*.whl
install sdist dist/*.tar.gz
