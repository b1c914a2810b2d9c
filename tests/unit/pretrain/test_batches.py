"""Batches, noise and the forward pass for training: by hand, and against the model that is read."""

from collections import Counter
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import ancestors
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
from remask.pretrain.ancestor import read_ancestor
from remask.pretrain.batches import BatchPlan
from remask.pretrain.noise import BLOCKS, NoisyRows, add_noise, in_blocks, next_tokens, whole_canvas
from remask.pretrain.trunk import FlatTrunk, asked_states, head_loss

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
    """Prompt 4, response 1: the canvas is 4 to 12, and rows have 8 tokens where it is 4.

    Of nine sizes the first is drawn where the square of a uniform draw is below 1/9: one in three.
    """
    rows = token_rows(*[(4, 1)] * 900)
    counted = Counter(b.length for b in plan(rows).batches(1) for _ in b.rows)
    assert counted[8] == pytest.approx(300, abs=45)
    assert counted[16] == pytest.approx(600, abs=45)


def test_without_tails_rows_are_as_short_as_can_be() -> None:
    """Prompt 4, response 3, one end: 8 tokens, in every pass; passes are counted through."""
    rows = token_rows(*[(4, 3)] * 60)
    tight = list(plan(rows, tails=False).batches(2, first=3))
    assert {b.length for b in tight} == {8}
    assert [b.epoch for b in tight] == [3] * 10 + [4] * 10
    assert not np.array_equal(tight[0].rows, tight[10].rows)
    later = next(plan(rows, tails=False).batches(1, first=4))
    assert np.array_equal(later.rows, tight[10].rows)


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
    num_prompt = torch.tensor([1, 2])
    noise = whole_canvas(num_prompt, torch.tensor([0.5, 0.25]), draws)
    rows = add_noise(ids, num_prompt, noise, mask_id=MASK)
    assert rows.tokens.tolist() == [5, MASK, 7, MASK, 15, 16, 17, MASK]
    assert rows.places.tolist() == [1, 3, 7]
    assert rows.targets.tolist() == [6, 8, 18]
    assert rows.weights.tolist() == pytest.approx([1 / 2.5, 1 / 2.5, 1 / 1.25])


def test_at_least_one_token_is_masked() -> None:
    draws = torch.tensor([[0.0, 0.9, 0.8, 0.99]])
    num_prompt = torch.tensor([1])
    noise = whole_canvas(num_prompt, torch.tensor([0.1]), draws)
    rows = add_noise(torch.tensor([[5, 6, 7, 8]]), num_prompt, noise, mask_id=MASK)
    assert rows.places.tolist() == [2]


def test_blocks_by_hand() -> None:
    """Prompt 2, response 5: six tokens with the first end, two blocks of 4, the second at 6.

    Its 4 tokens at t = .3: two are asked for, those with the smallest draws, and count 2 each; the
    canvas has 10 tokens, of 20 in the batch. The other row is LLaDA's.
    """
    ids = torch.arange(10, 34).view(2, 12)
    num_prompt, draws = torch.tensor([2, 2]), torch.full((2, 12), 0.9)
    draws[0, 6:10] = torch.tensor([0.8, 0.1, 0.7, 0.2])
    draws[1, 5] = 0.1
    whole = whole_canvas(num_prompt, torch.tensor([0.3, 0.5]), draws)
    chosen, places = torch.tensor([True, False]), torch.tensor([[0.1, 0.5], [0.1, 0.5]])
    noise = in_blocks(whole, torch.tensor([5, 5]), chosen, places)
    rows = add_noise(ids, num_prompt, noise, mask_id=MASK)
    assert rows.tokens.view(2, 12)[0].tolist() == [*range(10, 17), MASK, 18, MASK, MASK, MASK]
    assert rows.tokens.view(2, 12)[1].tolist() == [*range(22, 27), MASK, *range(28, 34)]
    assert rows.targets.tolist() == [17, 19, 27]
    assert rows.weights.tolist() == pytest.approx([2 * 10 / 4 / 20, 2 * 10 / 4 / 20, 2 / 20])


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(40, 64))
def test_a_block_holds_something_to_write_and_all_behind_it_is_masked(
    seed: int, num_response: int, length: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    num_prompt, count = torch.full((16,), 5), 16
    whole = whole_canvas(
        num_prompt, torch.rand(count, generator=generator).clamp(min=0.02),
        torch.rand((count, length), generator=generator),
    )  # fmt: skip
    noise = in_blocks(
        whole, torch.full((count,), num_response), torch.ones(count, dtype=torch.bool),
        torch.rand((count, 2), generator=generator),
    )  # fmt: skip
    ids = torch.full((count, length), 7)
    rows = add_noise(ids, num_prompt, noise, mask_id=MASK)
    asked = torch.zeros(count * length, dtype=torch.bool)
    asked[rows.places] = True
    masked, asked = (rows.tokens == MASK).view(count, length), asked.view(count, length)
    for row, (first, last) in enumerate(
        zip(noise.first.tolist(), noise.last.tolist(), strict=True)
    ):
        assert 5 <= first <= 5 + num_response < length
        assert last - first in BLOCKS or last == length
        assert any((first - 5) % size == 0 for size in BLOCKS if size >= last - first)
        assert not masked[row, :first].any()
        assert masked[row, last:].all()
        assert asked[row].any()
        assert not asked[row, last:].any()
        assert (asked[row, first:last] == masked[row, first:last]).all()


def test_a_block_counts_as_much_as_its_canvas() -> None:
    """The surprise of every token being 1, both kinds of noise are 1 in the mean."""
    generator = torch.Generator().manual_seed(0)
    num_prompt, count = torch.full((20_000,), 3), 20_000
    whole = whole_canvas(
        num_prompt,
        (torch.arange(count) + 0.5) / count,
        torch.rand((count, 23), generator=generator),
    )
    both = torch.rand((count, 2), generator=generator)
    for share in (0.0, 0.5, 1.0):
        chosen = torch.arange(count) % 100 < 100 * share
        noise = in_blocks(whole, torch.full((count,), 9), chosen, both)
        rows = add_noise(torch.zeros(count, 23, dtype=torch.int64), num_prompt, noise, mask_id=MASK)
        assert float(rows.weights.sum()) == pytest.approx(1, abs=0.02)


def test_next_tokens_by_hand() -> None:
    """Responses of 2 and 1 behind prompts of 1 and 2, each with its first end: five tokens."""
    ids = torch.tensor([[5, 6, 7, 1, 1], [8, 9, 10, 1, 1]])
    rows = next_tokens(ids, torch.tensor([1, 2]), torch.tensor([2, 1]))
    assert rows.tokens.tolist() == ids.flatten().tolist()
    assert rows.places.tolist() == [1, 2, 3, 7, 8]
    assert rows.targets.tolist() == [6, 7, 1, 10, 1]
    assert rows.weights.tolist() == pytest.approx([0.2] * 5)


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
    noise = whole_canvas(num, torch.linspace(0.3, 0.9, len(ids)), draws)
    return add_noise(ids, num, noise, mask_id=MASK)


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
    states = asked_states(FlatTrunk(), model, rows, length)
    loss = head_loss(model, states, rows, nullcontext)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    for mine, theirs in zip(model.parameters(), gradients, strict=True):
        assert mine.grad is not None
        assert (mine.grad - theirs).abs().max() <= 1e-5 * theirs.abs().max() + 1e-7


@pytest.mark.parametrize("shifted", [False, True])
def test_causally_the_loss_is_that_of_the_ancestor(llama: Path, shifted: bool) -> None:
    """Against the authors' Llama and its labels, in whichever row the network is to answer."""
    theirs = ancestors.reference("llama")
    source = read_ancestor(str(llama)).network(shifted=shifted)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, theirs.config.vocab_size, (4, 12), generator=generator)
    num_prompt, num_response = torch.tensor([3, 4, 1, 2]), torch.tensor([5, 7, 2, 9])
    labels = ids.clone()
    columns = torch.arange(12)
    labels[columns < num_prompt[:, None]] = -100
    labels[columns > (num_prompt + num_response)[:, None]] = -100
    with torch.no_grad():
        expected = theirs(ids, labels=labels).loss
        rows = next_tokens(ids, num_prompt, num_response)
        states = asked_states(FlatTrunk(), source, rows, 12, causal=True)
        loss = head_loss(source, states, rows, nullcontext)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)


def test_without_gradients_none_are_taken() -> None:
    model, rows = network(), noisy(12)
    with torch.no_grad():
        head_loss(model, asked_states(FlatTrunk(), model, rows, 12), rows, nullcontext)
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
                compiled = asked_states(trunk, model, rows, length)
                assert torch.allclose(compiled, asked_states(plain, model, rows, length))
    assert counter.frame_count == 4


def test_a_batch_is_skipped_to_as_if_it_had_been_reached() -> None:
    rows = token_rows(*[(4 + i % 9, 1 + i % 7) for i in range(60)])
    whole = list(plan(rows).batches(3))
    (later,) = islice(plan(rows).batches(3), 20, 21)
    assert np.array_equal(later.rows, whole[20].rows)
