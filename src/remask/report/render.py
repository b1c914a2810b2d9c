"""Pictures; only this module imports matplotlib. Each function writes PNG and SVG, returns the PNG.

A path that ends in .svg is written alone, its letters left as text for the page that shows it.

No global state: figures are made without pyplot, in one style, with Okabe and Ito's colours, which
people with any colour vision tell apart. Orange is always wrong or changed, blue right or kept.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from remask.analysis.bootstrap import bootstrap
from remask.analysis.reliability import diagram, ece
from remask.analysis.selective import accuracy_at
from remask.analysis.statistics import curve, interval_text
from remask.decide.auroc import auroc
from remask.records import jsonl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RIGHT, WRONG = "#0072B2", "#D55E00"
COLOURS = (RIGHT, WRONG, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
CHANGED, SAME, SHOWN = "#E9905A", "#CFE3F1", "#FFFFFF"  # cells of a drift map
BOXED: Any = {"frameon": True, "edgecolor": "none", "framealpha": 0.9}  # a legend over lines
EDGE: Any = {"edgecolor": "#CCCCCC", "linewidth": 0.5}
STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "svg.hashsalt": "remask",  # the same picture is the same file
}
Curves = Mapping[str, tuple[Sequence[float], Sequence[bool]]]  # scores and labels by method
Panel = Mapping[str, tuple[Sequence[float], Sequence[float]]]  # x and y of its lines, by name
Spread = tuple[str, float, float, float]  # what it is, a number, its interval
SHARES = tuple(k / 50 for k in range(1, 51))  # of the answers, at which a coverage curve has points
COLUMNS = 84  # characters per line of a drift map
FONT = "DejaVu Sans Mono"  # comes with matplotlib
UNKNOWN = "·"
END = "⏎"  # stands for the end token, whose name would fill a line


def separation(scores: Sequence[float], right: Sequence[bool], path: Path, *, of: str) -> Path:
    """Draw how the scores of right and of wrong answers are spread."""
    values, labels = np.asarray(scores, float), np.asarray(right, bool)
    low = float(values.min(initial=0.5))
    num_bins = 12 if len(values) < 200 else 30
    bins = np.linspace(low, float(values.max(initial=1.0)), num_bins + 1)
    kinds = [("right", labels, RIGHT), ("wrong", ~labels, WRONG)]
    shown = [(name, chosen, colour) for name, chosen, colour in kinds if chosen.any()]
    with drawing(path, 7.2, 4.2) as axes:
        for name, chosen, colour in shown:
            _histogram(axes, values[chosen], bins, colour, f"{name} (n = {chosen.sum()})")
        names = [name for name, _, _ in shown]
        axes.set_xlabel(f"{of} score (dotted: medians)")
        axes.set_ylabel("share of the right, of the wrong" if len(shown) > 1 else "share of them")
        title = f"{' and '.join(names)} answers by {of} score".strip().capitalize()
        axes.set_title(f"{title}\n{_summary(scores, right)}")
        if shown:
            axes.legend(loc="upper left")
        _within(axes, "y")
    return path


def roc(curves: Curves, path: Path) -> Path:
    """Draw the ROC curves of several methods."""
    num_answers = max((len(right) for _, right in curves.values()), default=0)
    with drawing(path, 6.2, 6.2) as axes:
        axes.plot([0, 1], [0, 1], color="#AAAAAA", linewidth=1, label="chance, 0.500")
        for number, (name, (scores, right)) in enumerate(curves.items()):
            interval = bootstrap(auroc, scores, right)
            if interval is None:
                continue
            wrong_above, right_above = curve(scores, right)
            label = f"{name}, {interval_text(interval)}"
            axes.plot(wrong_above, right_above, **_line(number), label=label)
        axes.set_xlabel("share of wrong answers accepted")
        axes.set_ylabel("share of right answers accepted")
        axes.set_title(f"ROC on {num_answers} answers; AUROC with 95 % interval")
        axes.set_aspect("equal")
        axes.legend(loc="lower right", **BOXED)
        _within(axes, "x", "y")
    return path


def reliability(curves: Curves, path: Path) -> Path:
    """Draw how often answers are right against what their scores say; scores lie in 0..1."""
    with drawing(path, 6.2, 6.2) as axes:
        axes.plot([0, 1], [0, 1], color="#AAAAAA", linewidth=1, label="as good as its word")
        for number, (name, (scores, right)) in enumerate(curves.items()):
            error = ece(scores, right)
            if error is None:
                continue
            said, came, sizes = diagram(scores, right)
            label = f"{name}, ECE {error:.3f}"
            axes.plot(said, came, **_line(number), label=label)
            colour = COLOURS[number % len(COLOURS)]
            axes.scatter(said, came, s=12 + 160 * sizes / sizes.sum(), color=colour, alpha=0.6)
        axes.set_xlabel("mean score of the bin (dots: the more answers, the larger)")
        axes.set_ylabel("share of right answers")
        axes.set_title("What scores say, and what comes true")
        axes.set(aspect="equal")
        axes.legend(loc="upper left", **BOXED)
        _within(axes, "x", "y")
    return path


def coverage(curves: Curves, path: Path) -> Path:
    """Draw how many answers are right where only the best-scored are given."""
    with drawing(path, 7.2, 4.2) as axes:
        for number, (name, (scores, right)) in enumerate(curves.items()):
            if len(right) == 0:
                continue
            shares = np.array([accuracy_at(scores, right, share) for share in SHARES], float)
            axes.plot(SHARES, shares, **_line(number), label=name)
        axes.set_xlabel("share of the answers that is given, best-scored first")
        axes.set_ylabel("share of right answers")
        axes.set_title("What answering less gains")
        axes.set_xlim(0, 1)
        axes.legend(loc="lower left", **BOXED)
        _within(axes, "x", "y")
    return path


def settings(points: Sequence[Spread], path: Path, *, name: str, title: str) -> Path:
    """Draw a number with its interval against the values of a setting."""
    with drawing(path, 6.2, 4.2) as axes:
        places = range(len(points))
        values = [value for _, value, _, _ in points]
        axes.plot(places, values, color=RIGHT, linewidth=1.5, marker="o")
        below = [value - low for _, value, low, _ in points]
        above = [high - value for _, value, _, high in points]
        axes.errorbar(places, values, yerr=[below, above], fmt="none", ecolor=RIGHT, capsize=3)
        axes.set_xticks(list(places), [str(x) for x, *_ in points])
        axes.set_xlabel(name)
        axes.set_ylabel("AUROC, with 95 % intervals")
        axes.set_title(title)
        _within(axes, "y")
    return path


def tradeoff(methods: Mapping[str, tuple[float, float]], path: Path, *, title: str) -> Path:
    """Draw what each method reaches against what it costs."""
    with drawing(path, 7.2, 4.6) as axes:
        for number, (name, (spent, right)) in enumerate(methods.items()):
            colour = COLOURS[number % len(COLOURS)]
            axes.scatter([spent], [right], color=colour, s=36)
            axes.annotate(name, (spent, right), xytext=(5, 4), textcoords="offset points",
                          fontsize=8.5)  # fmt: skip
        axes.set_xscale("log")
        axes.margins(x=0.25, y=0.12)
        axes.set_xlabel("forwards per problem, verifying included")
        axes.set_ylabel("share of right answers")
        axes.set_title(title)
        _within(axes, "y")
    return path


BESIDE, LINE = 0.6, 0.0105  # of names: in logs of the cost, and of AUROC, that they must be apart


def label_heights(points: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Return how high each name stands: by its point, or above one of about the same cost."""
    heights: dict[str, float] = {}
    for name, (spent, value) in sorted(points.items(), key=lambda item: item[1][1]):
        beside = [n for n in heights if abs(math.log1p(points[n][0]) - math.log1p(spent)) < BESIDE]
        heights[name] = max([value, *(heights[n] + LINE for n in beside)])
    return heights


def plane(density: Any, quality: Any, right: Any, path: Path, *, title: str) -> Path:
    """Draw answers by their density and quality, right and wrong ones."""
    with drawing(path, 6.6, 5.0) as axes:
        for name, chosen, colour in (("right", right, RIGHT), ("wrong", ~right, WRONG)):
            label = f"{name} (n = {chosen.sum()})"
            axes.scatter(density[chosen], quality[chosen], s=9, alpha=0.5, color=colour,
                         label=label, linewidths=0)  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel("density of the answer among all, in the space of its metrics")
        axes.set_ylabel("mean of its metrics")
        axes.set_title(title)
        axes.legend(loc="lower right", **BOXED)
    return path


def panels(drawn: Mapping[str, Panel], path: Path, *, x: str) -> Path:
    """Draw several panels over one axis, each with its lines; dots where a line has few points."""
    num = len(drawn)
    with _figure(path, 9.6, 1.0 + 2.2 * -(-num // 2)) as figure:
        grid = figure.subplots(-(-num // 2), 2, sharex=True, squeeze=False).flat
        for (title, lines), axes in zip(drawn.items(), grid, strict=False):
            for number, (name, (places, values)) in enumerate(lines.items()):
                marker = "o" if len(places) <= 12 else ""
                axes.plot(places, values, **_line(number), marker=marker, markersize=4, label=name)
            axes.set_title(title)
            axes.tick_params(labelbottom=True)
            if len(lines) > 1:
                axes.legend(fontsize=8.5, **BOXED)
        for axes in list(grid):  # an odd one has no neighbour
            axes.set_axis_off()
        figure.supxlabel(x, fontsize=11)
    return path


@dataclass(frozen=True, kw_only=True)
class DriftMap:
    """An answer, token by token, and what each round trip made of it."""

    pieces: Sequence[str]  # what each of the R response tokens reads as
    rebuilt: Sequence[Sequence[str]]  # N trips x R
    masked: Sequence[Sequence[bool]]  # N trips x R
    drift: Sequence[float | None]  # R: share of the trips that masked a token and lost it
    title: str


def drift(picture: DriftMap, path: Path) -> Path:
    """Draw the answer in lines; under every token, one row per trip with what came back."""
    lines = list(_lines(picture.pieces))
    rows = len(picture.rebuilt) + 2.2  # the answer, its trips, and the gap to the next line
    columns = max(66, *(column + width for line in lines for _, column, width in line))
    with drawing(path, 1.4 + 0.115 * columns, 1.1 + 0.21 * rows * len(lines)) as axes:
        for number, line in enumerate(lines):
            _draw_line(axes, picture, line, number * rows)
        axes.set_xlim(-8, columns + 0.5)
        axes.set_ylim(rows * len(lines) - 0.8, -0.3)
        axes.set_axis_off()
        axes.set_title(picture.title, fontsize=11)
        _key(axes)
    return path


def _within(axes: "Axes", *names: str) -> None:
    """Keep axes of shares between 0 and 1; what lies on an edge is drawn whole."""
    for name in names:
        low, high = getattr(axes, f"get_{name}lim")()
        getattr(axes, f"set_{name}lim")(max(low, 0.0), min(high, 1.0))
    for artist in (*axes.lines, *axes.collections):
        artist.set_clip_on(False)


def _line(number: int) -> dict[str, Any]:
    """Return the look of a method's line, the same in every picture."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
        "linewidth": 2,
    }


def _summary(scores: Sequence[float], right: Sequence[bool]) -> str:
    interval = bootstrap(auroc, scores, right)
    if interval is None:
        return f"n = {len(right)}, all of one kind"
    return f"n = {len(right)}, AUROC {interval_text(interval)}"


def _histogram(axes: "Axes", values: Any, bins: Any, colour: str, label: str) -> None:
    weights = np.full(len(values), 1 / max(len(values), 1))
    filled = {"bins": bins, "weights": weights, "color": colour}
    axes.hist(values, **filled, alpha=0.35, label=label)
    axes.hist(values, **filled, histtype="step", linewidth=1.5)
    if len(values):
        axes.axvline(float(np.median(values)), color=colour, linestyle=":", linewidth=1.2)


Cell = tuple[int, int, int]  # token, first column, columns


def _lines(pieces: Sequence[str]) -> Iterator[list[Cell]]:
    """Yield the tokens of each line with the columns they take, one per character."""
    line: list[Cell] = []
    column = 0
    for token, piece in enumerate(pieces):
        width = max(len(_shown(piece)), 1)
        if line and column + width > COLUMNS:
            yield line
            line, column = [], 0
        line.append((token, column, width))
        column += width
    if line:
        yield line


def _shown(piece: str) -> str:
    """Return a token as it stands in a cell: special tokens and what the font lacks as one sign."""
    if piece.startswith("<|") and piece.endswith("|>"):
        return END
    glyphs = _glyphs()
    return "".join(c if ord(c) in glyphs else UNKNOWN for c in piece.replace("\n", "↵"))


@cache
def _glyphs() -> frozenset[int]:
    """Return the characters that the font of the cells can draw."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(FONT)).get_charmap())


def _draw_line(axes: "Axes", picture: DriftMap, line: Sequence[Cell], top: float) -> None:
    _label(axes, "answer", top)
    for token, column, width in line:
        lost = picture.drift[token]
        _cell(axes, column, top, width, picture.pieces[token], _shade(lost), bold=True)
    for trip, (rebuilt, masked) in enumerate(zip(picture.rebuilt, picture.masked, strict=True)):
        below = top + 1 + trip
        _label(axes, f"trip {trip + 1}", below)
        for token, column, width in line:
            changed = masked[token] and rebuilt[token] != picture.pieces[token]
            colour = CHANGED if changed else SAME if masked[token] else SHOWN
            _cell(axes, column, below, width, rebuilt[token] if changed else "", colour)


def _label(axes: "Axes", text: str, top: float) -> None:
    axes.text(-0.6, top + 0.5, text, ha="right", va="center", fontsize=8, color="#555555")


def _cell(
    axes: "Axes", left: int, top: float, width: int, text: str, colour: str, *, bold: bool = False
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((left, top), width, 1, facecolor=colour, **EDGE))
    shown = _shown(text)
    shown = shown if len(shown) <= width else shown.lstrip()[:width]
    axes.text(
        left, top + 0.52, shown, family=FONT, fontsize=9.2 if bold else 7.6,
        va="center", clip_on=True, weight="bold" if bold else "normal", parse_math=False,
    )  # fmt: skip


def _shade(lost: float | None) -> str:
    """Return the colour of a drift: from white to orange, grey where it is not known."""
    if lost is None:
        return "#EEEEEE"
    full = [int(WRONG[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [round(255 + (channel - 255) * lost * 0.85) for channel in full]
    return "#" + "".join(f"{channel:02X}" for channel in mixed)


def _key(axes: "Axes") -> None:
    from matplotlib.patches import Patch

    axes.figure.legend(
        handles=[
            Patch(facecolor=SAME, label="masked, came back", **EDGE),
            Patch(facecolor=CHANGED, label="masked, came back changed (as written)", **EDGE),
            Patch(facecolor=SHOWN, label="left in sight", **EDGE),
            Patch(facecolor=_shade(0.5), label="answer: the more orange, the more drift", **EDGE),
        ],
        loc="outside lower center",
        ncols=4,
        fontsize=8.5,
    )


@contextmanager
def drawing(path: Path, width: float, height: float) -> Iterator["Axes"]:
    """Yield axes in the house style; save them as PNG and, beside it, as SVG, or as SVG alone."""
    with _figure(path, width, height) as figure:
        yield figure.subplots()


@contextmanager
def _figure(path: Path, width: float, height: float) -> Iterator["Figure"]:
    import matplotlib
    from matplotlib.figure import Figure

    alone = path.suffix == ".svg"
    with matplotlib.rc_context(STYLE | ({"svg.fonttype": "none"} if alone else {})):
        figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        if not alone:
            with jsonl.whole(path) as part:
                figure.savefig(part, format="png")
        with jsonl.whole(path.with_suffix(".svg")) as part:
            figure.savefig(part, format="svg", metadata={"Date": None})
