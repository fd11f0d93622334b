"""Memory that moves or may not be written, and numbers that do not fit."""
import array
import unittest

import talus

try:
    import numpy
except ImportError:
    numpy = None


class Numbers(unittest.TestCase):
    def test_integers_that_do_not_fit_are_refused(self):
        weights = array.array("f", [1, 2])
        with talus.Optimizer("adamw") as opt:
            opt.add(weights)
            for call in (lambda: opt.param(1 << 70), lambda: opt.set(group=1 << 32, lr=0.1),
                         lambda: opt.set_steps(0, (1 << 64) + 5), lambda: opt.group_rule(1 << 32),
                         lambda: opt.set_clock(1 << 63)):
                with self.assertRaisesRegex(OverflowError, "expected -"):
                    call()
            self.assertEqual(opt.steps(0), 0)
            self.assertEqual(opt.get("lr"), talus.hypers("adamw")["lr"].default)


    def test_values_that_are_no_numbers_are_named(self):
        with talus.Optimizer("adamw") as opt:
            with self.assertRaisesRegex(TypeError, "lr: 'x', expected a number"):
                opt.set(lr="x")


class Shapes(unittest.TestCase):
    def test_a_gradient_of_another_shape_is_refused(self):
        def view(*shape):
            return memoryview(bytearray(32)).cast("f", shape)

        with talus.Optimizer("sgd") as opt:
            with self.assertRaisesRegex(ValueError, r"gradient: shape is \(2, 4\), expected"):
                opt.add(view(4, 2), view(2, 4))
            opt.add(view(4, 2), view(4, 2))
            opt.add(view(4, 2), view(8))  # flat ones serve
            opt.add(view(4, 2), view(4, 2), shape=(2, 4))  # as the array, or as was said
            opt.bind_grad(2, view(2, 4))
            with self.assertRaisesRegex(ValueError, "parameter 0: gradient: shape"):
                opt.bind_grad(0, view(2, 4))


@unittest.skipUnless(numpy, "numpy is not there: its arrays")
class ReadOnly(unittest.TestCase):
    def test_gradients_are_never_written(self):
        values = bytes(numpy.ones(3, "f4"))
        gradient = numpy.frombuffer(values, "f4")
        weights = numpy.zeros(3, "f4")
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(weights, gradient)
            opt.step()
            with self.assertRaisesRegex(talus.Error, "parameter 0: the gradient is read-only"):
                opt.zero_grad()
            self.assertEqual(values, bytes(numpy.ones(3, "f4")))
            opt.zero_grad(unbind=True)
            opt.bind_grad(0, numpy.ones(3, "f4"))
            opt.zero_grad()
            opt.bind_grad(0, gradient)
            self.assertRaises(talus.Error, opt.zero_grad)
        self.assertEqual(weights.tolist(), [-1] * 3)


if __name__ == "__main__":
    unittest.main()
