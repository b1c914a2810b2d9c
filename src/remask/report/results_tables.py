"""Figures -> the tables of a page, each number with the marker that ties it to its figure.

Tables are made from the figures alone, so that a page says nothing but what docs/figures.json says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from remask.analysis.figures import MAIN, Figure

Figures = Mapping[str, Figure]
SETTINGS = ("mask_ratio", "rebuild_steps", "trips", "mask_design", "rebuild_temperature")

THREE_DIGITS = (  # what the units of numbers around 1 begin with
    "AUROC", "AUPR", "ECE", "Brier", "AURC", "PRR", "Spearman", "R^2", "score", "Cramer",
    "median", "RMS", "confidence", "weight", "rate", "10%", "90%",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table; its cells are text, with the markers of their figures."""

    title: str
    study: str = ""  # empty where it is about all of them
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(found: Figures) -> list[Table]:
    """Return every table that the figures fill."""
    listed = [_overview(found)]
    for study in names_under(found, "diagnosis"):
        listed += [
            _diagnosis_table(found, study),
            _selection_table(found, study),
            _difficulty_table(found, study),
            _correction_table(found, study),
            _curve_table(found, study, "threshold"),
            *(_curve_table(found, study, setting) for setting in SETTINGS),
            _geometry_table(found, study),
        ]
    listed += [
        _carried_table(found),
        _rest(found, "process", "Right answers: right steps or wrong?"),
        _rest(found, "rebatched", "The same answers in other batches"),
    ]
    return [table for table in listed if table.rows]


def _overview(found: Figures) -> Table:
    shown = (
        "roundtrips", "confidence", "confidence_canvas", "vote", "agreement", "self_evaluation",
        "editor",
    )  # fmt: skip
    rows = []
    for study in names_under(found, "diagnosis"):
        names = [f"accuracy/{study}", f"diagnosis/{study}/base_rate"]
        names += [f"diagnosis/{study}/{method}/auroc" for method in shown]
        names.append(f"diagnosis/{study}/roundtrips_minus_consistency/auroc")
        cells = [quote(found, name) or _absence(found, name) for name in names]
        rows.append([study, counted(found, f"diagnosis/{study}/base_rate"), *cells])
    heads = ["study", "n", "greedy accuracy", "base rate", *shown, "roundtrips - self-consistency"]
    return _without_empty_columns(Table(title="Diagnosis, AUROC", heads=heads, rows=rows))


def _diagnosis_table(found: Figures, study: str) -> Table:
    columns = ("auroc", "aupr", "forwards", "absent")
    rows = []
    for name in _methods(found, study):
        cells = [quote(found, f"diagnosis/{study}/{name}/{column}") for column in columns]
        rows.append([name, *cells, counted(found, f"diagnosis/{study}/{name}/auroc")])
    heads = ["score", *columns, "n"]
    table = Table(title=f"Diagnosis: {study}", study=study, heads=heads, rows=rows)
    return _without_empty_columns(table)


def _selection_table(found: Figures, study: str) -> Table:
    """Return what only the scores have that somebody may read as probabilities."""
    columns = {
        "ECE": "ece", "Brier": "brier", "AURC": "aurc", "PRR": "prr",
        "mean, right": "mean_right", "mean, wrong": "mean_wrong",
        **{f"right at {x} %": f"accuracy_at_coverage_{x}" for x in (50, 80, 90)},
        "precision above 0.75": "precision_at_0.75", "recall above 0.75": "recall_at_0.75",
    }  # fmt: skip
    rows = [
        [name, *(quote(found, f"diagnosis/{study}/{name}/{key}") for key in columns.values())]
        for name in _methods(found, study)
    ]
    kept = [row for row in rows if any(row[1:])]
    title = f"Calibration and selection: {study}"
    return Table(title=title, study=study, heads=["score", *columns], rows=kept)


def _difficulty_table(found: Figures, study: str) -> Table:
    under = f"diagnosis/{study}/roundtrips_minus_consistency"
    rows = []
    for difficulty in ("hard", "middle", "easy"):
        figure = found.get(f"{under}/{difficulty}/auroc")
        if figure is not None:
            quoted = quote(found, f"{under}/{difficulty}/auroc")
            unit = figure.unit.partition("; ")[2]
            rows.append([difficulty, quoted, unit, counted(found, f"{under}/{difficulty}/auroc")])
    heads = ["problems", "roundtrips - self-consistency", "which are these", "n"]
    return Table(title=f"The gap by difficulty: {study}", study=study, heads=heads, rows=rows)


def _correction_table(found: Figures, study: str) -> Table:
    columns = ("accuracy", "n_avg", "eff", "forwards")
    rows = [
        [name, *(quote(found, f"correction/{study}/{name}/{column}") for column in columns)]
        for name in names_under(found, f"correction/{study}")
    ]
    threshold = quote(found, f"correction/{study}/mgrs/threshold")
    title = f"Correction: {study} (mgrs above {threshold})"
    return Table(title=title, study=study, heads=["method", *columns], rows=rows)


def _curve_table(found: Figures, study: str, setting: str) -> Table:
    columns = ["accuracy", "n_avg", "forwards"] if setting == "threshold" else ["auroc", "forwards"]
    under = f"curve/{study}/{setting}"
    rows = [
        [value, *(quote(found, f"{under}/{value}/{column}") for column in columns)]
        for value in sorted(names_under(found, under), key=order_of)
    ]
    title = f"{setting}: {study}"
    return Table(title=title, study=study, heads=[setting, *columns], rows=rows)


def _geometry_table(found: Figures, study: str) -> Table:
    under = "geometry" if study == MAIN else f"geometry/{study}"
    depth = under.count("/") + 1
    names = [n for n in found if n.startswith(f"{under}/") and n.count("/") == depth]
    return _listed(found, under, names, f"Geometry: {study}", study)


def _carried_table(found: Figures) -> Table:
    columns = ("coverage", "precision", "recall")
    rows = [
        [study, *(quote(found, f"carried/{study}/{column}") for column in columns)]
        for study in names_under(found, "carried")
        if study != "threshold"
    ]
    threshold = quote(found, "carried/threshold")
    title = f"One threshold carried over all studies ({threshold})"
    return Table(title=title, heads=["study", *columns], rows=rows)


def _rest(found: Figures, under: str, title: str) -> Table:
    names = [name for name in found if name.startswith(f"{under}/")]
    return _listed(found, under, names, title, "")


def _listed(found: Figures, under: str, names: Iterable[str], title: str, study: str) -> Table:
    rows = []
    for name in names:
        short, count = name.removeprefix(f"{under}/"), found[name].n
        rows.append([short, found[name].unit, quote(found, name), str(count or "")])
    return Table(title=title, study=study, heads=["figure", "unit", "value", "n"], rows=rows)


def counted(found: Figures, name: str) -> str:
    """Return the n of a figure, and beside it the problems of its study that were not asked."""
    n = found[name].n if name in found else None
    if not n:
        return ""
    errors = [found[f"errors/{word}"] for word in name.split("/") if f"errors/{word}" in found]
    several = sum(int(error.value) for error in errors)
    return f"{n}, {several} error{'s' if several > 1 else ''}" if several else str(n)


def _absence(found: Figures, name: str) -> str:
    """Return of how many answers a score is absent that has no AUROC."""
    return quote(found, f"{name.removesuffix('/auroc')}/absent") if name.endswith("/auroc") else ""


def _methods(found: Figures, study: str) -> list[str]:
    names = names_under(found, f"diagnosis/{study}")
    return [name for name in names if f"diagnosis/{study}/{name}/forwards" in found]


def names_under(found: Figures, under: str) -> list[str]:
    """Return the next words of the names that begin so, in the order of the figures."""
    prefix = f"{under}/"
    return list(
        dict.fromkeys(n[len(prefix) :].split("/")[0] for n in found if n.startswith(prefix))
    )


def order_of(value: str) -> tuple[float, str]:
    """Return what the values of a setting are sorted by: numbers as numbers, words after 0."""
    try:
        return float(value), ""
    except ValueError:
        return 0.0, value


def quote(found: Figures, name: str) -> str:
    """Return a figure as a page shows it: rounded, marked, with its interval; empty if absent."""
    return as_text(found[name], f"<!--fig:{name}-->") if name in found else ""


def as_text(figure: Figure, marker: str = "") -> str:
    """Return a figure rounded, with its interval; the marker stands behind the value."""
    form, scale, end = _shape(figure.unit)
    shown = f"{scale * figure.value:{form}}{end}{marker}"
    if figure.low is None or figure.high is None or figure.low == figure.high:
        return shown
    return f"{shown} [{scale * figure.low:{form}}, {scale * figure.high:{form}}]"


def _shape(unit: str) -> tuple[str, int, str]:
    """Return how numbers of a unit are written: format, factor, what follows."""
    if unit.startswith("share above"):
        return "+.1f", 100, " %"
    if unit.startswith("share"):
        return ".1f", 100, " %"
    if unit.startswith("AUROC above"):
        return "+.3f", 1, ""
    if unit.startswith(THREE_DIGITS):
        return ".3f", 1, ""
    if unit.startswith("points"):
        return "+.2f", 1, ""
    if unit == "absent":
        return ".0f", 1, " absent"
    known = {"samples": ".2f", "forwards": ".0f", "density": ".3f", "right / wrong": ".2f"}
    known |= {"counted": ".3f", "chi-square": ".1f", "s, ": ".0f", "s per update": ".2f"}
    return next((form for start, form in known.items() if unit.startswith(start)), "g"), 1, ""


def _without_empty_columns(table: Table) -> Table:
    filled = [k for k in range(len(table.heads)) if any(row[k] for row in table.rows)]
    return Table(
        title=table.title,
        study=table.study,
        heads=[table.heads[k] for k in filled],
        rows=[[row[k] for k in filled] for row in table.rows],
    )
