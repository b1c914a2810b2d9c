"""Scaling: the same study of several models in one table (Table 9).

Models are told apart by the names the caller gives their records. `PRINTED` is what the paper
prints of other models, autoregressive ones among them; none of it was measured here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from remask.analysis.diagnosis import Diagnosis, diagnosis
from remask.analysis.figures import Figures, present
from remask.analysis.pool import Row, pools
from remask.analysis.statistics import Interval, proportion

PAPER = "Reasoning on the Manifold, arXiv:2604.16565"
DIFFUSION = {  # Table 9, GSM8K: AUROC and AUPR of the round trips
    "LLaDA-8B-Instruct": (0.893, 0.943),
    "Dream-v0-Instruct-7B": (0.898, 0.787),
    "LLaDA-MoE-7B-A1B-Instruct": (0.858, 0.878),
    "LLaDA2.1-mini": (0.853, 0.933),
}
AUTOREGRESSIVE = {  # Table 3, accuracy, itself quoted there from other papers
    "LLaMA3-8B": {"GSM8K": 0.531, "MATH": 0.184, "ARC-C": 0.824, "GPQA": 0.259},
    "Gemma2-9B": {"GSM8K": 0.767, "MATH": 0.443, "ARC-C": 0.684, "GPQA": 0.328},
    "Qwen2.5-7B": {"GSM8K": 0.854, "MATH": 0.411, "ARC-C": 0.575, "GPQA": 0.364},
}
PRINTED = [  # model, benchmark, measure and value, table
    *(
        (model, "GSM8K", f"{measure} {value:g}", "Table 9")
        for model, pair in DIFFUSION.items()
        for measure, value in zip(("auroc", "aupr"), pair, strict=True)
    ),
    *(
        (model, benchmark, f"accuracy {value:g}", "Table 3")
        for model, row in AUTOREGRESSIVE.items()
        for benchmark, value in row.items()
    ),
]
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
