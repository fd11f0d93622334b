"""Tensors of PyTorch whose memory is changed while the library has pointers to it."""
import copy
import io
import pickle
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("torch is not there: talus.torch") from error

import talus
import talus.torch
from torch_steps import drive, equal, make_params

BOUND = "has moved since it was bound"


class Tensors(unittest.TestCase):
    """Of the optimizer for arrays."""

    def setUp(self):
        self.weights, self.gradient = torch.ones(4), torch.ones(4)
        self.opt = talus.Optimizer("adam")
        self.opt.add(self.weights, self.gradient)
        self.opt.step()

    def refused(self, what):
        before = self.opt.steps(0)
        for call in (self.opt.step, self.opt.grad_norm, lambda: self.opt.save_to(io.BytesIO()),
                     lambda: self.opt.state(0, "exp_avg"), lambda: self.opt.step(lambda: 0.0)):
            with self.assertRaisesRegex(talus.Error, f"parameter 0: {what} {BOUND}"):
                call()
        self.assertEqual(self.opt.steps(0), before)

    def test_data(self):
        self.weights.data = torch.zeros(4)
        self.refused("data")
        self.opt.bind_data(0, self.weights)
        self.opt.step()
        self.weights.resize_(1 << 20)
        self.refused("data")

    def test_gradients(self):
        self.gradient.data = torch.zeros(4)
        self.refused("gradient")
        with self.assertRaisesRegex(talus.Error, BOUND):
            self.opt.zero_grad()
        self.opt.bind_grad(0, self.gradient)
        self.opt.step()

    def test_state(self):
        mean = torch.zeros(4)
        self.opt.bind_state(0, "exp_avg", mean)
        mean.resize_(1 << 20)
        self.refused("exp_avg")

    def test_what_a_closure_moves(self):
        def closure():
            self.weights.data = torch.zeros(4)
            return 0.0

        with self.assertRaisesRegex(talus.Error, BOUND):
            self.opt.step(closure)
        self.assertEqual(self.opt.steps(0), 1)

    def test_a_bound_scale(self):
        scale = torch.ones(1)
        self.opt.bind_scale(scale)
        scale.data = torch.ones(1)
        with self.assertRaisesRegex(talus.Error, f"scale {BOUND}"):
            self.opt.step()

    def test_tensors_whose_sign_is_to_be_taken(self):
        with self.assertRaisesRegex(TypeError, "resolve_neg"):
            self.opt.bind_grad(0, torch._neg_view(torch.ones(4)))


class Parameters(unittest.TestCase):
    """Of talus.torch."""

    def test_state_that_was_moved_is_refused(self):
        for move in (lambda x: setattr(x, "data", torch.zeros(5)), lambda x: x.resize_(1 << 20)):
            params = make_params()
            opt = talus.torch.Adam(params)
            drive(opt, 0, 1)
            move(opt.state[params[0]]["exp_avg"])
            with self.assertRaisesRegex(talus.Error, f"exp_avg {BOUND}"):
                drive(opt, 1, 2)

    def test_a_parameter_that_was_transposed_in_place(self):
        param = torch.nn.Parameter(torch.zeros(3, 3))
        opt = talus.torch.SGD([param], lr=1)
        param.data = param.data.t()
        param.grad = torch.ones(3, 3)
        with self.assertRaisesRegex(TypeError, "strides"):
            opt.step()

    def test_another_shape_of_the_same_memory(self):
        param = torch.nn.Parameter(torch.zeros(2, 3))
        opt = talus.torch.Adam([param], lr=1)
        param.grad = torch.ones(2, 3)
        opt.step()
        param.data, param.grad = param.data.view(3, 2), torch.ones(3, 2)
        opt.step()
        self.assertEqual(opt.state[param]["exp_avg"].shape, (3, 2))
        self.assertEqual(opt.state[param]["step"], 2)

    def test_gradients_whose_sign_is_to_be_taken(self):
        param = torch.nn.Parameter(torch.zeros(4))
        opt = talus.torch.SGD([param], lr=1)
        param.grad = torch._neg_view(torch.ones(4))
        opt.step()
        self.assertEqual(param.tolist(), [1] * 4)


class Native(unittest.TestCase):
    def test_norms_and_clips_are_of_the_gradients(self):
        param = torch.nn.Parameter(torch.zeros(4))
        opt = talus.torch.SGD([param], lr=1)
        param.grad = torch.full((4,), 10.0)
        self.assertEqual(opt.native.grad_norm(), 20)
        self.assertEqual(opt.native.clip_grad_norm(1.0), 20)
        opt.step()
        torch.testing.assert_close(param.detach(), torch.full((4,), -0.5))

    def test_state_of_a_checkpoint_goes_on(self):
        whole, params = make_params(), make_params()
        drive(talus.torch.Adam(whole, lr=0.5), 0, 4)
        first = talus.torch.Adam(params, lr=0.5)
        drive(first, 0, 2)
        file = io.BytesIO()
        first.native.save_to(file)
        second = talus.torch.Adam(params, lr=0.25)
        file.seek(0)
        second.native.load_from(file)
        self.assertEqual(second.state[params[0]]["step"], 2)
        self.assertTrue(equal([second.state[params[0]]["exp_avg"]],
                              [first.state[params[0]]["exp_avg"]]))
        self.assertEqual(second.param_groups[0]["lr"], 0.5)
        self.assertTrue(equal(drive(second, 2, 4), [param.detach() for param in whole]))

    def test_copies_without_what_is_attached_are_refused(self):
        pool = {"scaler": lambda native: native.attach_scaler(talus.Scaler()),
                "scale": lambda native: native.bind_scale(torch.ones(1)),
                "parallel_for": lambda native: native.set_parallel_for(
                    lambda count, task: [task(i) for i in range(count)]),
                "schedule": lambda native: native.attach("lr", talus.Schedule("exponential",
                                                                              gamma=0.5))}
        for what, attach in pool.items():
            opt = talus.torch.SGD(make_params(), lr=1)
            attach(opt.native)
            for copied in (copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(talus.Error, what):
                    copied(opt)


class Spelling(unittest.TestCase):
    def test_values_that_are_no_numbers_are_named(self):
        for key, value in (("betas", 0.9), ("betas", (0.9, 0.99, 0.999)), ("lr", "x"),
                           ("lr", None)):
            opt = talus.torch.Adam(make_params())
            opt.param_groups[0][key] = value
            with self.assertRaisesRegex(ValueError, f"{key}: .*, expected .*number"):
                drive(opt, 0, 1)


class StateDicts(unittest.TestCase):
    def test_steps_and_state_that_are_none(self):
        params = make_params()
        opt = talus.torch.Adam(params)
        after = drive(opt, 0, 2)
        for key, value in (("step", 1e300), ("step", 2.5), ("step", float("nan")), ("step", -1),
                           ("exp_avg", torch.zeros(3, 4, dtype=torch.complex64))):
            bad = copy.deepcopy(opt.state_dict())
            bad["state"][0][key] = value
            with self.assertRaisesRegex(ValueError, f"state: {key} is"):
                opt.load_state_dict(bad)
            self.assertEqual(opt.state[params[0]]["step"], 2)
        self.assertTrue(equal(after, [param.detach() for param in params]))


if __name__ == "__main__":
    unittest.main()
