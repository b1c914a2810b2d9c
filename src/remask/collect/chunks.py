"""Chunks of about a minute: what is computed together and committed to disk together.

The cost of a chunk is estimated in tokens times forward passes, never measured with a clock, so
that a resumed run cuts the same chunks and writes the same bytes: other batches may change the last
digit of a number. A kill loses at most the chunks that are being computed.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from torch import nn

from remask.denoisers.base import Denoiser
from remask.denoisers.experts import Experts
from remask.denoisers.native import native_of
from remask.denoisers.quantise import PackedMatrix

SECONDS = 60
# Operations per second, each below what such a device does when nothing else runs on it: two cores
# reach 8e10 on the embedded model. A CPU gains nothing from larger chunks; a GPU does.
RATES = {"cpu": 2.5e10, "mps": 1e12, "cuda": 2e14}


class Chunk(NamedTuple):
    """The rows from number `start` to before `stop`."""

    start: int
    stop: int


class RowSize(NamedTuple):
    """The size of a row."""

    tokens: int
    cost: int = 0  # tokens times forward passes


def cut(
    sizes: Iterable[tuple[int, RowSize]],
    most: int,
    *,
    tokens: int | None = None,
    budget: int | None = None,
) -> list[Chunk]:
    """Return rows, given as numbers with their sizes in ascending order, in chunks.

    A chunk is closed before a gap, and before the row that would exceed a limit. Cutting the rows
    that are left after any number of chunks gives the same chunks again.

    Args:
        sizes: the rows.
        most: maximum number of rows.
        tokens: maximum number of tokens, padded to the longest row; None: no limit.
        budget: maximum sum of the costs; None: no limit.
    """
    chunks: list[Chunk] = []
    longest = spent = 0
    for row, size in sizes:
        if chunks and chunks[-1].stop == row:
            start, longest, spent = chunks[-1].start, max(longest, size.tokens), spent + size.cost
            rows = row + 1 - start
            is_over = tokens is not None and rows * longest > tokens
            if rows <= most and not is_over and (budget is None or spent <= budget):
                chunks[-1] = Chunk(start, row + 1)
                continue
        chunks.append(Chunk(row, row + 1))
        longest, spent = size
    return chunks


def work_budget(denoiser: Denoiser) -> int | None:
    """Return the tokens times forward passes that the device computes in about a minute.

    None for a model of unknown size. A parameter costs two operations per token, and one of an
    expert that a token does not visit none; what attention costs besides is not counted.
    """
    native = native_of(denoiser)
    if native is None:
        return None
    rate = RATES.get(denoiser.device.type, RATES["cpu"])
    return max(1, int(SECONDS * rate / (2 * num_active(native.model))))


def num_active(model: nn.Module) -> int:
    """Return the number of parameters that compute one token: of experts, only the chosen ones."""
    idle = 0
    for module in model.modules():
        if isinstance(module, Experts):
            num_experts = len(module.down)
            passed_over = num_experts - cast(int, module.router.num_chosen)
            idle += passed_over * (module.gate_up.numel() + module.down.numel()) // num_experts
    packed = sum(m.numel() for m in model.modules() if isinstance(m, PackedMatrix))
    return sum(parameter.numel() for parameter in model.parameters()) + packed - idle
