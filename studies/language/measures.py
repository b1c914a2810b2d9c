"""Records -> figures: every method on every benchmark, by the code and the bootstrap of `frontier`.

Problems are drawn within benchmarks, once for all methods. What needs one answer is measured on all
problems; what needs ten (`agreement`) on the problems that have pools, and so are the others again
in the part `pool`, to be compared with it, and once more in the part `distinct`, on the problems
that no row of the training nearly is. A mean is over all benchmarks, however few of one's answers
are right.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remask.analysis.bootstrap import mean_of
from remask.analysis.figure import Figure, Place, of_interval
from remask.analysis.pool import Pool, is_scored
from remask.analysis.statistics import proportion
from remask.records.record import Record
from studies.frontier.measure import pool_scores
from studies.language.answers import BenchmarkAnswers
from studies.language.reckoning import all_hold, is_wrong_by_sums
from studies.shared.fits import RECIPES, USUAL, fit_set
from studies.shared.methods import MethodScores, frontier_methods, score_pools
from studies.shared.rejection import (
    MGRS_METHODS,
    PoolScores,
    choose_thresholds,
    mgrs_figures,
    within_pool,
)
from studies.shared.sets import RESAMPLES, FrontierSet, MethodMeasures
from studies.shared.stages import fit_sequential

SECTION, MEAN = "real", "mean"
# Parts of the problems: those with ten samples, and those that no row of the training nearly is.
POOL, DISTINCT = "pool", "distinct"
# The library's names -> those of this study.
RENAMED = {"fitted20": "fitted", "agreement10": "agreement"}
MEASURES = ("auroc", "auroc_equal_length", "extra_forwards", "absent")
DIFFERENCES = (
    ("verifier", "confidence"), ("verifier", "roundtrips"), ("verifier", "length"),
    ("fitted", "length"), ("fitted", "confidence"), ("fitted", "verifier"),
    ("roundtrips", "confidence"),
)  # fmt: skip
POOL_DIFFERENCES = tuple(
    (name, "agreement") for name in ("verifier", "roundtrips", "confidence", "fitted")
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """What every method is worth on one benchmark, or on a part of it."""

    own: FrontierSet
    methods: Mapping[str, MethodMeasures]


def measure_sets(
    answers: Sequence[BenchmarkAnswers], resamples: int = RESAMPLES
) -> Iterator[Figure]:
    """Yield the figures of every benchmark, and the means over them."""
    for part in ("", POOL, DISTINCT):
        measured = [
            _measured(each.name, asked, each.validated, resamples)
            for each in answers
            if (asked := _problems(each, part))
        ]
        for own in measured:
            yield from _of_set(own, part)
        if len(measured) == len(answers):
            yield from _means(measured, part)
        if not part:
            for each, own in zip(answers, measured, strict=True):
                yield from _facts(each, own.own)


def _problems(answers: BenchmarkAnswers, part: str) -> Sequence[Pool]:
    """Return the problems of a part with their answers, none where there is no such part."""
    if part == POOL:
        return answers.pooled
    return answers.distinct if part == DISTINCT else answers.answers


def rejection(answers: Sequence[BenchmarkAnswers], resamples: int = RESAMPLES) -> Iterator[Figure]:
    """Yield what rejection sampling reaches by each score, where all samples have one."""
    for each in answers:
        if each.pool is None or not all(is_scored(row) for row in each.pool.rows):
            continue
        own = FrontierSet(
            name=each.name, family=each.name, pooled=each.pooled, validation=each.validated,
            resamples=resamples,
        )  # fmt: skip
        samples = pool_scores(own.pooled, [])
        if samples is None:
            continue
        for method, number in within_pool(own, samples).items():
            place: Place = {"section": SECTION, "study": each.name, "method": _name(method)}
            yield of_interval(
                number.interval(), **place, measure="auroc_within_pool",
                unit="AUROC within a problem",
            )  # fmt: skip
        if own.validation:
            yield from _rejected(own, samples)


def _rejected(own: FrontierSet, samples: PoolScores) -> Iterator[Figure]:
    """Yield rejection sampling by thresholds that single answers of validation choose."""
    methods = [m for m in frontier_methods(own.validation) if m.name in MGRS_METHODS]
    first = {method.name: score_pools(method, own.validation) for method in methods}
    for figure in mgrs_figures(own, samples, *choose_thresholds(own, None, first, {})):
        yield Figure(**{**vars(figure), "section": SECTION})


def _measured(
    name: str, pooled: Sequence[Pool], validation: Sequence[Pool], resamples: int
) -> Measured:
    """Return every method on one set of problems; one that cannot be told apart has none."""
    own = FrontierSet(
        name=name, family=name, pooled=pooled, validation=validation, resamples=resamples
    )
    scored = [score_pools(method, pooled) for method in frontier_methods(pooled)]
    scored += _fitted(own)
    measured = {_name(each.name): own.measure(each) for each in scored}
    known = {name: each for name, each in measured.items() if each is not None}
    return Measured(own=own, methods=known)


def _fitted(own: FrontierSet) -> Iterator[MethodScores]:
    """Yield what fits on validation answers say: of 200 of them, or of all where they are fewer."""
    labels = num_labels(own.validation)
    if not labels:
        return
    for recipe in RECIPES:
        fit = fit_set(recipe, own.name, own.validation, labels)
        if fit is not None and fit.fits_pools(own.pooled):
            yield fit.score(own.pooled)
    for staged in fit_sequential(own.name, own.validation, labels):
        if staged.fits_pools(own.pooled):
            yield staged.score(own.pooled)


def num_labels(validation: Sequence[Pool]) -> int:
    """Return how many answers a fit sees."""
    return min(USUAL, len(validation))


def _of_set(measured: Measured, part: str) -> Iterator[Figure]:
    own = measured.own
    for method, numbers in measured.methods.items():
        # What only pools have needs no part in its name.
        here = "" if method.startswith("agreement") else part
        place: Place = {"section": SECTION, "study": own.name, "method": method, "part": here}
        measures = MEASURES[:1] if here else MEASURES
        for figure in numbers.figures(place, own.equal_length[1]):
            if figure.measure in measures:
                yield figure
    for ours, theirs in _pairs(part):
        if ours in measured.methods and theirs in measured.methods:
            gap = measured.methods[ours].auroc - measured.methods[theirs].auroc
            place = {"section": SECTION, "study": own.name}
            yield of_interval(gap.interval(), **place, **_gap(ours, theirs, part))
    if (right := own.draws.mean(own.right)) is not None:
        place = {"section": SECTION, "study": own.name, "part": part}
        yield of_interval(right.interval(), **place, measure="accuracy", unit="share")


def _facts(answers: BenchmarkAnswers, own: FrontierSet) -> Iterator[Figure]:
    """Yield how often answers are right, and what they and the fits were made of."""
    place: Place = {"section": SECTION, "study": own.name}
    if own.written is not None:
        yield of_interval(own.written.interval(), **place, measure="forwards", unit="forwards")
    labels = num_labels(own.validation)
    yield Figure(**place, measure="labels", value=labels, unit="labels of a fit")
    if changed := proportion(answers.changed):
        yield of_interval(changed, **place, measure="text_disagreement", unit="share")
    if alike := proportion([len({row.vote_key for row in p}) == 1 for p in answers.pooled]):
        yield of_interval(alike, **place, measure="unanimous", unit="share of pools")
    if answers.near is not None:
        near = len(answers.answers) - len(answers.distinct)
        yield Figure(**place, measure="near", value=near, unit="problems that a row nearly is")
    yield from _limits(answers.greedy.rows, place)


def _limits(rows: Sequence[Record], place: Place) -> Iterator[Figure]:
    """Yield how often sums hold, and of wrong answers which are so by them and which despite."""
    held = [all_hold(row.text) for row in rows]
    wrong = [(row, hold) for row, hold in zip(rows, held, strict=True) if not row.right]
    shares = {
        "sums_hold": ([hold for hold in held if hold is not None], "share of answers with sums"),
        "wrong_by_sums": (
            [is_wrong_by_sums(row.text, row.answer, row.gold) for row, _ in wrong],
            "share of wrong answers, right if reckoned anew",
        ),
        "wrong_with_sums": (
            [hold is True for _, hold in wrong], "share of wrong answers, every sum of which holds"
        ),
    }  # fmt: skip
    for measure, (flags, unit) in shares.items():
        if share := proportion(flags):
            yield of_interval(share, **place, measure=measure, unit=unit)


def _means(measured: Sequence[Measured], part: str) -> Iterator[Figure]:
    """Yield the means of the methods that every benchmark has, and of their differences."""
    every = [each.methods for each in measured]
    shared = [name for name in every[0] if all(name in own for own in every)]
    for name in shared:
        here = "" if name.startswith("agreement") else part
        place: Place = {"section": SECTION, "study": MEAN, "method": name, "part": here}
        numbers = {"auroc": ([own[name].auroc for own in every], "AUROC")}
        if not here:
            numbers["extra_forwards"] = [own[name].extra_forwards for own in every], "forwards"
        for measure, (values, unit) in numbers.items():
            yield of_interval(mean_of(values).interval(), **place, measure=measure, unit=unit)
    for ours, theirs in _pairs(part):
        if ours in shared and theirs in shared:
            gaps = [own[ours].auroc - own[theirs].auroc for own in every]
            where = _gap(ours, theirs, part)
            yield of_interval(mean_of(gaps).interval(), section=SECTION, **where)


def _pairs(part: str) -> tuple[tuple[str, str], ...]:
    return POOL_DIFFERENCES if part == POOL else DIFFERENCES


def _gap(ours: str, theirs: str, part: str) -> dict[str, Any]:
    """Return what says which difference it is; one that only pools have needs no part."""
    here = "" if part == POOL else part
    unit = f"AUROC above {theirs}, paired"
    return {"method": f"{ours}_minus_{theirs}", "part": here, "measure": "auroc", "unit": unit}


def _name(method: str) -> str:
    return RENAMED.get(method, method)
