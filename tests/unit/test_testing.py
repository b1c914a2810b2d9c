"""The kit itself: scripted denoisers run the real loops, and bad scorers are caught."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from remask.baselines.confidence import ModelConfidence
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.load import load
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import (
    ScriptedDenoiser,
    check_denoiser,
    check_scorer,
    tiny_tokenizer,
    write_checkpoint,
)
from remask.values import Canvas, Sample, Score

TOKENIZER = tiny_tokenizer()


def answers() -> list[Sample]:
    """Three answers of one, two and three tokens with probabilities 0.25, 0.5 and 0.75."""
    return [
        Sample(
            item=str(n),
            prompt=(9,),
            canvas=(*[70] * (n - 1), 0, *[0] * (3 - n)),
            num_response=n,
            text="a" * (n - 1),
            probs=(n / 4,) * 3,
        )
        for n in (1, 2, 3)
    ]


@dataclass
class Scripted:
    """A scorer that says what a function of the batch says."""

    says: Callable[[Sequence[Sample]], list[Score]]
    name: str = "scripted"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        return self.says(samples)


def each(**fields: object) -> Callable[[Sequence[Sample]], list[Score]]:
    return lambda samples: [Score(**{"value": 0.5, **fields}) for _ in samples]  # type: ignore[arg-type]


def test_a_good_scorer_passes() -> None:
    check_scorer(ModelConfidence(), answers())


def test_a_scorer_may_abstain_with_a_reason() -> None:
    check_scorer(Scripted(each(value=None, reason="no number in the reply")), answers())


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (each(value=None), "the score of sample 0 is None without a reason"),
        (each(value=math.nan), "value must be a number, got nan"),
        (each(value=math.inf), "value must be a finite number, got inf"),
        (each(by_metric={"m": math.nan}), r"by_metric\['m'\] must be a number, got nan"),
        (each(by_trip={"m": (None, math.nan)}), r"by_trip\['m'\]\[1\] must be a number, got nan"),
        (each(drift=(0.0, math.nan)), r"drift\[1\] must be a number, got nan"),
        (each(stderr=math.nan), "stderr must be a number, got nan"),
        (each(forwards=-1), "forwards must be at least 0, got -1"),
        (lambda s: [Score(value=1.0)], "3 samples gave 1 scores"),
        (lambda s: [Score(value=float(len(s)))] * len(s), r"sample 0 scores 3\.0 .* 1\.0 alone"),
        (
            lambda s: [Score(value=float(i)) for i in range(len(s))],
            r"sample 0 scores 0\.0 in a batch and 2\.0 in reverse order",
        ),
        (
            lambda s: [Score(value=0.5, by_metric={"m": float(len(s))})] * len(s),
            "sample 0 scores",
        ),
        (
            lambda s: [Score(value=None if len(s) == 1 else 0.5, reason="r")] * len(s),
            r"0\.5 in a batch and None alone",
        ),
    ],
)
def test_a_bad_scorer_is_caught_and_named(
    says: Callable[[Sequence[Sample]], list[Score]], told: str
) -> None:
    with pytest.raises(AssertionError, match=f"^scripted: .*{told}"):
        check_scorer(Scripted(says), answers())


def test_a_scorer_without_a_name_is_caught() -> None:
    with pytest.raises(AssertionError, match="name is empty"):
        check_scorer(Scripted(each(), name=" "), answers())


def test_one_sample_cannot_show_whether_neighbours_matter() -> None:
    with pytest.raises(AssertionError, match="two samples are needed"):
        check_scorer(Scripted(each()), answers()[:1])


def test_a_recited_answer_is_what_the_sampler_writes() -> None:
    """Margin 10 over 261 tokens, the mask token left out: p = 1 / (1 + 260 e^-10) = 0.98833."""
    prompt = TOKENIZER.render("Hi")
    denoiser = ScriptedDenoiser.reciting([*prompt, *TOKENIZER.encode("four"), 0, 0])
    settings = SamplerSettings(length=6, steps=3, block=6)
    (answer,) = sample(denoiser, [prompt], settings, items=["a"])
    assert (answer.text, answer.num_response, answer.forwards) == ("four", 5, 3)
    assert answer.probs == pytest.approx([1 / (1 + 260 * math.exp(-10))] * 6)


def test_a_script_never_sees_padding() -> None:
    seen = []

    def script(tokens: torch.Tensor) -> torch.Tensor:
        seen.append(tokens.tolist())
        return torch.ones(*tokens.shape, 262)

    canvas = Canvas.of([[10, 11], [12]], [[1, 1], [1]], 0, torch.device("cpu"))
    hidden = ScriptedDenoiser(script=script).hidden(canvas)
    assert seen == [[[10, 11, 1, 1]], [[12, 1]]]
    assert hidden[:, :, 0].tolist() == [[1.0] * 4, [1.0, 1.0, 0.0, 0.0]]


def test_a_script_never_sees_a_later_block() -> None:
    """Blocks of 2, a row of 3 and one of 2: each is read up to the end of every block."""
    seen = []

    def script(tokens: torch.Tensor) -> torch.Tensor:
        seen.append(tokens[0].tolist())
        return tokens[..., None].float().expand(-1, -1, 262)

    denoiser = ScriptedDenoiser(script=script, block_size=2)
    canvas = Canvas.of([[10, 11], [12]], [[13], [14]], 0, torch.device("cpu"))
    hidden = denoiser.hidden(canvas)
    assert seen == [[10, 11], [10, 11, 13], [12, 14]]
    assert hidden[:, :, 0].tolist() == [[10.0, 11.0, 13.0], [12.0, 14.0, 0.0]]
    seen.clear()
    first = Canvas(tokens=canvas.tokens[:, :2], canvas=canvas.canvas[:, :2], attend=None)
    last = Canvas.of([[], []], [[13], []], 0, torch.device("cpu"))
    behind = denoiser.hidden(last, denoiser.extend_cache(first))
    assert seen == [[10, 11], [10, 11, 13], [12, 14]]
    assert behind[:, :, 0].tolist() == [[13.0], [0.0]]


def neighbourly(tokens: torch.Tensor) -> torch.Tensor:
    """Token t at place i adds t / (1 + distance) to one logit of every place."""
    places = torch.arange(tokens.shape[1])
    near = 1.0 / (1.0 + (places[:, None] - places).abs())
    return torch.sin((tokens.float() @ near / 100.0)[:, :, None] * torch.arange(1.0, 263.0))


class Forgetful(ScriptedDenoiser):
    """Does not look back."""

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> torch.Tensor:
        return super().hidden(canvas)


class Prescient(ScriptedDenoiser):
    """Sees later blocks where nobody stops it."""

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> torch.Tensor:
        return (
            super().hidden(canvas, cache)
            if cache
            else ScriptedDenoiser(script=self.script).hidden(canvas)
        )


class Unsettled(ScriptedDenoiser):
    """Keeps what it was told first: another block is added as if there were none."""

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        kept = super().extend_cache(canvas, cache)
        return kept if cache is None else replace(kept, lengths=cache.lengths)


class Clinging(ScriptedDenoiser):
    """Rows that leave take the cache of the first one with them."""

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        kept = super().extend_cache(canvas, cache)
        return FirstOnly(layers=kept.layers, lengths=kept.lengths, columns=kept.columns)


class FirstOnly(KVCache):
    def rows(self, indices: torch.Tensor) -> KVCache:
        return super().rows(torch.zeros_like(indices))


class Noisy(ScriptedDenoiser):
    """Reads doubled rows as ordinary ones, behind a noisy context."""

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: torch.Tensor) -> torch.Tensor:
        return self.hidden(canvas)


@pytest.mark.parametrize("size", range(3, 14))
def test_a_block_causal_script_keeps_the_contract(size: int) -> None:
    check_denoiser(ScriptedDenoiser(script=neighbourly, block_size=size))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Forgetful, "a cache moves logits"),
        (Prescient, "later blocks move logits"),
        (Unsettled, "a cache kept block by block moves logits"),
        (Clinging, "leaving a batch moves logits"),
        (Noisy, "doubling a row moves logits"),
    ],
)
def test_a_broken_past_is_caught_and_named(kind: type[ScriptedDenoiser], told: str) -> None:
    with pytest.raises(AssertionError, match=f"^scripted: {told}"):
        check_denoiser(kind(script=neighbourly, block_size=4))


def test_embeddings_of_a_scripted_denoiser_tell_tokens_apart() -> None:
    vectors = ScriptedDenoiser.reciting([5]).embed(torch.tensor([3, 4, 3]))
    assert vectors.shape == (3, 262)
    assert torch.equal(vectors[0], vectors[2])
    assert (vectors[0] - vectors[1]).norm().item() == pytest.approx(math.sqrt(2))


def test_checkpoints_are_a_function_of_their_seed(tmp_path: Path) -> None:
    files = [
        (write_checkpoint(tmp_path / name, seed=seed) / "model.safetensors").read_bytes()
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert files[0] == files[1] != files[2]


def test_a_checkpoint_has_the_shape_asked_for(tmp_path: Path) -> None:
    folder = write_checkpoint(
        tmp_path, layers=1, width=24, heads=3, kv_heads=1, inner=40, max_length=64, length=8
    )
    denoiser = load(folder, device="cpu")
    assert denoiser.max_length == 64
    assert denoiser.embed(torch.tensor([1])).shape == (1, 24)
    expected = SamplerSettings(length=8, steps=8, block=8, resample_temperature=0.9)  # LLaDA's
    assert SamplerSettings.of(denoiser.preset) == expected
