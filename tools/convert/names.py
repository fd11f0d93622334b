"""Gives each position of PyTorch's state_dict the name and shape of a parameter."""
from typing import NamedTuple

from . import safetensors_file
from .refusal import Refusal, listing, note


class Place(NamedTuple):
    """A parameter as PyTorch numbers it. What its state does not tell is None."""
    group: int
    key: object  # in its `state`: a number, or a name already
    shape: tuple
    dtype: str


class Named(NamedTuple):
    name: str
    shape: tuple
    dtype: str


def read_names(path):
    with open(path, encoding="utf-8") as file:
        names = file.read().splitlines()
    if "" in names:
        raise Refusal(f"{path}: line {names.index('') + 1} is empty, expected a name a line")
    return names


def read_model(path):
    """Shape and dtype by name, from the header alone."""
    return {name: (tensor.shape, tensor.dtype)
            for name, tensor in safetensors_file.read_header(path).tensors.items()}


def name_places(places, groups, names_file, model_file, param_dtype):
    model = read_model(model_file) if model_file else {}
    names, trusted = given_names(places, groups, names_file)
    if names is None:
        if not model:
            raise Refusal("the file numbers its parameters: --names FILE (one a line, in the "
                          "optimizer's order) or --model FILE must name them")
        names, trusted = names_by_shape(places, model), True
    check_count(names, places)
    named = [settle(place, name, model, param_dtype) for place, name in zip(places, names)]
    if not trusted:
        tell_doubts(named)
    return named


def given_names(places, groups, names_file):
    """And whether each is bound to its position by the file itself. None: no names are given."""
    if names_file:
        return read_names(names_file), False
    if all(isinstance(place.key, str) for place in places):
        return [place.key for place in places], True
    if all("param_names" in group for group in groups):
        return [name for group in groups for name in group["param_names"]], True
    return None, False


def check_count(names, places):
    if len(names) != len(places):
        raise Refusal(f"{len(names)} names, the file has {len(places)} parameters")
    seen = set()
    for name in names:
        if not isinstance(name, str):
            raise Refusal(f"parameter name {name!r} is no string")
        if name in seen:
            raise Refusal(f"the name {name!r} twice")
        seen.add(name)


def names_by_shape(places, model):
    """Only where each shape belongs to one tensor of the model, and to one position."""
    by_shape = {}
    for name, (shape, _) in model.items():
        by_shape.setdefault(shape, []).append(name)
    taken = {}
    for index, place in enumerate(places):
        if place.shape is None:
            raise Refusal(f"parameter {index} has no state that tells its shape: --names must tell")
        taken.setdefault(place.shape, []).append(index)
    for shape, indices in taken.items():
        names = by_shape.get(shape, [])
        if not names:
            raise Refusal(f"parameter {indices[0]}: shape {list(shape)}, the model has none of it")
        if len(names) > 1 or len(indices) > 1:
            raise Refusal(f"shape {list(shape)} is in doubt: parameters {indices}, names "
                          f"{listing(names)}: --names must tell")
    return [by_shape[place.shape][0] for place in places]


def settle(place, name, model, param_dtype):
    if model and name not in model:
        raise Refusal(f"parameter {name!r} is not in the model, which has {listing(model)}")
    shape, dtype = model.get(name, (place.shape, param_dtype or place.dtype))
    if shape is None:
        raise Refusal(f"parameter {name!r}: no state tells its shape: --model FILE must")
    if place.shape is not None and place.shape != shape:
        raise Refusal(f"parameter {name!r}: state of shape {list(place.shape)}, the model has "
                      f"{list(shape)}: the names are in another order")
    return Named(name, shape, param_dtype or dtype or "F32")


def tell_doubts(named):
    by_shape = {}
    for item in named:
        by_shape.setdefault(item.shape, []).append(item.name)
    for shape, names in by_shape.items():
        if len(names) > 1:
            note(f"shape {list(shape)} does not tell these apart, their order is taken on trust: "
                 + listing(names))
