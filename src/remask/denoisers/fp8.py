"""fp8: weights and the rows they are multiplied with as 8-bit floats, on GPUs that multiply those.

Every row of a weight has a scale, and so has every row that is multiplied with it, by its largest
number; sums are in float32. Experts are unpacked and multiplied in the model's dtype.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from remask.denoisers.packed import Packed
from remask.errors import SettingsError

_DTYPE = torch.float8_e4m3fn
_LARGEST = torch.finfo(_DTYPE).max  # 448
_LEAST = 1e-12  # scale: a row of zeros stays one
_HOPPER = (9, 0)


@dataclass(frozen=True)
class Fp8:
    """8-bit floats on both sides of a product, one scale per row."""

    name: str = "fp8"

    def check(self, device: torch.device, dtype: torch.dtype) -> None:
        """Raise where the device does not multiply such numbers."""
        if device.type != "cuda" or torch.cuda.get_device_capability(device) < _HOPPER:
            raise SettingsError(
                f"weights 'fp8' needs a GPU that multiplies 8-bit floats, Hopper or later, and "
                f"{device} does not; use int8."
            )
        if dtype != torch.bfloat16:
            short = str(dtype).removeprefix("torch.")
            raise SettingsError(f"weights 'fp8' goes with dtype bfloat16, not with {short}.")

    def blank(self, num_rows: int, num_columns: int) -> Packed:
        codes = torch.empty(num_rows, num_columns, dtype=_DTYPE)
        return Packed(codes, torch.empty(num_rows, 1))

    def pack(self, rows: Tensor) -> Packed:
        """Return codes (R, C) and scales (R, 1)."""
        scales = (rows.abs().amax(-1, keepdim=True).float() / _LARGEST).clamp(min=_LEAST)
        return Packed((rows / scales).to(_DTYPE), scales)

    def unpack(self, packed: Packed, num_columns: int, dtype: torch.dtype) -> Tensor:
        return packed.codes.to(dtype) * packed.scales.to(dtype)

    def linear(self, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Return the product of x (..., C), packed row by row, with the rows, (..., R)."""
        given = self.pack(x.flatten(0, -2))
        out: Tensor = torch._scaled_mm(
            given.codes, packed.codes.t(), scale_a=given.scales, scale_b=packed.scales.t(),
            bias=bias, out_dtype=x.dtype, use_fast_accum=True,
        )  # fmt: skip
        return out.view(*x.shape[:-1], -1)
