"""Matrices in few bits: what stands in a network where a weight would, and what a format must do.

Formats themselves are in `formats`; which weights of a network are packed is decided in `packing`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

_AT_ONCE = 2**24  # numbers that are packed at once: what that takes in float32 is soon free again


class Packed(NamedTuple):
    """Rows in few bits."""

    codes: Tensor  # (rows, codes per row)
    scales: Tensor  # (rows, scales per row) float32


class WeightFormat(Protocol):
    """One way of packing, row by row."""

    @property
    def name(self) -> str:
        """What `load` and records call it."""
        ...

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        """Raise where weights cannot be in this format, and say what to do."""
        ...

    def blank(self, num_rows: int, num_columns: int) -> Packed:
        """Return room for a matrix."""
        ...

    def pack(self, rows: Tensor) -> Packed:
        """Return rows (R, C) in few bits."""
        ...

    def unpack(self, packed: Packed, num_columns: int, dtype: torch.dtype) -> Tensor:
        """Return the rows that packed ones stand for, (R, C)."""
        ...

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Return x (..., C) times the rows, plus the bias, (..., R)."""
        ...


class PackedMatrix(nn.Module):
    """A matrix (R, C), or a stack of them (E, R, C), in few bits."""

    def __init__(self, form: WeightFormat, shape: Sequence[int]) -> None:
        super().__init__()
        self.form, self.shape = form, tuple(shape)
        blank = form.blank(prod(self.shape[:-1]), self.shape[-1])
        self.codes: Tensor
        self.scales: Tensor
        self.register_buffer("codes", blank.codes)
        self.register_buffer("scales", blank.scales)

    def __len__(self) -> int:
        return self.shape[0]

    def numel(self) -> int:
        return prod(self.shape)

    @property
    def rows(self) -> "PackedRows":
        """All rows; those of a stack are one below the other."""
        return PackedRows(self, 0, len(self.codes))

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return self.form.linear(x, Packed(self.codes, self.scales), bias)

    def unpacked(self, chosen: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return some matrices of a stack, by number, (len(chosen), R, C)."""
        shape = (-1, *self.shape[1:])
        codes, scales = (t.view(*shape[:2], t.shape[1]) for t in (self.codes, self.scales))
        some = Packed(*(t[list(chosen)].flatten(0, 1) for t in (codes, scales)))
        return self.form.unpack(some, shape[-1], dtype).reshape(shape)


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows of a packed matrix, which a tensor of a checkpoint can be copied to."""

    matrix: PackedMatrix
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, rows: slice) -> "PackedRows":
        start, stop, _ = rows.indices(len(self))
        return PackedRows(self.matrix, self.start + start, self.start + stop)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the tensor."""
        return len(self), self.matrix.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        """What the tensor is packed from, whatever it was stored as."""
        return torch.float32

    def copy_(self, tensor: Tensor) -> None:
        """Pack a tensor into its place, some rows at a time."""
        matrix, size = self.matrix, max(1, _AT_ONCE // tensor.shape[-1])
        for start in range(0, len(tensor), size):
            rows = tensor[start : start + size].to(matrix.codes.device).float()
            codes, scales = matrix.form.pack(rows)
            here = slice(self.start + start, self.start + start + len(rows))
            matrix.codes[here] = codes
            # What is not finite must be seen in the scales; a format may have dropped it.
            matrix.scales[here] = scales + 0 * rows.abs().amax(1, keepdim=True)

    def isfinite(self) -> Tensor:
        """Say of every scale whether the numbers below it are finite."""
        return self.matrix.scales[self.start : self.stop].isfinite()


Place = Tensor | PackedRows  # of a tensor of a checkpoint


class PackedLinear(nn.Module):
    """A linear layer whose weight is packed; its bias is not."""

    def __init__(self, form: WeightFormat, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = PackedMatrix(form, layer.weight.shape)
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.linear(x, self.bias)
