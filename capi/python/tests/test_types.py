"""Type hints: of the package itself, and of a program with it."""
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).parents[1] / "talus"
PROGRAM = """
import talus
import talus.torch
import torch

model = torch.nn.Linear(4, 1)
adamw: torch.optim.Optimizer = talus.torch.AdamW(model.parameters(), lr=1e-3)
lion = talus.torch.Lion(list(model.parameters()), 1e-4)
named = talus.torch.Optimizer(model.parameters(), "lion", lr=1e-4)
torch.optim.lr_scheduler.StepLR(lion, 50)
lion.native.set(lr="x")  # the one error
"""


def find_mypy():
    if importlib.util.find_spec("mypy"):
        return [sys.executable, "-m", "mypy"]
    found = shutil.which("mypy")
    return found and [found]


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not there: types of talus.torch")
@unittest.skipUnless(find_mypy(), "mypy is not there: type hints")
class Types(unittest.TestCase):
    def test_the_package_and_a_program_have_no_other_error_than_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text(PROGRAM, encoding="utf-8")
            done = subprocess.run(
                [*find_mypy(), "--python-executable", sys.executable, "--cache-dir", folder,
                 str(PACKAGE), str(program)], cwd=PACKAGE.parent, capture_output=True, text=True,
                check=False)
        errors = [line for line in done.stdout.splitlines() if "error:" in line]
        self.assertEqual(len(errors), 1, done.stdout + done.stderr)
        self.assertIn('Argument "lr" to "set" of "Optimizer" has incompatible type', errors[0])


if __name__ == "__main__":
    unittest.main()
