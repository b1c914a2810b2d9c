"""Quantise the linear layers and the experts of a network.

The embedding, the head, routers and norms keep their dtype: an embedding is not multiplied, norms
are small, and rounding the head or a router would change scores or the choice of experts.
"""

from torch import nn

from remask.denoisers.experts import Experts
from remask.denoisers.native import Network, TensorMap, cut_rows, tensor_rows
from remask.denoisers.quantise import PackedLinear, PackedMatrix, Place, WeightFormat


def pack(network: Network, form: WeightFormat | None) -> Network:
    """Replace weights of an outlined network by uninitialised packed ones, in place.

    The network must not be cast to another dtype afterwards. None changes nothing.
    """
    if form is None:
        return network
    device = network.embedding.weight.device
    with device:
        for block in network.blocks:
            _pack(block, form)
    network.packed_as = form.name
    return network


def _pack(module: nn.Module, form: WeightFormat) -> None:
    if isinstance(module, Experts):
        for name in ("gate_up", "down"):
            shape = getattr(module, name).shape
            delattr(module, name)
            setattr(module, name, PackedMatrix(form, shape))
        return
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, PackedLinear(form, child))
        else:
            _pack(child, form)


def places(network: Network, tensor_map: TensorMap) -> dict[str, Place]:
    """Return the destination of each tensor of a checkpoint by hub name."""
    ours: dict[str, Place] = {}
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        ours[name] = tensor_rows(tensor)
    for name, module in network.named_modules():
        if isinstance(module, PackedMatrix):
            ours[name] = module.rows
    return cut_rows(ours, tensor_map)
