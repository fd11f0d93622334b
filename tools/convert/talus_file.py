"""A checkpoint of talus: parameters, groups and state as plain values, and as a file."""
import json
from dataclasses import dataclass, field

from . import safetensors_file
from .algorithms import RULES
from .crc32c import crc32c
from .refusal import Refusal
from .safetensors_file import Entry

VERSION, WRITER = "1", "convert_torch"
DIGEST = "talus.digest"
# Features whose state has no place elsewhere and may be left behind.
DROPPED_FEATURES = {"master"}
# State of talus alone.
OURS = ("master_param", "master_remainder", "compensation", "ema", "ema_count")


@dataclass
class Param:
    name: str
    dtype: str
    shape: tuple
    group: int
    step: int = 0
    slots: dict = field(default_factory=dict)  # name -> the caller's tensor

    def scalar_shape(self):
        """Of a slot with one value: a parameter without elements has none."""
        return (0,) if 0 in self.shape else ()

    def scalar_count(self):
        return 0 if 0 in self.shape else 1


@dataclass
class Group:
    algorithm: str
    hyper: dict


@dataclass
class Checkpoint:
    params: list
    groups: list


def key_of(param, slot):
    return f"state.{param}.{slot}"


def write(path, checkpoint, entry, digest=True):
    """entry(key, tensor) makes an Entry of a slot's tensor."""
    entries = []
    for param in checkpoint.params:
        step = param.step.to_bytes(8, "little")
        entries.append(Entry(key_of(param.name, "step"), "I64", (), step))
        entries += [entry(key_of(param.name, slot), of) for slot, of in param.slots.items()]
    metadata = metadata_of(checkpoint)
    head, order = with_digest(entries, metadata) if digest else \
        safetensors_file.lay_out(entries, metadata)

    def fill(file):
        file.write(head)
        for item in order:
            file.write(item.data)
    safetensors_file.replace_whole(path, fill)


def with_digest(entries, metadata):
    """CRC-32C of the head, which already names the digest, then of each tensor in file order."""
    shape = (1 + len(entries),)
    head, order = safetensors_file.lay_out([*entries, Entry(DIGEST, "U32", shape, b"")], metadata,
                                           DIGEST)
    sums = [crc32c(head)] + [crc32c(item.data) for item in order[:-1]]
    data = b"".join(value.to_bytes(4, "little") for value in sums)
    return head, [*order[:-1], Entry(DIGEST, "U32", shape, data)]


def metadata_of(checkpoint):
    most = max((param.step for param in checkpoint.params), default=0)
    params = [{"name": param.name, "dtype": param.dtype, "shape": list(param.shape),
               "group": param.group, "slots": list(param.slots)} for param in checkpoint.params]
    groups = [{"algorithm": group.algorithm,
               "hyper": {name: number(value) for name, value in group.hyper.items()},
               "mode": "train"} for group in checkpoint.groups]
    counts = {"applied": str(most), "called": str(most), "skipped": "0", "clock": "0"}
    return {"format": "pt", "talus.version": VERSION, "talus.requires": "",
            "talus.writer": WRITER, "talus.settings": "{}", "talus.params": compact(params),
            "talus.groups": compact(groups), "talus.counts": compact(counts)}


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def number(value):
    """As our library writes doubles: infinities are strings, whole numbers have no point."""
    if value in (float("inf"), float("-inf")):
        return str(value)
    return int(value) if value == int(value) and abs(value) < 1 << 53 else float(value)


def read(path, from_bytes):
    """from_bytes(data, dtype, shape, where) makes the tensor of a slot. Also what was left behind:
    a dict from the name of a kind of state to the number of parameters that had it."""
    header = safetensors_file.read_header(path)
    check_version(path, header.metadata)
    groups = [read_group(path, index, item)
              for index, item in enumerate(read_json(path, header.metadata, "talus.groups"))]
    records = read_json(path, header.metadata, "talus.params")
    verify_digest(path, header)
    params, left = [], {}
    for record in records:
        params.append(read_param(path, header, record, groups, from_bytes))
        for slot in OURS:
            left[slot] = left.get(slot, 0) + (key_of(params[-1].name, slot) in header.tensors)
    return Checkpoint(params, groups), {slot: count for slot, count in left.items() if count}


def check_version(path, metadata):
    if "talus.version" not in metadata:
        raise Refusal(f"{path}: a safetensors file without talus.version: no checkpoint of talus")
    if metadata["talus.version"] != VERSION:
        raise Refusal(f"{path}: talus.version {metadata['talus.version']!r}, known is {VERSION}")
    features = {name.strip() for name in metadata.get("talus.requires", "").split(",")} - {""}
    if unknown := sorted(features - DROPPED_FEATURES):
        raise Refusal(f"{path}: talus.requires {unknown[0]!r}, which has no counterpart in PyTorch "
                      "here")


def read_json(path, metadata, key):
    try:
        value = json.loads(metadata[key], object_pairs_hook=safetensors_file.no_duplicates)
    except KeyError:
        raise Refusal(f"{path}: no {key} in its metadata") from None
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{path}: {key}: {error}") from None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Refusal(f"{path}: {key}: no list of objects")
    return value


def read_group(path, index, item):
    where = f"{path}: talus.groups {index}"
    algorithm, hyper = item.get("algorithm"), item.get("hyper")
    if algorithm not in RULES or not isinstance(hyper, dict):
        raise Refusal(f"{where}: algorithm {algorithm!r}, known are {', '.join(RULES)}")
    defaults = RULES[algorithm].hypers
    if unknown := [name for name in hyper if name not in defaults]:
        raise Refusal(f"{where}: {algorithm} has no hyperparameter {unknown[0]!r}")
    try:
        return Group(algorithm, {name: float(hyper.get(name, value))
                                 for name, value in defaults.items()})
    except (TypeError, ValueError):
        raise Refusal(f"{where}: a hyperparameter is no number: {compact(hyper)}") from None


def read_param(path, header, record, groups, from_bytes):
    name, dtype, shape, group, slots = (
        record.get(key) for key in ("name", "dtype", "shape", "group", "slots"))
    if not (isinstance(name, str) and isinstance(dtype, str) and isinstance(slots, list)
            and safetensors_file.is_integers(shape) and group in range(len(groups))):
        raise Refusal(f"{path}: talus.params: not name, dtype, shape, group and slots: "
                      + compact(record)[:200])
    param = Param(name, dtype, tuple(shape), group)
    param.step = int.from_bytes(slot_data(path, header, param, "step", ("I64",), ()), "little")
    if param.step == 0:
        return param  # what there is of state has no meaning yet
    for slot in RULES[groups[group].algorithm].slots_of(groups[group].hyper):
        wanted = param.scalar_shape() if slot.scalar else param.shape
        data = slot_data(path, header, param, slot.name, ("F64", "F32", "BF16", "F16"), wanted)
        key = key_of(name, slot.name)
        tensor = header.tensors[key]
        param.slots[slot.name] = from_bytes(data, tensor.dtype, tensor.shape, key)
    return param


def slot_data(path, header, param, slot, dtypes, shape):
    key = key_of(param.name, slot)
    tensor = header.tensors.get(key)
    if tensor is None:
        raise Refusal(f"{path}: no tensor {key!r}")
    if tensor.dtype not in dtypes or tensor.shape != tuple(shape):
        raise Refusal(f"{path}: {key!r} is {tensor.dtype} {list(tensor.shape)}, expected "
                      f"{' or '.join(dtypes)} {list(shape)}")
    return safetensors_file.read_data(path, header, key)


def verify_digest(path, header):
    if DIGEST not in header.tensors:
        return
    digest = header.tensors[DIGEST]
    names = [name for name in header.tensors if name != DIGEST]
    if digest.dtype != "U32" or digest.shape != (1 + len(names),):
        raise Refusal(f"{path}: {DIGEST} is {digest.dtype} {list(digest.shape)}, expected U32 "
                      f"[{1 + len(names)}]")
    data = safetensors_file.read_data(path, header, DIGEST)
    sums = [int.from_bytes(data[at:at + 4], "little") for at in range(0, len(data), 4)]
    with open(path, "rb") as file:
        head = file.read(header.data_begin)
    for name, wanted in zip([None, *names], sums):
        found = crc32c(head if name is None else safetensors_file.read_data(path, header, name))
        if found != wanted:
            raise Refusal(f"{path}: {'the header' if name is None else repr(name)} has CRC-32C "
                          f"{found:08x}, its digest says {wanted:08x}")
