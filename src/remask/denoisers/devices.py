"""Choose devices and dtypes, and check memory.

Devices are CUDA, Metal (mps) and the CPU. Metal has no float64, so random draws (`rng`) and sums in
float64 are computed on the CPU.
"""

import copy
import os
import re
from collections.abc import Mapping, Sequence

import torch

from remask.denoisers.catalog import PACKED_BYTES
from remask.denoisers.identity import precision_name
from remask.denoisers.native import Network
from remask.denoisers.packing import pack
from remask.denoisers.quantise import find_format
from remask.errors import SettingsError
from remask.settings import unknown_name

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
KINDS = ("cuda", "mps", "cpu")  # "auto" takes the first that is there


def choose_devices(devices: str) -> list[torch.device]:
    """Return the devices of a comma-separated list, or "all" CUDA devices; all of one kind."""
    if devices == "all":
        if not torch.cuda.is_available():
            raise SettingsError(f"device 'all' requires a CUDA device{_build()}; use cpu.")
        devices = ",".join(f"cuda:{i}" for i in range(torch.cuda.device_count()))
    targets = [choose_device(device.strip()) for device in devices.split(",")]
    if len({device.type for device in targets}) > 1:
        raise SettingsError(f"device {devices!r} mixes kinds; several must all be of one.")
    return targets


def choose_device(device: str) -> torch.device:
    """Return the device; "auto" is CUDA, else Metal, else the CPU."""
    if device == "auto":
        return torch.device(next(kind for kind in KINDS if _count(kind)))
    unknown = unknown_name("device", device, ("auto", *KINDS))
    if device.split(":")[0] not in KINDS:
        raise unknown
    try:
        target = torch.device(device)
    except RuntimeError:
        raise unknown from None
    if target.type != "cpu" and (target.index or 0) >= _count(target.type):
        why = _build() if target.type == "cuda" else ""
        raise SettingsError(f"device {device!r} is not available here{why}; use auto or cpu.")
    return target


def _build() -> str:
    """Return a note if torch was built without CUDA, else ""."""
    known = torch.version.cuda or torch.version.hip
    return "" if known else f": the installed torch ({torch.__version__}) is a CPU build"


def _count(kind: str) -> int:
    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    return int(torch.backends.mps.is_available()) if kind == "mps" else 1


def choose_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Return the dtype; "auto" is half precision on CUDA and Metal, float32 on the CPU.

    That is bfloat16, which no activation overflows; Metal knows it from macOS 14 on, before that
    float16 alone.
    """
    if dtype == "auto" and device.type == "mps":
        return torch.bfloat16 if torch.backends.mps.is_macos_or_newer(14, 0) else torch.float16
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise unknown_name("dtype", dtype, ("auto", *DTYPES))
    return DTYPES[dtype]


def num_bytes(network: Network) -> int:
    """Return the bytes of all weights, whether they are there yet or not."""
    return sum(tensor.nbytes for tensor in (*network.parameters(), *network.buffers()))


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated there; None where the system does not say."""
    if device.type == "cuda":
        # What torch holds in reserve counts as taken on the device, but is ours to use.
        gpu = device.index  # None: the current one
        reserve = torch.cuda.memory_reserved(gpu) - torch.cuda.memory_allocated(gpu)
        return int(torch.cuda.mem_get_info(gpu)[0] + reserve)
    if device.type == "mps":  # a share of the machine's memory, which the CPU uses as well
        return max(0, torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
        return int(available[1]) * 1024 if available else None
    except OSError:  # not Linux
        pages = os.sysconf_names.get("SC_AVPHYS_PAGES")
        return None if pages is None else os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def check_memory(name: str, network: Network, device: torch.device, num: int = 1) -> None:
    """Raise where the weights of an outlined network do not fit on the device, `num` times."""
    needed, free = num * num_bytes(network), free_memory(device)
    if free is None or needed <= free:
        return
    dtype = network.embedding.weight.dtype
    each = "its weights" if num == 1 else f"the weights of {num} replicas"
    over = several(needed, device) if num == 1 else ""
    formats = {}
    if dtype == torch.float32 and not network.packed_as:
        formats["--dtype bfloat16"] = needed // 2
    formats |= {f"--weights {form}": num * size for form, size in packed_bytes(network).items()}
    ways = [*([spread(over)] if over else ()), *fitting(free, formats)]
    advice = (
        f"they fit with {either(ways)}"
        if ways
        else "choose another device or a smaller model (remask models lists sizes)"
    )
    raise SettingsError(
        f"{name} needs {needed / 1e9:.1f} GB for {each} in "
        f"{precision_name(dtype, network.packed_as)} and {device} has {free / 1e9:.1f} GB free; "
        f"{advice}."
    )


def packed_bytes(network: Network) -> dict[str, int]:
    """Return the bytes of an outlined network in each packed format; none if it is packed."""
    if network.packed_as:
        return {}
    return {
        name: num_bytes(pack(copy.deepcopy(network), find_format(name))) for name in PACKED_BYTES
    }


def several(needed: int, device: torch.device, beside: int = 0) -> str:
    """Return the fewest devices of this kind that hold so many bytes, separated by commas.

    Each needs `beside` more free bytes. Empty if one device suffices, or all of them do not.
    """
    num = torch.cuda.device_count() if device.type == "cuda" else 1
    devices = [torch.device(device.type, i) for i in range(num)]
    room = 0
    for i, one in enumerate(devices):
        room += max(0, (free_memory(one) or 0) - beside)
        if room >= needed:
            return ",".join(map(str, devices[: i + 1])) if i else ""
    return ""


def spread(over: str) -> str:
    """Return the flags that spread the layers of a model over several devices."""
    return f"--device {over} --split layers"


def fitting(free: int, formats: Mapping[str, int]) -> list[str]:
    """Return the formats, named by their flags, that fit into so many bytes, with their size."""
    return [f"{flags} ({size / 1e9:.1f} GB)" for flags, size in formats.items() if size <= free]


def either(ways: Sequence[str]) -> str:
    """Join alternatives with commas and "or"."""
    *others, last = ways
    return f"{', '.join(others)} or {last}" if others else last
