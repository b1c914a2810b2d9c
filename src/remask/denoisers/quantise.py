"""Quantised weights: the formats, and the modules that hold them in a network.

    int8    integers with one scale per row: torchao's Int8WeightOnly
    nf4     16 levels for normally distributed weights, one scale per 64: bitsandbytes' NF4
            (arXiv:2305.14314)
    fp8     8-bit floats on both sides of a product, one scale per row

Each row is quantised alone, so a tensor of a checkpoint is packed as soon as it is read, even if it
is stacked with others into one matrix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remask.denoisers.quantisers import imported
from remask.errors import SettingsError
from remask.settings import unknown_name

FULL = "full"  # weights in the dtype of the model
_NF4_BLOCK = 64
_FP8 = torch.float8_e4m3fn
_FP8_MAX = torch.finfo(_FP8).max  # 448
_FP8_LEAST_SCALE = 1e-12  # of a row of zeros
_HOPPER = (9, 0)
_AT_ONCE = 2**24  # numbers that are in float32 at once while a tensor is packed


class Packed(NamedTuple):
    """Quantised rows."""

    codes: Tensor  # (rows, codes per row)
    scales: Tensor  # (rows, scales per row) float32


class WeightFormat:
    """A format with 8-bit codes and one scale per row; subclasses define how rows are packed."""

    name: str
    code_dtype: torch.dtype

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        """Raise if the format cannot be used on this device with this dtype."""
        raise NotImplementedError

    def blank(self, num_rows: int, num_columns: int) -> Packed:
        """Return uninitialised memory for a matrix."""
        codes = torch.empty(num_rows, num_columns, dtype=self.code_dtype)
        return Packed(codes, torch.empty(num_rows, 1))

    def pack(self, rows: Tensor) -> Packed:
        """Return rows (R, C) quantised."""
        raise NotImplementedError

    def unpack(self, packed: Packed, num_columns: int, dtype: torch.dtype) -> Tensor:
        """Return rows (R, C) of another dtype."""
        return packed.codes.to(dtype) * packed.scales.to(dtype)

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Return x (..., C) times the transposed rows plus the bias, (..., R)."""
        raise NotImplementedError


class Int8(WeightFormat):
    name, code_dtype = "int8", torch.int8

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        imported("torchao")

    def pack(self, rows: Tensor) -> Packed:
        ao = imported("torchao").quantization
        packed = ao.Int8Tensor.from_hp(rows, ao.PerRow())
        return Packed(packed.qdata, packed.scale)

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Scale after the product, where codes are exact and there are fewer numbers."""
        if x.dtype == torch.float16:  # unscaled sums would overflow
            return F.linear(x, self.unpack(packed, x.shape[-1], x.dtype), bias)
        out = F.linear(x, packed.codes.to(x.dtype)) * packed.scales.to(x.dtype).flatten()
        return out if bias is None else out + bias


class Nf4(WeightFormat):
    name, code_dtype = "nf4", torch.uint8  # two numbers per byte

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        imported("bitsandbytes")

    def blank(self, num_rows: int, num_columns: int) -> Packed:
        blocks = -(-num_columns // _NF4_BLOCK)
        codes = torch.empty(num_rows, blocks * _NF4_BLOCK // 2, dtype=self.code_dtype)
        return Packed(codes, torch.empty(num_rows, blocks))

    def pack(self, rows: Tensor) -> Packed:
        imported("bitsandbytes")
        codes, scales = torch.ops.bitsandbytes.quantize_4bit(
            _pad(rows), _NF4_BLOCK, self.name, self.code_dtype
        )
        return Packed(codes.view(len(rows), -1), scales.view(len(rows), -1))

    def unpack(self, packed: Packed, num_columns: int, dtype: torch.dtype) -> Tensor:
        codes, scales = packed.codes.view(-1, 1), packed.scales.flatten()
        out: Tensor = torch.ops.bitsandbytes.dequantize_4bit(
            codes, scales, _NF4_BLOCK, self.name, _padded_shape(packed), dtype
        )
        return out[:, :num_columns]

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        codes, scales = packed.codes.view(-1, 1), packed.scales.flatten()
        out: Tensor = torch.ops.bitsandbytes.gemm_4bit(
            _pad(x), codes, _padded_shape(packed), scales, _NF4_BLOCK, self.name, bias
        )
        return out


class Fp8(WeightFormat):
    name, code_dtype = "fp8", _FP8

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        if device.type != "cuda" or torch.cuda.get_device_capability(device) < _HOPPER:
            raise SettingsError(
                f"weights 'fp8' requires a CUDA device of the Hopper generation or later, got "
                f"{device}; use int8."
            )
        if dtype != torch.bfloat16:
            short = str(dtype).removeprefix("torch.")
            raise SettingsError(f"weights 'fp8' requires dtype bfloat16, got {short}.")

    def pack(self, rows: Tensor) -> Packed:
        scales = (rows.abs().amax(-1, keepdim=True).float() / _FP8_MAX).clamp(min=_FP8_LEAST_SCALE)
        return Packed((rows / scales).to(_FP8), scales)

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Quantise the rows of x too, and add products in float32."""
        given = self.pack(x.flatten(0, -2))
        out: Tensor = torch._scaled_mm(
            given.codes,
            packed.codes.t(),
            scale_a=given.scales,
            scale_b=packed.scales.t(),
            bias=bias,
            out_dtype=x.dtype,
            use_fast_accum=True,
        )
        return out.view(*x.shape[:-1], -1)


FORMATS: Mapping[str, WeightFormat] = {form.name: form for form in (Int8(), Nf4(), Fp8())}


def find_format(weights: str) -> WeightFormat | None:
    """Return the format of this name, or None for `FULL`."""
    if weights == FULL:
        return None
    if weights not in FORMATS:
        raise unknown_name("weights", weights, (FULL, *FORMATS))
    return FORMATS[weights]


def _pad(x: Tensor) -> Tensor:
    """Return x (..., C) with zeros up to a multiple of the NF4 block."""
    missing = -x.shape[-1] % _NF4_BLOCK
    return F.pad(x, (0, missing)) if missing else x


def _padded_shape(packed: Packed) -> list[int]:
    return [len(packed.codes), 2 * packed.codes.shape[1]]


class PackedMatrix(nn.Module):
    """A quantised matrix (R, C), or a stack of them (E, R, C)."""

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
        """All rows; the matrices of a stack are concatenated."""
        return PackedRows(self, 0, len(self.codes))

    def linear(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return self.form.linear(x, Packed(self.codes, self.scales), bias)

    def unpacked(self, chosen: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return some matrices of a stack, (len(chosen), R, C)."""
        shape = (-1, *self.shape[1:])
        codes, scales = (t.view(*shape[:2], t.shape[1]) for t in (self.codes, self.scales))
        some = Packed(*(t[list(chosen)].flatten(0, 1) for t in (codes, scales)))
        return self.form.unpack(some, shape[-1], dtype).reshape(shape)


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows of a quantised matrix: the destination of one tensor of a checkpoint."""

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
        return len(self), self.matrix.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype from which rows are packed."""
        return torch.float32

    def copy_(self, tensor: Tensor) -> None:
        """Pack a tensor into the rows, a part of it at a time."""
        matrix, size = self.matrix, max(1, _AT_ONCE // tensor.shape[-1])
        for start in range(0, len(tensor), size):
            rows = tensor[start : start + size].to(matrix.codes.device).float()
            codes, scales = matrix.form.pack(rows)
            here = slice(self.start + start, self.start + start + len(rows))
            matrix.codes[here] = codes
            # NaN and infinity must show in the scales, even if the format loses them.
            matrix.scales[here] = scales + 0 * rows.abs().amax(1, keepdim=True)

    def isfinite(self) -> Tensor:
        """Return for each scale whether its numbers are finite."""
        return self.matrix.scales[self.start : self.stop].isfinite()


Place = Tensor | PackedRows  # destination of a tensor of a checkpoint


class PackedLinear(nn.Module):
    """A linear layer with a quantised weight."""

    def __init__(self, form: WeightFormat, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = PackedMatrix(form, layer.weight.shape)
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.linear(x, self.bias)
