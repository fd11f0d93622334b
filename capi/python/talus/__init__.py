"""talus: an optimizer runtime. ctypes over libtalus; nothing is compiled, numpy is optional.

    import array, talus
    weights, gradient = array.array("f", [1, 2, 3]), array.array("f", [0, 0, 0])
    with talus.Optimizer("adamw", lr=3e-4) as opt:
        opt.add(weights, gradient, name="w")
        opt.step()

The modules: optimizer (with parameters, checkpoint and hooks), schedule, scaler, memory (what
arrays are taken), names (what the library has), and torch, for PyTorch alone.
"""
from ._c import (CPU, CUDA, FLAG, HYPER_FIXED, HYPER_MAX_OPEN, HYPER_MIN_OPEN, HYPER_REQUIRED,
                 INTEGER, LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARNING, REAL)
from .errors import Error
from .memory import Raw
from .names import (Hyper, abi_version, build_info, doc, has_feature, hypers, names, set_log,
                    set_plugin_path, version, why_not)
from .optimizer import ALL, Bytes, Optimizer, Stats, clip_grad_norm, grad_norm
from .parameters import Param, ParamInfo, State
from .scaler import Scaler
from .schedule import Schedule, chained, of_function, sequential

__version__ = version()
__all__ = [
    "ALL", "Bytes", "CPU", "CUDA", "Error", "FLAG", "HYPER_FIXED", "HYPER_MAX_OPEN",
    "HYPER_MIN_OPEN", "HYPER_REQUIRED", "Hyper", "INTEGER", "LOG_DEBUG", "LOG_ERROR", "LOG_INFO",
    "LOG_WARNING", "Optimizer", "Param", "ParamInfo", "REAL", "Raw", "Scaler", "Schedule", "State",
    "Stats", "abi_version", "build_info", "chained", "clip_grad_norm", "doc", "grad_norm",
    "has_feature", "hypers", "names", "of_function", "sequential", "set_log", "set_plugin_path",
    "version", "why_not"]
