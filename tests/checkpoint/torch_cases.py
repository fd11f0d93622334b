"""Small trainings with each optimizer of torch.optim, with gradients from a seed."""
import torch

import read_safetensors

SHAPES = {"stem.weight": (4, 3), "stem.bias": (4,), "head.weight": (2, 4), "head.bias": (2,)}
# Class, its options; every option that decides over state is there both ways.
CASES = [
    ("SGD", {}),
    ("SGD", dict(momentum=.9, dampening=.25, weight_decay=.1)),
    ("SGD", dict(momentum=.9, nesterov=True, maximize=True)),
    ("Adam", dict(betas=(.8, .95), eps=1e-5, weight_decay=.1)),
    ("Adam", dict(amsgrad=True, maximize=True)),
    ("AdamW", dict(weight_decay=.2)),
    ("AdamW", dict(amsgrad=True, betas=(.7, .9))),
    ("Adagrad", dict(lr_decay=.1, initial_accumulator_value=.5)),
    ("RMSprop", {}),
    ("RMSprop", dict(alpha=.9, momentum=.5, centered=True, weight_decay=.01)),
    ("Adadelta", dict(rho=.8, weight_decay=.1)),
    ("Adamax", dict(betas=(.8, .9))),
    ("NAdam", dict(momentum_decay=.01, decoupled_weight_decay=True, weight_decay=.1)),
    ("RAdam", dict(betas=(.8, .9), weight_decay=.1)),
    ("ASGD", dict(lambd=.1, alpha=.6, t0=1.0, weight_decay=.1)),
    ("ASGD", dict(t0=2.5, maximize=True)),
    ("Rprop", dict(etas=(.4, 1.3), step_sizes=(1e-5, .1))),
    ("SparseAdam", dict(betas=(.8, .9), eps=1e-6)),
]
LR = .01


def title(name, options):
    return name + "(" + ", ".join(f"{key}={value}" for key, value in options.items()) + ")"


class Model(torch.nn.Module):
    """Parameters with dots in their names, in an order that is not the alphabet's."""

    def __init__(self, shapes, dtype=torch.float32):
        super().__init__()
        for name, shape in shapes.items():
            module, _, leaf = name.partition(".")
            if not hasattr(self, module):
                self.add_module(module, torch.nn.Module())
            getattr(self, module).register_parameter(leaf, torch.nn.Parameter(
                values(name, 0, shape).to(dtype)))


def values(name, step, shape):
    generator = torch.Generator().manual_seed(1000 * step + sum(name.encode()))
    return torch.randn(shape, generator=generator)


def shapes_of(name):
    """Without parameters of one dimension, whose sparse gradients have no rows."""
    return {key: shape for key, shape in SHAPES.items()
            if name != "SparseAdam" or len(shape) == 2}


def make(name, model, options, named=True):
    params = model.named_parameters() if named else model.parameters()
    return getattr(torch.optim, name)(list(params), **options)


def set_gradients(model, step, sparse=False, left_out=()):
    for name, param in model.named_parameters():
        gradient = values(name, step, param.shape).to(param.dtype)
        if sparse:
            gradient = gradient.clone()
            gradient[step % len(gradient)] = 0
            gradient = gradient.to_sparse(1)
        param.grad = None if name in left_out else gradient


def train(model, optimizer, steps, left_out=()):
    sparse = type(optimizer).__name__ == "SparseAdam"
    for step in steps:
        set_gradients(model, step, sparse, left_out)
        optimizer.step()


def copy_of(model):
    copy = Model({name: tuple(param.shape) for name, param in model.named_parameters()},
                 next(model.parameters()).dtype)
    copy.load_state_dict(model.state_dict())
    return copy


def differences(model, other):
    """Names and places where bits differ, with both."""
    found = []
    for (name, left), right in zip(model.named_parameters(), other.parameters()):
        for index, (a, b) in enumerate(zip(left.detach().flatten().tolist(),
                                           right.detach().flatten().tolist())):
            if a != b:
                found.append(f"{name}[{index}]: {a.hex()} {b.hex()}")
    return found


def saved(folder, name="AdamW", shapes=None, named=False, edit=None, dtype=None, **options):
    """The path of a state_dict after two steps."""
    model = Model(shapes or SHAPES, dtype or torch.float32)
    optimizer = make(name, model, {"lr": LR, **options}, named)
    train(model, optimizer, [1, 2])
    state_dict = optimizer.state_dict()
    content = (edit(state_dict) if edit else None) or state_dict
    torch.save(content, folder / "in.pt")
    return folder / "in.pt"


def names(folder, *lines):
    """The path of a file with these lines."""
    path = folder / "names.txt"
    path.write_text("".join(line + "\n" for line in lines))
    return path


def keys(path):
    """Names of a file's tensors."""
    return set(read_safetensors.read(path)[0])
