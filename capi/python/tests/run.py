"""Runs test modules of this folder: run.py [-v] [test_memory ...], all of them by default.

Modules of PyTorch need a Python that has it: where this one has none, they run in the Python of the
variable TALUS_TORCH_PYTHON. Says why what is skipped is, and exits with 77 where nothing was left to run.
"""
import importlib.util
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).parent
SKIPPED = 77


def find_torch():
    """Goes on in the Python that has it."""
    python = os.environ.get("TALUS_TORCH_PYTHON")
    if python and importlib.util.find_spec("torch") is None and os.path.realpath(sys.prefix) != \
            os.path.realpath(pathlib.Path(python).parents[1]):
        os.execv(python, [python, "-B", *sys.argv])


def load(name):
    """The tests of a module, one that is skipped where the module is."""
    try:
        return unittest.defaultTestLoader.loadTestsFromName(name)
    except unittest.SkipTest as error:
        reason = str(error)
        return unittest.FunctionTestCase(unittest.skip(reason)(lambda: None), description=name)


def main(arguments):
    names = [name for name in arguments if name != "-v"] or \
        sorted(path.stem for path in HERE.glob("test_*.py"))
    if any(name.startswith(("test_torch", "test_transformer")) for name in names):
        find_torch()
    sys.path[0:0] = [str(HERE), str(HERE.parent)]
    suite = unittest.TestSuite(map(load, names))
    result = unittest.TextTestRunner(sys.stdout, verbosity=1 + ("-v" in arguments)).run(suite)
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"SKIPPED: {reason}")
    if not result.wasSuccessful():
        return 1
    return 0 if result.testsRun > len(result.skipped) else SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
