"""The declarations against talus.h, and the loading of the library."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from talus import _c

PACKAGE = pathlib.Path(_c.__file__).parents[1]
HEADER = pathlib.Path(__file__).parents[3] / "include" / "talus.h"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
STRUCTS = {"talus_hyper": _c.Hyper, "talus_param": _c.Param, "talus_rows": _c.Rows,
           "talus_state": _c.State, "talus_bytes": _c.Bytes, "talus_stats": _c.Stats,
           "talus_io": _c.Io, "talus_writer": _c.Writer, "talus_reader": _c.Reader,
           "talus_allocator": _c.Allocator}


def run_python(code, **environment):
    """Imports with an environment of its own; returns what it printed."""
    keep = {name: value for name, value in os.environ.items() if name != "TALUS_LIB"}
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True,
                          check=False, env={**keep, "PYTHONPATH": str(PACKAGE), **environment})
    return done.stdout + done.stderr


class Header(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not HEADER.exists():
            raise unittest.SkipTest(f"no talus.h at {HEADER}")
        cls.text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.S)

    def test_every_function_is_declared_with_its_arguments(self):
        found = {name: arguments for name, arguments in re.findall(
            r"TALUS_API [\w *]*?\btalus_(\w+)\(([^;]*)\);", self.text)}
        # talus_schedule_set_function takes a function, written with its own parentheses.
        counts = {name: 0 if arguments.strip() == "void" else
                  len(re.sub(r"\([^()]*\)", "", arguments).split(","))
                  for name, arguments in found.items()}
        ours = {name: len(types) - 1 for name, types in _c.FUNCTIONS.items()}
        self.assertEqual(ours, counts)

    def test_every_constant_has_the_value_of_the_header(self):
        defined = dict(re.findall(r"#define TALUS_(\w+) \\?\s*\(?(-?\w+)\)?", self.text))
        for name in ("F16 BF16 F32 F64 I32 I64 CPU CUDA ALL HYPER_MIN_OPEN HYPER_MAX_OPEN "
                     "HYPER_FIXED HYPER_REQUIRED MASTER_AUTO MASTER_NONE MASTER_F32 ZERO_FILL "
                     "ZERO_UNBIND CLOCK_APPLIED CLOCK_CALLED CLOCK_MANUAL SAVE_PARAMS "
                     "SAVE_NO_DIGEST LOAD_ALLOW_MISSING LOAD_ALLOW_EXTRA LOAD_CONVERT "
                     "LOAD_KEEP_HYPER LOAD_PARAMS LOAD_IN_PLACE LOAD_CHECK_ONLY LOG_ERROR "
                     "LOG_DEBUG OK E_ARGUMENT E_NAME E_STATE E_UNSUPPORTED REAL INTEGER "
                     "FLAG").split():
            self.assertEqual(getattr(_c, name), int(defined[name].rstrip("u"), 0), name)

    @unittest.skipUnless(COMPILER, "no C compiler, to ask for the layout of structs")
    def test_every_struct_has_the_layout_of_the_header(self):
        lines, expected = [], []
        for name, struct in STRUCTS.items():
            lines.append(f'printf("%zu", sizeof({name}));')
            sizes = [ctypes.sizeof(struct)]
            for field, *_ in struct._fields_:
                member = field.rstrip("_")
                lines.append(f'printf(" %zu+%zu", offsetof({name}, {member}), '
                             f"sizeof((({name} *)0)->{member}));")
                sizes.append(f"{getattr(struct, field).offset}+{getattr(struct, field).size}")
            lines.append('printf("\\n");')
            expected.append(" ".join(map(str, sizes)))
        source = ("#include <stddef.h>\n#include <stdio.h>\n#include <talus.h>\n"
                  "int main(void) { " + "\n".join(lines) + " return 0; }")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "layout")
            subprocess.run([COMPILER, "-I", str(HEADER.parent), "-x", "c", "-", "-o", program],
                           input=source, text=True, check=True)
            found = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(dict(zip(STRUCTS, expected)), dict(zip(STRUCTS, found.splitlines())))


class Loading(unittest.TestCase):
    def test_a_library_that_is_not_there_is_an_import_error(self):
        text = run_python("import talus", TALUS_LIB="/nowhere/libtalus.so.0")
        self.assertIn("ImportError: talus: cannot load the library", text)
        self.assertIn("/nowhere/libtalus.so.0", text)

    def test_a_library_of_something_else_is_an_import_error(self):
        text = run_python("import talus", TALUS_LIB="libc.so.6")
        self.assertIn("has no talus_version: it is no libtalus", text)

    @unittest.skipUnless(COMPILER, "no C compiler, to build a library of another ABI")
    def test_a_library_of_another_abi_is_an_import_error(self):
        with tempfile.TemporaryDirectory() as folder:
            library = os.path.join(folder, "libother.so")
            subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", library], text=True,
                           input="unsigned talus_version(void) { return 0; }\n"
                           "unsigned talus_abi_version(void) { return 7u << 16; }\n", check=True)
            text = run_python("import talus", TALUS_LIB=library)
        self.assertIn(f"has ABI 7, this package is for {_c.ABI_MAJOR}", text)

    def test_torch_is_not_imported_by_the_package(self):
        text = run_python("import sys, talus; print({'torch', 'numpy'} & set(sys.modules))",
                          TALUS_LIB=_c.PATH)
        self.assertEqual(text, "set()\n")


if __name__ == "__main__":
    unittest.main()
