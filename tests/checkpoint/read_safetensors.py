"""Prints what a safetensors file holds: a second reader, written from the format's text alone.

    read_safetensors.py FILE [--json]

Bytes 0 to 7: length N of the header, unsigned, little-endian. N bytes of JSON: name -> dtype, shape
and data_offsets, which count from byte 8 + N; __metadata__ is text. Nothing here is the project's.
"""
import json
import sys
import zlib

WIDTH = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2,
         "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}


def read(path):
    """Name -> (dtype, shape, bytes), and the metadata."""
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start].decode("utf-8"))
    metadata = header.pop("__metadata__", {})
    tensors, covered = {}, start
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        size = WIDTH[entry["dtype"]]
        for extent in entry["shape"]:
            size *= extent
        assert start + begin == covered, f"{name}: a hole or an overlap at byte {covered}"
        assert end - begin == size, f"{name}: {end - begin} bytes, its shape has {size}"
        tensors[name] = entry["dtype"], entry["shape"], content[start + begin:start + end]
        covered = start + end
    assert covered == len(content), f"data end at byte {covered}, the file has {len(content)}"
    return tensors, metadata


def main(path, *options):
    tensors, metadata = read(path)
    rows = {name: {"dtype": dtype, "shape": shape, "crc32": f"{zlib.crc32(data):08x}"}
            for name, (dtype, shape, data) in tensors.items()}
    if "--json" in options:
        print(json.dumps({"tensors": rows, "metadata": metadata}, indent=1))
        return
    for name, row in rows.items():
        print(name, row["dtype"], row["shape"], row["crc32"])


if __name__ == "__main__":
    main(*sys.argv[1:])
