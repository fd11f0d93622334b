"""Runs `talus bench` on small presets and looks at its rows, refusals and exit codes; no timing.

    check_bench.py TALUS presets|run|errors
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_presets

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "presets")
KEYS = ("preset rule param grad master state check threads ns_per_param gb_per_s roof_gb_per_s "
        "stream_gb_per_s ratio ns_per_tensor ns_per_tensor_least pairs_kept pairs_tried "
        "established")
# As published, or counted from the models by others: tensors, parameters.
TOTALS = {"gpt2": (148, 124_439_808), "resnet50": (161, 25_557_032), "vit_b16": (152, 86_567_656),
          "llama3.2-1b": (146, 1_235_814_400), "flat100m": (1, 100_000_000),
          "10000x1000": (10_000, 10_000_000), "1000x17": (1000, 17_000),
          "rows10m": (1, 160_000_000)}
HUGE = 1 << 45  # parameters: more than any memory
SMALL = {"small": [["a", [3, 5]], {"repeat": 3, "tensors": [["b.{}", [17]], ["c.{}", []]]},
                   ["d", [9000]], ["empty", [0]]],
         "huge": [["a", [HUGE >> 20, 1 << 20]]],
         "negative": [["a", [-1]]], "none": [["a", [0]]], "overflow": [["a", [1 << 40, 1 << 40]]]}


def fail(text):
    sys.exit(text)


def expect(got, expected, what):
    if got != expected:
        fail(f"{what}: got {got!r}, expected {expected!r}")


def run(*arguments, code=0):
    """(stdout, stderr) of talus bench; stops unless the exit code is one of those expected."""
    done = subprocess.run([TALUS, "bench", *arguments], capture_output=True, text=True,
                          timeout=110, stdin=subprocess.DEVNULL)
    codes = code if isinstance(code, tuple) else (code,)
    if done.returncode not in codes:
        fail(f"exit code of talus bench {' '.join(arguments)}: got {done.returncode}, expected "
             f"{codes}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout, done.stderr


def rows(*arguments, code=(0, 3)):
    return json.loads(run("--preset-dir", PRESETS, *arguments, "--json", code=code)[0])


def check_presets():
    make_presets.main(["--check", FOLDER])
    expect(sorted(os.listdir(FOLDER)), sorted(name + ".json" for name in TOTALS), "preset files")
    for name, totals in TOTALS.items():
        with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
            preset = json.load(file)
        expect(tuple(make_presets.count(preset["tensors"])), totals, f"totals of {name}")
        expect((preset["name"], bool(preset["source"])), (name, True), f"name and source of {name}")
    [row] = rows("--preset", "1000x17", "--seconds", "0", code=3)  # found without --preset-dir too
    expect(row["preset"], "1000x17", "preset of the row")


def check_row(row):
    expect(" ".join(row), KEYS, "keys of a row")
    expect(row["established"], row["pairs_kept"] >= 5, "established")
    expect(row["ratio"] is None, not row["established"], "a ratio that is established or none")
    for key in ("ns_per_param", "gb_per_s", "roof_gb_per_s", "ns_per_tensor"):
        expect(row[key] is None, row["pairs_kept"] == 0, f"{key} of {row['pairs_kept']} pairs")
    expect(row["stream_gb_per_s"], None, "a stream beside a case in the cache")
    if row["pairs_kept"]:  # 9000 + 17 * 3 + 3 + 15 parameters in 9 tensors, medians of the same
        expect(math.isclose(row["ns_per_tensor"] * 9, row["ns_per_param"] * 9069), True,
               "time of a step by tensors and by parameters")


def bytes_per_param(row):
    return row["gb_per_s"] * row["ns_per_param"]


def check_run():
    # Read + written for each parameter, as the sheet of the CPU engine has them.
    cases = [(("--rule", "adamw"), ("adamw", "f32", "f32", "none", "f32"), 28),
             (("--rule", "sgd"), ("sgd", "f32", "f32", "none", "none"), 12),
             # the norm of all gradients, moments, update
             (("--rule", "lamb"), ("lamb", "f32", "f32", "none", "f32"), 4 + 24 + 16),
             (("--rule", "novograd"), ("novograd", "f32", "f32", "none", "f32"), 4 + 20),
             (("--rule", "larc"), ("larc", "f32", "f32", "none", "f32"), 8 + 20),
             (("--param", "bf16", "--master", "none"),
              ("adamw", "bf16", "bf16", "none", "f32"), 22),
             (("--param", "bf16", "--grad", "f32", "--master", "none"),
              ("adamw", "bf16", "f32", "none", "f32"), 24),
             (("--param", "bf16"), ("adamw", "bf16", "bf16", "f32", "f32"), 28),
             (("--param", "f16", "--threads", "2"), ("adamw", "f16", "f16", "f32", "f32"), 28),
             (("--param", "f64"), ("adamw", "f64", "f64", "none", "f64"), 56),
             (("--norm", "--grad", "bf16"), ("norm", "none", "bf16", "none", "none"), 2),
             (("--norm",), ("norm", "none", "f32", "none", "none"), 4),
             # the gradients once more, once for both
             (("--check-finite",), ("adamw", "f32", "f32", "none", "f32"), 4 + 28),
             (("--param", "bf16", "--max-grad-norm", "0.1"),
              ("adamw", "bf16", "bf16", "f32", "f32"), 2 + 28),
             (("--param", "f16", "--check-finite", "--max-grad-norm", "0.1", "--grad", "f32"),
              ("adamw", "f16", "f32", "f32", "f32"), 4 + 30),
             (("--rule", "lamb", "--check-finite"), ("lamb", "f32", "f32", "none", "f32"), 44),
             (("--norm", "--check-finite", "--grad", "f16"),
              ("norm", "none", "f16", "none", "none"), 2)]
    kept = 0
    for arguments, expected, size in cases:
        [row] = rows("--preset", "small", "--pairs", "5", "--seconds", "2", *arguments)
        check_row(row)
        got = tuple(row[key] for key in ("rule", "param", "grad", "master", "state"))
        expect(got, expected, f"what {arguments} measures")
        checks = ["finite"] * ("--check-finite" in arguments)
        checks += ["norm"] * ("--max-grad-norm" in arguments)
        expect(row["check"], ", ".join(checks) or "none", f"check of {arguments}")
        if row["pairs_kept"]:
            kept += 1
            expect(round(bytes_per_param(row), 6), size, f"bytes per parameter of {arguments}")
    for name in [entry["name"] for entry in json.loads(subprocess.run(
            [TALUS, "list", "--json"], capture_output=True, text=True, check=True).stdout)]:
        for param in ("f32", "bf16"):
            [row] = rows("--preset", "small", "--rule", name, "--param", param, "--seconds", "0.05")
            expect((row["rule"], row["param"]), (name, param), "rule and dtype of a row")
    both = rows("--preset", "small", "--preset", "small", "--seconds", "0", code=3)
    expect([(row["pairs_tried"], row["established"]) for row in both], [(0, False)] * 2, "no time")
    text, _ = run("--preset-dir", PRESETS, "--preset", "small", "--seconds", "0", code=3)
    for part in ("not established", "small", "adamw", "f32/f32/none", "ratio", "0 of 0"):
        if part not in " ".join(text.split()):  # the last column continues below itself
            fail(f"expected {part!r} in\n{text}")
    if max(map(len, text.splitlines())) > 100:
        fail(f"a line of more than 100 columns:\n{text}")
    if not kept:
        print("SKIPPED: bytes per parameter, because the machine was too busy to keep one pair")


def check_plot():
    file = os.path.join(PRESETS, "it's.svg")
    _, err = run("--preset-dir", PRESETS, "--preset", "small", "--seconds", "0", "--plot", file,
                 code=3)
    if os.path.exists(file):
        with open(file, encoding="utf-8") as svg:
            expect("small" in svg.read(), True, "the preset in the plot")
    elif "SKIPPED" not in err or "gnuplot" not in err:
        fail(f"no plot, and no word about it: {err!r}")


def check_errors():
    text, _ = run("--help")
    for part in ("Example: ", "Exit codes: ", "3 ", "--json", "--preset", "--norm", "--plot"):
        if part not in text:
            fail(f"expected {part!r} in talus bench --help\n{text}")
    for arguments in (("--pairs", "4"), ("--threads", "0"), ("--param", "f8"), ("extra",),
                      ("--seconds", "-1"), ("--master", "f64"), ("--max-grad-norm", "-1")):
        run(*arguments, code=2)
    for arguments, parts in (
            (("--preset", "gpt3"), ("gpt3", "gpt2", "small")),
            (("--preset", "../presets/gpt2"), ("unknown preset",)),
            (("--rule", "adamwx"), ("TALUS_E_NAME", "adamwx", "adamw")),
            (("--preset", "small", "--preset", "huge"), ("huge", "available")),
            (("--preset", "negative"), ("negative.json", "a")),
            (("--preset", "none"), ("none.json", "no elements")),
            (("--preset", "overflow"), ("overflow.json", "a")),
            (("--preset", "small", "--param", "f64", "--grad", "bf16"), ("f64", "bf16")),
            (("--preset", "small", "--master", "f32"), ("master",))):
        out, err = run("--preset-dir", PRESETS, *arguments, "--json", code=1)
        expect(out, "", f"stdout of {arguments}")
        expect(len(err.splitlines()), 1, f"lines of the error of {arguments}: {err}")
        for part in parts:
            if part not in err:
                fail(f"{arguments}: expected {part!r} in {err!r}")
    for arguments, size in (((), 4 * 4), (("--norm",), 4), (("--param", "bf16"), 2 + 2 + 3 * 4)):
        _, err = run("--preset-dir", PRESETS, "--preset", "huge", *arguments, code=1)
        needs = re.search(r"needs (\d+) bytes of memory, (\d+) are available", err)
        if not needs or not 0 <= int(needs[1]) - size * HUGE < 1 << 36:
            fail(f"{arguments}: expected {size} * 2^45 bytes and a little in {err!r}")
    check_plot()


TALUS, WHAT = sys.argv[1:3]
with tempfile.TemporaryDirectory() as PRESETS:
    for preset, tensors in SMALL.items():
        with open(os.path.join(PRESETS, preset + ".json"), "w", encoding="utf-8") as out_file:
            json.dump({"name": preset, "source": "a test", "tensors": tensors}, out_file)
    globals()["check_" + WHAT]()
print(f"{WHAT}: ok")
