"""Early commit: what is masked of a block is written at once when its predictions are sure enough.

This is after Prophet (arXiv:2508.19982). At every step the lead of the likeliest token over the
second, in logits, is looked at; where the least lead of what is masked reaches a threshold, every
masked place takes its likeliest token. The threshold falls in three phases of the steps, up to
0.33, up to 0.67 and after, as in the code that its authors published (`pixeli99/Prophet`): 7.5, 5
and 2.5. `commit_gap` is the middle one, and the others stay one and a half times and half of it. We
read that code and not the paper, which by what others write of it has 8, 5 and 3.

Departures. They take the mean over the answer, five places behind words that they force into the
text: here no place is known beforehand, so it is all that is masked, and the minimum, since a mean
over many places is that of the easy ones. The end tokens of the tail are very sure, and so is much
of a program, while the places on which it depends are not. They write the whole canvas when the gap
opens: here it is the block, whose steps are also what the phases count, and later blocks are
written in their turn. They report greedy decoding, and above temperature 0 their code would write
what was drawn: noise, at so many places at once. Here it is the likeliest token even then.
"""

import torch
from torch import Tensor

_PHASES = ((0.33, 1.5), (0.67, 1.0))  # (progress below which, times the gap)
_LATE = 0.5


def token_gap(logits: Tensor) -> Tensor:
    """Return the lead of the likeliest token over the second, (M,), under `logits` (M, V)."""
    first, second = logits.topk(2, dim=1).values.unbind(1)
    return first - second


def commit_threshold(gap: float, step: int, steps: int) -> float:
    """Return the gap from which on this of so many steps, counted from 0, commits."""
    progress = (step + 1) / steps
    return gap * next((times for limit, times in _PHASES if progress < limit), _LATE)


def opens(gaps: Tensor, masked: Tensor, threshold: float) -> Tensor:
    """Return the rows that are to be committed, (B,) bool, by their `gaps` (B, L) where masked."""
    least = torch.where(masked, gaps, torch.inf).amin(1)
    return (least >= threshold) & masked.any(1)
