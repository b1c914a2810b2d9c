"""Spurious success as tables: are right answers with a wrong step found?"""

from remask.analysis.figure import INJECTED, Figures
from remask.analysis.load_records import Source
from remask.analysis.spurious import SECTION, examples, spurious_figures
from remask.report.studies.base import Study
from remask.report.table import Table, filled, grid
from remask.tasks import public

EXAMPLES = 4  # right answers with a wrong step that are shown of each file
OWN = {
    "flawed": "flawed", "AUROC": "auroc", "AUROC, confidence": "auroc_confidence",
    "above confidence": "above_confidence", "below the threshold": "below",
    "precision": "precision", "recall": "recall",
}  # fmt: skip
MEANS = {
    "score, flawed": "score_flawed", "score, sound": "score_sound",
    "confidence, flawed": "confidence_flawed", "confidence, sound": "confidence_sound",
}  # fmt: skip
CAUGHT = {
    "AUROC": "auroc", "AUROC, confidence": "auroc_confidence",
    "scored below its original": "lowered", "recall": "recall", "false alarms": "false_alarms",
}  # fmt: skip


def _tables(figures: Figures) -> list[Table]:
    """Return the model's own flaws, then injected ones, each with the mean scores."""
    files = figures.distinct("study", section=SECTION, measure="flawed")
    own = {file: {"section": SECTION, "study": file} for file in files}
    injected = {
        f"{study}/{kind}": {"section": INJECTED, "study": study, "method": kind}
        for study in figures.distinct("study", section=INJECTED)
        for kind in figures.distinct("method", section=INJECTED, study=study)
    }
    heads, means, caught = (
        {head: {"measure": measure} for head, measure in measures.items()}
        for measures in (OWN, MEANS, CAUGHT)
    )
    flawed, lowered = {"measure": "flawed"}, {"measure": "lowered"}
    return [
        filled("own", "Right answers with a wrong step of the model's own",
               grid(figures, own, heads, first="records", count=flawed)),
        filled("own-means", "Their mean scores",
               grid(figures, own, means, first="records"), is_long=True),
        filled("injected", "Flaws written into right solutions",
               grid(figures, injected, caught, first="flaw", count=lowered)),
        filled("injected-means", "Their mean scores, and their originals'",
               grid(figures, injected, means, first="flaw"), is_long=True),
    ]  # fmt: skip


def _lists(source: Source) -> list[Table]:
    """Return some of the flawed answers that were found."""
    rows = []
    for records in source.labelled:
        for row in examples(records.rows, records.threshold, EXAMPLES):
            scores = row.scores
            shown = [f"{scores[x]:.3f}" for x in ("roundtrips", "confidence") if x in scores]
            rows.append([records.name, row.id, row.text, *shown])
    if not rows:
        return []
    heads = ["records", "question", "answer", "round trips", "confidence"]
    title = "Right answers with a wrong step, scored below the threshold"
    return [Table(name="examples", title=title, heads=heads, rows=rows, is_long=True)]


def _notes(source: Source, figures: Figures) -> list[str]:
    """Return what has no labels, and what writes flaws."""
    notes = []
    if any(study.task in public.NAMES for study in source.studies):
        notes.append("Benchmarks have no labels on steps: this study is of generated tasks only.")
    if not source.injected:
        notes.append("No injected flaws: python -m studies.paper.plan collect writes them.")
    return notes


SPURIOUS = Study(
    name="spurious", figures=spurious_figures, tables=_tables, lists=_lists, notes=_notes
)
