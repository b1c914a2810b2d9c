"""Work: the arithmetic that a loop has to do, counted from the shapes of its tensors.

2 x matrices x positions + 4 x context x width x layers x positions for the trunk; 2 x the matrices
of the last MLP and of the head for each row that is asked about: no other needs them. A loop is
charged with what it needs, not with what it does: a block-causal model needs the blocks before the
current one only once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from torch import nn

from remask.denoisers.experts import Experts
from remask.denoisers.native import Network
from remask.denoisers.quantise import PackedLinear
from remask.denoisers.transformer import Attention, Block


class Pass(NamedTuple):
    """So many forward passes of one row."""

    positions: int  # that go through the trunk
    context: int  # that each of them sees
    times: int


class Work(NamedTuple):
    """What a call had to do."""

    forwards: int  # of one row each
    positions: int  # through the trunk
    flops: float


def flops_of(network: Network, length: int, positions: int, head_rows: int) -> float:
    """Return the arithmetic of so many positions through the trunk and rows through the head."""
    mlp = _weights(network, cast(Block, network.blocks[-1]).mlp)
    attentions = [m for m in network.blocks.modules() if isinstance(m, Attention)]
    mixed = 4 * length * sum(a.num_heads * a.head_dim for a in attentions)  # scores and mixing
    per_position = 2.0 * (_weights(network, network.blocks) - mlp) + mixed
    return positions * per_position + head_rows * 2.0 * (mlp + network.embedding.weight.numel())


def _weights(network: Network, part: nn.Module) -> float:
    """Return how many weights of a part of the network one token meets."""
    found = 0.0
    for module in part.modules():
        if isinstance(module, nn.Linear | PackedLinear):
            found += module.weight.numel()
        elif isinstance(module, Experts):
            found += _visited(network, module)
    return found


def _visited(network: Network, layer: Experts) -> float:
    """Return the weights of the experts that one token visits, and of a router without a layer."""
    config: object = network.config
    chosen: int = config.num_experts_per_tok  # type: ignore[attr-defined]
    own = [p.numel() for p in layer.router.parameters(recurse=False)]
    return chosen / len(layer.down) * (layer.gate_up.numel() + layer.down.numel()) + sum(own)


def whole(length: int, steps: int) -> list[Pass]:
    """Return the passes of a loop that sends the whole row each time."""
    return [Pass(length, length, steps)]


def block_by_block(windows: Sequence[slice], steps: Sequence[int], block_size: int) -> list[Pass]:
    """Return the passes that are needed where no block sees a later one.

    What comes before is seen once; a finished block once more, so that the next ones can see it.
    """
    before = windows[0].start // block_size * block_size
    passes = [Pass(before, before, 1)]
    for window, num in zip(windows, steps, strict=True):
        first = window.start // block_size * block_size
        more = 0 if window == windows[-1] else 1
        passes.append(Pass(window.stop - first, window.stop, num + more))
    return passes


def up_to_each(windows: Sequence[slice], steps: Sequence[int]) -> list[Pass]:
    """Return the passes of a loop that sends everything up to the end of the current block."""
    return [Pass(w.stop, w.stop, num) for w, num in zip(windows, steps, strict=True)]


def work_of(
    network: Network, passes: Iterable[Pass], *, rows: int, forwards: int, head_rows: int | None
) -> Work:
    """Return the work of so many rows; every position is asked about unless `head_rows` says less.

    Args:
        network: whose matrices are counted.
        passes: of one row.
        rows: that make them.
        forwards: of all rows together, as a loop without a cache counts them.
        head_rows: positions that go through the last MLP and the head, of all rows together.
    """
    passes = list(passes)
    positions = rows * sum(p.positions * p.times for p in passes)
    trunk = sum(flops_of(network, p.context, rows * p.positions * p.times, 0) for p in passes)
    asked = positions if head_rows is None else head_rows
    return Work(forwards, positions, trunk + flops_of(network, 0, 0, asked))
