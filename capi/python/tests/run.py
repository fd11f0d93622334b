"""Runs test modules of this folder: run.py [-v] [--torch] [test_memory ...], all of them by
default.

TALUS_TEST_INSTALLED: the package that is installed, not the one beside this folder.
--torch: goes on in the Python that TALUS_TORCH_PYTHON names where this one has no torch. Says why
what is skipped is, and exits with 77 where nothing was left to run.
"""
import importlib.util
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).parent
SKIPPED = 77


def go_on_with_torch():
    python = os.environ.get("TALUS_TORCH_PYTHON")
    if importlib.util.find_spec("torch") or not python or "TALUS_TORCH_TRIED" in os.environ:
        return
    os.environ["TALUS_TORCH_TRIED"] = python
    os.execv(python, [python, "-B", *sys.argv])


def main(arguments):
    if "--torch" in arguments:
        go_on_with_torch()
    sys.path[0:0] = [str(HERE)] + ([] if os.environ.get("TALUS_TEST_INSTALLED") else
                                   [str(HERE.parent)])
    names = [name for name in arguments if name[0] != "-"] or \
        sorted(path.stem for path in HERE.glob("test_*.py"))
    suite, reasons = unittest.TestSuite(), set()
    for name in names:
        try:
            suite.addTests(unittest.defaultTestLoader.loadTestsFromName(name))
        except unittest.SkipTest as reason:  # of a whole module
            reasons.add(str(reason))
    result = unittest.TextTestRunner(sys.stdout, verbosity=1 + ("-v" in arguments)).run(suite)
    for reason in sorted(reasons.union(reason for _, reason in result.skipped)):
        print(f"SKIPPED: {reason}")
    if not result.wasSuccessful():
        return 1
    return 0 if result.testsRun > len(result.skipped) else SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
