"""The runners of conformance.txt see what is wrong in it, and leave nothing behind.

    check_conformance.py CONFORMANCE_TXT RUNNER...       the first runner is the one that writes
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

script, runners = pathlib.Path(sys.argv[1]).read_text(encoding="ascii"), sys.argv[2:]


class Runners(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "script.txt")

    def run_script(self, text, *options, runner):
        """What the runner said, and that its files are gone."""
        pathlib.Path(self.file).write_text(text, encoding="ascii")
        environment = {**os.environ, "TALUS_CONFORMANCE": self.file, "TMPDIR": self.folder,
                       "ASAN_OPTIONS": "detect_leaks=0"}  # a runner that stops frees nothing
        result = subprocess.run([runner, *options], capture_output=True, text=True, check=False,
                                env=environment)
        self.assertEqual(os.listdir(self.folder), ["script.txt"], runner)
        return result

    def assert_stops(self, text, line, *words):
        for runner in runners:
            result = self.run_script(text, runner=runner)
            self.assertEqual((result.returncode, result.stdout), (1, ""), (runner, text[:200]))
            self.assertTrue(result.stderr.startswith(f"{self.file}:{line}: "), result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)

    def test_the_script_runs(self):
        calls = sum(1 for line in script.splitlines() if line and line[0] != "#")
        for runner in runners:
            result = self.run_script(script, runner=runner)
            self.assertEqual(result.stdout, f"{calls} calls agree\n", result.stderr)

    def test_one_bit_in_any_sort_of_answer(self):
        lines = script.splitlines()
        seen = set()
        for i, line in enumerate(lines):
            if " = " not in line or line.startswith("#") or line.split()[0] in seen:
                continue
            seen.add(line.split()[0])
            wrong = line[:-1] + ("1" if line[-1] != "1" else "0")
            self.assert_stops("\n".join(lines[:i] + [wrong] + lines[i + 1:]) + "\n", i + 1,
                              line.split()[-1], wrong.split()[-1])
        self.assertGreater(len(seen), 12, seen)

    def test_a_call_that_fails_another_way_or_not_at_all(self):
        head = "optimizer o sgd\n"
        self.assert_stops(head + "! TALUS_E_RANGE lr set o 0 lr 3ff0000000000000\n", 2)
        self.assert_stops(head + "! TALUS_E_NAME lr set o 0 lr bff0000000000000\n", 2)
        self.assert_stops(head + "! TALUS_E_RANGE beta set o 0 lr bff0000000000000\n", 2)
        self.assert_stops(head + "set o 0 lr bff0000000000000\n", 2, "lr")

    def test_what_is_no_call(self):
        self.assert_stops("optimizer o sgd\nnonsense o\n", 2, "nonsense")
        self.assert_stops("optimizer o sgd\noptimizer o sgd\n", 2, "o")
        self.assert_stops("array a f32 3f80000\n", 1, "3f80000")
        self.assert_stops("array a f32 3f800000\narray b f32 3f800001\nsame a b\n", 3, "differ")
        self.assert_stops("array a f32 3f800000\nfill a\n", 2)
        self.assert_stops("step\n", 1)

    def test_a_rule_that_the_script_does_not_have(self):
        start, end = script.index("# lion\n"), script.index("# lamb\n")
        without = script[:start] + script[end:]
        self.assertIn(" lion ", self.run_script(without, runner=runners[0]).stderr)

    def test_answers_are_written(self):
        blank = re.sub(r"^([^#].*) = .*$", r"\1 = ?", script, flags=re.M)
        self.assertNotEqual(blank, script)
        result = self.run_script(blank, "--write", runner=runners[0])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(pathlib.Path(self.file).read_text(encoding="ascii"), script)


unittest.main(argv=sys.argv[:1])
