"""Runs the calls of conformance.txt through this package and compares its answers, to the bit.

    conformance.py [FILE]      default: the variable TALUS_CONFORMANCE, then tests/ffi of the source
"""
import array
import filecmp
import math
import os
import pathlib
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import talus

SCRIPT = pathlib.Path(__file__).parents[3] / "tests" / "ffi" / "conformance.txt"
TYPECODES = {"f64": "d", "f32": "f", "f16": "H", "bf16": "H"}


class Disagreement(Exception):
    """An answer that is not the one in the file."""


def double(word):
    return struct.unpack(">d", bytes.fromhex(word))[0]


def from_double(value):
    return struct.pack(">d", value).hex()


def or_none(word):
    return None if word == "-" else word


class Array:
    """Memory of this language: 16-bit elements as integers."""

    def __init__(self, dtype, words):
        self.dtype = dtype
        self.values = array.array(TYPECODES[dtype], bytes(len(words) * self.item_bytes))
        self.fill(words)

    @property
    def item_bytes(self):
        return array.array(TYPECODES[self.dtype]).itemsize

    def fill(self, words):
        data = b"".join(bytes.fromhex(word)[::-1] for word in words)
        memoryview(self.values).cast("B")[:] = data

    def bits(self):
        return bits(self.values)


def bits(values):
    data, size = values.tobytes(), values.itemsize
    return [data[i:i + size][::-1].hex() for i in range(0, len(data), size)]


class Runner:
    """One method a verb; what it returns is the answer, as words."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.objects, self.arrays, self.groups = {}, {}, {}

    def close(self):
        for each in self.objects.values():
            each.close()

    def array_of(self, name):
        return self.arrays[name].values if name != "-" else None

    # arrays and files

    def array(self, name, dtype, *words):
        self.arrays[name] = Array(dtype, words)

    def fill(self, name, *words):
        self.arrays[name].fill(words)

    def read(self, name):
        return self.arrays[name].bits()

    def same(self, one, other):
        if self.arrays[one].bits() != self.arrays[other].bits():
            raise Disagreement(f"{one} and {other} differ")

    def same_file(self, one, other):
        if not filecmp.cmp(self.folder / one, self.folder / other, shallow=False):
            raise Disagreement(f"{one} and {other} differ")

    def truncate(self, name, size):
        os.truncate(self.folder / name, int(size))

    # optimizers

    def optimizer(self, name, rule):
        self.objects[name] = talus.Optimizer(rule)

    def destroy(self, name):
        self.objects[name].close()

    def group(self, name, rule):
        self.objects[name].add_group(rule)

    def set(self, name, group, hyper, value):
        self.objects[name].set(group=int(group), **{hyper: double(value)})

    def get(self, name, group, hyper):
        return [from_double(self.objects[name].get(hyper, int(group)))]

    def setting(self, name, setting, value):
        self.objects[name].set_setting(setting, double(value))

    def get_setting(self, name, setting):
        return [from_double(self.objects[name].get_setting(setting))]

    def param(self, name, group, param, data, grad, shape, state, master):
        shape = [int(extent) for extent in shape.split("x")] if shape != "-" else None
        grad_dtype = self.arrays[grad].dtype if grad != "-" else None
        self.objects[name].add(self.array_of(data), self.array_of(grad), name=param, shape=shape,
                               group=int(group), dtype=self.arrays[data].dtype,
                               grad_dtype=grad_dtype, state_dtype=or_none(state),
                               master=or_none(master))

    def bind(self, name, index, grad):
        self.objects[name].bind_grad(int(index), self.array_of(grad))

    def rows(self, name, index, values, *rows):
        self.objects[name].bind_rows(int(index), array.array("q", map(int, rows)),
                                     self.array_of(values))

    def set_group(self, name, group, index):
        self.objects[name].move([int(index)], int(group))

    def remove(self, name, index):
        self.objects[name].remove([int(index)])

    def find(self, name, param):
        index = self.objects[name].find(param)
        return [str(-1 if index is None else index)]

    def step(self, name):
        self.objects[name].step()

    def step_closure(self, name, loss):
        return [from_double(self.objects[name].step(lambda: double(loss)))]

    def advance(self, name):
        self.objects[name].advance()

    def zero_grad(self, name):
        self.objects[name].zero_grad()

    def slot(self, name, index, slot):
        return bits(self.objects[name].state(int(index), slot))

    def steps(self, name, index):
        return [str(self.objects[name].steps(int(index)))]

    def set_steps(self, name, index, steps):
        self.objects[name].set_steps(int(index), int(steps))

    def stat(self, name, field):
        return [str(getattr(self.objects[name].stats(), field))]

    def norm(self, name, group, kind):
        return [from_double(self.objects[name].grad_norm(double(kind), int(group)))]

    def clip(self, name, group, most, kind):
        return [from_double(self.objects[name].clip_grad_norm(double(most), double(kind),
                                                              int(group)))]

    def export(self, name, index, view):
        return bits(self.objects[name].export_master(int(index), view))

    def bytes(self, name, group, dtype, grad, state, master):
        found = self.objects[name].bytes_per_param(
            dtype, group=int(group), grad_dtype=or_none(grad), state_dtype=or_none(state),
            master=or_none(master))
        return [from_double(value) for value in found]

    def save(self, name, file):
        self.objects[name].save(self.folder / file)

    def load(self, name, file):
        self.objects[name].load(self.folder / file)

    # schedules

    def schedule(self, name, kind):
        self.objects[name] = talus.Schedule(kind)

    def schedule_set(self, name, parameter, value):
        self.objects[name].set(**{parameter: double(value)})

    def schedule_list(self, name, parameter, *values):
        if parameter != "milestones":
            raise Disagreement(f"this package sets no list {parameter!r}")
        self.objects[name].milestones = [int(value) for value in values]

    def schedule_add(self, name, piece):
        self.objects[name].add(self.objects[piece])

    def schedule_function(self, name, scale):
        d = double(scale)
        self.objects[name].set_function(lambda t: d / (d + t))

    def schedule_value(self, name, base, t):
        return [from_double(self.objects[name].value(double(base), int(t)))]

    def attach(self, name, group, hyper, schedule):
        self.objects[name].attach(hyper, self.objects.get(schedule), int(group))

    def value_now(self, name, group, hyper):
        return [from_double(self.objects[name].value_now(hyper, int(group)))]

    def observe(self, name, metric):
        self.objects[name].observe(double(metric))

    # scalers

    def scaler(self, name):
        self.objects[name] = talus.Scaler()

    def scaler_set(self, name, parameter, value):
        self.objects[name].set(**{parameter: double(value)})

    def scale(self, name):
        return [from_double(self.objects[name].scale)]

    def attach_scaler(self, name, scaler):
        self.objects[name].attach_scaler(self.objects.get(scaler))

    def update(self, name):
        self.objects[name].update()

    def count(self, which):
        return [str(len(talus.names(which)))]


VERBS = {name for name in vars(Runner) if name[0] != "_"} - {"close", "array_of"}


def expect_failure(runner, status, word, verb, *arguments):
    try:
        answer = call(runner, verb, arguments)
    except talus.Error as error:
        if error.name != status or word not in str(error):
            raise Disagreement(f"got {error}, expected {status} with {word!r}") from None
        return
    raise Disagreement(f"got {answer}, expected {status}")


def call(runner, verb, arguments):
    if verb not in VERBS:
        raise Disagreement(f"unknown verb {verb!r}")
    return getattr(runner, verb)(*arguments) or []


def agrees(got, expected):
    """Equal words; of a NaN only that it is one: sign and payload are the machine's."""
    return len(got) == len(expected) and all(
        one == other or len(one) == len(other) == 16 and math.isnan(double(one)) and
        math.isnan(double(other)) for one, other in zip(got, expected))


def run_line(runner, line):
    question, _, answer = line.partition(" = ")
    words = question.split()
    if words[0] == "!":
        expect_failure(runner, *words[1:])
        return
    try:
        got = call(runner, words[0], words[1:])
    except (talus.Error, TypeError, ValueError, KeyError) as error:
        raise Disagreement(f"got {error!r}, expected {answer or 'success'}") from error
    if not agrees(got, answer.split()):
        raise Disagreement(f"got {' '.join(got)}, expected {answer}")


def run(path):
    """Returns how many calls agree."""
    calls = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(folder)
        try:
            for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
                if line and not line.startswith("#"):
                    try:
                        run_line(runner, line)
                    except Disagreement as error:
                        raise Disagreement(f"{path}:{number}: {error}") from error
                    calls += 1
        finally:
            runner.close()
    return calls


def main(arguments):
    path = pathlib.Path(arguments[0] if arguments else os.environ.get("TALUS_CONFORMANCE", SCRIPT))
    if not path.exists():
        print(f"SKIPPED: no script at {path}")
        return 77
    try:
        print(f"{run(path)} calls agree")
    except Disagreement as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
