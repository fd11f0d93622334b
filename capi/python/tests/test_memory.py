"""Which arrays are taken without a copy, and what is said of the others."""
import array
import ctypes
import gc
import mmap
import unittest

import talus
from talus import _c, dlpack
from talus.memory import locate

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class Shapes(unittest.TestCase):
    def test_gradients_are_as_the_array_or_as_was_said(self):
        def view(*shape):
            return memoryview(bytearray(32)).cast("f", shape)

        with talus.Optimizer("sgd") as opt:
            index = opt.add(view(4, 2), view(4, 2), shape=(2, 4))
            opt.bind_grad(index, view(2, 4))
            opt.bind_grad(index, view(4, 2))
            with self.assertRaisesRegex(ValueError, r"shape \(8, 1\), expected"):
                opt.bind_grad(index, view(8, 1))


class Buffers(unittest.TestCase):
    def test_formats(self):
        for values, code, dtype in ((array.array("f", [1]), _c.F32, None),
                                    (array.array("d", [1]), _c.F64, None),
                                    (array.array("H", [1]), _c.BF16, "bf16"),
                                    (array.array("h", [1]), _c.F16, "f16"),
                                    (memoryview(bytearray(4)).cast("f"), _c.F32, None)):
            memory = locate(values, "x", dtype)
            self.assertEqual((memory.dtype, memory.shape), (code, (1,)))
        values = array.array("f", [1, 2])
        self.assertEqual(locate(values, "x").address, values.buffer_info()[0])

    def test_shapes_of_views(self):
        view = memoryview(bytearray(24)).cast("f", (2, 3))
        self.assertEqual(locate(view, "x").shape, (2, 3))
        self.assertIsNone(locate(array.array("f"), "x").address)

    def test_other_objects_with_the_protocol(self):
        with mmap.mmap(-1, 4096) as pages:
            memory = locate(memoryview(pages).cast("f"), "x")
            self.assertEqual(memory.count, 1024)
            del memory
            gc.collect()
        self.assertEqual(locate((ctypes.c_float * 3)(), "x").shape, (3,))

    def test_what_cannot_serve_is_refused_by_name(self):
        values = array.array("f", [1, 2, 3, 4])
        for bad, text in ((values.tolist(), "list has neither the buffer protocol nor DLPack"),
                          (array.array("b", [1]), "format 'b'"),
                          (array.array("H", [1]), "format 'H'"),
                          (memoryview(values)[::2], "expected row-major"),
                          (memoryview(bytes(8)).cast("f"), "the memory is read-only"),
                          (3, "int has"), (None, "NoneType has")):
            with self.subTest(text), self.assertRaisesRegex(TypeError, "data: .*" + text):
                locate(bad, "data")
        with self.assertRaisesRegex(TypeError, "read-only memory of memoryview"):
            locate(memoryview(bytes(8)).cast("f"), "gradient", writable=False)
        with self.assertRaisesRegex(TypeError, "data: dtype is f32, expected f64"):
            locate(values, "data", "f64")
        with self.assertRaisesRegex(TypeError, "dtype 'f8', known are f16, bf16, f32"):
            locate(values, "data", "f8")

    def test_raw_addresses(self):
        data, grad = (ctypes.c_float * 2)(1, 2), (ctypes.c_float * 2)(1, 1)
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(talus.Raw(ctypes.addressof(data), "f32", (2,)),
                    talus.Raw(ctypes.addressof(grad), "f32", (2,)))
            opt.step()
            self.assertEqual(list(data), [0, 1])
            with self.assertRaisesRegex(TypeError, r"on \(1, 0\)"):
                opt.add(talus.Raw(4096, "f32", (2,), (2, 0)))

    def test_shape_must_hold_the_elements(self):
        with talus.Optimizer("sgd") as opt:
            for shape in ((2, 2), (-3, -1), ()):
                with self.subTest(shape), self.assertRaises((ValueError, talus.Error)):
                    opt.add(array.array("f", [1, 2, 3]), shape=shape)
            with self.assertRaisesRegex(ValueError, "gradient: 2 elements"):
                opt.add(array.array("f", [1, 2, 3]), array.array("f", [1, 2]))
            self.assertEqual(opt.param_count, 0)


class Producer:
    """Speaks DLPack for an array, as a library does, with what a test changes about it."""

    def __init__(self, values, shape, strides=None, versioned=True, **changes):
        self.values, self.deleted, self.versioned = values, 0, versioned
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.changes = changes

    def __dlpack_device__(self):
        return 1, 0

    def fill(self, tensor):
        tensor.data, tensor.ndim = self.values.buffer_info()[0], len(self.shape)
        tensor.device_type, tensor.type_code, tensor.bits, tensor.lanes = 1, 2, 32, 1
        tensor.shape = self.shape
        if self.strides:
            tensor.strides = self.strides
        for name, value in self.changes.items():
            if name not in ("flags", "major"):
                setattr(tensor, name, value)

    def __dlpack__(self, **options):
        if not self.versioned and "max_version" in options:
            raise TypeError("a producer of version 0 has no max_version")
        kind = dlpack.Versioned if self.versioned else dlpack.Managed
        self.managed = kind()
        self.fill(self.managed.tensor)
        if self.versioned:
            self.managed.major = self.changes.get("major", 1)
            self.managed.flags = self.changes.get("flags", 0)

        def delete(_managed):
            self.deleted += 1

        self.managed.deleter = dict(kind._fields_)["deleter"](delete)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p)
        self.name = b"dltensor_versioned" if self.versioned else b"dltensor"
        self.capsule = new(ctypes.addressof(self.managed), self.name, None)
        return self.capsule

    @property
    def is_used(self):
        """Whether the capsule says that its tensor is another's to free."""
        name = ctypes.pythonapi.PyCapsule_GetName
        name.restype, name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
        return name(self.capsule) == b"used_" + self.name


class DLPack(unittest.TestCase):
    def test_both_versions_are_taken_and_given_back_once(self):
        for versioned in (False, True):
            values = array.array("f", [1, 2, 3, 4, 5, 6])
            producer = Producer(values, (2, 3), versioned=versioned)
            with talus.Optimizer("sgd", lr=1) as opt:
                opt.add(producer, array.array("f", [1] * 6))
                self.assertEqual(opt.param(0).shape, (2, 3))
                opt.step()
                self.assertEqual((producer.deleted, producer.is_used), (0, True))
            gc.collect()
            self.assertEqual(producer.deleted, 1)
            self.assertEqual(values.tolist(), [0, 1, 2, 3, 4, 5])

    def test_offsets_and_strides(self):
        values = array.array("f", [1, 2, 3, 4])
        address = values.buffer_info()[0]
        self.assertEqual(locate(Producer(values, (3,), byte_offset=4), "x").address, address + 4)
        for shape, strides in (((2, 2), (2, 1)), ((1, 4), (99, 1)), ((4, 1), (1, 99)),
                               ((0, 4), (1, 1))):
            locate(Producer(values, shape, strides), "x")
        for shape, strides in (((2, 2), (1, 2)), ((2,), (2,)), ((2, 2), (4, 1))):
            with self.subTest(strides), self.assertRaisesRegex(TypeError, "expected row-major"):
                locate(Producer(values, shape, strides), "x")

    def test_what_cannot_serve_is_refused_and_stays_the_producers(self):
        values = array.array("f", [1, 2])
        for change, text in (({"lanes": 2}, "2 lanes"), ({"bits": 8}, "DLPack dtype"),
                             ({"flags": 1}, "read-only"), ({"major": 2}, "DLPack 2")):
            producer = Producer(values, (2,), **change)
            with self.subTest(text), self.assertRaisesRegex(TypeError, text):
                locate(producer, "x")
            self.assertFalse(producer.is_used and not producer.deleted)
        self.assertEqual(locate(Producer(values, (2,), flags=1), "x", writable=False).count, 2)
        with self.assertRaisesRegex(TypeError, "device"):
            with talus.Optimizer("sgd") as opt:
                opt.add(Producer(values, (2,), device_type=2))


@unittest.skipUnless(numpy, "numpy is not there: its arrays")
class Numpy(unittest.TestCase):
    def test_arrays_are_shared(self):
        for dtype, name in (("float32", "f32"), ("float64", "f64"), ("float16", "f16")):
            data, grad = numpy.ones((2, 3), dtype), numpy.ones((2, 3), dtype)
            grad.flags.writeable = False
            with talus.Optimizer("sgd", lr=0.5) as opt:
                opt.add(data, grad)
                self.assertEqual(opt.param(0)[1:3], (name, (2, 3)))
                opt.step()
            numpy.testing.assert_array_equal(data, numpy.full((2, 3), 0.5, dtype))

    def test_scalars_and_empty_arrays(self):
        with talus.Optimizer("sgd", lr=1) as opt:
            scalar = numpy.array(3, "float32")
            opt.add(scalar, numpy.array(1, "float32"))
            opt.add(numpy.empty((0, 4), "float32"), numpy.empty((0, 4), "float32"))
            self.assertEqual((opt.param(0).shape, opt.param(1).shape), ((), (0, 4)))
            opt.step()
            self.assertEqual(scalar, 2)

    def test_views_and_foreign_bytes_are_refused(self):
        base = numpy.ones((4, 4), "float32")
        read_only = base.copy()
        read_only.flags.writeable = False
        for bad in (base.T[1:], base[:, ::2], base[::-1], base.astype(">f4"), base.astype("int32"),
                    read_only, base.astype("complex64"), numpy.ones(3, "bool")):
            with talus.Optimizer("sgd") as opt, self.subTest(str(bad.dtype) + str(bad.strides)):
                with self.assertRaises((TypeError, talus.Error)):
                    opt.add(bad)

    def test_bfloat16_as_its_bits(self):
        data = numpy.array([0x3F80], "uint16")
        with talus.Optimizer("sgd", lr=0.5) as opt:
            opt.add(data, numpy.array([0x3F80], "uint16"), dtype="bf16")
            opt.step()
        self.assertEqual(data[0], 0x3F00)


    def test_an_array_that_is_resized_is_not_touched(self):
        data = numpy.ones(1 << 18, "float32")
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(data, numpy.ones(1 << 18, "float32"))
            data.resize(1 << 20, refcheck=False)
            with self.assertRaisesRegex(talus.Error, "parameter 0: data has moved .* its ndarray"):
                opt.step()
            opt.bind_data(0, data[:1 << 18])
            opt.step()
        self.assertEqual((data[0], data[(1 << 18) - 1]), (0, 0))

    def test_read_only_gradients_are_never_filled(self):
        given = array.array("f", [1, 2]).tobytes()
        frozen, other = numpy.frombuffer(given, "float32"), numpy.ones(2, "float32")
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(numpy.zeros(2, "float32"), other)
            opt.add(numpy.zeros(2, "float32"), frozen)
            with self.assertRaisesRegex(talus.Error, "parameter 1: gradient: .* read-only"):
                opt.zero_grad()
            self.assertEqual((frozen.tolist(), other.tolist()), ([1, 2], [1, 1]))
            opt.step()
            opt.zero_grad(unbind=True)
            opt.bind_grad(1, Producer(array.array("f", [1, 2]), (2,), flags=1))
            with self.assertRaisesRegex(talus.Error, "parameter 1: gradient: .* read-only"):
                opt.zero_grad()

    def test_a_gradient_of_another_shape_is_refused(self):
        with talus.Optimizer("sgd", lr=1) as opt:
            data, turned = numpy.zeros((2, 3), "float32"), numpy.zeros((3, 2), "float32")
            with self.assertRaisesRegex(ValueError, r"gradient: shape \(3, 2\), expected \(2, 3\)"):
                opt.add(data, turned)
            opt.add(data, turned.reshape(-1))
            with self.assertRaisesRegex(ValueError, "parameter 0: gradient: shape"):
                opt.bind_grad(0, turned)
            opt.bind_grad(0, turned.reshape(2, 3))


@unittest.skipUnless(torch, "torch is not there: its tensors")
class Torch(unittest.TestCase):
    def test_tensors_are_shared(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            data = torch.ones(2, 3, dtype=dtype, requires_grad=True)
            with talus.Optimizer("sgd", lr=0.5) as opt:
                opt.add(data, torch.ones(2, 3, dtype=dtype))
                opt.step()
            self.assertTrue(torch.equal(data.detach(), torch.full((2, 3), 0.5, dtype=dtype)))

    def assert_moved(self, what, call):
        with self.assertRaisesRegex(talus.Error, f"{what} has moved .* its Tensor .*E_STATE"):
            call()

    def test_a_tensor_that_is_given_other_memory_is_not_touched(self):
        def swap(tensor):
            tensor.data = torch.full_like(tensor, 7)

        for move in (swap, lambda tensor: tensor.resize_(1 << 20),
                     lambda tensor: tensor.untyped_storage().resize_(0)):
            data, grad = torch.ones(1 << 10), torch.ones(1 << 10)
            with talus.Optimizer("sgd", lr=1) as opt:
                opt.add(data, grad)
                move(data)
                for call in (opt.step, opt.prepare, opt.grad_norm, lambda: opt.step(lambda: 0),
                             lambda: opt.save("/nowhere/x", params=True)):
                    self.assert_moved("parameter 0: data", call)
                data = torch.ones(1 << 10)
                opt.bind_data(0, data)
                opt.step()
                self.assertEqual(data.unique().tolist(), [0])
                move(grad)
                for call in (opt.step, opt.zero_grad):
                    self.assert_moved("parameter 0: gradient", call)
                opt.bind_grad(0, None)

    def test_a_closure_may_move_nothing_that_it_does_not_bind(self):
        data, grads = torch.ones(4), [torch.ones(4), torch.ones(4)]
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(data, grads[0])

            def closure(bind):
                grads[0].data = torch.ones(4)
                if bind:
                    opt.bind_grad(0, grads[1])
                return 0

            self.assert_moved("gradient", lambda: opt.step(lambda: closure(False)))
            self.assertEqual(data.tolist(), [1] * 4)
            opt.step(lambda: closure(True))
            self.assertEqual(data.tolist(), [0] * 4)

    def test_old_memory_lives_until_it_is_bound_anew(self):
        data = torch.ones(1 << 20)
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(data, torch.ones(1 << 20))
            address = data.data_ptr()
            data.data = torch.ones(1)
            self.assertEqual(ctypes.c_float.from_address(address).value, 1)

    def test_rows_state_and_scale_that_move_are_not_touched(self):
        data, state, scale = torch.ones(4, 2), torch.zeros(4, 2), torch.ones(1)
        indices, values = torch.tensor([0]), torch.ones(1, 2)
        with talus.Optimizer("sgd", lr=1, momentum=0.5) as opt:
            opt.add(data, torch.ones(4, 2))
            opt.bind_state(0, "momentum_buffer", state)
            opt.bind_scale(scale)
            for what, tensor, again in (
                    ("momentum_buffer", state,
                     lambda: opt.bind_state(0, "momentum_buffer", state)),
                    ("scale", scale, lambda: opt.bind_scale(scale))):
                opt.step()
                tensor.data = tensor.data.clone()
                self.assert_moved(what, opt.step)
                again()
            tensor = torch.zeros(4, 2)
            opt.step()
            state.data = tensor
            self.assert_moved("momentum_buffer", lambda: opt.state(0, "momentum_buffer"))
        with talus.Optimizer("sgd", lr=1) as opt:
            opt.add(data)
            for what, tensor in (("indices", indices), ("values", values)):
                opt.bind_rows(0, indices, values)
                tensor.data = tensor.data.clone()
                self.assert_moved("parameter 0: " + what, opt.step)

    def test_what_is_negated_as_it_is_read_is_refused(self):
        with talus.Optimizer("sgd") as opt, self.assertRaisesRegex(TypeError, "resolve_neg"):
            opt.add(torch._neg_view(torch.ones(3)))

    def test_what_has_gaps_is_refused(self):
        base = torch.ones(4, 4)
        for bad in (base.t(), base[:, ::2], base.to_sparse(), base.int(), base.to("meta")):
            with talus.Optimizer("sgd") as opt, self.assertRaises((TypeError, talus.Error)):
                opt.add(bad)


if __name__ == "__main__":
    unittest.main()
