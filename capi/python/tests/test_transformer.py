"""The example that trains a transformer with talus.torch and with torch.optim."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("torch is not there: the transformer") from error

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "transformer.py"


class Transformer(unittest.TestCase):
    def test_both_curves_are_one_and_fall(self):
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder) / "losses.svg"
            done = subprocess.run([sys.executable, "-B", EXAMPLE, "--steps", "150", "--plot", plot],
                                  capture_output=True, text=True)
            print(done.stdout, end="")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("<svg", plot.read_text())


if __name__ == "__main__":
    unittest.main()
