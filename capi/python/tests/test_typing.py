"""What mypy says of the package, and of a program that uses it as its page does."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).parents[1]
PROGRAM = """import array
import torch
import talus
import talus.torch

params = [torch.nn.Parameter(torch.ones(3))]
optimizers = [talus.torch.AdamW(params, lr=1e-3, weight_decay=0.1), talus.torch.Lion(params, 1e-4),
              talus.torch.Optimizer(params, "lamb", lr=1e-4)]
scheduler = torch.optim.lr_scheduler.StepLR(optimizers[0], 50)
with talus.Optimizer("adamw", lr=0.1) as opt:
    index: int = opt.add(array.array("f", [1]), name="w")
    opt.attach("lr", talus.Schedule("cosine", T_max=200))
"""


@unittest.skipUnless(importlib.util.find_spec("mypy") and importlib.util.find_spec("torch"),
                     "mypy or torch is not there: type hints")
class Typing(unittest.TestCase):
    def test_package_and_program(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            for text, expected in ((PROGRAM, 0), (PROGRAM + 'opt.add(name=3)\n', 1)):
                program.write_text(text, encoding="utf-8")
                done = subprocess.run(
                    [sys.executable, "-m", "mypy", "--cache-dir", os.path.join(folder, "cache"),
                     str(PACKAGE / "talus"), str(program)], capture_output=True, text=True,
                    check=False, env={**os.environ, "MYPYPATH": str(PACKAGE)})
                self.assertEqual(done.returncode, expected, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
