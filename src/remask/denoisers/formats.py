"""Weights in few bits: how the rows of a matrix are packed, unpacked, and multiplied with.

    int8    whole numbers with one scale per row: torchao's Int8WeightOnly
    nf4     16 levels that suit normal numbers, one scale per 64 of them: bitsandbytes' NF4
            (arXiv:2305.14314)
    fp8     products of 8-bit floats, in `fp8`

Each row is packed by itself. So a tensor of a checkpoint can be packed as soon as it is read,
wherever its rows stand in a matrix that is stacked from several.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from remask.denoisers.fp8 import Fp8
from remask.denoisers.packed import Packed, WeightFormat
from remask.denoisers.quantisers import imported
from remask.settings import unknown_name

FULL = "full"  # the weights as they are, in the dtype of the model
_BLOCK = 64  # numbers that share a scale in nf4


@dataclass(frozen=True)
class Int8:
    """Whole numbers of 8 bits, one scale per row."""

    name: str = "int8"

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        imported("torchao")

    def blank(self, num_rows: int, num_columns: int) -> Packed:
        codes = torch.empty(num_rows, num_columns, dtype=torch.int8)
        return Packed(codes, torch.empty(num_rows, 1))

    def pack(self, rows: Tensor) -> Packed:
        ao = imported("torchao").quantization
        packed = ao.Int8Tensor.from_hp(rows, ao.PerRow())
        return Packed(packed.qdata, packed.scale)

    def unpack(self, packed: Packed, num_columns: int, dtype: torch.dtype) -> Tensor:
        return packed.codes.to(dtype) * packed.scales.to(dtype)

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Return the product; the scales come after it, where it is smaller and nothing rounds."""
        if x.dtype == torch.float16:  # codes go up to 127: sums of so many would overflow
            return F.linear(x, self.unpack(packed, x.shape[-1], x.dtype), bias)
        out = F.linear(x, packed.codes.to(x.dtype)) * packed.scales.to(x.dtype).flatten()
        return out if bias is None else out + bias


@dataclass(frozen=True)
class Nf4:
    """16 levels, two to a byte, one scale per 64 numbers of a row."""

    name: str = "nf4"

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        imported("bitsandbytes")

    def blank(self, num_rows: int, num_columns: int) -> Packed:
        """Return room for a matrix, whose rows end with a whole block."""
        blocks = -(-num_columns // _BLOCK)
        codes = torch.empty(num_rows, blocks * _BLOCK // 2, dtype=torch.uint8)
        return Packed(codes, torch.empty(num_rows, blocks))

    def pack(self, rows: Tensor) -> Packed:
        imported("bitsandbytes")
        whole = _whole(rows)
        codes, scales = torch.ops.bitsandbytes.quantize_4bit(whole, _BLOCK, self.name, torch.uint8)
        return Packed(codes.view(len(rows), -1), scales.view(len(rows), -1))

    def unpack(self, packed: Packed, num_columns: int, dtype: torch.dtype) -> Tensor:
        out: Tensor = torch.ops.bitsandbytes.dequantize_4bit(
            packed.codes.view(-1, 1), packed.scales.flatten(), _BLOCK, self.name,
            _shape(packed), dtype,
        )  # fmt: skip
        return out[:, :num_columns]

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Return the product; many rows are multiplied with what was unpacked, few in one step."""
        out: Tensor = torch.ops.bitsandbytes.gemm_4bit(
            _whole(x), packed.codes.view(-1, 1), _shape(packed), packed.scales.flatten(), _BLOCK,
            self.name, bias,
        )  # fmt: skip
        return out


def _shape(packed: Packed) -> list[int]:
    """Return the shape of what was packed, with what was added to its rows."""
    return [len(packed.codes), 2 * packed.codes.shape[1]]


def _whole(x: Tensor) -> Tensor:
    """Return x (..., C) with zeros up to a whole block."""
    missing = -x.shape[-1] % _BLOCK
    return F.pad(x, (0, missing)) if missing else x


FORMATS: Mapping[str, WeightFormat] = {form.name: form for form in (Int8(), Nf4(), Fp8())}


def find_format(weights: str) -> WeightFormat | None:
    """Return the format of this name; None where weights stay as they are."""
    if weights == FULL:
        return None
    if weights not in FORMATS:
        raise unknown_name("weights", weights, (FULL, *FORMATS))
    return FORMATS[weights]
