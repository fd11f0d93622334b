"""Stops the digit example and resumes it: checkpoint, log and parameters have the bits of a run
that was never stopped, and what cannot be resumed is refused.

    check_resume.py TRAIN_DIGITS
"""

import os
import subprocess
import sys
import tempfile
import unittest

EPOCHS = "17"  # of 19 steps: 323
binary = ""


class Resumption(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_program(self, *args, code=0):
        result = subprocess.run([binary, "--epochs", EPOCHS, *args], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, code, f"{args}\n{result.stdout}{result.stderr}")
        return result.stdout if code == 0 else result.stderr

    def train(self, name, *args, resume=None):
        """A run that leaves NAME.safetensors, NAME.log and NAME.f32."""
        more = ["--resume", self.path(resume + ".safetensors")] if resume else []
        return self.run_program("--save", self.path(name + ".safetensors"), "--log",
                                self.path(name + ".log"), "--parameters", self.path(name + ".f32"),
                                *more, *args)

    def assert_same(self, name, expected, what):
        for kind in ".safetensors", ".f32":
            got, wanted = self.bytes_of(name + kind), self.bytes_of(expected + kind)
            first = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), None)
            self.assertEqual((first, len(got)), (None, len(wanted)),
                             f"{what} {kind}: first other byte")

    def assert_resumes(self, stops, *args):
        """After `full`: a run stopped at each of `stops`, each part resumed from the one before."""
        logs, before = b"", None
        for i, stop in enumerate([*stops, None]):
            name = f"part-{i}" if stop is not None else "end"
            until = ["--stop-after", str(stop)] if stop is not None else []
            output = self.train(name, *args, *until, resume=before)
            if stop is not None:
                self.assertIn(f"stopped after {stop} steps", output)
                self.assertNotIn("test accuracy", output)
            logs, before = logs + self.bytes_of(name + ".log"), name
        self.assert_same("end", "full", f"{args} stopped at {stops}")
        self.assertEqual(logs, self.bytes_of("full.log"), f"{args} stopped at {stops}")

    def test_every_place_to_stop_gives_the_bits_of_the_whole_run(self):
        self.train("full")
        for stops in [0], [1], [18], [19], [20], [300], [7, 8], [19, 38], [100, 100], [322]:
            with self.subTest(stops=stops):
                self.assert_resumes(stops)

    def test_every_algorithm_and_dtype_resumes(self):
        listed = self.run_program("--help").split("algorithms:")[1].split("\n")[0].split()
        self.assertIn("adamw", listed)
        runs = [(name, "f32") for name in listed]
        runs += [(name, dtype) for name in ("sgd", "adamw", "lamb", "sparse_adam")
                 for dtype in ("bf16", "f16")]
        for name, dtype in runs:
            with self.subTest(algorithm=name, dtype=dtype):
                args = "--optimizer", name, "--dtype", dtype, "--epochs", "3"
                self.train("full", *args)
                self.assert_resumes([30], *args)

    def test_options_of_the_algorithm_and_rows_resume(self):
        for args in (["--optimizer", "adam", "--set", "amsgrad=1"],
                     ["--optimizer", "sgd", "--set", "nesterov=1", "--batch", "7"],
                     ["--optimizer", "sgd", "--set", "momentum=0", "--rows"],
                     ["--optimizer", "rmsprop", "--set", "centered=1", "--set", "momentum=0.5"],
                     ["--optimizer", "fused_adam", "--seed", "3", "--threads", "2"]):
            with self.subTest(args=args):
                args = [*args, "--epochs", "3"]
                self.train("full", *args)
                self.assert_resumes([30], *args)

    def test_schedules_resume(self):
        """With their clocks, and a plateau with what it was told."""
        for specs in (["lr one_cycle total_steps=80"],
                      ["lr polynomial total_iters=4 clock=manual", "momentum linear clock=called"],
                      ["lr chained (linear total_iters=30) (plateau threshold=0.9 patience=0)"],
                      ["lr sequential milestones=10,40 (linear) (step step_size=7) (constant)"]):
            args = ["--optimizer", "sgd", "--epochs", "4"]
            args += [word for spec in specs for word in ("--schedule", spec)]
            self.train("full", *args)
            for stops in [0], [1], [19], [30], [38, 57]:
                with self.subTest(specs=specs, stops=stops):
                    self.assert_resumes(stops, *args)

    def test_a_log_is_continued_once_also_where_it_is_ahead_of_the_checkpoint(self):
        self.train("full")
        self.train("part", "--stop-after", "60")
        log = ["--log", self.path("part.log")]
        for _ in range(2):
            self.run_program(*log, "--resume", self.path("part.safetensors"))
            self.assertEqual(self.bytes_of("part.log"), self.bytes_of("full.log"))

    def test_an_index_with_shards_resumes(self):
        index = self.path("part.safetensors.index.json")
        self.train("full")
        self.run_program("--stop-after", "100", "--save", index)
        self.run_program("--resume", index, "--save", self.path("b.safetensors"), "--parameters",
                         self.path("b.f32"))
        self.assert_same("b", "full", "resumed from an index")

    def test_a_resumed_run_is_no_cold_start(self):
        """One that starts anew and takes the steps that were left ends elsewhere."""
        self.train("full", "--epochs", "3")
        self.train("part", "--epochs", "3", "--stop-after", "19")
        self.train("resumed", "--epochs", "3", resume="part")
        self.assert_same("resumed", "full", "resumed")
        self.train("cold", "--epochs", "3", "--stop-after", "38")
        for name in "part", "cold":
            self.assertNotEqual(self.bytes_of(name + ".f32"), self.bytes_of("full.f32"), name)
        self.assertEqual(len(self.bytes_of("resumed.log").splitlines()), 2)

    def test_other_options_are_refused(self):
        self.train("part", "--stop-after", "30")
        before = self.bytes_of("part.safetensors")
        resume = ["--resume", self.path("part.safetensors"), "--save", self.path("b.safetensors")]
        for args in (["--seed", "2"], ["--batch", "33"], ["--epochs", "18"], ["--set", "lr=0.02"],
                     ["--rows"], ["--schedule", "lr linear"]):
            text = self.run_program(*resume, *args, code=1)
            self.assertIn("part.safetensors: was made with", text)
            self.assertIn(args[-1] if args[0] in ("--set", "--schedule") else args[0], text)
        for args in ["--optimizer", "sgd"], ["--dtype", "bf16"]:
            self.assertIn("TALUS_E_MISMATCH", self.run_program(*resume, *args, code=1))
        self.assertFalse(os.path.exists(self.path("b.safetensors")))
        self.assertEqual(self.bytes_of("part.safetensors"), before)

    def test_other_images_are_refused(self):
        data = os.path.join(self.folder, "few.csv")
        lines = [",".join(str(i * p % 17) for p in range(64)) + f",{i % 10}" for i in range(30)]
        for i in 0, 1:
            lines[-1] = lines[i]
            with open(data, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            path = self.path("part.safetensors")
            if i == 0:
                self.run_program("--data", data, "--stop-after", "3", "--save", path)
            else:
                text = self.run_program("--data", data, "--resume", path, code=1)
                self.assertIn("30 images", text)

    def test_a_damaged_or_missing_checkpoint_is_refused(self):
        self.train("part", "--stop-after", "30")
        damaged = bytearray(self.bytes_of("part.safetensors"))
        damaged[len(damaged) // 2] ^= 1
        with open(self.path("part.safetensors"), "wb") as file:
            file.write(damaged)
        text = self.run_program("--resume", self.path("part.safetensors"), code=1)
        self.assertIn("TALUS_E_FORMAT", text)
        text = self.run_program("--resume", self.path("nosuch.safetensors"), code=1)
        self.assertIn("nosuch.safetensors", text)


if __name__ == "__main__":
    binary = sys.argv.pop(1)
    unittest.main()
