"""talus.torch as an object of PyTorch: groups, memory that moves, state_dict, copies, refusals."""
import copy
import gc
import io
import pickle
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("torch is not there: talus.torch") from error

import talus
import talus.torch


def make_params(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
            for shape in ((3, 4), (5,))]


def drive(opt, first, last):
    """Steps with gradients that depend on the time alone."""
    params = [param for group in opt.param_groups for param in group["params"]]
    for t in range(first, last):
        generator = torch.Generator().manual_seed(t)
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
        opt.step()
    return [param.detach().clone() for param in params]


def equal(ours, theirs):
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def save(state_dict):
    """As a file keeps it, read with no code in it."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


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
        opt = talus.torch.Adam([{"params": params}, {"params": [torch.nn.Parameter(torch.ones(2))]}])
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
            return [param.detach() for param in params], [opt.state[param]["step"] for param in params]

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
            self.skipTest(f"gradients have the dtype of the parameter in torch {torch.__version__}: "
                          f"{error}")
        opt.step()
        self.assertEqual(param.tolist(), [-0.5, -0.5])


class SixteenBits(unittest.TestCase):
    def test_small_steps_add_up_in_the_master(self):
        for dtype in (torch.bfloat16, torch.float16):
            param = torch.nn.Parameter(torch.ones(2, dtype=dtype))
            opt = talus.torch.SGD([param], lr=2.0**-13)
            for _ in range(1 << 10):
                param.grad = torch.ones(2, dtype=dtype)
                opt.step()
            self.assertEqual(param.tolist(), [1 - 2.0**-3] * 2)
            self.assertEqual(opt.state[param]["master_param"].dtype, torch.float32)
        opt = talus.torch.SGD([param], lr=2.0**-13, master="none")
        opt.step()
        self.assertNotIn("master_param", opt.state[param])

    def test_what_is_written_from_outside_is_taken_over(self):
        param = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        opt = talus.torch.SGD([param], lr=2.0**-10)
        param.grad = torch.ones(2, dtype=torch.bfloat16)
        opt.step()
        with torch.no_grad():
            param[0] = 3
        opt.step()
        self.assertEqual(opt.state[param]["master_param"].tolist(), [3 - 2.0**-10, 1 - 2.0**-9])

    def test_state_dict_keeps_the_master_to_the_bit(self):
        first = talus.torch.AdamW(make_params(torch.bfloat16), lr=0.01)
        drive(first, 0, 5)
        params = [torch.nn.Parameter(param.detach().clone())
                  for param in first.param_groups[0]["params"]]
        second = talus.torch.AdamW(params)
        second.load_state_dict(save(first.state_dict()))
        self.assertTrue(equal(drive(first, 5, 10), drive(second, 5, 10)))
        for one, other in zip(first.state.values(), second.state.values()):
            self.assertTrue(equal(list(one.values()), list(other.values())))


class StateDict(unittest.TestCase):
    def test_a_resumed_run_has_the_bits_of_one_that_went_on(self):
        for name in dir(talus.torch):
            if name in ("Optimizer", "SparseAdam"):
                continue
            with self.subTest(name):
                kind = getattr(talus.torch, name)
                first = kind(make_params())
                middle = drive(first, 0, 4)
                state = save(first.state_dict())
                second = kind([torch.nn.Parameter(value.clone()) for value in middle], lr=0.7)
                second.load_state_dict(state)
                self.assertEqual(second.param_groups[0]["lr"], first.param_groups[0]["lr"])
                self.assertTrue(equal(drive(first, 4, 8), drive(second, 4, 8)))

    def test_state_dicts_of_torch_are_taken_and_given(self):
        # eta and mu of ASGD are not kept here, so ours is not for torch's.
        back = {"SGD": dict(momentum=0.9), "Adam": dict(amsgrad=True), "AdamW": {}, "Adagrad": {},
                "RMSprop": dict(momentum=0.5, centered=True), "Adadelta": {}, "Adamax": {}, "NAdam": {},
                "RAdam": {}, "Rprop": {}}
        for name, options in {**back, "ASGD": {}}.items():
            def kinds(*modules):
                return [getattr(module, name) for module in modules]

            ways = [kinds(torch.optim, talus.torch)]
            if name in back:
                ways.append(kinds(talus.torch, torch.optim))
            for giver, taker in ways:
                with self.subTest(f"{giver.__module__}.{name} to {taker.__module__}"):
                    first = giver(make_params(), **options)
                    middle = drive(first, 0, 4)
                    second = taker([torch.nn.Parameter(value.clone()) for value in middle], lr=0.7)
                    second.load_state_dict(save(first.state_dict()))
                    self.assertEqual(list(first.state_dict()["state"]),
                                     list(second.state_dict()["state"]))
                    for one, other in zip(drive(first, 4, 8), drive(second, 4, 8)):
                        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)

    def test_state_outlives_the_optimizer_and_is_not_shared_by_a_load(self):
        opt = talus.torch.Adam(make_params())
        drive(opt, 0, 2)
        state = opt.state_dict()
        kept = {key: value.clone() for key, value in state["state"][0].items()}
        other = talus.torch.Adam(make_params())
        other.load_state_dict(state)
        drive(other, 2, 4)
        del opt
        gc.collect()
        for key, value in kept.items():
            self.assertTrue(torch.equal(state["state"][0][key], value), key)

    def test_hooks_of_load_run_and_see_the_state(self):
        first, second = talus.torch.Adam(make_params()), talus.torch.Adam(make_params())
        drive(first, 0, 2)
        steps = []

        def halve(_opt, state):
            groups = [{**group, "lr": 0.5} for group in state["param_groups"]]
            return {**state, "param_groups": groups}

        second.register_load_state_dict_pre_hook(halve)
        second.register_load_state_dict_post_hook(
            lambda opt: steps.append(next(iter(opt.state.values()))["step"].item()))
        second.load_state_dict(first.state_dict())
        self.assertEqual((steps, second.param_groups[0]["lr"]), ([2], 0.5))

    def test_a_load_that_is_refused_has_changed_nothing(self):
        opt = talus.torch.Adam(make_params())
        drive(opt, 0, 2)

        def spoil(change):
            state = copy.deepcopy(opt.state_dict())
            change(state)
            return state

        spoilt = [spoil(change) for change in (
            lambda state: state["state"][1].pop("exp_avg"),
            lambda state: state["state"][1].update(exp_avg=torch.zeros(3)),
            lambda state: state["state"][1].update(momentum_buffer=torch.zeros(5)),
            lambda state: state["state"][1].update(step=torch.tensor(-1.0)),
            lambda state: state["param_groups"][0].update(lr=-1.0),
            lambda state: state["param_groups"][0]["params"].pop(),
            lambda state: state["state"].update(name={"step": 1}))]
        before = save(opt.state_dict())
        for state in spoilt:
            with self.assertRaises((ValueError, talus.Error)):
                opt.load_state_dict(state)
        after = opt.state_dict()
        self.assertEqual(after["param_groups"], before["param_groups"])
        for key, state in before["state"].items():
            self.assertTrue(equal(list(after["state"][key].values()), list(state.values())))
        drive(opt, 2, 3)

    def test_state_is_for_reading(self):
        opt = talus.torch.Adam(make_params())
        drive(opt, 0, 2)
        with self.assertRaises(TypeError):
            opt.state[opt.param_groups[0]["params"][0]] = {}
        with self.assertRaisesRegex(TypeError, "load_state_dict"):
            opt.state = {1: 2}
        opt.state = {}
        self.assertEqual(len(opt.state), 0)
        with self.assertRaises(KeyError):
            opt.state[torch.ones(1)]

    def test_settings_and_scaler_go_over_and_schedules_are_refused(self):
        opt = talus.torch.SGD(make_params(), settings={"max_grad_norm": 0.5})
        opt.native.attach_scaler(talus.Scaler(init_scale=4))
        opt.native.set_setting("threads", 2)
        drive(opt, 0, 1)
        old = opt.native
        opt.load_state_dict(opt.state_dict())
        self.assertTrue(old.closed)
        self.assertEqual((opt.native.get_setting("max_grad_norm"), opt.native.get_setting("threads"),
                          opt.native.stats().loss_scale), (0.5, 2, 4))
        opt.native.attach("lr", talus.Schedule("constant"))
        with self.assertRaisesRegex(talus.Error, "a schedule is attached to lr of group 0"):
            opt.load_state_dict(opt.state_dict())
        self.assertFalse(opt.native.closed)


class Copies(unittest.TestCase):
    def assert_goes_on_alike(self, first, second):
        self.assertIs(type(first), type(second))
        self.assertTrue(equal(drive(first, 4, 7), drive(second, 4, 7)))

    def test_a_model_and_its_optimizer_are_copied_together(self):
        net = torch.nn.Linear(3, 2)
        opt = talus.torch.Adam(net.parameters(), lr=0.25, settings={"threads": 1})
        drive(opt, 0, 4)
        opt.param_groups[0]["lr"] = 0.125
        other_net, other = copy.deepcopy((net, opt))
        self.assertIs(other.param_groups[0]["params"][0], other_net.weight)
        self.assertEqual((other.param_groups[0]["lr"], other.native.get_setting("threads")), (0.125, 1))
        self.assert_goes_on_alike(opt, other)

    def test_pickles(self):
        for kind, options in ((talus.torch.AdamW, {}), (talus.torch.Optimizer, {"rule": "lion"})):
            opt = kind(make_params(torch.bfloat16), **options)
            drive(opt, 0, 4)
            self.assert_goes_on_alike(opt, pickle.loads(pickle.dumps(opt)))

    def test_a_shallow_copy_is_refused(self):
        with self.assertRaisesRegex(TypeError, "deepcopy"):
            copy.copy(talus.torch.SGD(make_params()))


if __name__ == "__main__":
    unittest.main()
