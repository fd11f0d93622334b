"""The digits example as a user runs it: accuracy, progress, and a run that is stopped and
resumed."""
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).parents[1]
EXAMPLE = PACKAGE / "examples" / "digits.py"
LEAST_ACCURACY = 0.96


def run(*arguments, stderr=subprocess.PIPE):
    done = subprocess.run([sys.executable, "-B", str(EXAMPLE), *arguments], stdout=subprocess.PIPE,
                          stderr=stderr, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    if done.returncode:
        raise AssertionError(done.stderr or done.stdout)
    return done.stdout


class Digits(unittest.TestCase):
    def test_the_last_line_has_the_accuracy_on_images_it_never_saw(self):
        found = re.fullmatch(r"test accuracy (\d\.\d{4}) \((\d+) of 599\)", run().splitlines()[-1])
        self.assertTrue(found)
        self.assertEqual(found[1], f"{int(found[2]) / 599:.4f}")
        self.assertGreaterEqual(float(found[1]), LEAST_ACCURACY)

    def test_a_run_that_is_stopped_and_resumed_has_the_bits_of_one_that_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, part, resumed = (os.path.join(folder, name + ".safetensors") for name in "abc")
            once = run("--epochs", "3", "--save", whole)
            self.assertIn("stopped after 1 epochs of 3",
                          run("--epochs", "3", "--stop-after", "1", "--save", part))
            again = run("--epochs", "3", "--resume", part, "--save", resumed)
            self.assertEqual(once.splitlines()[-1], again.splitlines()[-1])
            self.assertEqual(pathlib.Path(whole).read_bytes(), pathlib.Path(resumed).read_bytes())
            self.assertNotEqual(pathlib.Path(whole).read_bytes(), pathlib.Path(part).read_bytes())

    def test_progress_is_for_a_terminal(self):
        ours, theirs = pty.openpty()
        try:
            run("--epochs", "1", stderr=theirs)
            text = os.read(ours, 4096).decode()
        finally:
            os.close(ours)
            os.close(theirs)
        self.assertRegex(
            text, r"\r\[#{30}\] epoch 1 of 1, loss [\d.]+, validation accuracy 0\.\d{4}\r\n")


if __name__ == "__main__":
    unittest.main()
