"""Writes golden cases from the real PyTorch, in float64 on the CPU.

    python3 -m venv VENV && VENV/bin/pip install torch numpy
    VENV/bin/python tools/golden/make_torch.py

Each run replaces the cases of PyTorch in tests/golden and writes its version into them. Data are
seeded here, so two runs of one version give the same files. Nothing is installed by this.

PyTorch contracts some sums and products into fused multiply-adds and orders some in its own way:
where 1e-14, relative and of each element, is too tight for that, the case says how much and why.
"""
import random

import torch

import golden_file
from golden_file import away_from_zero

# Of the other state of PyTorch: steps are integers here, asgd's eta and mu follow from the step.
NOT_STATE = {"step", "eta", "mu"}
PAIRS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"),
         "step_sizes": ("step_size_min", "step_size_max")}
FLAGS = {"maximize", "nesterov", "amsgrad", "centered", "decoupled_weight_decay"}

OPTIMIZERS = {
    "sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
    "fused_adam": torch.optim.AdamW, "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop, "adadelta": torch.optim.Adadelta,
    "adamax": torch.optim.Adamax, "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam,
    "asgd": torch.optim.ASGD, "rprop": torch.optim.Rprop, "sparse_adam": torch.optim.SparseAdam,
}

CANCELS = "one exp_avg is a hundredth of its terms, so their rounding weighs a hundredfold"

# The cases of a file: algorithm, what differs from its defaults; tolerance and its reason.
DENSE = {
    "sgd": [
        ("sgd", dict(lr=.05, weight_decay=.1)),
        ("sgd", dict(lr=.02, momentum=.9, dampening=.4, maximize=1)),
        ("sgd", dict(lr=.02, momentum=.8, nesterov=1, weight_decay=.05)),
        ("sgd", dict(momentum=.5, dampening=-.5)),
    ],
    "adam": [
        ("adam", {}),
        ("adam", dict(lr=.01, beta1=.8, beta2=.9, eps=1e-3, weight_decay=.1, maximize=1)),
        ("adam", dict(lr=.01, beta2=.8, amsgrad=1, weight_decay=.01)),
        ("adam", dict(lr=.01, beta1=.2, weight_decay=.1, decoupled_weight_decay=1)),
        ("adamw", {}),
        ("adamw", dict(lr=.01, beta1=.5, beta2=.95, eps=1e-4, weight_decay=.3)),
        ("adamw", dict(lr=.01, beta2=.7, weight_decay=.1, amsgrad=1, maximize=1)),
        ("fused_adam", dict(weight_decay=.1)),
    ],
    "adagrad": [
        ("adagrad", {}),
        ("adagrad", dict(lr=.05, lr_decay=.2, weight_decay=.1)),
        ("adagrad", dict(lr=.05, initial_accumulator_value=.3, eps=1e-2, maximize=1)),
    ],
    "rmsprop": [
        ("rmsprop", {}),
        ("rmsprop", dict(lr=.02, alpha=.9, weight_decay=.05, momentum=.7)),
        ("rmsprop", dict(alpha=.8, eps=1e-2, centered=1, maximize=1)),
        ("rmsprop", dict(alpha=.3, eps=1e-3, centered=1, momentum=.4, weight_decay=.1)),
    ],
    "adadelta": [
        ("adadelta", {}),
        ("adadelta", dict(lr=.5, rho=.8, eps=1e-4, weight_decay=.1)),
        ("adadelta", dict(rho=.4, eps=1e-3, maximize=1)),
    ],
    "adamax": [
        ("adamax", {}),
        ("adamax", dict(lr=.01, beta1=.7, beta2=.8, weight_decay=.1)),
        ("adamax", dict(lr=.01, beta1=.3, eps=.05, maximize=1)),
    ],
    "nadam": [
        ("nadam", {}),
        ("nadam", dict(lr=.01, beta1=.8, beta2=.9, eps=1e-3, weight_decay=.1)),
        ("nadam", dict(lr=.01, momentum_decay=.1, maximize=1)),
        ("nadam", dict(lr=.01, beta1=.4, weight_decay=.2, decoupled_weight_decay=1),
         dict(tolerance=2e-14, why=CANCELS)),
    ],
    "radam": [
        ("radam", dict(lr=.01)),
        ("radam", dict(lr=.01, beta1=.8, beta2=.9, eps=1e-3, weight_decay=.1)),
        ("radam", dict(lr=.02, beta2=.99, weight_decay=.2, decoupled_weight_decay=1)),
        ("radam", dict(lr=.01, beta1=.3, beta2=.5, maximize=1)),
    ],
    "asgd": [
        ("asgd", {}),
        ("asgd", dict(lr=.1, lambd=.1, t0=2, weight_decay=.05)),
        ("asgd", dict(lr=.2, lambd=.3, alpha=.4, t0=0, maximize=1)),
    ],
    "rprop": [
        ("rprop", {}),
        ("rprop", dict(lr=.02, etaminus=.3, etaplus=1.5, maximize=1)),
        ("rprop", dict(lr=.02, step_size_min=.015, step_size_max=.025)),
    ],
}
SPARSE = {
    "sgd": [("sgd", dict(lr=.05)), ("sgd", dict(lr=.1, maximize=1))],
    "adagrad": [
        ("adagrad", dict(lr=.05)),
        ("adagrad", dict(lr=.1, lr_decay=.1, initial_accumulator_value=.2, eps=1e-3, maximize=1)),
    ],
    "sparse_adam": [
        ("sparse_adam", {}),
        ("sparse_adam", dict(lr=.01, beta1=.7, beta2=.9, eps=1e-3)),
        ("sparse_adam", dict(lr=.01, beta1=.3, maximize=1)),
    ],
}
SHAPE, STEPS, TOLD = (7,), 10, (1, 2, 5, 6, 10)
TABLE, ROW_COUNTS = (5, 2), (3, 2, 0, 4, 1, 6)  # rows in each step: some twice, some never


def constructed(algorithm, hypers, p):
    make = OPTIMIZERS[algorithm]
    defaults = make([torch.zeros(1)]).defaults
    options = {name: bool(value) if name in FLAGS else value for name, value in hypers.items()}
    for pair, names in PAIRS.items():
        if any(name in options for name in names):
            options[pair] = tuple(options.pop(name, old)
                                  for name, old in zip(names, defaults[pair]))
    if algorithm == "fused_adam":  # apex's default is none
        options.setdefault("weight_decay", 0)
    return make([p], **options)


def run(algorithm, hypers, p, gradients, told):
    """Parameters after the told steps, and the state after the last one."""
    p = p.clone().requires_grad_()
    optimizer, seen = constructed(algorithm, hypers, p), {}
    for t, gradient in enumerate(gradients, 1):
        p.grad = gradient
        optimizer.step()
        if t in told:
            seen[str(t)] = p.detach().flatten().tolist()
    state = {name: value.flatten().tolist() for name, value in optimizer.state[p].items()
             if name not in NOT_STATE and value is not None}
    return seen, state


def case(algorithm, hypers, shape, data):
    version = torch.__version__.split("+")[0]
    return {"source": "torch " + version, "algorithm": algorithm, "hypers": hypers,
            "tolerance": 1e-14, "shape": list(shape), **data}


def dense(draw, algorithm, hypers, looser=None):
    count = SHAPE[0]
    p0 = [away_from_zero(draw, .4, 1.6) for _ in range(count)]
    gradients = [[away_from_zero(draw, .02, .4) for _ in range(count)] for _ in range(STEPS)]
    p, state = run(algorithm, hypers, torch.tensor(p0), map(torch.tensor, gradients), TOLD)
    data = {"p0": p0, "gradients": gradients, "p": p, "state": state}
    return {**case(algorithm, hypers, SHAPE, data), **(looser or {})}


def sparse_gradient(rows):
    values = torch.tensor(rows["values"]).reshape(-1, TABLE[1])
    return torch.sparse_coo_tensor([rows["rows"]], values, TABLE)


def sparse(draw, algorithm, hypers):
    p0 = [away_from_zero(draw, .4, 1.6) for _ in range(TABLE[0] * TABLE[1])]
    steps = []
    for count in ROW_COUNTS:
        rows = [int(draw.random() * (TABLE[0] - 1)) for _ in range(count)]
        values = [[away_from_zero(draw, .02, .4) for _ in range(TABLE[1])] for _ in rows]
        steps.append({"rows": rows, "values": values})
    told = (1, 3, len(steps))
    p, state = run(algorithm, hypers, torch.tensor(p0).reshape(TABLE),
                   map(sparse_gradient, steps), told)
    data = {"p0": p0, "rows": steps, "p": p, "state": state}
    return case(algorithm, hypers, TABLE, data)


if __name__ == "__main__":
    torch.sparse.check_sparse_tensor_invariants.enable()
    torch.set_default_dtype(torch.float64)  # of nadam's mu_product as well
    for rule in {**DENSE, **SPARSE}:
        draw = random.Random(rule)
        cases = [dense(draw, *each) for each in DENSE.get(rule, [])]
        cases += [sparse(draw, *each) for each in SPARSE.get(rule, [])]
        golden_file.merge(rule, "torch", cases)
