"""The transformer example: its losses beside torch.optim's, and the plot."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

if not importlib.util.find_spec("torch"):
    raise unittest.SkipTest("torch is not there: the transformer")

PACKAGE = pathlib.Path(__file__).parents[1]
EXAMPLES = PACKAGE / "examples"
# The example with another optimizer in the place of ours.
WITH_ADAM = """import sys, transformer
transformer.talus.torch.AdamW = transformer.talus.torch.Adam
sys.exit(transformer.main())"""


def run(*arguments):
    return subprocess.run([sys.executable, "-B", *arguments], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": f"{PACKAGE}:{EXAMPLES}"})


class Transformer(unittest.TestCase):
    def test_both_losses_fall_along_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "loss.svg")
            done = run(str(EXAMPLES / "transformer.py"), "--steps", "120", "--plot", picture)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertRegex(done.stdout.splitlines()[-1], r"loss 4\.\d+ to 2\.\d+ in 120 steps, "
                             r"torch.optim.AdamW 2\.\d+; largest difference at a step ")
            if shutil.which("gnuplot"):
                text = pathlib.Path(picture).read_text(encoding="utf-8")
                self.assertIn("talus.torch.AdamW", text)
            else:
                self.assertIn("plot skipped", done.stdout)

    def test_another_optimizer_is_noticed(self):
        done = run("-c", WITH_ADAM, "--steps", "40")
        self.assertEqual((done.returncode, done.stderr), (1, ""), done.stdout)
        self.assertRegex(done.stdout, r"largest difference at a step \d\.\de-0[123]")


if __name__ == "__main__":
    unittest.main()
