"""Contraction: does one denoising step bring answers of one question closer together?

    T(z) = E over masks, E over predictions of the rebuilt embeddings     the paper's operator
    ||T z - T z'|| / ||z - z'||                                           the rate, pair by pair

A point is an answer's canvas, tail included, embedded with the model's input embeddings: Z is
R^(C x E) with the Euclidean norm. Its image is computed, not sampled: masked places hold the mean
embedding under the predicted distribution, visible ones keep theirs, and `draws` masks are
averaged. All answers of a question meet the same masks, so the rate is one of an operator and not
of two noisy copies of it. Masks are stratified in tens: each is the paper's independent one, ten
together show every place in its fair share.

Two kinds of pairs: answers of one question that differ (`contraction`), and an answer with itself
after one token was replaced by another of its own (`local`). A model that ignores what it sees has
a rate of exactly 1 - mask_ratio: what is above it is the model's.

Proposition 4 is tested on every answer z: is ||z - z*|| <= ||z - T z|| / (1 - kappa)?

- z* is the closest valid solution among the recorded answers that are right in every step and the
  task's own solution. An answer that is valid itself is at distance 0 and meets any bound, so the
  share is measured once more for the others.
- kappa is the steepest pair of the question, since the proposition wants a bound on all of them;
  at 1 or above its premise fails, and the answer does not count as one that satisfies it. The
  share is measured again with the median rate of all pairs.

Departures from the paper: it takes valid solutions for fixed points of T. They are not, and T has
no others that a model which reads tokens could be shown; `residual_right` says how far they move.
It estimates neither T nor kappa. With few masks lengths come out too long: residuals and rates of
answers far apart hardly, local rates by a quarter at ten masks, one of which shows the token.
Models that see block by block are refused: they have no one-step operator.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from remask import rng
from remask.analysis.bootstrap import Interval, Statistic, bootstrap
from remask.analysis.figure import Figure, Figures, Place, of_intervals
from remask.analysis.load_records import Source
from remask.analysis.pool import Pool, pools
from remask.analysis.statistics import mean
from remask.collect.injection import ORIGINAL, Case, problem_of, sample_of_case
from remask.consistency.roundtrips import stratified_masks
from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.records.manifest import Manifest, find_manifest
from remask.records.record import Record
from remask.sampling.batches import spread, whole_rows
from remask.sampling.settings import HEAD_ELEMENTS
from remask.settings import checked
from remask.tasks import task as find_task
from remask.tasks.base import Problem, Task
from remask.values import Canvas, Sample

SECTION = "geometry"  # the contraction is a part of it
CONTRACTED = 50  # questions; four answers each take minutes on two CPU cores
QUANTILES = (0.1, 0.9)
_ROUND = 10  # draws that share out a place's turns; in one round for all, places would not mix
_CHUNK = 16  # questions whose points are held at once
_ROUNDING = 1e-5  # of float32 sums: a bound that holds with equality holds

Role = Literal["answer", "solution", "nudged"]


@dataclass(frozen=True, kw_only=True)
class ContractionSettings:
    """How the operator is estimated, and on how much."""

    mask_ratio: float = 0.9
    draws: int = 10  # masks that are averaged
    samples: int = 4  # of each pool, the first
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not 0 < self.mask_ratio <= 1:
            raise SettingsError(f"mask_ratio {self.mask_ratio} is not above 0 and at most 1.")
        for name in ("draws", "samples"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1.")


class Point(NamedTuple):
    """One text of a question, on a canvas."""

    sample: Sample
    valid: bool  # right in every step
    role: Role = "answer"


@dataclass(frozen=True, kw_only=True)
class PairRate:
    """How far two points of one question are apart, and how much closer their images are."""

    item: str
    local: bool  # they differ in one token
    distance: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class Residual:
    """What Proposition 4 relates for one answer."""

    item: str
    number: int
    valid: bool
    residual: float  # ||z - T z||
    moved: float  # the same as RMS over the tokens of the canvas
    distance: float | None  # ||z - z*||; None where no valid solution stands on such a canvas
    rate: float | None  # of the steepest pair of its question; None where that has none

    def bounded(self, rate: float) -> bool:
        """Say whether the distance is within the proposition's bound; at rates from 1 up never."""
        if self.distance is None or rate >= 1:
            return False
        return self.distance * (1 - rate) <= self.residual * (1 + _ROUNDING)

    @property
    def used(self) -> float:
        """The distance as a share of its bound; the answer has both."""
        distance, rate = self.distance or 0.0, self.rate or 0.0
        return distance * max(0.0, 1 - rate) / self.residual


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """What pairs and residuals show; None for what does not exist. Intervals draw questions."""

    mask_ratio: float
    draws: int
    answers: int
    unsolved: int  # answers without a valid solution to be compared with, or without a pair
    forwards: int
    contraction: Interval | None  # median rate over pairs of answers
    below_one: Interval | None  # share of these pairs
    quantiles: tuple[float, float] | None  # 10 and 90 % of these rates
    local: Interval | None  # median rate over answers and themselves, one token replaced
    local_below_one: Interval | None
    bound_share: Interval | None  # of answers that satisfy Proposition 4's bound
    bound_share_invalid: Interval | None  # of those that are no valid solution themselves
    bound_share_median: Interval | None  # of the same, with the median rate for kappa
    bound_used: Interval | None  # median, over the same, of the distance as a share of its bound
    residual_right: Interval | None  # RMS movement per token of valid solutions among the answers
    residual_wrong: Interval | None  # and of the other answers

    def figures(self, study: str, *, is_main: bool = False) -> Figures:
        """Return what exists of it."""
        place: Place = {"section": SECTION, "study": study, "is_main": is_main}
        ratio = f"at mask_ratio {self.mask_ratio:g}"
        among = "share of answers not valid themselves"
        intervals = {
            "contraction": (self.contraction, f"median rate {ratio}"),
            "contraction_below_one": (self.below_one, "share of pairs"),
            "contraction_local": (self.local, f"median rate {ratio}, one token replaced"),
            "contraction_local_below_one": (self.local_below_one, "share of pairs"),
            "bound_share": (self.bound_share, "share of answers, steepest rate of the question"),
            "bound_share_invalid": (self.bound_share_invalid, among),
            "bound_share_median": (self.bound_share_median, f"{among}, median rate"),
            "bound_used": (
                self.bound_used, "median share of the bound, answers not valid themselves",
            ),
            "residual_right": (self.residual_right, "RMS per token, valid answers"),
            "residual_wrong": (self.residual_wrong, "RMS per token, other answers"),
        }  # fmt: skip
        figures = of_intervals(intervals, **place)
        blind: Place = {"measure": "contraction_blind", "unit": "rate of a model that is blind"}
        figures.append(Figure(**place, **blind, value=1 - self.mask_ratio))
        if self.quantiles is not None and self.contraction is not None:
            for share, rate in zip(QUANTILES, self.quantiles, strict=True):
                quantile: Place = {
                    "measure": f"contraction_q{share * 100:.0f}",
                    "unit": f"{share:.0%} quantile of the rates",
                }
                figures.append(Figure(**place, **quantile, value=rate, n=self.contraction.n))
        return Figures(figures)


@checked
def contraction_figures(source: Source, denoiser: Denoiser) -> Figures:
    """Return how the model's one-step operator moves answers of the main study, or of the first."""
    studies = source.studies
    study = next((each for each in studies if each.name == source.main), studies[0])
    rows = [row for pool in pools(study.rows)[:CONTRACTED] for row in pool]
    is_main = study.name == source.main
    measured = contraction(denoiser, rows, manifest=find_manifest(study.path))
    return measured.figures(study.name, is_main=is_main)


def contraction(
    denoiser: Denoiser,
    rows: Iterable[Record],
    settings: ContractionSettings | None = None,
    *,
    manifest: Manifest | None = None,
) -> Contraction:
    """Return how the expected one-step operator moves recorded answers of a generated task."""
    settings = settings or ContractionSettings()
    asked = {} if manifest is None else manifest.settings
    own: dict[str, Problem] = {}
    if manifest is not None and ":" in asked.get("task", ""):  # its ids have any form
        task = find_task(asked["task"])
        drawn = {name: asked[name] for name in ("split", "level", "seed")}
        own = {(made := task.problem(k, **drawn)).id: made for k in manifest.problems}
    questions = []
    for pool in pools(rows):
        problem = own.get(pool[0].id) or problem_of(pool[0])
        task = find_task(asked["task"] if own else problem.task)
        questions.append(points(denoiser, pool[: settings.samples], task, problem))
    return measure(denoiser, questions, settings)


def points(denoiser: Denoiser, pool: Pool, task: Task, problem: Problem) -> list[Point]:
    """Return the recorded answers of one question and, last, the task's own solution."""
    texts = [(row.text, row.number, bool(row.process_ok)) for row in pool]
    made: list[Point] = []
    for text, number, valid in (*texts, (problem.solution, len(pool), True)):
        sample = sample_of_case(denoiser, task, Case(problem, ORIGINAL, text))
        if sample is not None:
            role: Role = "answer" if len(made) < len(pool) else "solution"
            made.append(Point(replace(sample, number=number), valid, role))
    return made


def measure(
    denoiser: Denoiser, questions: Sequence[Sequence[Point]], settings: ContractionSettings
) -> Contraction:
    """Return what the points of each question show; those of one question share their item."""
    pairs: list[PairRate] = []
    residuals: list[Residual] = []
    num_points = 0
    for start in range(0, len(questions), _CHUNK):
        chunk = [with_nudged(points, settings.seed) for points in questions[start : start + _CHUNK]]
        samples = [point.sample for point in chain(*chunk)]
        num_points += len(samples)
        before, after = embedded(denoiser, samples), images(denoiser, samples, settings)
        moved = zip(before, after, strict=True)
        for question in chunk:
            shown = QuestionPoints(question, [next(moved) for _ in question])
            pairs += shown.pairs()
            residuals += shown.residuals()
    forwards = num_points * settings.draws * denoiser.forwards_per_call
    return _summary(pairs, residuals, settings, forwards)


def with_nudged(points: Sequence[Point], seed: int) -> list[Point]:
    """Return the points and, behind them, each answer with one token replaced."""
    answers = (point for point in points if point.role == "answer")
    nudged = (nudge(point.sample, seed) for point in answers)
    return [*points, *(Point(sample, False, "nudged") for sample in nudged if sample is not None)]


def nudge(sample: Sample, seed: int = 0) -> Sample | None:
    """Return the answer with one token replaced by another of its own; None where it has none."""
    inside = sample.canvas[: max(1, sample.num_response - 1)]  # without the end token
    key = torch.tensor(rng.key(seed, sample.item, f"nudge/{sample.number}"))
    place = int(rng.uniform(key, 0) * len(inside))
    others = sorted(set(inside) - {inside[place]})
    if not others:
        return None
    token = others[int(rng.uniform(key, 1) * len(others))]
    return replace(sample, canvas=(*inside[:place], token, *sample.canvas[place + 1 :]))


def embedded(denoiser: Denoiser, samples: Sequence[Sample]) -> list[Tensor]:
    """Return z of every sample, (C, E) on the CPU."""
    device = denoiser.device
    return [denoiser.embed(torch.tensor(s.canvas, device=device)).cpu() for s in samples]


def images(
    denoiser: Denoiser, samples: Sequence[Sample], settings: ContractionSettings
) -> list[Tensor]:
    """Return T z of every sample, (C, E) on the CPU."""
    if denoiser.block_size is not None:
        raise SettingsError(
            f"{denoiser.name} sees block by block and has no one-step operator; "
            "choose a model that sees every position."
        )
    lengths = [settings.draws * (len(s.prompt) + len(s.canvas)) for s in samples]
    done: dict[int, Tensor] = {}

    def move_batch(replica: Denoiser, batch: list[int]) -> list[Tensor]:
        return _images(replica, [samples[i] for i in batch], settings)

    for batch, moved in spread(denoiser, whole_rows(lengths, denoiser.device), move_batch):
        done.update(zip(batch, moved, strict=True))
    return [done[i] for i in range(len(samples))]


@torch.no_grad()
def _images(
    denoiser: Denoiser, samples: Sequence[Sample], settings: ContractionSettings
) -> list[Tensor]:
    rows = [(sample, draw) for sample in samples for draw in range(settings.draws)]
    tokenizer = denoiser.tokenizer
    canvas = Canvas.of(
        [s.prompt for s, _ in rows], [s.canvas for s, _ in rows], tokenizer.pad_id, denoiser.device
    )
    masked = _masked(canvas, rows, settings)
    noisy = replace(canvas, tokens=canvas.tokens.masked_fill(masked, tokenizer.mask_id))
    rebuilt = denoiser.embed(canvas.tokens)  # (B, L, E)
    rebuilt[masked] = _expected(denoiser, denoiser.hidden(noisy)[masked])
    expected = (
        rebuilt.view(len(samples), settings.draws, *rebuilt.shape[1:]).mean(1).cpu()
    )  # (n, L, E)
    spans = [slice(len(s.prompt), len(s.prompt) + len(s.canvas)) for s in samples]
    return [image[span].clone() for image, span in zip(expected, spans, strict=True)]


def _masked(
    canvas: Canvas, rows: Sequence[tuple[Sample, int]], settings: ContractionSettings
) -> Tensor:
    """Return what each draw masks, (B, L); sample numbers do not enter, nor where an answer ends.

    A draw that would mask nothing masks one place of the canvas, at random.
    """
    device, size = canvas.tokens.device, min(_ROUND, settings.draws)
    keys, shared = (
        torch.tensor([rng.key(settings.seed, s.item, f"contraction/{x}", d // n) for s, d in rows])
        for x, n in (("perturb", 1), ("stratify", size))
    )
    phase = torch.tensor([draw % size / size for _, draw in rows], device=device)
    ratio = torch.full((len(rows),), settings.mask_ratio, device=device)
    return stratified_masks(canvas, canvas.canvas, ratio, keys.to(device), shared.to(device), phase)


def _expected(denoiser: Denoiser, rows: Tensor) -> Tensor:
    """Return the mean embedding under what is predicted from each row, (M, H) -> (M, E)."""
    table = denoiser.embed(torch.arange(denoiser.vocab_size, device=rows.device))  # (V, E)
    size = max(1, HEAD_ELEMENTS // denoiser.vocab_size)
    parts = []
    for start in range(0, len(rows), size):
        logits = denoiser.head(rows[start : start + size])
        logits[:, denoiser.tokenizer.mask_id] = -torch.inf
        parts.append(logits.softmax(1) @ table)
    return torch.cat(parts)


class QuestionPoints:
    """The points of one question, before and after one step."""

    def __init__(self, points: Sequence[Point], moved: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.points = points
        self.z = [z.double() for z, _ in moved]
        self.image = [image.double() for _, image in moved]

    def pairs(self) -> list[PairRate]:
        """Return the pairs of answers, and of each answer with its nudged self."""
        apart = (self._rate(i, j) for i, j in self._of("answer", "answer"))
        return [rate for rate in (*apart, *self._local()) if rate is not None]

    def residuals(self) -> list[Residual]:
        """Return what the bound relates, for each answer."""
        with_solution = (self._rate(i, j) for i, j in self._of("answer", "solution"))
        rates = [rate.rate for rate in (*self.pairs(), *with_solution) if rate is not None]
        steepest = max(rates, default=None)
        answers = (i for i, point in enumerate(self.points) if point.role == "answer")
        return [self._residual(i, steepest) for i in answers]

    def _of(self, one: Role, other: Role) -> Iterator[tuple[int, int]]:
        first, second = (
            [i for i, point in enumerate(self.points) if point.role == role]
            for role in (one, other)
        )
        return combinations(first, 2) if one == other else product(first, second)

    def _local(self) -> Iterator[PairRate | None]:
        for i, j in self._of("answer", "nudged"):
            if self.points[i].sample.number == self.points[j].sample.number:
                yield self._rate(i, j, local=True)

    def _rate(self, i: int, j: int, local: bool = False) -> PairRate | None:
        """Return the rate of two points; None where they are one, or on canvases of two lengths."""
        distance = self._distance(i, j)
        if not distance:
            return None
        rate = float((self.image[i] - self.image[j]).norm()) / distance
        item = self.points[i].sample.item
        return PairRate(item=item, local=local, distance=distance, rate=rate)

    def _distance(self, i: int, j: int) -> float | None:
        if self.z[i].shape != self.z[j].shape:
            return None
        return float((self.z[i] - self.z[j]).norm())

    def _residual(self, i: int, rate: float | None) -> Residual:
        valid = [j for j, point in enumerate(self.points) if point.valid]
        reached = (self._distance(i, j) for j in valid)
        residual = float((self.z[i] - self.image[i]).norm())
        return Residual(
            item=self.points[i].sample.item,
            number=self.points[i].sample.number,
            valid=self.points[i].valid,
            residual=residual,
            moved=residual / len(self.z[i]) ** 0.5,
            distance=min((d for d in reached if d is not None), default=None),
            rate=rate,
        )


def _summary(
    pairs: Sequence[PairRate],
    residuals: Sequence[Residual],
    settings: ContractionSettings,
    forwards: int,
) -> Contraction:
    apart, near = ([p for p in pairs if p.local is local] for local in (False, True))
    related = [r for r in residuals if r.distance is not None and r.rate is not None]
    rates = [p.rate for p in apart]
    kappa = median(rates)
    invalid = [r for r in related if not r.valid]
    low, high = np.quantile(rates, QUANTILES) if rates else (0.0, 0.0)
    return Contraction(
        mask_ratio=settings.mask_ratio,
        draws=settings.draws,
        answers=len(residuals),
        unsolved=len(residuals) - len(related),
        forwards=forwards,
        contraction=_over(median, apart, rates),
        below_one=_over(mean, apart, [rate < 1 for rate in rates]),
        quantiles=(float(low), float(high)) if rates else None,
        local=_over(median, near, [p.rate for p in near]),
        local_below_one=_over(mean, near, [p.rate < 1 for p in near]),
        bound_share=_bounded(related),
        bound_share_invalid=_bounded(invalid),
        bound_used=_over(median, invalid, [r.used for r in invalid]),
        bound_share_median=None if kappa is None else _bounded(invalid, kappa),
        residual_right=_movement(r for r in residuals if r.valid),
        residual_wrong=_movement(r for r in residuals if not r.valid),
    )


def median(values: ArrayLike) -> float | None:
    """Return the median; None of nothing."""
    column = np.asarray(values, np.float64)
    return float(np.median(column)) if len(column) else None


def _bounded(residuals: Sequence[Residual], kappa: float | None = None) -> Interval | None:
    """Return the share that satisfies the bound, with `kappa` or the rate of its question."""
    rates = (r.rate if kappa is None else kappa for r in residuals)
    flags = [r.bounded(x) for r, x in zip(residuals, rates, strict=True) if x is not None]
    return _over(mean, residuals, flags)


def _movement(residuals: Iterable[Residual]) -> Interval | None:
    moved = list(residuals)
    return _over(mean, moved, [r.moved for r in moved])


def _over(
    statistic: Statistic, sources: Sequence[PairRate | Residual], values: ArrayLike
) -> Interval | None:
    return bootstrap(statistic, values, groups=[x.item for x in sources])
