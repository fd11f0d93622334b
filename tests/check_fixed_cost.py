"""Instructions of small steps, counted by callgrind, against the baseline in fixed_cost.json.
A count does not depend on the machine's load as a time does, so 5 % either way is a change.

    check_fixed_cost.py BUILD_FOLDER FIXED_COST LIBTALUS            compares
    check_fixed_cost.py BUILD_FOLDER FIXED_COST LIBTALUS --write    writes this build's baseline
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from on_target import has

BASELINE = pathlib.Path(__file__).with_name("fixed_cost.json")
CASES = [f"{algorithm}:{case}" for algorithm in ("adamw", "sgd")
         for case in ("one", "1000x17", "frozen", "idle", "empty")]
TARGETS = ("scalar", "avx2")  # valgrind up to 3.19 knows no AVX-512
STEPS = 16  # must equal kSteps in fixed_cost.c
TOLERANCE = 0.05
# The one build that is counted; each other value makes other instructions.
OPTIONS = {"buildtype": "release", "optimization": "3", "b_sanitize": "none", "b_lto": False,
           "b_pgo": "off", "b_coverage": False, "b_ndebug": "if-release", "cpp_args": []}
CALLGRIND = ("valgrind", "-q", "--tool=callgrind", "--collect-atstart=no",
             "--toggle-collect=talus_step", "--zero-before=counted_steps",
             "--dump-after=counted_steps")


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(77)


def check_options(folder):
    with open(folder / "meson-info/intro-buildoptions.json", encoding="utf-8") as file:
        found = {option["name"]: option["value"] for option in json.load(file)}
    for name, value in OPTIONS.items():
        if found.get(name) != value:
            skip(f"counted in builds with {name}={value}, this one has {found.get(name)}")


def count(program, library, target):
    """The library's compiler, as 'gcc 12', and instructions per step by case."""
    with tempfile.TemporaryDirectory() as folder:
        # valgrind 3.19 gives up on the DWARF 5 of clang, so it gets none to read.
        stripped = pathlib.Path(folder, "fixed_cost")
        for source, copy in ((program, stripped), (library, stripped.with_name("libtalus.so.0"))):
            subprocess.run(["strip", "--strip-debug", "-o", copy, source], check=True)
        out = pathlib.Path(folder, "out")
        environment = {**os.environ, "TALUS_CPU_TARGET": target, "LD_LIBRARY_PATH": folder}
        run = subprocess.run([*CALLGRIND, f"--callgrind-out-file={out}", stripped, *CASES],
                             env=environment, check=True, stdout=subprocess.PIPE, text=True)
        compiler = re.search(r", (\w+ \d+)[.\d]*, release,", run.stdout)[1]
        dumps = [pathlib.Path(f"{out}.{part}").read_text(encoding="utf-8")
                 for part in range(1, len(CASES) + 1)]
    totals = [int(re.search(r"^totals: (\d+)$", dump, re.M)[1]) for dump in dumps]
    return compiler, {case: total / STEPS for case, total in zip(CASES, totals)}


def faults(where, counts, expected):
    for case, got in counts.items():
        want = expected.get(case)
        if not want or abs(got / want - 1) > TOLERANCE:
            far = f" ({got / want - 1:+.1%})" if want else ""
            yield f"{where}, {case}: got {got:.1f} instructions per step{far}, expected {want}"


def write(baseline):
    BASELINE.write_text(json.dumps(baseline, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(folder, program, library, mode=""):
    for tool in ("valgrind", "strip"):
        if not shutil.which(tool):
            skip(f"no {tool}")
    if not (has("avx2") and has("fma")):  # the C library's own choice depends on fma as well
        skip("this CPU has no AVX2 and FMA")
    check_options(pathlib.Path(folder))
    baseline = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    wrong = []
    for target in TARGETS:
        compiler, counts = count(program, library, target)
        if mode == "--write":
            baseline.setdefault(compiler, {})[target] = {c: round(n, 1) for c, n in counts.items()}
        elif compiler not in baseline:
            skip(f"the baseline has {', '.join(baseline)}, this is {compiler}")
        where = f"{compiler}, {target}"
        print(*(f"{where}, {case}: {got:.1f}" for case, got in counts.items()), sep="\n")
        wrong += faults(where, counts, baseline[compiler].get(target, {}))
    if mode == "--write":
        write(baseline)
    elif wrong:
        again = " ".join(os.path.abspath(path) for path in (__file__, folder, program, library))
        print(*wrong, f"If this is meant: python3 -B {again} --write", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5) or sys.argv[4:] not in ([], ["--write"]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
