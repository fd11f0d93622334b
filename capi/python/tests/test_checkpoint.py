"""Checkpoints: to files, to open files, notes, and what a load refuses."""
import array
import io
import os
import pathlib
import tempfile
import unittest

import talus


def model(rule="adamw", **hypers):
    opt = talus.Optimizer(rule, **hypers)
    data = [array.array("f", [i + k for i in range(5)]) for k in range(2)]
    grads = [array.array("f", [0] * 5) for _ in range(2)]
    for i in range(2):
        opt.add(data[i], grads[i], name=f"layer.{i}")
    return opt, data, grads


def train(opt, grads, first, last):
    for t in range(first, last):
        for k, grad in enumerate(grads):
            for i in range(5):
                grad[i] = (t * 7 + i * 3 + k) % 11 - 5
        opt.step()


class Checkpoints(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "state.safetensors"

    def test_a_resumed_run_has_the_bits_of_one_that_went_on(self):
        opt, data, grads = model(lr=0.1)
        opt.attach("lr", talus.Schedule("exponential", gamma=0.9))
        train(opt, grads, 0, 5)
        opt.set_note("epoch", "5 \u00e9")
        opt.save(self.path, params=True)
        train(opt, grads, 5, 10)
        other, resumed, their_grads = model(lr=0.7)
        other.attach("lr", talus.Schedule("exponential", gamma=0.1))
        other.load(self.path, params=True)
        self.assertEqual((other.note("epoch"), other.note("x")), ("5 \u00e9", None))
        self.assertEqual((other.get("lr"), other.schedule("lr").get("gamma")), (0.1, 0.9))
        train(other, their_grads, 5, 10)
        self.assertEqual([values.tobytes() for values in resumed],
                         [values.tobytes() for values in data])
        self.assertEqual(other.state(0, "exp_avg").tobytes(), opt.state(0, "exp_avg").tobytes())

    def test_open_files_get_and_give_the_bytes_of_a_file(self):
        opt, _, grads = model()
        train(opt, grads, 0, 3)
        opt.save(os.fsencode(self.path))
        file = io.BytesIO(b"before")
        file.seek(6)
        opt.save_to(file)
        self.assertEqual(file.getvalue()[6:], self.path.read_bytes())
        other, _, _ = model()
        file.seek(6)
        other.load_from(file)
        self.assertEqual(other.state(1, "exp_avg"), opt.state(1, "exp_avg"))

    def test_a_file_that_takes_and_gives_a_byte_at_a_time(self):
        class Slow(io.BytesIO):
            def write(self, data):
                return super().write(bytes(data[:7]))

            def read(self, count=-1):
                return super().read(min(count, 7))

        opt, _, grads = model()
        train(opt, grads, 0, 1)
        file, whole = Slow(), io.BytesIO()
        opt.save_to(file)
        opt.save_to(whole)
        self.assertEqual(file.getvalue(), whole.getvalue())
        file.seek(0)
        other, _, _ = model()
        other.load_from(file)
        self.assertEqual(other.steps(0), 1)

    def test_what_a_file_raises_comes_out_and_nothing_has_changed(self):
        class Full(io.BytesIO):
            def write(self, data):
                raise OSError(28, "no space")

            def read(self, count=-1):
                return b""

        opt, data, grads = model()
        train(opt, grads, 0, 1)
        with self.assertRaisesRegex(OSError, "no space"):
            opt.save_to(Full())
        with self.assertRaisesRegex(EOFError, "before its size"):
            opt.load_from(Full(bytes(1000)))
        self.assertEqual(opt.steps(0), 1)
        train(opt, grads, 1, 2)

    def test_progress_is_told_and_may_cancel(self):
        opt, _, grads = model()
        train(opt, grads, 0, 1)
        seen = []
        opt.save(self.path, progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen[0][0], 0)
        self.assertEqual(*seen[-1])
        before = self.path.read_bytes()
        with self.assertRaisesRegex(talus.Error, "TALUS_E_CANCELLED"):
            opt.save(self.path, progress=lambda done, total: False)
        with self.assertRaises(ZeroDivisionError):
            opt.load(self.path, progress=lambda done, total: 1 / 0)
        self.assertEqual(self.path.read_bytes(), before)

    def test_flags(self):
        opt, _, grads = model()
        opt.add(array.array("f", [1]), array.array("f", [1]), name="more")
        train(opt, grads, 0, 1)
        opt.save(self.path, digest=False)
        other, _, _ = model(lr=0.25)
        with self.assertRaisesRegex(talus.Error, "more.*(?s:.*)TALUS_E_MISMATCH"):
            other.load(self.path)
        self.assertEqual(other.steps(0), 0)
        other.load(self.path, allow_extra=True, check_only=True)
        self.assertEqual(other.steps(0), 0)
        other.load(self.path, allow_extra=True, keep_hyper=True)
        self.assertEqual((other.steps(0), other.get("lr")), (1, 0.25))
        with self.assertRaisesRegex(TypeError, "no flag 'nothing', known are allow_missing, "):
            other.load(self.path, nothing=True)

    def test_files_that_are_not_there_or_damaged(self):
        opt, _, grads = model()
        train(opt, grads, 0, 1)
        with self.assertRaises(talus.Error) as caught:
            opt.load(self.path)
        self.assertEqual((caught.exception.name, caught.exception.detail), ("TALUS_E_IO", 2))
        opt.save(self.path)
        content = bytearray(self.path.read_bytes())
        content[-1] ^= 1
        with self.assertRaisesRegex(talus.Error, "TALUS_E_FORMAT"):
            opt.load_from(io.BytesIO(content))

    def test_notes(self):
        opt, _, _ = model()
        opt.set_note("k", "")
        self.assertEqual(opt.note("k"), "")
        opt.set_note("k", None)
        self.assertIsNone(opt.note("k"))
        with self.assertRaises(talus.Error):
            opt.set_note("", "x")


if __name__ == "__main__":
    unittest.main()
