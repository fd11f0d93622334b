"""Writes tests/golden/schedules_torch.json: PyTorch's schedulers, stepped one by one.

    python3 -m venv VENV && VENV/bin/pip install torch numpy
    VENV/bin/python tools/golden/make_schedules.py

The file names the version of PyTorch. Data are seeded here, so two runs of one version give the same
file. Nothing is installed by this.

Many of PyTorch's schedulers derive a value from the one before, and drift from their own closed form:
where 4e-15, relative and of each value, is too tight for that, the case says how much and why.
"""
import math
import random
import warnings

import torch
from torch.optim import lr_scheduler as lrs

import golden_file

VERSION = "torch " + torch.__version__.split("+")[0]
FUNCTIONS = {"1 / (t + 1)": lambda t: 1 / (t + 1),
             "0.95 at odd t, else 0.9": lambda t: 0.95 if t % 2 else 0.9}
RECURSION = "PyTorch's recursion drifts from its closed form"


def schedule(kind, **parts):
    """As golden_file.py describes it; what is no part of another name is a parameter."""
    named = {key: parts.pop(key) for key in ("milestones", "pieces", "function") if key in parts}
    return {"kind": kind, **({"params": parts} if parts else {}), **named}


def one_cycle(**options):
    named = {"max_value": "max_lr", "anneal": "anneal_strategy"}
    torch_options = {named.get(key, key): value for key, value in options.items()}
    if "anneal" in options:
        torch_options["anneal_strategy"] = "linear" if options["anneal"] else "cos"
    if "three_phase" in options:
        torch_options["three_phase"] = bool(options["three_phase"])
    return schedule("one_cycle", **options), lambda o: lrs.OneCycleLR(o, **torch_options)


def cyclic(mode, **options):
    """With base 0.01."""
    modes = ("triangular", "triangular2", "exp_range")
    torch_options = dict(options, base_lr=.01, max_lr=options["max_value"], mode=modes[mode])
    del torch_options["max_value"]
    return (schedule("cyclic", mode=mode, **options),
            lambda o: lrs.CyclicLR(o, base_momentum=.8, max_momentum=.9, **torch_options))


def sequence(milestones, *pieces):
    return (schedule("sequential", milestones=milestones, pieces=[ours for ours, _ in pieces]),
            lambda o: lrs.SequentialLR(o, [make(o) for _, make in pieces], milestones))


def chain(*pieces):
    return (schedule("chained", pieces=[ours for ours, _ in pieces]),
            lambda o: lrs.ChainedScheduler([make(o) for _, make in pieces], o))


def linear(start, end, total):
    return (schedule("linear", start_factor=start, end_factor=end, total_iters=total),
            lambda o: lrs.LinearLR(o, start, end, total))


def constant(factor, total):
    return (schedule("constant", factor=factor, total_iters=total),
            lambda o: lrs.ConstantLR(o, factor, total))


def exponential(gamma):
    return schedule("exponential", gamma=gamma), lambda o: lrs.ExponentialLR(o, gamma)


def step(size, gamma):
    return (schedule("step", step_size=size, gamma=gamma), lambda o: lrs.StepLR(o, size, gamma))


def cosine(t_max, eta_min=0.0, periodic=0):
    return (schedule("cosine", T_max=t_max, eta_min=eta_min, periodic=periodic),
            lambda o: lrs.CosineAnnealingLR(o, t_max, eta_min))


def restarts(t_0, t_mult, eta_min=0.0):
    return (schedule("cosine_restarts", T_0=t_0, T_mult=t_mult, eta_min=eta_min),
            lambda o: lrs.CosineAnnealingWarmRestarts(o, t_0, t_mult, eta_min))


def polynomial(total, power):
    return (schedule("polynomial", total_iters=total, power=power),
            lambda o: lrs.PolynomialLR(o, total, power))


def multistep(milestones, gamma):
    return (schedule("multistep", milestones=milestones, gamma=gamma),
            lambda o: lrs.MultiStepLR(o, milestones, gamma))


def function(kind, make, name):
    return schedule(kind, function=name), lambda o: make(o, FUNCTIONS[name])


DECLINE = (cyclic(0, max_value=.1, step_size_up=4, step_size_down=6),
           cyclic(1, max_value=.1, step_size_up=4, step_size_down=6),
           cyclic(2, max_value=.1, step_size_up=4, step_size_down=6, gamma=.99),
           cyclic(0, max_value=.07, step_size_up=5))

# Ours and PyTorch's, base, count of values from t = 0 on, every how many are told; what is looser.
CURVES = [
    (step(30, .1), .1, 200, 7),
    (step(7, 1.25), .1, 60, 1),
    (multistep([80, 30, 80], .1), .1, 200, 7),
    (multistep([3, 3, 10, 11], .5), .1, 20, 1),
    (exponential(.95), .1, 500, 9),
    (function("lambda", lrs.LambdaLR, "1 / (t + 1)"), .1, 100, 3),
    (function("multiplicative", lrs.MultiplicativeLR, "0.95 at odd t, else 0.9"), .1, 101, 3),
    (constant(1 / 3, 5), .05, 20, 1),
    (constant(.25, 1), .05, 5, 1),
    (linear(1 / 3, 1.0, 5), .05, 20, 1),
    (linear(1.0, .1, 40), .1, 60, 1, 1e-14, RECURSION),
    (linear(.001, 1.0, 2000), 3e-4, 3000, 111, 2e-14, RECURSION),
    (polynomial(4, 1.0), .001, 8, 1),
    (polynomial(100, .9), .1, 150, 4),
    (polynomial(30, 2.0), .1, 40, 1),
    (cosine(100, 1e-5), .1, 101, 3),
    (cosine(10, .2), .1, 11, 1),
    (cosine(100, 1e-5, 1), .1, 1051, 25, 1e-12, RECURSION),
    (restarts(10, 2), .1, 1300, 43),
    (restarts(1, 3, .001), .1, 400, 13),
    (restarts(7, 1), .1, 100, 3),
    *((each, .01, 110, 3) for each in DECLINE),
    (one_cycle(total_steps=100, max_value=.1), .1, 100, 3),
    (one_cycle(total_steps=100, max_value=.1, three_phase=1), .1, 100, 3),
    (one_cycle(total_steps=100, max_value=.1, anneal=1), .1, 100, 3, 1e-11,
     "PyTorch's last value is not exactly the end"),
    (one_cycle(total_steps=57, max_value=2.0, pct_start=.4, anneal=1, three_phase=1), .1, 57, 1,
     1e-11, "PyTorch's last value is not exactly the end"),
    (one_cycle(total_steps=33, max_value=.3, pct_start=.5, div_factor=10.0, final_div_factor=50.0),
     .1, 33, 1),
    (sequence([5], linear(.01, 1.0, 5), exponential(.9)), .1, 26, 1),
    (sequence([4, 9], constant(.1, 4), linear(.5, 1.0, 3), step(2, .5)), .1, 20, 1),
    (chain(linear(.1, 1.0, 5), exponential(.9)), .1, 30, 1),
    (chain(constant(.5, 3), multistep([2, 7], .1), step(4, .5)), .1, 30, 1),
]

# As CURVES, of what PyTorch does to the momentum meanwhile; the base is its largest.
MOMENTA = [
    (cyclic(0, max_value=.1, step_size_up=4, step_size_down=6)[1],
     schedule("cyclic", max_value=.8, step_size_up=4, step_size_down=6), .9, 110, 3),
    (one_cycle(total_steps=100, max_value=.1)[1],
     schedule("one_cycle", total_steps=100, max_value=.85, initial_value=.95, final_value=.95), .95,
     100, 3),
    (one_cycle(total_steps=100, max_value=.1, three_phase=1)[1],
     schedule("one_cycle", total_steps=100, max_value=.85, initial_value=.95, final_value=.95,
              three_phase=1), .95, 100, 3),
]


def optimizer(base):
    return torch.optim.SGD([torch.zeros(1)], lr=base, momentum=.9)


def stepped(make, base, count, key):
    """What the optimizer's steps 1 to count see."""
    o = optimizer(base)
    scheduler, seen = make(o), []
    for t in range(count):
        seen.append(float(o.param_groups[0][key]))
        o.step()
        if t + 1 < count:
            scheduler.step()
    return seen


def curve(ours, make, base, key, count, stride, tolerance=4e-15, why=None):
    told = sorted({*range(0, count, stride), 1, count - 1})
    values = stepped(make, base, count, key)
    reason = {"why": why} if why else {}
    return {"source": VERSION, "schedule": ours, "base": base, "tolerance": tolerance, **reason,
            "t": told, "value": [values[t] for t in told]}


def metrics(draw, mode):
    """Mostly better, then stuck; now and then no number. Few decimals: short to print."""
    level, seen = draw.choice((8.0, 1.0, 0.2)), []
    for _ in range(60):
        if draw.random() < .5:
            level *= draw.choice((.9, .95, .999, 1.05)) if mode == 0 else draw.choice((1.1, 1.01, .95))
        value = round(level + draw.choice((-.1, 0, 0, .01, .1)), 3)
        seen.append(math.nan if draw.random() < .04 else value)
    return seen


def changes(values, first=None):
    told, last = {}, first
    for i, value in enumerate(values, 1):
        if value != last:
            told[str(i)] = value
        last = value
    return told


def reports(draw):
    params = {"mode": draw.randrange(2), "factor": draw.choice((.1, .5, .9, 0.0)),
              "patience": draw.randrange(5), "threshold": draw.choice((1e-4, .01, .25, 0.0)),
              "threshold_mode": draw.randrange(2), "cooldown": draw.randrange(4),
              "min_value": draw.choice((0.0, 0.0, .002, .02, .5)),
              "eps": draw.choice((1e-8, 0.0, .004))}
    base, seen = draw.choice((.1, 1.0, .03)), metrics(draw, params["mode"])
    o = optimizer(base)
    scheduler = lrs.ReduceLROnPlateau(
        o, mode=("min", "max")[params["mode"]], factor=params["factor"],
        patience=params["patience"], threshold=params["threshold"],
        threshold_mode=("rel", "abs")[params["threshold_mode"]], cooldown=params["cooldown"],
        min_lr=params["min_value"], eps=params["eps"])
    worst, columns = scheduler.best, []
    for metric in seen:
        scheduler.step(metric)
        columns.append((o.param_groups[0]["lr"], scheduler.best, scheduler.num_bad_epochs,
                        scheduler.cooldown_counter))
    value, best, bad, cooling = map(list, zip(*columns))
    return {"source": VERSION, "params": params, "base": base,
            "metric": [None if math.isnan(m) else m for m in seen], "value": changes(value),
            "best": changes(best, worst), "bad": bad, "cooling": cooling}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_default_dtype(torch.float64)
    curves = [curve(ours, make, base, "lr", *how) for (ours, make), base, *how in CURVES]
    curves += [curve(ours, make, base, "momentum", *how) for make, ours, base, *how in MOMENTA]
    source = random.Random("plateau")
    golden_file.write_schedules("schedules_torch", curves, [reports(source) for _ in range(120)])
