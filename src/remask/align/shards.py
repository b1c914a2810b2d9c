"""Tensors of which each process has a part, and what they are as a whole."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor of which each process has a part; all of them must ask."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part_of(value: Tensor, like: Tensor) -> Tensor:
    """Return this process's part of a tensor that every process has; all of it where all is held.

    Args:
        value: the whole.
        like: what is divided as it is to be.
    """
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor):
        return value
    placed = value.to(like.device)
    return distribute_tensor(placed, like.device_mesh, like.placements, src_data_rank=None)


def held(tensor: Tensor) -> Tensor:
    """Return what of a tensor is in this process."""
    from torch.distributed.tensor import DTensor

    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole_state(network: nn.Module, *, here: bool) -> dict[str, Tensor]:
    """Return the whole weights, in the CPU's memory where they were divided; all must ask.

    Args:
        network: divided or not.
        here: whether this process wants them; the others get none.
    """
    return whole_tensors(network.state_dict(), here=here)


@torch.no_grad()
def whole_tensors(tensors: Mapping[str, Tensor], *, here: bool) -> dict[str, Tensor]:
    """Return the whole of each tensor, one after the other; see `whole_state`."""
    out = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        if here:
            out[name] = full if full is tensor else full.cpu()
    return out
