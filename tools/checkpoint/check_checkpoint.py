"""Runs `talus inspect` and `talus diff` on checkpoints of train_digits and on files of other
writers, and compares what they say with a reading of the files of its own.

    check_checkpoint.py TALUS TRAIN_DIGITS
"""
import copy
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

talus = train_digits = ""
FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "U64": "Q", "I32": "i", "U32": "I",
           "I16": "h", "U16": "H", "I8": "b", "U8": "B", "BOOL": "B"}
SIZES = {**{dtype: struct.calcsize("<" + f) for dtype, f in FORMATS.items()}, "BF16": 2,
         "F8_E4M3": 1, "F8_E5M2": 1}


def read(path):
    """Key -> (dtype, shape, offset in the file, bytes), and the metadata."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for key, tensor in header.items():
        begin, end = (start + offset for offset in tensor["data_offsets"])
        tensors[key] = tensor["dtype"], tensor["shape"], begin, data[begin:end]
    return tensors, metadata


def values(dtype, raw):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    if dtype == "F8_E5M2":
        return [struct.unpack("<e", bytes([0, byte]))[0] for byte in raw]
    if dtype == "F8_E4M3":
        return [e4m3(byte) for byte in raw]
    return list(struct.unpack(f"<{len(raw) // SIZES[dtype]}{FORMATS[dtype]}", raw))


def e4m3(byte):
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if byte & 127 == 127:
        return math.nan
    size = (1 + mantissa / 8) * 2.0 ** (exponent - 7) if exponent else mantissa / 8 * 2.0 ** -6
    return -size if byte & 128 else size


def write(path, tensors, metadata=None):
    """tensors: key -> (dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for key, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def place(dtype, raw):
    """Of a floating-point number among all of its dtype."""
    bits = int.from_bytes(raw, "little")
    sign = 1 << (8 * SIZES[dtype] - 1)
    return -(bits - sign) if bits & sign else bits


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_talus(self, *args, code=0, columns=None):
        environment = {**os.environ, **({"COLUMNS": str(columns)} if columns else {})}
        done = subprocess.run([talus, *args], capture_output=True, check=False, env=environment,
                              stdin=subprocess.DEVNULL)
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{args}\n{out}{err}")
        if code == 0:
            self.assertEqual(err, "", args)
        return (out, err)

    def json_of(self, *args, code=0):
        return json.loads(self.run_talus(*args, "--json", code=code)[0])

    def train(self, name, *args):
        path = self.path(name)
        subprocess.run([train_digits, "--epochs", "2", "--save", path, *args], check=True,
                       stdout=subprocess.DEVNULL)
        return path

    def assert_fits(self, text, width):
        for line in text.splitlines():
            self.assertLessEqual(len(line), width, line)


SCHEDULES = {
    "objects": [
        {"kind": "linear", "parameters": {"start_factor": 0.1}},
        {"kind": "multistep", "parameters": {"gamma": 0.5}, "milestones": ["3", "9"]},
        {"kind": "chained", "parameters": {}, "pieces": [0, 1]},
        {"kind": "plateau", "parameters": {"patience": 3},
         "plateau": {"best": "inf", "bad": "1", "cooling": "0"}},
        {"kind": "multiplicative", "parameters": {}, "function": "unbound",
         "product": {"t": "4", "value": 0.25}}],
    "attachments": [
        {"group": 0, "hyper": "lr", "clock": "manual", "object": 2},
        {"group": 1, "hyper": "lr", "clock": "applied", "object": 3, "value": 0.05}],
    "later": [{"hyper": "beta1", "clock": "called", "object": 4}]}
SCHEDULE_TEXTS = {
    "group 0 lr": "chained (linear start_factor=0.1) (multistep gamma=0.5 milestones=3,9), "
                  "clock manual",
    "group 1 lr": "plateau patience=3 best=inf bad=1 cooling=0, clock applied, value 0.05",
    "groups added later beta1": "multiplicative product=0.25 at t=4, clock called"}


def with_schedules(path, schedules):
    """Puts them into a checkpoint, whose digests go."""
    tensors, metadata = read(path)
    del tensors["talus.digest"]
    metadata = {**metadata, "talus.requires": "schedules", "talus.schedules": json.dumps(schedules)}
    write(path, {key: (dtype, shape, raw) for key, (dtype, shape, _, raw) in tensors.items()},
          metadata)
    return path


class Inspect(Case):
    def assert_statistics(self, shown, tensors):
        """Against numbers computed here, from the bytes."""
        self.assertEqual([t["key"] for t in shown], sorted(tensors, key=str.encode))
        for tensor in shown:
            dtype, shape, _, raw = tensors[tensor["key"]]
            numbers = values(dtype, raw)
            finite = [x for x in numbers if math.isfinite(x)]
            what = tensor["key"]
            self.assertEqual((tensor["dtype"], tensor["shape"]), (dtype, shape), what)
            self.assertEqual((tensor["elements"], tensor["nonfinite"]),
                             (len(numbers), len(numbers) - len(finite)), what)
            expected = (min(finite), max(finite)) if finite else (None, None)
            self.assertEqual((tensor["min"], tensor["max"]), expected, what)
            if finite:
                norm = math.hypot(*finite)
                self.assertLessEqual(abs(tensor["norm"] - norm), 1e-12 * norm, what)
            else:
                self.assertIsNone(tensor["norm"], what)

    def test_checkpoints_are_told_as_they_are(self):
        for args in [], ["--dtype", "bf16"], ["--optimizer", "novograd", "--dtype", "f16"]:
            with self.subTest(args=args):
                path = self.train("a.safetensors", *args)
                tensors, metadata = read(path)
                del tensors["talus.digest"]
                shown = self.json_of("inspect", path)
                self.assert_statistics(shown["tensors"], tensors)
                self.assertEqual({t["digest"] for t in shown["tensors"]}, {"verified"})
                self.assertEqual((shown["digests"], shown["damaged"]), ("verified", []))
                self.assertEqual((shown["file"], shown["bytes"]), (path, os.path.getsize(path)))
                self.assertEqual((shown["format_version"], shown["writer"]),
                                 (int(metadata["talus.version"]), metadata["talus.writer"]))
                self.assertEqual(shown["requires"], ["master"] if "--dtype" in args else [])
                self.assertEqual({key: str(n) for key, n in shown["counts"].items()},
                                 json.loads(metadata["talus.counts"]))
                self.assertEqual([{"algorithm": g["algorithm"], "mode": g["mode"],
                                   "hyper": g["hyperparameters"]} for g in shown["groups"]],
                                 json.loads(metadata["talus.groups"]))
                self.assertEqual(shown["parameters"], json.loads(metadata["talus.params"]))
                self.assertEqual(shown["notes"], {key[len("user."):]: text for key, text in
                                                  metadata.items() if key.startswith("user.")})
                slots = {t["key"]: t["slot"] for t in shown["tensors"]}
                self.assertIsNone(slots["hidden.bias"])
                self.assertEqual(slots["state.hidden.bias.step"], "step")
                self.assertEqual(slots["state.hidden.bias.exp_avg"], "exp_avg")

    def test_schedules_are_told(self):
        path = with_schedules(self.train("a.safetensors"), SCHEDULES)
        self.assertEqual(self.json_of("inspect", path)["schedules"],
                         [{"of": of, "schedule": text} for of, text in SCHEDULE_TEXTS.items()])
        text, _ = self.run_talus("inspect", path, columns=100)
        for of, schedule in SCHEDULE_TEXTS.items():
            self.assertIn(f"{of}: {schedule}"[:80], " ".join(text.split()))

    def test_the_text_names_all_and_fits_its_terminal(self):
        path = self.train("a.safetensors", "--set", "beta1=0.8")
        keys = [key for key in read(path)[0] if key != "talus.digest"]
        text, _ = self.run_talus("inspect", path, columns=100)
        for part in (*keys, "verified", "note digits.order", "38 applied",
                     "adamw: lr 0.005, beta1 0.8\n", "adamw: lr 0.005, beta1 0.8, weight_decay 0\n", "written by talus "):
            self.assertIn(part, text)
        self.assertNotIn("talus.digest", text)
        self.assertNotIn(" eps ", text)
        for width in 40, 60, 80, 100:
            text, _ = self.run_talus("inspect", path, columns=width)
            self.assert_fits(text.split("\n", 1)[1], width)
            self.assertIn("hidden.bias", text)

    def test_files_of_other_writers_and_every_dtype(self):
        tensors = {
            "f64": ("F64", [2, 2], struct.pack("<4d", 1e300, -1e300, 5e-324, 2)),
            "f32": ("F32", [4], struct.pack("<4f", math.inf, math.nan, -3.5, 2)),
            "f16": ("F16", [3], struct.pack("<3e", -65504, 6e-8, -math.inf)),
            "bf16": ("BF16", [2], bytes([0x80, 0x3f, 0xc0, 0x7f])),
            "none": ("F32", [1], struct.pack("<f", math.nan)),
            "empty": ("F32", [3, 0], b""),
            "i64": ("I64", [2], struct.pack("<2q", -2**63, 2**63 - 1)),
            "u64": ("U64", [], struct.pack("<Q", 2**64 - 1)),
            "i32": ("I32", [1], struct.pack("<i", -7)), "u32": ("U32", [1], b"\xff" * 4),
            "i16": ("I16", [1], b"\0\x80"), "u16": ("U16", [1], b"\0\x80"),
            "i8": ("I8", [2], b"\x80\x7f"), "u8": ("U8", [2], b"\x80\x7f"),
            "bool": ("BOOL", [2], b"\0\1"), "e4m3": ("F8_E4M3", [256], bytes(range(256))),
            "e5m2": ("F8_E5M2", [256], bytes(range(256))),
            "gr\u00f6\u00dfe": ("U8", [1], b"\1"), "bell\x07\x1b[31m": ("U8", [1], b"\1"),
        }
        path = self.path("foreign.safetensors")
        write(path, tensors, {"format": "pt", "who": "another"})
        shown = self.json_of("inspect", path)
        self.assert_statistics(shown["tensors"], read(path)[0])
        self.assertEqual([shown[key] for key in ("format_version", "writer", "groups")],
                         [None, None, []])
        self.assertEqual(shown["notes"], {"format": "pt", "who": "another"})
        self.assertEqual((shown["digests"], {t["digest"] for t in shown["tensors"]}),
                         ("none", {"none"}))
        text, _ = self.run_talus("inspect", path)
        for part in "not written by talus", "gr\u00f6\u00dfe", "bell??[31m", "another":
            self.assertIn(part, text)

    def test_many_tensors_are_summed(self):
        path = self.path("many.safetensors")
        write(path, {f"block.{i}.weight": ("F32", [2], struct.pack("<2f", i, -i))
                     for i in range(41)})
        text, _ = self.run_talus("inspect", path)
        row = next(line for line in text.splitlines() if line.startswith("(all)"))
        norm = math.hypot(*(x for i in range(41) for x in (i, i)))
        self.assertEqual(row.split(), ["(all)", "F32", "41", "82", "-40", "40", f"{norm:.4g}", "0"])
        self.assertIn("41 tensors; --all shows each", text)
        self.assertNotIn("block.7.weight", text)
        text, _ = self.run_talus("inspect", path, "--all")
        self.assertIn("block.7.weight", text)

    def test_more_than_a_piece_is_read_whole(self):
        count = 700_000
        raw = struct.pack(f"<{count}f", *(i % 1000 for i in range(count)))
        write(self.path("large.safetensors"), {"w": ("F32", [count], raw)})
        shown = self.json_of("inspect", self.path("large.safetensors"))
        self.assert_statistics(shown["tensors"], read(self.path("large.safetensors"))[0])

    def test_a_bit_that_has_changed_is_named(self):
        path = self.train("a.safetensors")
        tensors, _ = read(path)
        key = "state.output.weight.exp_avg"
        with open(path, "r+b") as file:
            file.seek(tensors[key][2] + 5)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))
        out, err = self.run_talus("inspect", path, code=1)
        self.assertIn(f"DAMAGED: {key}\n", out)
        self.assertIn(f'tensor "{key}" is damaged', err)
        self.assertEqual(len(err.splitlines()), 1, err)
        shown = self.json_of("inspect", path, code=1)
        self.assertEqual(shown["damaged"], [key])
        self.assertEqual([t["key"] for t in shown["tensors"] if t["digest"] != "verified"], [key])

    def test_what_cannot_be_read_is_refused_with_its_name(self):
        path = self.train("a.safetensors")
        with open(path, "rb") as file:
            good = file.read()
        header = bytearray(good)
        header[good.index(b'"applied') + 13] ^= 1
        for bad in good[:-1], good[:100], b"", bytes(header), b"\xff" * 100:
            with open(path, "wb") as file:
                file.write(bad)
            out, err = self.run_talus("inspect", path, code=1)
            self.assertEqual(out, "")
            for part in "TALUS_E_FORMAT", path:
                self.assertIn(part, err)
        _, err = self.run_talus("inspect", self.path("nosuch.safetensors"), code=1)
        self.assertIn("nosuch.safetensors", err)
        for args in ([], ["--nonsense", path], [path, path]):
            self.run_talus("inspect", *args, code=2)


class Diff(Case):
    def test_a_checkpoint_equals_itself_and_one_without_digests_is_read(self):
        a, b = self.train("a.safetensors"), self.train("b.safetensors")
        out, _ = self.run_talus("diff", a, b)
        self.assertEqual(out, "the same: 16 tensors (16 by their digests)\n")
        out, _ = self.run_talus("diff", a, b, "--thorough")
        self.assertEqual(out, "the same: 16 tensors\n")
        told = self.json_of("diff", a, b)
        self.assertTrue(told["same"])
        self.assertEqual((told["tensors"], told["statements"], told["tensors_same"]), ([], [], 16))

    def test_values_that_differ_are_counted_and_measured(self):
        for dtype in "f32", "bf16", "f16":
            with self.subTest(dtype=dtype):
                a = self.train("a.safetensors", "--dtype", dtype)
                b = self.train("b.safetensors", "--dtype", dtype, "--set", "lr=0.0101")
                told = self.json_of("diff", a, b, code=1)
                self.assertFalse(told["same"])
                mine, theirs = read(a)[0], read(b)[0]
                self.assertEqual({t["key"] for t in told["tensors"]},
                                 {key for key in mine if mine[key][3] != theirs[key][3]} -
                                 {"talus.digest"})
                for tensor in told["tensors"]:
                    self.assert_distance(tensor, mine[tensor["key"]], theirs[tensor["key"]])

    def assert_distance(self, told, mine, theirs):
        dtype, size = mine[0], SIZES[mine[0]]
        x, y = values(dtype, mine[3]), values(dtype, theirs[3])
        raw = [[each[3][i:i + size] for i in range(0, len(each[3]), size)]
               for each in (mine, theirs)]
        other = [i for i in range(len(x)) if raw[0][i] != raw[1][i]]
        ulp = max(abs(place(dtype, raw[0][i]) - place(dtype, raw[1][i])) for i in other)
        what = told["key"]
        self.assertEqual((told["different"], told["elements"], told["first"], told["not_a_number"]),
                         (len(other), len(x), other[0], 0), what)
        self.assertEqual(told["largest_distance"], max(abs(x[i] - y[i]) for i in other), what)
        self.assertEqual(told["largest_ulp"], ulp, what)
        shape = told["shape"]
        at = [other[0] // math.prod(shape[i + 1:]) % shape[i] for i in range(len(shape))]
        self.assertEqual(told["first_at"], at, what)

    def test_what_is_not_in_tensors_is_compared(self):
        a = self.train("a.safetensors")
        b = self.train("b.safetensors", "--stop-after", "20", "--optimizer", "adam")
        told = self.json_of("diff", a, b, code=1)
        stated = {s["what"]: (s["a"], s["b"]) for s in told["statements"]}
        self.assertEqual(stated["steps applied"], ("38", "20"))
        self.assertEqual(stated["group 0 algorithm"], ("adamw", "adam"))
        self.assertEqual(stated["note digits.epoch"], ("2", "1"))
        self.assertEqual(stated["group 0 weight_decay"], ("0.01", "0"))
        self.assertNotIn("group 1 lr", stated)
        self.assertNotIn("parameter hidden.bias", stated)
        text, _ = self.run_talus("diff", a, b, code=1)
        for part in ("steps applied", "group 0 algorithm", "adamw", "note digits.image", a, b,
                     "...zer adamw --dtype", "...zer adam --dtype"):
            self.assertIn(part, text)

    def test_schedules_are_compared(self):
        other = copy.deepcopy(SCHEDULES)
        other["objects"][0]["parameters"]["start_factor"] = 0.2
        del other["attachments"][1]
        a = with_schedules(self.train("a.safetensors"), SCHEDULES)
        b = with_schedules(self.train("b.safetensors"), other)
        told = self.json_of("diff", a, b, code=1)
        stated = {s["what"]: (s["a"], s["b"]) for s in told["statements"]}
        lr = SCHEDULE_TEXTS["group 0 lr"]
        self.assertEqual(stated["schedule of group 0 lr"], (lr, lr.replace("0.1", "0.2")))
        self.assertEqual(stated["schedule of group 1 lr"][1] or None, None)
        self.assertNotIn("schedule of groups added later beta1", stated)

    def test_tensors_of_one_alone_and_of_another_form(self):
        a, b = self.path("a.safetensors"), self.path("b.safetensors")
        four = struct.pack("<4f", 1, 2, 3, 4)
        write(a, {key: ("F32", [4], four) for key in ("same", "mine", "shape", "dtype")},
              {"who": "a"})
        write(b, {"dtype": ("I32", [4], four), "same": ("F32", [4], four),
                  "shape": ("F32", [2, 2], four), "theirs": ("F32", [4], four)}, {"more": "x"})
        told = self.json_of("diff", a, b, code=1)
        self.assertEqual((told["only_in_a"], told["only_in_b"]), (["mine"], ["theirs"]))
        self.assertEqual(told["tensors"],
                         [{"key": "dtype", "dtype": ["F32", "I32"], "shape": [[4], [4]]},
                          {"key": "shape", "dtype": ["F32", "F32"], "shape": [[4], [2, 2]]}])
        self.assertEqual({s["what"]: (s["a"], s["b"]) for s in told["statements"]},
                         {"note who": ("a", None), "note more": (None, "x")})
        self.assertEqual((told["tensors_same"], told["tensors_same_by_digest"]), (1, 0))
        text, _ = self.run_talus("diff", a, b, code=1)
        for part in "only in A: 1 tensors\n  mine\n", "only in B: 1 tensors\n  theirs\n", "[2, 2]":
            self.assertIn(part, text)

    def test_values_at_edges(self):
        def told(dtype, form, x, y):
            for name, number in ("a", x), ("b", y):
                raw = number if isinstance(number, bytes) else struct.pack("<" + form, number)
                write(self.path(name), {"w": (dtype, [1], raw)})
            os.replace(self.path("a"), self.path("a.safetensors"))
            os.replace(self.path("b"), self.path("b.safetensors"))
            tensor = self.json_of("diff", self.path("a.safetensors"), self.path("b.safetensors"),
                                  code=1)["tensors"][0]
            return tensor["largest_distance"], tensor["largest_ulp"], tensor["not_a_number"]
        self.assertEqual(told("F32", "f", 0.0, -0.0), (0, 0, 0))
        self.assertEqual(told("F32", "f", 1.4e-45, -1.4e-45), (2 * 2.0 ** -149, 2, 0))
        self.assertEqual(told("F32", "f", math.inf, 3.4028234663852886e38), ("inf", 1, 0))
        self.assertEqual(told("F32", "f", math.nan, 1.0), (None, None, 1))
        self.assertEqual(told("F32", "f", b"\0\0\xc0\x7f", b"\1\0\xc0\x7f"), (None, None, 1))
        self.assertEqual(told("F64", "d", math.inf, -math.inf), ("inf", 2 * 0x7ff << 52, 0))
        self.assertEqual(told("I64", "q", -2**63, 2**63 - 1)[1:], (None, 0))
        self.assertEqual(told("U8", "B", 255, 0), (255, None, 0))

    def test_trouble_is_2(self):
        a, b = self.train("a.safetensors"), self.train("b.safetensors")
        offset = read(a)[0]["hidden.weight"][2]
        with open(b, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1]))
        out, err = self.run_talus("diff", a, b, "--thorough", code=2)
        self.assertEqual(out, "")
        self.assertIn('b.safetensors: tensor "hidden.weight" is damaged', err)
        for args in ([a], [a, b, a], [a, b, "--nonsense"], [a, self.path("nosuch.safetensors")]):
            out, err = self.run_talus("diff", *args, code=2)
            self.assertEqual(out, "")
            self.assertNotEqual(err, "")

    def test_the_text_fits_its_terminal(self):
        a, b = self.train("a.safetensors"), self.train("b.safetensors", "--seed", "2")
        for width in 40, 60, 80, 100:
            text, _ = self.run_talus("diff", a, b, code=1, columns=width)
            self.assert_fits(text, width)
            self.assertIn("hidden.bias", text)


class Several(Case):
    def test_a_shard_alone_is_shown_as_what_it_holds(self):
        index = self.train("s.safetensors.index.json")
        folder = os.path.dirname(index)
        shards = [name for name in os.listdir(folder) if name.startswith("s-")]
        shown = self.json_of("inspect", os.path.join(folder, shards[0]))
        self.assertEqual((shown["groups"], shown["digests"]), ([], "verified"))

    def test_an_index_with_its_files_is_read_as_one_file(self):
        one = self.train("a.safetensors")
        index = self.train("b.safetensors.index.json")
        shown, whole = self.json_of("inspect", index), self.json_of("inspect", one)
        self.assertEqual(shown["tensors"], whole["tensors"])
        for key in "groups", "counts", "notes", "parameters", "digests":
            self.assertEqual(shown[key], whole[key], key)
        told = self.json_of("diff", one, index)
        self.assertEqual((told["same"], told["tensors_same"]), (True, 16))
        shard = next(name for name in os.listdir(self.folder) if name.startswith("b-"))
        os.remove(self.path(shard))
        _, err = self.run_talus("inspect", index, code=1)
        self.assertIn(shard, err)


class Help(Case):
    def test_help_has_an_example_and_exit_codes(self):
        for name in "inspect", "diff":
            text, _ = self.run_talus(name, "--help")
            for part in f"Example: talus {name} ", "Exit codes: 0", "--json":
                self.assertIn(part, text)
            self.assertIn(f"  {name} ", self.run_talus("--help")[0])


if __name__ == "__main__":
    talus, train_digits = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
