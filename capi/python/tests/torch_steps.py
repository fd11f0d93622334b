"""What the tests of talus.torch share: parameters, and steps that do not depend on them."""
import io

import torch


def make_params(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
            for shape in ((3, 4), (5,))]


def drive(opt, first, last):
    """Steps with gradients that depend on the time alone."""
    params = [param for group in opt.param_groups for param in group["params"]]
    for t in range(first, last):
        generator = torch.Generator().manual_seed(t)
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
        opt.step()
    return [param.detach().clone() for param in params]


def equal(ours, theirs):
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def save(state_dict):
    """As a file keeps it, read with no code in it."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True)
