"""Makes a checkpoint of a state_dict of torch.optim or apex."""
import math
import pickle

import torch

from .algorithms import CLASSES, EXECUTION, PAIRS, RULES, SCHEDULER_NOTES, find_class
from .names import Place, name_places
from .refusal import Refusal, listing, note
from .talus_file import Checkpoint, Group, Param
from .tensors import dtype_name

WRAPPERS = ("optimizer", "optimizer_state_dict", "optimizer_states")
FOREIGN = (({"last_epoch", "_step_count"}, "a learning-rate scheduler: configure it anew"),
           ({"growth_factor", "_growth_tracker"}, "a GradScaler: set its scale anew"),
           ({"loss_scaler", "fp32_groups_flat"}, "a wrapper that flattens parameters"),
           ({"buckets"}, "a distributed optimizer: gather it into an ordinary state_dict first"))
F32_STEPS = 1 << 24  # where a step count in f32 stands still


def load(path):
    """Tensors and plain containers alone: nothing in a pickle is run. Before 2.6 a crafted file
    could run code all the same (CVE-2025-32434)."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (2, 6):
        raise Refusal(f"PyTorch {torch.__version__}: 2.6 or later is needed to read files safely")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = next((line.strip() for line in str(error).splitlines()
                       if "nsupported" in line or "GLOBAL" in line), str(error).splitlines()[0])
        raise Refusal(f"{path}: holds more than tensors and plain containers, which would mean "
                      f"running code from it: {reason}") from None
    except (RuntimeError, EOFError, ValueError, KeyError, IndexError, TypeError,
            AttributeError) as error:
        reason = [*str(error).splitlines(), type(error).__name__][0]
        raise Refusal(f"{path}: neither a safetensors file nor one that PyTorch reads: "
                      + reason) from None


def find_state_dict(content, path):
    for key in WRAPPERS:
        if isinstance(content, dict) and key in content:
            inner = content[key]
            if isinstance(inner, (list, tuple)):
                if len(inner) != 1:
                    raise Refusal(f"{path}: {key!r} holds {len(inner)} optimizers, expected one")
                inner = inner[0]
            note(f"{path}: the optimizer is under the key {key!r}")
            return find_state_dict(inner, path)
    if not isinstance(content, dict):
        raise Refusal(f"{path}: holds {type(content).__name__}, expected a state_dict")
    for keys, what in FOREIGN:
        if keys & content.keys():
            raise Refusal(f"{path}: is the state of {what}")
    if any(isinstance(key, str) and key.startswith("param_groups.") for key in content):
        raise Refusal(f"{path}: is flattened; save it without flatten_optimizer_state_dict")
    if not {"state", "param_groups"} <= content.keys():
        raise Refusal(f"{path}: no 'state' and 'param_groups', but {listing(content)}: not the "
                      "state_dict of an optimizer")
    return content


class Source:
    """A state_dict of one class."""

    def __init__(self, state_dict, upstream, ignored=(), outside=None, steps=None):
        self.state, self.groups = state_dict["state"], state_dict["param_groups"]
        self.upstream, self.rule = upstream, RULES[upstream.algorithm]
        self.ignored, self.steps = set(ignored), steps
        self.outside = {**upstream.outside, **given_outside(upstream, outside or {})}
        self.hypers = [self.read_hypers(index) for index in range(len(self.groups))]
        self.keys = [(index, key) for index, group in enumerate(self.groups)
                     for key in group["params"]]
        self.norms = self.read_norms()
        for group, key in self.keys:
            self.check_state(group, key)
        if unknown := [key for key in self.state if key not in {key for _, key in self.keys}]:
            raise Refusal(f"state of {unknown[0]!r}, which is in no group")

    def read_hypers(self, index):
        group, where = self.groups[index], f"group {index}"
        required = self.upstream.keys.split()
        if missing := [key for key in required if key not in group]:
            raise Refusal(f"{where}: {self.upstream.name} has {missing[0]!r}, the file does not")
        known = {*required, *self.upstream.later, *SCHEDULER_NOTES, *self.ignored, "params",
                 "param_names", "initial_lr"}
        if self.upstream.library == "torch":
            known |= EXECUTION
        if self.upstream.steps == "group":
            known.add("step")
        if self.upstream.algorithm == "novograd":
            known.add("exp_avg_sq")
        if unknown := [key for key in group if key not in known]:
            raise Refusal(f"{where}: {self.upstream.name} has no {unknown[0]!r} "
                          f"(--ignore {unknown[0]} leaves it out)")
        hyper = {**self.rule.hypers, **self.outside}
        for key in [*required, *self.upstream.later]:
            hyper.update(self.read_hyper(key, group, where))
        if "initial_lr" in group:
            hyper["lr"] = scalar(group["initial_lr"], f"{where}: initial_lr")
        self.check_decoupling(group, hyper, where)
        return hyper

    def read_hyper(self, key, group, where):
        value, where = group.get(key, self.upstream.later.get(key)), f"{where}: {key}"
        if key not in PAIRS:
            return {key: scalar(value, where)}
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise Refusal(f"{where} is {value!r}, expected a pair")
        return {name: scalar(item, where) for name, item in zip(PAIRS[key], value)}

    def check_decoupling(self, group, hyper, where):
        if self.upstream.name in ("Adam", "AdamW") and "decoupled_weight_decay" in group:
            if hyper["decoupled_weight_decay"] != (self.upstream.name == "AdamW"):
                raise Refusal(f"{where}: decoupled_weight_decay is "
                              f"{group['decoupled_weight_decay']}, not what "
                              f"{self.upstream.name} writes")

    def read_norms(self):
        """Of FusedNovoGrad: in each group a tensor for its f16 and one for its f32 parameters."""
        norms = {}
        if self.upstream.algorithm != "novograd":
            return norms
        for index, group in enumerate(self.groups):
            lists = group.get("exp_avg_sq", [None, None])
            for dtype, values in zip((torch.float16, torch.float32), lists):
                keys = [key for key in group["params"]
                        if self.state.get(key, {}).get("exp_avg", torch.empty(0)).dtype == dtype
                        and self.state.get(key)]
                count = 0 if values is None else values.numel()
                if count != len(keys):
                    raise Refusal(f"group {index}: {count} norms of {dtype}, for {len(keys)} "
                                  "parameters")
                norms.update(zip(keys, [] if values is None else values.double().flatten()))
        return norms

    def slots(self, group, key):
        """Name -> tensor, of a parameter that has been stepped."""
        slots = {name: value for name, value in self.state.get(key, {}).items()
                 if name != "step" and name not in self.upstream.dropped and value is not None}
        if key in self.norms:
            slots["exp_avg_sq"] = self.norms[key]
        return slots

    def check_state(self, group, key):
        state, where = self.state.get(key, {}), f"state of {key!r}"
        slots = self.slots(group, key)
        known = {slot.name: slot for slot in self.rule.slots}
        wanted = [slot.name for slot in self.rule.slots_of(self.hypers[group])] if slots else []
        if unknown := [name for name in slots if name not in known]:
            raise Refusal(f"{where}: {self.upstream.name} has no slot {unknown[0]!r}")
        if extra := [name for name in slots if name not in wanted]:
            needs = known[extra[0]].needs
            raise Refusal(f"{where}: slot {extra[0]!r}, but {needs} of its group is 0")
        if missing := [name for name in wanted if name not in slots]:
            raise Refusal(f"{where}: no slot {missing[0]!r}, which {self.upstream.name} has")
        if "step" in state and self.upstream.steps != "state":
            raise Refusal(f"{where}: has 'step', {self.upstream.name} counts elsewhere")
        if slots and "step" not in state and self.upstream.steps == "state":
            raise Refusal(f"{where}: no 'step', which {self.upstream.name} has")
        for name, value in slots.items():
            check_slot(value, known[name].scalar, f"{where}: {name}")

    def shape_of(self, group, key):
        """And dtype of the slots, or twice None."""
        found = [(name, value) for name, value in self.slots(group, key).items()
                 if not next(slot for slot in self.rule.slots if slot.name == name).scalar]
        for name, value in found[1:]:
            if value.shape != found[0][1].shape:
                raise Refusal(f"state of {key!r}: {name} has shape {list(value.shape)}, "
                              f"{found[0][0]} has {list(found[0][1].shape)}")
        return (tuple(found[0][1].shape), dtype_name(found[0][1], key)) if found else (None, None)

    def step_of(self, group, key):
        if self.upstream.steps == "nowhere":
            stepped = bool(self.slots(group, key))
            if self.steps is None or (self.rule.slots_of(self.hypers[group]) and not stepped):
                return int(stepped)
            return self.steps
        holder = self.state.get(key, {})
        if self.upstream.steps == "group":
            holder = self.groups[group] if holder else {}
        return step_count(holder.get("step", 0), f"step of {key!r}")


def scalar(value, where):
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if not isinstance(value, (bool, int, float)) or math.isnan(value):
        raise Refusal(f"{where} is {value!r}, expected a number")
    return float(value)


def step_count(value, where):
    number = scalar(value, where)
    if number != math.floor(number) or not 0 <= number < 1 << 53:
        raise Refusal(f"{where} is {number}, expected a count")
    if number >= F32_STEPS and isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        note(f"{where} is {int(number)}: counting in f32 stands still at {F32_STEPS}")
    return int(number)


def check_slot(value, is_scalar, where):
    if not isinstance(value, torch.Tensor):
        raise Refusal(f"{where} is {type(value).__name__}, expected a tensor")
    if value.layout != torch.strided or not value.is_floating_point():
        raise Refusal(f"{where} is {value.dtype} {value.layout}, expected dense real numbers")
    if is_scalar and value.numel() != 1:
        raise Refusal(f"{where} has {value.numel()} values, expected one")


def choose_class(state_dict, wanted, options):
    """The class that the caller names, or the only one that fits. LARC must be named: it writes
    what the optimizer in it writes."""
    if wanted:
        name = find_class(wanted)
        if name is None:
            raise Refusal(f"--algorithm {wanted!r}, known are {', '.join(CLASSES)}")
        return Source(state_dict, CLASSES[name], **options)
    fitting, reasons = {}, []
    for name, upstream in CLASSES.items():
        if upstream.name == "LARC":
            continue
        try:
            fitting[name] = Source(state_dict, upstream, **options)
        except Refusal as refusal:
            reasons.append(f"\n  {name}: {refusal}")
    if not fitting:
        raise Refusal("the file fits no class that is known:" + "".join(reasons))
    if len(fitting) > 1:
        raise Refusal("the file does not tell which class wrote it: --algorithm must, one of "
                      + ", ".join(fitting))
    name = next(iter(fitting))
    note(f"taken as {CLASSES[name].name}, the only class that fits")
    return fitting[name]


def check_form(state_dict):
    groups = state_dict["param_groups"]
    if not isinstance(state_dict["state"], dict) or not isinstance(groups, (list, tuple)):
        raise Refusal("'state' is no dict, or 'param_groups' no list")
    for index, group in enumerate(groups):
        if not isinstance(group, dict) or not isinstance(group.get("params"), (list, tuple)):
            raise Refusal(f"group {index} is no dict with a list 'params'")
    for key, state in state_dict["state"].items():
        if not isinstance(state, dict):
            raise Refusal(f"state of {key!r} is {type(state).__name__}, expected a dict")


def convert(path, arguments):
    state_dict = find_state_dict(load(path), path)
    check_form(state_dict)
    options = dict(ignored=arguments.ignore, outside=arguments.hyper, steps=arguments.steps)
    source = choose_class(state_dict, arguments.algorithm, options)
    places = [Place(group, key, *source.shape_of(group, key)) for group, key in source.keys]
    named = name_places(places, source.groups, arguments.names, arguments.model,
                        arguments.param_dtype)
    tell(source)
    params = [make_param(source, place, *item) for place, item in zip(places, named)]
    groups = [Group(source.upstream.algorithm, hyper) for hyper in source.hypers]
    return Checkpoint(params, groups)


def make_param(source, place, name, shape, dtype):
    param = Param(name, dtype, shape, place.group, source.step_of(place.group, place.key))
    if param.step == 0:
        check_cold(source, place, name)
        return param
    slots = source.slots(place.group, place.key)
    for slot in source.rule.slots_of(source.hypers[place.group]):
        if slot.name not in slots:
            raise Refusal(f"parameter {name!r}: {param.step} steps, but no slot {slot.name!r}")
        value = slots[slot.name]
        # 16 bits widen exactly, and f32 is what talus keeps behind them.
        kept = torch.float64 if slot.scalar or value.dtype == torch.float64 else torch.float32
        value = value.to(kept)
        param.slots[slot.name] = (value.reshape(shape) if not slot.scalar else
                                  value.reshape(-1)[:param.scalar_count()].reshape(
                                      param.scalar_shape()))
    return param


def check_cold(source, place, name):
    """Without steps, state must be what a first step would find anyway."""
    hyper = source.hypers[place.group]
    slots = source.slots(place.group, place.key)
    for slot in source.rule.slots:
        initial = hyper.get(slot.initial, slot.initial)
        if slot.name in slots and not (slots[slot.name] == torch.tensor(
                initial, dtype=slots[slot.name].dtype)).all():
            raise Refusal(f"parameter {name!r}: no steps, but {slot.name} is not {initial}")


def given_outside(upstream, given):
    """What the caller says of hyperparameters that the file does not hold, by our names."""
    alias = {} if "adam_w_mode" in upstream.outside else {"adam_w_mode": "decoupled_weight_decay"}
    result = {alias.get(name, name): value for name, value in given.items()}
    if unknown := [name for name in result if name not in upstream.outside]:
        raise Refusal(f"--hyper {unknown[0]}: {upstream.name} keeps "
                      f"{listing(upstream.outside) or 'nothing'} outside of its file")
    return result


def tell(source):
    for index, group in enumerate(source.groups):
        if "initial_lr" in group:
            note(f"group {index}: the base of lr is initial_lr {source.hypers[index]['lr']}, not "
                 f"the scheduled {scalar(group['lr'], 'lr')}")
        if notes := sorted(SCHEDULER_NOTES & group.keys()):
            note(f"group {index}: left out, a scheduler's: {listing(notes)}")
    for name, value in source.outside.items():
        note(f"{source.upstream.name} does not save {name}: {value:g} (--hyper {name}=VALUE)")
    if source.upstream.steps == "nowhere" and source.steps is None:
        note(f"{source.upstream.name} counts no steps: 1 for a parameter with state, 0 without "
             "(--steps N)")
    widened = [key for group, key in source.keys
               if source.shape_of(group, key)[1] in ("F16", "BF16")]
    if widened:
        note(f"16-bit state of {len(widened)} parameters is widened to f32; there are no masters")
