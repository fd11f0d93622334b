"""Runs the `talus` command as a person and as a program would, and compares the two.

    check_command.py TALUS help|info|list|parameters|rule|selftest|device|fake-device|errors

fake-device: with TALUS_PLUGIN_PATH at the fake plugin of the tests, else whatever device is here.
"""
import json
import os
import re
import subprocess
import sys

WIDTH = 100


def run(*arguments, code=0, environment=None):
    """Returns (stdout, stderr); stops unless the exit code is as expected."""
    done = subprocess.run([TALUS, *arguments], capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
    what = " ".join(["talus", *arguments])
    told = done.stdout[-2000:] + done.stderr[-2000:]
    expect(done.returncode, code, f"exit code of `{what}`\n{told}")
    if code == 0:
        expect(done.stderr, "", f"stderr of `{what}`")
    return done.stdout, done.stderr


def read_json(*arguments, environment=None):
    return json.loads(run(*arguments, "--json", environment=environment)[0])


def expect(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, expected {expected!r}")


def expect_in(part, whole, what):
    if part not in whole:
        sys.exit(f"{what}: expected {part!r} in\n{whole}")


def expect_width(text, what):
    for line in text.splitlines():
        if len(line) > WIDTH and max(map(len, line.split())) < WIDTH // 2:  # a path is not broken
            sys.exit(f"{what}: got a line of {len(line)} columns, expected at most {WIDTH}: {line}")


def words(text):
    """The text with its line breaks and columns undone."""
    return " ".join(text.split())


def check_help():
    text, _ = run("--help")
    for part in ("info", "list", "selftest", "Exit codes", "0", "1", "2", "Example"):
        expect_in(part, text, "talus --help")
    for name in ("info", "list", "selftest"):
        text, _ = run(name, "--help")
        for part in ("Example: ", "Exit codes: ", "--json"):
            expect_in(part, text, f"talus {name} --help")
    expect_in(read_json("info")["version"], run("--version")[0], "talus --version")


def check_info():
    info = read_json("info")
    text, _ = run("info")
    expect_width(text, "talus info")
    flat = words(text)
    target = info["cpu_target"]
    expect_in(target["name"], info["cpu_targets"], "the target in use")
    expect("TALUS_CPU_TARGET" in target["reason"], "TALUS_CPU_TARGET" in os.environ,
           "whether the variable is the reason")
    threads = info["threads"]
    if not 1 <= threads["usable"] <= threads["affinity"] <= threads["cores"]:
        sys.exit(f"threads: got {threads}, expected 1 <= usable <= affinity <= cores")
    if hasattr(os, "sched_getaffinity"):
        expect(threads["affinity"], len(os.sched_getaffinity(0)), "CPUs by affinity")
    for part in (info["version"], words(info["build"]), ", ".join(info["cpu_targets"]),
                 f"CPU target {target['name']}: {target['reason']}",
                 f"{threads['usable']} usable ({threads['cores']} cores online, "
                 f"{threads['affinity']} by affinity", f"ABI {info['abi']['number']},"):
        expect_in(part, flat, "talus info")
    for feature in info["backends"]:
        expect(feature["usable"], feature["reason"] is None, f"a reason for {feature['name']}")
        reason = "usable" if feature["usable"] else f"not usable: {words(feature['reason'])}"
        expect_in(f"backend {feature['name']} {reason}", flat, "talus info")
    for what in ("plugin", "device"):
        for line in info[what + "s"]:
            expect_in(f"{what} {line['name']}: {words(line['doc'])}", flat, "talus info")
    usable = {feature["name"]: feature["usable"] for feature in info["backends"]}
    expect(bool(info["devices"]), usable["cuda"], "devices where CUDA is usable")
    if not info["devices"]:
        expect_in("device the CPU alone", flat, "talus info without a device")
    for name in info["cpu_targets"]:
        forced = read_json("info", environment={"TALUS_CPU_TARGET": name})
        expect(forced["cpu_targets"], info["cpu_targets"], "targets when forced")
        expect(forced["cpu_target"]["name"], name, "the target in use when forced")
        expect_in("TALUS_CPU_TARGET", forced["cpu_target"]["reason"], f"why {name}")
    check_info_of_no_target(info)


def check_info_of_no_target(info):
    """A TALUS_CPU_TARGET that is not there is told as the error it is; all else is shown."""
    environment = {"TALUS_CPU_TARGET": "nonsense"}
    out, err = run("info", "--json", code=1, environment=environment)
    wrong = json.loads(out)
    for part in ('"nonsense"', *info["cpu_targets"]):
        expect_in(part, err, "stderr of info with an unknown TALUS_CPU_TARGET")
    expect(wrong["cpu_target"]["name"], None, "the target in use where there is none")
    expect_in(wrong["cpu_target"]["reason"], err, "the reason in JSON and on stderr")
    expect(wrong["cpu_targets"], info["cpu_targets"], "targets usable all the same")
    expect([wrong["backends"][0][key] for key in ("name", "usable", "reason")],
           ["cpu", False, wrong["cpu_target"]["reason"]], "backend cpu without a target")
    text, _ = run("info", code=1, environment=environment)
    expect_width(text, "talus info without a target")
    expect_in(f"CPU target none: {wrong['cpu_target']['reason']}", words(text), "talus info")


def check_list():
    entries = read_json("list")
    text, _ = run("list")
    expect_width(text, "talus list")
    flat = words(text)
    by_name = {entry["name"]: entry for entry in entries}
    expect(len(by_name), len(entries), "names in the list, each once")
    expect([entry["name"] for entry in entries if not entry["doc"]], [], "names without a doc")
    for name in ("adamw", "adam", "sgd"):
        expect(by_name[name]["alias_of"], None, f"alias_of of {name}")
    expect(by_name["fused_adam"]["alias_of"], "adam", "alias_of of fused_adam")
    for entry in entries:
        rule = entry["alias_of"]
        if rule is not None:
            expect(by_name[rule]["alias_of"], None, f"what {entry['name']} is an alias of")
        alias = "" if rule is None else f"= {rule} "
        state = state_text(entry["state_bytes"])
        expect_in(f"{entry['name']} {alias}{state} {words(entry['doc'])}", flat, "talus list")
        for key in ("paper", "purpose"):
            expect_in(entry[key], flat, f"talus list: {key} of {entry['name']}")
        if not re.search(r"[12]\d{3}", entry["paper"]):
            sys.exit(f"paper of {entry['name']}: got {entry['paper']!r}, expected a year")
        if not 0 < len(entry["purpose"]) <= 70:
            sys.exit(f"purpose of {entry['name']}: expected 1 .. 70 characters, got {entry}")
    state = {name: by_name[name]["state_bytes"] for name in ("sgd", "adam", "fused_adam")}
    expect(list(state["sgd"].values()), [0, 4, 0], "state of sgd")
    expect(list(state["adam"].values()), [8, 12, 0], "state of adam")
    expect(state["fused_adam"], state["adam"], "state of fused_adam")
    expect(by_name["fused_adam"]["paper"], by_name["adam"]["paper"], "paper of an alias")


def check_parameters():
    """The loss scaler and the settings, in both forms."""
    firsts = {"scaler": ("init_scale", "real", 65536), "settings": ("threads", "integer", 0)}
    for name, first in firsts.items():
        entry = read_json("list", name)
        text, _ = run("list", name)
        expect_width(text, f"talus list {name}")
        expect(entry["name"], name, "name")
        expect(tuple(entry["parameters"][0][key] for key in ("name", "kind", "default")), first,
               f"first of {name}")
        for hyper in entry["parameters"]:
            expect_in(f"{hyper['name']} {hyper['kind']} ", words(text), f"talus list {name}")
            expect_in(words(hyper["doc"]), words(text), f"talus list {name}")
    expect_in("growth_interval integer 2000 [1, ", words(run("list", "scaler")[0]), "scaler")


def state_text(state):
    """Bytes for each element at defaults and with all options on; then those of a tensor."""
    least, most, per_tensor = (state[key] for key in ("default", "most", "per_tensor"))
    return (str(least) + (f" to {most}" if most != least else "") +
            (f" + {per_tensor} per tensor" if per_tensor else ""))


def range_text(hyper):
    if hyper["kind"] == "flag":
        return "0 or 1" if hyper["max"] == 1 else "0"
    low, high = hyper["min"], hyper["max"]
    left = "(" if hyper["min_open"] or low is None else "["
    right = ")" if hyper["max_open"] or high is None else "]"
    return (f"{left}{'-inf' if low is None else number(low)}, "
            f"{'inf' if high is None else number(high)}{right}")


def number(value):
    return f"{value:.17g}" if value != int(value) else str(int(value))


BYTES = "param", "grad", "master", "stored", "read", "written"
# m and v are f32, f64 for f64; a master is read and written, and the parameter written beside it.
ADAMW_BYTES = {("f32", "f32", "none", 16, 16, 12), ("f32", "bf16", "none", 14, 14, 12),
               ("f32", "f16", "none", 14, 14, 12), ("bf16", "bf16", "f32", 16, 14, 14),
               ("bf16", "f32", "f32", 18, 16, 14), ("f16", "f16", "f32", 16, 14, 14),
               ("f16", "f32", "f32", 18, 16, 14), ("bf16", "bf16", "none", 12, 12, 10),
               ("bf16", "f32", "none", 14, 14, 10), ("f16", "f16", "none", 12, 12, 10),
               ("bf16", "f16", "f32", 16, 14, 14), ("f16", "bf16", "f32", 16, 14, 14),
               ("f16", "f32", "none", 14, 14, 10),
               ("f64", "f64", "none", 32, 32, 24), ("f64", "f32", "none", 28, 28, 24)}
SIZES = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8, "none": 0}


def check_bytes(entry, flat):
    """The choices of dtypes: parts add up, and the two forms of the list agree."""
    name = entry["name"]
    for row in entry["bytes"]:
        what = f"{name}: bytes of {row['param']}, {row['grad']}, {row['master']}"
        state = entry["state_bytes"]["default"] * (2 if row["param"] == "f64" else 1)
        expect(row["stored"], sum(SIZES[row[key]] for key in BYTES[:3]) + state, what)
        expect(row["moved"], row["read"] + row["written"], what)
        if not SIZES[row["grad"]] <= row["read"] or not SIZES[row["param"]] <= row["written"]:
            sys.exit(f"{what}: expected to read the gradient and to write the parameter, got {row}")
        expect_in(" ".join(str(number(row[key]) if key not in BYTES[:3] else row[key])
                           for key in (*BYTES, "moved")), flat, what)


def check_rule():
    names = [entry["name"] for entry in read_json("list")]
    for name in names:
        entry = read_json("list", name)
        text, _ = run("list", name)
        expect_width(text, f"talus list {name}")
        flat = words(text)
        expect(entry["name"], name, "name")
        for hyper in entry["hyperparameters"]:
            expect_in(hyper["name"] + " " + hyper["kind"] + ("* " if hyper["fixed"] else " "), flat,
                      f"talus list {name}")
            expect_in(words(hyper["doc"]), flat, f"talus list {name}")
            low = float("-inf") if hyper["min"] is None else hyper["min"]
            high = float("inf") if hyper["max"] is None else hyper["max"]
            if not low <= hyper["default"] <= high:
                sys.exit(f"{name} {hyper['name']}: default outside its range: {hyper}")
            if all(bound is None or bound == int(bound) for bound in (hyper["min"], hyper["max"])):
                expect_in(f" {range_text(hyper)} ", flat, f"{name} {hyper['name']}: range")
        for part in (f"paper: {entry['paper']} for: {entry['purpose']}",
                     f"{state_text(entry['state_bytes'])} in all"):
            expect_in(part, flat, f"talus list {name}")
        for slot in entry["slots"]:
            per = " per tensor" if slot["per"] == "tensor" else ""
            expect_in(f"{slot['name']} {slot['bytes']}{per} {words(slot['doc'])}", flat,
                      f"talus list {name}")
        for per, key in (("element", "most"), ("tensor", "per_tensor")):
            expect(sum(slot["bytes"] for slot in entry["slots"] if slot["per"] == per),
                   entry["state_bytes"][key], f"{name}: bytes per {per}")
        expect(sum(slot["bytes"] for slot in entry["slots"]
                   if slot["per"] == "element" and slot["by_default"]),
               entry["state_bytes"]["default"], f"{name}: bytes per element by default")

        check_bytes(entry, flat)
    expect({tuple(row[key] for key in BYTES) for row in read_json("list", "adamw")["bytes"]},
           ADAMW_BYTES, "bytes of adamw")

    adamw = {hyper["name"]: hyper for hyper in read_json("list", "adamw")["hyperparameters"]}
    expect([adamw[key]["default"] for key in ("lr", "beta1", "beta2", "eps", "weight_decay")],
           [1e-3, 0.9, 0.999, 1e-8, 1e-2], "defaults of adamw")
    expect([adamw["lr"][key] for key in ("kind", "min", "max", "fixed")], ["real", 0, None, False],
           "lr of adamw")
    expect([adamw["beta1"][key] for key in ("min", "max", "min_open", "max_open")],
           [0, 1, False, True], "beta1 of adamw")
    expect([adamw["amsgrad"][key] for key in ("kind", "fixed")], ["flag", True], "amsgrad of adamw")
    expect_in("[0, 1)", run("list", "adamw")[0], "talus list adamw")
    slots = [slot["name"] for slot in read_json("list", "adamw")["slots"]]
    expect(slots[:2], ["exp_avg", "exp_avg_sq"], "slots of adamw")


def check_selftest():
    os.environ.pop("TALUS_CPU_TARGET", None)  # chosen below
    names = [entry["name"] for entry in read_json("list")]
    usable = read_json("info")["cpu_targets"]
    report = read_json("selftest")
    expect([target["name"] for target in report["targets"]], usable[::-1], "targets tested")
    expect(report["algorithms"], names, "algorithms tested")
    expect(report["failed"], 0, "failed checks")
    expect(report["checks"], sum(target["checks"] for target in report["targets"]), "sum of checks")
    # A mix of dtypes and a setup is one check for each other way to run it: threads by chunks, and
    # the host's loop; of brief setups two ways.
    ways = len(report["threads"]) * len(report["chunk_elements"]) + 1
    brief = report["brief_setups"]
    least = ((report["setups"] - brief) * ways + brief * 2) * report["dtype_mixes"]
    for target in report["targets"]:
        expect(target["compared_with"], None if target["name"] == "scalar" else "scalar", "reference")
        more = report["setups"] * report["dtype_mixes"] * (target["name"] != "scalar")
        if target["checks"] <= least + more:
            sys.exit(f"checks of {target['name']}: got {target['checks']}, expected > {least + more}")
    few = read_json("selftest", "--only", "sgd", "fused_adam", "--largest", "9")
    expect(sorted(few["algorithms"]), ["fused_adam", "sgd"], "algorithms tested of a few")
    expect(few["failed"], 0, "failed checks of a few")
    run("selftest", "--only", "nonsense", code=2)
    for name in ("scalar", "avx2"):
        if name in usable:
            check_selftest_of(name, report)
        else:
            print(f"not tested: a selftest of {name} alone, for this CPU has none")
    out, err = run("selftest", code=1, environment={"TALUS_CPU_TARGET": "nonsense"})
    expect(out, "", "stdout of selftest with an unknown TALUS_CPU_TARGET")
    expect_in('"nonsense"', err, "stderr of selftest with an unknown TALUS_CPU_TARGET")


def check_selftest_of(name, full):
    """With TALUS_CPU_TARGET, the same checks of one target, against the scalar lane."""
    text, _ = run("selftest", environment={"TALUS_CPU_TARGET": name})
    expect_width(text, f"talus selftest of {name}")
    checks = [target["checks"] for target in full["targets"] if target["name"] == name][0]
    lines = [words(line) for line in text.splitlines()]
    expect(lines[-1], f"selftest: {checks} checks passed", f"last line of selftest of {name}")
    rows = lines[lines.index("CPU target checks failed") + 1:]
    told = [row for row in rows if row.startswith(f"{name} {checks} 0 ") and "in use" in row]
    expect(len(told), 1, f"rows of {name} in\n{text}")
    expect(any(row.startswith("scalar 0 0 only") for row in rows), name != "scalar",
           f"a row of the reference beside {name}")
    for part in (", ".join(full["algorithms"]), f"{full['setups']} setups", "1, 2, 3, 8",
                 f"{full['dtype_mixes']} mixes of dtypes"):
        expect_in(part, words(text), f"talus selftest of {name}")


def check_device():
    """Where there is no device: the library's reason, and not a check passed."""
    cuda = [each for each in read_json("info")["backends"] if each["name"] == "cuda"][0]
    if cuda["usable"]:
        expect_device(read_json("selftest", "--device", "cuda"))
    else:
        for arguments in (("cuda",), ("cuda:0",), ("cuda", "--json")):
            out, err = run("selftest", "--device", *arguments, code=1)
            expect(out, "", "stdout of selftest --device cuda without a device")
            expect_in("talus: TALUS_E_", err, "stderr of selftest --device cuda without a device")
            expect_in(cuda["reason"], err, "stderr of selftest --device cuda without a device")
    for name in ("nonsense", "cuda:", "cuda:x", "cuda:-1", "cuda:1234", ""):
        out, err = run("selftest", "--device", name, code=2)
        expect(out, "", f"stdout of selftest --device {name}")
        expect_in("expected cpu, cuda or cuda:N", err, f"stderr of selftest --device {name}")


def expect_device(report):
    expect(report["failed"], 0, "failed checks of the device")
    # For each setup and three sizes of chunks: every mix of dtypes, and that gradients are as given.
    expect(report["checks"], report["setups"] * 3 * (report["dtype_mixes"] + 1), "checks")


def check_fake_device():
    info = read_json("info")
    expect([line["doc"].split(",")[0] for line in info["devices"]], ["Fake 0", "Fake 1"], "devices")
    expect_in("CUDA: driver 13.2, runtime 13.0", info["plugins"][0]["doc"], "versions")
    report = read_json("selftest", "--device", "cuda:1")
    expect_device(report)
    expect_in("Fake 1", report["doc"], "the device tested")
    text, _ = run("selftest", "--device", "cuda")
    expect(text.splitlines()[-1], f"selftest: {report['checks']} checks passed", "the last line")
    wrong = {"TALUS_FAKE": "wrong"}
    text, _ = run("selftest", "--device", "cuda", code=1, environment=wrong)
    for part in ("FAILED cuda:0: sgd (defaults): ", "against the CPU", " more, --json has all",
                 f" of {report['checks']} checks failed"):
        expect_in(part, text, "selftest of a device that gives a wrong bit")
    lost = {"TALUS_FAKE_FAIL": "run:5:9:719"}
    out, err = run("selftest", "--device", "cuda", code=1, environment=lost)
    expect(out, "", "stdout of selftest of a device that is lost")
    expect_in("TALUS_E_DEVICE_LOST", err, "stderr of selftest of a device that is lost")
    _, err = run("selftest", "--device", "cuda:2", code=1)
    expect_in("expected 0 .. 1", err, "stderr of selftest of a device that is not there")


def check_errors():
    for arguments in ((), ("nonsense",), ("list", "--nonsense"), ("info", "extra"),
                      ("list", "a", "b")):
        out, err = run(*arguments, code=2)
        expect(out, "", f"stdout of {arguments}")
        if not err:
            sys.exit(f"{arguments}: wrong usage without a word")
    for arguments in (("list", "adamwx"), ("list", "adamwx", "--json"), ("list", "devices")):
        out, err = run(*arguments, code=1)
        expect(out, "", f"stdout of {arguments}")
        for part in ("TALUS_E_NAME", arguments[1], "adamw"):
            expect_in(part, err, f"stderr of {arguments}")
        expect(len(err.splitlines()), 1, f"lines of the error of {arguments}")
    _, err = run("list", code=1, environment={"TALUS_CPU_TARGET": "nonsense"})
    expect_in("nonsense", err, "stderr with an unknown TALUS_CPU_TARGET")


TALUS, WHAT = sys.argv[1:3]
globals()["check_" + WHAT.replace("-", "_")]()
print(f"{WHAT}: ok")
