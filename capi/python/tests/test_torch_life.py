"""talus.torch as an object of PyTorch: classes, groups, steps, and memory that moves."""
import gc
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("torch is not there: talus.torch") from error

import talus
import talus.torch
from torch_steps import drive, equal, make_params


class Classes(unittest.TestCase):
    def test_every_rule_has_a_class(self):
        listed = dir(talus.torch)
        rules = talus.names("algorithms") + talus.names("aliases")
        self.assertEqual(len(listed), len(rules) + 1)
        for name in listed:
            if name != "Optimizer":
                made = getattr(talus.torch, name)(make_params())
                self.assertIsInstance(made, torch.optim.Optimizer)
                self.assertIn(made._options.spelling.rule, rules)
                self.assertIs(getattr(talus.torch, name), type(made))
        self.assertIs(talus.torch.FusedLAMB, talus.torch.FusedLamb)
        self.assertIn("lr = 0.0001", talus.torch.Lion.__doc__)
        with self.assertRaisesRegex(AttributeError, "no 'Nothing'; it has Optimizer, SGD"):
            talus.torch.Nothing

    def test_keywords(self):
        params = make_params()
        opt = talus.torch.Adam(params, 0.5, beta2=0.9, fused=True, foreach=False, capturable=True)
        self.assertEqual((opt.defaults["lr"], opt.defaults["betas"]), (0.5, (0.9, 0.9)))
        with self.assertRaisesRegex(TypeError, "adam has no 'lrr'; it has lr, betas, eps"):
            talus.torch.Adam(params, lrr=1)
        with self.assertRaisesRegex(TypeError, "not differentiated"):
            talus.torch.Adam(params, differentiable=True)
        with self.assertRaisesRegex(talus.Error, "TALUS_E_RANGE"):
            talus.torch.Adam(params, lr=-1)
        with self.assertRaisesRegex(ValueError, "betas: .*expected 2 numbers"):
            talus.torch.Adam(params, betas=(0.9,))
        with self.assertRaisesRegex(ValueError, "betas: 0.9, expected 2 numbers"):
            talus.torch.Adam(params, betas=0.9)
        with self.assertRaisesRegex(ValueError, "lr: 'x', expected a number"):
            talus.torch.Adam(params, lr="x")
        opt = talus.torch.Optimizer(params, "sgd", lr=torch.tensor(0.25), settings={"threads": 2})
        self.assertEqual((opt.native.get("lr"), opt.native.get_setting("threads")), (0.25, 2))

    def test_what_cannot_be_a_parameter_is_refused(self):
        base = torch.ones(4, 4)
        for bad, error in ((torch.nn.Parameter(base.t()[1:]), TypeError),
                           (torch.nn.Parameter(base.to(torch.complex64)), TypeError),
                           (torch.nn.Parameter(base.to("meta")), TypeError),
                           (torch.nn.Parameter(base) * 2, ValueError), ("w", TypeError)):
            with self.assertRaises(error):
                talus.torch.SGD([bad])


class Groups(unittest.TestCase):
    def test_a_group_may_be_added_between_steps(self):
        def run(kind):
            params = make_params()
            opt = kind(params[:1], lr=0.1)
            drive(opt, 0, 3)
            opt.add_param_group({"params": params[1], "lr": 0.5})
            return drive(opt, 3, 6), opt

        (ours, opt), (theirs, _) = run(talus.torch.SGD), run(torch.optim.SGD)
        for one, other in zip(ours, theirs):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
        self.assertEqual(len(opt.param_groups), 2)

    def test_a_group_that_is_refused_leaves_nothing(self):
        params = make_params()
        opt = talus.torch.SGD(params[:1], lr=0.1)
        for bad in ({"params": [params[1]], "lr": -1}, {"params": [params[0]]},
                    {"params": [torch.nn.Parameter(torch.ones(4, 4).t()[1:])]}):
            with self.assertRaises((talus.Error, TypeError, ValueError)):
                opt.add_param_group(bad)
        self.assertEqual(len(opt.param_groups), 1)
        opt.add_param_group({"params": [params[1]], "lr": 0.25})
        self.assertEqual([opt.native.get("lr", i) for i in range(2)], [0.1, 0.25])
        drive(opt, 0, 1)

    def test_what_is_written_into_groups_acts_on_the_next_step(self):
        def run(kind):
            opt = kind(make_params(), lr=0.1)
            drive(opt, 0, 2)
            opt.param_groups[0].update(lr=0.01, betas=(0.5, 0.8), maximize=True, mine="kept")
            return drive(opt, 2, 5)

        for ours, theirs in zip(run(talus.torch.Adam), run(torch.optim.Adam)):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)

    def test_a_value_that_is_refused_fails_the_step_and_changes_nothing(self):
        opt = talus.torch.Adam(make_params(), lr=0.1)
        before = drive(opt, 0, 1)
        for key, value in (("lr", float("nan")), ("eps", -1.0), ("amsgrad", True)):
            kept = opt.param_groups[0][key]
            opt.param_groups[0][key] = value
            with self.assertRaises(talus.Error):
                opt.step()
            opt.param_groups[0][key] = kept
        self.assertTrue(equal(before, [param.detach() for param in opt.param_groups[0]["params"]]))
        opt.step()

    def test_state_that_comes_and_goes_before_the_first_step(self):
        opt = talus.torch.Adam(make_params(), settings={"error_if_nonfinite": 1, "check_finite": 1})
        for amsgrad in (True, False, True):
            opt.param_groups[0]["amsgrad"] = amsgrad
            for param in opt.param_groups[0]["params"]:
                param.grad = torch.full_like(param, float("nan"))
            with self.assertRaisesRegex(talus.Error, "TALUS_E_NONFINITE"):
                opt.step()
        drive(opt, 0, 1)
        states = {(state.param, state.slot): state.data for state in opt.native.states()}
        for i, param in enumerate(opt.param_groups[0]["params"]):
            for slot, tensor in opt.state[param].items():
                if slot != "step":
                    self.assertEqual(states[i, slot], tensor.data_ptr(), slot)

    def test_a_lent_optimizer_may_outlive_its_lender(self):
        params = make_params()
        opt = talus.torch.Adam(params)
        drive(opt, 0, 2)
        lent, moment = opt.native, opt.state[params[0]]["exp_avg"].flatten().tolist()
        del opt
        gc.collect()
        self.assertEqual(lent.state(0, "exp_avg").tolist(), moment)

    def test_named_parameters(self):
        net = torch.nn.Linear(2, 2)
        opt = talus.torch.Adam(net.named_parameters())
        self.assertEqual([opt.native.param(i).name for i in range(2)], ["weight", "bias"])
        self.assertEqual(opt.state_dict()["param_groups"][0]["param_names"], ["weight", "bias"])

    def test_parameters_that_leave_a_group_or_change_it_keep_their_state(self):
        params = make_params()
        more = [torch.nn.Parameter(torch.ones(2))]
        opt = talus.torch.Adam([{"params": params}, {"params": more}])
        drive(opt, 0, 3)
        moment = opt.state[params[1]]["exp_avg"].clone()
        opt.param_groups[1]["params"].append(params.pop())
        del opt.param_groups[0]["params"][1]
        opt.param_groups[1]["lr"] = 0.0
        moved = opt.param_groups[1]["params"][1]
        before = moved.detach().clone()
        self.assertTrue(torch.equal(opt.state[moved]["exp_avg"], moment))
        drive(opt, 3, 4)
        self.assertTrue(torch.equal(moved.detach(), before))
        self.assertEqual(opt.state[moved]["step"], 4)
        del opt.param_groups[0]
        self.assertEqual(opt.native.param_count, 2)


class Steps(unittest.TestCase):
    def test_closures(self):
        params = make_params()
        opt = talus.torch.SGD(params, lr=0.1)

        def closure():
            self.assertTrue(torch.is_grad_enabled())
            opt.zero_grad()
            loss = params[0].square().sum()
            loss.backward()
            return loss

        first = opt.step(closure)
        self.assertLess(opt.step(closure), first)
        self.assertEqual(opt.state[params[1]], {})

    def test_frozen_parameters_are_left_out_until_they_are_not(self):
        def run(kind):
            params = make_params()
            opt = kind(params, lr=0.1, weight_decay=0.5)
            for t in range(6):
                params[1].requires_grad_(t >= 3)
                opt.zero_grad()
                sum((param * (t + 1)).sum() for param in params if param.requires_grad).backward()
                opt.step()
            steps = [opt.state[param]["step"] for param in params]
            return [param.detach() for param in params], steps

        (ours, steps), (theirs, their_steps) = run(talus.torch.AdamW), run(torch.optim.AdamW)
        self.assertEqual(steps, their_steps)
        for one, other in zip(ours, theirs):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)

    def test_without_any_gradient_nothing_happens(self):
        opt = talus.torch.SGD(make_params())
        self.assertIsNone(opt.step())
        self.assertEqual(len(opt.state), 0)

    def test_autograd_sees_the_write(self):
        param = torch.nn.Parameter(torch.ones(3))
        opt = talus.torch.SGD([param])
        loss = param.square().sum()
        param.grad = torch.ones(3)
        opt.step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_gradients_that_are_not_contiguous_are_copied(self):
        param = torch.nn.Parameter(torch.zeros(3, 4))
        opt = talus.torch.SGD([param], lr=1)
        param.grad = torch.arange(12.0).reshape(4, 3).t()
        opt.step()
        self.assertTrue(torch.equal(param.detach(), -torch.arange(12.0).reshape(4, 3).t()))

    def test_nothing_is_held_after_the_step(self):
        param = torch.nn.Parameter(torch.zeros(3))
        opt = talus.torch.SGD([param])
        param.grad = torch.ones(3)
        opt.step()
        self.assertIsNone(opt.native.param(0).grad)

    def test_hooks_run(self):
        seen = []
        opt = talus.torch.SGD(make_params())
        opt.register_step_pre_hook(lambda *_: seen.append("pre"))
        opt.register_step_post_hook(lambda *_: seen.append("post"))
        drive(opt, 0, 1)
        self.assertEqual(seen, ["pre", "post"])


class Norms(unittest.TestCase):
    def test_a_lent_optimizer_measures_and_clips(self):
        params = make_params()
        opt = talus.torch.SGD(params, lr=1)
        drive(opt, 0, 1)
        self.assertIsNone(opt.native.param(0).grad)
        norm = torch.cat([param.grad.flatten() for param in params]).norm().item()
        self.assertAlmostEqual(opt.native.grad_norm(), norm, 5)
        self.assertAlmostEqual(talus.clip_grad_norm([opt.native], 0.5), norm, 5)
        self.assertIsNone(opt.native.param(0).grad)
        before = [param.detach().clone() for param in params]
        opt.step()
        moved = [(param.detach() - value).flatten() for param, value in zip(params, before)]
        self.assertAlmostEqual(torch.cat(moved).norm().item(), 0.5, 5)
        lent = opt.native
        del opt
        gc.collect()
        with self.assertRaisesRegex(talus.Error, "is gone"):
            lent.grad_norm()


class Memory(unittest.TestCase):
    def run_moving(self, kind, move, **options):
        params = make_params()
        opt = kind(params, **options)
        drive(opt, 0, 3)
        move(params)
        gc.collect()
        return drive(opt, 3, 6)

    def assert_follows(self, move):
        options = dict(lr=0.1, momentum=0.9)
        ours = self.run_moving(talus.torch.SGD, move, **options)
        for one, other in zip(ours, self.run_moving(torch.optim.SGD, move, **options)):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)

    def test_data_that_moves_is_followed(self):
        def replace(params):
            for param in params:
                param.data = param.data.clone()

        def swap(params):
            both = torch.cat([param.data.flatten() for param in params])
            params[0].data, params[1].data = both[:12].view(3, 4), both[12:]

        self.assert_follows(replace)
        self.assert_follows(swap)

    def test_two_parameters_that_trade_places(self):
        params = [torch.nn.Parameter(torch.full((3,), float(i))) for i in range(2)]
        opt = talus.torch.SGD(params, lr=1)
        drive(opt, 0, 1)
        params[0].data, params[1].data = params[1].data, params[0].data
        values = [param.detach().clone() for param in params]
        after = drive(opt, 1, 2)
        for param, value, one in zip(params, values, after):
            self.assertTrue(torch.equal(one, value - param.grad))
        self.assertEqual(opt.native.get_setting("check_pointers"), 1)

    def test_another_dtype_takes_the_state_along(self):
        def widen(params):
            for param in params:
                param.data, param.grad = param.data.double(), None

        for one in self.run_moving(talus.torch.Adam, widen, lr=0.1):
            self.assertEqual(one.dtype, torch.float64)

    def test_data_that_shrinks_in_place_is_no_read_beyond_the_end(self):
        param = torch.nn.Parameter(torch.ones(6))
        opt = talus.torch.SGD([param], lr=1)
        param.data = param.data[:2]
        param.grad = torch.ones(2)
        opt.step()
        self.assertEqual(param.tolist(), [0, 0])

    def test_a_parameter_that_is_transposed_is_refused(self):
        param = torch.nn.Parameter(torch.zeros(3, 3))
        opt = talus.torch.SGD([param], lr=1)
        param.grad = torch.arange(9.0).reshape(3, 3)
        param.data = param.data.t()
        with self.assertRaisesRegex(TypeError, r"parameter 0: data: .*strides \(1, 3\)"):
            opt.step()
        param.data = param.data.contiguous()
        opt.step()
        self.assertTrue(torch.equal(param.detach(), -param.grad))

    def test_a_parameter_of_another_shape_takes_its_state_along(self):
        param = torch.nn.Parameter(torch.zeros(4, 6))
        opt = talus.torch.Adam([param])
        drive(opt, 0, 1)
        moment = opt.state[param]["exp_avg"].clone()
        param.data, param.grad = param.data.view(2, 12), None
        self.assertEqual(opt.native.param(0).shape, (2, 12))
        self.assertTrue(torch.equal(opt.state[param]["exp_avg"], moment.view(2, 12)))

    def test_state_that_is_given_other_memory_is_not_touched(self):
        def swap(tensor):
            tensor.data = torch.full_like(tensor, 5)

        for move in (swap, lambda tensor: tensor.resize_(1 << 20)):
            param = torch.nn.Parameter(torch.zeros(1 << 10))
            opt = talus.torch.Adam([param])
            drive(opt, 0, 1)
            before = param.detach().clone()
            move(opt.state[param]["exp_avg"])
            with self.assertRaisesRegex(talus.Error, "parameter 0: exp_avg has moved .*in place"):
                opt.step()
            self.assertTrue(torch.equal(param.detach(), before))
            if move is swap:
                opt.load_state_dict(opt.state_dict())
                self.assertEqual(opt.state[param]["exp_avg"][0], 5)
                opt.step()

    def test_gradients_that_are_negated_as_they_are_read(self):
        param = torch.nn.Parameter(torch.zeros(3))
        opt = talus.torch.SGD([param], lr=1)
        param.grad = torch._neg_view(torch.ones(3))
        opt.step()
        self.assertEqual(param.tolist(), [1, 1, 1])

    def test_gradients_of_another_dtype(self):
        param = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        opt = talus.torch.SGD([param], lr=1)
        param.grad = torch.ones(2, dtype=torch.bfloat16)
        opt.step()
        param.grad = None
        try:
            param.grad_dtype = torch.float32
            param.grad = torch.full((2,), 0.5)
        except (AttributeError, RuntimeError) as error:
            self.skipTest(f"gradients have the parameter's dtype in torch {torch.__version__}: "
                          f"{error}")
        opt.step()
        self.assertEqual(param.tolist(), [-0.5, -0.5])


if __name__ == "__main__":
    unittest.main()
