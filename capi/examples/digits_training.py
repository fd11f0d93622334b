"""Runs train_digits for scripts that set several runs beside each other, and draws with gnuplot."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys


def train(train_digits, *options):
    """Returns (what the run printed, "") or ("", why there is nothing)."""
    done = subprocess.run([train_digits, "--threads", "1", "--quiet", *options],
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return "", (done.stderr.strip() or "no message").splitlines()[-1]
    if "test accuracy" not in done.stdout:
        return "", "stopped before its end"
    return done.stdout, ""


def accuracy_in(output, part):
    """part: "validation" or "test"."""
    return float(re.search(rf"^{part} accuracy (\S+)", output, re.M)[1])


def pool():
    """As many runs at once as this process has CPUs."""
    return concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))


def parse_arguments(doc, least, add_more=lambda parser: None):
    """What the scripts have in common; what stands behind "--" are options of train_digits."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train_digits")
    parser.add_argument("--least", type=float, default=least, help="test accuracy (%(default)s)")
    parser.add_argument("--plot", type=pathlib.Path)
    add_more(parser)
    ours, options = sys.argv[1:], []
    if "--" in ours:
        cut = ours.index("--")
        ours, options = ours[:cut], ours[cut + 1:]
    arguments = parser.parse_args(ours)
    arguments.options = options
    return arguments


def gnuplot(script, terminal, output):
    lines = [f"set terminal {terminal}", f"set output '{output}'", *script]
    subprocess.run(["gnuplot"], input="\n".join(lines), text=True, check=True)


def draw(script, svg, what, rows=30, height=600):
    """Draws into the file, and on a terminal into `rows` of its lines."""
    if not shutil.which("gnuplot"):
        print("plot skipped: no gnuplot on this machine")
        return
    if sys.stdout.isatty():
        size = shutil.get_terminal_size((100, 30))
        gnuplot(script, f"dumb size {size.columns}, {rows}", "/dev/stdout")
    gnuplot(script, f'svg size 960,{height} background "white"', svg)
    print(f"{what}: {svg}")


def data_block(name, points):
    return [f"${name} << END", *(" ".join(map(str, point)) for point in points), "END"]
