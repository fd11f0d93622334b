"""Makes a state_dict of torch.optim or apex of a checkpoint."""
import io

import torch

from .algorithms import CLASSES, DEFAULT_CLASS, FLAGS, INTEGERS, PAIRS, RULES, find_class
from .from_torch import F32_STEPS
from .names import read_names
from .refusal import Refusal, listing, note
from .tensors import DTYPES

# Accepted without effect, so its value needs no counterpart.
WITHOUT_EFFECT = {"materialize_master_grads"}


def choose_class(checkpoint, wanted):
    algorithms = sorted({group.algorithm for group in checkpoint.groups})
    if len(algorithms) != 1:
        raise Refusal(f"groups of {listing(algorithms)}: an optimizer of PyTorch has one rule")
    name = find_class(wanted) if wanted else DEFAULT_CLASS.get(algorithms[0])
    if name is None:
        raise Refusal(f"--algorithm {wanted!r}, known are {', '.join(CLASSES)}" if wanted else
                      f"neither PyTorch nor apex has {algorithms[0]}")
    if RULES[CLASSES[name].algorithm].slots != RULES[algorithms[0]].slots:
        raise Refusal(f"the file holds {algorithms[0]}, {CLASSES[name].name} is "
                      f"{CLASSES[name].algorithm}")
    return CLASSES[name]


def check_hypers(checkpoint, upstream):
    """What the class cannot be told must have the value that it implies."""
    told = set(upstream.hypers()) | WITHOUT_EFFECT
    implied = {**RULES[upstream.algorithm].hypers, **upstream.outside}
    for index, group in enumerate(checkpoint.groups):
        if upstream.name == "AdamW" and not group.hyper["decoupled_weight_decay"]:
            raise Refusal(f"group {index}: decoupled_weight_decay is 0, AdamW has only 1: "
                          "--algorithm adam")
        for name, value in group.hyper.items():
            if name in upstream.outside and value != upstream.outside[name]:
                note(f"group {index}: {upstream.name} must be made with {name}={value:g}, which "
                     "its file does not hold")
            elif name not in told and value != implied.get(name, value):
                raise Refusal(f"group {index}: {name} is {value:g}, {upstream.name} has only "
                              f"{implied[name]:g}")


def group_values(group, upstream):
    """The group's keys but for `params`: those of the class, and what this PyTorch adds to them."""
    result = execution_defaults(upstream)
    for key in [*upstream.keys.split(), *upstream.later]:
        if key in PAIRS:
            result[key] = tuple(group.hyper[name] for name in PAIRS[key])
        else:
            result[key] = typed(key, group.hyper[key])
    return result


def typed(key, value):
    if key in FLAGS:
        return bool(value)
    return int(value) if key in INTEGERS else value


def execution_defaults(upstream):
    if upstream.library != "torch":
        return {}
    optimizer = getattr(torch.optim, upstream.name)([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    return {key: value for key, value in optimizer.param_groups[0].items() if key != "params"}


def state_of(param, hyper, upstream, cold):
    """cold: also what a parameter without steps would start with."""
    rule = RULES[upstream.algorithm]
    if param.step == 0 and not cold and "initial_accumulator_value" not in upstream.keys.split():
        return {}
    scalar_type = torch.get_default_dtype()
    state = {}
    if upstream.steps == "state":
        state["step"] = param.step if upstream.name == "SparseAdam" else \
            torch.tensor(float(param.step), dtype=torch.float32)
    for slot in rule.slots_of(hyper):
        if slot.scalar and upstream.library == "apex":
            continue  # in its group
        value = param.slots.get(slot.name)
        if value is None or slot.scalar and value.numel() == 0:
            value = torch.full(() if slot.scalar else param.shape,
                               hyper.get(slot.initial, slot.initial), dtype=cold_dtype(param))
        state[slot.name] = value.to(scalar_type) if slot.scalar else value
    if upstream.name == "ASGD":
        state.update(eta_and_mu(param.step, hyper))
    return state


def cold_dtype(param):
    if param.dtype not in DTYPES:
        raise Refusal(f"parameter {param.name!r}: dtype {param.dtype} is not known here")
    return torch.float64 if param.dtype == "F64" else torch.float32


def eta_and_mu(step, hyper):
    """What torch's ASGD stores for its next step: ours are made from lr and step."""
    eta = hyper["lr"] / (1 + hyper["lambd"] * hyper["lr"] * step) ** hyper["alpha"]
    return {"eta": torch.tensor(eta, dtype=torch.float32),
            "mu": torch.tensor(1 / max(1.0, step - hyper["t0"]), dtype=torch.float32)}


def in_order(checkpoint, names_file):
    """The parameters of each group, in the order of registration or of a file of names."""
    params = checkpoint.params
    if names_file:
        names = read_names(names_file)
        known = {param.name: param for param in params}
        if sorted(names) != sorted(known):
            odd = sorted(set(names) ^ set(known)) or ["a name twice"]
            raise Refusal(f"{names_file}: not the names of the file's parameters: {listing(odd)}")
        params = [known[name] for name in names]
    return [[param for param in params if param.group == index]
            for index in range(len(checkpoint.groups))]


def full_state_dict(checkpoint, upstream, groups):
    state, param_groups, number = {}, [], 0
    for group, params in zip(checkpoint.groups, groups):
        values = group_values(group, upstream)
        add_apex_state(values, params, upstream)
        values["param_names"] = [param.name for param in params]
        values["params"] = list(range(number, number + len(params)))
        param_groups.append(values)
        for key, param in zip(values["params"], params):
            if slots := state_of(param, group.hyper, upstream, cold=False):
                state[key] = slots
        number += len(params)
    return {"state": state, "param_groups": param_groups}


def add_apex_state(values, params, upstream):
    """apex counts steps in the group, and FusedNovoGrad keeps its norms there."""
    if upstream.steps == "group":
        steps = {param.step: param.name for param in params if param.step}
        if len(steps) > 1:
            raise Refusal(f"{upstream.name} counts steps by group, but " + ", ".join(
                f"{name!r} has {step}" for step, name in sorted(steps.items())))
        values.update(step=next(iter(steps))) if steps else None
    if upstream.name == "FusedNovoGrad":
        values["exp_avg_sq"] = [norms(params, dtype) for dtype in ("F16", "F32")]


def norms(params, dtype):
    if odd := [param.name for param in params if param.step and param.dtype not in ("F16", "F32")]:
        raise Refusal(f"FusedNovoGrad takes f16 and f32 parameters alone, not {listing(odd)}")
    return torch.tensor([float(param.slots["exp_avg_sq"]) for param in params
                         if param.step and param.dtype == dtype], dtype=torch.float32)


def flat_state_dict(checkpoint, upstream, groups):
    if upstream.library != "torch":
        raise Refusal(f"--to flat is for optimizers of torch.optim, {upstream.name} is apex's")
    flat = {}
    tell_fixed(checkpoint, upstream)
    for group, params in zip(checkpoint.groups, groups):
        values = group_values(group, upstream)
        # An optimizer with a scheduler, or made from named parameters, asks for these too.
        values.update(initial_lr=group.hyper["lr"], param_names=[param.name for param in params])
        for param in params:
            refuse_cold_dampening(param, group.hyper)
            for name, value in state_of(param, group.hyper, upstream, cold=True).items():
                flat[f"state.{param.name}.{name}"] = value
            for name, value in values.items():
                flat[f"param_groups.{param.name}.{name}"] = value
    return flat


def tell_fixed(checkpoint, upstream):
    """PyTorch asks a flat file only for the slots that the optimizer has already."""
    for slot in RULES[upstream.algorithm].slots:
        values = {group.hyper[slot.needs] for group in checkpoint.groups if slot.needs} - {0}
        if values:
            note(f"make the optimizer with {slot.needs}={max(values):g} or so, not 0: else PyTorch "
                 f"leaves {slot.name} out of what it loads, and says nothing")


def refuse_cold_dampening(param, hyper):
    """PyTorch makes all buffers before it loads a flat file: the first gradient would be damped."""
    if param.step == 0 and hyper.get("momentum") and hyper.get("dampening"):
        raise Refusal(f"parameter {param.name!r} has no steps: with dampening, --to flat would "
                      "change its first one; --to torch does not")


def convert(checkpoint, left, arguments):
    """The bytes of the file."""
    upstream = choose_class(checkpoint, arguments.algorithm)
    check_hypers(checkpoint, upstream)
    groups = in_order(checkpoint, arguments.names)
    tell(checkpoint, upstream, left)
    make = flat_state_dict if arguments.to == "flat" else full_state_dict
    content = io.BytesIO()
    torch.save(make(checkpoint, upstream, groups), content)
    return content.getbuffer()


def tell(checkpoint, upstream, left):
    for slot, count in left.items():
        note(f"left behind: {slot} of {count} parameters")
    narrow = [param.name for param in checkpoint.params if param.dtype in ("BF16", "F16")]
    if narrow:
        note("PyTorch casts state that it loads to the parameter's dtype: f32 state of "
             f"{listing(narrow)} is rounded to 16 bits there")
    late = [param.name for param in checkpoint.params if param.step >= F32_STEPS]
    if late and upstream.steps == "state" and upstream.name != "SparseAdam":
        note(f"PyTorch counts in f32, which stands still at {F32_STEPS}: {listing(late)}")
    note(f"a state_dict of {upstream.name}; it names no class, and numbers parameters in the order "
         "of its groups")
