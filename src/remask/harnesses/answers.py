"""Prompts -> answers of a model, cut where the harness says, with their scores.

A diffusion model fills a canvas: it knows no text at which it would stop. An answer is written
whole and cut before the first such text, and what is scored is what is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import remask
from remask import Denoiser, Sample, SamplerSettings, Score, Scorer
from remask.api import (
    SCORERS,
    AnyScorer,
    ScoreThreshold,
    Source,
    find_scorer,
    item_of,
    reader,
    scores_of,
    threshold_for,
)
from remask.errors import InputError
from remask.harnesses.settings import HarnessSettings
from remask.settings import unknown_name


class Wanted(NamedTuple):
    """One answer that is to be written."""

    context: str  # what the model reads, as text
    prompt: tuple[int, ...]  # the same as the model reads it
    sampler: SamplerSettings
    stops: tuple[str, ...] = ()
    number: int = 0  # which answer to this prompt
    seed: int = 0


class Answer(NamedTuple):
    """One answer that was written."""

    text: str
    sample: Sample
    is_cut: bool  # before a text at which it was to stop
    score: Score | None  # None: nothing scores answers
    threshold: ScoreThreshold = ScoreThreshold()

    @property
    def ended(self) -> bool:
        """Whether the answer ends by itself, or at a text, and not with its canvas."""
        return self.is_cut or self.sample.num_response < len(self.sample.canvas)


@dataclass(frozen=True, kw_only=True, eq=False)
class Answerer:
    """A model that answers the requests of a harness."""

    model: Denoiser
    settings: HarnessSettings
    scorer: AnyScorer | None  # None: nothing scores answers

    @staticmethod
    def of(
        model: str | Denoiser, scorer: AnyScorer | None, settings: HarnessSettings
    ) -> "Answerer":
        """Return it, with the model loaded where it is given by its name.

        A kind or a scorer that is none is refused here, before hours are spent on answers.
        """
        reader(settings.kind)
        _check_name(scorer)
        if isinstance(model, str):
            s = settings
            model = remask.load(
                model, device=s.device, dtype=s.dtype, preset=s.preset, weights=s.weights,
                compiled=s.compile,
            )  # fmt: skip
        answerer = Answerer(model=model, settings=settings, scorer=scorer or None)
        if answerer.scorer is not None:
            answerer.judge({})
        return answerer

    def judge(self, questions: Mapping[str, str]) -> Scorer:
        """Return what scores answers to these questions, given by the item of their samples."""
        assert self.scorer is not None, "answers are scored"
        how = self.settings
        return find_scorer(self.scorer, self.model, questions, kind=how.kind, seed=how.seed)

    def sampler(self, length: int | None = None, **given: Any) -> SamplerSettings:
        """Return how an answer is written; what is given goes before the settings.

        A canvas is whole blocks: of a length between two numbers of them it has the smaller, and
        at least one.
        """
        s, model = self.settings, self.model
        ours = {"steps": s.steps, "block": s.block, "temperature": s.temperature}
        given = {**ours, **{name: value for name, value in given.items() if value is not None}}
        length = length or s.length
        if length is not None:
            block = model.block_size or given["block"] or model.preset.for_task(s.kind).block
            if length >= block:
                length -= length % block
            elif model.block_size is None:
                given["block"] = length
            else:
                length = block
        further = {name: given.pop(name) for name in ("top_p", "top_k") if name in given}
        settings = remask.sampler_settings(model, kind=s.kind, length=length, **given)
        return replace(settings, **further)

    def answers(self, wanted: Sequence[Wanted]) -> list[Answer]:
        """Return an answer to each request; those that are written alike share batches."""
        samples: dict[int, Sample] = {}
        alike = [(one.sampler, one.number, one.seed) for one in wanted]
        for how in dict.fromkeys(alike):
            rows = [i for i, other in enumerate(alike) if other == how]
            settings, number, seed = how
            written = remask.sample_many(
                self.model,
                [wanted[i].prompt for i in rows],
                settings=settings,
                items=[item_of(wanted[i].context) for i in rows],
                number=number,
                seed=seed,
            )
            samples.update(zip(rows, written, strict=True))
        texts = [_cut(samples[i].text, one.stops) for i, one in enumerate(wanted)]
        scores = self._scores(wanted, [samples[i] for i in range(len(wanted))], texts)
        thresholds = {is_cut: self._threshold(is_cut=is_cut) for is_cut in (False, True)}
        is_cut = [text != samples[i].text for i, text in enumerate(texts)]
        return [
            Answer(text, samples[i], is_cut[i], scores[i], thresholds[is_cut[i]])
            for i, text in enumerate(texts)
        ]

    def _threshold(self, *, is_cut: bool) -> ScoreThreshold:
        """Return the threshold of the scores; a cut answer counts as external."""
        if self.scorer is None:
            return ScoreThreshold()
        source: Source = "external" if is_cut else "model"
        return threshold_for(self.model, self.judge({}), kind=self.settings.kind, source=source)

    def _scores(
        self, wanted: Sequence[Wanted], samples: Sequence[Sample], texts: Sequence[str]
    ) -> Sequence[Score | None]:
        """Return the score of each text, in the order of the requests."""
        if self.scorer is None:
            return [None] * len(wanted)
        judge = self.judge({item_of(one.context): one.context for one in wanted})
        left = [self._left(*row) for row in zip(wanted, samples, texts, strict=True)]
        there = [one for one in left if isinstance(one, Sample)]
        scores = iter(scores_of(judge, there))
        return [next(scores) if isinstance(one, Sample) else _refused(one, judge) for one in left]

    def _left(self, one: Wanted, sample: Sample, text: str) -> Sample | str:
        """Return what is left of an answer where it was cut, or why that cannot be scored."""
        if text == sample.text:
            return sample
        try:
            left = remask.sample_from_text(
                self.model, one.prompt, text, item=sample.item, length=len(sample.canvas)
            )
        except InputError as error:
            return str(error)
        return replace(left, number=sample.number)


def _check_name(scorer: AnyScorer | None) -> None:
    """Refuse a name that no scorer has, before the model is loaded."""
    if isinstance(scorer, str) and scorer and ":" not in scorer and scorer not in SCORERS:
        raise unknown_name("scorer", scorer, SCORERS, ", or module:name")


def score_fields(score: Score, threshold: ScoreThreshold) -> dict[str, Any]:
    """Return a score and its verdict with the field names of `remask verify --json`."""
    return {
        "verdict": threshold.verdict(score),
        **threshold.fields,
        "score": score.value,
        "stderr": score.stderr,
        "scorer": score.scorer,
        "metrics": dict(score.by_metric),
        "forwards": score.forwards,
        "stage": score.stage or None,
        "reason": score.reason or None,
    }


def _cut(text: str, stops: Sequence[str]) -> str:
    """Return what stands before the first of these texts."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def _refused(reason: str, judge: Scorer) -> Score:
    return Score(value=None, reason=reason, scorer=judge.name)
