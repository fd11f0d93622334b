"""Writes the golden cases of what apex or a paper defines and PyTorch does not have.

    python3 tools/golden/make_transcribed.py

The formulas are written down here once more, in plain Python on doubles: nothing of the library, no
vectors, sums in the order of the elements, bias corrections from exact fractions. Lion and LARS are
those of their papers (Chen et al. 2023, Alg. 2; You et al. 2017), LAMB, NovoGrad and the options of
the others are apex's. Each run replaces the cases of this source in tests/golden; the result
depends on nothing but this file. Standard library only.
"""
import math
import random
from fractions import Fraction

import golden_file
from golden_file import away_from_zero


def bias_correction(beta, t):
    return float(1 - Fraction(beta) ** t)


def norm(values):
    total = 0.0
    for value in values:
        total += value * value
    return math.sqrt(total)


def largest(values):
    return max([abs(value) for value in values], default=0.0)


def lion(h, t, p, g, state):
    m = state.setdefault("exp_avg", [0.0] * len(p))
    beta1, beta2, lr, wd = h["beta1"], h["beta2"], h["lr"], h["weight_decay"]
    for i in range(len(p)):
        if wd != 0:
            p[i] = p[i] * (1 - lr * wd)
        c = beta1 * m[i] + (1 - beta1) * g[i]
        p[i] = p[i] - lr * (1.0 if c > 0 else -1.0 if c < 0 else c)
        m[i] = beta2 * m[i] + (1 - beta2) * g[i]


def momentum_step(h, t, p, direction, state, late_decay=0):
    momentum, b = h["momentum"], []
    if momentum != 0:
        b = state.setdefault("momentum_buffer", [0.0] * len(p))
    for i, d in enumerate(direction):
        if momentum != 0:
            b[i] = d if t == 1 else momentum * b[i] + (1 - h["dampening"]) * d
            d = d + momentum * b[i] if h["nesterov"] else b[i]
        if late_decay != 0:
            d = d + late_decay * p[i]
        p[i] = p[i] - h["lr"] * d


def sgd(h, t, p, g, state):
    wd, late = h["weight_decay"], h["wd_after_momentum"]
    early = [g[i] + wd * p[i] if wd != 0 and not late else g[i] for i in range(len(p))]
    momentum_step(h, t, p, early, state, wd if late else 0)


def lars(h, t, p, g, state):
    lr, wd, trust = h["lr"], h["weight_decay"], h["trust_coefficient"]
    pn, gn, a = norm(p), norm(g), 1.0
    if trust > 0 and pn != 0 and gn != 0:
        a = trust * pn / (gn + wd * pn + h["eps"])
        if h["trust_clip"]:
            a = 1.0 if a >= lr else a / lr
    decayed = [g[i] + wd * p[i] if wd != 0 else g[i] for i in range(len(p))]
    momentum_step(h, t, p, [d * a for d in decayed], state)


def adagrad(h, t, p, g, state):
    total = state.setdefault("sum", [float(h["initial_accumulator_value"])] * len(p))
    lr = h["lr"] / (1 + (t - 1) * h["lr_decay"])
    wd = h["weight_decay"]
    for i, gi in enumerate(g):
        if wd != 0 and h["adagrad_w_mode"]:
            p[i] = p[i] * (1 - lr * wd)
        elif wd != 0:
            gi = gi + wd * p[i]
        total[i] = total[i] + gi * gi
        p[i] = p[i] - (lr * gi) / (math.sqrt(total[i]) + h["eps"])


def lamb(h, t, p, g, state):
    m = state.setdefault("exp_avg", [0.0] * len(p))
    v = state.setdefault("exp_avg_sq", [0.0] * len(p))
    beta1, beta2, lr, wd = h["beta1"], h["beta2"], h["lr"], h["weight_decay"]
    beta3 = 1 - beta1 if h["grad_averaging"] else 1.0
    bc1 = bias_correction(beta1, t) if h["bias_correction"] else 1.0
    bc2 = bias_correction(beta2, t) if h["bias_correction"] else 1.0
    most, whole = h["max_grad_norm"], norm(g)
    clip = whole / most if most > 0 and whole > most else 1.0
    u = []
    for i, gi in enumerate(g):
        s = gi / clip
        if wd != 0 and not h["adam_w_mode"]:
            s = s + wd * p[i]
        m[i] = beta1 * m[i] + beta3 * s
        v[i] = beta2 * v[i] + ((1 - beta2) * s) * s
        ui = (m[i] / bc1) / (math.sqrt(v[i] / bc2) + h["eps"])
        u.append(ui + wd * p[i] if wd != 0 and h["adam_w_mode"] else ui)
    pn, un, ratio = norm(p), norm(u), lr
    if (h["use_nvlamb"] or wd != 0) and pn != 0 and un != 0:
        ratio = lr * (pn / un)
    for i, ui in enumerate(u):
        p[i] = p[i] - ratio * ui


def novograd_norm(h, t, g, state):
    beta2, largest_norm = h["beta2"], h["norm_type"] == 0
    gn = largest(g) if largest_norm else norm(g)
    v = gn
    if t > 1 or h["init_zero"]:
        old = state["exp_avg_sq"][0] if t > 1 else 0.0
        v = beta2 * old + (1 - beta2) * gn
        if not largest_norm:
            v = math.sqrt(beta2 * old * old + (1 - beta2) * gn * gn)
    state["exp_avg_sq"] = [v]
    return v


def novograd(h, t, p, g, state):
    m = state.setdefault("exp_avg", [0.0] * len(p))
    beta1, lr, wd = h["beta1"], h["lr"], h["weight_decay"]
    beta3 = 1 - beta1 if h["grad_averaging"] else 1.0
    bc1 = bias_correction(beta1, t) if h["bias_correction"] else 1.0
    r2 = math.sqrt(bias_correction(h["beta2"], t)) if h["bias_correction"] else 1.0
    d = novograd_norm(h, t, g, state) / r2 + h["eps"]
    for i, gi in enumerate(g):
        if h["reg_inside_moment"]:
            x = gi / d
            m[i] = beta1 * m[i] + beta3 * (x + wd * p[i] if wd != 0 else x)
            p[i] = p[i] - lr * (m[i] / bc1)
        else:
            m[i] = beta1 * m[i] + beta3 * gi
            u = (m[i] / bc1) / d
            p[i] = p[i] - lr * (u + wd * p[i] if wd != 0 else u)


SGD = dict(lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=0, wd_after_momentum=0)
LARC = dict(lr=1e-3, momentum=.9, dampening=0, weight_decay=0, nesterov=0, trust_coefficient=.02,
            trust_clip=1, eps=1e-8)
ADAGRAD = dict(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
               adagrad_w_mode=0)
LION = dict(lr=1e-4, beta1=.9, beta2=.99, weight_decay=0)
LAMB = dict(lr=1e-3, bias_correction=1, beta1=.9, beta2=.999, eps=1e-6, weight_decay=.01,
            adam_w_mode=1, grad_averaging=1, max_grad_norm=1, use_nvlamb=0)
NOVOGRAD = dict(lr=1e-3, bias_correction=1, beta1=.9, beta2=.999, eps=1e-8, weight_decay=0,
                reg_inside_moment=0, grad_averaging=1, norm_type=2, init_zero=0)

# name: step, defaults, tolerance (0 where nothing is summed)
ALGORITHMS = {
    "sgd": (sgd, SGD, 0),
    "fused_sgd": (sgd, SGD, 0),
    "adagrad": (adagrad, ADAGRAD, 0),
    "fused_adagrad": (adagrad, ADAGRAD, 0),
    "lion": (lion, LION, 0),
    "lamb": (lamb, LAMB, 1e-14),
    "fused_lamb": (lamb, LAMB, 1e-14),
    "fused_mixed_precision_lamb": (lamb, LAMB, 1e-14),
    "novograd": (novograd, NOVOGRAD, 1e-14),
    "fused_novograd": (novograd, NOVOGRAD, 1e-14),
    "larc": (lars, LARC, 1e-14),
    "lars": (lars, {**LARC, "trust_coefficient": .001, "trust_clip": 0}, 1e-14),
}

# The case of a file: algorithm, what differs from its defaults.
CASES = {
    "sgd": [
        ("sgd", dict(lr=.05, momentum=.8, dampening=.1, weight_decay=.02, wd_after_momentum=1)),
        ("fused_sgd", dict(lr=.05, weight_decay=.1, wd_after_momentum=1)),
        ("fused_sgd", dict(lr=.02, momentum=.9, nesterov=1, weight_decay=.05, wd_after_momentum=1,
                           maximize=1)),
        ("fused_sgd", dict(lr=.02, momentum=.9, weight_decay=.05, materialize_master_grads=0)),
    ],
    "adagrad": [
        ("adagrad", dict(lr=.05, lr_decay=.2, weight_decay=.1, adagrad_w_mode=1, maximize=1)),
        ("fused_adagrad", dict(weight_decay=.1)),
        ("fused_adagrad", dict(lr=.05, weight_decay=.1, eps=1e-3, adagrad_w_mode=1)),
    ],
    "lion": [
        ("lion", {}),
        ("lion", dict(lr=.003, weight_decay=.3)),
        ("lion", dict(lr=.01, beta1=.5, beta2=.7, weight_decay=.1, maximize=1)),
        ("lion", dict(lr=.01, beta1=0)),
    ],
    "lamb": [
        ("lamb", dict(lr=.01)),
        ("lamb", dict(lr=.01, weight_decay=0)),
        ("lamb", dict(lr=.01, beta1=.8, beta2=.95, eps=1e-3, use_nvlamb=1, weight_decay=0)),
        ("lamb", dict(lr=.02, grad_averaging=0, bias_correction=0, max_grad_norm=.1, maximize=1)),
        ("fused_lamb", {}),
        ("fused_lamb", dict(lr=.01, weight_decay=.1, adam_w_mode=0, max_grad_norm=0)),
        ("fused_mixed_precision_lamb", dict(lr=.01, weight_decay=.2, max_grad_norm=.3)),
    ],
    "novograd": [
        ("novograd", dict(lr=.01, weight_decay=.05)),
        ("novograd", dict(lr=.01, bias_correction=0, norm_type=0, grad_averaging=0)),
        ("novograd", dict(lr=.01, beta1=.95, beta2=.98, eps=1e-3, init_zero=1, norm_type=0,
                          weight_decay=.1, maximize=1)),
        ("fused_novograd", {}),
        ("fused_novograd", dict(lr=.01, reg_inside_moment=1, weight_decay=.1, beta2=.9,
                                init_zero=1)),
    ],
    "lars": [
        ("larc", {}),
        ("larc", dict(lr=.05, weight_decay=.01, dampening=.2, maximize=1)),
        ("larc", dict(lr=.001, momentum=0, weight_decay=.01)),
        ("larc", dict(lr=.01, trust_coefficient=0, nesterov=1)),
        ("lars", dict(lr=2, weight_decay=.01)),
        ("lars", dict(lr=1, momentum=.5, trust_coefficient=.01, trust_clip=1, nesterov=1, eps=.1)),
    ],
}
SHAPE, STEPS, TOLD = [7], 8, (1, 2, 5, 8)


def case(algorithm, hypers, draw):
    step, defaults, tolerance = ALGORITHMS[algorithm]
    count = math.prod(SHAPE)
    p = [away_from_zero(draw, .4, 1.6) for _ in range(count)]
    gradients = [[away_from_zero(draw, .02, .4) for _ in range(count)] for _ in range(STEPS)]
    told, state, p0 = {}, {}, list(p)
    for t, g in enumerate(gradients, 1):
        ascent = hypers.get("maximize", 0)
        step({**defaults, **hypers}, t, p, [-x for x in g] if ascent else g, state)
        if t in TOLD:
            told[str(t)] = list(p)
    return {"source": "transcription", "algorithm": algorithm, "hypers": hypers,
            "tolerance": tolerance, "shape": SHAPE, "p0": p0, "gradients": gradients, "p": told,
            "state": state}


if __name__ == "__main__":
    for rule, cases in CASES.items():
        draw = random.Random(rule)
        golden_file.merge(rule, "transcription", [case(*each, draw) for each in cases])
