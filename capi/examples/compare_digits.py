"""Trains the digits with every algorithm that the library lists: a table, and a plot of the losses.

    compare_digits.py TRAIN_DIGITS [--grid LR,LR...] [--least ACCURACY] [--plot SVG] [-- OPTION...]

For each algorithm the lr of the grid is taken whose run ends best on the validation third; of that run
alone the accuracy on the test third is read. Exit code 1: one is below ACCURACY that need not be, or
a run failed. OPTIONs go to train_digits.
"""
import csv
import math
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

import digits_training

EPOCHS = 20  # each run; every algorithm and lr has the same
GRID = "0.0001,0.0003,0.001,0.003,0.01,0.03,0.1,0.3,1,3,10"
LEAST = 0.95
# What need not reach it, and why; everything else does.
EXCUSES = {
    "asgd": "no momentum; its averaged weights (slot ax) are not those measured here",
    "rprop": "made for whole data sets: the noise of a batch turns the signs it goes by",
    "sparse_adam": "for embeddings; every row has a gradient here, so it is Adam, dearer",
}


class Run(NamedTuple):
    """One training; loss and accuracy are those of the validation third after the last epoch."""
    lr: str
    accuracy: float
    loss: float
    losses: list  # (epoch, training loss)
    output: str
    error: str  # "" if it went well


def read_log(path):
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    losses = [(row["epoch"], row["train_loss"]) for row in rows]
    return losses, float(rows[-1]["validation_loss"]), float(rows[-1]["validation_accuracy"])


def train(arguments, algorithm, lr, log):
    output, error = digits_training.train(
        arguments.train_digits, "--optimizer", algorithm, "--epochs", str(EPOCHS),
        *arguments.options, "--set", f"lr={lr}", "--log", log)
    if error:
        return Run(lr, 0, 0, [], "", error)
    losses, loss, accuracy = read_log(log)
    return Run(lr, accuracy, loss if math.isfinite(loss) else math.inf, losses, output, "")


def best_of(runs):
    return max(runs, key=lambda run: (not run.error, run.accuracy, -run.loss))


def algorithms(train_digits):
    text = subprocess.run([train_digits, "--help"], capture_output=True, text=True, check=True).stdout
    return re.search(r"^  algorithms:(.*)$", text, re.M)[1].split()


def all_runs(arguments, names, folder):
    """Yields (name, its runs), as they get done."""
    grid = arguments.grid.split(",")
    with digits_training.pool() as pool:
        started = {name: [pool.submit(train, arguments, name, lr, f"{folder}/{name}.{lr}.csv")
                          for lr in grid] for name in names}
        for name in names:
            yield name, [run.result() for run in started[name]]


def report(name, run, least):
    """Prints one row; returns whether it is as it must be."""
    why = EXCUSES.get(name, "")
    if run.error:
        print(f"{name:<12}  refused: {run.error}" + (f" ({why})" if why else ""), flush=True)
        return bool(why)
    test = digits_training.accuracy_in(run.output, "test")
    short = test < least and not why
    print(f"{name:<12}  {run.lr:>6}  {run.accuracy:10.4f}  {test:8.4f}  "
          f"{f'BELOW {least}' if short else why}".rstrip(), flush=True)
    return not short


def plot(curves, svg):
    script = ["set logscale y", "set xlabel 'epoch'", "set ylabel 'training loss'",
              "set key outside right"]
    for i, run in enumerate(curves.values()):
        script += digits_training.data_block(f"curve{i}", run.losses)
    script.append("plot " + ", ".join(
        f"$curve{i} using 1:2 with lines linewidth 2 dashtype {1 + i // 8} "
        f"title '{name} {run.lr}' noenhanced"
        for i, (name, run) in enumerate(curves.items())))
    digits_training.draw(script, svg, "loss curves")


def main():
    arguments = digits_training.parse_arguments(__doc__, LEAST, lambda parser: parser.add_argument(
        "--grid", default=GRID, help="learning rates (%(default)s)"))
    names, curves, good = algorithms(arguments.train_digits), {}, True
    print(f"lr of {arguments.grid.replace(',', ' ')}, chosen on the validation third")
    print(f"{'rule':<12}  {'lr':>6}  validation      test")
    with tempfile.TemporaryDirectory() as folder:
        for name, runs in all_runs(arguments, names, folder):
            chosen = best_of(runs)
            good &= report(name, chosen, arguments.least)
            if chosen.losses:
                curves[name] = chosen
    if arguments.plot and curves:
        plot(curves, arguments.plot)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
