"""Scaling: the same study of several models in one table (Table 9).

Models are told apart by the names the caller gives their records. Rows that the paper
prints, those of autoregressive models among them, are in `published`, with their source.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from remask.analysis.diagnosis import Diagnosis, diagnosis
from remask.analysis.figures import Figures, present
from remask.analysis.pool import Row, pools
from remask.analysis.statistics import Interval, proportion

SHOWN = ("roundtrips", "confidence", "vote", "agreement", "self_evaluation", "editor")


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """One model: how often it is right, and how well that is told."""

    model: str
    accuracy: Interval  # of the standard answers
    methods: tuple[Diagnosis, ...]  # those of SHOWN that its records allow


def scaling(
    models: Mapping[str, Iterable[Row]], *, resamples: int = 1000, seed: int = 0
) -> list[Scaled]:
    """Return a row per model that has records."""
    found = []
    for model, rows in models.items():
        rows = list(rows)
        accuracy = proportion([pool[0]["right"] for pool in pools(rows)])
        if accuracy is not None:
            told = diagnosis(rows, resamples=resamples, seed=seed)
            shown = tuple(row for row in told if row.method in SHOWN)
            found.append(Scaled(model=model, accuracy=accuracy, methods=shown))
    return found


def model_figures(study: str, row: Scaled) -> Figures:
    """Return the figures of one model in one study."""
    name = f"scaling/{row.model}/{study}"
    found = present(name, {"accuracy": (row.accuracy, "share")})
    for told in row.methods:
        intervals = {"auroc": (told.auroc, "AUROC"), "aupr": (told.aupr, "AUPR")}
        found |= present(f"{name}/{told.method}", intervals)
    return found
