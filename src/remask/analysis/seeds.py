"""One statistic over several seeds of a study: its mean and an interval. numpy alone.

A resample draws seeds and questions, both with replacement. Questions are drawn from those of all
seeds together; one that several seeds asked is drawn for all of them. Simulated with three seeds,
the interval holds the truth in 99 % of cases where seeds differ only by their questions, in 94 %
where they differ by as much again, and in 84 % where they differ three times as much: then it takes
more seeds. With one seed it is the bootstrap over questions and says nothing about seeds.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remask.analysis.statistics import Interval, Statistic
from remask.decide.auroc import auroc

Run = Sequence[ArrayLike]  # of one seed: the question of each row, then the columns
Columns = list[NDArray[Any]]


def over_seeds(
    statistic: Statistic, runs: Sequence[Run], *, resamples: int = 1000, seed: int = 0
) -> Interval | None:
    """Return the mean of the statistic over the runs in which it exists; None where in none."""
    data = [[np.asarray(column) for column in columns] for _, *columns in runs]
    value = _mean({k: statistic(*columns) for k, columns in enumerate(data)}, range(len(data)))
    if value is None:
        return None
    places, num_questions = _numbered([questions for questions, *_ in runs])
    generator = np.random.default_rng(seed)
    values = [value]
    for _ in range(resamples):
        chosen = generator.integers(0, num_questions, num_questions)
        times = np.bincount(chosen, minlength=num_questions)
        seeds = generator.integers(0, len(data), len(data)).tolist()
        by_seed = {k: statistic(*_repeated(data[k], times[places[k]])) for k in set(seeds)}
        drawn = _mean(by_seed, seeds)
        if drawn is not None:
            values.append(drawn)
    low, high = np.percentile(values, (2.5, 97.5))
    n = sum(len(columns[0]) for columns in data)
    return Interval(value, min(float(low), value), max(float(high), value), n)


def auroc_gap(a: ArrayLike, right_a: ArrayLike, b: ArrayLike, right_b: ArrayLike) -> float | None:
    """Return AUROC(a) - AUROC(b), each with the labels of its own answers."""
    one, other = auroc(a, right_a), auroc(b, right_b)
    return None if one is None or other is None else one - other


def _numbered(questions: Sequence[ArrayLike]) -> tuple[list[NDArray[np.intp]], int]:
    """Return the number of each row's question, run by run, and how many questions there are."""
    ids_by_run = [np.asarray(ids) for ids in questions]
    distinct, numbers = np.unique(np.concatenate(ids_by_run), return_inverse=True)
    ends = np.cumsum([len(ids) for ids in ids_by_run])
    return np.split(numbers, ends[:-1]), len(distinct)


def _repeated(columns: Columns, times: NDArray[np.intp]) -> Columns:
    rows = np.repeat(np.arange(len(times)), times)
    return [column[rows] for column in columns]


def _mean(by_seed: dict[int, float | None], seeds: Sequence[int]) -> float | None:
    """Return the mean over the seeds, counted as often as they were drawn."""
    times = Counter(k for k in seeds if by_seed[k] is not None)
    if not times:
        return None
    return sum(n * (by_seed[k] or 0.0) for k, n in times.items()) / times.total()
