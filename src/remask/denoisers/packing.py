"""Which weights of a network are packed: the large ones that every token is multiplied with.

That is the linear layers of its blocks, and its experts. The embedding is looked up, not multiplied
with. The head decides every score, and routers which experts are asked, so both stay as they are;
norms are a few numbers.
"""

from torch import nn

from remask.denoisers.experts import Experts
from remask.denoisers.native import Network, TensorMap, cut_rows, tensor_rows
from remask.denoisers.quantise import PackedLinear, PackedMatrix, Place, WeightFormat


def pack(network: Network, form: WeightFormat | None) -> Network:
    """Return an outlined network with room for packed weights; None: as it is.

    It is changed in place, and must not be cast to another dtype after that.
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
    """Replace what is to be packed inside of a module."""
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
    """Return, by hub name, the place of each tensor of a checkpoint, packed or not."""
    ours: dict[str, Place] = {}
    for name, tensor in (*network.named_parameters(), *network.named_buffers()):
        ours[name] = tensor_rows(tensor)
    for name, module in network.named_modules():
        if isinstance(module, PackedMatrix):
            ours[name] = module.rows
    return cut_rows(ours, tensor_map)
