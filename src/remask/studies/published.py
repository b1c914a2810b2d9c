"""Numbers that the paper prints, quoted with their place, to stand beside measured ones.

Nothing here was measured by this project, and nothing compares directly: the models are larger and
the problems are others. Tables 4 and 7 are of GSM8K and do not name their model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PAPER = "Reasoning on the Manifold, arXiv:2604.16565"


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """One printed number."""

    table: int  # of the paper
    model: str  # "" where the table does not say
    benchmark: str
    name: str  # of the row, as figures here would be named
    measure: str  # auroc, aupr or accuracy
    value: float

    @property
    def source(self) -> str:
        """Where it is printed."""
        return f"{PAPER}, Table {self.table}"


Pairs = Mapping[str, tuple[float, float]]  # AUROC and AUPR

MIXTURES: Pairs = {  # Table 4
    "alone/cross_entropy": (0.576, 0.764),
    "alone/token_accuracy": (0.640, 0.783),
    "alone/semantic_similarity": (0.659, 0.796),
    "alone/confidence": (0.699, 0.817),
    "alone/number_retention": (0.796, 0.889),
    "alone/character_similarity": (0.638, 0.785),
    "alone/answer_match": (0.819, 0.916),
    "composite/surface": (0.684, 0.807),
    "composite/surface_logic": (0.753, 0.850),
    "composite/with_cross_entropy": (0.794, 0.874),
    "composite/uniform": (0.821, 0.901),
    "composite/optimized": (0.880, 0.927),
}
SETTINGS: Pairs = {  # Table 7
    "rebuild_steps/4": (0.840, 0.913),
    "rebuild_steps/16": (0.873, 0.923),
    "rebuild_steps/64": (0.875, 0.929),
    "rebuild_steps/128": (0.879, 0.928),
    "mask_ratio/0": (0.598, 0.753),
    "mask_ratio/0.3": (0.672, 0.794),
    "mask_ratio/0.5": (0.712, 0.816),
    "mask_ratio/0.7": (0.794, 0.873),
    "mask_ratio/0.9": (0.889, 0.937),
    "mask_ratio/1": (0.712, 0.861),
    "trips/1": (0.784, 0.870),
    "trips/2": (0.829, 0.887),
    "trips/4": (0.889, 0.937),
    "trips/8": (0.905, 0.945),
}
MODELS: Pairs = {  # Table 9, GSM8K
    "LLaDA-8B-Instruct": (0.893, 0.943),
    "Dream-v0-Instruct-7B": (0.898, 0.787),
    "LLaDA-MoE-7B-A1B-Instruct": (0.858, 0.878),
    "LLaDA2.1-mini": (0.853, 0.933),
}
AUTOREGRESSIVE = {  # Table 3, accuracy in per cent, itself quoted there from other papers
    "LLaMA3-8B": {"GSM8K": 53.1, "MATH": 18.4, "ARC-C": 82.4, "GPQA": 25.9},
    "Gemma2-9B": {"GSM8K": 76.7, "MATH": 44.3, "ARC-C": 68.4, "GPQA": 32.8},
    "Qwen2.5-7B": {"GSM8K": 85.4, "MATH": 41.1, "ARC-C": 57.5, "GPQA": 36.4},
}


def quoted() -> list[Quoted]:
    """Return every number here with its place."""
    rows = [*_pairs(4, MIXTURES), *_pairs(7, SETTINGS), *_pairs(9, MODELS)]
    rows += [
        Quoted(
            table=3, model=model, benchmark=benchmark, name="generation", measure="accuracy",
            value=round(accuracy / 100, 3),
        )
        for model, row in AUTOREGRESSIVE.items()
        for benchmark, accuracy in row.items()
    ]  # fmt: skip
    return rows


def _pairs(table: int, pairs: Pairs) -> Iterator[Quoted]:
    for key, values in pairs.items():
        model, name = (key, "roundtrips") if table == 9 else ("", key)
        for measure, value in zip(("auroc", "aupr"), values, strict=True):
            yield Quoted(
                table=table, model=model, benchmark="GSM8K", name=name, measure=measure, value=value
            )
