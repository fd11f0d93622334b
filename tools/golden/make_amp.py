"""Writes tests/golden/amp_torch.json from the real PyTorch, on the CPU: GradScaler's scale and growth
tracker over rounds, and clip_grad_norm_ and clip_grad_value_ with what they leave.

    VENV/bin/python tools/golden/make_amp.py

Data are seeded here, so two runs of one version give the same file.
"""
import random

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import golden_file

SCALERS = [
    {},
    dict(growth_interval=3),
    dict(init_scale=1000., growth_factor=1.7, backoff_factor=.3, growth_interval=2),
    dict(init_scale=2.**-10, growth_factor=3., backoff_factor=.9, growth_interval=1),
    dict(init_scale=777.7, growth_factor=1.1, backoff_factor=.125, growth_interval=4),
    dict(init_scale=2.**16, growth_factor=1.0001, backoff_factor=.9999, growth_interval=5),
]
ROUNDS, OFTEN = 48, (.05, .3, .7)
SIZES = [[1], [7], [5, 1, 40], [129, 33, 64, 3]]


def scaler(draw, options, often):
    torch_scaler = torch.amp.GradScaler("cpu", **options)
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([p], lr=0.)
    rounds, scales, trackers = "", [], []
    for _ in range(ROUNDS):
        torch_scaler.scale(torch.zeros(()))  # the scale exists from the first loss on
        found = draw.random() < often
        p.grad = torch.ones(3)
        if found:
            p.grad[draw.randrange(3)] = draw.choice([float("inf"), -float("inf"), float("nan")])
        torch_scaler.step(optimizer)
        torch_scaler.update()
        rounds += "X" if found else "o"
        scales.append(torch_scaler.get_scale())
        trackers.append(float(torch_scaler._get_growth_tracker()))
    return {"settings": options, "rounds": rounds, "scales": scales, "trackers": trackers}


def gradients(draw, sizes, dtype):
    made = []
    for size in sizes:
        p = torch.nn.Parameter(torch.zeros(size, dtype=dtype))
        p.grad = torch.tensor([golden_file.away_from_zero(draw, .01, 2) for _ in range(size)],
                              dtype=dtype)
        made.append(p)
    return made


def flat(params):
    return [x for p in params for x in p.grad.tolist()]


def clip_norm(draw, sizes, dtype, kind, max_norm):
    params = gradients(draw, sizes, dtype)
    row = {"dtype": str(dtype).removeprefix("torch.float"), "type": str(kind),
           "max_norm": max_norm, "sizes": sizes, "gradients": flat(params)}
    norm = clip_grad_norm_(params, max_norm, kind)
    return {**row, "norm": norm.item(), "clipped": flat(params)}


def clip_value(draw, sizes, dtype, most):
    params = gradients(draw, sizes, dtype)
    row = {"dtype": str(dtype).removeprefix("torch.float"), "max_value": most, "sizes": sizes,
           "gradients": flat(params)}
    clip_grad_value_(params, most)
    return {**row, "clipped": flat(params)}


def tables():
    draw = random.Random("amp")
    dtypes = (torch.float64, torch.float32)
    return {
        "source": [{"torch": torch.__version__.split("+")[0]}],
        "scaler": [scaler(draw, options, often) for options in SCALERS for often in OFTEN],
        "clip_norm": [clip_norm(draw, sizes, dtype, kind, max_norm)
                      for dtype in dtypes for kind in (1., 2., float("inf"))
                      for sizes in SIZES for max_norm in (.5, 1e4)],
        "clip_value": [clip_value(draw, sizes, dtype, most)
                       for dtype in dtypes for sizes in SIZES for most in (.25, 1., 5.)],
    }


if __name__ == "__main__":
    text = golden_file.text_of(tables())
    (golden_file.FOLDER / "amp_torch.json").write_text(text + "\n")
