"""Writes the calls of conformance.txt, with ? for what they answer.

    python3 make_conformance.py > conformance.txt && conformance --write conformance.txt
    python3 make_conformance.py --check conformance.txt      the calls in the file are these

No library is used and nothing is drawn at random: the same text on every machine.
"""
import struct
import sys

RULES = ("sgd adam adamw adagrad rmsprop adadelta adamax nadam radam asgd rprop lion lamb novograd "
         "lars larc").split()  # sparse_adam takes rows alone: see rows()
ALIASES = ("fused_sgd fused_adam fused_adagrad fused_lamb fused_mixed_precision_lamb "
           "fused_novograd").split()
SLOTS = {
    "sgd": "momentum_buffer", "adam": "exp_avg exp_avg_sq", "adamw": "exp_avg exp_avg_sq",
    "adagrad": "sum", "rmsprop": "square_avg grad_avg momentum_buffer",
    "adadelta": "square_avg acc_delta", "adamax": "exp_avg exp_inf",
    "nadam": "exp_avg exp_avg_sq mu_product", "radam": "exp_avg exp_avg_sq", "asgd": "ax",
    "rprop": "prev step_size", "lion": "exp_avg", "lamb": "exp_avg exp_avg_sq",
    "novograd": "exp_avg exp_avg_sq", "lars": "momentum_buffer", "larc": "momentum_buffer"}
MORE = {"sgd": {"momentum": 0.9, "weight_decay": 0.01}, "rmsprop": {"momentum": 0.5, "centered": 1}}

GUIDE = """\
# Calls of the library and what they answer, to the bit. One call a line, words separated by a space.
# Runners: conformance.c and conformance.cpp here, and one in each folder of a binding. The calls are
# make_conformance.py's; the answers, behind "=", are written by: conformance --write.
#
# INT decimal. DOUBLE the 16 hex digits of its bits. BITS those of an element: f64 16 digits, f32 8,
# f16 and bf16 4. "-" none. O optimizer, A G V array, C schedule, S scaler: names, each given once.
# FILE lies in a new folder, which the runner removes. PARAM and GROUP are indices, GROUP -1 is all.
#
# ! STATUS WORD CALL           CALL fails with this status, and the text of the error has WORD in it
# optimizer O RULE             on the CPU
# group O RULE                 adds a group
# set O GROUP HYPER DOUBLE     get O GROUP HYPER = DOUBLE
# setting O NAME DOUBLE        get_setting O NAME = DOUBLE
# array A DTYPE BITS...        memory of the runner's language; f64 f32 f16 bf16
# fill A BITS...               writes all of it, in place
# read A = BITS...
# param O GROUP NAME A G SHAPE STATE MASTER
#                              adds A with gradient G; SHAPE 2x3, or - for one extent; STATE the dtype
#                              of the state; MASTER f32, none, or - as is the default for the dtype
# bind O PARAM G               the gradient
# rows O PARAM V ROW...        V is the gradient of these rows for the next step; rows are INT
# set_group O GROUP PARAM      remove O PARAM      find O NAME = INT
# step O                       advance O           zero_grad O: writes zeros
# step_closure O DOUBLE = DOUBLE
#                              a step whose closure answers this loss; and what the call answers
# slot O PARAM SLOT = BITS...  state
# steps O PARAM = INT          set_steps O PARAM INT
# stat O FIELD = INT           of talus_stats
# schedule C KIND              schedule_set C NAME DOUBLE
# schedule_list C NAME INT...  milestones
# schedule_add C PIECE         a schedule as a piece
# schedule_function C DOUBLE   the function d / (d + t) of the time t, where d is DOUBLE
# schedule_value C DOUBLE INT = DOUBLE          at base and t
# attach O GROUP HYPER C       on the clock of applied steps; C -: takes it away
# value_now O GROUP HYPER = DOUBLE              observe O DOUBLE
# scaler S                     scaler_set S NAME DOUBLE
# scale S = DOUBLE             update S            attach_scaler O S; S -: none
# norm O GROUP DOUBLE = DOUBLE                  of this type
# clip O GROUP DOUBLE DOUBLE = DOUBLE           most norm, type
# export O PARAM VIEW = BITS...                 f32
# bytes O GROUP DTYPE GRAD STATE MASTER = DOUBLE...
#                              the fields of talus_bytes of a parameter of these dtypes, or -
# save O FILE                  load O FILE
# truncate FILE INT            cuts the file to so many bytes, without the library
# same A A                     two arrays have the same bits   same_file FILE FILE: the same bytes
# destroy NAME                 optimizer, schedule or scaler; again: nothing
# count LIST = INT             of names
"""

lines = []


def call(*words):
    lines.append(" ".join(str(word) for word in words))


def ask(*words):
    call(*words, "=", "?")


def title(text):
    lines.extend(["", "# " + text])


def double(value):
    return struct.pack(">d", value).hex()


def bits(dtype, values):
    """Numbers that bf16 holds are cut to it exactly."""
    if dtype == "bf16":
        return [struct.pack(">f", value).hex()[:4] for value in values]
    code = {"f64": ">d", "f32": ">f", "f16": ">e"}[dtype]
    return [struct.pack(code, value).hex() for value in values]


def numbers(count, seed, scale=1.0):
    """Multiples of 1/64 in -1 .. 1, in no order to speak of: exact in every dtype here."""
    return [((seed * 37 + i * 61 + i * i * 13) % 129 - 64) / 64 * scale for i in range(count)]


def array(name, dtype, values):
    call("array", name, dtype, *bits(dtype, values))


def fill(name, dtype, values):
    call("fill", name, *bits(dtype, values))


def set_all(opt, values, group=-1):
    for name, value in values.items():
        call("set", opt, group, name, double(value))


def optimizer(name, rule, **values):
    call("optimizer", name, rule)
    set_all(name, values)


def param(opt, name, data, grad, group=0, shape="-", state="-", master="-"):
    call("param", opt, group, name, data, grad, shape, state, master)


def fails(status, word, *words):
    call("!", "TALUS_E_" + status, word, *words)


def one(name, rule="sgd", count=3, grad=True, **values):
    """An optimizer with one f32 parameter NAME.w and its gradient NAME.g."""
    optimizer(name, rule, **values)
    array(name + ".w", "f32", numbers(count, 3))
    array(name + ".g", "f32", numbers(count, 5))
    param(name, "w", name + ".w", name + ".g" if grad else "-")


EXTENTS = {"one": 1, "three": 3, "long": 17, "matrix": 6}


def rules():
    title("Rules: three steps on uneven lengths")
    for name, count in EXTENTS.items():
        array(name, "f32", numbers(count, 1))
        array(name + ".g", "f32", numbers(count, 2))
    for k, rule in enumerate(RULES):
        title(rule)
        for name, count in EXTENTS.items():
            fill(name, "f32", numbers(count, k + 1))
        optimizer(rule, rule, lr=0.05, **MORE.get(rule, {}))
        for name in EXTENTS:
            param(rule, name, name, name + ".g", shape="2x3" if name == "matrix" else "-")
        for step in range(3):
            for name, count in EXTENTS.items():
                if name in ("long", "matrix") or step == 0:
                    fill(name + ".g", "f32", numbers(count, 7 * k + 3 * step + 2))
            call("step", rule)
        for name in EXTENTS:
            ask("read", name)
        for slot in SLOTS[rule].split():
            ask("slot", rule, 2, slot)
        ask("steps", rule, 0)
        call("destroy", rule)
    call("destroy", RULES[-1])


def aliases():
    title("Other libraries' names, with their defaults")
    for k, rule in enumerate(ALIASES):
        fill("three", "f32", numbers(3, k + 4))
        fill("three.g", "f32", numbers(3, k + 9))
        call("optimizer", rule, rule)
        param(rule, "w", "three", "three.g")
        ask("get", rule, 0, "lr")
        call("step", rule)
        call("step", rule)
        ask("read", "three")
        call("destroy", rule)


def rows():
    title("Gradients of rows; a row that is given twice")
    array("table", "f32", numbers(6, 2))
    array("rows.v", "f32", numbers(4, 6))
    array("rows.twice", "f32", numbers(6, 8))
    optimizer("rows", "sparse_adam", lr=0.1)
    param("rows", "table", "table", "-", shape="3x2")
    call("rows", "rows", 0, "rows.v", 2, 0)
    call("step", "rows")
    ask("read", "table")
    call("rows", "rows", 0, "rows.twice", 1, 2, 1)
    call("step", "rows")
    ask("read", "table")
    ask("slot", "rows", 0, "exp_avg")
    ask("steps", "rows", 0)
    fails("ARGUMENT", "3", "rows", "rows", 0, "rows.v", 0, 3)
    fails("STATE", "gradient", "step", "rows")
    call("destroy", "rows")


MIXES = [  # parameter, gradient, state, master
    ("bf16", "bf16", "-", "f32"), ("bf16", "f32", "-", "-"), ("bf16", "bf16", "-", "none"),
    ("f16", "f32", "-", "-"), ("f16", "f16", "-", "f32"), ("f32", "f16", "-", "-"),
    ("f32", "bf16", "-", "-"), ("f64", "f64", "-", "-"), ("f64", "f32", "-", "-"),
    ("f32", "f32", "f32", "none")]


def mixes():
    title("Dtypes that go together, and bytes for each element of them")
    for k, (dtype, grad, state, master) in enumerate(MIXES):
        name = f"mix{k}"
        optimizer(name, "adamw", lr=0.01)
        array(name + ".w", dtype, numbers(5, k + 2))
        array(name + ".g", grad, numbers(5, k + 6))
        param(name, "w", name + ".w", name + ".g", state=state, master=master)
        for step in range(3):
            call("step", name)
            fill(name + ".g", grad, numbers(5, k + 7 + step))
        ask("read", name + ".w")
        ask("slot", name, 0, "exp_avg")
        if master == "f32" or (master == "-" and dtype in ("f16", "bf16")):
            ask("export", name, 0, "master")
            ask("slot", name, 0, "master_param")
        else:
            fails("UNSUPPORTED", "master", "export", name, 0, "master")
        ask("bytes", name, 0, dtype, grad, state, master)
        call("destroy", name)


def hypers():
    title("Hyperparameters, settings and groups")
    one("h", "adamw", lr=0.01)
    ask("get", "h", 0, "lr")
    ask("get", "h", 0, "beta2")
    call("group", "h", "sgd")
    ask("get", "h", 1, "lr")
    set_all("h", {"lr": 0.25, "momentum": 0.5}, group=1)
    ask("get", "h", 1, "lr")
    ask("get", "h", 0, "lr")
    array("h.v", "f32", numbers(4, 1))
    array("h.vg", "f32", numbers(4, 2))
    param("h", "v", "h.v", "h.vg", group=1, shape="2x2")
    call("step", "h")
    call("set", "h", -1, "weight_decay", double(0.125))
    call("set", "h", -1, "maximize", double(1))
    call("step", "h")
    ask("read", "h.w")
    ask("read", "h.v")
    call("group", "h", "adamw")
    ask("get", "h", 2, "weight_decay")
    call("set", "h", 2, "lr", double(0))
    call("set_group", "h", 2, 0)
    call("step", "h")
    ask("read", "h.w")
    ask("steps", "h", 0)
    call("setting", "h", "threads", double(2))
    ask("get_setting", "h", "threads")
    call("setting", "h", "chunk_tiles", double(1))
    ask("find", "h", "v")
    ask("find", "h", "no_such")
    call("remove", "h", 1)
    ask("find", "h", "v")
    call("step", "h")
    ask("read", "h.v")
    ask("stat", "h", "steps")
    call("destroy", "h")


def gradients():
    title("Gradients: none, bound anew, zeros; frozen parameters")
    one("n", "adam", lr=0.1)
    array("n.v", "f32", numbers(3, 7))
    array("n.h", "f32", numbers(3, 8))
    param("n", "v", "n.v", "-")
    call("step", "n")
    ask("read", "n.v")
    ask("steps", "n", 1)
    call("bind", "n", 1, "n.h")
    call("bind", "n", 0, "-")
    call("step", "n")
    ask("read", "n.w")
    ask("read", "n.v")
    ask("steps", "n", 0)
    ask("steps", "n", 1)
    call("bind", "n", 0, "n.g")
    call("zero_grad", "n")
    ask("read", "n.g")
    ask("read", "n.h")
    call("step", "n")
    ask("read", "n.w")
    call("bind", "n", 0, "-")
    call("bind", "n", 1, "-")
    fails("STATE", "gradient", "step", "n")
    ask("stat", "n", "steps")
    call("bind", "n", 1, "n.h")
    fill("n.h", "f32", numbers(3, 9))
    call("set_steps", "n", 1, 0)
    call("step", "n")
    ask("read", "n.v")
    ask("steps", "n", 1)
    ask("step_closure", "n", double(0.75))
    ask("steps", "n", 1)
    call("destroy", "n")


SCHEDULES = {  # kind: parameters
    "step": {"step_size": 2, "gamma": 0.5}, "multistep": {"gamma": 0.5},
    "exponential": {"gamma": 0.9}, "lambda": {}, "multiplicative": {},
    "constant": {"factor": 0.5, "total_iters": 2},
    "linear": {"start_factor": 0.25, "total_iters": 4}, "polynomial": {"power": 2},
    "cosine": {"T_max": 6, "eta_min": 0.01}, "cosine_restarts": {"T_0": 2, "T_mult": 2},
    "cyclic": {"max_value": 0.5, "step_size_up": 2}, "one_cycle": {"total_steps": 8, "max_value": 1},
    "inverse_sqrt": {"warmup_steps": 2},
    "wsd": {"warmup_steps": 2, "stable_steps": 1, "decay_steps": 3}}


def make_schedule(name, kind, values):
    call("schedule", name, kind)
    for key, value in values.items():
        call("schedule_set", name, key, double(value))
    if kind == "multistep":
        call("schedule_list", name, "milestones", 3, 1, 3)
    if kind in ("lambda", "multiplicative"):
        call("schedule_function", name, double(4))


def compose():
    for name in ("sequential", "chained"):
        call("schedule", name, name)
        call("schedule_add", name, "linear")
        call("schedule_add", name, "exponential")
    call("schedule_list", "sequential", "milestones", 3)


def schedules():
    title("Schedules by themselves")
    for kind, values in SCHEDULES.items():
        make_schedule(kind, kind, values)
    compose()
    for kind in [*SCHEDULES, "sequential", "chained"]:
        for t in (0, 1, 3, 1000):
            ask("schedule_value", kind, double(0.1), t)
    title("Schedules in use")
    for kind in [*SCHEDULES, "sequential", "chained"]:
        fill("one", "f32", numbers(1, 4))
        optimizer("with." + kind, "sgd", lr=0.1)
        param("with." + kind, "w", "one", "one.g")
        call("attach", "with." + kind, 0, "lr", kind)
        for _ in range(3):
            call("step", "with." + kind)
        ask("value_now", "with." + kind, 0, "lr")
        ask("get", "with." + kind, 0, "lr")
        ask("read", "one")
        call("destroy", "with." + kind)
    for kind in [*SCHEDULES, "sequential", "chained", "chained"]:
        call("destroy", kind)


def plateau():
    title("A plateau, by reports")
    one("p", lr=0.5)
    call("schedule", "plateau", "plateau")
    call("schedule_set", "plateau", "factor", double(0.5))
    call("schedule_set", "plateau", "patience", double(1))
    call("attach", "p", -1, "lr", "plateau")
    call("destroy", "plateau")
    for metric in (1.0, 2.0, 2.0, 2.0, 0.5):
        call("observe", "p", double(metric))
        call("step", "p")
        ask("value_now", "p", 0, "lr")
    ask("read", "p.w")
    call("attach", "p", -1, "lr", "-")
    ask("value_now", "p", 0, "lr")
    fails("STATE", "plateau", "observe", "p", double(1))
    call("destroy", "p")


def scaler():
    title("A scaler: a gradient that is infinite, growth, skipped steps")
    call("scaler", "s")
    ask("scale", "s")
    call("scaler_set", "s", "init_scale", double(1024))
    call("scaler_set", "s", "growth_interval", double(2))
    optimizer("amp", "adamw", lr=0.01)
    array("amp.w", "f16", numbers(3, 1))
    array("amp.g", "f16", numbers(3, 2, 1024))
    param("amp", "w", "amp.w", "amp.g", master="f32")
    call("attach_scaler", "amp", "s")
    fails("STATE", "step", "update", "s")
    for values in ([1, 2, 3], [1, float("inf"), 3], [4, 5, 6], [7, 8, 9], [float("nan"), 1, 2]):
        fill("amp.g", "f16", values)
        call("step", "amp")
        call("update", "s")
        ask("scale", "s")
        ask("read", "amp.w")
        ask("stat", "amp", "found_inf")
        ask("stat", "amp", "nonfinite_param")
    ask("stat", "amp", "steps")
    ask("stat", "amp", "skipped")
    ask("steps", "amp", 0)
    ask("export", "amp", 0, "master")
    call("step", "amp")
    fails("STATE", "step", "step", "amp")
    call("update", "s")
    call("destroy", "s")
    call("destroy", "s")
    call("step", "amp")
    call("attach_scaler", "amp", "-")
    fill("amp.g", "f16", [1, 2, 3])
    call("step", "amp")
    ask("read", "amp.w")
    call("destroy", "amp")


def norms():
    title("Norms and clips")
    one("c", lr=0.5, count=17)
    call("group", "c", "sgd")
    array("c.v", "f32", numbers(3, 1))
    array("c.vg", "f32", [3, 4, 12])
    param("c", "v", "c.v", "c.vg", group=1)
    for group in (-1, 0, 1):
        for kind in (1, 2, float("inf")):
            ask("norm", "c", group, double(kind))
    ask("clip", "c", -1, double(1), double(2))
    call("step", "c")
    ask("read", "c.w")
    ask("clip", "c", 1, double(0.5), double(float("inf")))
    call("step", "c")
    ask("read", "c.w")
    ask("read", "c.v")
    call("setting", "c", "max_grad_norm", double(2))
    call("setting", "c", "max_grad_value", double(0.5))
    call("step", "c")
    ask("read", "c.w")
    ask("read", "c.v")
    call("setting", "c", "max_grad_norm", double(0))
    call("setting", "c", "grad_scale", double(4))
    ask("norm", "c", -1, double(2))
    call("step", "c")
    ask("read", "c.v")
    call("setting", "c", "check_finite", double(1))
    call("setting", "c", "error_if_nonfinite", double(1))
    fill("c.vg", "f32", [1, float("inf"), 2])
    fails("NONFINITE", "v", "step", "c")
    ask("read", "c.v")
    ask("steps", "c", 1)
    call("destroy", "c")


def model(name, seed):
    for k, (part, dtype) in enumerate([("w", "bf16"), ("b", "f32")]):
        array(f"{name}.{part}", dtype, numbers(6, seed + k))
        array(f"{name}.{part}.g", dtype, numbers(6, 5 + k))


def train(name, arrays):
    """An optimizer of both arrays, in two groups of different rules, with a schedule."""
    optimizer(name, "adamw", lr=0.05)
    call("group", name, "lamb")
    param(name, "w", arrays + ".w", arrays + ".w.g", shape="2x3")
    param(name, "b", arrays + ".b", arrays + ".b.g", group=1)
    call("schedule", name + ".lr", "cosine")
    call("schedule_set", name + ".lr", "T_max", double(8))
    call("attach", name, -1, "lr", name + ".lr")
    call("destroy", name + ".lr")


def same(*names):
    for part in ("w", "b"):
        call("same", *[f"{name}.{part}" for name in names])


def checkpoints():
    title("A checkpoint in the middle: what goes on from it equals what went on without")
    for name in ("a", "b"):
        model(name, 1)
        train(name, name)
        for _ in range(3):
            call("step", name)
    same("a", "b")
    call("save", "a", "middle.safetensors")
    call("destroy", "b")
    train("resumed", "b")
    call("load", "resumed", "middle.safetensors")
    ask("steps", "resumed", 0)
    ask("stat", "resumed", "steps")
    for name in ("a", "resumed"):
        call("step", name)
        fill(("b" if name == "resumed" else name) + ".w.g", "bf16", numbers(6, 11))
        call("step", name)
    same("a", "b")
    ask("read", "b.w")
    ask("read", "b.b")
    ask("value_now", "resumed", 0, "lr")
    ask("slot", "resumed", 1, "exp_avg_sq")
    ask("export", "resumed", 0, "master")
    call("save", "a", "end.safetensors")
    call("save", "resumed", "resumed.safetensors")
    call("same_file", "end.safetensors", "resumed.safetensors")
    title("Files that are not there, not whole, or of another model")
    fails("IO", "missing.safetensors", "load", "resumed", "missing.safetensors")
    fails("IO", "no_folder", "save", "resumed", "no_folder/x.safetensors")
    one("other", "adamw")
    fails("MISMATCH", "w", "load", "other", "middle.safetensors")
    ask("read", "other.w")
    call("truncate", "end.safetensors", 200)
    fails("FORMAT", "end.safetensors", "load", "resumed", "end.safetensors")
    call("step", "resumed")
    ask("read", "b.b")
    for name in ("a", "resumed", "other"):
        call("destroy", name)


def failures():
    title("Calls that fail; and nothing has changed")
    fails("NAME", "no_such", "optimizer", "x", "no_such")
    fails("NAME", "no_such", "schedule", "x", "no_such")
    one("e", "adamw")
    fails("NAME", "no_such", "group", "e", "no_such")
    fails("NAME", "no_such", "set", "e", -1, "no_such", double(1))
    fails("NAME", "no_such", "get", "e", 0, "no_such")
    fails("NAME", "no_such", "setting", "e", "no_such", double(1))
    fails("RANGE", "lr", "set", "e", 0, "lr", double(-1))
    fails("RANGE", "beta1", "set", "e", -1, "beta1", double(1))
    fails("RANGE", "lr", "set", "e", -1, "lr", double(float("nan")))
    fails("RANGE", "amsgrad", "set", "e", -1, "amsgrad", double(0.5))
    fails("RANGE", "threads", "setting", "e", "threads", double(-1))
    fails("RANGE", "norm_type", "norm", "e", -1, double(3))
    fails("RANGE", "max_norm", "clip", "e", -1, double(0), double(2))
    fails("ARGUMENT", "7", "set", "e", 7, "lr", double(1))
    fails("ARGUMENT", "7", "bind", "e", 7, "e.g")
    fails("ARGUMENT", "7", "steps", "e", 7)
    fails("ARGUMENT", "7", "remove", "e", 7)
    array("e.v", "f32", numbers(4, 1))
    array("e.d", "f64", numbers(4, 1))
    array("e.h", "f16", numbers(4, 1))
    fails("ARGUMENT", "w", "param", "e", 0, "w", "e.v", "-", "-", "-", "-")
    fails("ARGUMENT", "w", "param", "e", 0, "again", "e.w", "-", "-", "-", "-")
    fails("UNSUPPORTED", "f16", "param", "e", 0, "d", "e.d", "e.h", "-", "-", "-")
    fails("UNSUPPORTED", "state", "param", "e", 0, "d", "e.v", "-", "-", "bf16", "-")
    fails("UNSUPPORTED", "rows", "rows", "e", 0, "one", 0)
    fails("UNSUPPORTED", "master", "export", "e", 0, "master")
    fails("NAME", "no_such", "export", "e", 0, "no_such")
    fails("UNSUPPORTED", "CPU", "advance", "e")
    call("schedule", "bad", "cosine")
    fails("NAME", "no_such", "schedule_set", "bad", "no_such", double(1))
    fails("RANGE", "T_max", "schedule_set", "bad", "T_max", double(-1))
    fails("STATE", "T_max", "schedule_value", "bad", double(1), 0)
    fails("STATE", "T_max", "attach", "e", 0, "lr", "bad")
    call("schedule_set", "bad", "T_max", double(4))
    fails("RANGE", "t", "schedule_value", "bad", double(1), -1)
    fails("UNSUPPORTED", "cosine", "schedule_add", "bad", "bad")
    fails("UNSUPPORTED", "cosine", "schedule_function", "bad", double(1))
    fails("NAME", "milestone", "schedule_list", "bad", "milestones", 1)
    fails("UNSUPPORTED", "amsgrad", "attach", "e", 0, "amsgrad", "bad")
    call("attach", "e", 0, "lr", "bad")
    fails("STATE", "lr", "attach", "e", 0, "lr", "bad")
    call("scaler", "z")
    fails("NAME", "no_such", "scaler_set", "z", "no_such", double(1))
    fails("RANGE", "scale", "scaler_set", "z", "init_scale", double(0))
    call("setting", "e", "grad_scale", double(2))
    fails("STATE", "grad_scale", "attach_scaler", "e", "z")
    call("setting", "e", "grad_scale", double(1))
    call("step", "e")
    fails("STATE", "amsgrad", "set", "e", -1, "amsgrad", double(1))
    ask("get", "e", 0, "lr")
    ask("get", "e", 0, "beta1")
    ask("get", "e", 0, "amsgrad")
    ask("steps", "e", 0)
    ask("find", "e", "again")
    ask("read", "e.w")
    for name in ("e", "bad", "z"):
        call("destroy", name)


def counts():
    title("Names")
    ask("count", "algorithms")
    ask("count", "aliases")
    ask("count", "schedules")
    ask("count", "slots/adamw")


def text():
    lines.clear()
    for part in (counts, rules, aliases, rows, mixes, hypers, gradients, schedules, plateau, scaler,
                 norms, checkpoints, failures):
        part()
    return GUIDE + "\n".join(lines) + "\n"


def without_answers(text):
    return [line.split(" =")[0] for line in text.splitlines()]


def main():
    if len(sys.argv) == 1:
        sys.stdout.write(text())
        return 0
    expected, got = without_answers(text()), without_answers(open(sys.argv[2]).read())
    for i, (mine, theirs) in enumerate(zip(expected + [None], got + [None])):
        if mine != theirs:
            print(f"{sys.argv[2]}:{i + 1}: got {theirs!r}, expected {mine!r}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
