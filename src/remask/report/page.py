"""Records -> one HTML file: tables, plots, a list of answers to browse, a label audit, manifests.

The file is whole in itself: it works from disk, asks for nothing from elsewhere, and stays under
10 MB. What a model wrote is shown as text whatever it holds. In tables it is escaped here; in the
list it travels as JSON and is set as text by the page's script, the only one that the page's
Content-Security-Policy lets run. The same records make the same file. No torch here.
"""

import base64
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path

from remask.analysis.audit import REASONS
from remask.analysis.diagnosis import THRESHOLD
from remask.analysis.figures import LEVELS, Figures, error_figures, figures, study_figures
from remask.analysis.pool import Row, answered, pools
from remask.collect.manifest import drawn_in
from remask.decide.threshold import accepts_all, best_f1
from remask.errors import RecordError
from remask.records import jsonl, outputs
from remask.records.record import read_rows
from remask.report import script
from remask.report.answer_list import (
    ALARM,
    KINDS,
    SPURIOUS,
    STABLE,
    Entry,
    File,
    Listing,
    entries,
    list_entries,
)
from remask.report.drift_spans import shown
from remask.report.plots import Plot, plots
from remask.report.render import RIGHT, WRONG
from remask.report.results_tables import Table, tables
from remask.tasks import TASKS

LIMIT = 10_000_000  # bytes of the page
MOST = 10_000  # answers in it
MOST_ERRORS = 100  # problems that could not be asked, by name
DRAWN = 24  # studies that get plots; there are more only where every setting has a file of its own

_WIDE = 6  # columns of a table from which on intervals stand under their numbers
_FIELDS = (
    "id", "task", "number", "prompt", "gold", "text", "answer", "right", "process_ok", "forwards",
    "scores",
)  # fmt: skip
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_MARKER = re.compile(r"<!--fig:.*?-->")
_INTERVAL = re.compile(r"(.+?)( \[[^\]]*\])")
_NUMERIC = re.compile(r"[-+]?\d|$")
_IDENTITY = re.compile(r'(\bid="|url\(#|href="#)')
_FONT = re.compile(r"font-family: [^;\"]*;?")
_PLACES = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_LONG_FRACTION = re.compile(r"(\d\.\d\d)\d+")
_METADATA = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
_INKS = {  # what the page's own colours replace, so that pictures follow its light and dark
    "#ffffff": "var(--paper)", "#000000": "currentColor", "#555555": "var(--soft)",
    "#e6e6e6": "var(--line)", "#aaaaaa": "var(--soft)",
    RIGHT.lower(): "var(--right)", WRONG.lower(): "var(--wrong)",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the records tell: figures, and the pictures of each study."""

    figures: Figures
    pictures: Mapping[str, Sequence[tuple[Plot, str]]]  # by study, each with its SVG


def write_page(
    source: Path | Sequence[Path],
    out: Path,
    *,
    thresholds: Mapping[str, float] | None = None,
    title: str = "",
    most: int = MOST,
    with_plots: bool = False,
) -> Path:
    """Write the report of some records and return its path.

    Args:
        source: a folder of records, or files of them.
        out: the HTML file; it appears whole or not at all.
        thresholds: by task, above which the round trips confirm an answer; for a task that is not
            named, the best F1 on the file `threshold-TASK.jsonl`, or the paper's 0.75.
        title: of the page; the name of the folder where it is empty.
        most: answers that may be listed; fewer where the page would grow too large.
        with_plots: also write every plot as SVG and CSV, into a folder beside the page.
    """
    files = read_files(source)
    outputs.refuse_inputs(out, outputs.of_records([source] if isinstance(source, Path) else source))
    limits = _thresholds(files) | dict(thresholds or {})
    folder = source if isinstance(source, Path) and source.is_dir() else None
    with tempfile.TemporaryDirectory() as scratch:
        drawn = plots_of(out) if with_plots else Path(scratch)
        found = _findings(folder, files, limits, drawn)
    listed = entries(files, limits)
    slots = _sections(found, files, listed) | {"title": escape(shown(title or _name(source)))}
    page = _assembled(slots, files, listed, most)
    out.parent.mkdir(parents=True, exist_ok=True)
    jsonl.replace_file(out, page)
    return out


def plots_of(out: Path) -> Path:
    """Return the folder of a page's plots."""
    return out.with_name(f"{out.stem}-plots")


def read_files(source: Path | Sequence[Path]) -> list[File]:
    """Return the records of a folder or of some files, or raise saying what is missing."""
    if isinstance(source, Path) and source.is_dir():
        paths = sorted(source.glob("*.jsonl"))
    else:
        paths = [source] if isinstance(source, Path) else list(source)
        for path in paths:
            if not path.is_file():
                raise RecordError(f"{path} does not exist; name a folder or file of records.")
    found = [_read(path) for path in paths]
    if not any(file.rows for file in found):
        raise RecordError(f"{_name(source)} holds no records; collect some with remask collect.")
    return [file for file in found if file.rows]


def _read(path: Path) -> File:
    # Solutions with injected flaws are no answers of a model: `remask study spurious` shows them.
    every = [row for row in read_rows(path) if "kind" not in row]
    rows, errors = answered(every), [row for row in every if "error" in row]
    for number, row in enumerate(rows, 1):
        missing = [field for field in _FIELDS if field not in row]
        if missing:
            raise RecordError(
                f"record {number} of {path} has no {missing[0]!r}: give files that remask collect "
                "wrote."
            )
    manifest = Path(f"{path}.manifest.json")
    told = manifest.read_text(encoding="utf-8", errors="replace") if manifest.exists() else ""
    return File(name=path.stem, rows=rows, manifest=told, errors=errors)


def _name(source: Path | Sequence[Path]) -> str:
    paths = [source] if isinstance(source, Path) else source
    return ", ".join(path.resolve().name for path in paths) or "an empty list of files"


def _thresholds(files: Sequence[File]) -> dict[str, float]:
    """Return the best threshold of each task that has a file to choose it on.

    One that rejects nothing is left out: it would call every answer stable.
    """
    found = {}
    for file in files:
        task = file.name.removeprefix("threshold-")
        if task != file.name:
            scores = [row["scores"].get("roundtrips") for row in file.rows]
            best = best_f1(scores, [row["right"] for row in file.rows])
            if not accepts_all(scores, best):
                found[task] = best
    return found


def _findings(
    folder: Path | None, files: Sequence[File], limits: Mapping[str, float], drawn: Path
) -> Findings:
    """Return what a folder of the full-size study tells, or each file by itself."""
    by_name = {file.name: file.rows for file in files}
    studies: dict[str, Sequence[Row]] = {
        f"{task}{ending}": by_name[f"pool-{task}-{level}"]
        for task in TASKS
        for level, ending in LEVELS.items()
        if f"pool-{task}-{level}" in by_name
    }
    if folder is not None and studies:
        told = figures(folder, {task: limits.get(task, THRESHOLD) for task in TASKS})
    else:
        studies = dict(by_name)
        told = {}
        for name, rows in studies.items():
            told |= study_figures(name, rows, limits.get(rows[0]["task"], THRESHOLD))
    for file in files:
        study = next((name for name, rows in studies.items() if rows is file.rows), file.name)
        told |= error_figures(study, len(file.errors))
    return Findings(figures=told, pictures=_pictures(studies, drawn))


def _pictures(
    studies: Mapping[str, Sequence[Row]], folder: Path
) -> dict[str, list[tuple[Plot, str]]]:
    found = {}
    for name, rows in list(studies.items())[:DRAWN]:
        made = plots(pools(rows))
        pictures = [plot.write(folder, f"{name}-").read_text(encoding="utf-8") for plot in made]
        found[name] = list(zip(made, pictures, strict=True))
    return found


def _assembled(
    slots: Mapping[str, str], files: Sequence[File], listed: Sequence[Entry], most: int
) -> bytes:
    """Return the page: everything else first, then as many answers as there is room for."""
    code = script.script()
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    frame = dict(slots) | {
        "style": script.style(), "script": code, "hash": f"sha256-{digest}",
        "version": escape(metadata.version("remask")),
    }  # fmt: skip
    nothing = Listing(data="", shown=())
    size = len(_filled(frame | _counted(nothing, files, listed)))
    spare = LIMIT - size - 50_000  # for the names and the counts that come with the answers
    listing = list_entries(listed, files, most=most, limit=max(spare, 0))
    return _filled(frame | _counted(listing, files, listed))


def _counted(listing: Listing, files: Sequence[File], listed: Sequence[Entry]) -> dict[str, str]:
    """Return the parts that say how many answers there are, and how many of them are shown."""
    held = f"All {len(listed):,} recorded answers are here."
    if len(listing.shown) < len(listed):
        held = (
            f"{len(listing.shown):,} of the {len(listed):,} recorded answers are here, to keep the "
            "page small. Rare kinds were kept before frequent ones; the table of files says how "
            "many of each there are."
        )
    limits = sorted({(entry.row["task"], entry.threshold) for entry in listed})
    told = ", ".join(f"{_text(task)} {threshold:g}" for task, threshold in limits)
    held += f" Round trips confirm an answer above the threshold of its task: {told}."
    table = _files_table(files, listed, listing.shown)
    return {"held": held, "files": html_table(table), "data": listing.data}


def _filled(slots: Mapping[str, str]) -> bytes:
    """Return the template with its slots filled; what fills them is not searched for slots."""
    text = _SLOT.sub(lambda slot: slots[slot[1]], _template())
    return text.encode("ascii", "xmlcharrefreplace")


def _template() -> str:
    return (script.OWN / "report.html").read_text(encoding="ascii")


def _sections(found: Findings, files: Sequence[File], listed: Sequence[Entry]) -> dict[str, str]:
    """Return what the slots hold that does not depend on how many answers are listed."""
    right = sum(bool(entry.row["right"]) for entry in listed)
    kept = "one file" if len(files) == 1 else f"{len(files):,} files"
    made = tables(found.figures)
    general = [table for table in made if not table.study] + _errors_table(files)
    return {
        "lead": f"{len(listed):,} answers in {kept}, {right:,} of them right.{_not_asked(files)}",
        "summary": "".join(map(html_table, general)),
        "studies": "".join(_studies(found, made)),
        "labels": _labels_table(listed),
        "unseen": _unseen(listed),
        "manifests": "".join(map(_manifest, files)),
        "stable": STABLE, "alarm": ALARM, "spurious": SPURIOUS,
    }  # fmt: skip


def _not_asked(files: Sequence[File]) -> str:
    errors = sum(len(file.errors) for file in files)
    return f" {errors:,} more problems could not be asked." if errors else ""


def _errors_table(files: Sequence[File]) -> list[Table]:
    """Return the problems that could not be asked, each with the reason; none where there is none.

    They are counted beside n, and are no answers.
    """
    rows = [[file.name, row["id"], row["error"]] for file in files for row in file.errors]
    if not rows:
        return []
    title = "Problems that could not be asked"
    if len(rows) > MOST_ERRORS:
        title += f": {MOST_ERRORS} of {len(rows):,}"
    return [Table(title=title, heads=["file", "problem", "why"], rows=rows[:MOST_ERRORS])]


def _studies(found: Findings, made: Sequence[Table]) -> Iterable[str]:
    names = dict.fromkeys([*found.pictures, *(table.study for table in made if table.study)])
    for place, name in enumerate(names):
        told = found.figures.get(f"diagnosis/{name}/roundtrips/auroc")
        aside = "no AUROC of round trips" if told is None else f"round trips {told.value:.3f}"
        pictures = found.pictures.get(name, ())
        drawn = "".join(
            _inlined(svg, plot.says, f"p{place}{k}-") for k, (plot, svg) in enumerate(pictures)
        )
        own = "".join(html_table(table) for table in made if table.study == name)
        yield (
            f'<details class="study"{"" if place else " open"}><summary>'
            f'<h3>{_text(name)}</h3><span class="aside">{aside}</span></summary>'
            f'<div class="inside"><div class="plots">{drawn}</div>{own}</div></details>\n'
        )


def _inlined(svg: str, says: str, prefix: str) -> str:
    """Return a picture as part of the page: its colours, its font, no name used twice."""
    body = _METADATA.sub("", svg[svg.index("<svg") :])
    body = _FONT.sub("", _IDENTITY.sub(rf"\1{prefix}", body))
    body = _PLACES.sub(lambda places: _LONG_FRACTION.sub(r"\1", places[0]), body)
    for ink, own in _INKS.items():
        body = body.replace(ink, own)
    body = re.sub(r' (?:width|height)="[\d.]+pt"', "", body, count=2)
    label = f'<svg role="img" aria-label="{escape(says)}"'
    return f'<figure class="plot">{body.replace("<svg", label, 1)}</figure>\n'


def html_table(table: Table) -> str:
    """Return a table as HTML; its cells are escaped and lose their markers."""
    title = _text(_MARKER.sub("", table.title))
    below = (_MARKER.sub("", cell) for cell in table.rows[0])
    heads = "".join(
        f'<th scope="col"{_align(cell)}>{_text(head)}</th>'
        for head, cell in zip(table.heads, below, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cells(row))}</tr>" for row in table.rows)
    look = ' class="tall"' if len(table.heads) > _WIDE else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}"><table{look}>'
        f"<caption>{title}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>\n"
    )


def _cells(row: Sequence[str]) -> Iterable[str]:
    first, *others = (_MARKER.sub("", cell) for cell in row)
    part = ' class="part"' if first.startswith("roundtrips.") else ""
    yield f'<th scope="row"{part}>{_text(first)}</th>'
    for cell in others:
        interval = _INTERVAL.fullmatch(cell)
        if interval is None:
            yield f"<td{_align(cell)}>{_text(cell)}</td>"
        else:
            value, brackets = map(_text, interval.groups())
            yield f'<td>{value}<span class="interval">{brackets}</span></td>'


def _align(cell: str) -> str:
    return "" if _NUMERIC.match(cell) else ' class="words"'


def _text(text: str) -> str:
    return escape(shown(text))


def _labels_table(listed: Sequence[Entry]) -> str:
    counts = {reason: sum(reason in entry.doubts for entry in listed) for reason in REASONS}
    rows = "".join(
        f'<tr><th scope="row">{escape(reason)}</th><td>{count:,}</td>'
        f'<td><button type="button" data-doubt="{REASONS.index(reason)}">show</button></td></tr>'
        for reason, count in counts.items()
        if count
    )
    if not rows:
        return "<p>No label gave reason for doubt.</p>"
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Doubtful labels"><table>'
        '<thead><tr><th scope="col">reason</th><th scope="col">answers</th>'
        f'<th scope="col">look</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _files_table(files: Sequence[File], listed: Sequence[Entry], kept: Sequence[Entry]) -> Table:
    here = Counter(entry.file for entry in kept)
    right = Counter(entry.file for entry in listed if entry.row["right"])
    kinds = Counter((entry.file, kind) for entry in listed for kind in entry.kinds)
    drawn = [drawn_in(file.manifest) for file in files]
    rows = []
    for number, file in enumerate(files):
        counts = [len(file.rows), here[number], right[number]]
        counts += [kinds[number, kind] for kind in KINDS]
        rows.append([file.name, drawn[number], *(f"{count:,}" for count in counts)])
    heads = ["file", "samples", "answers", "listed here", "right", *KINDS]
    if not any(drawn):
        heads, rows = [heads[0], *heads[2:]], [[row[0], *row[2:]] for row in rows]
    return Table(title="Answers by file", heads=heads, rows=rows)


def _manifest(file: File) -> str:
    if not file.manifest:
        return f'<p class="note">{_text(file.name)} has no manifest.</p>\n'
    return (
        f'<details class="manifest"><summary><span>manifest of {_text(file.name)}</span></summary>'
        f"<pre>{_text(file.manifest)}</pre></details>\n"
    )


def _unseen(listed: Sequence[Entry]) -> str:
    """Return how many wrong answers the round trips confirmed, in a sentence."""
    scored = [entry for entry in listed if entry.row["scores"].get("roundtrips") is not None]
    wrong = [entry for entry in scored if not entry.row["right"]]
    if not wrong:
        return "No wrong answer was scored here, so these records cannot show what is missed."
    missed = sum(STABLE in entry.kinds for entry in wrong)
    return (
        f"Of {len(wrong):,} wrong answers that were scored, {missed:,} ({missed / len(wrong):.0%}) "
        "score above the threshold of their task: these the round trips did not see."
    )
