"""load_talus links nothing of talus, trains with the library, and says what is wrong with another.

    check_load.py LOAD_TALUS LIBRARY OTHER_ABI NOTHING_BEHIND READELF
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

load_talus, library, other_abi, nothing_behind, readelf = sys.argv[1:]


def run(*command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)


class Load(unittest.TestCase):
    def assert_refused(self, path, *texts):
        result = run(load_talus, path)
        self.assertEqual((result.returncode, result.stdout), (1, ""), path)
        self.assertTrue(result.stderr.startswith(f"load_talus: {path}: "), result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)

    def test_nothing_of_talus_is_linked(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run(readelf, "-d", load_talus).stdout)
        self.assertIn("libc.so.6", needed)
        self.assertFalse([name for name in needed if "talus" in name])
        symbols = run(readelf, "--dyn-syms", "-W", load_talus).stdout
        self.assertIn("dlopen", symbols)
        self.assertNotRegex(symbols, r" talus_\w+")

    def test_it_trains(self):
        result = run(load_talus, library)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"libtalus \d+\.\d+\.\d+\nw = .*, loss 1\.8750 to 0\.0")

    def test_the_loader_finds_it_by_name(self):
        folder = os.path.dirname(os.path.realpath(library))
        result = run(load_talus, env={**os.environ, "LD_LIBRARY_PATH": folder})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_library_that_is_missing(self):
        self.assert_refused("/nowhere/libtalus.so.0", "cannot be loaded: ", "No such file")

    def test_a_file_that_is_no_library(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"\x7fELF, but no more")
            file.flush()
            self.assert_refused(file.name, "cannot be loaded: ")

    def test_a_library_that_is_another(self):
        self.assert_refused("libm.so.6", "is no libtalus, it lacks talus_abi_version")
        self.assert_refused(other_abi, "is a libtalus of ABI 7, expected 0")
        self.assert_refused(nothing_behind, "is no libtalus, it lacks talus_")


unittest.main(argv=sys.argv[:1])
