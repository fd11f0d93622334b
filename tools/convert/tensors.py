"""Between tensors of PyTorch and the bytes of a file."""
import ctypes

import torch

from .refusal import Refusal
from .safetensors_file import Entry

DTYPES = {"BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
          "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "F32": torch.float32,
          "I64": torch.int64, "F64": torch.float64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(tensor, where):
    if tensor.dtype not in NAMES:
        raise Refusal(f"{where}: dtype {tensor.dtype}, known are {', '.join(DTYPES)}")
    return NAMES[tensor.dtype]


def entry(name, tensor):
    """Borrows the tensor's memory, through no copy if it is dense and on the CPU."""
    tensor = tensor.detach().cpu().contiguous()
    return Entry(name, dtype_name(tensor, name), tuple(tensor.shape), Memory(tensor).view())


class Memory:
    """numpy has no bf16, and PyTorch works without numpy."""
    def __init__(self, tensor):
        self.tensor = tensor

    def view(self):
        count = self.tensor.numel() * self.tensor.element_size()
        if count == 0:
            return b""
        buffer = (ctypes.c_ubyte * count).from_address(self.tensor.data_ptr())
        buffer.owner = self.tensor
        return memoryview(buffer).cast("B")


def from_bytes(data, dtype, shape, where):
    if dtype not in DTYPES:
        raise Refusal(f"{where}: dtype {dtype} has no counterpart in PyTorch here")
    if len(data) == 0:
        return torch.empty(tuple(shape), dtype=DTYPES[dtype])
    return torch.frombuffer(data, dtype=DTYPES[dtype]).reshape(tuple(shape))
