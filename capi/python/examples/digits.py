"""Trains a digit classifier with talus and the standard library alone.

    digits.py [--epochs N] [--save FILE] [--stop-after N] [--resume FILE]

The network is this program's own affair; talus sees arrays and names. For its use read `optimizer`,
`train` and `main`. A run that is stopped and resumed has the bits of one that is not. The images
and their thirds are those of train_digits.c; --epochs, HIDDEN, NOISE and LR were set by the
validation third, and the test third is read once, at the end.
"""
import argparse
import array
import math
import operator
import pathlib
import random
import sys

import talus

DATA = pathlib.Path(__file__).parents[2] / "examples" / "data" / "digits.csv"
SPLIT_SEED = 1797
PIXELS, HIDDEN, CLASSES = 64, 64, 10
NOISE = 0.3  # standard deviation, added to pixels in training
LR, BATCH, SEED = 0.02, 32, 1
SHAPES = {"hidden.weight": (HIDDEN, PIXELS), "hidden.bias": (HIDDEN,),
          "output.weight": (CLASSES, HIDDEN), "output.bias": (CLASSES,)}


def splitmix(state):
    """SplitMix64 (Steele, Lea & Flood 2014), by which the images are split."""
    mask = (1 << 64) - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        yield z ^ z >> 31


def load_thirds(path):
    """Returns training, validation and test: lists of (64 pixels of 0 to 1, digit)."""
    rows = [[int(word) for word in line.split(",")] for line in open(path, encoding="ascii")]
    images = [([pixel / 16 for pixel in row[:PIXELS]], row[PIXELS]) for row in rows]
    bits = splitmix(SPLIT_SEED)
    for i in range(len(images) - 1, 0, -1):
        j = (next(bits) >> 32) * (i + 1) >> 32
        images[i], images[j] = images[j], images[i]
    third = len(images) // 3
    return [images[k * third:(k + 1) * third] for k in range(3)]


class Network:
    """64 pixels, a layer of rectified units, 10 logits; parameters and gradients are f32."""

    def __init__(self, rng):
        self.params = {name: array.array("f", bytes(4 * math.prod(shape)))
                       for name, shape in SHAPES.items()}
        for name in ("hidden.weight", "output.weight"):  # He et al. 2015; biases are 0
            bound = math.sqrt(6 / SHAPES[name][1])
            for i in range(len(self.params[name])):
                self.params[name][i] = rng.uniform(-bound, bound)
        self.grads = {name: array.array("f", bytes(4 * len(values)))
                      for name, values in self.params.items()}

    def rows(self, layer):
        """The weights of each output, and its bias."""
        weight, inputs = self.params[layer + ".weight"].tolist(), SHAPES[layer + ".weight"][1]
        return [weight[i:i + inputs] for i in range(0, len(weight), inputs)], \
            self.params[layer + ".bias"].tolist()

    def store(self, layer, weight, bias):
        self.grads[layer + ".weight"][:] = array.array("f", [g for row in weight for g in row])
        self.grads[layer + ".bias"][:] = array.array("f", bias)


def affine(rows, biases, inputs):
    return [sum(map(operator.mul, row, inputs), bias) for row, bias in zip(rows, biases)]


def softmax(logits):
    largest = max(logits)
    powers = [math.exp(logit - largest) for logit in logits]
    total = sum(powers)
    return [power / total for power in powers]


def write_gradients(net, batch):
    """Writes the gradients of the mean cross entropy of a batch; returns that loss."""
    hidden, output = net.rows("hidden"), net.rows("output")
    sums = [[0.0] * PIXELS for _ in range(HIDDEN)], [0.0] * HIDDEN
    tops = [[0.0] * HIDDEN for _ in range(CLASSES)], [0.0] * CLASSES
    loss = 0.0
    for pixels, digit in batch:
        units = [max(unit, 0.0) for unit in affine(*hidden, pixels)]
        delta = softmax(affine(*output, units))
        loss -= math.log(max(delta[digit], 1e-30)) / len(batch)
        delta[digit] -= 1
        below = [0.0] * HIDDEN
        for c, d in enumerate(delta):
            d /= len(batch)
            tops[0][c] = [g + d * unit for g, unit in zip(tops[0][c], units)]
            tops[1][c] += d
            below = [b + d * w for b, w in zip(below, output[0][c])]
        for h, d in enumerate(below):
            if units[h] > 0:
                sums[0][h] = [g + d * pixel for g, pixel in zip(sums[0][h], pixels)]
                sums[1][h] += d
    net.store("hidden", *sums)
    net.store("output", *tops)
    return loss


def count_right(net, images):
    hidden, output = net.rows("hidden"), net.rows("output")
    right = 0
    for pixels, digit in images:
        logits = affine(*output, [max(unit, 0.0) for unit in affine(*hidden, pixels)])
        right += logits.index(max(logits)) == digit
    return right


def optimizer(net, epochs):
    """Biases have a group of their own, since they do not decay; lr falls in a line."""
    opt = talus.Optimizer("adamw", lr=LR)
    biases = opt.add_group(weight_decay=0)
    for name, shape in SHAPES.items():
        opt.add(net.params[name], net.grads[name], name=name, shape=shape,
                group=biases if name.endswith("bias") else 0)
    falls = talus.Schedule("linear", start_factor=1, end_factor=1 / epochs,
                           total_iters=max(epochs - 1, 1))
    opt.attach("lr", falls, clock="manual")
    return opt


def train_epoch(opt, net, images, epoch):
    """Takes a step for each batch. Numbers are drawn by epoch, so there is no generator to save."""
    rng = random.Random(SEED * 1000 + epoch)
    noisy = [([pixel + rng.gauss(0, NOISE) for pixel in pixels], digit) for pixels, digit in images]
    rng.shuffle(noisy)
    opt.set_clock(epoch)
    loss = 0.0
    for i in range(0, len(noisy), BATCH):
        batch = noisy[i:i + BATCH]
        loss += opt.step(lambda: write_gradients(net, batch)) * len(batch) / len(noisy)
    return loss


def show_progress(epoch, epochs, loss, accuracy):
    if sys.stderr.isatty():
        bar = ("#" * (epoch * 30 // epochs)).ljust(30, ".")
        end = "\n" if epoch == epochs else ""
        sys.stderr.write(f"\r[{bar}] epoch {epoch} of {epochs}, loss {loss:.4f}, validation "
                         f"accuracy {accuracy:.4f}{end}")


def train(opt, net, thirds, first, last, epochs):
    for epoch in range(first, last):
        loss = train_epoch(opt, net, thirds[0], epoch)
        show_progress(epoch + 1, epochs, loss, count_right(net, thirds[1]) / len(thirds[1]))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--stop-after", type=int, metavar="N", help="epochs")
    parser.add_argument("--save", metavar="FILE")
    parser.add_argument("--resume", metavar="FILE")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    thirds, net, first = load_thirds(DATA), Network(random.Random(SEED)), 0
    last = min(arguments.epochs, arguments.stop_after or arguments.epochs)
    with optimizer(net, arguments.epochs) as opt:
        if arguments.resume:
            opt.load(arguments.resume, params=True)
            first = int(opt.note("digits.epoch"))
        train(opt, net, thirds, first, last, arguments.epochs)
        if arguments.save:
            opt.set_note("digits.epoch", str(last))
            opt.save(arguments.save, params=True)
        print(f"{opt.stats().steps} steps, {opt.stats().state_bytes} bytes of state")
    if last < arguments.epochs:
        print(f"stopped after {last} epochs of {arguments.epochs}")
        return
    right, count = count_right(net, thirds[2]), len(thirds[2])
    print(f"test accuracy {right / count:.4f} ({right} of {count})")


if __name__ == "__main__":
    main()
