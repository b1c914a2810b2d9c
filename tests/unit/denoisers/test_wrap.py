"""Wrappers: suppression and counting, on logits written by hand."""

import pytest
import torch
from torch import Tensor
from wrapped import Twice

from remask.denoisers.base import Denoiser
from remask.denoisers.wrap import Counted, Suppressed
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import ScriptedDenoiser, tiny_tokenizer
from remask.values import Canvas

EOS, MASK, BOS = 0, 1, 2
WIDTH = 262
CPU = torch.device("cpu")


def seeing(tokens: Tensor) -> Tensor:
    """Token 10 has logit 3 where the row's first token is in sight and 1 where it is masked."""
    logits = torch.zeros(*tokens.shape, WIDTH)
    logits[:, :, 10] = torch.where(tokens[:, :1] == MASK, 1.0, 3.0)
    return logits


def canvas_of(*rows: tuple[list[int], list[int]]) -> Canvas:
    prompts, canvases = zip(*rows, strict=True)
    return Canvas.of(prompts, canvases, EOS, CPU)


def logits_of(denoiser: Denoiser, canvas: Canvas) -> Tensor:
    hidden = denoiser.hidden(canvas)
    return denoiser.head(hidden.flatten(0, 1)).view(*canvas.tokens.shape, -1)


def test_suppressed_ids_have_no_chance_and_the_others_are_untouched() -> None:
    plain = ScriptedDenoiser(script=seeing)
    canvas = canvas_of(([20, 21], [MASK, 30]))
    logits = logits_of(Suppressed(plain, ids=(EOS, 10)), canvas)
    assert (logits[:, :, [EOS, 10]] == -torch.inf).all()
    others = [i for i in range(WIDTH) if i not in (EOS, 10)]
    assert torch.equal(logits[:, :, others], logits_of(plain, canvas)[:, :, others])


def test_suppressing_nothing_changes_nothing() -> None:
    plain = ScriptedDenoiser(script=seeing)
    canvas = canvas_of(([20, 21], [MASK, 30]))
    assert torch.equal(logits_of(Suppressed(plain), canvas), logits_of(plain, canvas))


def test_a_suppressed_favourite_yields_to_the_next_in_an_answer() -> None:
    """Every row wants token 10; without it the lowest of the equal rest, EOS, then id 2, wins."""
    plain = ScriptedDenoiser(script=seeing)
    settings = SamplerSettings(length=3, steps=3, block=3)

    def answer(denoiser: Denoiser) -> tuple[int, ...]:
        return sample(denoiser, [[20, 21]], settings, items=["a"])[0].canvas

    assert answer(plain) == (10, 10, 10)
    assert answer(Suppressed(plain, ids=(10,))) == (EOS, EOS, EOS)
    assert answer(Suppressed(plain, ids=(10, EOS))) == (BOS, BOS, BOS)


def test_passes_are_counted_per_row() -> None:
    """A batch of two, then one of three: 5; or twice as many."""
    one, three = ([20], [MASK]), [([20], [MASK])] * 3
    for wrapped, expected in (
        (ScriptedDenoiser(script=seeing), [2, 3]),
        (Twice(ScriptedDenoiser(script=seeing)), [4, 6]),
    ):
        counted = Counted(wrapped)
        counted.hidden(canvas_of(one, one))
        counted.hidden(canvas_of(*three))
        assert counted.by_call == expected
        assert counted.forwards == sum(expected)


def test_a_pass_over_few_columns_counts_like_one_over_many() -> None:
    """Two rows: two columns remembered, one more shown, both doubled; no columns are no pass."""
    counted = Counted(BLOCKY)
    canvas = canvas_of(([20, 21], [MASK]), ([22, 23], [MASK]))
    cache = counted.extend_cache(columns(canvas, 0, 2))
    counted.hidden(columns(canvas, 2, 3), cache)
    counted.hidden_noisy_given_clean(canvas, canvas.tokens)
    counted.extend_cache(columns(canvas, 0, 0))
    assert counted.by_call == [2, 2, 2]


def columns(canvas: Canvas, start: int, end: int) -> Canvas:
    """Return some columns of an even batch."""
    shown = slice(start, end)
    return Canvas(tokens=canvas.tokens[:, shown], canvas=canvas.canvas[:, shown], attend=None)


def reaching_back(tokens: Tensor) -> Tensor:
    """Token 10 has a logit of the number of tokens in sight that are not masked."""
    logits = torch.zeros(*tokens.shape, WIDTH)
    logits[:, :, 10] = (tokens != MASK).sum(1, keepdim=True).float()
    return logits


BLOCKY = ScriptedDenoiser(script=reaching_back, block_size=2)


@pytest.mark.parametrize("wrapper", [Suppressed, Counted])
def test_a_wrapper_passes_the_past_on(wrapper: type[Suppressed] | type[Counted]) -> None:
    canvas = canvas_of(([20, 21], [MASK, 30]))
    outer = wrapper(BLOCKY)
    cache = outer.extend_cache(columns(canvas, 0, 2))
    assert torch.equal(
        outer.hidden(columns(canvas, 2, 4), cache), BLOCKY.hidden(columns(canvas, 2, 4), cache)
    )
    clean = torch.tensor([[20, 21, 22, 23]])
    assert torch.equal(
        outer.hidden_noisy_given_clean(canvas, clean),
        BLOCKY.hidden_noisy_given_clean(canvas, clean),
    )


def test_the_head_costs_nothing() -> None:
    counted = Counted(ScriptedDenoiser(script=seeing))
    counted.head(torch.zeros(5, WIDTH))
    assert counted.forwards == 0


def test_two_counters_do_not_share_their_counts() -> None:
    first, second = (Counted(ScriptedDenoiser(script=seeing)) for _ in range(2))
    first.hidden(canvas_of(([20], [MASK])))
    assert (first.forwards, second.forwards) == (1, 0)


def test_a_samples_own_count_is_the_counters() -> None:
    """Three rows, four steps for four tokens, twice each: 24."""
    counted = Counted(Twice(ScriptedDenoiser(script=seeing)))
    settings = SamplerSettings(length=4, steps=4, block=4)
    answers = sample(counted, [[20], [21, 22], [23]], settings, items=["a", "b", "c"])
    assert sum(answer.forwards for answer in answers) == counted.forwards == 24


@pytest.mark.parametrize("wrapper", [Twice, Suppressed, Counted])
def test_a_wrapper_passes_on_all_that_it_does_not_change(
    wrapper: type[Twice] | type[Suppressed] | type[Counted],
) -> None:
    tokenizer = tiny_tokenizer()
    inner = ScriptedDenoiser(script=seeing, name="n", tokenizer=tokenizer, max_length=9)
    outer = wrapper(inner)
    assert (outer.name, outer.tokenizer, outer.preset) == ("n", tokenizer, inner.preset)
    assert (outer.device, outer.vocab_size, outer.max_length) == (CPU, WIDTH, 9)
    tokens = torch.tensor([[3, 4]])
    assert torch.equal(outer.embed(tokens), inner.embed(tokens))
