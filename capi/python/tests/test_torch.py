"""talus.torch beside torch.optim: the same training with both, rule by rule, scheduler by
scheduler."""
import itertools
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("torch is not there: talus.torch") from error

import talus.torch

STEPS = 200
# Of a parameter after those, relative to its size or 1. Both round each operation, in another
# order. The worst seen is 2.7e-7 and 5.6e-16, of RMSprop.
BOUNDS = {torch.float32: 1e-6, torch.float64: 4e-15}
# In f64: torch keeps mu_product and eta as f32 tensors whatever the parameter is.
F32_INSIDE = {"NAdam": 4e-10, "ASGD": 1e-7}

# Options that torch.optim has, by class; a class without an entry here runs with its defaults
# alone.
OPTIONS = {
    "SGD": [dict(momentum=0.9, nesterov=True), dict(momentum=0.5, dampening=0.2, weight_decay=0.1)],
    "Adam": [dict(amsgrad=True), dict(weight_decay=0.1, betas=(0.8, 0.95)),
             dict(weight_decay=0.1, decoupled_weight_decay=True)],
    "AdamW": [dict(amsgrad=True, eps=1e-6), dict(weight_decay=0.2)],
    "Adagrad": [dict(lr_decay=0.1, initial_accumulator_value=0.5, weight_decay=0.01)],
    "RMSprop": [dict(centered=True, momentum=0.3), dict(alpha=0.9, weight_decay=0.1)],
    "Adadelta": [dict(rho=0.8, weight_decay=0.1)],
    "Adamax": [dict(weight_decay=0.1)],
    "NAdam": [dict(weight_decay=0.1, momentum_decay=0.01, decoupled_weight_decay=True)],
    "RAdam": [dict(weight_decay=0.1, decoupled_weight_decay=True)],
    "ASGD": [dict(lambd=0.01, t0=50, weight_decay=0.1)],
    "Rprop": [dict(etas=(0.4, 1.3), step_sizes=(1e-5, 1.0))],
}
# Takes gradients of rows alone, see Sparse below.
SPARSE = "SparseAdam"


def both():
    """Names of classes that torch.optim and talus.torch have."""
    return [name for name in dir(talus.torch)
            if hasattr(torch.optim, name) and name not in ("Optimizer", SPARSE)]


class Problem:
    """Parameters, and for each step gradients that do not depend on them: no difference is blown
    up."""

    def __init__(self, dtype=torch.float32):
        self.generator = torch.Generator().manual_seed(0)
        self.params = [torch.nn.Parameter(self.draw(shape, dtype)) for shape in ((5, 7), (11,), ())]

    def draw(self, shape, dtype):
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(dtype)

    def loss(self, t):
        """Its gradients are 1 to 2 times normal numbers, exactly."""
        return sum((param * self.draw(param.shape, param.dtype) * (1 + t % 3 / 2)).sum()
                   for param in self.params)

    def flat(self):
        return torch.cat([param.detach().flatten() for param in self.params])


def drive(make, scheduler=None, dtype=torch.float32):
    """Returns the parameters after STEPS, and the rates of the first group on the way."""
    problem = Problem(dtype)
    opt = make(problem.params)
    schedule, rates = scheduler and scheduler(opt), []
    for t in range(STEPS):
        opt.zero_grad()
        problem.loss(t).backward()
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
            schedule.step(t % 17)
        elif schedule is not None:
            schedule.step()
    return problem.flat(), rates


def distance(ours, theirs):
    return ((ours - theirs).abs() / theirs.abs().clamp(min=1)).max().item()


class Rules(unittest.TestCase):
    def assert_same(self, name, dtype, **options):
        ours, _ = drive(lambda params: getattr(talus.torch, name)(params, **options), dtype=dtype)
        theirs, _ = drive(lambda params: getattr(torch.optim, name)(params, **options), dtype=dtype)
        bound = max(BOUNDS[dtype], F32_INSIDE.get(name, 0) if dtype == torch.float64 else 0)
        self.assertTrue(torch.isfinite(theirs).all())
        self.assertGreater(distance(theirs, Problem(dtype).flat()), 1e-3)
        self.assertLess(distance(ours, theirs), bound)

    def test_every_rule_that_both_have_takes_the_same_steps(self):
        self.assertGreaterEqual(len(both()), 11)
        self.assertLessEqual(set(OPTIONS), set(both()))
        for name in both():
            for options in [{}, dict(maximize=True), *OPTIONS.get(name, [])]:
                for dtype in BOUNDS:
                    with self.subTest(name, dtype=dtype, **options):
                        self.assert_same(name, dtype, **options)

    def test_defaults_are_those_of_torch(self):
        params = [torch.nn.Parameter(torch.zeros(1))]
        for name in both():
            ours = getattr(talus.torch, name)(params).param_groups[0]
            for key, value in getattr(torch.optim, name)(params).param_groups[0].items():
                if key not in ("params", "foreach", "capturable", "differentiable", "fused"):
                    self.assertEqual(ours[key], value, (name, key))

    def test_groups_have_values_of_their_own(self):
        def groups(params):
            return [{"params": params[:1], "lr": 0.02}, {"params": params[1:], "betas": (0.5, 0.9)}]

        options = dict(lr=0.005, weight_decay=0.1)
        ours, _ = drive(lambda params: talus.torch.AdamW(groups(params), **options))
        theirs, _ = drive(lambda params: torch.optim.AdamW(groups(params), **options))
        self.assertLess(distance(ours, theirs), BOUNDS[torch.float32])

    def test_a_network_learns_the_same(self):
        def train(kind):
            torch.manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(),
                                      torch.nn.Linear(16, 1))
            x, losses = torch.randn(32, 4), []
            opt = kind(net.parameters(), lr=0.01)
            for _ in range(STEPS):
                opt.zero_grad()
                loss = torch.nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
                loss.backward()
                opt.step()
                losses.append(loss.item())
            return losses

        ours, theirs = train(talus.torch.AdamW), train(torch.optim.AdamW)
        self.assertLess(theirs[-1], 0.02 * theirs[0])
        # Of the first loss; a network grows differences where a gradient is near 0.
        self.assertLess(max(abs(a - b) for a, b in zip(ours, theirs)), 1e-4 * theirs[0])


class Schedulers(unittest.TestCase):
    S = torch.optim.lr_scheduler
    MADE = {
        "StepLR": lambda opt, S=S: S.StepLR(opt, 20),
        "MultiStepLR": lambda opt, S=S: S.MultiStepLR(opt, [10, 50]),
        "ConstantLR": lambda opt, S=S: S.ConstantLR(opt),
        "LinearLR": lambda opt, S=S: S.LinearLR(opt, total_iters=30),
        "ExponentialLR": lambda opt, S=S: S.ExponentialLR(opt, 0.97),
        "PolynomialLR": lambda opt, S=S: S.PolynomialLR(opt, 80, 2.0),
        "CosineAnnealingLR": lambda opt, S=S: S.CosineAnnealingLR(opt, 60),
        "CosineAnnealingWarmRestarts": lambda opt, S=S: S.CosineAnnealingWarmRestarts(opt, 25),
        "CyclicLR": lambda opt, S=S: S.CyclicLR(opt, 0.001, 0.02, 15),
        "OneCycleLR": lambda opt, S=S: S.OneCycleLR(opt, 0.02, total_steps=STEPS + 1),
        "ReduceLROnPlateau": lambda opt, S=S: S.ReduceLROnPlateau(opt, patience=3),
        "LambdaLR": lambda opt, S=S: S.LambdaLR(opt, lambda t: 1 / (1 + t)),
        "MultiplicativeLR": lambda opt, S=S: S.MultiplicativeLR(opt, lambda t: 0.99),
        "SequentialLR": lambda opt, S=S: S.SequentialLR(
            opt, [S.LinearLR(opt, 0.1, total_iters=20), S.ExponentialLR(opt, 0.98)], [20]),
        "ChainedScheduler": lambda opt, S=S: S.ChainedScheduler(
            [S.LinearLR(opt, 0.1, total_iters=20), S.ExponentialLR(opt, 0.98)]),
    }

    def test_every_scheduler_drives_the_step(self):
        for (name, scheduler), kind in itertools.product(self.MADE.items(), ("AdamW", "SGD")):
            options = dict(lr=0.01, **(dict(momentum=0.9) if kind == "SGD" else {}))
            with self.subTest(name, kind=kind):
                ours, rates = drive(lambda params: getattr(talus.torch, kind)(params, **options),
                                    scheduler)
                theirs, their_rates = drive(
                    lambda params: getattr(torch.optim, kind)(params, **options), scheduler)
                self.assertGreater(len(set(rates)), 1)
                self.assertEqual(rates, their_rates)
                self.assertLess(distance(ours, theirs), BOUNDS[torch.float32])


class Scaling(unittest.TestCase):
    def test_grad_scaler_skips_and_grows(self):
        def run(kind):
            problem = Problem()
            opt = kind(problem.params, lr=0.01)
            scaler, scales = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=20), []
            for t in range(100):
                opt.zero_grad()
                scaler.scale(problem.loss(t)).backward()
                if t in (7, 31):
                    problem.params[0].grad[0, 0] = float("inf")
                if t % 2:
                    scaler.unscale_(opt)
                    torch.nn.utils.clip_grad_norm_(problem.params, 1.0)
                scaler.step(opt)
                scaler.update()
                scales.append(scaler.get_scale())
            steps = {int(opt.state[param]["step"]) for param in problem.params}
            return problem.flat(), scales, steps

        ours, scales, steps = run(talus.torch.AdamW)
        theirs, their_scales, _ = run(torch.optim.AdamW)
        self.assertEqual(scales, their_scales)
        self.assertGreater(len(set(scales)), 3)
        self.assertEqual(steps, {98})
        self.assertLess(distance(ours, theirs), BOUNDS[torch.float32])


class Sparse(unittest.TestCase):
    def run_embedding(self, make, steps=60):
        torch.manual_seed(0)
        table = torch.nn.Embedding(50, 3, sparse=True)
        opt = make(table.parameters())
        for t in range(steps):
            opt.zero_grad()
            rows = torch.tensor([(t * 7) % 50, (t * 3) % 50, (t * 7) % 50])  # one of them twice
            (table(rows) - 1).square().sum().backward()
            opt.step()
        return table.weight.detach()

    def test_gradients_of_rows(self):
        for name, options in ((SPARSE, {}), ("SGD", dict(lr=0.1)), ("Adagrad", dict(lr=0.1))):
            with self.subTest(name):
                ours, theirs = (self.run_embedding(
                    lambda params: getattr(module, name)(list(params), **options))
                    for module in (talus.torch, torch.optim))
                self.assertLess(distance(ours, theirs), BOUNDS[torch.float32])
                self.assertGreater((ours - 1).abs().max(), 0.1)

    def test_rules_without_rows_refuse_them(self):
        with self.assertRaisesRegex(TypeError, "sparse_coo; adam takes dense ones"):
            self.run_embedding(talus.torch.Adam, 1)


if __name__ == "__main__":
    unittest.main()
