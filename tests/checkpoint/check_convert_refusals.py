"""Holds tools/convert_torch.py to what it must refuse: the reason is named, and nothing is left.

    check_convert_refusals.py [--python VENV/bin/python]

Skipped as check_convert.py is.
"""
import argparse
import pickle
import sys

import converting
from converting import convert, refuse, write_model


def check_name_refusals(folder):
    """names that are missing, too many, twice, or whose shapes do not fit are refused"""
    source, out = saved(folder), folder / "out"
    model = write_model(folder / "m", torch_cases.SHAPES)
    refuse("--names FILE", source, out)
    refuse("3 names, the file has 4", source, out, "--names", names(folder, "a", "b", "c"))
    refuse("line 2 is empty", source, out, "--names", names(folder, "a", "", "c", "d"))
    refuse("'a' twice", source, out, "--names", names(folder, "a", "b", "a", "d"))
    swapped = names(folder, "stem.bias", "stem.weight", "head.weight", "head.bias")
    refuse(("'stem.bias'", "[4, 3]", "[4]"), source, out, "--names", swapped, "--model", model)
    refuse("'x' is not in the model", source, out, "--model", model, "--names",
           names(folder, "x", "stem.weight", "head.weight", "head.bias"))
    refuse("No such file", source, out, "--names", folder / "none")
    refuse("control character", source, out, "--names", names(folder, "a\t", "b", "c", "d"))
    doubt = {"a.w": (3,), "b.w": (2,), "c.w": (3,)}
    refuse(("[3] is in doubt", "[0, 2]", "'a.w', 'c.w'"), saved(folder, shapes=doubt), out,
           "--model", write_model(folder / "m", doubt))
    refuse("the model has none", saved(folder), out, "--model",
           write_model(folder / "m", {**torch_cases.SHAPES, "head.bias": (7,)}))
    refuse("--model FILE must", saved(folder, "SGD"), out, "--algorithm", "sgd", "--names",
           names(folder, *torch_cases.SHAPES))


def check_class_refusals(folder):
    """a class that does not fit the file is refused, naming what does not"""
    out, by_name = folder / "out", ["--names", names(folder, *torch_cases.SHAPES)]

    def without(*keys):
        return lambda state_dict: [group.pop(key, None) for group in state_dict["param_groups"]
                                   for key in keys] and None

    def slot(name, value):
        return lambda state_dict: state_dict["state"][1].update({name: value})

    refuse("fits no class", saved(folder, "Adafactor"), out, *by_name)
    refuse("known are sgd", saved(folder, "Adafactor"), out, *by_name, "--algorithm", "adafactor")
    refuse("SGD has 'momentum'", saved(folder), out, *by_name, "--algorithm", "sgd")
    refuse("not what Adam writes", saved(folder), out, *by_name, "--algorithm", "adam")
    refuse(("--algorithm must", "adam, adamw"),
           saved(folder, edit=without("decoupled_weight_decay")), out, *by_name)
    refuse("no slot 'exp_inf', which Adamax has", saved(folder, "Adamax",
           edit=slot("exp_inf", None)), out, *by_name, "--algorithm", "adamax")
    refuse("no slot 'extra'", saved(folder, edit=slot("extra", torch.zeros(4))), out, *by_name,
           "--algorithm", "adamw")
    refuse("amsgrad of its group is 0", saved(folder, edit=slot("max_exp_avg_sq", torch.zeros(4))),
           out, *by_name, "--algorithm", "adamw")
    refuse("exp_avg_sq has shape [5]", saved(folder, edit=slot("exp_avg_sq", torch.zeros(5))), out,
           *by_name, "--algorithm", "adamw")
    refuse("expected a count", saved(folder, edit=slot("step", torch.tensor(1.5))), out, *by_name,
           "--algorithm", "adamw")
    refuse("expected a count", saved(folder, edit=slot("step", -1)), out, *by_name,
           "--algorithm", "adamw")
    refuse("no 'step'", saved(folder, edit=lambda sd: sd["state"][1].pop("step") and None), out,
           *by_name, "--algorithm", "adamw")
    refuse("expected a tensor", saved(folder, edit=slot("exp_avg", [1.0])), out, *by_name,
           "--algorithm", "adamw")
    own = saved(folder, edit=lambda sd: sd["param_groups"][0].update(lr_mult=2))
    refuse(("has no 'lr_mult'", "--ignore lr_mult"), own, out, *by_name, "--algorithm", "adamw")
    convert(own, folder / "ignored", *by_name, "--algorithm", "adamw", "--ignore", "lr_mult")


class Evil:
    """Pickled, a call of open(...), which makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def check_evil(folder):
    """a pickle that calls a function is refused, and the function is not called"""
    trap, out = folder / "trap", folder / "out"
    torch.save({"state": {}, "param_groups": Evil(trap)}, folder / "zip.pt")
    torch.save({"state": Evil(trap)}, folder / "old.pt", _use_new_zipfile_serialization=False)
    (folder / "raw.pt").write_bytes(pickle.dumps(Evil(trap), 2))
    for name in ("zip.pt", "old.pt", "raw.pt"):
        refuse("running code", folder / name, out)
        assert not trap.exists(), f"{name} was run"
    torch.load(folder / "zip.pt", weights_only=False)
    assert trap.exists(), "the trap does not work, so nothing was tried"


def check_foreign(folder):
    """what is no state of an optimizer is refused by its name"""
    out = folder / "out"
    optimizer = torch_cases.make("SGD", torch_cases.Model(torch_cases.SHAPES), {"lr": 1})
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    for content, text in ((scheduler.state_dict(), "scheduler"),
                          (torch.amp.GradScaler("cpu").state_dict(), "GradScaler"),
                          (torch_cases.Model(torch_cases.SHAPES).state_dict(), "'stem.weight'"),
                          ([1], "list"), ({"state": 1, "param_groups": []}, "no dict"),
                          ({"state": {}, "param_groups": [{}]}, "no dict with a list"),
                          ({"optimizer_states": [1, 2]}, "2 optimizers"),
                          ({"param_groups.a.lr": 1}, "flattened")):
        torch.save(content, folder / "in.pt")
        refuse(text, folder / "in.pt", out)
    (folder / "in.pt").write_bytes(b"no file of PyTorch at all")
    refuse("in.pt", folder / "in.pt", out)
    (folder / "in.pt").write_bytes(b"PK\3\4 cut off")
    refuse("in.pt", folder / "in.pt", out)
    refuse("No such file", folder / "none.pt", out)


def check_ours_refusals(folder):
    """a checkpoint that is damaged, unknown or has no counterpart in PyTorch is refused"""
    from convert import safetensors_file
    ours, out = folder / "b", folder / "c.pt"
    convert(saved(folder, named=True), ours)
    whole = ours.read_bytes()
    header = safetensors_file.read_header(ours)
    for name, tensor in header.tensors.items():
        damaged = bytearray(whole)
        damaged[header.data_begin + tensor.begin] ^= 4
        ours.write_bytes(damaged)
        refuse("CRC-32C" if name != "talus.digest" else "digest says", ours, out)
    for old, new, text in ((b'talus.version":"1', b'talus.version":"2', "talus.version"),
                           (b'"format":"pt"', b'"format":"pT"', "CRC-32C"),
                           (b'"state.head.bias.exp_avg"', b'"state.head.bias.exp_axg"', "CRC-32C")):
        assert whole.count(old) == 1, old
        ours.write_bytes(whole.replace(old, new))
        refuse(text, ours, out)
    plain = write_model(folder / "m", torch_cases.SHAPES)
    refuse("no checkpoint of talus", plain, out)
    ours.write_bytes(whole)
    refuse("FusedNovoGrad is novograd", ours, out, "--algorithm", "fused_novograd")
    refuse("is PyTorch's already", folder / "in.pt", out, "--to", "flat")
    refuse("not the names", ours, out, "--names", names(folder, "a", "b"))


def check_unsaid(folder):
    """without a digest, features, slots and hyperparameters are still compared"""
    ours, out = folder / "b", folder / "c.pt"
    convert(saved(folder, named=True), ours, "--no-digest")
    whole = ours.read_bytes()
    for old, new, text in ((b'"talus.requires":"","talus.settings":"{}"',
                            b'"talus.requires":"master, q8"', "requires 'q8'"),
                           (b'"state.head.bias.exp_avg"', b'"state.head.bias.exp_axg"',
                            "no tensor 'state.head.bias.exp_avg'"),
                           (b'eps', b'epX', "no hyperparameter 'epX'"),
                           (b'cautious\\":0', b'cautious\\":1', "cautious is 1"),
                           (b'\\"adamw', b'\\"adomw', "'adomw'"),
                           (b'[4,3],\\"group', b'[3,4],\\"group', "is F32 [4, 3], expected")):
        assert whole.count(old) == 1 and len(old) >= len(new), (old, whole.count(old))
        ours.write_bytes(whole.replace(old, new.ljust(len(old))))
        refuse(text, ours, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="a Python that has PyTorch")
    arguments = parser.parse_args()
    global torch, torch_cases, names, saved
    torch = converting.need_torch(arguments.python)
    import torch_cases
    from torch_cases import names, saved
    return converting.run_checks(converting.checks_of(globals()))


if __name__ == "__main__":
    sys.exit(main())
