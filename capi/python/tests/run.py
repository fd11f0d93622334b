"""Runs test modules of this folder: run.py [-v] [test_memory ...], all of them by default.

Says why what is skipped is, and exits with 77 where nothing was left to run.
"""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).parent
SKIPPED = 77


def main(arguments):
    sys.path[0:0] = [str(HERE), str(HERE.parent)]
    names = [name for name in arguments if name != "-v"] or \
        sorted(path.stem for path in HERE.glob("test_*.py"))
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result = unittest.TextTestRunner(sys.stdout, verbosity=1 + ("-v" in arguments)).run(suite)
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"SKIPPED: {reason}")
    if not result.wasSuccessful():
        return 1
    return 0 if result.testsRun > len(result.skipped) else SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
