"""Trains a small transformer on the characters of a novel, once with talus.torch.AdamW and once
with torch.optim.AdamW, from the same seed: two curves of loss that must be the same line.

    transformer.py [--steps N] [--plot FILE.svg]

Needs PyTorch; the plot needs gnuplot. Exit status 1: the losses differ by more than BOUND, or do
not fall. For the use of talus read `groups` and the one line of main that names it.
"""
import argparse
import math
import pathlib
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    print("SKIPPED: torch is not there")
    sys.exit(77)

import talus.torch

TEXT = pathlib.Path(__file__).with_name("data") / "pride_and_prejudice.txt"
sys.path.append(str(pathlib.Path(__file__).parents[2] / "examples"))
from digits_training import data_block, draw, show_progress

CONTEXT, BATCH, WIDTH, HEADS, LAYERS = 64, 8, 64, 4, 2
LR, WARM_UP, WEIGHT_DECAY, MAX_NORM, SEED = 3e-3, 20, 0.1, 1.0, 1
# Of the losses of a step. The two round in another order, which training may grow: the most seen in
# 400 steps is 4.8e-7, one or two units in the last place of a loss.
BOUND = 1e-4
LEAST_FALL = 1.5  # nats, from 4.3 = log 74 at random


class Block(nn.Module):
    """Attention to what is before, then two layers, each beside a path around it."""

    def __init__(self):
        super().__init__()
        self.before_attention, self.before_layers = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                    nn.Linear(4 * WIDTH, WIDTH))

    def attend(self, x):
        batch, length, _ = x.shape
        parts = self.query_key_value(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.before_attention(x))
        return x + self.layers(self.before_layers(x))


class Transformer(nn.Module):
    """From characters to logits of the next one."""

    def __init__(self, characters):
        super().__init__()
        self.character = nn.Embedding(characters, WIDTH)
        self.position = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.logits = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, x):
        return self.logits(self.norm(self.blocks(self.character(x) + self.position)))


def read_text():
    """Returns the text as numbers, and how many characters there are."""
    text = TEXT.read_text(encoding="ascii")
    number = {character: i for i, character in enumerate(sorted(set(text)))}
    return torch.tensor([number[character] for character in text]), len(number)


def batches(text, steps):
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(steps):
        first = torch.randint(len(text) - CONTEXT, (BATCH,), generator=generator)
        windows = torch.stack([text[i:i + CONTEXT + 1] for i in first.tolist()])
        yield windows[:, :-1], windows[:, 1:]


def groups(model):
    """Biases, norms and positions do not decay."""
    named = list(model.named_parameters())
    return [{"params": [p for name, p in named if p.ndim == 2 and name != "position"]},
            {"params": [p for name, p in named if p.ndim != 2 or name == "position"],
             "weight_decay": 0.0}]


def rate(step, steps):
    """Of LR: a line up, then half a cosine down."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * (step - WARM_UP) / max(steps - WARM_UP, 1))


def train(kind, steps):
    """Returns the loss of every step."""
    text, characters = read_text()
    torch.manual_seed(SEED)
    model, losses = Transformer(characters), []
    opt = kind(groups(model), lr=LR, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: rate(step, steps))
    for x, y in batches(text, steps):
        opt.zero_grad()
        loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        opt.step()
        scheduler.step()
        losses.append(loss.item())
        show_progress(f"{kind.__module__}.{kind.__name__}: step {len(losses)} of {steps}, loss "
                      f"{losses[-1]:.4f}")
    show_progress("")
    return losses


def plot(ours, theirs, path):
    gap = [(i, max(abs(a - b), 1e-9)) for i, (a, b) in enumerate(zip(ours, theirs))]
    script = [*data_block("ours", list(enumerate(ours))),
              *data_block("theirs", list(enumerate(theirs))), *data_block("gap", gap),
              "set multiplot layout 2,1", "set xlabel 'step'",
              "set ylabel 'loss (nats a character)'",
              "plot $theirs with lines lw 5 lc rgb '#f0b060' title 'torch.optim.AdamW', "
              "$ours with lines lw 1 lc rgb '#204080' title 'talus.torch.AdamW'",
              "set logscale y", "set ylabel 'difference'",
              f"plot $gap with lines lc rgb '#204080' title 'between them', {BOUND} "
              "with lines dt 2 lc rgb '#c03030' title 'bound'", "unset multiplot"]
    draw(script, path, "loss of both")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--plot", metavar="FILE.svg")
    arguments = parser.parse_args()
    ours = train(talus.torch.AdamW, arguments.steps)
    theirs = train(torch.optim.AdamW, arguments.steps)
    if arguments.plot:
        plot(ours, theirs, arguments.plot)
    worst = max(abs(a - b) for a, b in zip(ours, theirs))
    print(f"loss {ours[0]:.4f} to {ours[-1]:.4f} in {arguments.steps} steps, torch.optim.AdamW "
          f"{theirs[-1]:.4f}; largest difference at a step {worst:.1e}, bound {BOUND:g}")
    return 0 if worst <= BOUND and ours[0] - ours[-1] >= LEAST_FALL else 1


if __name__ == "__main__":
    sys.exit(main())
