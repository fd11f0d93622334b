"""Schedules of the digit example as a user gives them, and the picture of some.

    check_schedules.py TRAIN_DIGITS SCHEDULE_DIGITS [Short]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import check_digits
from check_digits import Program, run

drawing = ""
LEARNING = {  # with which algorithm
    "lr one_cycle max_value=0.02 total_steps=600": "adamw",
    "lr sequential milestones=76 (linear start_factor=0.01 total_iters=76) (cosine T_max=1444)":
        "adamw",
    "lr wsd warmup_steps=76 stable_steps=1064 decay_steps=380 clock=called": "sgd",
    "lr multistep milestones=60,30 clock=manual": "adamw",
    "lr chained (linear total_iters=38) (plateau patience=3 factor=0.3 threshold=0.01)": "sgd",
}

# (column, what is expected there, spec): exit code 2
BAD_TEXTS = [
    (1, "a hyperparameter", ""), (3, "a kind of schedule", "lr"), (4, "a kind", "lr (linear)"),
    (4, "no function of C", "lr lambda"), (13, "no function of C", "lr chained (multiplicative)"),
    (19, "a number", "lr step step_size="), (19, "a number", "lr step step_size= 3"),
    (19, "a number", "lr step step_size=3x"), (18, "= and a value", "lr step step_size"),
    (10, "NAME=NUMBER", "lr linear; step"), (17, "called", "lr linear clock=never"),
    (22, "a number", "lr linear end_factor=1e999"),
    (25, "integers", "lr multistep milestones=,1"), (27, "integers", "lr multistep milestones=1,"),
    (27, "integers", "lr multistep milestones=1,,2"),
    (25, "integers", "lr multistep milestones=1.5"), (19, "closing", "lr chained (linear"),
    (20, "the end", "lr chained (linear))"), (26, "the clock", "lr chained (linear clock=manual)"),
    (10, "the end", "lr linear)"), (13, "a kind", "lr chained ()"),
    (25, "integers", "lr multistep milestones=99999999999999999999"),
    (4, "a kind of schedule", "lr " + "a" * 64),
    (208, "64 milestones", "lr multistep milestones=" + ",".join(map(str, range(1, 66)))),
    (85, "8 levels", "lr " + "chained (" * 9 + "linear" + ")" * 9),
]

# What the library refuses: exit code 1
REFUSED = [
    (4, "TALUS_E_NAME", "lr nosuch"), (1, "TALUS_E_NAME", "nosuch linear"),
    (11, "TALUS_E_NAME", "lr linear nosuch=1"), (9, "TALUS_E_RANGE", "lr step step_size=0"),
    (1, "TALUS_E_STATE", "lr step"), (11, "TALUS_E_NAME", "lr linear milestones=1"),
    (14, "TALUS_E_RANGE", "lr multistep milestones=-1"),
    (11, "TALUS_E_UNSUPPORTED", "lr linear (linear)"),
    (1, "TALUS_E_STATE", "lr sequential (linear) (linear)"),
    (1, "TALUS_E_STATE", "lr chained (plateau) (linear)"),
    (1, "TALUS_E_UNSUPPORTED", "amsgrad linear"),
]


class Learning(Program):
    def test_every_kind_of_clock_and_composition_learns(self):
        for spec, algorithm in LEARNING.items():
            self.assert_learns("--optimizer", algorithm, "--schedule", spec)


class Short(Program):
    """What runs a few epochs, or none."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def trace(self, *args):
        """The lr of each step, and what the steps led to."""
        trace, parameters = (os.path.join(self.folder, name) for name in ("trace", "parameters"))
        result = run("--trace", trace, "--parameters", parameters, *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        with open(trace, encoding="utf-8") as file:
            header, *rows = file.read().splitlines()
        self.assertEqual(header, "step,lr,train_loss")
        self.assertEqual([int(row.split(",")[0]) for row in rows], list(range(len(rows))))
        with open(parameters, "rb") as file:
            return [float(row.split(",")[1]) for row in rows], file.read()

    def test_the_line_without_a_schedule_is_the_one_of_polynomial_by_epoch(self):
        args = "--epochs", "4", "--set", "lr=0.03"
        expected = [0.03 * (1 - epoch / 4) for epoch in range(4) for _ in range(19)]
        plain, scheduled = self.trace(*args), self.trace(
            *args, "--schedule", "lr polynomial total_iters=4 clock=manual")
        self.assertEqual(plain, scheduled)
        self.assertEqual(plain[0], expected)

    def test_clocks_and_pieces_give_their_values_to_the_steps(self):
        lrs, _ = self.trace("--epochs", "2", "--set", "lr=1e-3", "--schedule",
                            "lr sequential milestones=3,5 (linear total_iters=2 start_factor=0.5) "
                            "(constant factor=0.25 total_iters=2) (chained (step step_size=30 "
                            "gamma=0.5) (constant total_iters=0))")
        expected = [0.5, 0.75, 1, 0.25, 0.25] + [1] * 30 + [0.5] * 3
        self.assertEqual(lrs, [1e-3 * factor for factor in expected])

    def test_a_list_of_milestones_may_be_empty(self):
        plain = self.trace("--epochs", "1", "--schedule", "lr constant total_iters=0")
        self.assertEqual(plain, self.trace("--epochs", "1", "--schedule",
                                           "lr multistep milestones= gamma=0.5"))

    def test_a_plateau_is_told_of_each_epoch(self):
        lrs, _ = self.trace("--epochs", "4", "--set", "lr=1e-3", "--schedule",
                            "lr plateau threshold=0.99 patience=0 factor=0.5")
        self.assertEqual(lrs, [1e-3 * 0.5 ** max(0, epoch - 1)
                               for epoch in range(4) for _ in range(19)])

    def test_other_hyperparameters_and_several_at_once(self):
        args = "--optimizer", "sgd", "--epochs", "2"
        lr = "--schedule", "lr linear"
        both = *lr, "--schedule", "momentum linear start_factor=0.9"
        lrs, plain = self.trace(*args)
        lrs_alone, alone = self.trace(*args, *lr)
        lrs_both, together = self.trace(*args, *both)
        self.assertEqual(lrs_alone, lrs_both)
        self.assertNotEqual(lrs, lrs_alone)
        self.assertEqual(len({plain, alone, together}), 3)

    def test_bad_texts_exit_with_2(self):
        for column, text, spec in BAD_TEXTS:
            where = f"--schedule '{spec}', column {column}: expected "
            self.assert_fails(2, where, "--schedule", spec)
            self.assert_fails(2, text, "--schedule", spec)
        many = ["--schedule", "lr linear"] * 17
        self.assert_fails(2, "too many --schedule", *many)

    def test_what_the_library_refuses_exits_with_1(self):
        for column, status, spec in REFUSED:
            args = "--epochs", "1", "--schedule", spec
            self.assert_refused(1, f"--schedule '{spec}', column {column}: {status}: ", run(*args),
                                args)
        twice = ["--schedule", "lr linear"] * 2
        self.assert_refused(1, "lr has the schedule", run(*twice), twice)
        rises = "--schedule", "beta1 linear end_factor=3"
        self.assert_refused(1, "at t = ", run(*rises), rises)


class Picture(Program):
    """schedule_digits.py, which tools/demo --schedules calls."""

    def draw(self, *args):
        command = [sys.executable, "-B", drawing, check_digits.binary, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_a_row_for_each_schedule_and_a_picture_of_all(self):
        with tempfile.TemporaryDirectory() as folder:
            svg = os.path.join(folder, "schedules.svg")
            result = self.draw("--least", "0", "--plot", svg, "--", "--epochs", "6")
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            head, *rows, last = result.stdout.splitlines()
            self.assertEqual(head.split(), ["schedule", "final", "loss", "validation", "test"])
            names = [row[:19].strip() for row in rows]
            self.assertEqual(names, ["constant", "step", "cosine with warm-up", "one_cycle", "wsd",
                                     "plateau"])
            self.assertEqual(len({row[19:] for row in rows[:5]}), 5, result.stdout)
            if not shutil.which("gnuplot"):
                self.assertIn("plot skipped", last)
                return
            with open(svg, encoding="utf-8") as file:
                picture = file.read()
            self.assertEqual(last, "schedules: " + svg)
            for name in [*names, "lr", "training loss"]:
                self.assertIn(f">{name}<", picture)

    def test_the_constant_one_is_the_run_of_that_lr(self):
        row = self.draw("--least", "0", "--", "--epochs", "2").stdout.splitlines()[1]
        plain = run("--epochs", "2", "--schedule", "lr constant total_iters=0").stdout
        self.assertEqual(row.split()[2:], re.findall(r"accuracy (\S+)", plain))

    def test_a_run_that_fails_or_ends_below_the_floor_fails(self):
        result = self.draw("--least", "1.1", "--", "--epochs", "1")
        self.assertEqual((result.returncode, result.stdout.count("BELOW 1.1")), (1, 6))
        result = self.draw("--", "--set", "nosuch=1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("nosuch", result.stdout)


if __name__ == "__main__":
    check_digits.binary, drawing = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
