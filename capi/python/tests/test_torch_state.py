"""State of talus.torch: masters, state_dict, copies and pickles."""
import copy
import gc
import os
import pickle
import tempfile
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("torch is not there: talus.torch") from error

import talus
import talus.torch
from torch_steps import drive, equal, make_params, save


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

    def test_a_write_through_data_is_taken_over_where_it_is_told(self):
        param = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        opt = talus.torch.SGD([param], lr=0)
        param.grad = torch.ones(2, dtype=torch.bfloat16)
        opt.step()
        param.data.fill_(5)
        opt.step()
        self.assertEqual(param.tolist(), [1, 1])
        param.data.fill_(5)
        torch.autograd.graph.increment_version(param)
        opt.step()
        self.assertEqual(param.tolist(), [5, 5])

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
                "RMSprop": dict(momentum=0.5, centered=True), "Adadelta": {}, "Adamax": {},
                "NAdam": {}, "RAdam": {}, "Rprop": {}}
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
            lambda state: state["state"][1].update(step=1e300),
            lambda state: state["state"][1].update(step=2.5),
            lambda state: state["state"][1].update(step=float("nan")),
            lambda state: state["state"][1].update(exp_avg=torch.zeros(5, dtype=torch.complex64)),
            lambda state: state["state"][1].update(exp_avg="x"),
            lambda state: state["state"].update({1: 3}),
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
        self.assertEqual([opt.native.get_setting(name) for name in ("max_grad_norm", "threads")],
                         [0.5, 2])
        self.assertEqual(opt.native.stats().loss_scale, 4)
        opt.native.attach("lr", talus.Schedule("constant"))
        with self.assertRaisesRegex(talus.Error, "a schedule is attached to lr of group 0"):
            opt.load_state_dict(opt.state_dict())
        self.assertFalse(opt.native.closed)


class Checkpoints(unittest.TestCase):
    def test_a_file_sets_what_the_groups_show(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            first = talus.torch.AdamW(make_params(), lr=0.25, betas=(0.5, 0.75), amsgrad=True)
            middle = drive(first, 0, 3)
            first.native.save(path)
            for steps in (0, 2):  # without state, and with some
                second = talus.torch.AdamW(make_params(), lr=0.5, amsgrad=True)
                drive(second, 0, steps)
                params = second.param_groups[0]["params"]
                with torch.no_grad():
                    for param, value in zip(params, middle):
                        param.copy_(value)
                second.native.load(path)
                group = second.param_groups[0]
                self.assertEqual((group["lr"], group["betas"]), (0.25, (0.5, 0.75)))
                for param, other in zip(params, first.param_groups[0]["params"]):
                    ours, theirs = second.state[param], first.state[other]
                    self.assertEqual(list(ours), list(theirs))
                    self.assertTrue(equal(list(ours.values()), list(theirs.values())))
                third = copy.deepcopy(first)
                self.assertTrue(equal(drive(second, 3, 5), drive(third, 3, 5)))

    def test_keep_hyper_keeps_the_groups(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.safetensors")
            opt = talus.torch.Adam(make_params(), lr=0.25)
            drive(opt, 0, 1)
            opt.native.save(path)
            opt.param_groups[0]["lr"] = 0.5
            opt.native.load(path, keep_hyper=True)
            self.assertEqual((opt.param_groups[0]["lr"], opt.native.get("lr")), (0.5, 0.5))


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
        self.assertEqual(other.param_groups[0]["lr"], 0.125)
        self.assertEqual(other.native.get_setting("threads"), 1)
        self.assert_goes_on_alike(opt, other)

    def test_pickles(self):
        for kind, options in ((talus.torch.AdamW, {}), (talus.torch.Optimizer, {"rule": "lion"})):
            opt = kind(make_params(torch.bfloat16), **options)
            drive(opt, 0, 4)
            self.assert_goes_on_alike(opt, pickle.loads(pickle.dumps(opt)))

    def test_what_belongs_to_this_process_is_not_dropped_silently(self):
        for change, what in (
                (lambda opt: opt.attach_scaler(talus.Scaler()), "a scaler"),
                (lambda opt: opt.bind_scale(torch.ones(1)), "a scale"),
                (lambda opt: opt.set_parallel_for(lambda n, task: None), "parallel_for"),
                (lambda opt: opt.set_allocator(lambda *_: None, lambda *_: None), "an allocator"),
                (lambda opt: opt.attach("lr", talus.Schedule("constant")), "a schedule")):
            opt = talus.torch.SGD(make_params())
            change(opt.native)
            for call in (copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(talus.Error, what + " is .*carried over"):
                    call(opt)
        opt = talus.torch.SGD(make_params())
        opt.native.set_parallel_for(None)
        opt.native.attach_scaler(None)
        opt.native.bind_scale(None)
        copy.deepcopy(opt)

    def test_a_shallow_copy_is_refused(self):
        with self.assertRaisesRegex(TypeError, "deepcopy"):
            copy.copy(talus.torch.SGD(make_params()))


if __name__ == "__main__":
    unittest.main()
