"""tools/gpu-check --emulate: every stage runs, and the result has the schema that readers expect.

    check_gpu_check.py GPU_CHECK BUILD_FOLDER
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

tool, build = sys.argv[1:3]
STAGES = ["build", "identify", "tests", "sanitizer", "bench", "torch"]
UNMEASURED = "not measured (emulated)"
MEASURED = ("ms_median", "ms_min", "gbps", "copy_gbps", "ratio", "host_us", "host_us_p99")
COUNTED = ("elements", "tensors", "bytes", "launches")
KINDS = {"schema": int, "date": str, "device": str, "driver": str, "commit": str, "stages": list,
         "cases": list}


def emulate(*args):
    return subprocess.run([sys.executable, "-B", tool, "--emulate", "--as-built", *args],
                          capture_output=True, text=True, check=False)


def contents(folder):
    return {name: os.stat(os.path.join(folder, name)).st_mtime_ns
            for name in os.listdir(folder)} if os.path.isdir(folder) else None


def replace(folder, program, script):
    path = os.path.join(folder, program)
    os.rename(path, path + ".real")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + script + "\n")
    os.chmod(path, 0o755)


class GpuCheck(unittest.TestCase):
    def test_an_emulated_run_has_every_stage_and_the_schema(self):
        project_results = os.path.join(os.path.dirname(tool), "results")
        before = contents(project_results)
        with tempfile.TemporaryDirectory() as folder:
            run = emulate("--build", build, "--results", folder)
            self.assertEqual(run.returncode, 0, run.stderr)
            with open(os.path.join(folder, "gpu-check.json"), encoding="utf-8") as file:
                result = json.load(file)
            with open(os.path.join(folder, "gpu-check.md"), encoding="utf-8") as file:
                self.assertEqual(run.stdout.strip(), file.read().strip())
        self.assertEqual(contents(project_results), before)
        self.assertEqual({key: type(value) for key, value in result.items()}, KINDS)
        self.assertEqual(result["schema"], 1)
        self.assertIn("no GPU", result["device"])
        self.assertTrue(re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"]))
        self.check_stages(result["stages"])
        self.check_cases(result["cases"])

    def check_stages(self, stages):
        self.assertEqual([stage["name"] for stage in stages], STAGES)
        for stage in stages:
            self.assertEqual(set(stage), {"name", "status", "seconds", "text"})
            measured = stage["name"] in ("sanitizer", "torch")
            self.assertEqual(stage["status"], UNMEASURED if measured else "passed", stage)

    def check_cases(self, cases):
        names = [case["name"] for case in cases]
        self.assertEqual(len(set(names)), len(names))
        for kind in "flat f32", "norm of flat bf16", "odd start", "f16", "a captured step", \
                "bound anew", "chunk_tiles 16", "transformer":
            self.assertTrue(any(kind in name for name in names), kind)
        for case in cases:
            self.assertEqual(set(case), {"name", *COUNTED, *MEASURED})
            self.assertTrue(all(case[key] == UNMEASURED for key in MEASURED), case)
            self.assertTrue(all(isinstance(case[key], int) for key in COUNTED), case)
            if not case["name"].startswith("norm"):
                self.assertEqual(case["launches"], 1, case)

    def test_a_device_of_other_bits_fails_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            packed = os.path.join(folder, "pack")
            run = emulate("--build", build, "--pack", packed)
            self.assertEqual(run.returncode, 0, run.stderr)
            for program in "talus", "gpu_bench":  # an interpreter is slow
                replace(packed, program, "exit 0")
            replace(packed, "gpu_checks", '[ "$1" != --identify ] || exec "$0.real" "$@"')
            # As if training on the device went another way.
            replace(packed, "train_digits_cuda", 'exec "$0.real" "$@" --seed 2')
            run = emulate("--from", packed, "--results", folder)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn("tests: failed: train_digits_cuda: other bits", run.stderr)

    def test_without_a_device_it_skips_and_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            packed = os.path.join(folder, "pack")
            run = emulate("--build", build, "--pack", packed)
            self.assertEqual(run.returncode, 0, run.stderr)
            os.remove(os.path.join(packed, "libtalus_cuda.so"))
            results = os.path.join(folder, "results")
            run = emulate("--from", packed, "--results", results)
            self.assertEqual(run.returncode, 77, run.stderr)
            self.assertIn("libtalus_cuda.so", run.stderr)
            self.assertFalse(os.path.exists(os.path.join(results, "gpu-check.json")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
