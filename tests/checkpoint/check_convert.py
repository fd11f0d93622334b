"""Holds tools/convert_torch.py to PyTorch: what it converts goes on bit for bit.

    check_convert.py [--python VENV/bin/python]
    check_convert.py --file X.safetensors [--algorithm adamw]   # two readers agree on a checkpoint

Skipped aloud (77) where neither this Python, nor that of the argument or of TALUS_TORCH_PYTHON, has
PyTorch.
"""
import argparse
import sys

import converting
from converting import convert, refuse, write_model
import read_safetensors

FIXED = {"momentum", "amsgrad", "centered"}


def run_case(folder, name, options, to, *, named=True, left_out=(), extra=()):
    """Three steps, out and back, one more; beside the same training without a pause."""
    model = torch_cases.Model(torch_cases.shapes_of(name))
    optimizer = torch_cases.make(name, model, {"lr": torch_cases.LR, **options}, named)
    torch_cases.train(model, optimizer, range(1, 4), left_out)
    other, cold = torch_cases.copy_of(model), torch_cases.copy_of(model)
    torch.save(optimizer.state_dict(), folder / "a.pt")
    ours, back = folder / "b.safetensors", folder / "c.pt"
    if left_out or (name == "SGD" and not options):
        extra = [*extra, *model_of(folder, name)]  # no state tells the shape
    convert(folder / "a.pt", ours, "--algorithm", name, *extra)
    convert(ours, back, *(["--to", "flat"] if to == "flat" else []))
    # From a flat file PyTorch takes only the slots that an optimizer has already.
    fixed = {key: options[key] for key in FIXED & options.keys()} if to == "flat" else {}
    fresh = torch_cases.make(name, other, {"lr": .5, **fixed}, named)
    state_dict = torch.load(back, weights_only=True)
    if to == "flat":
        if name == "SparseAdam":  # PyTorch would first step with dense zeros
            torch_cases.train(torch_cases.copy_of(model), fresh, [])
            torch_cases.set_gradients(other, 0, sparse=True)
            fresh.step()
            other.load_state_dict(model.state_dict())
        load_flat(other, fresh, state_dict)
    else:
        fresh.load_state_dict(state_dict)
    torch_cases.train(model, optimizer, [4])
    torch_cases.train(other, fresh, [4])
    torch_cases.train(cold, torch_cases.make(name, cold, {"lr": .5}, named), [4])
    wrong = torch_cases.differences(model, other)
    assert not wrong, f"{torch_cases.title(name, options)} {to}: {wrong[:4]}"
    assert torch_cases.differences(model, cold), f"{name}: a cold start gives the same"
    return optimizer.state_dict(), fresh.state_dict()


def load_flat(model, optimizer, flat):
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions, set_optimizer_state_dict)
    set_optimizer_state_dict(model, optimizer, flat,
                             options=StateDictOptions(flatten_optimizer_state_dict=True))


def check_full(folder):
    """every optimizer of torch goes out and back and takes the next step bit for bit"""
    for name, options in torch_cases.CASES:
        was, now = run_case(folder, name, options, "torch")
        assert was["param_groups"] == now["param_groups"], (was, now)
        assert was["state"].keys() == now["state"].keys()
        for key, slots in was["state"].items():
            wrong = [slot for slot, value in slots.items() if value is not None and not torch.equal(
                torch.as_tensor(value), torch.as_tensor(now["state"][key][slot]))]
            assert not wrong, f"{torch_cases.title(name, options)} {key}: {wrong}"


def check_flat(folder):
    """the flat form loads by name through torch.distributed.checkpoint and goes on the same"""
    for name, options in torch_cases.CASES:
        run_case(folder, name, options, "flat")
        run_case(folder, name, options, "flat", named=False, extra=names_of(folder, name))


def check_without_gradient(folder):
    """a parameter that had no gradient yet begins as in the uninterrupted training"""
    for name, options in torch_cases.CASES:
        left_out = ["stem.weight"]
        run_case(folder, name, options, "torch", left_out=left_out)
        if not options.get("dampening"):
            run_case(folder, name, options, "flat", left_out=left_out)
    try:
        run_case(folder, "SGD", dict(momentum=.9, dampening=.25), "flat", left_out=left_out)
    except AssertionError as error:
        assert "would change its first one" in str(error), error
        return
    raise AssertionError("a flat file that would be dampened wrongly was written")


def names_of(folder, name):
    path = folder / "names.txt"
    path.write_text("".join(key + "\n" for key in torch_cases.shapes_of(name)))
    return ["--names", path]


def model_of(folder, name):
    return ["--model", write_model(folder / "model.safetensors", torch_cases.shapes_of(name))]


def check_names(folder):
    """names come from the file, --names or shapes, and each way gives the same checkpoint"""
    out = folder / "out.safetensors"
    convert(saved(folder, named=True), out)
    from_file = out.read_bytes()
    numbered = saved(folder)
    convert(numbered, out, "--names", names(folder, *torch_cases.SHAPES))
    assert out.read_bytes() == from_file
    convert(numbered, out, "--model", write_model(folder / "m", torch_cases.SHAPES))
    assert out.read_bytes() == from_file
    said = convert(saved(folder, shapes={"a.w": (3,), "b.w": (2,), "c.w": (3,)}), out,
                   "--names", names(folder, "x.0", "y", "x.1"))
    assert "'x.0', 'x.1'" in said and "on trust" in said, said
    assert "state.x.1.exp_avg" in keys(out)


def check_strings(folder):
    """a state_dict that is keyed by name already needs none"""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
    model = torch_cases.Model(torch_cases.SHAPES)
    optimizer = torch_cases.make("AdamW", model, {}, named=False)
    torch_cases.train(model, optimizer, [1])
    torch.save(get_optimizer_state_dict(model, optimizer), folder / "in.pt")
    convert(folder / "in.pt", folder / "out")
    assert {f"state.{name}.exp_avg" for name in torch_cases.SHAPES} < keys(folder / "out")


def check_wrapped(folder):
    """an optimizer inside a dict of a trainer is found, and its key is told"""
    source = saved(folder, named=True, edit=lambda sd: {"model": {}, "epoch": 3, "optimizer": sd})
    said = convert(source, folder / "out")
    assert "under the key 'optimizer'" in said, said


def check_base(folder):
    """a scheduled lr is left behind: the base is initial_lr"""
    model = torch_cases.Model(torch_cases.SHAPES)
    optimizer = torch_cases.make("AdamW", model, {"lr": .5})
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1, total_steps=9)
    torch_cases.train(model, optimizer, [1])
    scheduler.step()
    torch.save(optimizer.state_dict(), folder / "in.pt")
    said = convert(folder / "in.pt", folder / "out")
    base = optimizer.param_groups[0]["initial_lr"]
    assert optimizer.param_groups[0]["lr"] != base
    assert f"initial_lr {base}" in said and "max_momentum" in said, said
    assert f'"lr":{base}' in read_safetensors.read(folder / "out")[1]["talus.groups"]


def check_groups(folder):
    """groups keep their values and members, and go on bit for bit"""
    model = torch_cases.Model(torch_cases.SHAPES)
    params = dict(model.named_parameters())

    def make(of, lr):
        params = dict(of.named_parameters())
        return torch.optim.AdamW([
            {"params": [params[key] for key in ("head.bias", "stem.weight")], "weight_decay": .3},
            {"params": [params[key] for key in ("stem.bias", "head.weight")], "betas": (.5, .6)}],
            lr=lr)
    optimizer = make(model, .02)
    torch_cases.train(model, optimizer, [1, 2])
    torch.save(optimizer.state_dict(), folder / "a.pt")
    order = names(folder, "head.bias", "stem.weight", "stem.bias", "head.weight")
    convert(folder / "a.pt", folder / "b", "--names", order)
    convert(folder / "b", folder / "c.pt")
    other = torch_cases.copy_of(model)
    fresh = make(other, .5)
    fresh.load_state_dict(torch.load(folder / "c.pt", weights_only=True))
    torch_cases.train(model, optimizer, [3])
    torch_cases.train(other, fresh, [3])
    assert not torch_cases.differences(model, other), torch_cases.differences(model, other)
    assert len(params) == 4


def check_narrow(folder):
    """16-bit state is widened exactly, and both ways say what a 16-bit parameter loses"""
    source = saved(folder, named=True, dtype=torch.bfloat16)
    said = convert(source, folder / "b")
    assert "widened to f32" in said, said
    tensors, metadata = read_safetensors.read(folder / "b")
    assert tensors["state.stem.weight.exp_avg"][0] == "F32" and '"BF16"' in metadata["talus.params"]
    assert "rounded to 16 bits" in convert(folder / "b", folder / "c.pt")
    was, now = (torch.load(path, weights_only=True)["state"] for path in (source, folder / "c.pt"))
    assert all(torch.equal(was[key]["exp_avg"].float(), now[key]["exp_avg"]) for key in was)


def apex_group(**more):
    return dict(lr=.1, bias_correction=True, betas=(.9, .99), eps=1e-6, weight_decay=.01, **more)


def check_apex(folder):
    """states of apex, as its classes write them, come through out and back"""
    m, v = torch.tensor([1., 2.]), torch.tensor([3., 4.])
    by_name = ["--names", names(folder, "w", "b")]
    moments = {0: {"exp_avg": m, "exp_avg_sq": v}, 1: {"exp_avg": m + 1, "exp_avg_sq": v + 1}}
    lamb = dict(grad_averaging=True, max_grad_norm=1.0, step=7)
    cases = {
        "FusedAdam": (moments, apex_group(step=7)),
        "FusedLAMB": (moments, apex_group(**lamb)),
        "FusedMixedPrecisionLamb": (moments, apex_group(**lamb)),
        "FusedNovoGrad": ({0: {"exp_avg": m}, 1: {"exp_avg": m + 1}}, apex_group(
            grad_averaging=True, norm_type=2, init_zero=False, step=7,
            exp_avg_sq=[torch.tensor([]), torch.tensor([5., 6.])])),
        "FusedSGD": ({0: {"momentum_buffer": m}, 1: {"momentum_buffer": v}}, dict(
            lr=.1, momentum=.9, dampening=0, weight_decay=0, nesterov=False)),
        "FusedAdagrad": ({0: {"sum": m}, 1: {"sum": v}}, dict(lr=.1, eps=1e-10, weight_decay=0)),
    }
    for name, (state, group) in cases.items():
        was = {"state": state, "param_groups": [{**group, "params": [0, 1]}]}
        torch.save(was, folder / "a.pt")
        convert(folder / "a.pt", folder / "b", "--algorithm", name, *by_name)
        step = read_safetensors.read(folder / "b")[0]["state.b.step"][2]
        assert int.from_bytes(step, "little") == group.get("step", 1), name
        convert(folder / "b", folder / "c.pt", "--algorithm", name)
        now = torch.load(folder / "c.pt", weights_only=True)
        assert now["param_groups"][0].pop("param_names") == ["w", "b"]
        assert equal(was, now), f"{name}: {was} {now}"
    norms = read_norms(folder, cases["FusedNovoGrad"], by_name)
    assert norms == [5.0, 6.0], norms


def check_outside(folder):
    """what apex keeps outside of its files is told and can be given, and nothing else can"""
    m, by_name = torch.tensor([1., 2.]), ["--names", names(folder, "w")]
    torch.save({"state": {0: {"exp_avg": m, "exp_avg_sq": m}},
                "param_groups": [{**apex_group(step=2), "params": [0]}]}, folder / "a.pt")
    fused = [*by_name, "--algorithm", "FusedAdam"]
    said = convert(folder / "a.pt", folder / "b", *fused)
    assert "does not save decoupled_weight_decay: 1" in said, said
    convert(folder / "a.pt", folder / "c", *fused, "--hyper", "adam_w_mode=0")
    for file, value in (("b", 1), ("c", 0)):
        groups = read_safetensors.read(folder / file)[1]["talus.groups"]
        assert f'"decoupled_weight_decay":{value}' in groups, groups
    refuse("--hyper beta1", folder / "a.pt", folder / "d", *fused, "--hyper", "beta1=0.5")
    assert "must be made with decoupled_weight_decay=0" in convert(
        folder / "c", folder / "d.pt", "--algorithm", "fused_adam")
    norms = [torch.tensor([]), torch.tensor([1., 2.])]
    torch.save({"state": {0: {"exp_avg": m}}, "param_groups": [{**apex_group(
        grad_averaging=True, norm_type=2, init_zero=False, step=2, exp_avg_sq=norms),
        "params": [0]}]}, folder / "a.pt")
    refuse("2 norms of torch.float32, for 1 parameters", folder / "a.pt", folder / "d", *by_name,
           "--algorithm", "fused_novograd")


def check_cold_state(folder):
    """state without steps is left out if a first step would find the same, else refused"""
    model = torch_cases.Model(torch_cases.SHAPES)
    optimizer = torch_cases.make("Adagrad", model, dict(initial_accumulator_value=.5))
    torch.save(optimizer.state_dict(), folder / "a.pt")
    convert(folder / "a.pt", folder / "b")
    assert {key.rsplit(".", 1)[1] for key in keys(folder / "b")} == {"step", "digest"}
    optimizer.state_dict()["state"][2]["sum"][1, 1] = 7
    torch.save(optimizer.state_dict(), folder / "a.pt")
    refuse("'head.weight': no steps, but sum is not 0.5", folder / "a.pt", folder / "c")


def read_norms(folder, case, by_name):
    torch.save({"state": case[0], "param_groups": [{**case[1], "params": [0, 1]}]}, folder / "a.pt")
    convert(folder / "a.pt", folder / "b", "--algorithm", "fused_novograd", *by_name)
    tensors, _ = read_safetensors.read(folder / "b")
    found = [tensors[f"state.{name}.exp_avg_sq"] for name in ("w", "b")]
    assert all(dtype == "F64" and shape == [] for dtype, shape, _ in found), found
    return [torch.frombuffer(bytearray(data), dtype=torch.float64).item() for _, _, data in found]


def equal(left, right):
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right


def compare_readers(path, algorithm):
    """Shape and bytes as the second reader sees them, and as the safetensors package does."""
    import safetensors
    tensors, metadata = read_safetensors.read(path)
    assert algorithm is None or f'"algorithm":"{algorithm}"' in \
        metadata["talus.groups"].replace(" ", ""), metadata["talus.groups"]
    with safetensors.safe_open(path, framework="pt") as file:
        assert (file.metadata() or {}) == metadata, "metadata differ"
        assert set(file.keys()) == set(tensors), set(file.keys()) ^ set(tensors)
        for key in file.keys():
            theirs, (dtype, shape, data) = file.get_tensor(key), tensors[key]
            same = bytes(theirs.contiguous().view(-1).view(torch.uint8).numpy()) == data
            assert list(theirs.shape) == shape and same, f"{key}: {dtype} {shape} differs"
    print(f"{path}: {len(tensors)} tensors, the same in both readers")


def check_package(folder):
    """the safetensors package reads the tensors that the second reader sees"""
    try:
        import safetensors  # noqa: F401
    except ModuleNotFoundError:
        print("SKIPPED: " + check_package.__doc__ + ": no package safetensors")
        return
    convert(saved(folder, "NAdam", named=True), folder / "b", "--algorithm", "nadam")
    compare_readers(folder / "b", "nadam")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="a Python that has PyTorch")
    parser.add_argument("--file", help="compare two readers on this checkpoint instead")
    parser.add_argument("--algorithm", help="what the file must say")
    arguments = parser.parse_args()
    global torch, torch_cases, keys, names, saved
    torch = converting.need_torch(arguments.python)
    import torch_cases
    from torch_cases import keys, names, saved
    if arguments.file:
        compare_readers(arguments.file, arguments.algorithm)
        return 0
    return converting.run_checks(converting.checks_of(globals()))


if __name__ == "__main__":
    sys.exit(main())
