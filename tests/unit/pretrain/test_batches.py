"""Batches, noise and the forward pass for training: by hand, and against the model that is read."""

from collections import Counter
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from remask.denoisers.a2d import A2D, A2DLlama, A2DQwen2
from remask.denoisers.qwen import Qwen, QwenConfig
from remask.pretrain.adapt_rows import TokenRows
from remask.pretrain.batches import BatchPlan
from remask.pretrain.noise import NoisyRows, add_noise
from remask.pretrain.trunk import FlatTrunk, head_loss, masked_states

MASK = 3


def token_rows(*lengths: tuple[int, int]) -> TokenRows:
    """Return rows of so many tokens of prompt and response."""
    prompts, responses = (np.array(part, np.int64) for part in zip(*lengths, strict=True))
    starts = np.concatenate(([0], np.cumsum(prompts + responses)))
    return TokenRows(ids=np.zeros(starts[-1], np.int32), starts=starts, num_prompt=prompts)


def plan(rows: TokenRows, **changes: Any) -> BatchPlan:
    usual: dict[str, Any] = {
        "lengths": (8, 16, 24, 48), "tokens": 48, "canvas": 12, "least_canvas": 4, "seed": 0,
    }  # fmt: skip
    return BatchPlan(rows=rows, **usual | changes)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 11)), min_size=1, max_size=40),
    st.integers(0, 3),
)
def test_every_batch_is_full_and_its_rows_fit(lengths: list[tuple[int, int]], seed: int) -> None:
    rows = token_rows(*lengths)
    needed = rows.num_prompt + rows.num_response + 1
    seen: Counter[int] = Counter()
    epochs = 6
    for batch in plan(rows, seed=seed).batches(epochs):
        assert len(batch.rows) * batch.length == 48
        assert (needed[batch.rows] <= batch.length).all()
        # No longer than the largest canvas asks for, but for the step between two lengths.
        shortest = [n for n in (8, 16, 24, 48) if n >= rows.num_prompt[batch.rows].min() + 12]
        assert batch.length <= min(shortest, default=48)
        seen.update(batch.rows.tolist())
    assert all(seen[row] <= epochs for row in range(len(rows)))
    left = epochs * len(rows) - seen.total()  # what still waits: less than a batch of each length
    assert left <= sum(48 // n - 1 for n in (8, 16, 24, 48))


def test_batches_are_a_function_of_the_seed() -> None:
    rows = token_rows(*[(4 + i % 9, 1 + i % 7) for i in range(60)])
    one, again = (list(plan(rows).batches(3)) for _ in range(2))
    other = list(plan(rows, seed=1).batches(3))
    same = [np.array_equal(a.rows, b.rows) for a, b in zip(one, again, strict=True)]
    assert all(same)
    assert len(one) == plan(rows).num_batches(3) > 30
    assert any(not np.array_equal(a.rows, b.rows) for a, b in zip(one, other, strict=False))
    assert [b.epoch for b in one] == sorted(b.epoch for b in one)


def test_canvases_of_every_size_are_drawn() -> None:
    """Prompt 4, response 1: the canvas is 4 to 12, so rows have 8 tokens in one draw of nine."""
    rows = token_rows(*[(4, 1)] * 900)
    counted = Counter(b.length for b in plan(rows).batches(1) for _ in b.rows)
    assert counted[8] == pytest.approx(100, abs=30)
    assert counted[16] == pytest.approx(800, abs=30)


def test_rows_held_out_come_round_until_batches_are_full() -> None:
    """Canvas 12: three rows of 4 + 12 in a batch of 3, five of 30 + 12, one to a batch."""
    rows = token_rows(*[(4, 1)] * 3, *[(30, 2)] * 5, (4, 2))
    shares = list(plan(rows).held_out())
    assert [(share * 9, b.length, b.rows.tolist()) for share, b in shares] == [
        (pytest.approx(2), 16, [0, 1, 2]), (pytest.approx(2), 16, [8, 0, 1]),
        *[(pytest.approx(1), 48, [i]) for i in range(3, 8)],
    ]  # fmt: skip


# Noise


def test_noise_by_hand() -> None:
    """Two rows of prompt 1 and 2, canvas 3 and 2: 5 tokens. t = 1/2 and 1/4."""
    ids = torch.tensor([[5, 6, 7, 8], [15, 16, 17, 18]])
    draws = torch.tensor([[0.0, 0.4, 0.6, 0.49], [0.0, 0.0, 0.3, 0.2]])
    rows = add_noise(
        ids, torch.tensor([1, 2]), torch.tensor([0.5, 0.25]), draws, mask_id=MASK
    )  # fmt: skip
    assert rows.tokens.tolist() == [5, MASK, 7, MASK, 15, 16, 17, MASK]
    assert rows.places.tolist() == [1, 3, 7]
    assert rows.targets.tolist() == [6, 8, 18]
    assert rows.weights.tolist() == pytest.approx([1 / 2.5, 1 / 2.5, 1 / 1.25])


def test_at_least_one_token_is_masked() -> None:
    draws = torch.tensor([[0.0, 0.9, 0.8, 0.99]])
    rows = add_noise(
        torch.tensor([[5, 6, 7, 8]]), torch.tensor([1]), torch.tensor([0.1]), draws, mask_id=MASK
    )
    assert rows.places.tolist() == [2]


# The forward pass

CONFIG = QwenConfig(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    intermediate_size=24, vocab_size=40, max_position_embeddings=64, rope_theta=100.0,
    tie_word_embeddings=True,
)  # fmt: skip


def network(kind: type[Qwen] = A2DLlama, *, shifted: bool = False) -> Qwen:
    made = kind(CONFIG)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * 0.3 if parameter.dim() == 2 else 1 + 0.1 * noise)
    made.shifted = shifted
    return made


def noisy(length: int, tokens: int = 48, seed: int = 0) -> NoisyRows:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 40, (tokens // length, length), generator=generator)
    draws = torch.rand(ids.shape, generator=generator)
    num = torch.full((len(ids),), 3)
    return add_noise(ids, num, torch.linspace(0.3, 0.9, len(ids)), draws, mask_id=MASK)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("kind", [A2DLlama, A2DQwen2, A2D])
def test_loss_and_gradients_are_those_of_the_model_that_is_read(
    kind: type[Qwen], shifted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row by row through `forward`, logits at all places, against rows laid behind one another."""
    monkeypatch.setattr("remask.pretrain.trunk._LOGITS", 40 * 4)  # four tokens at a time
    model, rows, length = network(kind, shifted=shifted), noisy(12), 12
    logits = model.project(model(rows.tokens.view(-1, length))).flatten(0, 1)  # (N, V)
    surprise = F.cross_entropy(logits[rows.places], rows.targets, reduction="none")
    expected = (surprise * rows.weights).sum()
    expected.backward()  # type: ignore[no-untyped-call]
    expected = expected.detach()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    states = masked_states(FlatTrunk(), model, rows, length)
    loss = head_loss(model, states, rows, nullcontext)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    for mine, theirs in zip(model.parameters(), gradients, strict=True):
        assert mine.grad is not None
        assert (mine.grad - theirs).abs().max() <= 1e-5 * theirs.abs().max() + 1e-7


def test_without_gradients_none_are_taken() -> None:
    model, rows = network(), noisy(12)
    with torch.no_grad():
        head_loss(model, masked_states(FlatTrunk(), model, rows, 12), rows, nullcontext)
    assert all(p.grad is None for p in model.parameters())


def test_one_compilation_serves_all_layers_row_lengths_and_networks() -> None:
    """Two parts of a layer, with gradients and without: four, however many shapes follow."""
    torch._dynamo.reset()
    counter = CompileCounter()
    trunk = FlatTrunk(lambda part: torch.compile(part, dynamic=False, backend=counter))
    plain, models = FlatTrunk(), (network(), network().requires_grad_(False))
    for length in (8, 12, 16, 24, 48):
        for model in models:
            rows = noisy(length, seed=length)
            with torch.set_grad_enabled(model is models[0]):
                compiled = masked_states(trunk, model, rows, length)
                assert torch.allclose(compiled, masked_states(plain, model, rows, length))
    assert counter.frame_count == 4


def test_a_batch_is_skipped_to_as_if_it_had_been_reached() -> None:
    rows = token_rows(*[(4 + i % 9, 1 + i % 7) for i in range(60)])
    whole = list(plan(rows).batches(3))
    (later,) = islice(plan(rows).batches(3), 20, 21)
    assert np.array_equal(later.rows, whole[20].rows)
