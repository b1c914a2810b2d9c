"""The plot of the frontier: mean AUROC against forward passes, with the Pareto front."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from remask.analysis.figure import Figures
from remask.report.plots import Plot
from remask.report.render import BOXED, RIGHT, drawing, label_heights
from studies.frontier.measure import MEAN
from studies.shared.sets import SECTION as FRONTIER
from studies.shared.stages import FULL

Reached = tuple[float, tuple[float, float, float]]  # cost; a number with its interval


def frontier_plot(figures: Figures, labels: Mapping[str, str]) -> Plot | None:
    """Return mean AUROC against forwards beyond the answer; None where no set counts."""
    place = {"section": FRONTIER, "study": MEAN}
    reached = {
        labels.get(name, name): (spent.value, (auroc.value, *auroc.ends))
        for name in figures.distinct("method", **place, measure="extra_forwards")
        if name != FULL  # what it tells is what the fit of all stages tells
        if (spent := figures.find(**place, method=name, measure="extra_forwards"))
        if (auroc := figures.find(**place, method=name, measure="auroc"))
    }
    if not reached:
        return None
    front = pareto_front({name: (spent, auroc[0]) for name, (spent, auroc) in reached.items()})
    return Plot(
        name="frontier",
        says="Mean AUROC over the sets against forwards beyond the answer, for each method; "
        f"the Pareto front is {', '.join(front)}.",
        heads=("method", "extra_forwards", "auroc", "low", "high", "on_front"),
        rows=[
            (name, spent, *auroc, int(name in front)) for name, (spent, auroc) in reached.items()
        ],
        draw=lambda path: _draw(reached, front, path),
    )


def pareto_front(reached: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names that reach more than all that cost no more, the cheapest first.

    Of equals in both the first one stays.

    Args:
        reached: cost and value by name.
    """
    front: list[str] = []
    for name, (_, value) in sorted(reached.items(), key=lambda item: (item[1][0], -item[1][1])):
        if not front or value > reached[front[-1]][1]:
            front.append(name)
    return front


def _draw(reached: Mapping[str, Reached], front: Sequence[str], path: Path) -> Path:
    """Draw AUROC against cost; methods that nothing beats at their price are joined by a line."""
    with drawing(path, 8.4, 5.4) as axes:
        corner = [(reached[name][0], reached[name][1][0]) for name in front]
        axes.step(*zip(*corner, strict=True), where="post", color=RIGHT, linewidth=1.5,
                  label="nothing is better at this price")  # fmt: skip
        heights = label_heights({name: (x, value) for name, (x, (value, *_)) in reached.items()})
        for name, (spent, (value, low, high)) in reached.items():
            ahead = name in front
            colour = RIGHT if ahead else "#777777"
            axes.errorbar([spent], [value], yerr=[[value - low], [high - value]], fmt="o",
                          color=colour, markersize=6 if ahead else 4, elinewidth=0.8)  # fmt: skip
            inner = name in front[1:-1]  # on its left the line is lower, and out of the way
            axes.annotate(name, (spent, value if inner else heights[name]),
                          xytext=(-6, 5) if inner else (6, 3), ha="right" if inner else "left",
                          textcoords="offset points", fontsize=8.5, color=colour)  # fmt: skip
        axes.set_xscale("symlog", linthresh=1, linscale=0.4)  # what costs nothing stands at 0
        ticks = [0, 1, 2, 5, 10, 25, 50, 100, 200, 500, 1000]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlim(-0.15, 3 * max([spent for spent, _ in reached.values()] + [1]))
        axes.set_xlabel("forwards per answer beyond those that wrote it")
        axes.set_ylabel("mean AUROC over the sets, with 95 % intervals")
        axes.set_title("What a score tells, and what it costs")
        axes.legend(loc="lower right", **BOXED)
    return path
