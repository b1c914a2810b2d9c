"""What fits on the devices of this machine, for `remask doctor`.

What needs no device, such as the sizes of published models, is in `listing`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from remask.cli.listing import ONE_ANSWER, Size, catalogued, gigabytes, installed
from remask.denoisers import catalog
from remask.denoisers.devices import (
    choose_device,
    choose_dtype,
    free_memory,
    num_bytes,
    packed_bytes,
    several,
    smaller,
)
from remask.denoisers.load import find_config, outline
from remask.denoisers.tokenizer import read_json
from remask.sampling.batches import column_budget, token_budget

if TYPE_CHECKING:
    import torch


def estimate(name: str) -> dict[str, Any]:
    """Return the memory a model would take here, before it is loaded, and whether it fits."""
    device = choose_device("auto")
    dtype = choose_dtype("auto", device)
    checkpoint = None if Path(name).is_dir() else catalog.find(name)
    if checkpoint is None:
        size = _outlined(find_config(name).parent, str(dtype).removeprefix("torch."))[0]
    else:
        size = catalogued(checkpoint, dtype.itemsize)
    free = free_memory(device)
    most = token_budget(device)
    small = size.workspace(min(ONE_ANSWER, most), ONE_ANSWER, dtype.itemsize)
    full = size.workspace(most, column_budget(device), dtype.itemsize)
    over = several(size.num_bytes, device, small)
    fits, advice = _verdict(size, small, full, free, dtype, over)
    return {
        "model": name,
        "known_from": "config.json" if checkpoint is None else "the catalogue",
        "parameters": size.num_parameters,
        "device": str(device),
        "dtype": str(dtype).removeprefix("torch."),
        "weights_gb": gigabytes(size.num_bytes, 3),
        "workspace_gb": gigabytes(small, 3),
        "full_batch_workspace_gb": gigabytes(full, 3),
        "packed": {
            form: {"weights_gb": gigabytes(num, 3), "one_answer_gb": gigabytes(num + small, 3)}
            for form, num in size.packed.items()
        },
        "free_gb": gigabytes(free),
        "fits": fits,
        "advice": advice,
    }


def _verdict(
    size: Size, small: int, full: int, free: int | None, dtype: "torch.dtype", over: str
) -> tuple[str, str | None]:
    """Return yes, small batches, over several devices, packed, no or unknown, and what to do."""
    weights = size.num_bytes
    if free is None:
        return "unknown", "this system does not say how much memory is free"
    if weights + full <= free:
        return "yes", None
    if weights + small <= free:
        return "small batches", "score few answers at a time (--batch)"
    halved = weights // 2 if dtype.itemsize == 4 else None
    fits, left = "no", free - small
    if over:
        fits = "over several devices"
    elif (halved is None or halved > left) and any(num <= left for num in size.packed.values()):
        fits = "packed"
    return fits, smaller(left, halved, over, size.packed)


def _outlined(folder: Path, dtype: str) -> tuple[Size, int]:
    """Return the size of the network a config.json describes, and its context."""
    config = read_json(folder / "config.json")
    network = outline(config, folder).to(choose_dtype(dtype, choose_device("cpu")))
    size = Size(
        num_parameters=sum(parameter.numel() for parameter in network.parameters()),
        num_bytes=num_bytes(network),
        width=network.embedding.embedding_dim,
        vocab_size=network.vocab_size,
        experts_per_token=int(config.get("num_experts_per_tok") or 0),
        num_kept=network.num_kept,
        packed=packed_bytes(network),
    )
    return size, network.max_length


def examine() -> dict[str, Any]:
    """Return what is installed, where models would run, and what to do about what is missing."""
    import torch

    device = choose_device("auto")
    on_gpu = device.type != "cpu"
    return {
        **installed(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else device.type,
        "dtype": str(choose_dtype("auto", device)).removeprefix("torch."),
        "cpu_threads": torch.get_num_threads(),
        "free_memory_gb": gigabytes(free_memory(torch.device("cpu"))),
        "free_gpu_memory_gb": gigabytes(free_memory(device)) if on_gpu else None,
    }
