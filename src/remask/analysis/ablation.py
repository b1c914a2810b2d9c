"""Ablation of the metrics: each alone, in groups, all, all but one, and with fitted weights.

Everything is a mixture of the recorded metrics, compared with the uniform one of the composite on
the same answers. Weights are fitted on validation records that are given apart; a question that is
both fitted on and judged is refused. Several seeds of one study are measured together, see `seeds`.

Groups are those of the paper's Table 4; where its logic is the numbers, that of code is its syntax
tree as well. Departure: appendix B.3 quotes leave-one-out results that Table 4 does not have; here
they are rows like the others. Other settings of the round trips are in `curves`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from remask.analysis.bootstrap import Run, auroc_gap, over_seeds
from remask.analysis.curves import SECTION, curve_figures
from remask.analysis.figure import Figure, Figures, Place, of_intervals
from remask.analysis.load_records import Source, required_of_trips
from remask.analysis.pool import composite_metrics, pools
from remask.analysis.statistics import aupr
from remask.decide.auroc import auroc
from remask.decide.columns import metric_columns
from remask.decide.provenance import Provenance
from remask.decide.weights import Weights, combine, fit_weights
from remask.errors import RecordError
from remask.records.record import Record

SURFACE = ("token_accuracy", "semantic_similarity", "confidence")
LOGIC = ("number_retention", "ast_similarity")
UNIFORM, OPTIMIZED = ("composite", "uniform"), ("composite", "optimized")

Name = tuple[str, str]  # "alone" or "without" and a metric, "composite" and a group of them
Mixture = Mapping[str, float]  # weights of metrics
Column = Sequence[float | None]


def ablation_figures(source: Source) -> Figures:
    """Return every mixture of metrics, and the curves of the other settings."""
    figures = Figures()
    for study in source.studies:
        if not study.is_changed and any(row.by_trip for row in study.rows):
            runs = [study.rows, *study.further]
            figures |= Figures(ablation(study.name, runs, study.validation))
    return required_of_trips(figures | curve_figures(source), source)


def ablation(
    study: str,
    runs: Sequence[Iterable[Record]],
    validation: Iterable[Record] = (),
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Figure]:
    """Return every mixture judged on the standard answers of the runs, one run per seed."""
    answers = [_standard(rows) for rows in runs]
    tried = _mixtures(answers)
    fitted = optimized(validation, answers)
    if fitted is not None:
        tried[OPTIMIZED] = fitted.values
    scores = {name: [_scores(rows, mix) for rows in answers] for name, mix in tried.items()}
    draw: Any = {"resamples": resamples, "seed": seed}
    figures = []
    for name in tried:
        single = [_run(rows, own) for rows, own in zip(answers, scores[name], strict=True)]
        paired = [
            _run(rows, own, usual)
            for rows, own, usual in zip(answers, scores[name], scores[UNIFORM], strict=True)
            if name != UNIFORM
        ]
        gap = over_seeds(auroc_gap, paired, **draw)
        intervals = {
            "auroc": (over_seeds(auroc, single, **draw), "AUROC"),
            "aupr": (over_seeds(aupr, single, **draw), "AUPR"),
            "above_uniform": (gap, "AUROC above uniform weights, paired"),
        }
        figures += of_intervals(intervals, **_place(study, name))
        figures += _weights(study, tried[name]) if name == OPTIMIZED else []
    return figures


def _place(study: str, name: Name) -> Place:
    return {"section": SECTION, "study": study, "method": name[0], "part": name[1]}


def _weights(study: str, mixture: Mixture) -> list[Figure]:
    place = _place(study, OPTIMIZED)
    return [
        Figure(**place, measure="weight", metric=metric, value=weight, unit="weight")
        for metric, weight in mixture.items()
    ]


def mixtures(metrics: Sequence[str], extra: Sequence[str] = ()) -> dict[Name, Mixture]:
    """Return the mixtures of a composite's metrics; `extra` ones were measured beside it."""
    surface = [name for name in metrics if name in SURFACE]
    logic = [name for name in metrics if name in (*SURFACE, *LOGIC)]
    groups = {("alone", name): [name] for name in (*metrics, *extra)}
    groups |= {("composite", "surface"): surface, ("composite", "surface_logic"): logic}
    if "cross_entropy" in extra:
        groups["composite", "with_cross_entropy"] = [*metrics, "cross_entropy"]
    groups[UNIFORM] = list(metrics)
    groups |= {("without", name): [m for m in metrics if m != name] for name in metrics}
    return {name: dict.fromkeys(group, 1 / len(group)) for name, group in groups.items() if group}


def optimized(validation: Iterable[Record], judged: Sequence[Sequence[Record]]) -> Weights | None:
    """Return weights fitted on the validation records; None where they hold one kind of answer.

    The metrics are those of the judged answers' composite. Records of a question that is judged
    are refused.
    """
    rows = _standard(validation)
    questions = {row.id for run in judged for row in run}
    shared = next((row.id for row in rows if row.id in questions), None)
    if shared is not None:
        raise RecordError(f"{shared} is in the validation records and judged; give other records.")
    metrics, right = _metrics(judged), [bool(row.right) for row in rows]
    if len(set(right)) < 2:
        return None
    provenance = Provenance(
        metric_set="records", metrics=metrics, task=rows[0].task, model="as recorded",
        split="validation", seed=0, version="", date="",
    )  # fmt: skip
    return fit_weights(metric_columns(rows, metrics), right, provenance)


def _standard(rows: Iterable[Record]) -> list[Record]:
    """Return sample 0 of each problem, where it has round trips."""
    return [pool[0] for pool in pools(rows) if pool[0].by_trip]


def _metrics(runs: Sequence[Sequence[Record]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m for rows in runs for row in rows for m in composite_metrics(row)))


def _mixtures(runs: Sequence[Sequence[Record]]) -> dict[Name, Mixture]:
    """Return the mixtures of what the runs measured."""
    metrics = _metrics(runs)
    measured = dict.fromkeys(m for rows in runs for row in rows for m in row.by_trip)
    return mixtures(metrics, [name for name in measured if name not in metrics])


def _scores(rows: Sequence[Record], mixture: Mixture) -> list[float | None]:
    return combine(metric_columns(rows, list(mixture)), mixture)


def _run(rows: Sequence[Record], *columns: Column) -> Run:
    """Return the questions, then scores and labels for each column, where every score is."""
    scored = [(row, values) for row, *values in zip(rows, *columns, strict=True)]
    whole = [(row, values) for row, values in scored if None not in values]
    right = [bool(row.right) for row, _ in whole]
    pairs = [([values[k] for _, values in whole], right) for k in range(len(columns))]
    return [[row.id for row, _ in whole], *(column for pair in pairs for column in pair)]
