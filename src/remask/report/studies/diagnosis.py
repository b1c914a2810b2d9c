"""Diagnosis as tables: which score tells right from wrong?"""

from remask.analysis.diagnosis import (
    CARRIED,
    DIFFICULTIES,
    GAP,
    SECTION,
    diagnosis_figures,
)
from remask.analysis.figure import Figures
from remask.analysis.load_records import Source
from remask.analysis.methods import THRESHOLD
from remask.analysis.pool import pool_size, pools
from remask.analysis.remarks import absence_notes, vote_notes
from remask.collect.settings import OPTIONAL_BASELINES
from remask.report.plots import plots
from remask.report.studies.base import NamedPlot, Study, no_validation, pools_drawn
from remask.report.table import Table, filled, grid
from remask.verifier.columns import PROBE, VERIFIER

LABELS = {
    "roundtrips": "round trips, uniform", "optimized": "round trips, optimized",
    "baselines": "baselines, combined", "agreement_same_cost": "agreement, same cost",
    "confidence_canvas": "confidence, canvas", "self_evaluation": "self-evaluation",
    "editor": "editor's agreement", "dise": "DiSE", "perplexity": "masked likelihood",
    "critical_count": "critical tokens", "tre": "late reveal entropy (TRE)",
    "denoising_entropy": "denoising entropy", "temporal_vote": "temporal vote",
    "temporal_entropy": "temporal entropy", "dcocoa": "D-CoCoA",
    "probe": "probe, one pass", "verifier": "verifier, label-free",
}  # fmt: skip
METHODS = (
    "roundtrips", "optimized", "baselines", "confidence", "agreement_same_cost", "vote",
    "agreement", PROBE, VERIFIER, *OPTIONAL_BASELINES,
)  # fmt: skip
GAPS = {
    "round trips - self-consistency": GAP,
    "round trips - agreement, same cost": "roundtrips_minus_agreement_same_cost",
    "round trips - confidence": "roundtrips_minus_confidence",
    "round trips - self-evaluation": "roundtrips_minus_self_evaluation",
    "optimized - round trips": "optimized_minus_roundtrips",
    "optimized - self-consistency": "optimized_minus_consistency",
    "optimized - baselines": "optimized_minus_baselines",
}
RANKED = {"AUROC": "auroc", "AUPR": "aupr", "forwards": "forwards", "absent": "absent"}
CALIBRATED = {"ECE": "ece", "Brier": "brier", "AURC": "aurc", "PRR": "prr"}
MEANINGS = (
    "Scores are read as probabilities. ECE: how far they are from the share of right answers, on "
    "average over bins; Brier: their mean squared distance from 1 where right and 0 where wrong; "
    "AURC: the share of wrong answers among the k best-scored, averaged over all k; of these three "
    "lower is better. PRR: how far the order of the scores is from a random one (0) to a perfect "
    "one (1)."
)
LIMITED = {"accepted": "coverage", "precision": "precision", "recall": "recall"}
SELECTED = {
    **{f"right at {x} % coverage": f"accuracy_at_coverage_{x}" for x in (50, 80, 90)},
    "mean, right": "mean_right", "mean, wrong": "mean_wrong",
    "precision at 0.75": "precision_at_0.75", "recall at 0.75": "recall_at_0.75",
}  # fmt: skip


def _tables(figures: Figures) -> list[Table]:
    """Return the methods beside one another, the gaps, then every study by itself."""
    studies = figures.distinct("study", section=SECTION)
    rows = {study: {"section": SECTION, "study": study} for study in studies}
    every = {"base rate": {"measure": "base_rate"}}
    every |= {LABELS.get(m, m): {"method": m, "measure": "auroc"} for m in METHODS}
    gaps = {head: {"method": gap, "measure": "auroc"} for head, gap in GAPS.items()}
    hard = {f"{x} problems": {"method": GAP, "part": x, "measure": "auroc"} for x in DIFFICULTIES}
    title = "Round trips above self-consistency, by difficulty"
    tables = [
        filled("auroc", "AUROC of every score",
               grid(figures, rows, every, count={"measure": "base_rate"})),
        filled("gaps", "AUROC, paired differences", grid(figures, rows, gaps)),
        filled("difficulty", title, grid(figures, rows, hard), note=_thirds(figures, studies)),
        _carried(figures),
    ]  # fmt: skip
    return [*tables, *(table for study in studies for table in _of_study(figures, study))]


def _plots(source: Source, figures: Figures) -> list[NamedPlot]:
    """Return separation, coverage, ROC and reliability of each study."""
    return [(s.name, plot) for s in source.studies for plot in plots(pools(s.rows))]


def _notes(source: Source, figures: Figures) -> list[str]:
    """Return absent scores, old votes, and what further records would add."""
    notes = [*absence_notes(source), *vote_notes(source), *no_validation(source)]
    if all(pool_size(pools(study.rows)) < 2 for study in source.studies):
        notes.append("No self-consistency: remask collect --samples 10 draws the samples it needs.")
    return notes


def _of_study(figures: Figures, study: str) -> list[Table]:
    place = {"section": SECTION, "study": study}
    methods = figures.distinct("method", **place, measure="forwards")
    parts = (
        ("ranking", "AUROC, AUPR and cost", RANKED),
        ("calibration", "calibration and selection", CALIBRATED),
        ("threshold", f"coverage, and the paper's threshold {THRESHOLD:g}", SELECTED),
    )
    base = figures.find(**place, measure="base_rate")
    tables = []
    for name, title, measures in parts:
        shown = methods if name == "ranking" else [m for m in methods if "." not in m]
        rows = {LABELS.get(m, m): {**place, "method": m} for m in shown}
        heads = {head: {"measure": measure} for head, measure in measures.items()}
        cells = grid(figures, rows, heads, first="score", count={"measure": "auroc"})
        note = MEANINGS if name == "calibration" else ""
        if name == "ranking" and base is not None:
            note = f"Base rate of AUPR {base.value:.3f}, n = {base.n}."
        tables.append(
            filled(f"{name}-{study}", f"{study}: {title}", cells, note=note, study=study,
                   is_long=True)
        )  # fmt: skip
    *others, paper = tables
    return [*others, _limited(figures, study), paper]


def _limited(figures: Figures, study: str) -> Table:
    """Return what the study's own threshold does, where it is another than the paper's."""
    place = {"section": SECTION, "study": study, "method": "roundtrips"}
    limit = figures.find(**place, measure="threshold")
    is_own = limit is not None and limit.value != THRESHOLD
    value = "" if limit is None else f"{limit.value:g}"
    heads = {head: {"measure": measure} for head, measure in LIMITED.items()}
    rows = {"round trips": place} if is_own else {}
    cells = grid(figures, rows, heads, first="score", count={"measure": "coverage"})
    title = f"{study}: round trips above {value}, the threshold that answers are judged by here"
    return filled(f"limit-{study}", title, cells, study=study, is_long=True)


def _carried(figures: Figures) -> Table:
    studies = figures.distinct("study", section=CARRIED)
    rows = {study: {"section": CARRIED, "study": study} for study in studies}
    heads = {measure: {"measure": measure} for measure in ("coverage", "precision", "recall")}
    limit = figures.find(section=CARRIED, measure="threshold")
    note = "" if limit is None else f"The threshold is {limit.value:g} everywhere."
    title = "One threshold carried over all studies"
    return filled("carried", title, grid(figures, rows, heads), note=note)


def _thirds(figures: Figures, studies: list[str]) -> str:
    """Return which problems are hard, middle and easy, for each study."""
    listed = []
    for study in studies:
        place = {"section": SECTION, "study": study, "method": GAP, "measure": "auroc"}
        thirds = {x: figures.find(**place, part=x) for x in DIFFICULTIES}
        words = [f"{x} {figure.detail.removesuffix(' of others right')} (n = {figure.n})"
                 for x, figure in thirds.items() if figure is not None]  # fmt: skip
        listed += [f"{study}: {', '.join(words)}"] if words else []
    return f"By the share of right answers among the other samples. {'; '.join(listed)}."


DIAGNOSIS = Study(
    name="diagnosis",
    figures=diagnosis_figures,
    tables=_tables,
    lists=pools_drawn,
    plots=_plots,
    notes=_notes,
)
