"""Trains the digits in every level of mixed precision: a table, and a picture of losses and scales.

    amp_digits.py TRAIN_DIGITS [--least ACCURACY] [--plot SVG] [-- OPTION...]

All begin at the same weights. In the last rows the loss has a small weight, as one of several may have,
and gradients are too small for f16. There the run without a scale has to end with a loss of at least
WORSE times that of f32, else it would show nothing. Exit code 1: that, a run below ACCURACY on
the test third which has what it needs, or a failure. OPTIONs go to train_digits.
"""
import csv
import math
import re
import sys
import tempfile
from typing import NamedTuple

import digits_training

LEAST = 0.96
SMALL = "3e-6"  # a weight of the loss, at which most gradients of a batch round to 0 in f16
WORSE = 2
NO_SCALE = "no scale"
F16 = "--amp-dtype", "f16"
LEVELS = {
    "O0 f32": ["--amp", "O0"],
    "O1 bf16": ["--amp", "O1"],
    "O1 f16": ["--amp", "O1", *F16],
    "O2 bf16": ["--amp", "O2"],
    "O2 f16": ["--amp", "O2", *F16],
    f"O2 f16, {NO_SCALE}": ["--amp", "O2", *F16, "--loss-scale", "1"],
}
MODES = LEVELS | {f"{name}, small": [*LEVELS[name], "--loss-weight", SMALL] for name in
                  ("O0 f32", "O2 bf16", "O2 f16", f"O2 f16, {NO_SCALE}")}
REFERENCE = "O0 f32, small"
WIDTH = max(map(len, MODES))


class Run(NamedTuple):
    losses: list  # of each step, over the last ones
    scales: list  # of each step
    output: str
    error: str  # "" if it went well

    def loss(self):
        return self.losses[-1] if self.losses else math.nan


def must_fail(name):
    return name.endswith("small") and NO_SCALE in name


def train(arguments, options, trace):
    output, error = digits_training.train(arguments.train_digits, *arguments.options, *options,
                                          "--trace", trace)
    if error:
        return Run([], [], "", error)
    with open(trace, encoding="utf-8") as file:
        steps = list(csv.DictReader(file))
    losses = digits_training.trailing_means([float(step["train_loss"]) for step in steps])
    return Run(list(losses), [float(step["loss_scale"]) for step in steps], output, "")


def all_runs(arguments):
    """Yields (name, run), as they get done."""
    with tempfile.TemporaryDirectory() as folder, digits_training.pool() as pool:
        started = [(name, pool.submit(train, arguments, options, f"{folder}/{i}.csv"))
                   for i, (name, options) in enumerate(MODES.items())]
        for name, run in started:
            yield name, run.result()


def verdict(name, run, test, least, reference):
    """What is not as it must be, or "". least 0: nothing has to be."""
    if must_fail(name):
        is_worse = not run.loss() < WORSE * reference
        return "" if is_worse or least == 0 else f"NOT {WORSE} times the loss of {REFERENCE}"
    return "" if test >= least else f"BELOW {least}"


def report(name, run, least, reference):
    """Prints one row; returns whether it is as it must be."""
    if run.error:
        print(f"{name:<{WIDTH}}  refused: {run.error}", flush=True)
        return False
    scale, skipped, stored, moved = re.search(
        r"loss scale (\S+), (\d+) steps skipped; .*: (\S+) stored, (\S+) moved",
        run.output).groups()
    test = digits_training.accuracy_in(run.output, "test")
    problem = verdict(name, run, test, least, reference)
    print(f"{name:<{WIDTH}}  {run.loss():6.4f}  {test:8.4f}  {float(scale):8.0f}  {skipped:>7}  "
          f"{stored:>6}  {moved:>5}  {problem}".rstrip(), flush=True)
    return not problem


def panel(number, label, curves):
    """Lines of gnuplot that draw the curves, by name, in one panel."""
    lines = [f"set ylabel '{label}'"]
    if not curves:
        return ["set multiplot next"]
    for i, values in enumerate(curves.values()):
        lines += digits_training.data_block(f"curve{number}_{i}", digits_training.thinned(values))
    every = [value for values in curves.values() for value in values]
    lines.append(f"set yrange [{min(every) / 1.5}:{max(every) * 1.5}]")  # also of what is flat
    return [*lines, "plot " + ", ".join(
        f"$curve{number}_{i} using 1:2 with lines linewidth 2 title '{name}'"
        for i, name in enumerate(curves))]


def plot(runs, svg):
    """Losses of the small rows and of the others, and the scales, on one axis of steps each."""
    script = ["set multiplot layout 3,1", "set key outside right noenhanced", "set lmargin 10",
              "set rmargin 28", f"set xrange [0:{max(len(run.losses) for run in runs.values())}]",
              "set logscale y", "set format y '%g'"]
    small = {name: run.losses for name, run in runs.items() if name.endswith("small")}
    usual = {name: run.losses for name, run in runs.items() if name not in small}
    scales = {name: run.scales for name, run in runs.items() if run.scales[0] > 1}
    script += panel(0, "training loss", usual)
    script += panel(1, "loss, small gradients", small)
    script += ["set xlabel 'step'", *panel(2, "loss scale", scales)]
    digits_training.draw([*script, "unset multiplot"], svg, "mixed precision", rows=60, height=1000)


def main():
    arguments = digits_training.parse_arguments(__doc__, LEAST)
    runs, good = {}, True
    print(f"small: the loss has the weight {SMALL}; moved: bytes that a step reads and writes for each "
          "parameter")
    print(f"{'mode':<{WIDTH}}    loss      test     scale  skipped  stored  moved")
    digits_training.show_progress(f"training in {len(MODES)} modes")
    for name, run in all_runs(arguments):
        runs[name] = run
        digits_training.show_progress("")
        reference = runs[REFERENCE].loss() if REFERENCE in runs else math.nan
        good &= report(name, run, arguments.least, reference)
        if len(runs) < len(MODES):
            digits_training.show_progress(f"training: {len(runs)} of {len(MODES)} done")
    curves = {name: run for name, run in runs.items() if run.losses}
    if arguments.plot and curves:
        plot(curves, arguments.plot)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
