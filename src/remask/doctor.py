"""Facts about this installation and the models it can load: for `doctor` and `models`."""

import os
import platform
import re
from importlib import metadata
from typing import Any

from remask.denoisers.llada import ARCHITECTURE
from remask.denoisers.load import EMBEDDED, Shards, choose_device, choose_dtype

HUB_PARAMETERS = {
    "GSAI-ML/LLaDA-8B-Base": 8_015_581_184,
    "GSAI-ML/LLaDA-8B-Instruct": 8_015_581_184,
    "GSAI-ML/LLaDA-1.5": 8_015_581_184,
}
_WATCHED = (
    "torch", "numpy", "tokenizers", "safetensors", "huggingface_hub", "rapidfuzz", "pyarrow",
    "sentence-transformers", "transformers",
)  # fmt: skip


def models() -> list[dict[str, Any]]:
    """Return every model known by name, with its family, size and memory in bfloat16."""
    sizes = {"tiny": embedded_parameters(), **HUB_PARAMETERS}
    return [
        {
            "model": name,
            "family": "LLaDA",
            "architecture": ARCHITECTURE,
            "parameters": num_parameters,
            "bfloat16_gb": None if num_parameters is None else round(2 * num_parameters / 1e9, 3),
        }
        for name, num_parameters in sizes.items()
    ]


def embedded_parameters() -> int | None:
    """Return the size of the embedded model; None where the package came without its weights."""
    if not (EMBEDDED / "config.json").exists():
        return None
    return sum(tensor.numel() for _, tensor in Shards(EMBEDDED).tensors())


def examine() -> dict[str, Any]:
    """Return what is installed, where models would run, and what to do about what is missing."""
    import torch

    device = choose_device("auto")
    cuda = device.type == "cuda"
    return {
        "remask": metadata.version("remask"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _WATCHED},
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "dtype": str(choose_dtype("auto", device)).removeprefix("torch."),
        "cpu_threads": torch.get_num_threads(),
        "free_memory_gb": _gigabytes(_free_memory()),
        "free_gpu_memory_gb": _gigabytes(torch.cuda.mem_get_info()[0]) if cuda else None,
        "embedded_model": embedded_parameters() is not None,
        "extras": extras(metadata.requires("remask") or []),
    }


def extras(requirements: list[str]) -> dict[str, dict[str, Any]]:
    """Return for each extra the packages that are missing and the line that installs them."""
    wanted: dict[str, list[str]] = {}
    for line in requirements:
        found = re.match(r"([\w.-]+)[^;]*;.*extra == ['\"]([\w-]+)['\"]", line)
        if found and found[1] != "remask":  # an extra made of others has no package of its own
            wanted.setdefault(found[2], []).append(found[1])
    out = {}
    for extra, packages in wanted.items():
        missing = [name for name in packages if _version(name) is None]
        install = f"pip install 'remask[{extra}]'" if missing else None
        out[extra] = {"missing": missing, "install": install}
    return out


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _free_memory() -> int | None:
    """Return the bytes a new process can have; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = re.search(r"MemAvailable:\s+(\d+) kB", file.read())
        return int(found[1]) * 1024 if found else None
    except OSError:  # not Linux
        pages = os.sysconf_names.get("SC_AVPHYS_PAGES")
        return None if pages is None else os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def _gigabytes(size: int | None) -> float | None:
    return None if size is None else round(size / 1e9, 1)
