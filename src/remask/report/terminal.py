"""The tables of a study for a terminal, with the full-size figures beside them where there are any.

`full` is the figures of docs/figures.json by name; `study` names theirs, such as `wordmath-hard`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from remask.analysis.correction import Correction
from remask.analysis.diagnosis import Diagnosis
from remask.analysis.statistics import interval_text

Figures = Mapping[str, Mapping[str, Any]]

_PART = "roundtrips."  # what the names of the round trips' single metrics begin with


def show_diagnosis(
    console: Console, rows: Sequence[Diagnosis], right: Sequence[bool], full: Figures, study: str
) -> None:
    """Print how well each score rows right from wrong."""
    title = f"Which score tells {sum(right)} right answers from {len(right) - sum(right)} wrong?"
    table = _table(title, "score", "AUROC [95 %]", "AUPR [95 %]", "forwards")
    full_size = [_full(full, f"diagnosis/{study}/{row.method}/auroc", "{:.3f}") for row in rows]
    _add_full(table, full_size)
    for row, beside in zip(rows, full_size, strict=True):
        if row.method == "confidence":
            table.add_section()
        name = row.method.replace(_PART, "  ")
        cells = [interval_text(row.auroc, 2), interval_text(row.aupr, 2), f"{row.forwards:.0f}"]
        table.add_row(name, *cells, *([beside] if any(full_size) else []))
    console.print(table)
    if all(right) or not any(right):
        console.print("All answers are of one kind: there is nothing to tell apart.\n")
        return
    base = next((row.base_rate for row in rows), 0.0)
    console.print(
        "AUROC: how often a right answer outscores a wrong one; 0.5 is guessing. "
        f"AUPR without skill is {base:.2f}. Indented: the metrics of the round trips, alone. "
        "Forwards: passes of the model per answer, writing it included."
        + _beside(full, f"diagnosis/{study}/roundtrips/auroc", "AUROC")
        + "\n",
        style="dim",
    )


def show_correction(
    console: Console, gained: Sequence[Correction], full: Figures, study: str
) -> None:
    """Print what each way of drawing further samples gained, and the verdict."""
    columns = ("method", "accuracy [95 %]", "n_avg", "eff", "forwards")
    table = _table("What do further samples gain?", *columns)
    full_size = [
        _full(full, f"correction/{study}/{row.method}/accuracy", "{:.1%}") for row in gained
    ]
    _add_full(table, full_size)
    for row, beside in zip(gained, full_size, strict=True):
        low, high = 100 * row.accuracy.low, 100 * row.accuracy.high
        eff = "" if row.eff is None else f"{row.eff.value:+.1f}"
        cells = [f"{row.accuracy.value:.1%} [{low:.0f}, {high:.0f}]", f"{row.n_avg.value:.2f}", eff]
        cells += [f"{row.forwards.value:.0f}", *([beside] if any(full_size) else [])]
        table.add_row(row.method, *cells)
    console.print(table)
    console.print(
        "mgrs: rejection sampling, the first sample whose round trips score above the threshold. "
        "n_avg: samples per problem; eff: points of accuracy gained per further one; forwards: "
        "passes of the model per problem, verifying included."
        + _beside(full, f"correction/{study}/mgrs/accuracy", "accuracy")
        + "\n",
        style="dim",
    )
    console.print(verdict(gained) + "\n", style="bold")


def verdict(gained: Sequence[Correction]) -> str:
    """Return what rejection sampling gained, in a sentence."""
    by_name = {row.method: row for row in gained}
    first, ours = by_name["standard"], by_name["mgrs"]
    votes = next(row for row in gained if row.method.startswith("vote"))
    return (
        f"Rejection sampling: {first.accuracy.value:.1%} right -> {ours.accuracy.value:.1%} with "
        f"{ours.n_avg.value:.2f} samples and {ours.forwards.value:.0f} forwards per problem; "
        f"a vote over {votes.n_avg.value:.0f} gives {votes.accuracy.value:.1%}."
    )


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _add_full(table: Table, full_size: Sequence[str]) -> None:
    if any(full_size):
        table.add_column("full", justify="right", no_wrap=True)


def _full(full: Figures, name: str, shape: str) -> str:
    return shape.format(full[name]["value"]) if name in full else ""


def _beside(full: Figures, name: str, what: str) -> str:
    """Return what the column of full-size figures is, where there is one."""
    if name not in full:
        return ""
    return f" Full: {what} on {full[name]['n']:,} problems ({full[name]['hardware']})."
