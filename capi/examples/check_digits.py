"""Runs the digit example as a user would: accuracy, repeatability, output streams, exit codes.

    check_digits.py TRAIN_DIGITS COMPARE_DIGITS [Short]
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest

LEAST_ACCURACY = 0.96
LAST_LINE = re.compile(r"test accuracy (0\.\d{4}|1\.0000) \((\d+) of 599\)")
CSV_HEADER = "epoch,train_loss,validation_loss,validation_accuracy"
binary = comparison = ""


def run(*args, **kwargs):
    return subprocess.run([binary, *args], capture_output=True, text=True, check=False, **kwargs)


def accuracy(result):
    match = LAST_LINE.fullmatch(result.stdout.splitlines()[-1])
    assert match, f"unexpected last line: {result.stdout!r}"
    value = int(match[2]) / 599
    assert match[1] == f"{value:.4f}", result.stdout
    return value


def listed(kind):
    """Returns the names that --help lists: "algorithms" or "aliases"."""
    return re.search(rf"^  {kind}:(.*)$", run("--help").stdout, re.MULTILINE)[1].split()


def compare(*args):
    """The exit code of compare_digits.py, the cells of each of its rows, and all that it printed."""
    command = [sys.executable, "-B", comparison, binary, *args]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in result.stdout.splitlines()[2:]}
    cells = {name: [*row.split()[:3], " ".join(row.split()[3:])] for name, row in rows.items()}
    return result.returncode, cells, result.stdout + result.stderr


class Program(unittest.TestCase):
    def assert_learns(self, *args):
        result = run(*args)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        self.assertGreaterEqual(accuracy(result), LEAST_ACCURACY, args)
        return result.stdout

    def assert_fails(self, code, text, *args):
        result = run(*args)
        self.assertEqual((result.returncode, result.stdout), (code, ""), args)
        self.assert_refused(code, text, result, args)

    def assert_refused(self, code, text, result, args):
        self.assertEqual(result.returncode, code, args)
        self.assertRegex(result.stderr, "^train_digits: ", args)
        self.assertIn(text, result.stderr, args)


class Learning(Program):
    def test_every_dtype_learns_and_repeats(self):
        for dtype in "f32", "bf16", "f16":
            first = self.assert_learns("--dtype", dtype)
            self.assertTrue(first.startswith("adamw: lr 0.01, weight_decay 0.01\n"), first)
            self.assertEqual(first, self.assert_learns("--dtype", dtype))

    def test_well_known_algorithms_learn(self):
        for name in "sgd", "adam", "fused_adam", "fused_sgd":
            for dtype in "f32", "bf16", "f16":
                output = self.assert_learns("--optimizer", name, "--dtype", dtype)
                self.assertTrue(output.startswith(name + ": lr "), output)

    def test_the_comparison_takes_the_lr_that_the_validation_third_chooses(self):
        grid = ["0.00001", "0.01", "0.1"]
        status, rows, text = compare("--grid", ",".join(grid), "--least", "0", "--", "--epochs", "2")
        self.assertEqual(status, 0, text)
        self.assertEqual(list(rows), listed("algorithms"), text)
        for name in "adamw", "sgd":
            ends = {}
            for lr in grid:
                lines = run("--optimizer", name, "--epochs", "2", "--set", "lr=" + lr).stdout
                scores = re.findall(r"^(?:validation|test) accuracy (\S+)", lines, re.MULTILINE)
                ends[lr] = scores
            best = max(grid, key=lambda lr: float(ends[lr][0]))
            self.assertEqual(rows[name][:3], [best, *ends[best]], ends)

    def test_the_comparison_fails_below_its_floor(self):
        few = "--grid", "0.01", "--", "--epochs", "1"
        status, rows, text = compare("--least", "1.1", *few)
        self.assertEqual(status, 1, text)
        self.assertEqual(rows["adamw"][3], "BELOW 1.1", text)
        self.assertNotIn("BELOW", " ".join(rows["sparse_adam"]), text)
        status, rows, text = compare("--least", "0", *few, "--set", "nosuch=1")
        self.assertEqual(status, 1, text)
        self.assertIn("nosuch", " ".join(rows["adamw"]), text)


class Short(Program):
    """What runs a few epochs, or none."""

    def test_every_algorithm_runs(self):
        names = listed("algorithms") + listed("aliases")
        self.assertIn("adamw", names)
        for name in names:
            result = run("--optimizer", name, "--epochs", "1")
            self.assertEqual((result.returncode, result.stderr), (0, ""), name)
            accuracy(result)

    def test_gradients_as_rows_give_the_bits_of_dense_ones(self):
        plain = "--optimizer", "sgd", "--epochs", "2", "--set", "momentum=0"
        dense, rows = run(*plain), run(*plain, "--rows")
        self.assertEqual((rows.returncode, rows.stderr), (0, ""))
        self.assertEqual(dense.stdout, rows.stdout)

    def test_threads_never_change_the_result(self):
        one, many = run("--epochs", "3", "--threads", "1"), run("--epochs", "3", "--threads", "4")
        self.assertEqual(one.returncode, 0, one.stderr)
        self.assertEqual(one.stdout, many.stdout)

    def test_seed_and_settings_change_the_result(self):
        usual = run("--epochs", "3").stdout
        for change in ["--seed", "2"], ["--set", "lr=0.002"], ["--batch", "7"]:
            self.assertNotEqual(usual, run("--epochs", "3", *change).stdout, change)

    def test_set_reaches_the_library(self):
        result = run("--epochs", "1", "--set", "beta1=0.8", "--set", "lr=0.02")
        self.assertEqual(
            result.stdout.splitlines()[0], "adamw: lr 0.02, beta1 0.8, weight_decay 0.01"
        )

    def test_log_has_a_row_per_epoch(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log.csv")
            self.assertEqual(run("--epochs", "4", "--log", path).returncode, 0)
            with open(path, encoding="utf-8") as file:
                header, *rows = file.read().splitlines()
        self.assertEqual(header, CSV_HEADER)
        self.assertEqual([row.split(",")[0] for row in rows], ["1", "2", "3", "4"])
        losses = [float(row.split(",")[1]) for row in rows]
        self.assertLess(losses[-1], losses[0])
        self.assertTrue(all(len(row.split(",")) == 4 for row in rows), rows)

    def test_progress_bar_on_a_terminal_only(self):
        try:
            [os.close(end) for end in pty.openpty()]
        except OSError as error:
            self.skipTest(str(error))
        self.assertIn("epoch 2 of 2", on_terminal("--epochs", "2"))
        self.assertEqual(on_terminal("--epochs", "2", "--quiet"), "")
        self.assertEqual(run("--epochs", "2").stderr, "")

    def test_bad_usage_exits_with_2(self):
        bad = [
            ("--epochs", "0"), ("--epochs", "1x"), ("--epochs", ""), ("--epochs", "1e3"),
            ("--epochs", "99999999999999999999"), ("--batch", "-1"), ("--seed", "-1"),
            ("--seed", "nine"), ("--threads", "-2"), ("--dtype", "f64"), ("--set", "lr"),
            ("--set", "lr="), ("--set", "=1"), ("--set", "lr=1,5"), ("--nonsense", "1"),
            ("--save", "weights.bin"), ("--save", ".safetensors"), ("--stop-after", "-1"),
            ("--epochs",), ("--verbose",), ("extra", "word"),
        ]
        for args in bad:
            self.assert_fails(2, args[0], *args)

    def test_library_errors_are_shown_and_exit_with_1(self):
        self.assert_fails(1, "nosuch", "--optimizer", "nosuch")
        self.assert_fails(1, "nosuch", "--set", "nosuch=1")
        self.assert_fails(1, "TALUS_E_RANGE", "--set", "lr=-1")
        self.assert_fails(1, "TALUS_E_RANGE", "--set", "lr=nan")

    def test_file_errors_exit_with_1(self):
        self.assert_fails(1, "/nosuch.csv", "--data", "/nosuch.csv")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bad.csv")
            for text in "", "1,2,3\n", ",".join(["17"] * 64) + ",1\n", ",".join(["0"] * 66) + "\n":
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assert_fails(1, path, "--data", path)
        result = run("--epochs", "1", "--log", "/nosuch/log.csv")
        self.assertEqual(result.returncode, 1)
        self.assertIn("/nosuch/log.csv", result.stderr)

    def test_help_has_an_example_that_works(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        example = re.search(r"Example: train_digits (.*)", result.stdout)[1].split()
        self.assertEqual(run(*example, "--epochs", "1").returncode, 0)


def on_terminal(*args):
    """Runs the program with a terminal as its standard error; returns what came there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([binary, *args], stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 4096):
                text += chunk
        except OSError:  # the end of a terminal on Linux
            pass
        assert process.wait() == 0
    os.close(ours)
    return text.decode()


if __name__ == "__main__":
    binary, comparison = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
