"""Trains the digits with some schedules of the learning rate: a table, and a picture of both.

    schedule_digits.py TRAIN_DIGITS [--least ACCURACY] [--plot SVG] [-- OPTION...]

All begin at the same weights and have the same lr as base. Exit code 1: a run ended below ACCURACY
on the test third, or failed. OPTIONs go to train_digits.
"""
import csv
import sys
import tempfile
from typing import NamedTuple

import digits_training

LEAST = 0.95
MOST_POINTS = 400  # of a curve in the picture
SMOOTHED = 57  # steps: three epochs of the default batch


class Run(NamedTuple):
    lrs: list  # of each step
    losses: list  # of each step, the mean of SMOOTHED steps that end there
    output: str
    error: str  # "" if it went well


def schedules(steps):
    """(name, what train_digits --schedule takes) for a run of so many steps."""
    warmup, decay = steps // 20, steps // 4
    return [
        ("step", f"step step_size={max(1, steps // 3)} gamma=0.3"),
        ("cosine with warm-up", f"sequential milestones={warmup} "
         f"(linear start_factor=0.01 total_iters={warmup}) (cosine T_max={steps - warmup})"),
        ("one_cycle", f"one_cycle total_steps={max(2, steps)}"),
        ("wsd", f"wsd warmup_steps={warmup} stable_steps={steps - warmup - decay} "
         f"decay_steps={decay}"),
        ("plateau", "plateau patience=4 factor=0.3 threshold=0.01"),
    ]


def trailing_means(values):
    for i in range(len(values)):
        window = values[max(0, i + 1 - SMOOTHED):i + 1]
        yield sum(window) / len(window)


def train(arguments, spec, trace):
    output, error = digits_training.train(arguments.train_digits, *arguments.options,
                                          "--schedule", f"lr {spec}", "--trace", trace)
    if error:
        return Run([], [], "", error)
    with open(trace, encoding="utf-8") as file:
        steps = list(csv.DictReader(file))
    losses = trailing_means([float(step["train_loss"]) for step in steps])
    return Run([float(step["lr"]) for step in steps], list(losses), output, "")


def all_runs(arguments):
    """Yields (name, run). The constant one comes first and tells how many steps there are."""
    with tempfile.TemporaryDirectory() as folder, digits_training.pool() as pool:
        first = train(arguments, "constant total_iters=0", f"{folder}/constant.csv")
        yield "constant", first
        if first.error:
            return
        started = [(name, pool.submit(train, arguments, spec, f"{folder}/{name}.csv"))
                   for name, spec in schedules(len(first.lrs))]
        for name, run in started:
            yield name, run.result()


def show_progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def report(name, run, least):
    """Prints one row; returns whether it is as it must be."""
    if run.error:
        print(f"{name:<19}  refused: {run.error}", flush=True)
        return False
    validation, test = (digits_training.accuracy_in(run.output, part)
                        for part in ("validation", "test"))
    print(f"{name:<19}  {run.losses[-1]:10.4f}  {validation:10.4f}  {test:8.4f}"
          f"{'' if test >= least else f'  BELOW {least}'}", flush=True)
    return test >= least


def thinned(values):
    stride = -(-len(values) // MOST_POINTS)
    return list(enumerate(values))[::stride]


def plot(runs, svg):
    """The schedules above, the losses that they lead to below, on one axis of steps."""
    script = ["set multiplot layout 2,1", "set key outside right noenhanced", "set lmargin 10",
              "set rmargin 24", "set ylabel 'lr'", "set offsets 0, 0, graph 0.05, 0",
              f"set xrange [0:{max(len(run.lrs) for run in runs.values())}]"]
    for kind, above in ("lr", True), ("loss", False):
        for i, run in enumerate(runs.values()):
            values = run.lrs if above else run.losses
            script += digits_training.data_block(f"{kind}{i}", thinned(values))
        if not above:
            script += ["set logscale y", "set yrange [*:*] noextend", "unset offsets",
                       "set ylabel 'training loss'", "set xlabel 'step'"]
        script.append("plot " + ", ".join(
            f"${kind}{i} using 1:2 with lines linewidth 2 title '{name}'"
            for i, name in enumerate(runs)))
    digits_training.draw([*script, "unset multiplot"], svg, "schedules", rows=48, height=800)


def main():
    arguments = digits_training.parse_arguments(__doc__, LEAST)
    runs, good, count = {}, True, 1 + len(schedules(1))
    print(f"{'schedule':<19}  final loss  validation      test")
    show_progress(f"training with {count} schedules")
    for name, run in all_runs(arguments):
        runs[name] = run
        show_progress("")
        good &= report(name, run, arguments.least)
        if len(runs) < count:
            show_progress(f"training: {len(runs)} of {count} done")
    show_progress("")
    curves = {name: run for name, run in runs.items() if run.losses}
    if arguments.plot and curves:
        plot(curves, arguments.plot)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
