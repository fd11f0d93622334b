"""Runs digits, the example in C++, as a user would: accuracy, resumption, the bits of train_digits.

    check_digits_cpp.py DIGITS TRAIN_DIGITS [Short]
"""
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest

LEAST_ACCURACY = 0.96
LAST_LINE = re.compile(r"test accuracy (0\.\d{4}|1\.0000) \((\d+) of 599\)")
digits = train_digits = ""


def run(*args, program=None):
    return subprocess.run([program or digits, *args], capture_output=True, text=True, check=False)


def tensors(path):
    """Name, dtype, shape and bytes of each tensor of a checkpoint. Its digests are of notes too, which
    each program has of its own."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    del header["__metadata__"], header["talus.digest"]
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
            for name, t in header.items()}


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = lambda name: os.path.join(folder.name, name)

    def train(self, *args):
        result = run(*args)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        return result.stdout

    def assert_fails(self, code, text, *args):
        result = run(*args)
        self.assertEqual((result.returncode, result.stdout), (code, ""), args)
        self.assertRegex(result.stderr, "^digits: ", args)
        self.assertIn(text, result.stderr, args)


class Learning(Program):
    def test_it_learns_and_repeats(self):
        first = self.train()
        match = LAST_LINE.fullmatch(first.splitlines()[-1])
        self.assertTrue(match, first)
        self.assertGreaterEqual(int(match[2]) / 599, LEAST_ACCURACY)
        self.assertEqual(first, self.train())


class Short(Program):
    def test_it_is_train_digits_to_the_bit(self):
        ours, theirs = self.path("a.safetensors"), self.path("b.safetensors")
        lines = self.train("--epochs", "5", "--save", ours)
        other = run("--epochs", "5", "--save", theirs, program=train_digits)
        self.assertEqual(lines.splitlines(), other.stdout.splitlines()[1:])
        self.assertEqual(tensors(ours), tensors(theirs))
        self.assertEqual(len(tensors(ours)), 4 * 4)  # parameter, steps, two moments

    def test_a_stopped_run_resumes_to_the_bit(self):
        self.train("--epochs", "5", "--save", self.path("full.safetensors"))
        for stop in "0", "1", "4":
            part, resumed = self.path("part.safetensors"), self.path("resumed.safetensors")
            lines = self.train("--epochs", "5", "--stop-after", stop, "--save", part)
            self.assertNotIn("test accuracy", lines)
            self.train("--epochs", "5", "--resume", part, "--save", resumed)
            with open(self.path("full.safetensors"), "rb") as a, open(resumed, "rb") as b:
                self.assertEqual(a.read(), b.read(), stop)
            self.assertNotEqual(tensors(part), tensors(resumed))

    def test_a_terminal_gets_progress(self):
        ours, theirs = pty.openpty()
        result = subprocess.run([digits, "--epochs", "2"], stdout=subprocess.PIPE, stderr=theirs,
                                check=False)
        os.close(theirs)
        shown = os.read(ours, 1 << 16).decode()
        os.close(ours)
        self.assertEqual(result.returncode, 0)
        self.assertIn("epoch 2 of 2, validation accuracy 0.", shown)
        self.assertNotIn(b"epoch", result.stdout)

    def test_what_is_wrong_is_named(self):
        part = self.path("part.safetensors")
        self.train("--epochs", "2", "--stop-after", "1", "--save", part)
        self.assert_fails(1, "another --epochs", "--epochs", "3", "--resume", part)
        self.assert_fails(1, "TALUS_E_IO", "--resume", self.path("nosuch.safetensors"))
        self.assert_fails(1, "TALUS_E_IO", "--epochs", "1", "--save", self.path("no/x.safetensors"))
        self.assert_fails(1, "nosuch.csv", "--data", self.path("nosuch.csv"))
        self.assert_fails(2, "--nonsense", "--nonsense", "1")
        self.assert_fails(2, "--epochs", "--epochs")
        self.assert_fails(2, "'many'", "--epochs", "many")


if __name__ == "__main__":
    digits, train_digits = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
