"""What fits on the devices of this machine, for `remask doctor`.

What needs no device, such as the sizes of published models, is in `listing`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remask.cli.listing import ONE_ANSWER, Size, catalogued, gigabytes, installed
from remask.denoisers import catalog
from remask.denoisers.catalog import Checkpoint
from remask.denoisers.devices import (
    choose_device,
    choose_dtype,
    either,
    fitting,
    free_memory,
    num_bytes,
    packed_bytes,
    several,
    spread,
)
from remask.denoisers.load import find_config, outline
from remask.denoisers.tokenizer import read_json
from remask.sampling.batches import column_budget, token_budget
from remask.tasks.execution import isolation

if TYPE_CHECKING:
    import torch

HALF = "--dtype bfloat16"  # what a model that is too large in float32 may be loaded with


def estimate(name: str) -> dict[str, Any]:
    """Return the memory a model would take here, before it is loaded, and whether it fits.

    What is needed to verify answers is needed in all, the weights included.
    """
    device = choose_device("auto")
    dtype = choose_dtype("auto", device)
    checkpoint = None if Path(name).is_dir() else catalog.find(name)
    source = checkpoint or find_config(name).parent
    size, free, most = _size(source, dtype), free_memory(device), token_budget(device)
    needs = _one_answer(size, min(ONE_ANSWER, most), dtype)
    full = size.num_bytes + size.workspace(most, column_budget(device), dtype.itemsize)
    halves: dict[str, int] = {}
    if dtype.itemsize == 4:
        half = choose_dtype("bfloat16", device)
        halves = _one_answer(_size(source, half), min(ONE_ANSWER, most), half)
    over = several(size.num_bytes, device, needs[""] - size.num_bytes)
    fits, advice = _verdict(needs, halves, full, free, over)
    return {
        "model": name,
        "known_from": "config.json" if checkpoint is None else "the catalogue",
        "parameters": size.num_parameters,
        "device": str(device),
        "dtype": str(dtype).removeprefix("torch."),
        "weights_gb": gigabytes(size.num_bytes, 3),
        "one_answer_gb": gigabytes(needs[""], 3),
        "full_batches_gb": gigabytes(full, 3),
        "packed": {
            form: {
                "weights_gb": gigabytes(num, 3),
                "one_answer_gb": gigabytes(needs[f"--weights {form}"], 3),
            }
            for form, num in size.packed.items()
        },
        "free_gb": gigabytes(free),
        "fits": fits,
        "advice": advice,
    }


def _size(source: Checkpoint | Path, dtype: "torch.dtype") -> Size:
    """Return the size of a published model, or of one in a folder, in a number format."""
    if isinstance(source, Checkpoint):
        return catalogued(source, dtype.itemsize)
    return _outlined(source, dtype)


def _one_answer(size: Size, num_tokens: int, dtype: "torch.dtype") -> dict[str, int]:
    """Return the bytes needed to verify one answer, by the flag of the weights; "": as they are."""
    small = size.workspace(num_tokens, ONE_ANSWER, dtype.itemsize)
    packed = {f"--weights {form}": num + small for form, num in size.packed.items()}
    return {"": size.num_bytes + small, **packed}


def _verdict(
    needs: Mapping[str, int], halves: Mapping[str, int], full: int, free: int | None, over: str
) -> tuple[str, str | None]:
    """Return yes, small batches, over several devices, fewer bits, no or unknown, and what to do.

    Args:
        needs: bytes to verify one answer, by the flag of the weights.
        halves: the same in half precision; none where that is used already.
        full: bytes for full batches.
        free: bytes on the device; None where nobody knows.
        over: several devices over which the model fits.
    """
    if free is None:
        return "unknown", "this system does not say how much memory is free"
    if full <= free:
        return "yes", None
    if needs[""] <= free:
        return "small batches", "score few answers at a time (--batch)"
    halved = {f"{HALF} {flag}".strip(): num for flag, num in halves.items()}
    one_flag = {flag: num for flag, num in {**halved, **needs}.items() if flag.count("--") == 1}
    ways = fitting(free, one_flag) or fitting(free, halved)
    within = f"in {free / 1e9:.1f} GB with {either(ways)}" if ways else ""
    if over:
        advice = f"fits with {spread(over)}" + (f", or {within}" if within else "")
        return "over several devices", advice
    if within:
        return "fewer bits", f"fits {within}"
    return "no", "choose another device or a smaller model (remask models lists sizes)"


def _outlined(folder: Path, dtype: "torch.dtype") -> Size:
    """Return the size of the network that a config.json describes."""
    config = read_json(folder / "config.json")
    network = outline(config, folder).to(dtype)
    return Size(
        num_parameters=sum(parameter.numel() for parameter in network.parameters()),
        num_bytes=num_bytes(network),
        width=network.embedding.embedding_dim,
        vocab_size=network.vocab_size,
        experts_per_token=int(config.get("num_experts_per_tok") or 0),
        num_kept=network.num_kept,
        packed=packed_bytes(network),
    )


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
        "programs": ", ".join(isolation()) or "run with your rights",
    }
