"""Runs a program with TALUS_CPU_TARGET set, or skips where this CPU has no such instructions.
Arguments: TARGET PROGRAM ARG..."""
import os
import pathlib
import shlex
import subprocess
import sys

# What the kernel calls the last instruction set that a target needs.
FLAGS = {"scalar": None, "ssse3": "ssse3", "sse4": "sse4_2", "avx2": "avx2", "avx3": "avx512bw",
         "neon": "asimd"}
# What a cross build runs its programs with; meson sets it.
EMULATOR = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))


def has(flag):
    words = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split()
    return flag is None or flag in (["asimd"] if EMULATOR else words)


if __name__ == "__main__":
    target, program = sys.argv[1], sys.argv[2:]
    if not has(FLAGS[target]):
        print(f"SKIPPED: this CPU has no {FLAGS[target]}")
        sys.exit(77)
    sys.exit(subprocess.call(EMULATOR + program, env={**os.environ, "TALUS_CPU_TARGET": target}))
