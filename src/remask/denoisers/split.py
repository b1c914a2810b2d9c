"""Spread the layers of one model over several devices, in order.

The embedding is with the first layer, the final norm and the head with the last. A tied head
becomes a copy of the embedding on the last device. Hidden states move between devices
(`native.Network`); logits are bit-identical to those of one device. The devices work one after
another, so replicas (`wrap.Replicas`) are faster for models that fit on one device.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import nn

from remask.denoisers.native import Network
from remask.errors import SettingsError
from remask.settings import unknown_name

SPLITS = ("replicas", "layers")  # one model per device, or one model over all of them


def check(split: str, targets: Sequence[torch.device], devices: str) -> None:
    """Raise if the model cannot be split over these devices."""
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    if split == "layers" and len(targets) == 1:
        raise SettingsError(
            f"split 'layers' spreads one model over several devices and device {devices!r} is one; "
            "name more of them, as in cuda:0,cuda:1, or leave split out."
        )


def untie(network: Network) -> bool:
    """Give an outlined network with a tied head its own head; return whether it was tied."""
    tied = network.unembedding is None
    if tied:
        like = network.embedding.weight
        network.unembedding = nn.Linear(
            like.shape[1], like.shape[0], bias=False, device="meta", dtype=like.dtype
        )
    return tied


def sizes(network: Network) -> list[int]:
    """Return the bytes of each layer; the ends include embedding, final norm and head."""
    totals = [_num_bytes(block) for block in network.blocks]
    totals[0] += _num_bytes(network.embedding)
    for part in (network.norm, network.unembedding):
        totals[-1] += 0 if part is None else _num_bytes(part)
    return totals


def _num_bytes(part: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*part.parameters(), *part.buffers()))


def runs(sizes: Sequence[int], rooms: Sequence[int]) -> list[int]:
    """Return how many consecutive layers each device gets, at least one.

    The largest share of free memory that any device needs is as small as possible.

    Args:
        sizes: bytes of each layer.
        rooms: free bytes of each device.
    """
    before = [0, *accumulate(sizes)]

    def fill(device: int, start: int, end: int) -> float:
        return (before[end] - before[start]) / max(rooms[device], 1)

    # best[end]: the largest share if the devices so far hold the layers up to `end`, and the number
    # of layers on each of them.
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for device in range(len(rooms)):
        best = {
            end: min(
                (max(full, fill(device, start, end)), [*nums, end - start])
                for start, (full, nums) in best.items()
                if start < end
            )
            for end in range(device + 1, len(sizes) + 1)
        }
    return best[len(sizes)][1]


def homes(
    network: Network, targets: Sequence[torch.device], free: dict[torch.device, int | None]
) -> list[torch.device]:
    """Return the device of each layer; raise if there are more devices than layers."""
    num = len(network.blocks)
    if len(targets) > num:
        named = ",".join(map(str, targets))
        raise SettingsError(
            f"device {named!r} names {len(targets)} devices and the model has {num} layers; with "
            f"split layers name at most {num}."
        )
    shared = Counter(targets)
    known = [free[target] for target in targets]
    # Devices with unknown free memory are treated alike.
    rooms = [
        1 if None in known else (room or 0) // shared[target]
        for target, room in zip(targets, known, strict=True)
    ]
    return [
        target
        for target, run in zip(targets, runs(sizes(network), rooms), strict=True)
        for _ in range(run)
    ]


def check_memory(
    name: str,
    network: Network,
    places: Sequence[torch.device],
    free: dict[torch.device, int | None],
) -> None:
    """Raise if the layers of an outlined network do not fit on their devices."""
    needed: Counter[torch.device] = Counter()
    for place, size in zip(places, sizes(network), strict=True):
        needed[place] += size
    for device, size in needed.items():
        room = free[device]
        if room is not None and size > room:
            num = Counter(places)[device]
            dtype = str(network.embedding.weight.dtype).removeprefix("torch.")
            raise SettingsError(
                f"{name} needs {size / 1e9:.1f} GB for {num} of its {len(places)} layers in {dtype}"
                f" and {device} has {room / 1e9:.1f} GB free; name more devices, or choose a "
                "smaller model (remask models lists sizes)."
            )


def place(network: Network, places: Sequence[torch.device]) -> None:
    """Allocate an outlined network, each layer on its device."""
    network.embedding.to_empty(device=places[0])
    for block, device in zip(network.blocks, places, strict=True):
        block.to_empty(device=device)
    for part in (network.norm, network.unembedding):
        if part is not None:
            part.to_empty(device=places[-1])


def copy_head(network: Network) -> None:
    """Copy the embedding into the head of a network that was untied."""
    assert network.unembedding is not None
    with torch.no_grad():
        network.unembedding.weight.copy_(network.embedding.weight)
