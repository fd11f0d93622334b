"""Runs cargo over the crates of this folder and the library of a build folder.

    check_rust.py test CARGO LIBTALUS TARGET     all tests, with the documentation's
    check_rust.py load CARGO LIBTALUS TARGET     a library that is missing, or of another ABI
    check_rust.py style CARGO LIBTALUS TARGET    rustfmt and clippy, where they are installed
    check_rust.py runner CARGO LIBTALUS TARGET CONFORMANCE_C    ours sees what is wrong in the script
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "..", "..", "tests")
SYMBOLS = os.path.join(TESTS, "abi", "symbols.txt")
MAP = os.path.join(HERE, "..", "talus.map")
SKIPPED = 77


# Without a library path: that would hide a missing rpath.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
CAUGHT = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Cargo:
    def __init__(self, program, library, target):
        self.program, self.target = program, target
        self.folder = os.path.dirname(library)

    def run(self, *arguments, folder=None, after=(), **options):
        environment = dict(ENVIRONMENT, TALUS_LIB_DIR=folder or self.folder,
                           CARGO_TARGET_DIR=self.target)
        manifest = ["--manifest-path", os.path.join(HERE, "Cargo.toml")]
        return subprocess.run([self.program, *arguments, *manifest, *after], env=environment,
                              **options)

    def test_program(self, name):
        """Builds a test, and says where it is."""
        built = self.run("test", "--offline", "--locked", "-p", "talus", "--test", name, "--no-run",
                         "--message-format=json", stdout=subprocess.PIPE, text=True, check=True)
        messages = [json.loads(line) for line in built.stdout.splitlines()]
        return next(m["executable"] for m in messages
                    if m.get("executable") and m["target"]["name"] == name)

    def has(self, command):
        return subprocess.run([self.program, command, "--version"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0


def test(cargo):
    return cargo.run("test", "--offline", "--locked", "--workspace").returncode


def expect(what, result, *words):
    """A program that failed with these words, and no signal."""
    text = result.stdout + result.stderr
    if result.returncode > 0 and all(word in text for word in words):
        return 0
    print(f"{what}: got {result.returncode}, expected a failure with {words}\n{text}")
    return 1


def foreign_library(folder):
    """A library with all our symbols that says it has ABI 7."""
    source = os.path.join(folder, "foreign.c")
    with open(SYMBOLS) as names, open(source, "w") as out:
        for name in names.read().split():
            value = 7 << 16 if name == "talus_abi_version" else 0
            out.write(f"unsigned long {name}(void) {{ return {value}; }}\n")
    compiler = os.environ.get("CC", "cc").split()
    options = ["-shared", "-fPIC", "-Wl,-soname,libtalus.so.0", "-Wl,--version-script=" + MAP]
    library = os.path.join(folder, "libtalus.so.0")
    subprocess.run([*compiler, *options, "-o", library, source], check=True)


def load(cargo):
    built = cargo.run("build", "--offline", "--locked", "--example", "digits")
    if built.returncode:
        return built.returncode
    digits = os.path.join(cargo.target, "debug", "examples", "digits")
    with tempfile.TemporaryDirectory() as folder:
        nowhere = cargo.run("build", "--offline", "--locked", "-p", "talus-sys", folder=folder,
                            **CAUGHT)
        failures = expect("a folder without the library", nowhere, "TALUS_LIB_DIR", folder)
        foreign_library(folder)
        environment = dict(ENVIRONMENT, LD_LIBRARY_PATH=folder)
        foreign = subprocess.run([digits, "--epochs", "1"], env=environment, **CAUGHT)
        failures += expect("a library of another ABI", foreign, "libtalus", "ABI 7")
        lost = os.path.join(folder, "digits")  # its rpath leads nowhere
        with open(digits, "rb") as program, open(lost, "wb") as out:
            out.write(program.read().replace(cargo.folder.encode(), b"/" * len(cargo.folder)))
        os.chmod(lost, 0o755)
        missing = subprocess.run([lost, "--epochs", "1"], env=ENVIRONMENT, **CAUGHT)
        failures += expect("no library", missing, "libtalus.so.0")
    return failures


def runner(cargo, conformance_c):
    check = os.path.join(TESTS, "ffi", "check_conformance.py")
    script = os.path.join(TESTS, "ffi", "conformance.txt")
    ours = cargo.test_program("conformance")
    return subprocess.run([sys.executable, "-B", check, script, conformance_c, ours],
                          env=ENVIRONMENT).returncode


def style(cargo):
    checks = {"fmt": (["--all", "--check"], []),
              "clippy": (["--offline", "--locked", "--workspace", "--all-targets"],
                         ["--", "-D", "warnings"])}
    done = failures = 0
    for name, (arguments, after) in checks.items():
        if not cargo.has(name):
            print(f"SKIPPED: no cargo {name}")
            continue
        done += 1
        failures += cargo.run(name, *arguments, after=after).returncode != 0
    return failures if done else SKIPPED


if __name__ == "__main__":
    task, program, library, target, *more = sys.argv[1:]
    tasks = {"test": test, "load": load, "style": style, "runner": runner}
    sys.exit(tasks[task](Cargo(program, library, target), *more))
