"""Which attention kernels compute gradients, and that all ways to attend agree on the gradients."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend

from remask.denoisers import attention_kernels
from remask.denoisers.transformer import Attention, rotary_tables


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    """Forget the compilations of other cases, whose number has a limit."""
    torch.compiler.reset()


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[list[SDPBackend]]:
    """The choices of kernels, call by call."""
    seen: list[list[SDPBackend]] = []

    @contextmanager
    def choose(kernels: list[SDPBackend]) -> Iterator[None]:
        seen.append(kernels)
        yield

    monkeypatch.setattr(attention_kernels, "sdpa_kernel", choose)
    return seen


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_never_come_from_cudnn_and_inference_keeps_every_kernel(
    chosen: list[list[SDPBackend]], masked: bool, cached: bool
) -> None:
    layer = Attention(32, 4, 2)
    q, kv = drawn(2, 6, 4, 8), drawn(2, 6, 4, 8)
    mask = torch.ones(2, 1, 1, 6, dtype=torch.bool) if masked else None

    def run() -> Tensor:
        return layer._mix(q, kv, mask) if cached else layer.full(q, *kv.chunk(2, 2), mask)

    with torch.no_grad():
        run()
    assert chosen == []
    run()
    assert len(chosen) == 1
    assert SDPBackend.CUDNN_ATTENTION not in chosen[0]
    assert "cudnn" not in attention_kernels.attention_kernels()
    assert "flash" in attention_kernels.attention_kernels()


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("mask", ["none", "padding", "blocks", "causal"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_equal_softmax_by_hand(num_kv_heads: int, mask: str, backend: str) -> None:
    """softmax(q k / sqrt(d)) v in float64, keys and values repeated for each query head."""
    layer = Attention(32, 4, num_kv_heads).double()
    q, k, v = drawn(2, 6, 4, 8), drawn(2, 6, num_kv_heads, 8), drawn(2, 6, num_kv_heads, 8) + 1
    leaves = [part.double().requires_grad_() for part in (q, k, v)]
    places = torch.arange(6)
    seen = {
        "none": None,
        "padding": (places < torch.tensor([[6], [4]]))[:, None, None],
        "blocks": (places[:, None] // 2 >= places // 2)[None, None],
        "causal": (places[:, None] >= places)[None, None],
    }[mask]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return layer.full(q, k, v, None if mask == "causal" else seen, causal=mask == "causal")

    found = torch.compile(run, backend=backend, fullgraph=True, dynamic=False)(*leaves)
    q, k, v = (part.repeat_interleave(4 // part.shape[2], 2).transpose(1, 2) for part in leaves)
    logits = q @ k.mT / 8**0.5
    logits = logits if seen is None else logits.masked_fill(~seen, -torch.inf)
    exact = (logits.softmax(-1) @ v).transpose(1, 2)
    assert torch.allclose(found, exact)
    weight = drawn(2, 6, 4, 8).double()
    ours = torch.autograd.grad((found * weight).sum(), leaves)
    theirs = torch.autograd.grad((exact * weight).sum(), leaves)
    assert all(map(torch.allclose, ours, theirs))


def test_a_compiled_layer_learns_and_infers_the_same() -> None:
    layer = Attention(32, 4, 2)
    x, tables = drawn(2, 6, 32), rotary_tables(6, 8, 1e4, torch.device("cpu"))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=False)
    learning = compiled(x, *tables, None)
    learning.sum().backward()
    assert layer.qkv.weight.grad is not None
    assert layer.qkv.weight.grad.isfinite().all()
    with torch.no_grad():
        assert torch.allclose(compiled(x, *tables, None), learning, atol=1e-6)
