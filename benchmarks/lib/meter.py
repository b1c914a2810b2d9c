"""The meter: seconds, memory, and the speed that the hardware reaches at best."""

import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from remask.denoisers.devices import choose_dtype

PATIENCE = 4.0  # seconds: a call that took longer is not repeated, it has outlasted every burst


class Timed(NamedTuple):
    """A repeated call."""

    seconds: list[float]  # one per repetition
    memory_gb: float  # peak: allocated on the device, or resident on the CPU
    result: Any  # of the last repetition


def timed(work: Callable[[], Any], repetitions: int, device: torch.device) -> Timed:
    """Return the time of each call, the device idle before and after."""
    module: Any = torch.cuda if device.type == "cuda" else torch.cpu
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds: list[float] = []
    while len(seconds) < repetitions and (not seconds or seconds[-1] < PATIENCE):
        module.synchronize()  # CUDA calls return before their work is done
        start = time.perf_counter()
        result = work()
        module.synchronize()
        seconds.append(time.perf_counter() - start)
    return Timed(seconds, peak_memory_gb(device), result)


def peak_memory_gb(device: torch.device) -> float:
    """Return the peak allocated on CUDA since it was reset, or ever resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def matmul_tflops(side: int, device: torch.device) -> float:
    """Return the speed of large matrix products in the model's dtype, TFLOP/s."""
    dtype = choose_dtype("auto", device)
    a, b = torch.randn(2, side, side, device=device, dtype=dtype)
    timed(lambda: a @ b, 3, device)
    number = 20
    seconds = timed(lambda: [a @ b for _ in range(number)], 1, device).seconds[0]
    return 2 * side**3 * number / seconds / 1e12
