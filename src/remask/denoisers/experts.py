"""Mixture of experts: a router selects a few small gated MLPs for each token.

Routers differ between families and are defined there, except `SoftmaxRouter`, which two families
share. Tokens are sorted by expert, so each expert multiplies one contiguous slice. The output for a
token depends on that token alone.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remask.denoisers.quantise import PackedMatrix

# Public in newer versions of torch, under its private name since 2.8.
_GROUPED_MM = getattr(F, "grouped_mm", getattr(torch, "_grouped_mm", None))
UNPACKED = 2**26  # numbers of packed experts that are unpacked at once: 134 MB in bfloat16
_ALIGNED = 8  # bfloat16 numbers: the kernel wants rows of whole 16 bytes


class SoftmaxRouter(nn.Module):
    """Select the k most probable experts, weighted by their probabilities.

    Args:
        width: of the rows.
        num_experts: number of experts.
        num_chosen: k.
        biased: add a bias per expert to the probabilities, for the selection and the weights.
        renormalised: divide the weights of the selected experts by their sum.
    """

    def __init__(
        self,
        width: int,
        num_experts: int,
        num_chosen: int,
        *,
        biased: bool = False,
        renormalised: bool = False,
    ) -> None:
        super().__init__()
        self.num_chosen, self.renormalised = num_chosen, renormalised
        self.gate = nn.Linear(width, num_experts, bias=False)
        self.expert_bias: Tensor | None
        self.register_buffer("expert_bias", torch.zeros(num_experts) if biased else None)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights in the dtype of the rows and chosen experts, each (T, k)."""
        probs = self.gate(rows).softmax(-1, dtype=torch.float32)  # (T, E)
        if self.expert_bias is not None:
            probs = probs + self.expert_bias
        weights, chosen = probs.topk(self.num_chosen)
        if self.renormalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights.to(rows.dtype), chosen


class Experts(nn.Module):
    """Stacked gated MLPs behind a router: rows (T, width) -> weights (T, k), chosen (T, k).

    The terms of a token are summed in the dtype of its weights: a router that wants float32 there
    returns float32.
    """

    def __init__(self, router: nn.Module, num_experts: int, width: int, inner: int) -> None:
        super().__init__()
        self.router, self.num_experts = router, num_experts
        # Parameters, or packed matrices if the weights are quantised.
        self.gate_up: Any = nn.Parameter(torch.empty(num_experts, 2 * inner, width))
        self.down: Any = nn.Parameter(torch.empty(num_experts, width, inner))

    def forward(self, x: Tensor) -> Tensor:
        """Return x (..., width) of the same shape and dtype."""
        rows = x.flatten(0, -2)  # (T, width)
        weights, chosen = self.router(rows)  # (T, k)
        # A token's terms are added in the order of its experts, as a loop over experts would.
        chosen, ranks = chosen.sort(-1)
        weights = weights.gather(-1, ranks)
        outputs, places = self.visit(rows, chosen)
        return weighted_sum(outputs, places, weights).to(x.dtype).view(x.shape)

    def visit(self, rows: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs of selected experts (T k, width), and their rows by token (T, k)."""
        # Short keys: the sort goes over the bits of a key, a few at a time.
        experts, order = chosen.flatten().to(torch.int16).sort(stable=True)  # (T k,)
        # bincount would read the largest expert back to the host; a search does not.
        numbers = torch.arange(self.num_experts, device=rows.device, dtype=torch.int16)
        ends = torch.searchsorted(experts, numbers, right=True, out_int32=True)  # (E,)
        tokens = order // chosen.shape[-1]
        gate, up = grouped_linear(rows[tokens], self.gate_up, ends).chunk(2, -1)
        outputs = grouped_linear(F.silu(gate) * up, self.down, ends)  # (T k, width)
        places = torch.arange(len(order), device=rows.device)
        back = torch.empty_like(order).scatter_(0, order, places)
        return outputs, back.view(chosen.shape)


def grouped_linear(x: Tensor, weight: Tensor | PackedMatrix, ends: Tensor) -> Tensor:
    """Return x (N, in) with the e-th slice of its rows times weight[e] (E, out, in), (N, out).

    The e-th slice ends before row ends[e] and begins where the one before ends.
    """
    out: Tensor
    if isinstance(weight, PackedMatrix):
        out = _unpacked_in_parts(x, weight, ends)
    elif _GROUPED_MM is not None and _suits_grouped_mm(x):
        out = _GROUPED_MM(x, weight.transpose(1, 2), offs=ends)
    else:
        out = _slice_by_slice(x, weight, ends)
    return out


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _unpacked_in_parts(x: Tensor, weight: PackedMatrix, ends: Tensor) -> Tensor:
    """Return the same for packed experts; selected experts are unpacked, a few at a time."""
    stops = ends.tolist()
    starts = [0, *stops[:-1]]
    visited = [e for e, (start, stop) in enumerate(zip(starts, stops, strict=True)) if start < stop]
    size = max(1, UNPACKED // prod(weight.shape[1:]))
    outputs = [x.new_empty(0, weight.shape[1])]  # no tokens at all
    for first in range(0, len(visited), size):
        some = visited[first : first + size]
        start = starts[some[0]]
        rows = x[start : stops[some[-1]]]
        own_ends = torch.tensor([stops[e] - start for e in some], device=x.device).int()
        outputs.append(grouped_linear(rows, weight.unpacked(some, x.dtype), own_ends))
    return torch.cat(outputs)


# Every batch has other slices and would be compiled again.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _slice_by_slice(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    slices = zip(x.tensor_split(ends[:-1].tolist()), weight, strict=True)
    return torch.cat([F.linear(part, matrix) for part, matrix in slices])


def _suits_grouped_mm(x: Tensor) -> bool:
    """Return whether the grouped kernel applies: bfloat16, aligned rows, Hopper or later."""
    if not x.is_cuda or x.dtype != torch.bfloat16 or x.shape[-1] % _ALIGNED:
        return False
    hopper = 9  # the device's properties are read once and compiled in: no graph is broken here
    return int(torch.cuda.get_device_properties(x.device).major) >= hopper


def weighted_sum(outputs: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """Return sum_j weights[:, j] outputs[places[:, j]], (T, width), rounded after every term.

    Term by term: a tensor of all of them, (T, k, width), would be written only to be read once.
    """
    total = outputs[places[:, 0]] * weights[:, :1]  # in the wider dtype of the two
    for j in range(1, places.shape[1]):
        total = total + outputs[places[:, j]] * weights[:, j : j + 1]
    return total


def expert_map(
    ours: str, hub: str, num_experts: int, inner: int, width: int
) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield the stacked weights of `Experts` with their hub tensors, expert by expert."""
    numbers = range(num_experts)
    halves = [f"{hub}experts.{e}.{part}_proj.weight" for e in numbers for part in ("gate", "up")]
    yield f"{ours}gate_up", [(name, inner) for name in halves]
    yield f"{ours}down", [(f"{hub}experts.{e}.down_proj.weight", width) for e in numbers]
