"""PyTorch's AdamW on the tensors of gpu_bench: one JSON line a case. 77: no torch, or no GPU in it."""

import json
import statistics
import sys
import time

STEPS, WARM_UPS = 20, 5
BYTES_EACH = 28  # of a step in f32, read + written


def kernels_of(torch, step):
    """Kernels of one step; None where the profiler does not run."""
    try:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            step()
            torch.cuda.synchronize()
        return sum(e.device_type == torch.autograd.DeviceType.CUDA and "Mem" not in e.name
                   for e in seen.events())
    except Exception:  # its tracing library is missing on some machines
        return None


def measure(torch, name, counts, **how):
    generator = torch.Generator("cuda").manual_seed(1)
    parameters = [torch.randn(n, device="cuda", generator=generator) for n in counts]
    for p in parameters:
        p.grad = torch.randn(p.shape, device="cuda", generator=generator) * 0.01
    step = torch.optim.AdamW(parameters, lr=1e-3, **how).step
    for _ in range(WARM_UPS):
        step()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    ms = [a.elapsed_time(b) for a, b in zip(events, events[1:])]
    host = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        host.append(1e6 * (time.perf_counter() - start))
    torch.cuda.synchronize()
    elements, median = sum(counts), statistics.median(ms)
    print(json.dumps({
        "name": name, "elements": elements, "tensors": len(counts), "bytes": elements * BYTES_EACH,
        "ms_median": median, "ms_min": min(ms), "gbps": elements * BYTES_EACH / median / 1e6,
        "copy_gbps": None, "ratio": None, "launches": kernels_of(torch, step),
        "host_us": statistics.median(host), "host_us_p99": max(host)}), flush=True)


def main():
    try:
        import torch
    except ImportError as error:
        sys.exit(print(error, file=sys.stderr) or 77)
    if not torch.cuda.is_available():
        sys.exit(print("torch sees no GPU", file=sys.stderr) or 77)
    for kind in "fused", "foreach":
        measure(torch, f"torch {kind}: equal tensors f32", [1024] * 10000, **{kind: True})
        torch.cuda.empty_cache()
        measure(torch, f"torch {kind}: flat f32", [10**9], **{kind: True})
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
