"""Experts: many small gated MLPs, of which a router picks a few for every token.

The layer is the same in every family, the router is not: which experts, with which weights and in
which precision, stands in the family's own file. Tokens are sorted by expert, so that each expert
multiplies one contiguous slice; what a token gets depends on that token alone.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Public in newer versions of torch, under its private name since 2.8.
_GROUPED_MM = getattr(F, "grouped_mm", getattr(torch, "_grouped_mm", None))


class Experts(nn.Module):
    """Stacked gated MLPs behind a router: rows (T, width) -> weights (T, k), chosen (T, k).

    The terms of a token are summed in the dtype of its weights: a router that wants float32 there
    returns float32.
    """

    def __init__(self, router: nn.Module, num_experts: int, width: int, inner: int) -> None:
        super().__init__()
        self.router = router
        self.gate_up = nn.Parameter(torch.empty(num_experts, 2 * inner, width))
        self.down = nn.Parameter(torch.empty(num_experts, width, inner))

    def forward(self, x: Tensor) -> Tensor:
        """Return x (..., width) of the same shape and dtype."""
        rows = x.flatten(0, -2)  # (T, width)
        weights, chosen = self.router(rows)  # (T, k)
        # A token's terms are added in the order of its experts, as a loop over experts would.
        chosen, ranks = chosen.sort(-1)
        weights = weights.gather(-1, ranks)
        outputs = self.visit(rows, chosen)  # (T, k, width)
        return weighted_sum(outputs, weights).to(x.dtype).view(x.shape)

    def visit(self, rows: Tensor, chosen: Tensor) -> Tensor:
        """Return what each chosen expert makes of its token, (T, k, width)."""
        experts, order = chosen.flatten().sort(stable=True)  # (T k,)
        # bincount would read the largest expert back to the host; a search does not.
        numbers = torch.arange(len(self.down), device=rows.device)
        ends = torch.searchsorted(experts, numbers, right=True, out_int32=True)  # (E,)
        tokens = order // chosen.shape[-1]
        gate, up = grouped_linear(rows[tokens], self.gate_up, ends).chunk(2, -1)
        outputs = grouped_linear(F.silu(gate) * up, self.down, ends)  # (T k, width)
        places = torch.arange(len(order), device=rows.device)
        back = torch.empty_like(order).scatter_(0, order, places)
        # A gather, not a scatter: compiled, it becomes part of the sum that follows.
        return outputs[back.view(chosen.shape)]


def grouped_linear(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """Return x (N, in) with the e-th slice of its rows times weight[e] (E, out, in), (N, out).

    The e-th slice ends before row ends[e] and begins where the one before ends.
    """
    if _GROUPED_MM is not None and _suits_grouped_mm(x):
        out: Tensor = _GROUPED_MM(x, weight.transpose(1, 2), offs=ends)
        return out
    slices = zip(x.tensor_split(ends[:-1].tolist()), weight, strict=True)
    return torch.cat([F.linear(part, matrix) for part, matrix in slices])


def _suits_grouped_mm(x: Tensor) -> bool:
    """Return whether one kernel serves all experts: bfloat16 on Hopper or later."""
    if not x.is_cuda or x.dtype != torch.bfloat16:
        return False
    hopper = 9  # the device's properties are read once and compiled in: no graph is broken here
    return int(torch.cuda.get_device_properties(x.device).major) >= hopper


def weighted_sum(outputs: Tensor, weights: Tensor) -> Tensor:
    """Return sum_j weights[:, j] outputs[:, j], (T, width), rounded after every term."""
    terms = outputs * weights[..., None]  # (T, k, width), in the wider dtype of the two
    total = terms[:, 0]
    for j in range(1, terms.shape[1]):
        total = total + terms[:, j]
    return total
