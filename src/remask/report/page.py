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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib import metadata
from pathlib import Path

from remask.analysis import correction, curves, diagnosis, geometry
from remask.analysis.audit import REASONS
from remask.analysis.figure import Figures
from remask.analysis.folder_figures import PROCESS, REBATCHED, folder_figures
from remask.analysis.load_records import (
    RecordFile,
    Source,
    StudyRecords,
    is_whole_study,
    read_source,
    source_of,
)
from remask.analysis.pool import is_scored, pool_size, pools
from remask.errors import RecordError
from remask.records import jsonl, outputs
from remask.records.manifest import manifest_path, part_path
from remask.report import script
from remask.report.answer_list import (
    ALARM,
    KINDS,
    SPURIOUS,
    TRUSTED,
    UNDECIDED,
    ListedAnswer,
    Listing,
    list_entries,
    listed_answers,
)
from remask.report.collected import collected
from remask.report.html import html_table, html_text, inlined
from remask.report.plots import Plot, plots
from remask.report.result import auroc_of, judged, one_kind, result
from remask.report.studies import STUDIES
from remask.report.studies.ablation import setting_tables
from remask.report.table import Cell, Table, filled
from remask.settings import checked

LIMIT = 10_000_000  # bytes of the page
MOST = 10_000  # answers in it
MOST_ERRORS = 100  # problems that could not be asked, by name
DRAWN = 24  # studies that get plots; there are more only where every setting has a file of its own

_SLOT = re.compile(r"\{\{(\w+)\}\}")
Thresholds = Mapping[str, float]  # by task
Pictures = Mapping[str, Sequence[tuple[Plot, str]]]  # by study, each with its SVG
NOTE = (
    '<p class="note">AUROC is the chance that a right answer outscores a wrong one: 0.5 is '
    "guessing, 1 is perfect. Brackets hold 95 % intervals. The base rate is the share of right "
    "answers among those judged, the first of each problem; vote and agreement read "
    "self-consistency over all samples of a problem. Forward passes are the model's, writing the "
    "answer included.</p>\n"
)
JUDGING = (diagnosis.SECTION, diagnosis.CARRIED, curves.SECTION, geometry.SECTION)  # scores
GAINING = (correction.SECTION, correction.CURVE)  # by further samples
LISTED = {  # figures that are of no table of a study -> the title of their list
    "accuracy": "How often greedy answers are right",
    PROCESS: "Right answers: right steps or wrong?",
    REBATCHED: "The same answers in other batches",
}


@checked
def write_page(
    source: Path | Sequence[Path],
    out: Path,
    *,
    thresholds: Thresholds | None = None,
    title: str = "",
    most: int = MOST,
    with_plots: bool = False,
) -> Path:
    """Write the report of some records and return its path.

    Args:
        source: a folder of records, or files of them.
        out: the HTML file; it appears whole or not at all.
        thresholds: by task, above which the round trips confirm an answer; for a task that is not
            named, what answers of another split choose, or the model's own (see `limits`).
        title: of the page; the name of the folder where it is empty.
        most: answers that may be listed; fewer where the page would grow too large.
        with_plots: also write every plot as SVG and CSV, into a folder beside the page.
    """
    files = read_files(source)
    outputs.refuse_inputs(out, outputs.of_records([source] if isinstance(source, Path) else source))
    records = _source(source, files, thresholds)
    figures = report_figures(records, source)
    with tempfile.TemporaryDirectory() as scratch:
        pictures = _pictures(records, plots_of(out) if with_plots else Path(scratch))
    listed = listed_answers(files, records.limits)
    tables = report_tables(_telling(figures, records), files)
    slots = _sections(tables, records, files, figures, pictures)
    slots |= _about(files, listed) | {"title": html_text(title or _name(source))}
    slots |= {
        "result": html_text(result(_shown_first(records), figures)),
        "collected": collected(files, records.limits),
    }
    page = _assembled(slots, files, listed, most)
    out.parent.mkdir(parents=True, exist_ok=True)
    jsonl.replace_file(out, page)
    return out


def plots_of(out: Path) -> Path:
    """Return the folder of a page's plots."""
    return out.with_name(f"{out.stem}-plots")


@checked
def read_files(source: Path | Sequence[Path]) -> list[RecordFile]:
    """Return the answers in a folder or in some files, or raise saying what is missing.

    Solutions with injected flaws are no answers of a model: `remask study spurious` shows them.
    """
    if isinstance(source, Path) and source.is_dir():
        paths = sorted(source.glob("*.jsonl"))
    else:
        paths = [source] if isinstance(source, Path) else list(source)
        for path in paths:
            if not (path.exists() or part_path(path).exists()):
                raise RecordError(f"{path} does not exist; name a folder or file of records.")
    files = [file for path in paths if (file := RecordFile.read(path)).rows]
    answers = [file for file in files if not file.is_injected]
    if not answers:
        raise RecordError(f"{_name(source)} holds no records; collect some with remask collect.")
    return answers


def _name(source: Path | Sequence[Path]) -> str:
    paths = [source] if isinstance(source, Path) else source
    return ", ".join(path.resolve().name for path in paths) or "an empty list of files"


def _source(
    source: Path | Sequence[Path], files: Sequence[RecordFile], thresholds: Thresholds | None
) -> Source:
    """Return the studies: those of a whole study's folder, or every file by itself."""
    if isinstance(source, Path) and is_whole_study(source):
        return read_source(source, thresholds)
    records = source_of(_name(source), files, thresholds)
    judged = {study.name for study in records.studies}
    others = [
        StudyRecords(
            name=file.name, task=file.task, path=file.path, rows=file.rows,
            threshold=file.limit(records.limits).value, errors=len(file.errors),
        )
        for file in files
        if file.name not in judged
    ]  # fmt: skip
    return replace(records, studies=[*records.studies, *others])


def report_figures(records: Source, source: Path | Sequence[Path]) -> Figures:
    """Return what the records of every study show; correction where every sample was scored."""
    figures = curves.curve_figures(records) | records.errors()
    for study in records.studies:
        figures |= diagnosis.diagnose(study, records.chooser)
        figures |= geometry.plane(study, is_main=study.name == records.main)
        if all(is_scored(row) for row in study.rows):
            figures |= correction.correct(study)
    if isinstance(source, Path) and is_whole_study(source):
        figures |= folder_figures(source)
    return figures


def _telling(figures: Figures, records: Source) -> Figures:
    """Return the figures without those of answers that are all right, or all wrong.

    No score can be judged by them. What further samples gain is told where there are some, and
    some differ.
    """
    alike = {study.name for study in records.studies if one_kind(study)}
    same = {
        study.name
        for study in records.studies
        if len({r.right for r in study.rows}) == 1 or pool_size(pools(study.rows)) < 2
    }
    return Figures(
        figure
        for figure in figures.values()
        if not (figure.study in alike and figure.section in JUDGING)
        and not (figure.study in same and figure.section in GAINING)
    )


def report_tables(figures: Figures, files: Sequence[RecordFile]) -> list[Table]:
    """Return the tables of the figures, then those of no study, and what could not be asked."""
    tables = [
        *STUDIES["diagnosis"].tables(figures),
        *STUDIES["correction"].tables(figures),
        *setting_tables(figures),
        *STUDIES["geometry"].tables(figures),
        *(_listed(figures, section, title) for section, title in LISTED.items()),
        _errors_table(files),
    ]
    # One threshold is carried nowhere where there is one study.
    return [table for table in tables if len(table.rows) > (table.name == "carried")]


def _listed(figures: Figures, section: str, title: str) -> Table:
    rows: list[list[Cell]] = [
        [name.removeprefix(f"{section}/"), figure.unit, figure, str(figure.n or "")]
        for name, figure in figures.items()
        if figure.section == section
    ]
    return filled(section, title, (["figure", "unit", "value", "n"], rows))


def _errors_table(files: Sequence[RecordFile]) -> Table:
    """Return the problems that could not be asked, each with the reason.

    They are counted beside n, and are no answers.
    """
    rows = [[file.name, row.id, row.error] for file in files for row in file.errors]
    title = "Problems that could not be asked"
    if len(rows) > MOST_ERRORS:
        title += f": {MOST_ERRORS} of {len(rows):,}"
    heads = ["file", "problem", "why"]
    return Table(name="errors", title=title, heads=heads, rows=rows[:MOST_ERRORS])


def _pictures(records: Source, folder: Path) -> Pictures:
    drawn = {}
    for study in records.studies[:DRAWN]:
        made = plots(pools(study.rows))
        svgs = [plot.write(folder, f"{study.name}-").read_text(encoding="utf-8") for plot in made]
        drawn[study.name] = list(zip(made, svgs, strict=True))
    return drawn


def _assembled(
    slots: Mapping[str, str], files: Sequence[RecordFile], listed: Sequence[ListedAnswer], most: int
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


def _counted(
    listing: Listing, files: Sequence[RecordFile], listed: Sequence[ListedAnswer]
) -> dict[str, str]:
    """Return the parts that say how many answers there are, and how many of them are shown."""
    held = f"All {len(listed):,} recorded answers are here."
    if len(listing.shown) < len(listed):
        held = (
            f"{len(listing.shown):,} of the {len(listed):,} recorded answers are here, to keep the "
            "page small. Rare kinds were kept before frequent ones; the table of files says how "
            "many of each there are."
        )
    limits = {(e.row.task, e.limit.value) for e in listed if not e.limit.reason}
    if limits:
        named = ", ".join(f"{html_text(task)} {value:g}" for task, value in sorted(limits))
        held += (
            f" The verdict is trust or doubt by the threshold of the task ({named}), and undecided "
            "within one standard error of it."
        )
    for reason in sorted({e.limit.reason for e in listed if e.limit.reason}):
        held += f" The verdict is unknown: {html_text(reason)}."
    table = _files_table(files, listed, listing.shown)
    return {"held": held, "files": html_table(table), "data": listing.data}


def _filled(slots: Mapping[str, str]) -> bytes:
    """Return the template with its slots filled; what fills them is not searched for slots."""
    text = _SLOT.sub(lambda slot: slots[slot[1]], _template())
    return text.encode("ascii", "xmlcharrefreplace")


def _template() -> str:
    return (script.OWN / "report.html").read_text(encoding="ascii")


def _shown_first(records: Source) -> Sequence[StudyRecords]:
    """Return the studies that the first sentence is about: those with the usual settings."""
    return [study for study in records.studies if not study.is_changed] or records.studies


def _sections(
    tables: Sequence[Table],
    records: Source,
    files: Sequence[RecordFile],
    figures: Figures,
    pictures: Pictures,
) -> dict[str, str]:
    """Return what the studies show: the tables of all of them, then each with its plots."""
    general = [table for table in tables if not table.study]
    names = dict.fromkeys([*pictures, *(table.study for table in tables if table.study)])
    said, asides = _said(records, files), _asides(records, figures)
    studies = []
    for place, name in enumerate(names):
        drawn = "".join(
            inlined(svg, plot.says, f"p{place}{k}-")
            for k, (plot, svg) in enumerate(pictures.get(name, ()))
        )
        own = "".join(html_table(table) for table in tables if table.study == name)
        aside = html_text(asides.get(name, ""))
        sentences = "".join(f"<p>{html_text(words)}</p>" for words in said.get(name, ()) if words)
        studies.append(
            f'<details class="study"{"" if place else " open"}><summary>'
            f'<h3>{html_text(name)}</h3><span class="aside">{aside}</span>'
            f'</summary><div class="inside">{sentences}<div class="plots">{drawn}</div>{own}</div>'
            "</details>\n"
        )
    note = NOTE if general else ""
    return {"summary": "".join(map(html_table, general)) + note, "studies": "".join(studies)}


def _said(records: Source, files: Sequence[RecordFile]) -> dict[str, list[str]]:
    """Return the sentences of each study: whether there is nothing to tell, what is trusted.

    Of one study alone the page says at its head that there is nothing to tell.
    """
    by_path = {file.path: file for file in files}
    said = {}
    for study in records.studies:
        manifest = by_path[study.path].manifest if study.path in by_path else None
        limit = records.limits.of(study.task, manifest)
        reason = one_kind(study) if len(records.studies) > 1 else ""
        said[study.name] = [reason, judged(study, limit)]
    return said


def _asides(records: Source, figures: Figures) -> dict[str, str]:
    """Return the one thing to know of each study that is folded."""
    asides = {}
    for study in records.studies:
        ours, (missing, *_) = auroc_of(figures, study.name), one_kind(study).split(":")
        known = "" if ours is None else f"AUROC of round trips {ours.value:.3f}"
        asides[study.name] = known or missing.lower() or "no AUROC of round trips"
    return asides


def _about(files: Sequence[RecordFile], listed: Sequence[ListedAnswer]) -> dict[str, str]:
    """Return what the slots say of all answers, however many of them are listed."""
    right = sum(bool(entry.row.right) for entry in listed)
    where = "one file" if len(files) == 1 else f"{len(files):,} files"
    errors = sum(len(file.errors) for file in files)
    more = f" {errors:,} more problems could not be asked." if errors else ""
    return {
        "lead": f"{len(listed):,} answers in {where}, {right:,} of them right.{more}",
        "labels": _labels_table(listed),
        "unseen": _unseen(listed),
        "manifests": "".join(map(_manifest, files)),
        "trusted": TRUSTED, "alarm": ALARM, "spurious": SPURIOUS,
    }  # fmt: skip


def _labels_table(listed: Sequence[ListedAnswer]) -> str:
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


def _files_table(
    files: Sequence[RecordFile], listed: Sequence[ListedAnswer], held: Sequence[ListedAnswer]
) -> Table:
    here = Counter(entry.file for entry in held)
    right = Counter(entry.file for entry in listed if entry.row.right)
    kinds = Counter((entry.file, kind) for entry in listed for kind in entry.kinds)
    rows: list[list[Cell]] = []
    for number, file in enumerate(files):
        drawn = "" if file.manifest is None else file.manifest.drawn
        counts = [len(file.rows), here[number], right[number]]
        counts += [kinds[number, kind] for kind in KINDS]
        rows.append([file.name, drawn, *(f"{count:,}" for count in counts)])
    heads = ["file", "samples", "answers", "listed here", "right", *KINDS]
    return filled("files", "Answers by file", (heads, rows))


def _manifest(file: RecordFile) -> str:
    path = manifest_path(file.path)
    if not path.exists():
        return f'<p class="note">{html_text(file.name)} has no manifest.</p>\n'
    content = path.read_text(encoding="utf-8", errors="replace")
    return (
        '<details class="manifest"><summary>'
        f"<span>manifest of {html_text(file.name)}</span></summary>"
        f"<pre>{html_text(content)}</pre></details>\n"
    )


def _unseen(listed: Sequence[ListedAnswer]) -> str:
    """Return how many wrong answers the round trips confirmed, in a sentence."""
    wrong = [e for e in listed if e.verdict != "unknown" and not e.row.right]
    if not wrong:
        return "No wrong answer has a verdict here, so these records cannot show what is missed."
    missed = sum(TRUSTED in entry.kinds for entry in wrong)
    open_ = sum(UNDECIDED in entry.kinds for entry in wrong)
    return (
        f"Of {len(wrong):,} wrong answers with a verdict, {missed:,} ({missed / len(wrong):.0%}) "
        f"are trusted: the round trips missed them. {open_:,} are undecided."
    )
