"""The container of checkpoints, safetensors: read strictly, written whole, by the standard library.

Bytes 0 to 7 are the length N of the header, little-endian; then N bytes of JSON, then data, from
whose start the offsets in the header count. Of optimizers this knows nothing.
"""
import json
import os
import re
import struct
import tempfile
from typing import NamedTuple

from .refusal import Refusal

DTYPE_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2,
               "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}
MAX_HEADER, MAX_TENSORS, MAX_METADATA = 100_000_000, 1 << 20, 1 << 16
MAX_NAME, MAX_VALUE, MAX_RANK = 4096, 64 << 20, 16
HEADER_ALIGNMENT = 64
WHITE_SPACE = b" \t\r\n"


class Tensor(NamedTuple):
    dtype: str
    shape: tuple
    begin: int
    end: int


class Header(NamedTuple):
    tensors: dict    # name -> Tensor, in the order of the data
    metadata: dict
    data_begin: int  # of the file


class Entry(NamedTuple):
    """A tensor to be written."""
    name: str
    dtype: str
    shape: tuple
    data: object  # bytes-like


def is_container(path):
    """Whether a file begins as one: a length that it has, and an opening brace."""
    with open(path, "rb") as file:
        head = file.read(64)
        size = file.seek(0, os.SEEK_END)
    return (len(head) > 8 and head[8:].lstrip(WHITE_SPACE).startswith(b"{")
            and struct.unpack("<Q", head[:8])[0] <= size - 8)


def read_header(path):
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            text = read_header_text(file, size)
        tensors, metadata = check_grammar(parse(text))
        return Header(check_extents(tensors, size - 8 - len(text)), metadata, 8 + len(text))
    except Refusal as refusal:
        raise Refusal(f"{path}: {refusal}") from None


def read_header_text(file, size):
    if size < 8:
        raise Refusal(f"{size} bytes, and a safetensors file has 8 at least")
    length, = struct.unpack("<Q", file.read(8))
    if length > min(MAX_HEADER, size - 8):
        most = min(MAX_HEADER, size - 8)
        raise Refusal(f"byte 0: a header of {length} bytes, at most {most} fit")
    text = file.read(length)
    if len(text) != length:
        raise Refusal("the file became shorter while it was read")
    return text


def parse(text):
    if b"\0" in text:
        raise Refusal(f"byte {8 + text.index(0)}: NUL in the header")
    if not text.lstrip(WHITE_SPACE).startswith(b"{"):
        raise Refusal("byte 8: the header begins with no '{'")
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=no_duplicates,
                          parse_int=unsigned, parse_float=no_number, parse_constant=no_number)
    except UnicodeDecodeError as error:
        raise Refusal(f"byte {8 + error.start}: no valid UTF-8") from None
    except json.JSONDecodeError as error:
        raise Refusal(f"character {error.pos} of the header: {error.msg}") from None
    except RecursionError:
        raise Refusal("the header is nested deeper than 3") from None


def no_duplicates(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        seen = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise Refusal(f"key {key!r} twice")
    return result


def unsigned(digits):
    if not digits.isdecimal() or len(digits) > 20 or int(digits) >= 1 << 64:
        raise Refusal(f"number {digits[:40]}: only unsigned 64-bit integers are legal")
    return int(digits)


def no_number(digits):
    raise Refusal(f"number {digits[:40]}: only unsigned 64-bit integers are legal")


def check_grammar(header):
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or len(metadata) > MAX_METADATA:
        raise Refusal(f"__metadata__ is no object of at most {MAX_METADATA} strings")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise Refusal(f"__metadata__ {key!r}: no string")
        if len(encoded(key)) > MAX_NAME or len(encoded(value)) > MAX_VALUE:
            raise Refusal(f"__metadata__ {key[:64]!r}: too long")
    if len(header) > MAX_TENSORS:
        raise Refusal(f"{len(header)} tensors, at most {MAX_TENSORS} are read")
    return {name: check_tensor(name, entry) for name, entry in header.items()}, metadata


def check_tensor(name, entry):
    check_name(name)
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise Refusal(f"{name!r}: not exactly dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise Refusal(f"{name!r}: dtype {dtype!r}, known are {', '.join(DTYPE_BYTES)}")
    if not is_integers(shape) or len(shape) > MAX_RANK:
        raise Refusal(f"{name!r}: shape is no list of at most {MAX_RANK} integers")
    if not is_integers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise Refusal(f"{name!r}: data_offsets {offsets!r} are no begin and end")
    if offsets[1] - offsets[0] != (needed := byte_count(dtype, shape)):
        raise Refusal(f"{name!r}: {offsets[1] - offsets[0]} bytes, {dtype} {shape} has {needed}")
    return Tensor(dtype, tuple(shape), *offsets)


def is_integers(value):
    return isinstance(value, list) and all(type(item) is int for item in value)


def byte_count(dtype, shape):
    count = DTYPE_BYTES[dtype]
    for extent in shape:
        count *= extent
    return count


def encoded(text):
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise Refusal(f"{text[:64]!r}: half of a surrogate pair") from None


def check_name(name):
    if len(encoded(name)) > MAX_NAME:
        raise Refusal(f"{name[:64]!r}: a name of more than {MAX_NAME} bytes")


def check_extents(tensors, data_bytes):
    """In the order of the data: no hole, no overlap, nothing behind the last."""
    end, ordered = 0, {}
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1][2:]):
        if tensor.begin != end:
            raise Refusal(f"{name!r}: begins at {tensor.begin}, where the one before ends is {end}")
        ordered[name], end = tensor, tensor.end
    if end != data_bytes:
        raise Refusal(f"the tensors end at {end}, the file's data at {data_bytes}")
    return ordered


def read_data(path, header, name):
    tensor = header.tensors[name]
    data = bytearray(tensor.end - tensor.begin)
    with open(path, "rb") as file:
        file.seek(header.data_begin + tensor.begin)
        if file.readinto(data) != len(data):
            raise Refusal(f"{path}: {name!r}: the file became shorter while it was read")
    return data


def lay_out(entries, metadata, last=""):
    """Head and entries in the order of their data: the widest dtypes first, `last` behind all."""
    order = sorted(entries, key=lambda entry: (entry.name == last, -DTYPE_BYTES[entry.dtype],
                                               encoded(entry.name)))
    header, begin = {"__metadata__": dict(sorted(metadata.items()))}, 0
    for entry in order:
        check_written_name(entry.name, header)
        end = begin + byte_count(entry.dtype, entry.shape)
        header[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape),
                              "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-(8 + len(text)) % HEADER_ALIGNMENT)
    return struct.pack("<Q", len(text)) + text, order


def check_written_name(name, header):
    check_name(name)
    if name in header:
        raise Refusal(f"two tensors of the name {name!r}")
    if re.search(r"[\x00-\x1f\x7f]", name):
        raise Refusal(f"{name!r}: a control character in a name")


def replace_whole(path, write):
    """Has write(file) fill a temporary beside path, which takes its place once it is on disk."""
    folder, base = os.path.split(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{base}.", suffix=".tmp", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode_of(path))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def mode_of(path):
    """That of the file that is replaced, or what open would give a new one."""
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
