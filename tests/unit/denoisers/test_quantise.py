"""Rows in few bits, against the libraries that the formats are named after."""

import math
import sys
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from remask.denoisers.quantise import (
    FORMATS,
    Fp8,
    Packed,
    PackedLinear,
    PackedMatrix,
    WeightFormat,
    find_format,
)
from remask.errors import MissingExtra, SettingsError

CPU, LIBRARIES = torch.device("cpu"), ("int8", "nf4")


def form_of(name: str) -> WeightFormat:
    form = find_format(name)
    assert form is not None
    form.check(CPU, torch.float32)
    return form


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def packed_linear(name: str, layer: nn.Linear) -> PackedLinear:
    made = PackedLinear(form_of(name), layer)
    made.weight.rows.copy_(layer.weight.detach())
    return made


@torch.no_grad()
def test_int8_is_that_of_torchao() -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    layer, x = nn.Linear(96, 40), normal(5, 96)
    ours = packed_linear("int8", layer)(x)
    quantize_(layer, Int8WeightOnlyConfig(set_inductor_config=False))
    assert torch.equal(ours, layer(x))


@torch.no_grad()
def test_nf4_is_that_of_bitsandbytes() -> None:
    import bitsandbytes as bnb

    layer, x = nn.Linear(128, 40), normal(5, 128)
    ours = packed_linear("nf4", layer)(x)
    theirs = bnb.nn.Linear4bit(128, 40, quant_type="nf4", compress_statistics=False)
    theirs.load_state_dict(layer.state_dict())
    assert torch.equal(ours, theirs.to("cpu")(x))


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@torch.no_grad()
def test_what_is_multiplied_is_what_is_unpacked(name: str, dtype: torch.dtype) -> None:
    """80 columns are no whole blocks of nf4: what is added to them must not count."""
    layer, x = nn.Linear(80, 24), normal(3, 7, 80)
    form, rows = form_of(name), layer.weight.detach()
    packed = form.pack(rows)
    weight = form.unpack(packed, 80, torch.float32)
    assert weight.shape == rows.shape
    ours = form.linear(x.to(dtype), packed, layer.bias.to(dtype))
    assert (ours.dtype, ours.shape) == (dtype, (3, 7, 24))
    near = 1e-5 if dtype == torch.float32 else 0.02
    assert torch.allclose(ours.float(), x @ weight.T + layer.bias, atol=near)


def test_int8_by_hand() -> None:
    """The largest of a row is 127.5 steps from 0, and the last step is 127.

    Of (-0.9, 0.5, 1) that makes -114.75, 63.75 and 127.5: -115, 64 and 127 steps of 1 / 127.5.
    """
    form = form_of("int8")
    packed = form.pack(torch.tensor([[-0.9, 0.5, 1.0], [0.0, 0.0, 0.0]]))
    assert packed.codes.tolist() == [[-115, 64, 127], [0, 0, 0]]
    assert packed.scales[0].item() == pytest.approx(1 / 127.5)
    assert form.unpack(packed, 3, torch.float32)[1].tolist() == [0, 0, 0]


def test_nf4_by_hand() -> None:
    """Blocks of 64 have scales of their own; levels next to 1 are 0.7230, next to 0 0.0796.

    Of (2, 0, 1.6) the largest is 2: 0.8 lies nearer to 0.7230 (1.4459) than to 1. In the next
    block 0.02 is the largest.
    """
    form, row = form_of("nf4"), torch.zeros(1, 128)
    row[0, :3] = torch.tensor([2.0, 0.0, 1.6])
    row[0, 64:66] = torch.tensor([-0.02, 0.0016])
    packed = form.pack(row)
    assert packed.scales[0].tolist() == pytest.approx([2, 0.02])
    assert packed.codes.shape == (1, 64), "two numbers to a byte"
    (rebuilt,) = form.unpack(packed, 128, torch.float32).tolist()
    assert rebuilt[:3] == pytest.approx([2, 0, 2 * 0.7229568])
    assert rebuilt[64:66] == pytest.approx([-0.02, 0.02 * 0.0795803])


@pytest.mark.parametrize("name", LIBRARIES)
@given(cut=st.integers(0, 12), columns=st.integers(2, 150), seed=st.integers(0, 99))
def test_rows_are_packed_one_by_one(name: str, cut: int, columns: int, seed: int) -> None:
    """So tensors that are stacked into a matrix may come one at a time, in any order."""
    form, rows = form_of(name), normal(12, columns, seed=seed)
    matrix = PackedMatrix(form, rows.shape)
    matrix.rows[cut:].copy_(rows[cut:])
    matrix.rows[:cut].copy_(rows[:cut])
    whole = form.pack(rows)
    assert torch.equal(matrix.codes, whole.codes)
    assert torch.equal(matrix.scales, whole.scales)


@pytest.mark.parametrize("name", FORMATS)
def test_large_tensors_are_packed_some_rows_at_a_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, rows = FORMATS[name], normal(10, 64)
    seen: list[int] = []

    def pack(part: Tensor) -> Packed:
        seen.append(len(part))
        return type(form).pack(form, part)

    monkeypatch.setattr("remask.denoisers.quantise._AT_ONCE", 4 * 64)
    with monkeypatch.context() as patched:
        patched.setattr(form, "pack", pack)
        matrix = PackedMatrix(form, (10, 64))
        matrix.rows.copy_(rows)
    assert seen == [4, 4, 2]
    assert torch.equal(form.pack(rows).codes.float(), matrix.codes.float())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_shows_in_the_scales(name: str, bad: float) -> None:
    rows = normal(4, 64)
    rows[2, 5] = bad
    matrix = PackedMatrix(FORMATS[name], (4, 64))
    matrix.rows.copy_(rows)
    assert matrix.rows.isfinite().all(1).tolist() == [True, True, False, True]


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    assert find_format("full") is None
    with pytest.raises(SettingsError, match=r"Unknown weights 'int4'.*int8"):
        find_format("int4")


@pytest.mark.parametrize(("name", "package"), [("int8", "torchao"), ("nf4", "bitsandbytes")])
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package} is not installed; .*remask\[quant\]"):
        FORMATS[name].check(CPU, torch.float32)


def scaled_mm(a: Tensor, b: Tensor, **given: Any) -> Tensor:
    """What the kernel computes, with its demands: a is row-major, b column-major, sides in 16s."""
    assert a.dtype == b.dtype == torch.float8_e4m3fn
    assert a.is_contiguous()
    assert b.t().is_contiguous()
    assert not any(side % 16 for side in b.shape)
    scale_a, scale_b = given["scale_a"], given["scale_b"]
    assert (scale_a.shape, scale_b.shape) == ((len(a), 1), (1, b.shape[1]))
    assert scale_a.is_contiguous()
    assert scale_b.is_contiguous()
    assert scale_a.dtype == scale_b.dtype == torch.float32
    out = (a.float() @ b.float()) * scale_a * scale_b
    return (out if given["bias"] is None else out + given["bias"]).to(given["out_dtype"])


def test_fp8_by_hand() -> None:
    """448 is the largest number; between 256 and 448 steps are 32 wide, next to 1 an eighth.

    Of (2, 1, 0.51) the scale is 2 / 448: 448, 224 and 114.24, which becomes 112: 0.5.
    """
    packed = Fp8().pack(torch.tensor([[2.0, 1.0, 0.51], [0.0, 0.0, 0.0]]))
    assert packed.codes.float().tolist() == [[448, 224, 112], [0, 0, 0]]
    rebuilt = Fp8().unpack(packed, 3, torch.float32)
    assert rebuilt.flatten().tolist() == pytest.approx([2, 1, 0.5, 0, 0, 0])


@torch.no_grad()
def test_fp8_multiplies_scaled_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row of x is a thousand times another: a scale each keeps both."""
    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    layer, x = nn.Linear(64, 32), normal(2, 3, 64) * torch.tensor([1.0, 1000.0, 0.001])[:, None]
    form = Fp8()
    ours = form.linear(x, form.pack(layer.weight), layer.bias)
    exact = layer(x) - layer.bias
    error = (ours - layer.bias - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert ours.shape == (2, 3, 32)
    assert 0.01 < error.max() < 0.08


@torch.no_grad()
def test_fp8_is_what_torch_multiplies() -> None:
    """Torch has the kernel for the CPU too, slow as it is there."""
    layer, x, form = nn.Linear(64, 32), normal(2, 3, 64), Fp8()
    packed = form.pack(layer.weight)
    given = form.pack(x.flatten(0, 1))
    wanted = scaled_mm(
        given.codes, packed.codes.t(), scale_a=given.scales, scale_b=packed.scales.t(),
        bias=layer.bias, out_dtype=torch.float32,
    )  # fmt: skip
    assert torch.allclose(form.linear(x, packed, layer.bias).flatten(0, 1), wanted, atol=1e-5)


@pytest.mark.parametrize("name", FORMATS)
def test_a_packed_layer_is_compiled_in_one_piece(name: str) -> None:
    layer, x = nn.Linear(128, 32), normal(2, 4, 128)
    made = PackedLinear(FORMATS[name], layer)
    made.weight.rows.copy_(layer.weight.detach())
    with torch.no_grad():
        whole = torch.compile(made, backend="eager", fullgraph=True)(x)
        assert torch.equal(whole, made(x))


@pytest.mark.parametrize(
    ("device", "capability", "dtype", "sentence"),
    [
        ("cpu", (9, 0), torch.bfloat16, "Hopper generation or later, got cpu; use int8"),
        ("mps", (9, 0), torch.bfloat16, "got mps"),
        ("cuda:0", (8, 9), torch.bfloat16, "got cuda:0"),
        ("cuda:0", (9, 0), torch.float16, "dtype bfloat16, got float16"),
    ],
)
def test_fp8_is_refused_where_it_is_not_multiplied(
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    capability: tuple[int, int],
    dtype: torch.dtype,
    sentence: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    with pytest.raises(SettingsError, match=sentence):
        Fp8().check(torch.device(device), dtype)
    Fp8().check(torch.device("cuda"), torch.bfloat16) if capability == (9, 0) else None
