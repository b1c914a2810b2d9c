"""What is carried from one set to another: thresholds and fits, unchanged.

A threshold is the one with the best F1 on the validation answers of the set it comes from; a fit is
made on that set's labels. Both are then used on the test answers of every set, their own among
them, where the part of a figure is `from_` and the name of the set.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from remask.analysis.figure import Figure, Place, of_intervals
from remask.analysis.selective import precision, recall
from remask.analysis.statistics import proportion
from remask.decide.threshold import best_f1
from studies.shared.fits import SetFits
from studies.shared.methods import MethodScores, frontier_methods, score_pools
from studies.shared.sets import SECTION, FrontierSet, Key, MethodMeasures
from studies.shared.stages import StagedFits

METHODS = ("roundtrips", "probe", "verifier")  # whose thresholds are carried
FITTED = ("fitted20", "fitted85", "sequential")


def came_from(name: str) -> str:
    """Return the part of a figure of something that was chosen on another set."""
    return f"from_{name}"


def carried_fits(
    own: FrontierSet, fits: Mapping[str, Sequence[SetFits | StagedFits]]
) -> dict[Key, MethodMeasures]:
    """Return how the fits of other sets do on this one, where it has their features."""
    measured = {}
    for name, theirs in fits.items():
        for fit in theirs:
            if name != own.name and fit.name in FITTED and fit.fits_pools(own.pooled):
                numbers = own.measure(fit.score(own.pooled))
                if numbers is not None:
                    measured[fit.name, came_from(name)] = numbers
    return measured


def chosen_thresholds(own: FrontierSet) -> dict[str, float]:
    """Return the threshold of each method with the best F1 on a set's validation answers."""
    right = [pool[0].right for pool in own.validation]
    return {
        method.name: best_f1(_first(score_pools(method, own.validation)), right)
        for method in frontier_methods(own.validation)
        if method.name in METHODS
    }


def carried_thresholds(
    own: FrontierSet,
    scored: Mapping[str, MethodScores],
    thresholds: Mapping[str, Mapping[str, float]],
) -> list[Figure]:
    """Return what the thresholds of every set, by its name, accept on this one."""
    figures = []
    for name, chosen in thresholds.items():
        for method, threshold in chosen.items():
            if method in scored:
                scores = scored[method].scores[0]
                place: Place = {"section": SECTION, "study": own.name, "method": method}
                intervals = {
                    "coverage": (proportion(scores > threshold), "share"),
                    "precision": (precision(scores, own.right, threshold), "share"),
                    "recall": (recall(scores, own.right, threshold), "share"),
                }
                figures += of_intervals(intervals, **place, part=came_from(name))
    return figures


def _first(scored: MethodScores) -> list[float | None]:
    """Return the scores of the standard answers, None where one is absent."""
    return [float(score) if np.isfinite(score) else None for score in scored.scores[0]]
