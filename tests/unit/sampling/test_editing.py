"""Writing with second thoughts, on models whose logits are written by hand and on a random one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.errors import DenoiserError, SettingsError
from remask.sampling.editing import Edited, edit
from remask.sampling.settings import EditSettings
from remask.testing import ScriptedDenoiser
from remask.values import Canvas

Ids = Callable[[str], tuple[int, ...]]
ByPlace = Callable[[Sequence[Mapping[str, float]]], Denoiser]
Scripted = Callable[[Callable[[Canvas], Tensor]], Denoiser]
PLAIN = EditSettings(reveal_threshold=0.7, edit_threshold=0.8, post_steps=4)


def run(
    model: Denoiser,
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    settings: EditSettings = PLAIN,
    **options: Any,
) -> Edited:
    """Edit the whole canvas of each (prompt, canvas)."""
    prompts, canvases = zip(*rows, strict=True)
    canvas = Canvas.of(prompts, canvases, model.tokenizer.pad_id, model.device)
    return edit(model, canvas, settings, within=canvas.canvas, **options)


def test_sure_tokens_are_revealed_together_and_otherwise_the_surest(
    by_place: ByPlace, ids: Ids
) -> None:
    """Pass 0 takes .9 and .75; pass 1 the better of .6 and .55, 2 the other; 3 looks again."""
    model = by_place(
        [{"a": 0.6, "x": 0.4}, {"b": 0.9, "x": 0.1}, {"c": 0.55, "x": 0.45}, {"d": 0.75, "x": 0.25}]
    )
    done = run(model, [(ids("p"), ids("____"))])
    assert done.tokens[0, 1:].tolist() == list(ids("abcd"))
    assert done.steps[0].tolist() == [-1, 1, 0, 2, 0]
    assert done.probs[0].tolist() == pytest.approx([1.0, 0.6, 0.9, 0.55, 0.75])
    assert done.forwards.tolist() == [4]


def test_a_token_is_overwritten_where_another_is_more_probable_than_the_threshold(
    by_place: ByPlace, ids: Ids
) -> None:
    """Threshold .8: .85 for another letter edits, .75 does not, .9 for the same changes nothing."""
    model = by_place([{"a": 0.85, "x": 0.15}, {"b": 0.75, "x": 0.25}, {"c": 0.9, "x": 0.1}])
    done = run(model, [(ids("p"), ids("xxc"))])
    assert done.tokens[0, 1:].tolist() == list(ids("axc"))
    assert done.steps[0, 1:].tolist() == [0, -1, -1]
    assert done.probs[0, 1:].tolist() == pytest.approx([0.85, 1.0, 1.0])
    assert done.forwards.tolist() == [2]  # one that edits, one that finds nothing to edit


def test_a_token_can_be_edited_while_others_are_still_masked(scripted: Scripted, ids: Ids) -> None:
    """The first place is read as `a` while the second is masked, as `b` once it is not."""
    (a,), (b,), (c,), (gap,) = ids("a"), ids("b"), ids("c"), ids("_")

    def script(canvas: Canvas) -> Tensor:
        logits = torch.zeros(*canvas.tokens.shape, 259)
        alone = canvas.tokens[:, 2] == gap
        logits[:, 1, a] = torch.where(alone, 20.0, 0.0)
        logits[:, 1, b] = torch.where(alone, 0.0, 20.0)
        logits[:, 2, c] = 6.0  # .61 of the mass: not sure
        logits[:, 3, c] = 5.0  # even less
        return logits

    done = run(scripted(script), [(ids("p"), ids("___"))])
    assert done.tokens[0, 1:].tolist() == [b, c, c]
    # Pass 0 writes a, 1 and 2 the two c: the second of these already sees the first, and edits.
    assert done.steps[0, 1:].tolist() == [2, 1, 2]
    assert done.forwards.tolist() == [4]


def test_the_prompt_and_other_blocks_stay_as_they_are(by_place: ByPlace, ids: Ids) -> None:
    model = by_place([{"a": 1.0}] * 4)
    canvas = Canvas.of([ids("xx")], [ids("x_x_")], 0, model.device)
    within = torch.tensor([[False, False, True, True, False, False]])
    done = edit(model, canvas, PLAIN, within=within)
    assert done.tokens[0].tolist() == list(ids("xxaax_"))
    assert done.steps[0].tolist() == [-1, -1, 0, 0, -1, -1]


def restless(scripted: Scripted, ids: Ids) -> Denoiser:
    """Return a model that wants an `a` where it sees a `b`, and a `b` everywhere else."""
    (a,), (b,) = ids("a"), ids("b")
    width = 259

    def script(canvas: Canvas) -> Tensor:
        wanted = torch.where(canvas.tokens == b, a, b)
        return 30.0 * torch.nn.functional.one_hot(wanted, width).float()

    return scripted(script)


@pytest.mark.parametrize("post_steps", [0, 1, 4, 5])
def test_a_block_that_never_comes_to_rest_is_left_after_post_steps(
    scripted: Scripted, ids: Ids, post_steps: int
) -> None:
    """One pass writes `b`, every later one turns it round."""
    settings = replace(PLAIN, post_steps=post_steps)
    done = run(restless(scripted, ids), [(ids("p"), ids("__"))], settings)
    assert done.forwards.tolist() == [1 + post_steps]
    assert done.tokens[0, 1:].tolist() == list(ids("aa" if post_steps % 2 else "bb"))
    assert done.steps[0, 1:].tolist() == [post_steps] * 2


def test_an_edit_threshold_of_one_never_edits(scripted: Scripted, ids: Ids) -> None:
    settings = replace(PLAIN, edit_threshold=1.0)
    done = run(restless(scripted, ids), [(ids("p"), ids("_b"))], settings)
    assert done.tokens[0, 1:].tolist() == list(ids("bb"))
    assert done.forwards.tolist() == [2]


def test_a_row_without_a_block_costs_nothing(by_place: ByPlace, ids: Ids) -> None:
    model = by_place([{"a": 1.0}] * 2)
    canvas = Canvas.of([ids("p"), ids("p")], [ids("__"), ids("__")], 0, model.device)
    done = edit(model, canvas, PLAIN, within=canvas.canvas & torch.tensor([[True], [False]]))
    assert done.tokens.tolist() == [list(ids("paa")), list(ids("p__"))]
    assert done.forwards.tolist() == [2, 0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_in_company_ends_as_it_does_alone(
    llada: NativeDenoiser, ids: Ids, temperature: float
) -> None:
    settings = EditSettings(reveal_threshold=0.3, edit_threshold=0.2, post_steps=6)
    rows = [(ids("pq"), ids("_" * 9)), (ids("r"), ids("ab_c_____def")), (ids("stu"), ids("vw"))]
    keys = rng.keys(0, ["one", "two", "three"], "sample", 0, llada.device)
    together = run(llada, rows, settings, temperature=temperature, keys=keys)
    assert len(set(together.forwards.tolist())) > 1
    for i, row in enumerate(rows):
        alone = run(llada, [row], settings, temperature=temperature, keys=keys[i : i + 1])
        num = len(row[0]) + len(row[1])
        assert alone.tokens[0].tolist() == together.tokens[i, :num].tolist()
        assert alone.steps[0].tolist() == together.steps[i, :num].tolist()
        assert alone.probs[0].tolist() == pytest.approx(together.probs[i, :num].tolist(), abs=1e-5)
        assert alone.forwards.tolist() == together.forwards[i : i + 1].tolist()


@given(
    seed=st.integers(0, 10**6),
    reveal=st.floats(0.01, 1.0),
    change=st.floats(0.0, 1.0),
    post_steps=st.integers(0, 5),
    gaps=st.lists(st.booleans(), min_size=1, max_size=8),
)
def test_nothing_stays_masked_and_passes_are_bounded(
    seed: int, reveal: float, change: float, post_steps: int, gaps: list[bool]
) -> None:
    """The script depends on what it sees, so that it may change its mind over and over."""
    table = torch.randn(262, 262, generator=torch.Generator().manual_seed(seed)) * 6
    model = ScriptedDenoiser(script=lambda tokens: table[tokens] + table[tokens.roll(1, 1)])
    settings = EditSettings(reveal_threshold=reveal, edit_threshold=change, post_steps=post_steps)
    mask_id = model.tokenizer.mask_id
    done = run(model, [((9,), [mask_id if gap else 50 for gap in gaps])], settings)
    assert mask_id not in done.tokens
    assert done.tokens[0, 0] == 9
    assert done.forwards.item() <= sum(gaps) + post_steps
    if done.steps.max() < done.forwards - 1:  # the last pass changed nothing: at rest
        again = run(model, [((9,), done.tokens[0, 1:].tolist())], replace(settings, post_steps=1))
        assert torch.equal(again.tokens, done.tokens)


def test_forwards_are_counted_as_the_model_counts_them(scripted: Scripted, ids: Ids) -> None:
    """Two passes, one that writes and one that looks again, of a model that needs two each."""
    calls: list[int] = []

    def script(canvas: Canvas) -> Tensor:
        calls.append(len(canvas.tokens))
        return torch.zeros(*canvas.tokens.shape, 259)

    model = replace(scripted(script), forwards_per_call=2)  # type: ignore[type-var]
    assert run(model, [(ids("p"), ids("_"))]).forwards.tolist() == [4]
    assert calls == [1, 1]


def test_the_order_says_what_the_threshold_is_compared_with(by_place: ByPlace, ids: Ids) -> None:
    """One token may be drawn, so its probability is .7 before the filter and 1 after it."""
    model = by_place([{"a": 0.7, "x": 0.3}])
    keys = rng.keys(0, ["item"], "sample", 0, model.device)
    for order, final in (("low_confidence", "x"), ("maskgit_plus", "a")):
        settings = replace(PLAIN, order=order, top_k=1)
        done = run(model, [(ids("p"), ids("x"))], settings, temperature=1.0, keys=keys)
        assert done.tokens[0, 1:].tolist() == list(ids(final))


def test_a_temperature_draws_tokens_by_their_probability(by_place: ByPlace, ids: Ids) -> None:
    """.75 against .25 in 400 rows: within four standard deviations, .087."""
    model = by_place([{"a": 0.75, "b": 0.25}])
    keys = rng.keys(0, [str(i) for i in range(400)], "sample", 0, model.device)
    settings = replace(PLAIN, edit_threshold=1.0)
    done = run(model, [(ids("p"), ids("_"))] * 400, settings, temperature=1.0, keys=keys)
    share = (done.tokens[:, 1] == ids("a")[0]).float().mean().item()
    assert share == pytest.approx(0.75, abs=0.087)


def test_the_past_is_handed_on_where_there_is_one() -> None:
    class Remembering(ScriptedDenoiser):
        def hidden(self, canvas: Canvas, cache: Any = "none") -> Tensor:
            seen.append(cache)
            return torch.zeros(*canvas.tokens.shape, self.vocab_size)

    seen: list[Any] = []
    model = Remembering(script=lambda tokens: tokens)
    for cache in (None, "blocks"):
        run(model, [((9,), [model.tokenizer.mask_id])], cache=cache)
    assert seen == ["none", "none", "blocks", "blocks"]


def test_nan_logits_are_an_error_and_not_a_text(scripted: Scripted, ids: Ids) -> None:
    model = scripted(lambda canvas: torch.full((*canvas.tokens.shape, 259), torch.nan))
    with pytest.raises(DenoiserError, match="finite, got NaN"):
        run(model, [(ids("p"), ids("__"))])


def test_a_temperature_needs_keys(by_place: ByPlace, ids: Ids) -> None:
    with pytest.raises(SettingsError, match="needs keys"):
        run(by_place([{"a": 1.0}]), [(ids("p"), ids("_"))], temperature=0.5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reveal_threshold": None}, "needs a reveal_threshold"),
        ({"reveal_threshold": 0.0}, "reveal_threshold must be .*, got 0.0"),
        ({"edit_threshold": -0.1}, "edit_threshold must be .*, got -0.1"),
        ({"edit_threshold": 1.1}, "edit_threshold must be .*, got 1.1"),
        ({"edit_threshold": float("nan")}, "edit_threshold must be .*, got nan"),
        ({"post_steps": -1}, "post_steps must be .*, got -1"),
        ({"order": "entropy"}, "reveal_threshold compares probabilities"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        EditSettings(**changes)


def test_the_defaults_are_those_of_llada21() -> None:
    settings = EditSettings()
    assert (settings.reveal_threshold, settings.edit_threshold) == (0.95, 0.9)
    assert settings.post_steps == 16
