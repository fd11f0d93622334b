"""The package as a whole: what it exports, its page, and what a wheel would have in it."""
import pathlib
import re
import unittest

import talus

FOLDER = pathlib.Path(__file__).parents[1]


class Package(unittest.TestCase):
    def test_what_it_exports_is_there(self):
        self.assertEqual([name for name in talus.__all__ if not hasattr(talus, name)], [])
        self.assertEqual(talus.__version__, talus.version())

    def test_the_example_of_the_page_runs(self):
        page = (FOLDER / "README.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", page, re.S)
        self.assertGreaterEqual(len(blocks), 2)
        for block in blocks:
            if "torch" in block:
                try:
                    import torch  # noqa: F401
                except ImportError:
                    continue  # the test python-torch has it
            exec(compile(block, "README.md", "exec"), {})

    def test_a_wheel_has_every_module(self):
        build = (FOLDER / "meson.build").read_text(encoding="utf-8")
        listed = re.findall(r"'talus/([\w.]+)'", build)
        there = [path.name for path in (FOLDER / "talus").iterdir() if path.is_file() and
                 path.suffix != ".0"]
        self.assertEqual(sorted(listed), sorted(there))


if __name__ == "__main__":
    unittest.main()
