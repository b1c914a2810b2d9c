"""Records of the full-size study -> docs/figures.json, docs/results.md and an HTML report.

    python -m studies.paper.measure page                   the page alone, from docs/figures.json
    python -m studies.paper.measure records --commit SHA --hardware "one H200"
    make results RECORDS=records                         everything, from records

The first call with a folder says where its records are from; that is kept in its origin.json, so
that the next one needs no flags. Figures that need the model, like the contraction, are measured
apart and read from extra.json in the folder. What a page quotes and what has a promised name goes
into figures.json, some of it also into the copy that the demo shows; the report, results.html in
the folder, has all of it. The output is deterministic: equal records give equal files.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from remask.analysis.figure import Figures, parse
from remask.analysis.folder_figures import folder_figures
from remask.analysis.load_records import read_source
from remask.denoisers.load import EMBEDDED
from remask.errors import RecordError, RemaskError
from remask.records.jsonl import write_text
from remask.report.page import write_page
from remask.report.studies import STUDIES
from studies.paper.lesson import lesson
from studies.paper.page import page
from studies.shared.figures import FIGURES, ROOT, merge, read, select

COMMANDS = {
    "study": "python -m studies.paper.plan collect MODEL OUT; make results RECORDS=OUT",
    "contraction": "python -m studies.paper.plan contraction MODEL OUT",
}
OWNED = (  # what this script measures: older figures of these names are replaced or dropped
    "accuracy/", "ablation/", "carried/", "correction/", "cost/", "diagnosis/", "errors/",
    "geometry/", "process/", "rebatched/", "spurious/",
)  # fmt: skip
BESIDE = ("align/", "frontier/mean/", "real/")  # what others measure and this page quotes
DEMO = ("accuracy/wordmath", "diagnosis/wordmath-hard/", "correction/wordmath-hard/")
NOTES = Path(__file__).with_name("notes.json")  # what the records say beside numbers
Entry = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the records are from."""

    commit: str
    hardware: str


def measure(folder: Path, extra: Figures) -> tuple[Figures, list[str]]:
    """Return all figures of the records, and what is to be said beside them."""
    source = read_source(folder)
    figures = folder_figures(folder)
    notes: list[str] = []
    for name, study in STUDIES.items():
        result = study.run(source, extra if name == "geometry" else None)
        figures |= result.figures
        notes += result.notes
        print(f"{name}: {len(result.figures)} figures", flush=True)
    return figures, list(dict.fromkeys(notes))


def write_results(arguments: argparse.Namespace) -> None:
    """Measure the records, and write the figures, the page and the report."""
    folder = arguments.records
    if not any(folder.glob("pool-*.jsonl")):
        raise RecordError(
            f"{folder} holds no records of the study; collect them: "
            f"python -m studies.paper.plan collect tiny {folder}."
        )
    origin = read_origin(folder, arguments.commit, arguments.hardware)
    extra = read_extra(folder / "extra.json")
    figures, notes = measure(folder, Figures(parse(name, row) for name, row in extra.items()))
    entries = {
        name: figure.entry() | {"run": "study"} | asdict(origin) | extra.get(name, {})
        for name, figure in figures.items()
    }
    entries = {name: row | {"command": COMMANDS[row["run"]]} for name, row in entries.items()}
    text = page(figures, {"study": asdict(origin)}, notes)
    shown = select(entries, arguments.figures, text)
    merge(arguments.figures, shown, OWNED)
    write_demo(arguments.demo, shown)
    write_text(arguments.notes, json.dumps(notes, indent=2) + "\n")
    report = write_page(folder, folder / "results.html", title="Results")
    print(f"{arguments.figures}: {len(shown)} of {len(figures)} figures; {arguments.demo}: a copy")
    print(f"{report}: {report.stat().st_size:,} bytes")


def write_demo(path: Path, entries: Mapping[str, Entry]) -> None:
    """Write the figures that `remask demo` prints, one per line."""
    shown = ("value", "low", "high", "n", "unit", "hardware")
    lines = [
        f"{json.dumps(name)}: {json.dumps({key: row[key] for key in shown})}"
        for name, row in sorted(entries.items())
        if name.startswith(DEMO)
    ]
    text = ",\n".join(lines)
    write_text(path, f'{{"figures": {{\n{text}\n}}}}\n')


def write_results_page(arguments: argparse.Namespace) -> None:
    """Write the page from figures alone."""
    entries = read(arguments.figures)
    origin: dict[str, Entry] = {}
    for row in entries.values():
        origin.setdefault(row["run"], row)
    if "study" not in origin:
        raise RecordError(f"{arguments.figures} holds no figures of the study: make results.")
    notes = json.loads(arguments.notes.read_text("utf-8")) if arguments.notes.exists() else []
    parsed = {
        name: parse(name, row)
        for name, row in entries.items()
        if name.startswith((*OWNED, *BESIDE))
    }
    shown = {name: row for name, row in parsed.items() if name.startswith((*OWNED, "align/"))}
    text = page(shown, origin, notes, lesson(parsed))
    write_text(arguments.page, text)
    print(f"{arguments.page}: {text.count(chr(10))} lines")


def read_extra(path: Path) -> dict[str, Entry]:
    """Return figures that were measured apart, by name."""
    told: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    found: dict[str, Entry] = told.get("figures", told)
    return found


def read_origin(folder: Path, commit: str, hardware: str) -> Origin:
    """Return where the records are from, as the flags say, else as an earlier call was told."""
    path = folder / "origin.json"
    if commit and hardware:
        origin = Origin(commit=commit, hardware=hardware)
        write_text(path, json.dumps(asdict(origin), indent=2) + "\n")
        return origin
    if not path.exists():
        raise RecordError(f"{path} is not there; say --commit and --hardware of these records.")
    return Origin(**json.loads(path.read_text(encoding="utf-8")))


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Make docs/results.md.")
    parser.add_argument("records", type=Path, help="folder of records, or `page`")
    parser.add_argument("--commit", default="", help="commit that collected them")
    parser.add_argument("--hardware", default="", help="what they were collected on")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--figures", type=Path, default=FIGURES)
    parser.add_argument("--demo", type=Path, default=EMBEDDED / "figures.json")
    parser.add_argument("--notes", type=Path, default=NOTES)
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> int:
    """Make the figures and the page, or the page alone."""
    arguments = read_arguments(command)
    if arguments.records != Path("page"):
        write_results(arguments)
    write_results_page(arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"studies.paper.measure: {error}")
