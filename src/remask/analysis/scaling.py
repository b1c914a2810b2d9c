"""Scaling: the same study of several models in one table (Table 9).

Models go by the names the caller gives their records. `PRINTED` is what the paper prints of other
models, autoregressive ones among them; none of it was measured here.
"""

from collections.abc import Iterable, Mapping

from remask.analysis.diagnosis import diagnosis
from remask.analysis.figure import Figure, Figures, of_intervals
from remask.analysis.load_records import Source
from remask.analysis.pool import pools
from remask.analysis.statistics import proportion
from remask.errors import RecordError
from remask.records.record import Record

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
SECTION = "scaling"
SHOWN = ("roundtrips", "confidence", "vote", "agreement", "self_evaluation", "editor")


def scaling_figures(sources: Mapping[str, Source]) -> Figures:
    """Return the same studies of several models, by the models' names."""
    figures = Figures()
    for name in dict.fromkeys(study.name for each in sources.values() for study in each.studies):
        for model, source in sources.items():
            for study in source.studies:
                if study.name == name:
                    figures |= Figures(scaling(model, name, study.rows))
    if not figures:
        raise RecordError(
            f"{', '.join(sources)} hold no answers; collect some with remask collect."
        )
    return figures


def scaling(
    model: str, study: str, rows: Iterable[Record], *, resamples: int = 1000, seed: int = 0
) -> list[Figure]:
    """Return how often one model is right, and how well its scores say so; none without records."""
    rows = list(rows)
    accuracy = proportion([pool[0].right for pool in pools(rows)])
    if accuracy is None:
        return []
    place = {"section": SECTION, "model": model, "study": study}
    figures = of_intervals({"accuracy": (accuracy, "share")}, **place)
    for row in diagnosis(rows, resamples=resamples, seed=seed):
        if row.method in SHOWN:
            intervals = {"auroc": (row.auroc, "AUROC"), "aupr": (row.aupr, "AUPR")}
            figures += of_intervals(intervals, **place, method=row.method)
    return figures
