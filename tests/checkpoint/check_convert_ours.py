"""Loads converted states of PyTorch into the library and compares its next step with PyTorch's.

    TALUS_LIB=.../libtalus.so.0 check_convert_ours.py [--python VENV/bin/python]
    TALUS_LIB=.../libtalus.so.0 check_convert_ours.py --tables   # needs no PyTorch

--tables holds the names and defaults in tools/convert/algorithms.py to those of the library.
"""
import argparse
import ctypes as C
import json
import os
import struct
import sys

import converting
from converting import convert, write_model
import read_safetensors

F32, BF16, I64, CPU, ALL = 0x2002, 0x1004, 0x4000, 1, -1
# Sums are contracted in PyTorch, and its factors rounded on the way: a few units in the last place
# of weight or lr, whichever is larger, after one step. Seen: 1.3.
MOST_ULP = 4
LR = .01


class Hyper(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("kind", C.c_int32), ("name", C.c_char_p),
                ("doc", C.c_char_p), ("default", C.c_double), ("min", C.c_double),
                ("max", C.c_double), ("flags", C.c_uint32), ("reserved", C.c_uint32)]


class Param(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("dtype", C.c_int32), ("data", C.c_void_p),
                ("grad", C.c_void_p), ("name", C.c_char_p), ("shape", C.POINTER(C.c_int64)),
                ("ndim", C.c_int32), ("grad_dtype", C.c_int32), ("state_dtype", C.c_int32),
                ("master", C.c_int32), ("flags", C.c_uint64)]


class Rows(C.Structure):
    _fields_ = [("struct_size", C.c_uint32), ("index_dtype", C.c_int32), ("count", C.c_int64),
                ("indices", C.c_void_p), ("values", C.c_void_p), ("flags", C.c_uint64)]


class Library:
    """The functions that are used here."""

    SIGNATURES = {
        "name_count": (C.c_int32, C.c_char_p), "name_at": (C.c_char_p, C.c_char_p, C.c_int32),
        "status_name": (C.c_char_p, C.c_int32), "last_error": (C.c_char_p,),
        "hyper_count": (C.c_int32, C.c_char_p),
        "hyper_info": (C.c_int32, C.c_char_p, C.c_int32, C.POINTER(Hyper)),
        "create": (C.c_int32, C.c_char_p, C.c_int32, C.c_int32, C.POINTER(C.c_void_p)),
        "destroy": (None, C.c_void_p),
        "set": (C.c_int32, C.c_void_p, C.c_int32, C.c_char_p, C.c_double),
        "get": (C.c_int32, C.c_void_p, C.c_int32, C.c_char_p, C.POINTER(C.c_double)),
        "add_params": (C.c_int32, C.c_void_p, C.c_int32, C.c_int64, C.POINTER(Param),
                       C.POINTER(C.c_int64)),
        "bind_rows": (C.c_int32, C.c_void_p, C.c_int64, C.POINTER(Rows)),
        "steps": (C.c_int64, C.c_void_p, C.c_int64),
        "step": (C.c_int32, C.c_void_p, C.c_void_p),
        "load": (C.c_int32, C.c_void_p, C.c_char_p, C.c_void_p, C.c_void_p),
        "save": (C.c_int32, C.c_void_p, C.c_char_p, C.c_void_p, C.c_void_p),
    }

    def __init__(self, path):
        lib = C.CDLL(path)
        for name, (result, *arguments) in self.SIGNATURES.items():
            function = getattr(lib, "talus_" + name, None)
            if function is not None:
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)

    def check(self, status):
        assert status == 0, f"{self.status_name(status).decode()}: {self.last_error().decode()}"

    def names(self, which):
        return [self.name_at(which, i).decode() for i in range(self.name_count(which))]

    def defaults(self, algorithm):
        result = {}
        for i in range(self.hyper_count(algorithm.encode())):
            hyper = Hyper(struct_size=C.sizeof(Hyper))
            self.check(self.hyper_info(algorithm.encode(), i, C.byref(hyper)))
            result[hyper.name.decode()] = hyper.default
        return result


class Optimizer:
    """One of the library, over the memory of a module's parameters and gradients."""

    def __init__(self, lib, algorithm, model, fixed, dtype=F32):
        self.lib, self.handle, self.model, self.dtype = lib, C.c_void_p(), model, dtype
        self.rows = []  # memory that a step reads
        lib.check(lib.create(algorithm.encode(), CPU, 0, C.byref(self.handle)))
        for name, value in fixed.items():
            lib.check(lib.set(self.handle, ALL, name.encode(), float(value)))
        params = [self.describe(name, param) for name, param in model.named_parameters()]
        array = (Param * len(params))(*params)
        lib.check(lib.add_params(self.handle, 0, len(params), array, None))

    def describe(self, name, param):
        dense = param.grad is not None and param.grad.layout == torch.strided
        shape = (C.c_int64 * param.dim())(*param.shape)
        return Param(struct_size=C.sizeof(Param), dtype=self.dtype, data=param.data_ptr(),
                     grad=param.grad.data_ptr() if dense else None, name=name.encode(), shape=shape,
                     ndim=param.dim())

    def bind_rows(self):
        for index, param in enumerate(self.model.parameters()):
            gradient = param.grad.coalesce()
            indices, values = gradient.indices().contiguous(), gradient.values().contiguous()
            self.lib.check(self.lib.bind_rows(self.handle, index, C.byref(Rows(
                struct_size=C.sizeof(Rows), index_dtype=I64, count=indices.numel(),
                indices=indices.data_ptr(), values=values.data_ptr()))))
            self.rows += [indices, values]

    def close(self):
        self.lib.destroy(self.handle)


def check_tables(lib):
    """names, defaults and slots of the converter's tables are the library's"""
    from convert.algorithms import CLASSES, RULES
    assert set(RULES) == set(lib.names(b"algorithms")), set(RULES) ^ set(lib.names(b"algorithms"))
    for algorithm, rule in RULES.items():
        defaults = lib.defaults(algorithm)
        assert rule.hypers == defaults, (algorithm, rule.hypers, defaults)
        slots = lib.names(b"slots/" + algorithm.encode())
        assert {slot.name for slot in rule.slots} == set(slots), (algorithm, slots)
    aliases = set(lib.names(b"aliases"))
    missing = {name for name, of in CLASSES.items() if of.library == "apex"} ^ aliases ^ {"larc"}
    assert not missing, missing
    for name in aliases:
        upstream = CLASSES[name]
        expected = {**RULES[upstream.algorithm].hypers, **upstream.outside}
        spelled = {"decoupled_weight_decay": "adam_w_mode"}  # by an alias, but not in files
        expected = {spelled.get(key, key): value for key, value in expected.items()}
        assert lib.defaults(name) == expected, (name, lib.defaults(name), expected)


def check_torch_next_step(folder, lib):
    """each optimizer of torch goes on here, and its next step is PyTorch's within a few ulp"""
    for name, options in torch_cases.CASES:
        run_case(folder, lib, name, options)


FIXED = {"momentum", "amsgrad", "centered"}


def run_case(folder, lib, name, options):
    title = torch_cases.title(name, options)
    model = torch_cases.Model(torch_cases.shapes_of(name))
    optimizer = torch_cases.make(name, model, {"lr": LR, **options})
    torch_cases.train(model, optimizer, range(1, 4))
    ours, cold = torch_cases.copy_of(model), torch_cases.copy_of(model)
    torch.save(optimizer.state_dict(), folder / "a.pt")
    convert(folder / "a.pt", folder / "b.safetensors", "--algorithm", name, "--model",
            write_model(folder / "m", torch_cases.shapes_of(name)))
    from convert.algorithms import CLASSES, find_class
    algorithm = CLASSES[find_class(name)].algorithm
    fixed = {key: options[key] for key in FIXED & options.keys()}
    torch_cases.train(model, optimizer, [4])
    one_step(lib, algorithm, fixed, ours, folder / "b.safetensors")
    one_step(lib, algorithm, fixed, cold, None)
    worst = largest_distance(model, ours)
    assert worst[0] <= MOST_ULP, f"{title}: {worst}"
    assert largest_distance(model, cold)[0] > MOST_ULP, f"{title}: a cold start gives the same"
    print(f"  {title}: {worst[0]:.1f} ulp at most")


def one_step(lib, algorithm, fixed, model, path):
    sparse = algorithm == "sparse_adam"
    torch_cases.set_gradients(model, 4, sparse)
    optimizer = Optimizer(lib, algorithm, model, fixed)
    if path:
        lib.check(lib.load(optimizer.handle, str(path).encode(), None, None))
    if sparse:
        optimizer.bind_rows()
    lib.check(lib.step(optimizer.handle, None))
    optimizer.close()


def largest_distance(model, other):
    """In ulp of the larger magnitude, at least that of lr: weight, place, both values."""
    worst = (0.0,)
    for (name, left), right in zip(model.named_parameters(), other.parameters()):
        for index, (a, b) in enumerate(zip(left.flatten().tolist(), right.flatten().tolist())):
            ulp = ulp_of(max(abs(a), abs(b), LR))
            if a != b and (distance := abs(a - b) / ulp) > worst[0]:
                worst = (distance, f"{name}[{index}]", hex_of(a), hex_of(b))
    return worst


def ulp_of(value):
    bits, = struct.unpack("<I", struct.pack("<f", value))
    return struct.unpack("<f", struct.pack("<I", bits + 1))[0] - value


def hex_of(value):
    return struct.pack(">f", value).hex()


def check_back(folder, lib):
    """a converted state that the library saves is the same, and PyTorch goes on from it"""
    for name, options in torch_cases.CASES:
        model = torch_cases.Model(torch_cases.shapes_of(name))
        optimizer = torch_cases.make(name, model, {"lr": LR, **options})
        torch_cases.train(model, optimizer, [1, 2])
        torch.save(optimizer.state_dict(), folder / "a.pt")
        convert(folder / "a.pt", folder / "b", "--algorithm", name, "--model",
                write_model(folder / "m", torch_cases.shapes_of(name)))
        resaved = folder / "c.safetensors"
        save_again(lib, folder / "b", resaved, name, options, model)
        check_same_tensors(folder / "b", resaved)
        convert(resaved, folder / "d.pt", "--algorithm", name)
        other = torch_cases.copy_of(model)
        fresh = torch_cases.make(name, other, {"lr": .5})
        fresh.load_state_dict(torch.load(folder / "d.pt", weights_only=True))
        torch_cases.train(model, optimizer, [3])
        torch_cases.train(other, fresh, [3])
        wrong = torch_cases.differences(model, other)
        assert not wrong, f"{torch_cases.title(name, options)}: {wrong[:4]}"


def check_same_tensors(left, right):
    """All but the digest, which covers the writer's name."""
    (left, first), (right, second) = read_safetensors.read(left), read_safetensors.read(right)
    assert list(left) == list(right), (list(left), list(right))
    wrong = [name for name in left if left[name] != right[name] and name != "talus.digest"]
    assert not wrong, wrong
    for key in ("format", "talus.version", "talus.requires", "talus.params"):
        assert first[key] == second[key], (key, first[key], second[key])
    # 0.0001 is 1e-04 in the library's spelling.
    groups = [json.loads(metadata["talus.groups"]) for metadata in (first, second)]
    assert groups[0] == groups[1], groups


def check_masters(folder, lib):
    """masters of 16-bit parameters stay behind, which is said, and the moments come through"""
    model = torch_cases.Model(torch_cases.SHAPES, torch.bfloat16)
    torch_cases.set_gradients(model, 1)
    optimizer = Optimizer(lib, "adamw", model, {}, dtype=BF16)
    lib.check(lib.step(optimizer.handle, None))
    lib.check(lib.save(optimizer.handle, str(folder / "a.safetensors").encode(), None, None))
    optimizer.close()
    tensors, metadata = read_safetensors.read(folder / "a.safetensors")
    assert metadata["talus.requires"] == "master" and "state.head.bias.master_param" in tensors
    said = convert(folder / "a.safetensors", folder / "b.pt")
    assert "master_param of 4 parameters" in said and "rounded to 16 bits" in said, said
    state = torch.load(folder / "b.pt", weights_only=True)["state"]
    for number, name in enumerate(torch_cases.SHAPES):
        found = bytes(state[number]["exp_avg"].view(-1).view(torch.uint8).tolist())
        assert found == tensors[f"state.{name}.exp_avg"][2], name
        assert set(state[number]) == {"step", "exp_avg", "exp_avg_sq"}, state[number].keys()


def save_again(lib, source, target, name, options, model):
    from convert.algorithms import CLASSES, find_class
    copy = torch_cases.copy_of(model)
    optimizer = Optimizer(lib, CLASSES[find_class(name)].algorithm, copy,
                          {key: options[key] for key in FIXED & options.keys()})
    lib.check(lib.load(optimizer.handle, str(source).encode(), None, None))
    lib.check(lib.save(optimizer.handle, str(target).encode(), None, None))
    optimizer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="a Python that has PyTorch")
    parser.add_argument("--tables", action="store_true")
    arguments = parser.parse_args()
    lib = Library(os.environ.get("TALUS_LIB", "libtalus.so.0"))
    if arguments.tables:
        check_tables(lib)
        print("the tables are the library's")
        return 0
    global torch, torch_cases
    torch = converting.need_torch(arguments.python)
    import torch_cases
    if not hasattr(lib, "load"):
        converting.skip("a library without talus_load")
    checks = [check_torch_next_step, check_back, check_masters]
    return converting.run_checks([with_library(check, lib) for check in checks])


def with_library(check, lib):
    def run(folder):
        check(folder, lib)
    run.__doc__ = check.__doc__
    return run


if __name__ == "__main__":
    sys.exit(main())
