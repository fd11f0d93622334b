"""Trains a linear regression through the C ABI with ctypes and the standard library alone.

    TALUS_LIB=.../libtalus.so.0 python3 smoke.py
"""
import array
import ctypes as C
import os

F32, CPU, ALL = 0x2002, 1, -1
OK, E_NAME, E_RANGE = 0, 2, 3


class Hyper(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("kind", C.c_int32), ("name", C.c_char_p),
                ("doc", C.c_char_p), ("default", C.c_double), ("min", C.c_double),
                ("max", C.c_double), ("flags", C.c_uint32), ("reserved", C.c_uint32)]


class Param(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("dtype", C.c_int32), ("data", C.c_void_p),
                ("grad", C.c_void_p), ("name", C.c_char_p), ("shape", C.POINTER(C.c_int64)),
                ("ndim", C.c_int32), ("grad_dtype", C.c_int32), ("state_dtype", C.c_int32),
                ("master", C.c_int32), ("flags", C.c_uint64)]


class State(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("dtype", C.c_int32), ("slot", C.c_char_p),
                ("data", C.c_void_p), ("param", C.c_int64), ("first", C.c_int64),
                ("count", C.c_int64), ("bytes", C.c_uint64), ("alignment", C.c_uint64)]


lib = C.CDLL(os.environ.get("TALUS_LIB", "libtalus.so.0"))


def bind(name, result, *arguments):
    """Sets both types: the default result, int, would cut a pointer."""
    function = getattr(lib, "talus_" + name)
    function.restype, function.argtypes = result, arguments
    return function


text, handle = C.c_char_p, C.c_void_p
Closure = C.CFUNCTYPE(C.c_int32, C.c_void_p, C.POINTER(C.c_double))
abi_version = bind("abi_version", C.c_uint32)
name_count = bind("name_count", C.c_int32, text)
name_at = bind("name_at", text, text, C.c_int32)
name_doc = bind("name_doc", text, text, text)
status_name = bind("status_name", text, C.c_int32)
last_error = bind("last_error", text)
hyper_count = bind("hyper_count", C.c_int32, text)
hyper_info = bind("hyper_info", C.c_int32, text, C.c_int32, C.POINTER(Hyper))
create = bind("create", C.c_int32, text, C.c_int32, C.c_int32, C.POINTER(handle))
destroy = bind("destroy", None, handle)
set_value = bind("set", C.c_int32, handle, C.c_int32, text, C.c_double)
get_value = bind("get", C.c_int32, handle, C.c_int32, text, C.POINTER(C.c_double))
add_params = bind("add_params", C.c_int32, handle, C.c_int32, C.c_int64, C.POINTER(Param),
                  C.POINTER(C.c_int64))
state_count = bind("state_count", C.c_int64, handle)
state_info = bind("state_info", C.c_int32, handle, C.c_int64, C.POINTER(State))
step_closure = bind("step_closure", C.c_int32, handle, Closure, C.c_void_p, C.POINTER(C.c_double),
                    C.c_void_p)


def check(status):
    if status != OK:
        raise RuntimeError(f"{status_name(status).decode()}: {last_error().decode()}")


def address(values):
    return values.buffer_info()[0]


def names(which):
    return [name_at(which, i) for i in range(name_count(which))]


def check_layout():
    assert (C.sizeof(Hyper), C.sizeof(Param), C.sizeof(State)) == (56, 64, 64)
    assert abi_version() >> 16 == 0


def check_names():
    assert b"adamw" in names(b"algorithms") and name_count(b"no such list") == -1
    for name in names(b"algorithms") + names(b"aliases"):
        assert hyper_count(name) > 0
        for i in range(hyper_count(name)):
            hyper = Hyper(struct_size=C.sizeof(Hyper))
            check(hyper_info(name, i, C.byref(hyper)))
            assert hyper.name and hyper.doc and hyper.min <= hyper.default <= hyper.max, hyper.name
    assert all(name_doc(b"algorithms", name) for name in names(b"algorithms"))


def check_error(opt):
    value = C.c_double(-1)
    assert set_value(opt, ALL, b"lr", -1) == E_RANGE and b"lr" in last_error(), last_error()
    assert get_value(opt, 0, b"learning_rate", C.byref(value)) == E_NAME and value.value == -1
    assert b"learning_rate" in last_error() and b"lr" in last_error(), last_error()
    assert not create(b"nonsense", CPU, 0, C.byref(handle())) == OK and b"adamw" in last_error()


def check_state(opt, weights):
    slots = []
    for i in range(state_count(opt)):
        state = State(struct_size=C.sizeof(State))
        check(state_info(opt, i, C.byref(state)))
        slots.append(state.slot)
        values = (C.c_float * state.count).from_address(state.data)
        assert state.dtype == F32 and state.count == len(weights) and any(values)
    assert slots[:2] == [b"exp_avg", b"exp_avg_sq"], slots


def evaluate(weights, grad):
    """Mean square error of weights[0] x + weights[1] y + weights[2] against 2x - 3y + 1."""
    points = [(x / 4, y / 4, 1.0) for x in range(5) for y in range(5)]
    loss, total = 0.0, [0.0] * 3
    for point in points:
        error = sum(w * x for w, x in zip(weights, point)) - (2 * point[0] - 3 * point[1] + 1)
        loss += error * error / len(points)
        for k in range(3):
            total[k] += 2 * error * point[k] / len(points)
    for k in range(3):
        grad[k] = total[k]
    return loss


def train():
    weights, grad = array.array("f", [0, 0, 0]), array.array("f", [0, 0, 0])
    opt = handle()
    check(create(b"adamw", CPU, 0, C.byref(opt)))
    check(set_value(opt, ALL, b"lr", 0.1))
    param = Param(struct_size=C.sizeof(Param), dtype=F32, data=address(weights),
                  grad=address(grad), name=b"line", shape=(C.c_int64 * 1)(3), ndim=1)
    first = C.c_int64(-1)
    check(add_params(opt, 0, 1, C.byref(param), C.byref(first)))
    assert first.value == 0

    def closure(_, loss):
        loss[0] = evaluate(weights, grad)
        return 0

    losses = []
    for _ in range(200):
        loss = C.c_double()
        check(step_closure(opt, Closure(closure), None, C.byref(loss), None))
        losses.append(loss.value)
    check_error(opt)
    check_state(opt, weights)
    destroy(opt)
    assert losses[10] < losses[0] and losses[-1] < 0.01 * losses[0], (losses[0], losses[-1])
    assert abs(weights[0] - 2) < 0.2 and abs(weights[1] + 3) < 0.2, weights


check_layout()
check_names()
train()
print("ok")
