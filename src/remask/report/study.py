"""One study by its name: records -> figures, tables and plots. What `remask study` calls.

    told = study("diagnosis", [Path("records")])
    for table in told.tables: ...

`findings` measures, `layout` arranges. Only `scaling` takes several places, one for each model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remask.analysis import measure
from remask.analysis.contraction import contraction, contraction_figures
from remask.analysis.figures import MAIN, Figure, Figures, error_figures
from remask.analysis.load_records import Source, read_source
from remask.analysis.pool import pool_size, pools
from remask.analysis.remarks import absence_notes, vote_notes
from remask.analysis.scaling import PAPER, PRINTED
from remask.analysis.spurious import examples
from remask.denoisers.base import Denoiser
from remask.errors import RecordError
from remask.report import tables
from remask.report.plots import Plot, correction_plot, curve_plots, plane_plot, plots
from remask.report.results_tables import names_under
from remask.report.table import Table, document, write_tables
from remask.tasks import public

Measure = Callable[[Source], Figures]
Arrange = Callable[[Mapping[str, Figure]], list[Table]]
STUDIES: dict[str, tuple[Measure, Arrange]] = {
    "diagnosis": (measure.diagnosis, tables.diagnosis_tables),
    "correction": (measure.correction, tables.correction_tables),
    "ablation": (measure.ablation_study, tables.ablation_tables),
    "geometry": (measure.geometry, tables.geometry_tables),
    "spurious": (measure.spurious_study, tables.spurious_tables),
    "cost": (measure.cost_study, tables.cost_tables),
}
NAMES = (*STUDIES, "scaling")
CONTRACTED = 50  # questions; four answers each take minutes on two CPU cores
EXAMPLES = 4  # right answers with a wrong step that are shown of each file


@dataclass(frozen=True, kw_only=True)
class Told:
    """What one study says."""

    name: str
    figures: Figures
    tables: Sequence[Table]
    plots: Sequence[tuple[str, Plot]]  # each with the study that it is of
    notes: Sequence[str]  # what the records lack, and the command that collects it

    def document(self) -> dict[str, Any]:
        """Return everything but the plots as JSON has it."""
        tables = [document(table) for table in self.tables]
        return {"study": self.name, "tables": tables, "notes": list(self.notes)}

    def write(self, folder: Path) -> list[Path]:
        """Write the tables as Markdown and CSV, the plots as SVG and CSV; return the paths."""
        written = write_tables(self.tables, folder, self.name)
        for place, plot in self.plots:
            path = plot.write(folder, f"{self.name}-{place}-")
            written += [path, path.with_suffix(".csv")]
        return written


def study(name: str, places: Sequence[Path], denoiser: Denoiser | None = None) -> Told:
    """Return one study of the records in a place; `scaling` of several.

    With the model that wrote them, `geometry` also tells how its one-step operator contracts.
    """
    if name == "scaling":
        return _scaling(places)
    if len(places) != 1:
        raise RecordError(f"{name} reads one folder or file, not {len(places)}; scaling several.")
    source = read_source(places[0])
    return study_source(name, source, contracted(source, denoiser) if denoiser else None)


def contracted(source: Source, denoiser: Denoiser) -> Figures:
    """Return how the model's one-step operator moves answers of the main study, or of the first."""
    each = next((one for one in source.studies if one.name == MAIN), source.studies[0])
    rows = [row for pool in pools(each.rows)[:CONTRACTED] for row in pool]
    name = "geometry" if each.name == MAIN else f"geometry/{each.name}"
    return contraction_figures(contraction(denoiser, rows), name)


def study_source(name: str, source: Source, extra: Mapping[str, Figure] | None = None) -> Told:
    """Return one study of a source; `extra` are figures that need the model, measured apart."""
    measure, arrange = STUDIES[name]
    found = measure(source) | dict(extra or {}) | _errors(source)
    tables = arrange(found)
    if name == "spurious":
        tables += _examples(source)
    if name in ("diagnosis", "correction"):  # which look at several samples
        tables += _pools_drawn(source)
    return Told(
        name=name,
        figures=found,
        tables=tables,
        plots=_plots(name, source, found),
        notes=_notes(name, source, found),
    )


def _errors(source: Source) -> Figures:
    """Return how many problems of each study could not be asked."""
    told: Figures = {}
    for each in source.studies:
        told |= error_figures(each.name, each.errors)
    return told


def _scaling(places: Sequence[Path]) -> Told:
    sources = dict(zip(_model_names(places), map(read_source, places), strict=True))
    found = measure.scaling_study(sources)
    shown = [*tables.scaling_tables(found), _quoted_models()]
    notes = list(dict.fromkeys(note for each in sources.values() for note in vote_notes(each)))
    return Told(name="scaling", figures=found, tables=shown, plots=(), notes=notes)


def _model_names(places: Sequence[Path]) -> list[str]:
    """Return a name for each place: its last word, and those above it where that is not enough."""
    for depth in range(1, 4):
        names = ["-".join(place.resolve().with_suffix("").parts[-depth:]) for place in places]
        if len(set(names)) == len(names):
            return names
    raise RecordError(f"{places[0]} is named twice; give one folder or file for each model.")


def _quoted_models() -> Table:
    return Table(
        name="published",
        title="What the paper prints, autoregressive models among it",
        heads=["model", "benchmark", "value", "source"],
        rows=PRINTED,
        note=f"Quoted from {PAPER}; not measured here. Table 3 itself quotes others.",
    )


def _examples(source: Source) -> list[Table]:
    rows = []
    for each in source.labelled:
        for row in examples(each.rows, each.threshold, EXAMPLES):
            scores = row["scores"]
            told = [f"{scores[x]:.3f}" for x in ("roundtrips", "confidence") if x in scores]
            rows.append([each.name, row["id"], row["text"], *told])
    if not rows:
        return []
    heads = ["records", "question", "answer", "round trips", "confidence"]
    title = "Right answers with a wrong step, scored below the threshold"
    return [Table(name="examples", title=title, heads=heads, rows=rows, is_long=True)]


def _pools_drawn(source: Source) -> list[Table]:
    """Return how the pools were drawn, as far as the manifests tell."""
    rows = [[each.name, each.drawn] for each in source.studies if each.drawn]
    if not rows:
        return []
    title, heads = "How the answers to a problem were drawn", ["records", "samples"]
    return [Table(name="drawn", title=title, heads=heads, rows=rows, is_long=True)]


def _plots(name: str, source: Source, found: Figures) -> list[tuple[str, Plot]]:
    """Return the plots of a study."""
    made: list[tuple[str, Plot]] = []
    for each in source.studies:
        drawn: Sequence[Plot] = ()
        if name == "diagnosis":
            drawn = plots(pools(each.rows))
        elif name == "geometry":
            drawn = plane_plot(each.name, [pool[0] for pool in pools(each.rows)])
        elif name == "correction" and each.name in names_under(found, "correction"):
            drawn = [correction_plot(each.name, found)]
        elif name == "ablation":
            drawn = curve_plots(each.name, found)
        made += [(each.name, plot) for plot in drawn]
    return made


def _notes(name: str, source: Source, found: Figures) -> list[str]:
    """Return what the records lack for all of the study's tables, and what to know of the rest."""
    notes = []
    if name == "diagnosis":
        notes += absence_notes(source)
    if name in ("diagnosis", "correction"):
        notes += vote_notes(source)
    fitted = any(each.validation for each in source.studies)
    if name in ("diagnosis", "ablation") and not fitted:
        notes.append(
            "No optimized weights: there are no answers to fit them on; collect some beside these "
            "with remask collect --split validation --scored 1."
        )
    single = all(pool_size(pools(each.rows)) < 2 for each in source.studies)
    if name == "diagnosis" and single:
        notes.append("No self-consistency: remask collect --samples 10 draws the samples it needs.")
    if name == "ablation" and not any("above_default" in word for word in found):
        notes.append(
            "No curves: collect the same problems into further files with one of --mask-ratio, "
            "--rebuild-steps, --trips 8, --mask-design and --rebuild-temperature changed."
        )
    if name == "spurious" and any(each.task in public.NAMES for each in source.studies):
        notes.append("Benchmarks have no labels on steps: this study is of generated tasks only.")
    if name == "spurious" and not source.injected:
        notes.append("No injected flaws: python benchmarks/core.py collect writes them.")
    return notes
