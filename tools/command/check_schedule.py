"""Runs `talus schedule`, and `talus list` of schedules, against values computed here or worked by hand.

    check_schedule.py TALUS cosine|plot|kinds|pieces|plateau|list|errors
"""
import decimal
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

WIDTH = 100
RELATIVE, ABSOLUTE = 4e-15, 1e-18  # sums, powers and cosines are each rounded once or twice
GNUPLOT = shutil.which("gnuplot")


def fail(text):
    sys.exit(text)


def expect(got, expected, what):
    if got != expected:
        fail(f"{what}: got {got!r}, expected {expected!r}")


def expect_in(part, whole, what):
    if part not in whole:
        fail(f"{what}: expected {part!r} in\n{whole}")


def expect_close(got, expected, what):
    if not math.isclose(got, expected, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
        fail(f"{what}: got {got!r}, expected {expected!r}, {abs(got - expected):.3g} apart")


def run(*arguments, code=0, given="", environment=None):
    """(stdout, stderr) of talus; stops unless the exit code is as expected."""
    done = subprocess.run([TALUS, *arguments], capture_output=True, text=True, timeout=110,
                          input=given, env={**os.environ, **(environment or {})})
    if done.returncode != code:
        fail(f"exit code of talus {' '.join(arguments)}: got {done.returncode}, expected {code}\n"
             f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout, done.stderr


def options(settings):
    """("gamma=0.9", "child linear") to --set and --child."""
    out = []
    for setting in settings:
        is_child = setting.startswith("child ")
        out += ["--child" if is_child else "--set", setting.removeprefix("child ")]
    return out


def values(kind, base, settings, *more, given=""):
    out, err = run("schedule", kind, "--base", str(base), *options(settings), *more, "--json",
                   given=given)
    expect(err, "", f"stderr of {kind}")
    document = json.loads(out, parse_int=lambda text: fail(f"{text}, expected a double"))
    expect(list(document), ["values"], f"keys of {kind}")
    return document["values"]


def expect_values(kind, base, settings, expected, *more):
    """expected: {t: value}. The same alone and among its neighbours."""
    for t, value in expected.items():
        start = max(0, t - 2)
        got = values(kind, base, settings, "--from", str(start), "--steps", "5", *more)
        expect(len(got), 5, f"how many values of {kind}")
        what = f"{kind} {' '.join(settings)}, base {base}, t = {t}"
        expect_close(got[t - start], value, what)
        expect(values(kind, base, settings, "--from", str(t), "--steps", "1", *more),
               [got[t - start]], f"{what} alone")


# ---- cosine, to 50 digits

def exact_cosine(x):
    with decimal.localcontext() as context:
        context.prec = 60
        total, term, k = decimal.Decimal(0), decimal.Decimal(1), 0
        while abs(term) > decimal.Decimal("1e-55"):
            total += term
            k += 2
            term = -term * x * x / (k * (k - 1))
        return total


PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def check_cosine():
    got = values("cosine", 1, ["T_max=1000", "eta_min=0.1"], "--steps", "1001")
    expect((len(got), got[0], got[1000]), (1001, 1.0, 0.1), "count and ends")
    least = decimal.Decimal(0.1)
    for t, value in enumerate(got):
        exact = least + (1 - least) * (1 + exact_cosine(PI * t / 1000)) / 2
        expect_close(value, float(exact), f"cosine at t = {t}")
    text, _ = run("schedule", "cosine", "--set", "T_max=1000", "--set", "eta_min=0.1", "--steps",
                  "1001")
    check_text(text, dict(enumerate(got)), range(0, 1001, 100))


def check_text(text, by_t, rows):
    """The table below the plot, which ends as JSON's values do."""
    lines = text.splitlines()
    if max(map(len, lines)) > WIDTH:
        fail(f"a line of more than {WIDTH} columns:\n{text}")
    table = [line.split() for line in lines[-len(rows) - 1:]]
    expect(table[0], ["t", "value"], "head of the table")
    expect([(int(t), float(value)) for t, value in table[1:]], [(t, by_t[t]) for t in rows], "table")
    if GNUPLOT:
        expect_in("*****", "\n".join(lines[:-len(rows) - 1]), "the plot in the terminal")


# ---- pictures

def read_curve(file):
    """The points, in pixels, of the picture's longest path."""
    root = xml.etree.ElementTree.parse(file).getroot()
    expect(root.tag, "{http://www.w3.org/2000/svg}svg", "root of the picture")
    paths = [path.get("d") for path in root.iter("{http://www.w3.org/2000/svg}path")]
    longest = max(paths, key=lambda path: path.count(",")).replace("M", " ").replace("L", " ")
    return [tuple(map(float, point.split(","))) for point in longest.split()]


def expect_curve(file, expected, what):
    """Points that lie as values do, to a pixel's 0.02: equal steps in x, one scale and origin in y."""
    points = read_curve(file)
    expect(len(points), len(expected), f"points of {what}")
    low, high = expected.index(min(expected)), expected.index(max(expected))
    scale = (points[high][1] - points[low][1]) / (expected[high] - expected[low])
    if scale >= 0:
        fail(f"{what}: upside down")
    step = (points[-1][0] - points[0][0]) / (len(points) - 1)
    for t, (x, y) in enumerate(points):
        right = (points[0][0] + step * t, points[low][1] + scale * (expected[t] - expected[low]))
        if math.dist((x, y), right) > 0.02:
            fail(f"{what} at t = {t}: got {x, y}, expected {right}")


def check_plot():
    settings = ["max_value=1e-2", "total_steps=100"]
    got = values("one_cycle", 1e-3, settings, "--steps", "120")
    expect(got[99:], [1e-2 / 25 / 1e4] * 21, "the final value, held")
    command = ("schedule", "one_cycle", "--base", "1e-3", *options(settings), "--steps", "120")
    file = os.path.join(FOLDER, "it's.svg")
    without = {"PATH": FOLDER}
    text, err = run(*command, environment=without)
    expect_in("SKIPPED: the curve is not drawn: gnuplot was not found", err, "no gnuplot")
    check_rows = text.splitlines()
    expect((len(check_rows), check_rows[-1].split()), (12, ["119", "4e-08"]), "the table alone")
    out, err = run(*command, "--plot", file, code=1, environment=without)
    expect((out, os.path.exists(file)), ("", False), "a picture without gnuplot")
    expect_in("gnuplot was not found", err, "a picture without gnuplot")
    if not GNUPLOT:
        return print("not tested: pictures, for gnuplot was not found")
    run(*command, "--plot", file)
    expect_curve(file, got, "one_cycle")
    expect(values("one_cycle", 1e-3, settings, "--steps", "120", "--plot", file), got, "with both")
    with open(file, encoding="utf-8") as svg:
        expect_in("one_cycle max_value=1e-2 total_steps=100, base 0.001", svg.read(), "title")
    # Of many values the picture has all peaks; this one has a single value for each.
    run("schedule", "cyclic", "--set", "max_value=2", "--set", "step_size_up=5033", "--steps",
        "100000", "--plot", file)
    points = read_curve(file)
    heights = [y for _, y in points]
    expect((heights.count(min(heights)), len(points) <= 4000), (10, True), "peaks of cycles")
    full = os.path.join(FOLDER, "full")
    os.symlink("/dev/full", full)  # a link, so that a fault here costs the machine no device
    for full in (full, FOLDER):
        out, err = run(*command, "--plot", full, code=1)
        expect((out, os.path.lexists(full)), ("", True), f"a picture at {full}")
        expect_in(f"{full} is not drawn: ", err, f"a picture at {full}")


# ---- kinds: worked values

KINDS = [
    ("step", 0.1, ["step_size=30"], {0: 0.1, 29: 0.1, 30: 0.010000000000000002,
                                     1000: 1.0000000000000019e-34}),
    ("exponential", 0.1, ["gamma=0.95"], {1: 0.095, 100: 0.00059205292203339975, 100000: 0.0}),
    ("constant", 0.05, [], {4: 0.016666666666666666, 5: 0.05}),
    ("linear", 0.05, [], {0: 0.016666666666666666, 2: 0.030000000000000006, 5: 0.05}),
    ("polynomial", 0.1, ["total_iters=100", "power=0.9", "eta_min=1e-4"],
     {0: 0.1, 1: 0.099100448792942136, 99: 0.0016833082992686534, 100: 1e-4}),
    ("cosine", 0.1, ["T_max=100", "eta_min=1e-5"],
     {25: 0.085356803525421451, 99: 3.466951451524866e-05, 1000000000: 1e-5}),
    ("cosine", 0.1, ["T_max=100", "eta_min=1e-5", "periodic=1"],
     {101: 3.466951451524866e-05, 1050: 0.050005}),
    ("cosine_restarts", 0.1, ["T_0=1024", "T_mult=9007199254740992"],
     {512: 0.05, 1023: 2.3530952119044103e-07, 1 << 62: 0.050000000000000024}),
    ("cyclic", 0.01, ["max_value=0.1", "step_size_up=4", "step_size_down=6"],
     {1: 0.0325, 4: 0.1, 9: 0.025, 10: 0.01}),
    ("one_cycle", 1, ["total_steps=100", "max_value=0.1"],
     {0: 0.0040000000000000036, 15: 0.054598667612100041, 98: 5.0746471547578801e-05,
      1000: 4e-07}),
    ("inverse_sqrt", 1e-3, [], {0: 2.5e-07, 3999: 0.001, 4000: 0.00099987502343261837}),
    ("wsd", 0.01, ["warmup_steps=10", "stable_steps=70", "decay_steps=20", "decay=2"],
     {5: 0.005, 80: 0.01, 81: 0.0077639320225002112, 99: 0.00025320565519103668, 100: 0.0}),
    ("multistep", 0.1, ["milestones=80,30,80"],
     {29: 0.1, 30: 0.010000000000000002, 80: 0.00010000000000000003})]


def check_kinds():
    elsewhere = {"lambda", "multiplicative", "plateau", "sequential", "chained"}
    known = {kind["name"] for kind in json.loads(run("list", "schedules", "--json")[0])}
    expect({kind for kind, *_ in KINDS} | elsewhere, known, "kinds tried")
    for kind, base, settings, expected in KINDS:
        expect_values(kind, base, settings, expected)
    expect_values("multistep", 0.1, [], {29: 0.1, 30: 0.010000000000000002,
                                         80: 0.00010000000000000003}, "--milestones", "30,80,80")
    expect(values("multistep", -3, [], "--milestones", "", "--steps", "2"), [-3.0, -3.0],
           "no milestones, base -3")
    last = str((1 << 63) - 2)
    expect(values("constant", 1, [], "--from", last, "--steps", "2"), [1.0, 1.0], "the last t")


# ---- pieces

def check_pieces():
    warm = "child linear start_factor=0.01 total_iters=5"
    parts = {0: 0.001, 1: 0.020800000000000003, 4: 0.080200000000000007, 5: 0.1,
             6: 0.099384417029756894, 15: 0.05, 24: 0.00061558297024311712, 25: 0.0, 100: 0.0}
    expect_values("sequential", 0.1, [warm, "child cosine T_max=20"], parts, "--milestones", "5")
    chain = {0: 0.010000000000000002, 1: 0.025200000000000004, 4: 0.053800200000000006,
             5: 0.059049000000000011, 20: 0.012157665459056936}
    first, second = "linear start_factor=0.1 total_iters=5", "exponential gamma=0.9"
    expect_values("chained", 0.1, ["child " + first, "child " + second], chain)
    floor = {0: 0.05, 1: 0.048800884649231269, 3: 0.079595369988477424, 10: 0.001}
    expect_values("chained", 0.1, ["child constant factor=0.5 total_iters=3",
                                   "child cosine T_max=10 eta_min=0.001"], floor)
    # The same in parentheses, with and without spaces, deeper, and after three steps of 0.1.
    expect_values("chained", 0.1, [f"child chained ({first})({second})"], chain)
    expect_values("sequential", 0.1,
                  ["child constant factor=1",
                   f"child \tsequential( chained\n(chained ({first} )) ({second}) ) "],
                  {2: 0.1, **{t + 3: value for t, value in chain.items()}}, "--milestones", "3")
    expect_values("sequential", 0.1,
                  [f"child sequential milestones=5 ({warm[6:]}) (cosine T_max=20)"], parts)
    expect_values("chained", 0.1, ["child multistep gamma=0.5 milestones=1,2,2"],
                  {0: 0.1, 1: 0.05, 2: 0.0125})
    expect(values("chained", 0.25, [], "--steps", "2"), [0.25, 0.25], "a chain of nothing")
    text, _ = run("schedule", "chained", "--steps", "3", "--child", "chained(constant)")
    if GNUPLOT:
        expect_in("chained (chained (constant)), base 1", text, "title")


# ---- plateau: worked values, the one before any report first

PLATEAUS = [
    (0.1, ["factor=0.5", "patience=2", "cooldown=2", "min_value=0.02"],
     "1 0.9 0.9 0.95 0.89995 0.9 0.91 0.92 0.93 0.94 0.95 0.96 0.8 0.85 0.86 0.87",
     [0.1] * 5 + [0.05] * 5 + [0.025] * 6 + [0.02]),
    (1, ["mode=1", "threshold_mode=1", "threshold=0.01", "patience=0", "factor=0.1",
         "min_value=1e-3"], "0.5 0.505 0.52 0.52 0.53 0.6 nan 0.7",
     [1, 1, 0.1, 0.1, 0.010000000000000002, 0.001, 0.001, 0.001, 0.001]),
    (1, ["threshold_mode=1", "threshold=0.25", "factor=0.5", "patience=0", "eps=0.125"],
     "2 1.75 1.5 1.5 1.5", [1, 1, 0.5, 0.5, 0.25, 0.25]),
    (1, ["mode=1", "threshold=0.5", "factor=0.5", "patience=1"], "1 1.5 1.625 2 2.25 3",
     [1, 1, 1, 1, 1, 0.5, 0.5]),
    (1, ["threshold=0.5", "factor=0.5", "patience=0"], "8 4 3.5 2 1.7",
     [1, 1, 0.5, 0.5, 0.25, 0.25]),
    (1, ["patience=0", "factor=0.5"], "inf nan -inf 0", [1, 0.5, 0.25, 0.25, 0.125])]


def check_plateau():
    for base, settings, metrics, expected in PLATEAUS:
        lines = "# of an epoch each\r\n\n" + "".join(f" {m}\t# metric\r\n" for m in metrics.split())
        got = values("plateau", base, settings, "--metrics", "-", given=lines)
        expect(len(got), len(expected), f"values of {settings}")
        for i, (value, right) in enumerate(zip(got, expected)):
            expect_close(value, right, f"plateau {settings} after {i} reports")
        part = values("plateau", base, settings, "--metrics", "-", "--from", "2", "--steps", "2",
                      given=lines)
        expect(part, got[2:4], "two values from 2")
        part = values("plateau", base, settings, "--metrics", "-", "--from", "2", "--steps", "99",
                      given=lines)
        expect(part, got[2:], "no more values than reports")
        chain = values("chained", base, [f"child chained (plateau {' '.join(settings)})"],
                       "--metrics", "-", given=lines)
        expect(chain, got, "a chain of a plateau")
    file = os.path.join(FOLDER, "metrics")
    with open(file, "w", encoding="utf-8") as out:
        out.write("1\n2\n2\n0.5")
    chain = ["child linear start_factor=0.5 total_iters=4", "child plateau patience=0 factor=0.5"]
    expect(values("chained", 1, chain, "--metrics", file), [0.5, 0.625, 0.375, 0.21875, 0.25],
           "a plateau behind a warm-up")
    expect(values("plateau", 1, [], "--metrics", os.devnull), [1.0], "no reports")
    text, _ = run("schedule", "plateau", "--metrics", file, "--set", "patience=0")
    expect([line.split() for line in text.splitlines()[-6:]],
           [["reports", "value"], ["0", "1"], ["1", "1"], ["2", "0.1"],
            ["3", "0.010000000000000002"], ["4", "0.010000000000000002"]],
           "table of a plateau")


# ---- list

def check_list():
    kinds = json.loads(run("list", "schedules", "--json")[0])
    text, _ = run("list", "schedules")
    expect([list(kind) for kind in kinds], [["name", "doc"]] * len(kinds), "keys of a kind")
    for kind in kinds:
        expect_in(f"{kind['name']} {kind['doc']}", " ".join(text.split()), "talus list schedules")
        check_parameters("schedule/" + kind["name"], kind["doc"])
    one = json.loads(run("list", "schedule/one_cycle", "--json")[0])
    by_name = {each["name"]: each for each in one["parameters"]}
    expect([by_name["total_steps"][key] for key in ("kind", "default", "min", "required")],
           ["integer", None, 2, True], "total_steps")
    expect([by_name["max_value"][key] for key in ("default", "min", "required")],
           [None, None, False], "max_value")
    expect([by_name["pct_start"][key] for key in ("kind", "default", "min", "max", "max_open")],
           ["real", 0.3, 0, 1, False], "pct_start")
    with_list = [kind["name"] for kind in kinds if json.loads(
        run("list", "schedule/" + kind["name"], "--json")[0])["milestones"]]
    expect(sorted(with_list), ["multistep", "sequential"], "kinds with milestones")
    for name in ("schedule/cosin", "schedule/", "schedules/", "schedule"):
        out, err = run("list", name, code=1)
        expect(out, "", f"stdout of list {name}")
        expect_in("TALUS_E_NAME", err, f"stderr of list {name}")
    expect_in("cosine", run("list", "schedule/cosin", code=1)[1], "known kinds in the error")
    expect_in("talus list schedules", run("list")[0], "talus list")


def check_parameters(name, doc):
    entry = json.loads(run("list", name, "--json")[0])
    text, _ = run("list", name)
    if max(map(len, text.splitlines())) > WIDTH:
        fail(f"talus list {name}: a line of more than {WIDTH} columns\n{text}")
    flat = " ".join(text.split())
    expect((entry["name"], entry["doc"]), (name.removeprefix("schedule/"), doc), "name and doc")
    expect_in(f"{entry['name']}: {doc}", flat, f"talus list {name}")
    expect("milestones list" in flat, entry["milestones"], f"milestones of {name}")
    for each in entry["parameters"]:
        default = ("required" if each["required"] else
                   "-" if each["default"] is None else f"{each['default']:.16g}")
        expect_in(f"{each['name']} {each['kind']} {default} ", flat, f"talus list {name}")
        expect_in(" ".join(each["doc"].split()), flat, f"talus list {name}")


# ---- errors

WRONG = [  # arguments, exit code, parts of the error
    ("cosin --steps 3", 1, "TALUS_E_NAME cosin cosine_restarts"),
    ("cosine --set T_mx=3 --steps 3", 1, "TALUS_E_NAME cosine T_mx T_max"),
    ("cosine --set T_max=abc --steps 3", 2, "T_max abc number"),
    ("cosine --set T_max= --steps 3", 2, "T_max number"),
    ("cosine --set T_max --steps 3", 2, "T_max NAME=VALUE"),
    ("cosine --set T_max=1e999 --steps 3", 2, "T_max 1e999"),
    ("cosine --set T_max=2 --set T_max=3 --steps 3", 2, "T_max twice"),
    ("cosine --set T_max=5 --set eta_min=nan --steps 3", 1, "TALUS_E_RANGE eta_min nan"),
    ("cosine --set T_max=5 --set eta_min=inf --steps 3", 1, "TALUS_E_RANGE eta_min inf"),
    ("cosine --steps 3", 1, "TALUS_E_STATE cosine T_max"),
    ("one_cycle --set total_steps=0 --steps 3", 1, "TALUS_E_RANGE total_steps 0 2"),
    ("one_cycle --set total_steps=9 --set three_phase=1 --set pct_start=0.6 --steps 3", 1,
     "TALUS_E_RANGE pct_start three_phase"),
    ("constant", 2, "--steps missing"),
    ("constant --steps 0", 2, '--steps "0" 10000000'),
    ("constant --steps -5", 2, '--steps "-5"'),
    ("constant --steps 10000001", 2, '--steps "10000001" 10000000'),
    ("constant --steps 99999999999999999999", 2, '--steps "99999999999999999999"'),
    ("constant --steps 1.5", 2, '--steps "1.5"'),
    ("constant --steps 3 --from -1", 2, '--from "-1"'),
    ("constant --steps 3 --from 9223372036854775806", 2, "--from 9223372036854775805"),
    ("constant --steps 3 --base nan", 1, "TALUS_E_RANGE base nan"),
    ("constant --steps 3 --base inf", 1, "TALUS_E_RANGE base inf"),
    ("constant --steps 3 --base 1e999", 2, "--base 1e999"),
    ("constant --steps 3 --base one", 2, "--base one"),
    ("exponential --set gamma=1e200 --steps 3", 1, "TALUS_E_RANGE exponential t = 2 inf"),
    ("constant --steps 3 --milestones 1", 1, "TALUS_E_NAME constant milestones"),
    ("multistep --steps 3 --milestones 1,two", 2, "milestones two"),
    ("multistep --steps 3 --milestones 1,", 2, "milestones"),
    ("multistep --steps 3 --milestones 1.5", 2, "milestones 1.5"),
    ("multistep --steps 3 --milestones 4,-1", 1, "TALUS_E_RANGE milestones[1] -1"),
    ("sequential --steps 3", 1, "TALUS_E_STATE sequential pieces"),
    ("sequential --steps 3 --child constant --child constant", 1,
     "TALUS_E_STATE sequential 0 milestones 2 pieces 1"),
    ("sequential --steps 3 --milestones 5,4 --child constant --child constant --child constant", 1,
     "TALUS_E_RANGE milestones[1] 4 5"),
    ("constant --steps 3 --child linear", 1, "TALUS_E_UNSUPPORTED constant pieces"),
    ("chained --steps 3 --child linear --child 'linear start=1'", 1,
     "TALUS_E_NAME --child 2, start start_factor"),
    ("chained --steps 3 --child 'chained (linear start_factor=-1)'", 1,
     "TALUS_E_RANGE --child 1, start_factor -1"),
    ("chained --steps 3 --child ''", 2, "--child 1, kind"),
    ("chained --steps 3 --child '  '", 2, "--child 1, kind"),
    ("chained --steps 3 --child 'chained (linear'", 2, "--child 1, ')' missing"),
    ("chained --steps 3 --child 'linear)'", 2, "--child 1, ')' 7"),
    ("chained --steps 3 --child 'chained ()'", 2, "--child 1, kind 10"),
    ("chained --steps 3 --child 'linear total_iters'", 2, "--child 1, total_iters NAME=VALUE"),
    ("chained --steps 3 --child 'linear total_iters=x'", 2, "--child 1, total_iters x"),
    ("chained --steps 3 --child linear --child 'one_cycle total_steps=9 max_value=1'", 1,
     "TALUS_E_STATE one_cycle first"),
    ("lambda --steps 3", 2, "lambda function"),
    ("multiplicative --steps 3", 2, "multiplicative function"),
    ("chained --steps 3 --child 'chained (multiplicative)'", 2,
     "--child 1, multiplicative function"),
    ("plateau --steps 3", 2, "plateau --metrics"),
    ("chained --steps 3 --child 'chained (plateau)'", 2, "plateau --metrics"),
    ("constant --steps 3 --metrics /dev/null", 2, "--metrics constant plateau"),
    ("plateau --metrics /dev/null --from 1", 2, "--from 1 0 reports"),
    ("plateau --metrics /dev/null --base -1", 1, "TALUS_E_RANGE lr -1"),
    ("plateau --metrics /dev/null --base nan", 1, "TALUS_E_RANGE lr nan"),
    ("plateau --metrics /dev/null --set threshold=2", 1, "TALUS_E_RANGE threshold"),
    ("chained --metrics /dev/null --child plateau --child linear", 1, "TALUS_E_STATE plateau last"),
    ("sequential --metrics /dev/null --child plateau", 1, "TALUS_E_STATE plateau"),
    ("plateau --metrics /nowhere/metrics", 1, "/nowhere/metrics No such file"),
    ("plateau --metrics /", 1, "/ read"),
    ("plateau --metrics -", 1, "standard input line 2 0.9x number")]


def split(line):
    """Words, with what stands in single quotes as one."""
    parts = line.split("'")
    out = []
    for i, part in enumerate(parts):
        out += [part] if i % 2 else part.split()
    return out


def check_errors():
    file = os.path.join(FOLDER, "x.svg")
    for line, code, parts in WRONG:
        arguments = ["schedule", *split(line), "--plot", file]
        for more in ([], ["--json"]):
            out, err = run(*arguments, *more, code=code, given="1\n0.9x\n")
            expect(out, "", f"stdout of {line}")
            expect(len(err.splitlines()), 1, f"lines of the error of {line}: {err}")
            expect_in("talus: ", err, f"error of {line}")
            for part in parts.split():
                expect_in(part, err, f"error of {line}")
            expect(os.listdir(FOLDER), [], f"files that {line} leaves")
    deep = "chained (" * 15 + "linear" + ")" * 15
    for text in (deep, "chained (" * 9999, "(" * 9999):
        out, err = run("schedule", "chained", "--steps", "3", "--child", text,
                       code=1 if text == deep else 2)
        expect(out, "", "stdout of deep pieces")
        expect_in("--child 1, ", err, "error of deep pieces")
    expect_in("16 levels", run("schedule", "chained", "--steps", "3", "--child", deep, code=1)[1],
              "error of 17 levels")
    for arguments in ((), ("constant", "--steps", "3", "extra"), ("constant", "--nonsense")):
        out, err = run("schedule", *arguments, code=2)
        expect((out, bool(err)), ("", True), f"wrong usage {arguments}")
    out, err = run("schedule", "constant", "--steps", "3", "--plot", "/nowhere/x.svg", code=1)
    expect(out, "", "stdout with a picture that cannot be written")
    expect_in("/nowhere/x.svg is not drawn: ", err, "a picture that cannot be written")
    text, _ = run("schedule", "--help")
    for part in ("Examples:", "Exit codes: ", "--base", "--set", "--steps", "--from", "--milestones",
                 "--child", "--metrics", "--json", "--plot", "before any report"):
        expect_in(part, text, "talus schedule --help")
    expect_in("schedule", run("--help")[0], "talus --help")


TALUS, WHAT = sys.argv[1:3]
with tempfile.TemporaryDirectory() as FOLDER:
    globals()["check_" + WHAT]()
print(f"{WHAT}: ok")
