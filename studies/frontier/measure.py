"""The frontier: how well each method tells right answers from wrong ones, for what it costs.

Several sets of problems, and for each every method on the same answers: AUROC over all pairs and
over pairs of equal length, AURC, ECE, and forwards beyond those that wrote the answer. A mean over
sets leaves out a set with fewer than `FEWEST` answers of the rarer kind, where an AUROC is hardly
known; such a set is still shown. There is one bootstrap: the problems of each set are drawn once,
and every number, difference and mean is measured in these draws. A score that is absent loses to
all others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np

from remask.analysis.bootstrap import Estimate, mean_of
from remask.analysis.figure import Figure, Figures, Place, of_interval
from remask.analysis.load_records import Source, StudyRecords, required
from remask.analysis.pool import Pool, pool_size, pools
from studies.frontier.carried import carried_fits, carried_thresholds, chosen_thresholds
from studies.shared.fits import LABELS, RECIPES, USUAL, SetFits, fit_set
from studies.shared.methods import MethodScores, frontier_methods, score_pools
from studies.shared.rejection import (
    MGRS_BUDGET,
    MGRS_METHODS,
    MGRS_SET,
    MOST_ABSENT,
    PoolScores,
    choose_thresholds,
    mgrs_figures,
    within_pool,
)
from studies.shared.sets import (
    RESAMPLES,
    SECTION,
    FrontierSet,
    Key,
    MethodMeasures,
    every_sample,
    set_figures,
)
from studies.shared.stages import StagedFits, fit_sequential

SETS = (
    "wordmath", "wordmath-hard", "choice", "choice-hard", "pycode", "pycode-hard", "countdown-easy",
)  # fmt: skip
FEWEST = 50  # answers of the rarer kind, for a set to count in the mean
MEAN = "mean"
WITHIN = "auroc_within_pool"
DIFFERENCES = {
    "verifier_minus_roundtrips": ("verifier", "roundtrips"),
    "verifier_minus_agreement10": ("verifier", "agreement10"),
    "fitted85_minus_agreement10_fitted": ("fitted85", "agreement10_fitted"),
    "sequential_minus_sequential_full": ("sequential", "sequential_full"),
}
LENGTH = "auroc_equal_length"
AnyFits = SetFits | StagedFits


@dataclass(frozen=True, kw_only=True, eq=False)
class SetMeasures:
    """What was measured on one set."""

    own: FrontierSet
    methods: Mapping[Key, MethodMeasures]
    within: Mapping[str, Estimate]
    further: Sequence[Figure] = field(default=())  # thresholds and rejection sampling


def frontier_figures(source: Source, resamples: int = RESAMPLES) -> Figures:
    """Return every method on every set, and the means over the sets."""
    sets = frontier_sets(source.studies, resamples)
    fits: dict[str, list[AnyFits]] = {
        own.name: [*_fits(own, USUAL), *_sequential(own)] for own in sets
    }
    thresholds = {own.name: chosen_thresholds(own) for own in sets if own.validation}
    measured = [_measure(own, fits, thresholds) for own in sets]
    figures = [figure for each in measured for figure in _of_set(each)]
    figures += mean_figures(measured)
    judged = Figures(figures if any(each.methods for each in measured) else ())
    return required(judged, source, "set with right and wrong answers", "--problems 1000")


def frontier_sets(studies: Iterable[StudyRecords], resamples: int) -> list[FrontierSet]:
    """Return the sets that records hold, in the usual order, each with its level's validation."""
    sets = []
    for study in studies:
        pooled = pools(study.rows)
        if not study.is_changed and pooled:
            level = pooled[0][0].level
            own = [row for row in study.validation_pools if row.level == level]
            sets.append(
                FrontierSet(
                    name=study.name, family=study.task, pooled=pooled, validation=pools(own),
                    resamples=resamples,
                )
            )  # fmt: skip
    order = {name: place for place, name in enumerate(SETS)}
    return sorted(sets, key=lambda own: order.get(own.name, len(order)))


def mean_figures(measured: Sequence[SetMeasures]) -> list[Figure]:
    """Return the means over sets: over all of them, and with and without each family."""
    counted = [each for each in measured if each.own.rarer >= FEWEST]
    counted = [each for each in counted if each.own.name in SETS] or counted
    if not counted:
        return []
    place: Place = {"section": SECTION, "study": MEAN}
    number = Figure(**place, measure="sets", value=len(counted), unit="sets in the mean")
    figures = [number, *_means(counted, "")]
    families = list(dict.fromkeys(each.own.family for each in counted))
    for family in families if len(families) > 1 else ():
        without = [each for each in counted if each.own.family != family]
        alone = [each for each in counted if each.own.family == family]
        figures += _means(without, f"without_{family}")
        figures += _means(alone, f"only_{family}")
    return figures


def _fits(own: FrontierSet, labels: int) -> Iterator[SetFits]:
    """Yield the fits of every recipe that the set's validation and test answers allow."""
    for recipe in RECIPES:
        fit = fit_set(recipe, own.name, own.validation, labels) if own.validation else None
        if fit is not None and fit.fits_pools(own.pooled):
            yield fit


def _sequential(own: FrontierSet) -> list[StagedFits]:
    """Return the sequential verifier and its full form, where the set's answers allow them."""
    staged = fit_sequential(own.name, own.validation, USUAL) if own.validation else []
    return [fit for fit in staged if fit.fits_pools(own.pooled)]


def _measure(
    own: FrontierSet,
    fits: Mapping[str, Sequence[AnyFits]],
    thresholds: Mapping[str, Mapping[str, float]],
) -> SetMeasures:
    """Return all that is measured on one set."""
    plain = {m.name: score_pools(m, own.pooled) for m in frontier_methods(own.pooled)}
    scored: dict[Key, MethodScores] = {(name, ""): each for name, each in plain.items()}
    for fit in fits[own.name]:
        scored[fit.name, ""] = fit.score(own.pooled)
    for labels in LABELS:
        if labels != USUAL:
            for other in _fits(own, labels):
                scored[other.name, labels_part(labels)] = other.score(own.pooled)
    numbers = {key: own.measure(each) for key, each in scored.items()}
    known = {key: each for key, each in numbers.items() if each is not None}
    samples = pool_scores(own.pooled, fits[own.name])
    further = carried_thresholds(own, plain, thresholds)
    if own.name == MGRS_SET and own.validation:
        further += _rejection(own, fits[own.name])
    return SetMeasures(
        own=own,
        methods=known | carried_fits(own, fits),
        within=within_pool(own, samples) if samples else {},
        further=further,
    )


def _rejection(own: FrontierSet, every: Sequence[AnyFits]) -> list[Figure]:
    """Return rejection sampling by the scorers that validation can choose a threshold of."""
    staged = [fit for fit in every if isinstance(fit, StagedFits) and fit.name in MGRS_METHODS]
    fits = [replace(fit, budget=MGRS_BUDGET) for fit in staged]
    samples = pool_scores(own.pooled, fits, MGRS_METHODS)
    if samples is None:
        return []
    methods = {m.name: m for m in frontier_methods(own.validation) if m.name in MGRS_METHODS}
    first = {name: score_pools(method, own.validation) for name, method in methods.items()}
    first |= {fit.name: fit.score(own.validation) for fit in fits}
    whole = pool_scores(own.validation, fits, MGRS_METHODS)
    labelled = {fit.name: fit.labelled for fit in fits}
    return mgrs_figures(own, samples, *choose_thresholds(own, whole, first, labelled))


def labels_part(labels: int) -> str:
    """Return the part of a figure of a fit on another number of labels than the usual."""
    return f"labels_{labels}"


def pool_scores(
    pooled: Sequence[Pool], fits: Sequence[AnyFits], only: Sequence[str] = ()
) -> PoolScores | None:
    """Return what methods say of every sample; None where there is one sample a problem."""
    if pool_size(pooled) < 2:
        return None
    samples = every_sample(pooled)
    methods = {m.name: m for m in frontier_methods(samples) if not only or m.name in only}
    scored = {name: score_pools(method, samples) for name, method in methods.items()}
    read = sum(bool(pool[0].features) for pool in samples)
    if read >= (1 - MOST_ABSENT) * len(samples):
        scored |= {fit.name: fit.score(samples) for fit in fits if not only or fit.name in only}
    return PoolScores(pooled=pooled, methods=scored)


def _of_set(measured: SetMeasures) -> Iterator[Figure]:
    """Yield the figures of one set: of each method, their differences, ranking within a problem."""
    own = measured.own
    yield from set_figures(own, measured.methods)
    place: Place = {"section": SECTION, "study": own.name}
    for method, number in measured.within.items():
        fields = {**place, "method": method, "measure": WITHIN}
        yield of_interval(number.interval(), **fields, unit="AUROC within a problem")
    yield from _differences([measured], place, "")
    yield from measured.further


def _means(counted: Sequence[SetMeasures], part: str) -> Iterator[Figure]:
    """Yield the means of what every one of these sets has; with a part, of the usual fits alone."""
    place: Place = {"section": SECTION, "study": MEAN}
    for key in counted[0].methods:
        if all(key in each.methods for each in counted) and (not part or not key[1]):
            method = {**place, "method": key[0], "part": part or key[1]}
            every = [each.methods[key] for each in counted]
            yield from _means_of_method(every, method)
    for name in counted[0].within if not part else ():
        numbers = [each.within.get(name) for each in counted]
        fields = {**place, "method": name, "measure": WITHIN, "unit": "AUROC within a problem"}
        yield from _mean_of(numbers, fields)
    yield from _differences(counted, place, part)


def _means_of_method(every: Sequence[MethodMeasures], place: Place) -> Iterator[Figure]:
    """Yield the means of what a method came to on each set."""
    for measure, (_, unit) in every[0].resampled.items():
        numbers = [each.resampled[measure][0] for each in every]
        yield from _mean_of(numbers, {**place, "measure": measure, "unit": unit})
    for measure, (_, unit) in every[0].points.items():
        values = [each.points[measure][0] for each in every]
        present = [value for value in values if value is not None]
        if len(present) == len(values):
            yield Figure(**place, measure=measure, value=fmean(present), unit=unit)
    if len({len(each.by_fit) for each in every}) == 1 < len(every[0].by_fit):
        spread = np.mean([each.by_fit for each in every], axis=0).std(ddof=1)
        unit = "AUROC, sd over draws of labels"
        yield Figure(**place, measure="auroc_sd", value=float(spread), unit=unit)


def _differences(counted: Sequence[SetMeasures], place: Place, part: str) -> Iterator[Figure]:
    """Yield how far methods are from one another, also with the other numbers of labels."""
    parts = ("",) if part else ("", *(labels_part(n) for n in LABELS if n != USUAL))
    for name, (ours, theirs) in DIFFERENCES.items():
        for labels in parts:
            keys = (ours, labels), (theirs, labels)
            if all(key in each.methods for each in counted for key in keys):
                for measure in ("auroc", LENGTH):
                    one, other = (
                        [each.methods[key].resampled[measure][0] for each in counted]
                        for key in keys
                    )
                    gaps = [
                        None if a is None or b is None else a - b
                        for a, b in zip(one, other, strict=True)
                    ]
                    fields = {**place, "method": name, "part": part or labels, "measure": measure}
                    unit = f"AUROC above {theirs}, paired"
                    yield from _mean_of(gaps, {**fields, "unit": unit})


def _mean_of(numbers: Sequence[Estimate | None], fields: Place) -> Iterator[Figure]:
    """Yield the mean as a figure, where every set has a number."""
    present = [number for number in numbers if number is not None]
    if len(present) == len(numbers):
        yield of_interval(mean_of(present).interval(), **fields)
