"""Makes the files of tests/checkpoint/files: each breaks one check of the reader of safetensors, or
none. What is expected of each is in test_safetensors_files.cpp.

    make_files.py FOLDER            writes them
    make_files.py --check FOLDER    prints what differs from what is there; 1 if anything does
"""

import json
import os
import struct
import sys


def whole(header, data=b""):
    """A file of a header, as bytes or text, and its data."""
    header = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(header)) + header + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def text(members):
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False)


# An F32 tensor of two elements, and variants of its text.
A = '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
EMPTY = '{"dtype":"F32","shape":[0],"data_offsets":[8,8]}'
EIGHT = bytes(range(8))


def one(dtype='"F32"', shape="[2]", offsets="[0,8]", data=EIGHT):
    """A file of one tensor whose values are these texts."""
    return whole('{"a":{"dtype":%s,"shape":%s,"data_offsets":%s}}' % (dtype, shape, offsets), data)


def two(b):
    """A file of the tensor above and a text behind it."""
    return whole("{" + A + "," + b + "}", EIGHT)


def metadata(members):
    return whole('{"__metadata__":' + members + "}")


DTYPES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
          "U16": 2, "I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "BOOL": 1}


def all_dtypes():
    members, end = {}, 0
    for dtype, size in DTYPES.items():
        members[dtype] = tensor(dtype, [1], end, end + size)
        end += size
    return whole(text(members), bytes(end))


LEGAL = {
    "empty_object": whole("{}"),
    "empty_object_padded": whole("{}" + " " * 54),
    "white_space": whole(" \t\r\n{ " + A.replace(":", " : ") + "\n}\t \r\n", EIGHT),
    "one_tensor": one(),
    "two_tensors": whole(text({"__metadata__": {"k": "v"}, "a": tensor("F32", [2], 0, 8),
                               "b": tensor("U8", [1, 3], 8, 11)}), bytes(range(11))),
    "zero_size": whole(text({"z": tensor("F32", [3, 0], 0, 0)})),
    "zero_sizes_among_others": whole(text({
        "c": tensor("U8", [4], 0, 4), "x": tensor("F32", [0], 0, 0), "y": tensor("F32", [0], 4, 4),
        "z": tensor("I64", [0, 7], 4, 4)}), bytes(4)),
    "zero_before_overflow": whole(text({"z": tensor("F32", [0, 2**40, 2**40], 0, 0)})),
    "rank_0": whole(text({"s": tensor("I64", [], 0, 8)}), EIGHT),
    "rank_16": whole(text({"s": tensor("U8", [1] * 16, 0, 1)}), b"x"),
    "unaligned": whole(text({"a": tensor("U8", [3], 0, 3), "b": tensor("F32", [1], 3, 7)}),
                       bytes(7)),
    "nan_data": one(data=struct.pack("<ff", float("nan"), float("-inf"))),
    "all_dtypes": all_dtypes(),
    "order_of_data_is_another": whole(text({"a": tensor("F32", [1], 4, 8),
                                            "b": tensor("F32", [1], 0, 4)}), EIGHT),
    "order_of_members": whole('{"a":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"}}', EIGHT),
    "metadata_last": two('"__metadata__":{"k":"v"}'),
    "metadata_empty": metadata("{}"),
    "metadata_escapes": metadata(r'{"k\u00e9":"\"\\\/\b\f\n\r\t\u0000\ud83d\ude00"}'),
    "name_empty": whole(text({"": tensor("U8", [1], 0, 1)}), b"x"),
    "name_utf8": whole(text({"\u00e9\u4e16\U0001f600": tensor("U8", [1], 0, 1)}), b"x"),
    "name_4096_bytes": whole(text({"n" * 4096: tensor("U8", [1], 0, 1)}), b"x"),
}

LENGTH = {
    "nothing": b"",
    "seven_bytes": b"\2\0\0\0\0\0\0",
    "length_beyond_end": struct.pack("<Q", 3) + b"{}",
    "length_over_limit": struct.pack("<Q", 100_000_001) + b"{}",
    "length_all_ones": b"\xff" * 8 + b"{}",
}

BYTES = {
    "nul_behind_object": whole(b"{}\0{}"),
    "nul_in_name": whole(b'{"a\0":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'),
    "nul_padding": whole(b"{}\0\0\0\0\0\0"),
    "byte_order_mark": whole(b"\xef\xbb\xbf{}"),
}

TOP = {
    "header_empty": whole(""),
    "header_of_spaces": whole("    "),
    "list_at_top": whole("[]"),
    "string_at_top": whole('"a"'),
    "number_at_top": whole("8"),
    "null_at_top": whole("null"),
    "two_objects": whole("{}{}"),
    "text_behind_object": whole("{} x"),
    "form_feed": whole("\f{}"),
}

JSON = {
    "not_closed": whole("{" + A, EIGHT),
    "trailing_comma": whole("{" + A + ",}", EIGHT),
    "no_colon": whole('{"a"}'),
    "no_comma": whole("{" + A + EMPTY + "}", EIGHT),
    "comment": whole("{/* */}"),
    "single_quotes": whole("{" + A.replace('"', "'") + "}", EIGHT),
    "nan_literal": one(shape="[NaN]"),
    "leading_zero": one(shape="[02]"),
    "plus_sign": one(shape="[+2]"),
    "hexadecimal": one(shape="[0x2]"),
    "overflowing_float": one(shape="[1e999]"),
    "control_in_string": metadata('{"k":"\1"}'),
    "bad_escape": metadata(r'{"k":"\x41"}'),
    "short_escape": metadata(r'{"k":"\u41"}'),
    "utf8_stray_byte": metadata('{"k":"?"}').replace(b"?", b"\xff"),
    "utf8_cut_short": metadata('{"k":"??"}').replace(b"??", b"\xc3x"),
    "utf8_overlong": metadata('{"k":"??"}').replace(b"??", b"\xc0\xaf"),
    "utf8_overlong_of_three": metadata('{"k":"???"}').replace(b"???", b"\xe0\x80\xaf"),
    "utf8_surrogate": metadata('{"k":"???"}').replace(b"???", b"\xed\xa0\x80"),
    "utf8_above_10ffff": metadata('{"k":"????"}').replace(b"????", b"\xf4\x90\x80\x80"),
    "surrogate_high_alone": metadata(r'{"k":"\ud800"}'),
    "surrogate_low_alone": metadata(r'{"k":"\udc00"}'),
    "surrogates_swapped": metadata(r'{"k":"\udc00\ud800"}'),
}

GRAMMAR = {
    "unknown_key": whole(A.join(["{", "}"]).replace(']}', '],"x":1}'), EIGHT),
    "no_dtype": whole('{"a":{"shape":[2],"data_offsets":[0,8]}}', EIGHT),
    "no_shape": whole('{"a":{"dtype":"F32","data_offsets":[0,8]}}', EIGHT),
    "no_offsets": whole('{"a":{"dtype":"F32","shape":[2]}}', EIGHT),
    "tensor_is_list": two('"b":[]'),
    "tensor_is_string": two('"b":"F32"'),
    "tensor_is_null": two('"b":null'),
    "tensor_is_true": two('"b":true'),
    "tensor_is_number": two('"b":1'),
    "dtype_is_number": one(dtype="1"),
    "dtype_is_list": one(dtype='["F32"]'),
    "shape_is_number": one(shape="2"),
    "shape_is_object": one(shape='{"0":2}'),
    "shape_of_strings": one(shape='["2"]'),
    "shape_nested": one(shape="[[2]]"),
    "shape_of_null": one(shape="[null]"),
    "offsets_is_string": one(offsets='"0,8"'),
    "offsets_one": one(offsets="[0]"),
    "offsets_three": one(offsets="[0,8,8]"),
    "offsets_nested": one(offsets="[0,[8]]"),
    "metadata_is_string": metadata('"k"'),
    "metadata_is_list": metadata('["k"]'),
    "metadata_of_number": metadata('{"k":1}'),
    "metadata_of_null": metadata('{"k":null}'),
    "metadata_of_object": metadata('{"k":{}}'),
    "deep_lists": one(shape="[" * 2000),
    "deep_objects": whole('{"a":' * 2000),
}

TWICE = {
    "twice_name": two(A),
    "twice_name_escaped": two(r'"\u0061":' + EMPTY),
    "twice_dtype": whole("{" + A.replace('"shape"', '"dtype":"F32","shape"') + "}", EIGHT),
    "twice_dtype_escaped": whole("{" + A.replace('"shape"', r'"\u0064type":"F32","shape"') + "}",
                                 EIGHT),
    "twice_shape": whole("{" + A.replace('"shape"', '"shape":[2],"shape"') + "}", EIGHT),
    "twice_offsets": whole("{" + A.replace('"data', '"data_offsets":[0,8],"data') + "}", EIGHT),
    "twice_metadata": whole('{"__metadata__":{},"__metadata__":{}}'),
    "twice_metadata_escaped": whole(r'{"__metadata__":{},"__metadata_\u005f":{}}'),
    "twice_metadata_key": metadata('{"k":"v","k":"v"}'),
    "twice_metadata_key_escaped": metadata(r'{"k":"v","\u006b":"v"}'),
}

NUMBERS = {
    "shape_below_0": one(shape="[-2]"),
    "shape_minus_0": one(shape="[-0]", offsets="[0,0]", data=b""),
    "shape_2.0": one(shape="[2.0]"),
    "shape_2e0": one(shape="[2e0]"),
    "shape_2_to_64": one(shape="[18446744073709551616]"),
    "offset_minus_0": one(offsets="[-0,8]"),
    "offset_8.0": one(offsets="[0,8.0]"),
    "offset_2_to_64": one(offsets="[0,18446744073709551616]"),
}

SIZES = {
    "dtype_unknown": one(dtype='"F33"'),
    "dtype_lower_case": one(dtype='"f32"'),
    "dtype_empty": one(dtype='""'),
    "rank_17": whole(text({"a": tensor("U8", [1] * 17, 0, 1)}), b"x"),
    "shape_overflows": one(shape="[4294967296,4294967296]", offsets="[0,0]", data=b""),
    "bytes_overflow": one(shape="[4611686018427387904]", offsets="[0,0]", data=b""),
    "overflow_before_zero": one(shape="[4294967296,4294967296,0]", offsets="[0,0]", data=b""),
    "less_than_shape": one(shape="[3]"),
    "more_than_shape": one(shape="[1]"),
    "end_before_begin": one(shape="[0]", offsets="[8,0]"),
    # The size is right modulo 2^64, and the two tile the empty data.
    "end_before_begin_wraps": whole(text({"a": tensor("U8", [8], 0, 8),
                                          "b": tensor("U8", [2**64 - 8], 8, 0)})),
}

TILING = {
    "hole_at_begin": one(shape="[1]", offsets="[4,8]"),
    "hole": whole(text({"a": tensor("U8", [3], 0, 3), "b": tensor("U8", [4], 4, 8)}), EIGHT),
    "overlap": two('"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}'),
    "same_bytes_twice": two('"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'),
    "zero_size_inside": two('"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}'),
    "zero_size_behind": two('"b":{"dtype":"F32","shape":[0],"data_offsets":[12,12]}'),
    "trailing_byte": one(data=EIGHT + b"x"),
    "trailing_byte_without_tensors": whole("{}", b"x"),
    "data_cut": one(data=EIGHT[:7]),
    "data_missing": one(data=b""),
    "offsets_beyond_end": one(dtype='"U8"', shape="[9223372036854775807]",
                              offsets="[0,9223372036854775807]"),
}

LIMITS = {
    "name_4097_bytes": whole(text({"n" * 4097: tensor("U8", [1], 0, 1)}), b"x"),
    "metadata_key_4097_bytes": metadata(text({"n" * 4097: "v"})),
}

FILES = {**LEGAL, **LENGTH, **BYTES, **TOP, **JSON, **GRAMMAR, **TWICE, **NUMBERS, **SIZES,
         **TILING, **LIMITS}


def differences(folder):
    there = set(os.listdir(folder))
    for name, content in FILES.items():
        file = name + ".safetensors"
        if file not in there:
            yield file + " is missing"
            continue
        with open(os.path.join(folder, file), "rb") as f:
            if f.read() != content:
                yield file + " has other bytes"
    for file in sorted(there - {name + ".safetensors" for name in FILES}):
        yield file + " is not made here"


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--check":
        found = list(differences(arguments[1]))
        print("\n".join(found) or f"{len(FILES)} files are as they are made")
        return bool(found)
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    os.makedirs(arguments[0], exist_ok=True)
    for name, content in FILES.items():
        with open(os.path.join(arguments[0], name + ".safetensors"), "wb") as f:
            f.write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
