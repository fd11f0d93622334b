"""Optimizers: hyperparameters, groups, parameters, steps, errors and lifetimes."""
import array
import copy
import gc
import math
import pickle
import resource
import threading
import unittest
import weakref

import talus
from talus import _c


def floats(*values):
    return array.array("f", values)


def one(rule="sgd", values=(1, 2, 3), **hypers):
    """An optimizer with one parameter, its data and its gradient of ones."""
    opt = talus.Optimizer(rule, **hypers)
    data, grad = floats(*values), floats(*[1] * len(values))
    opt.add(data, grad, name="w")
    return opt, data, grad


class Hyperparameters(unittest.TestCase):
    def test_keywords_come_from_the_library(self):
        for rule in talus.names("algorithms") + talus.names("aliases"):
            table = talus.hypers(rule)
            keywords = {name: hyper.default for name, hyper in table.items()
                        if not math.isnan(hyper.default)}
            with self.subTest(rule), talus.Optimizer(rule, **keywords) as opt:
                for name, value in keywords.items():
                    self.assertEqual(opt.get(name), value, name)

    def test_an_unknown_keyword_is_refused_with_the_known_ones(self):
        with self.assertRaisesRegex(TypeError, "adamw has no 'lrr'; it has lr, beta1, "):
            talus.Optimizer("adamw", lrr=1)

    def test_a_refused_value_has_changed_nothing(self):
        with talus.Optimizer("adamw", lr=0.5) as opt:
            with self.assertRaises(talus.Error) as caught:
                opt.set(lr=-1)
            self.assertEqual((caught.exception.code, caught.exception.name), (3, "TALUS_E_RANGE"))
            self.assertIn("lr", str(caught.exception))
            self.assertEqual(opt.get("lr"), 0.5)

    def test_groups_have_values_and_rules_of_their_own(self):
        with talus.Optimizer("adamw", lr=0.5) as opt:
            self.assertEqual(opt.add_group(weight_decay=0), 1)
            self.assertEqual(opt.add_group("sgd", momentum=0.9), 2)
            self.assertEqual([opt.group_rule(i) for i in range(opt.group_count)],
                             ["adamw", "adamw", "sgd"])
            self.assertEqual([opt.get("lr", i) for i in range(3)], [0.5] * 3)
            self.assertEqual((opt.get("weight_decay", 1), opt.get("momentum", 2)), (0, 0.9))
            with self.assertRaisesRegex(talus.Error, "no group 3, there are 3"):
                opt.group_rule(3)

    def test_settings(self):
        with talus.Optimizer("sgd") as opt:
            opt.set_setting("threads", 2)
            self.assertEqual(opt.get_setting("threads"), 2)
            with self.assertRaisesRegex(talus.Error, "TALUS_E_NAME"):
                opt.set_setting("no_such", 1)

    def test_a_name_with_a_nul_is_refused_and_not_cut(self):
        with talus.Optimizer("sgd") as opt, self.assertRaisesRegex(talus.Error, "NUL"):
            opt.set(**{"lr\0x": 1.0})


class Steps(unittest.TestCase):
    def test_sgd_moves_against_the_gradient(self):
        opt, data, _ = one(lr=0.5)
        with opt:
            self.assertIsNone(opt.step())
            self.assertEqual(data.tolist(), [0.5, 1.5, 2.5])
            self.assertEqual((opt.steps(0), opt.stats().steps), (1, 1))

    def test_a_closure_writes_the_gradient_and_returns_the_loss(self):
        opt, data, grad = one(lr=1)

        def closure():
            grad[0] = 4
            return 2.5

        with opt:
            self.assertEqual(opt.step(closure), 2.5)
        self.assertEqual(data.tolist(), [-3, 1, 2])

    def test_what_a_closure_raises_comes_out_and_no_step_was_taken(self):
        opt, data, _ = one()
        with opt:
            for error in (ZeroDivisionError("x"), KeyboardInterrupt()):
                def closure(error=error):
                    raise error
                with self.assertRaises(type(error)) as caught:
                    opt.step(closure)
                self.assertIs(caught.exception, error)
            self.assertEqual((data.tolist(), opt.steps(0)), ([1, 2, 3], 0))
            opt.step()  # nothing is left of it

    def test_other_callbacks_bind_nothing(self):
        opt, data, _ = one(lr=1)
        for call in (lambda: opt.bind_grad(0, floats(9, 9, 9)),
                     lambda: opt.zero_grad(unbind=True)):
            opt.attach("lr", None)
            opt.attach("lr", talus.schedule.of_function(lambda t, call=call: call() or 1.0))
            for step in (opt.step, lambda: opt.step(lambda: 0.0)):
                with self.assertRaisesRegex(talus.Error, "own callback"):
                    step()
        self.assertEqual((data.tolist(), opt.steps(0)), ([1, 2, 3], 0))

    def test_a_closure_may_bind_gradients_and_nothing_else(self):
        opt, data, _ = one(lr=1)
        other = floats(2, 2, 2)

        def closure():
            opt.bind_grad(0, other)
            for call in (opt.step, opt.close, lambda: opt.set(lr=3), opt.grad_norm):
                with self.assertRaisesRegex(talus.Error, "own callback"):
                    call()
            return 0

        with opt:
            opt.step(closure)
            self.assertEqual(data.tolist(), [-1, 0, 1])

    def test_a_parameter_without_a_gradient_is_left_out(self):
        opt, data, _ = one(lr=1)
        more = floats(5)
        with opt:
            opt.add(more)
            opt.step()
            self.assertEqual((more[0], opt.steps(1)), (5, 0))
            opt.bind_grad(0, None)
            with self.assertRaisesRegex(talus.Error, "TALUS_E_STATE"):
                opt.step()

    def test_zero_grad_fills_or_unbinds(self):
        opt, _, grad = one()
        with opt:
            opt.zero_grad()
            self.assertEqual(grad.tolist(), [0, 0, 0])
            opt.zero_grad(unbind=True)
            self.assertIsNone(opt.param(0).grad)
            grad.append(1)  # nobody holds it

    def test_rows_serve_one_step(self):
        data = floats(*range(6))
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(data, shape=(3, 2))
            for code in "iq":
                opt.bind_rows(0, array.array(code, [2, 0]), floats(1, 1, 2, 2))
                opt.step()
            self.assertEqual(data.tolist(), [-4, -3, 2, 3, 2, 3])
            with self.assertRaisesRegex(talus.Error, "TALUS_E_STATE"):
                opt.step()
            with self.assertRaisesRegex(ValueError, "3 elements, expected 2 rows of 2"):
                opt.bind_rows(0, array.array("i", [0, 1]), floats(1, 2, 3))
            with self.assertRaisesRegex(TypeError, "indices are f32"):
                opt.bind_rows(0, floats(0), floats(1, 2))
            opt.bind_rows(0, array.array("i", [0]), floats(1, 1))
            opt.bind_rows(0, None, None)
            with self.assertRaisesRegex(talus.Error, "TALUS_E_STATE"):
                opt.step()

    def test_norm_and_clip_of_several_optimizers(self):
        (a, data, _), (b, _, _) = one(lr=1), one(lr=1)
        with a, b:
            self.assertEqual(talus.grad_norm([a, b], 1), 6)
            self.assertEqual(a.grad_norm(math.inf), 1)
            self.assertAlmostEqual(talus.clip_grad_norm([a, b], 0.5), math.sqrt(6))
            a.step()
            self.assertAlmostEqual(data[0], 1 - 0.5 / math.sqrt(6), 6)
            with self.assertRaisesRegex(talus.Error, "TALUS_E_RANGE"):
                b.clip_grad_norm(0)


class Parameters(unittest.TestCase):
    def test_what_was_added_can_be_asked_for(self):
        with talus.Optimizer("adamw") as opt:
            data = floats(*range(6))
            index = opt.add(data, name="w", shape=(2, 3), grad_dtype="bf16")
            info = opt.param(index)
            self.assertEqual(info[:7], ("w", "f32", (2, 3), "bf16", "f32", "none", 0))
            self.assertEqual(info.data, data.buffer_info()[0])
            self.assertEqual((opt.find("w"), opt.find("v"), opt.param_count), (0, None, 1))

    def test_several_are_added_together_or_not_at_all(self):
        with talus.Optimizer("sgd") as opt:
            good = [talus.Param(floats(1), name="a"), talus.Param(floats(2), name="b")]
            with self.assertRaisesRegex(talus.Error, "TALUS_E_ARGUMENT"):
                opt.add_all(good + [talus.Param(floats(3), name="a")])
            self.assertEqual(opt.param_count, 0)
            self.assertEqual((opt.add_all(good), opt.add_all(good[:0])), (0, 2))

    def test_parameters_move_and_go(self):
        opt, data, grad = one(lr=1)
        with opt:
            group = opt.add_group(lr=0)
            opt.move([0], group)
            opt.step()
            self.assertEqual((data[0], opt.param(0).group), (1, group))
            opt.remove([0])
            data.append(4)  # nobody holds it
            grad.append(4)
            with self.assertRaises(talus.Error):
                opt.steps(0)

    def test_moved_memory_is_bound_again(self):
        opt, data, _ = one(lr=1)
        other = floats(7, 8, 9)
        with opt:
            opt.bind_data(0, other)
            opt.step()
            self.assertEqual((data.tolist(), other.tolist()), ([1, 2, 3], [6, 7, 8]))
            data.append(0)  # nobody holds it
            for bad, error in ((floats(1), ValueError), (array.array("d", [1, 2, 3]), TypeError)):
                with self.assertRaises(error):
                    opt.bind_data(0, bad)
            opt.step()
            self.assertEqual(other.tolist(), [5, 6, 7])

    def test_a_column_of_gradients_is_bound_whole_or_not_at_all(self):
        opt, data, _ = one(lr=1)
        with opt:
            opt.add(floats(1), floats(1))
            with self.assertRaisesRegex(ValueError, "parameter 1: gradient: 2 elements"):
                opt.bind_grads([floats(5, 5, 5), floats(1, 2)])
            with self.assertRaisesRegex(talus.Error, "no parameter 2, there are 2"):
                opt.bind_grads([None, None, floats(1)])
            opt.step()
            self.assertEqual(data.tolist(), [0, 1, 2])

    def test_16_bit_parameters_have_a_master(self):
        data = array.array("H", [0x3F80, 0x4000])  # 1, 2 in bf16
        with talus.Optimizer("sgd", lr=2.0**-10) as opt:
            opt.add(data, array.array("H", [0x3F80, 0x3F80]), dtype="bf16")
            opt.step()
            self.assertEqual(data.tolist(), [0x3F80, 0x4000])  # below half an ulp
            self.assertEqual(opt.export_master(0).tolist(), [1 - 2.0**-10, 2 - 2.0**-10])
            opt.import_master(0, floats(3, 4))
            self.assertEqual(data.tolist(), [0x4040, 0x4080])
            data[0] = 0x3F80
            opt.reload_master(0)
            self.assertEqual(opt.export_master(0).tolist(), [1, 4])
            data[1] = 0
            opt.write_back(0)
            self.assertEqual(data[1], 0x4080)

    def test_bytes_per_param(self):
        with talus.Optimizer("adamw") as opt:
            self.assertEqual(opt.bytes_per_param("bf16")[:4], (2, 2, 4, 8))
            self.assertEqual(opt.bytes_per_param("f32", master="none", state_dtype="f32").state, 8)


class StateTensors(unittest.TestCase):
    def test_state_is_copied_out_and_in(self):
        opt, _, _ = one("adam")
        with opt:
            self.assertEqual(opt.state(0, "exp_avg").tolist(), [])
            with self.assertRaisesRegex(talus.Error, "no memory yet"):
                opt.set_state(0, "exp_avg", floats(1, 2, 3))
            opt.step()
            self.assertEqual(opt.state(0, "exp_avg"), floats(*[1 - 0.9] * 3))
            opt.set_state(0, "exp_avg", floats(1, 2, 3))
            self.assertEqual(opt.state(0, "exp_avg").tolist(), [1, 2, 3])
            with self.assertRaisesRegex(talus.Error, "no slot 'x'; it has exp_avg, exp_avg_sq"):
                opt.state(0, "x")
            with self.assertRaises(ValueError):
                opt.set_state(0, "exp_avg", floats(1))

    def test_bound_state_is_the_callers_memory(self):
        opt, data, _ = one("sgd", momentum=0.5, lr=1)
        buffer = floats(4, 4, 4)
        with opt:
            opt.bind_state(0, "momentum_buffer", buffer)
            opt.set_steps(0, 3)
            opt.step()
            self.assertEqual((buffer.tolist(), data.tolist(), opt.steps(0)),
                             ([3, 3, 3], [-2, -1, 0], 4))
            with self.assertRaises(BufferError):
                buffer.append(1)


class Lifetime(unittest.TestCase):
    def test_close_may_be_called_again_and_ends_all_use(self):
        opt, data, _ = one()
        opt.close()
        opt.close()
        data.append(1)  # nobody holds it
        self.assertTrue(opt.closed)
        self.assertEqual(repr(opt), "<talus.Optimizer, closed>")
        for call in (opt.step, lambda: opt.set(lr=1), lambda: opt.group_count, opt.states):
            with self.assertRaisesRegex(talus.Error, "closed"):
                call()

    def test_bound_memory_lives_as_long_as_it_is_bound(self):
        opt, data, grad = one(lr=1)
        with self.assertRaises(BufferError):
            data.append(4)
        known = weakref.ref(grad)
        del grad
        gc.collect()
        self.assertIsNotNone(known())
        opt.step()
        self.assertEqual(data.tolist(), [0, 1, 2])
        opt.bind_grad(0, floats(2, 2, 2))
        self.assertIsNone(known())
        opt.step()
        self.assertEqual(data.tolist(), [-2, -1, 0])

    def test_an_optimizer_that_is_dropped_lets_go(self):
        opt, data, _ = one()
        del opt, _
        gc.collect()
        data.append(4)

    def test_copies_and_pickles_are_refused_with_a_text(self):
        for thing in (talus.Optimizer("sgd"), talus.Schedule("constant"), talus.Scaler()):
            for call in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "neither copied nor pickled"):
                    call(thing)

    def test_an_error_is_pickled_whole(self):
        error = pickle.loads(pickle.dumps(talus.Error(3, "x", 7)))
        self.assertEqual((error.code, error.name, error.detail, str(error)),
                         (3, "TALUS_E_RANGE", 7, "x (TALUS_E_RANGE)"))

    def test_ten_thousand_optimizers_leave_nothing_behind(self):
        def cycles(count):
            for i in range(count):
                opt, _, _ = one("adamw", lr=0.1)
                opt.attach("lr", talus.of_function(lambda t: 1.0))
                opt.step()
                if i % 2:
                    opt.close()
            gc.collect()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        before, after = cycles(1000), cycles(10000)
        self.assertLess(after - before, 2048, "KiB of resident memory")

    def test_threads_take_turns(self):
        opt, data, _ = one("sgd", [0] * 1000, lr=1)
        opt.zero_grad()
        threads = [threading.Thread(target=lambda: [opt.step() for _ in range(200)])
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(opt.steps(0), 800)
        opt.close()


class Names(unittest.TestCase):
    def test_lists(self):
        self.assertIn("adamw", talus.names("algorithms"))
        self.assertIn("Loshchilov", talus.doc("papers", "adamw"))
        for call in (lambda: talus.names("x"), lambda: talus.doc("papers", "x"),
                     lambda: talus.hypers("x")):
            with self.assertRaisesRegex(talus.Error, "TALUS_E_NAME"):
                call()
        self.assertTrue(talus.has_feature("cpu"))
        self.assertEqual(talus.why_not("cpu"), "")
        self.assertNotEqual(talus.why_not("no_such"), "")
        self.assertEqual(talus.abi_version()[0], _c.ABI_MAJOR)
        self.assertIn(talus.version(), talus.build_info())

    def test_a_device_that_is_not_there_is_an_error(self):
        for device, error in (("tpu", TypeError), ("cuda:x", TypeError), ("cpu:3", talus.Error)):
            with self.assertRaises(error):
                talus.Optimizer("sgd", device=device)


if __name__ == "__main__":
    unittest.main()
