"""The plots of a study, each with the numbers that it draws.

What is drawn is `render`'s; here stands which methods are shown, and the same numbers as a table
for whoever wants to draw them anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from remask.analysis import correction, curves
from remask.analysis.figure import Figures
from remask.analysis.geometry import points
from remask.analysis.methods import ROUNDTRIPS, columns, methods
from remask.analysis.pool import Pool
from remask.analysis.reliability import diagram, ece
from remask.analysis.selective import accuracy_at
from remask.analysis.statistics import curve
from remask.records.record import Record
from remask.report import render
from remask.report.labels import worded
from remask.report.table import write_csv

SHOWN = ("roundtrips", "confidence", "vote", "agreement")


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One picture and its numbers."""

    name: str
    says: str  # for those who cannot see it
    heads: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    draw: Callable[[Path], Path]

    def write(self, folder: Path, prefix: str) -> Path:
        """Write the picture as SVG and its numbers as CSV; return the picture."""
        path = self.draw(folder / f"{prefix}{self.name}.svg")
        write_csv(path.with_suffix(".csv"), [self.heads, *self.rows])
        return path


def plots(pooled: Sequence[Pool]) -> list[Plot]:
    """Return the plots of the standard answers of these pools; none where nothing was scored.

    Where all are right, or all wrong, only how their scores are spread.
    """
    lines = {m.name: columns(m, pooled) for m in methods(pooled) if m.name in SHOWN}
    if ROUNDTRIPS.name not in lines:
        return []
    scores, right = lines[ROUNDTRIPS.name]
    named = {worded(name): line for name, line in lines.items()}
    both = any(right) and not all(right)  # else there is nothing to tell apart
    return [
        Plot(
            name="separation",
            says="Histogram of the round-trip scores of right and of wrong answers.",
            heads=("score", "right"),
            rows=list(zip(scores, map(int, right), strict=True)),
            draw=lambda path: render.separation(scores, right, path, of="round-trip"),
        ),
        *(
            Plot(
                name=name, says=says, heads=("method", *heads), rows=list(numbers(lines)),
                draw=partial(draw, named),
            )
            for name, says, heads, numbers, draw in (_OF_METHODS if both else ())
        ),
    ]  # fmt: skip


def curve_plots(study: str, figures: Figures) -> list[Plot]:
    """Return the curves of a study: AUROC against the values of each numeric setting."""
    drawn = []
    for setting in ("mask_ratio", "rebuild_steps", "trips"):
        place = {"section": curves.SECTION, "study": study, "method": setting, "measure": "auroc"}
        points = [figures.find(**place, part=part) for part in figures.distinct("part", **place)]
        spread = [(f.part, f.value, *f.ends) for f in points if f is not None]
        if len(spread) > 1:
            drawn.append(_curve(setting, sorted(spread, key=lambda p: float(p[0])), study))
    return drawn


def correction_plot(study: str, figures: Figures) -> Plot:
    """Return what each method reaches against what it costs."""
    place = {"section": correction.SECTION, "study": study}
    reached = {
        name: (spent.value, right.value)
        for name in figures.distinct("method", **place, measure="forwards")
        if "same_cost" not in name  # nearly that of others
        if (spent := figures.find(**place, method=name, measure="forwards"))
        if (right := figures.find(**place, method=name, measure="accuracy"))
    }
    return Plot(
        name="correction",
        says="Share of right answers against forwards per problem, for each method.",
        heads=("method", "forwards", "accuracy"),
        rows=[(name, *pair) for name, pair in reached.items()],
        draw=lambda path: render.tradeoff(
            {worded(name): pair for name, pair in reached.items()},
            path,
            title=f"{study}: gain and cost",
        ),
    )


def plane_plot(study: str, rows: Sequence[Record]) -> list[Plot]:
    """Return the plane of density and quality; none where the answers span no space."""
    answers = points(rows)
    if answers is None:
        return []
    columns = (answers.density, answers.quality, answers.right)
    return [
        Plot(
            name="plane",
            says="Quality of the answers against their density, right and wrong ones.",
            heads=("density", "quality", "right"),
            rows=[(float(d), float(q), int(r)) for d, q, r in zip(*columns, strict=True)],
            draw=lambda path: render.plane(*columns, path, title=f"{study}: density and quality"),
        )
    ]


def _curve(setting: str, spread: Sequence[render.Spread], study: str) -> Plot:
    return Plot(
        name=setting,
        says=f"AUROC of the round trips against {setting}.",
        heads=(setting, "auroc", "low", "high"),
        rows=spread,
        draw=lambda path: render.settings(spread, path, name=setting, title=f"{study}: {setting}"),
    )


def _coverage(curves: render.Curves) -> Iterator[tuple[Any, ...]]:
    for name, (scores, right) in curves.items():
        for share in render.SHARES if right else ():
            yield name, share, accuracy_at(scores, right, share)


def _roc(curves: render.Curves) -> Iterator[tuple[Any, ...]]:
    for name, (scores, right) in curves.items():
        if any(right) and not all(right):
            for wrong_above, right_above in zip(*curve(scores, right), strict=True):
                yield name, float(wrong_above), float(right_above)


def _reliability(curves: render.Curves) -> Iterator[tuple[Any, ...]]:
    for name, (scores, right) in curves.items():
        if ece(scores, right) is not None:
            for said, came, size in zip(*diagram(scores, right), strict=True):
                yield name, float(said), float(came), int(size)


_OF_METHODS = (  # pictures with a line for each method: name, words, columns, numbers, drawing
    ("coverage", "Share of right answers against the share of answers given, for each method.",
     ("coverage", "accuracy"), _coverage, render.coverage),
    ("roc", "ROC curves: right answers accepted against wrong ones, for each method.",
     ("wrong_accepted", "right_accepted"), _roc, render.roc),
    ("reliability",
     "Reliability diagram: share of right answers against the score, for each method.",
     ("mean_score", "right", "answers"), _reliability, render.reliability),
)  # fmt: skip
