"""The command that tells what records say: one study at a time, as tables, JSON or files."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remask.cli import settings as opt
from remask.cli.app import print_json
from remask.cli.flags import UsageError
from remask.extension import resolve
from remask.records import outputs
from remask.settings import Setting, unknown_name

if TYPE_CHECKING:
    from rich.table import Table as Drawn

    from remask.report.studies.base import StudyResult
    from remask.report.table import Table

StudyName = Annotated[
    str,
    typer.Argument(
        help="diagnosis, correction, ablation, geometry, spurious, cost, scaling, or module:name."
    ),
]
Records = Annotated[
    list[Path],
    typer.Argument(help="A folder or file of records; for scaling several, one for each model."),
]
Out = Annotated[
    Path | None, Setting("Also write tables (Markdown, CSV) and plots (SVG) here.", short="-o")
]
WIDE = 200  # columns of what goes to a file or another program


def study(
    *,
    name: StudyName,
    records: Records,
    out: Out = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Run one study on collected records, with intervals and cost.

    Further seeds are found in folders seed-1, seed-2 and so on beside the records; scaling takes
    several folders, one for each model.
    """
    from remask.cli import terminal
    from remask.report.studies import NAMES, STUDIES
    from remask.report.studies import study as run_study

    if ":" not in name and name not in NAMES:
        raise unknown_name("study", name, NAMES, ", or module:name", UsageError)
    chosen = name if name in NAMES else resolve("study", name, STUDIES, ("name", "run"))
    name = chosen if isinstance(chosen, str) else chosen.name
    written: list[Path] = []
    patterns = [f"{name}.md", f"{name}-*"]
    with outputs.hold_in_folder(out, patterns, records, force=force) if out else nullcontext():
        with terminal.waiting("reading and resampling"):
            result = run_study(chosen, records)
        if out is not None:
            with terminal.waiting("writing"):
                written = result.write(out)
    if as_json:
        print_json({**result.document(), "files": [str(path) for path in written]})
    else:
        _show(result)
        if written:
            terminal.say(f"{len(written)} files: {out}")


def _show(result: "StudyResult") -> None:
    """Print the tables; intervals stand under their numbers where the terminal is narrow."""
    import sys

    from rich.console import Console
    from rich.text import Text

    from remask.cli import terminal

    console = Console(width=None if sys.stdout.isatty() else WIDE)
    for table in result.tables:
        console.print(Text(terminal.escape(table.title), style="bold"))
        console.print(_drawn(table))
        if table.note:
            console.print(f"{terminal.escape(table.note)}\n", style="dim", markup=False)
    for note in result.notes:
        terminal.say(note)


def _drawn(table: "Table") -> "Drawn":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn
    from rich.text import Text

    from remask.analysis.figure import Figure
    from remask.cli import terminal
    from remask.report.table import text

    drawn = Drawn(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for number, head in enumerate(table.heads):
        measured = any(isinstance(row[number], Figure) for row in table.rows)
        drawn.add_column(Text(terminal.escape(head)), justify="right" if measured else "left")
    for row in table.rows:
        drawn.add_row(*(Text(terminal.escape(text(cell))) for cell in row))
    return drawn
