"""The example learns, and a run that was stopped and resumed has the bits of one that was not.

    check_digits.py DIGITS.PY
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LEAST = 0.96


def run(script, *arguments):
    here = str(pathlib.Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-B", script, *arguments], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": here})
    if done.returncode or done.stderr:  # no progress where it is piped
        sys.exit(f"{script} {' '.join(arguments)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main(script):
    accuracy = float(re.search(r"test accuracy (\S+)", run(script))[1])
    print(f"test accuracy {accuracy}")
    if accuracy < LEAST:
        sys.exit(f"expected {LEAST} or more")
    with tempfile.TemporaryDirectory() as folder:
        half, resumed, whole = (f"{folder}/{name}.safetensors" for name in ("half", "resumed", "whole"))
        run(script, "--epochs", "4", "--stop-after", "2", "--save", half)
        run(script, "--epochs", "4", "--resume", half, "--save", resumed)
        run(script, "--epochs", "4", "--save", whole)
        if pathlib.Path(resumed).read_bytes() != pathlib.Path(whole).read_bytes():
            sys.exit("a resumed run saves other bytes than one that was not stopped")


main(*sys.argv[1:])
