"""How an answer came about: what its steps would have written, and how sure they were.

It stays on the device until the batch is written, and is read then. Of a block that is written in
sub-blocks, a step is about the current one: nothing is predicted of those behind it yet.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from remask.sampling.blocks import BlockView
from remask.values import Trace


class BlockTrace:
    """The steps of one block of the rows still being written, `size` columns of each."""

    def __init__(self, view: BlockView, size: int, mask_id: int, num_top: int = 0) -> None:
        within, device = view.within, view.within.device
        first = within.int().argmax(1, keepdim=True)  # (b, 1)
        columns = first + torch.arange(size, device=device)  # (b, k)
        inside = columns < within.shape[1]
        self.columns = columns.clamp(max=within.shape[1] - 1)
        self.inside = inside & within.gather(1, self.columns)  # the last one may be cut short
        self.rows, self.starts = view.rows, (view.starts + first)[:, 0]  # (b,) of the batch
        self.mask_id = mask_id
        self.entropy = torch.zeros(within.shape, device=device)  # (b, w) of what revealed a token
        self.steps: list[tuple[Tensor, Tensor, Tensor]] = []  # tentative (b, k), mean, took part
        self.num_top = num_top  # K: how many of the likeliest tokens are wanted
        # (b, w, K) at the step that wrote each token: the likeliest ones, and their log p
        self.top_tokens = torch.full((*within.shape, num_top), -1, device=device)
        self.top_logp = torch.full((*within.shape, num_top), -torch.inf, device=device)

    def note(self, tentative: Tensor, entropy: Tensor, looked: Tensor, written: Tensor) -> None:
        """Take down one step, all of it (b, w).

        Args:
            tentative: the tokens, and the likeliest ones where nothing is written yet; mask tokens
                where nothing is predicted.
            entropy: of the predictions.
            looked: bool, the places whose entropy is averaged; a row without any has no step.
            written: bool, those whose token is written for good.
        """
        self.entropy = torch.where(written, entropy, self.entropy)
        tokens = tentative.gather(1, self.columns)
        tokens = tokens.masked_fill((tokens == self.mask_id) | ~self.inside, -1)
        # As many columns in any company: a sum over more of them may round otherwise.
        here = looked.gather(1, self.columns) & self.inside
        num = here.sum(1)
        mean = (entropy.gather(1, self.columns) * here).sum(1) / num.clamp(min=1)
        self.steps.append((tokens, mean, num > 0))

    def note_top(self, tokens: Tensor, logp: Tensor, places: Tensor, written: Tensor) -> None:
        """Take down the likeliest tokens (M, K) of predictions at flat `places` (M,).

        Those of the places that were `written` (b, w): a later writing goes over an earlier one.
        """
        if self.num_top == 0:
            return
        here = written.flatten()[places]  # (M,)
        known, where = slice(0, tokens.shape[1]), places[here]  # a small vocabulary has fewer
        self.top_tokens.flatten(0, 1)[where, known] = tokens[here]
        self.top_logp.flatten(0, 1)[where, known] = logp[here]

    def lead(self, entropy: Tensor, written: Tensor) -> None:
        """Take down first tokens (b,) that were written without a step."""
        first = torch.where(written, entropy, self.entropy[:, 0])
        self.entropy = torch.cat((first[:, None], self.entropy[:, 1:]), 1)

    def read(self) -> Iterator[tuple[int, "_Row"]]:
        """Yield the rows of the batch that took part, with what was taken down of each."""
        if not self.steps:
            return
        tentative, means, busy = (
            torch.stack(values, 1).tolist() for values in zip(*self.steps, strict=True)
        )
        entropy = self.entropy.gather(1, self.columns).tolist()
        sizes, starts = self.inside.sum(1).tolist(), self.starts.tolist()
        for i, row in enumerate(self.rows.tolist()):
            size, steps = sizes[i], [s for s, taken in enumerate(busy[i]) if taken]
            tokens = [tentative[i][s][:size] for s in steps]
            yield row, _Row(starts[i], tokens, [means[i][s] for s in steps], entropy[i][:size])


class _Row(NamedTuple):
    """One row of a block."""

    start: int  # its first column
    tentative: list[list[int]]  # (S, k)
    mean_entropy: list[float]  # (S,)
    entropy: list[float]  # (k,)


def traces(blocks: Sequence[BlockTrace], columns: Sequence[tuple[int, int]]) -> list[Trace]:
    """Return the traces of a batch whose blocks these are, in the order in which they were written.

    `columns` are those in which each canvas begins and ends.
    """
    canvases = [[-1] * (end - start) for start, end in columns]
    entropies = [[0.0] * (end - start) for start, end in columns]
    tentative: list[list[tuple[int, ...]]] = [[] for _ in columns]
    means: list[list[float]] = [[] for _ in columns]
    for block in blocks:
        for row, steps in block.read():
            start, end = columns[row]
            here = slice(steps.start - start, steps.start - start + len(steps.entropy))
            for tokens in steps.tentative:  # the last of them is how the block stays
                canvases[row][here] = tokens
                tentative[row].append(tuple(canvases[row][: end - start]))
            entropies[row][here] = steps.entropy
            means[row] += steps.mean_entropy
    return [
        Trace(
            entropy=tuple(entropies[row][: end - start]),
            tentative=tuple(tentative[row]),
            mean_entropy=tuple(means[row]),
        )
        for row, (start, end) in enumerate(columns)
    ]
