"""Experts against plain loops: over experts to the bit, over tokens in float64."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from remask.denoisers import experts
from remask.denoisers.experts import Experts, grouped_linear, weighted_sum

WIDTH, INNER, NUM_EXPERTS = 12, 8, 6


class Fixed(nn.Module):
    """A router that looks up its choice by the first feature of a row, a whole number."""

    def __init__(self, weights: Tensor, chosen: Tensor) -> None:
        super().__init__()
        self.weights, self.chosen = weights, chosen

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        kinds = rows[:, 0].long()
        return self.weights[kinds], self.chosen[kinds]


def layer(num_chosen: int = 3, kinds: int = 7, seed: int = 0) -> Experts:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(kinds, NUM_EXPERTS, generator=generator)
    model = Experts(Fixed(*scores.topk(num_chosen)), NUM_EXPERTS, WIDTH, INNER)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return model.requires_grad_(False)


def tokens(num: int, seed: int = 1, kinds: int = 7) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(num, WIDTH, generator=generator)
    rows[:, 0] = torch.randint(kinds, (num,), generator=generator)
    return rows


def expert(model: Experts, number: int, x: Tensor) -> Tensor:
    """Return down (silu(gate x) * up x), the two halves of the stack taken apart."""
    gate, up = model.gate_up[number].to(x.dtype).split(INNER)
    inner = x @ gate.T
    return (inner / (1 + torch.exp(-inner)) * (x @ up.T)) @ model.down[number].to(x.dtype).T


def by_token(model: Experts, rows: Tensor) -> Tensor:
    weights, chosen = model.router(rows)
    out = torch.zeros(len(rows), WIDTH, dtype=torch.float64)
    for t, row in enumerate(rows.double()):
        for weight, number in zip(weights[t].tolist(), chosen[t].tolist(), strict=True):
            out[t] += weight * expert(model, number, row)
    return out


def by_expert(model: Experts, rows: Tensor) -> Tensor:
    weights, chosen = model.router(rows)
    out = torch.zeros_like(rows)
    for number in range(NUM_EXPERTS):
        at, slot = (chosen == number).nonzero(as_tuple=True)
        gate, up = nn.functional.linear(rows[at], model.gate_up[number]).chunk(2, -1)
        term = nn.functional.linear(nn.functional.silu(gate) * up, model.down[number])
        out[at] += term * weights[at, slot, None]
    return out


@given(num=st.integers(1, 40), num_chosen=st.integers(1, NUM_EXPERTS), seed=st.integers(0, 99))
def test_every_token_gets_the_weighted_sum_of_its_experts(
    num: int, num_chosen: int, seed: int
) -> None:
    model, rows = layer(num_chosen, seed=seed), tokens(num, seed=seed)
    expected = by_token(model, rows)
    assert (model(rows) - expected).abs().max().item() <= 1e-5 * expected.abs().max().item()


@pytest.mark.parametrize("num_chosen", [1, 2, NUM_EXPERTS])
def test_a_loop_over_experts_gives_the_same_bits(num_chosen: int) -> None:
    model, rows = layer(num_chosen), tokens(33)
    assert torch.equal(model(rows), by_expert(model, rows))


def test_experts_that_nobody_chose_do_no_harm() -> None:
    """All tokens are of kind 4: with one chosen expert, five of six have no rows."""
    model, rows = layer(num_chosen=1), tokens(9)
    rows[:, 0] = 4
    assert model.router(rows)[1].unique().numel() == 1
    assert torch.allclose(model(rows).double(), by_token(model, rows), rtol=1e-5, atol=1e-5)


def test_a_token_does_not_depend_on_the_others() -> None:
    model, rows = layer(), tokens(24)
    together = model(rows)
    for i in (0, 7, 23):
        assert torch.allclose(model(rows[i : i + 1]), together[i : i + 1], rtol=0, atol=1e-4)
    backwards = model(rows.flip(0)).flip(0)
    assert torch.allclose(backwards, together, rtol=0, atol=1e-4)


def test_shape_and_dtype_are_those_of_the_input() -> None:
    model, rows = layer(), tokens(24)
    assert torch.equal(model(rows.view(2, 3, 4, WIDTH)).view(24, WIDTH), model(rows))
    model.router.weights = model.router.weights.double()  # wider than the rows
    assert model(rows).dtype == torch.float32


def test_the_sum_is_rounded_to_the_dtype_of_the_weights_after_every_term() -> None:
    """256 + 1 + 1: bfloat16 has 8 bits, so 256 + 1 stays 256; float32 keeps all of 258."""
    outputs = torch.tensor([[1.0], [256.0], [1.0]], dtype=torch.bfloat16)  # (3, 1)
    places, ones = torch.tensor([[1, 0, 2]]), torch.ones(1, 3)
    assert weighted_sum(outputs, places, ones.bfloat16()).item() == 256.0
    assert weighted_sum(outputs, places, ones).item() == 258.0


def test_terms_are_added_in_the_order_of_the_experts() -> None:
    """Expert 0 gives 1, expert 1 gives 1, expert 2 gives 256: 1 + 1 + 256 = 258, kept in bfloat16.

    Were the router's own order (2, 0, 1) followed, 256 + 1 + 1 would stay 256.
    """
    router = Fixed(torch.ones(1, 3).bfloat16(), torch.tensor([[2, 0, 1]]))
    model = Experts(router, 3, 1, 1).requires_grad_(False)
    outputs = torch.tensor([[1.0], [1.0], [256.0]]).bfloat16()  # (3, 1), by expert
    model.visit = lambda rows, chosen: (outputs, chosen)  # type: ignore[method-assign]
    assert model(torch.zeros(1, 1)).item() == 258.0


def test_slices_end_where_told() -> None:
    """Rows 1, 2 | none | 3 times 10, 100, 1000."""
    weight = torch.tensor([10.0, 100.0, 1000.0]).view(3, 1, 1)
    out = grouped_linear(
        torch.tensor([[1.0], [2.0], [3.0]]), weight, torch.tensor([2, 2, 3], dtype=torch.int32)
    )
    assert out.flatten().tolist() == [10.0, 20.0, 3000.0]


def row_by_row(x: Tensor, weight: Tensor, *, offs: Tensor) -> Tensor:
    """Return what a grouped kernel must: each row times the matrix of its slice."""
    assert offs.dtype == torch.int32
    which = torch.bucketize(torch.arange(len(x)), offs, right=True)
    return torch.einsum("ni,nio->no", x, weight[which])


KERNELS = [row_by_row] + (
    [nn.functional.grouped_mm] if hasattr(nn.functional, "grouped_mm") else []
)


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_kernel_for_all_experts_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, kernel: Callable[..., Tensor]
) -> None:
    """The kernel of torch itself also runs here, slowly, where torch has one."""
    model, rows = layer(), tokens(24)
    expected = model(rows)
    monkeypatch.setattr(experts, "_GROUPED_MM", kernel)
    monkeypatch.setattr(experts, "_suits_grouped_mm", lambda x: True)
    assert torch.allclose(model(rows), expected, rtol=0, atol=1e-4)


def test_nothing_is_read_back_on_the_way_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on the meta device hold no values: reading one to the host would raise."""

    def kernel(x: Tensor, weight: Tensor, *, offs: Tensor) -> Tensor:
        return x.new_empty(len(x), weight.shape[-1])

    monkeypatch.setattr(experts, "_GROUPED_MM", kernel)
    monkeypatch.setattr(experts, "_suits_grouped_mm", lambda x: True)
    scores = torch.rand(7, NUM_EXPERTS, device="meta")
    model = Experts(Fixed(*scores.topk(3)), NUM_EXPERTS, WIDTH, INNER).to("meta")
    assert model(torch.empty(24, WIDTH, device="meta")).shape == (24, WIDTH)


def test_the_kernel_is_traced_into_one_graph_that_keeps_its_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tracing checks what the kernel demands: bfloat16, int32 ends, rows of whole 16 bytes.

    The graph itself is not run: not every CPU multiplies in bfloat16.
    """
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., list[Tensor]]:
        graphs.append(graph)
        return lambda *arguments: [torch.zeros(24, 16, dtype=torch.bfloat16)]

    monkeypatch.setattr(experts, "_suits_grouped_mm", lambda x: True)
    scores = torch.rand(7, NUM_EXPERTS)
    model = Experts(Fixed(*scores.topk(3)), NUM_EXPERTS, 16, 8).bfloat16().requires_grad_(False)
    torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(
        torch.zeros(24, 16, dtype=torch.bfloat16)
    )
    called = [str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert len(graphs) == 1
    assert sum("grouped_mm" in name for name in called) == 2


def test_without_the_kernel_nothing_is_compiled_anew_for_another_routing() -> None:
    """Kinds 0, 1, 2 choose other experts: the slices change, the compiled parts must not."""
    counter = CompileCounter()
    model, rows = layer(), tokens(24)
    compiled = torch.compile(model, backend=counter, dynamic=False)
    frames = []
    for kind in range(3):
        rows[:, 0] = kind
        assert torch.equal(compiled(rows), model(rows))
        frames.append(counter.frame_count)
    assert frames[0] == frames[1] == frames[2] > 0


@pytest.mark.parametrize(
    ("width", "dtype", "suits"),
    [(16, torch.bfloat16, True), (12, torch.bfloat16, False), (16, torch.float32, False)],
)
def test_the_kernel_is_left_alone_where_its_rules_do_not_hold(
    monkeypatch: pytest.MonkeyPatch, width: int, dtype: torch.dtype, suits: bool
) -> None:
    """12 numbers of 2 bytes are no whole 16 bytes; float32 would run expert by expert anyway."""

    class Row:
        is_cuda, shape, device = True, (3, width), torch.device("cuda")

    row: Any = Row()
    row.dtype = dtype
    properties = SimpleNamespace(major=9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert experts._suits_grouped_mm(row) is suits


def test_gradients_reach_weights_and_rows() -> None:
    model, rows = layer().requires_grad_(True), tokens(10).requires_grad_(True)
    wanted = [*model.parameters(), rows]
    ours = torch.autograd.grad(model(rows).square().sum(), wanted)
    plain = torch.autograd.grad(by_expert(model, rows).square().sum(), wanted)
    for one, other in zip(ours, plain, strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-3 * other.abs().max().item())
