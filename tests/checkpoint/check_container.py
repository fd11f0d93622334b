"""Holds tools/convert/safetensors_file.py and its checksum to the format; needs no package."""
import json
import os
import random
import struct
import sys

from converting import checks_of, run_checks
import read_safetensors

from convert import crc32c, safetensors_file
from convert.refusal import Refusal
from convert.safetensors_file import Entry

EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}


def container(header, data=b""):
    text = header if isinstance(header, bytes) else (
        header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape,
            "data_offsets": [begin, end]}


def refused(folder, content, text):
    path = folder / "x.safetensors"
    path.write_bytes(content)
    try:
        safetensors_file.read_header(path)
    except Refusal as refusal:
        assert text in str(refusal), f"expected {text!r} in: {refusal}"
        assert str(path) in str(refusal), refusal
        return
    raise AssertionError(f"taken, expected {text!r}: {content[:120]!r}")


def taken(folder, content):
    path = folder / "x.safetensors"
    path.write_bytes(content)
    return safetensors_file.read_header(path)


def check_round_trip(folder):
    """what is written reads back the same here and in the second reader, whatever dtype or shape"""
    seed = random.Random(5)
    entries, path = [], folder / "x.safetensors"
    for number, (dtype, width) in enumerate(safetensors_file.DTYPE_BYTES.items()):
        shape = [(), (0,), (3,), (2, 5), (1, 2, 3)][number % 5]
        count = safetensors_file.byte_count(dtype, shape)
        entries.append(Entry(f"ünïcode.\U0001f40d.{number}", dtype, shape, seed.randbytes(count)))
    head, order = safetensors_file.lay_out(entries, {"k": "v\n\"", "a": ""}, entries[-1].name)
    assert len(head) % 64 == 0 and order[-1] is entries[-1]
    safetensors_file.replace_whole(path, lambda file: [
        file.write(part) for part in [head, *(entry.data for entry in order)]])
    header = safetensors_file.read_header(path)
    second, metadata = read_safetensors.read(path)
    assert metadata == header.metadata == {"k": "v\n\"", "a": ""}
    assert list(header.tensors) == [entry.name for entry in order]
    for entry in entries:
        found = header.tensors[entry.name]
        assert (found.dtype, found.shape) == (entry.dtype, entry.shape), entry.name
        assert safetensors_file.read_data(path, header, entry.name) == entry.data, entry.name
        assert second[entry.name] == (entry.dtype, list(entry.shape), entry.data), entry.name
    widths = [safetensors_file.DTYPE_BYTES[entry.dtype] for entry in order[:-1]]
    assert widths == sorted(widths, reverse=True), widths


def check_truncation(folder):
    """a file that ends early, anywhere, or has a byte more is refused"""
    whole = container({"a": tensor(0, 3), "b": tensor(3, 8)}, b"12345678")
    taken(folder, whole)
    for length in range(len(whole)):
        refused(folder, whole[:length], "")
    refused(folder, whole + b"9", "end at")


def check_length(folder):
    """a header longer than the file or than the limit is refused before it is read"""
    refused(folder, struct.pack("<Q", 1 << 63) + b"{}", "header of")
    refused(folder, struct.pack("<Q", 3) + b"{}", "header of")
    refused(folder, b"1234567", "7 bytes")
    path = folder / "big"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 100_000_001) + b"{}")
        file.truncate(200_000_000)
    try:
        safetensors_file.read_header(path)
        raise AssertionError("a header of 100,000,001 bytes was taken")
    except Refusal as refusal:
        assert "100000001" in str(refusal), refusal


def check_duplicates(folder):
    """two equal keys are refused, also where one of them is escaped"""
    one = json.dumps(EMPTY)
    refused(folder, container(f'{{"a": {one}, "a": {one}}}'), "'a' twice")
    refused(folder, container(f'{{"a": {one}, "\\u0061": {one}}}'), "'a' twice")
    refused(folder, container('{"__metadata__": {}, "__metadata__": {}}'), "'__metadata__' twice")
    refused(folder, container('{"__metadata__": {"k": "1", "k": "2"}}'), "'k' twice")
    refused(folder, container('{"a": {"dtype": "F32", "dtype": "F32", "shape": [0], '
                              '"data_offsets": [0, 0]}}'), "'dtype' twice")


def check_extents(folder):
    """holes, overlaps and data that no tensor has are refused"""
    data = b"0" * 8
    refused(folder, container({"a": tensor(0, 3), "b": tensor(4, 8)}, data), "begins at 4")
    refused(folder, container({"a": tensor(0, 5), "b": tensor(4, 8)}, data), "begins at 4")
    refused(folder, container({"a": tensor(1, 8)}, data), "begins at 1")
    refused(folder, container({"a": tensor(0, 7)}, data), "end at 7")
    refused(folder, container({"a": tensor(0, 9)}, data), "end at 9")
    refused(folder, container({"a": tensor(8, 0, [0])}, data), "begin and end")
    refused(folder, container({"a": tensor(0, 8, [7])}, data), "8 bytes")
    refused(folder, container({"a": tensor(0, 8, [1 << 63, 1 << 63])}, data), "8 bytes")


def check_grammar(folder):
    """JSON that another reader may take and that is none of the format is refused"""
    entry = '{"a": {"dtype": "U8", "shape": [%s], "data_offsets": [0, 0]}}'
    for number in ("-0", "-1", "0.0", "0e1", "NaN", "Infinity", "1e400", str(1 << 64)):
        refused(folder, container(entry % number), "only unsigned 64-bit")
    refused(folder, container(b'{}\0{"junk": 1}'), "NUL")
    refused(folder, container(b"\xef\xbb\xbf{}"), "begins with no '{'")
    refused(folder, container(b"[]"), "begins with no '{'")
    refused(folder, container(b"{} {}"), "character")
    refused(folder, container(b"{} // end"), "character")
    refused(folder, container(b'{"\xc0\x80": 1}'), "UTF-8")
    refused(folder, container(b'{"\xed\xa0\x80": 1}'), "UTF-8")
    refused(folder, container('{"\\ud800": %s}' % json.dumps(EMPTY)), "surrogate")
    refused(folder, container('{"a": ' * 50_000), "")
    refused(folder, container({"a": {**EMPTY, "more": 1}}), "not exactly")
    refused(folder, container({"a": {"dtype": "F32", "shape": [0]}}), "not exactly")
    refused(folder, container({"a": []}), "not exactly")
    refused(folder, container({"a": {**EMPTY, "dtype": "F31"}}), "F31")
    refused(folder, container({"a": {**EMPTY, "shape": [0] * 17}}), "16 integers")
    refused(folder, container({"a": {**EMPTY, "shape": [True, 0]}}), "integers")
    refused(folder, container({"n" * 4097: EMPTY}), "4096 bytes")
    refused(folder, container({"__metadata__": {"k": 1}}), "no string")
    refused(folder, container({"__metadata__": []}), "no object")


def check_legal(folder):
    """an empty file, white space, rank 0, tensors without elements and of equal places are taken"""
    assert taken(folder, container("{}")).tensors == {}
    assert taken(folder, container(" \n\t{} \r\n")).data_begin == 8 + 8
    entries = {"z": tensor(0, 0), "a": tensor(0, 1, []), "m": tensor(1, 1)}
    header = taken(folder, container(entries, b"x"))
    assert header.tensors["a"].shape == () and len(header.tensors) == 3
    taken(folder, container({"n" * 4096: EMPTY}))


def check_names(folder):
    """names that readers would refuse are not written"""
    for names, text in ((["a", "a"], "two tensors"), (["a\n"], "control character"),
                        (["n" * 4097], "4096 bytes"), (["\ud800"], "surrogate")):
        try:
            safetensors_file.lay_out([Entry(name, "U8", (0,), b"") for name in names], {})
            raise AssertionError(f"{names!r} was taken")
        except Refusal as refusal:
            assert text in str(refusal), refusal


def check_replace(folder):
    """a write that fails leaves the old file and no temporary; one that succeeds keeps its mode"""
    path = folder / "x"
    path.write_bytes(b"old")
    path.chmod(0o640)

    def fail(file):
        file.write(b"half")
        raise OSError("no space")
    try:
        safetensors_file.replace_whole(path, fail)
        raise AssertionError("the failure was lost")
    except OSError:
        assert path.read_bytes() == b"old" and os.listdir(folder) == ["x"], os.listdir(folder)
    safetensors_file.replace_whole(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == 0o640


def check_sum(folder):
    """the checksum is CRC-32C, and lanes of numpy give what the loop over bytes gives"""
    del folder
    assert crc32c.crc32c(b"") == 0 and crc32c.crc32c(b"123456789") == 0xE3069283
    assert crc32c.crc32c(bytes(32)) == 0x8A9136AA and crc32c.crc32c(b"\xff" * 32) == 0x62A8AB43
    seed = random.Random(1)
    edge = crc32c.WORTH_LANES
    for count in (0, 1, edge - 1, edge, edge + 1, 200_003):
        data = seed.randbytes(count)
        plain = crc32c.update(0xFFFFFFFF, data) ^ 0xFFFFFFFF
        found = crc32c.crc32c(data)
        assert found == plain, f"{count} bytes: {found:08x}, expected {plain:08x}"


if __name__ == "__main__":
    sys.exit(run_checks(checks_of(globals())))
