"""Records of the frontier -> docs/figures.json, docs/frontier.md and its picture.

    python -m studies.frontier.page records OUT --commit SHA --hardware "one NVIDIA H200"
    python -m studies.frontier.page page                  the page alone, from docs/figures.json

OUT is what `python -m studies.frontier.plan collect tiny OUT` wrote for the validation and the
test split. The same records make the same files.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remask.analysis.figure import Figure, Figures, parse
from remask.analysis.load_records import read_source
from remask.errors import RecordError, RemaskError
from remask.records.jsonl import write_text
from studies.frontier.measure import FEWEST, SETS
from studies.frontier.plot import frontier_plot
from studies.frontier.study import LABELS_OF, STUDY
from studies.shared.figures import FIGURES, ROOT, merge, read, select
from studies.shared.pages import rounded, table, target_rows

KEY = "frontier"
TARGETS = Path(__file__).with_name("targets.yaml")
FAMILIES = ("wordmath", "choice", "pycode", "countdown")
COMMAND = (
    "python -m studies.frontier.plan collect tiny OUT --part validation; "
    "python -m studies.frontier.plan collect tiny OUT; "
    "python -m studies.frontier.plan collect tiny OUT --part longer; "
    "python -m studies.frontier.page records OUT --commit SHA --hardware NAME"
)
PAGE, PICTURE = ROOT / "docs" / "frontier.md", ROOT / "docs" / "images" / "frontier.svg"
METHODS = (
    "roundtrips", "probe", "verifier", "fitted20", "fitted85", "sequential", "sequential_full",
    "agreement2", "agreement3", "agreement5", "agreement10", "agreement10_fitted", "confidence",
    "length", "critical_count", "dise", "tre", "denoising_entropy", "temporal_vote",
    "temporal_entropy", "perplexity", "dcocoa",
)  # fmt: skip
FITTED = ("fitted20", "fitted85", "agreement10_fitted")
CANVASES = ("roundtrips", "verifier", "fitted20")
ACCEPTED = ("precision", "coverage")
TRIP_PASSES, VERIFIER_PASSES = 64, 17
WIDEST = 0.3  # interval of an AUROC of right steps, for a set to be shown
SHAPES = {
    "h200/llada8b": "LLaDA-8B", "h200/dream7b": "Dream-7B", "h200/lladamoe": "LLaDA-MoE",
    "h200/llada21mini": "LLaDA2.1-mini", "cpu": "the embedded model",
}  # fmt: skip
Shown = dict[str, Figure]


def page(figures: Shown, about: str) -> str:
    """Return the page, in Markdown."""
    parts = [
        "# The frontier: what a score tells, and what it costs",
        _INTRODUCTION.format(about=about),
        "## The answers",
        _answers(figures),
        "## What was to be shown",
        _targets(figures),
        _half(figures),
        _WHY,
        "## In the mean",
        "![AUROC against forward passes beyond the answer](images/frontier.svg)",
        _means(figures),
        _BELOW_MEANS,
        *([] if "frontier/mean/verifier/aurc" in figures else [_NOT_KEPT]),
        *filter(None, [_families(figures)]),
        "## By the number of labels",
        _labels(figures),
        "## By set: AUROC",
        _by_set(figures),
        *_section("Right answers with wrong steps", _STEPS.format(widest=WIDEST), _steps(figures)),
        "## Rejection sampling on wordmath-hard",
        _rejection(figures),
        _END,
        *([_WITHIN] if "frontier/wordmath-hard/verifier/auroc_within_pool" in figures else ()),
        *_section("Carried to other sets", _CARRIED, _carried(figures), _thresholds(figures)),
        *_section("Carried to another canvas", _LONGER, _canvases(figures)),
        *_section("Seconds", _SECONDS.format(single=_single(figures)), _seconds(figures)),
    ]
    return "\n\n".join(parts) + "\n"


def _section(heading: str, text: str, *tables: str) -> list[str]:
    """Return a part of the page; nothing where nothing was measured."""
    return [f"## {heading}", text, *filter(None, tables)] if any(tables) else []


_INTRODUCTION = """The embedded model, seven sets of generated problems, seed 11; {about}.
`extra forwards` are forward passes per answer beyond those that wrote it. Made from
[figures.json](figures.json) by `python -m studies.frontier.page page`; the study is
`remask study studies.frontier.study:STUDY OUT` ([studies.md](studies.md)), what the scores are is
in [verifier.md](verifier.md). Intervals are 95 %, from one bootstrap over problems within sets that
all methods share (2,000 draws). What the label-free verifier averages was chosen on validation and
written down before a test problem was drawn ([LOG.md](LOG.md)); fits have 200 labels of validation
answers per set, and are means of 20 draws of these labels."""
_WHY = """Why some fail:

- Ten samples are ahead wherever errors are accidents that do not repeat: on hard choice, on word
  problems and on programs. Countdown, where the samples err in many ways and the verifier checks
  each number, pays for that in the mean and is left out in one row.
- Hard programs, nine in ten wrong, are told by no score that reads the text again, and what little
  there is goes with the length of the program.
- A set with few wrong answers has few of them among 200 labels, fewer than five at times: then
  nothing is fitted, nothing is settled early, and all probes are paid for.
- The sequential verifier misses both of its marks by a hair: how much it may lose was chosen on
  validation so that half of the forwards are saved, and less loss would cost more of them.

What the rows do not say: of two sets of a family one may hide the other. On hard choice the
label-free verifier is below round trips, on medium choice above them. On a family that validation
had not seen the verifier would do worse: each family judged by the values that are best without it
came to .790 on validation, all of them by the values taken to .826. The stages of the sequential
verifier were changed once, on validation, after a first look at test answers had shown what they
lost; the label-free values were not ([LOG.md](LOG.md))."""
_NOT_KEPT = """AURC, ECE, the spread over draws of labels and means without each family are measured
by the study and stand in its report; of this collection they were not kept, and its records are
gone. 150 of the rarer kind were wanted. `pycode` has fewer, of as many problems as were allowed; so
has `choice`, whose 1,200 problems were planned by the share of wrong answers on validation."""
_BELOW_MEANS = """Samples are compared by value (countdown) and by behaviour (programs). The
label-free verifier costs less than 17 in the mean because a choice has no halves to be read. The
full form of the sequential verifier settles nothing early; where labels are too few to fit, it is
the label-free verifier and makes no round trips. `remask fit` makes the sequential verifier; the
fit of 85 forwards is of the study alone, drawn towards a mean that counts round trips too."""
_END = """Thresholds are chosen on validation pools by one rule, the cheapest that is hardly less
accurate; problems that a verifier was fitted on choose nothing for it. The sequential verifier
stops before the round trips here."""
_WITHIN = """`Within a problem` is the AUROC among the ten samples of one problem, where some are
right and some wrong. It was collected for this set alone: of the others one sample was scored."""
_STEPS = """A right answer can be reached by wrong steps. Where a task checks the steps of right
answers one by one, this is the AUROC of right steps among right answers. A set is left out where
the verifier's interval is wider than {widest}: too few of its right answers have a wrong step."""
_CARRIED = """The first table has the AUROC of the fitted verifier of 17 passes, fitted on the set
of its row and used on that of its column. The second has what the label-free verifier's threshold
of the best F1, chosen on the set of its row, accepts of that of its column: the share that is
right, and the share that is accepted."""
_LONGER = """Fits and thresholds of the usual canvas, used where the same problems are answered on
one half as long again; `accepted` and `right of these` are of the label-free verifier. In a study
that can be seen; `solve` and `serve` write no answers on another canvas than a fit's."""
_SECONDS = """Per answer, eight at once, random weights of the published shapes in bf16 on one H200,
the model part alone, all in one run (`python benchmarks/h200.py run OUT --scripts probe`); and the
embedded model on two CPU cores, one at a time, texts included (`python benchmarks/verify.py
--probe`). Round trips are 64 passes, the verifier's are 17; of LLaDA2.1-mini, which is read block
by block, more. `A pass` is the time of one of the verifier's over that of a step of the rebuild in
the same run, which it was not to exceed: it does by a hundredth or two on the H200, and not on
two cores. A single probe has one row per answer where a step has one per trip: its pass takes
{single} of a step."""


def _cell(figures: Shown, name: str, digits: int = 3) -> str:
    figure = figures.get(f"frontier/{name}")
    return "" if figure is None else rounded(figure, digits)


def _answers(figures: Shown) -> str:
    rows = []
    for name in SETS:
        share = figures.get(f"frontier/{name}/base_rate")
        if share is not None:
            rarer = _cell(figures, f"{name}/rarer", 0)
            rows.append([name, f"{share.n:,}", rounded(share), rarer])
    shown = table(["set", "problems", "right", "answers of the rarer kind"], rows)
    few = [n for n in SETS if (f := figures.get(f"frontier/{n}/rarer")) and f.value < FEWEST]
    left = f"With fewer than {FEWEST} of the rarer kind, left out of the means: {', '.join(few)}."
    return f"{shown}\n\n{left}" if few else shown


def _targets(figures: Shown) -> str:
    return table(["target", "measured", "verdict"], target_rows(TARGETS, figures))


def _half(figures: Shown) -> str:
    """Return what the sequential verifier costs, against its full form."""
    own, full = (
        figures[f"frontier/mean/{method}/extra_forwards"]
        for method in ("sequential", "sequential_full")
    )
    share = own.value / full.value
    verdict = "holds" if share <= 0.5 else "fails"
    return (
        f"The sequential verifier takes {rounded(own, 1)} extra forwards, its full form "
        f"{rounded(full, 1)}: a share of {share:.2f}, where half was allowed ({verdict})."
    )


def _means(figures: Shown) -> str:
    heads = {"extra forwards": "extra_forwards", "AUROC": "auroc",
             "at equal length": "auroc_equal_length", "AURC": "aurc", "ECE": "ece"}  # fmt: skip
    known = {head: m for head, m in heads.items() if any(n.endswith(f"/{m}") for n in figures)}
    rows = [
        [LABELS_OF.get(method, method)]
        + [
            _cell(figures, f"mean/{method}/{m}", 1 if "forwards" in m else 3)
            for m in known.values()
        ]
        for method in METHODS
        if f"frontier/mean/{method}/auroc" in figures
    ]
    return table(["score", *known], rows)


def _families(figures: Shown) -> str:
    """Return the means without each family; nothing where they were not measured."""
    rows = [
        [LABELS_OF.get(method, method), *cells]
        for method in METHODS
        if all(cells := [_plain(figures, f"mean/{method}/without_{f}/auroc") for f in FAMILIES])
    ]
    return table(["score", *(f"without {family}" for family in FAMILIES)], rows)


def _labels(figures: Shown) -> str:
    heads = ["score", "50", "100", "200", "400"]
    parts = ("labels_50/", "labels_100/", "", "labels_400/")
    rows = [
        [LABELS_OF[method], *(_fit_cell(figures, f"mean/{method}/{part}") for part in parts)]
        for method in FITTED
    ]
    return table(heads, rows)


def _fit_cell(figures: Shown, under: str) -> str:
    """Return an AUROC, with its spread over draws of labels where that was kept."""
    spread = _plain(figures, f"{under}auroc_sd")
    return _cell(figures, f"{under}auroc") + (f", sd {spread}" if spread else "")


def _by_set(figures: Shown) -> str:
    rows = [
        [LABELS_OF.get(method, method)]
        + [_plain(figures, f"{name}/{method}/auroc") for name in SETS]
        for method in METHODS
        if f"frontier/mean/{method}/auroc" in figures
    ]
    return table(["score", *SETS], rows)


def _steps(figures: Shown) -> str:
    """Return how well right steps are told among right answers, where steps are checked."""
    names = [n for n in SETS if _is_narrow(figures.get(f"frontier/{n}/verifier/auroc_steps"))]
    rows = [
        [LABELS_OF.get(m, m), *(_cell(figures, f"{name}/{m}/auroc_steps") for name in names)]
        for m in METHODS
        if m != "sequential_full"
    ]
    return table(["score", *names], rows) if names else ""


def _is_narrow(figure: Figure | None) -> bool:
    """Say whether a figure is there, and known well enough to be shown."""
    if figure is None or figure.low is None or figure.high is None:
        return False
    return figure.high - figure.low <= WIDEST


def _plain(figures: Shown, name: str, digits: int = 3) -> str:
    figure = figures.get(f"frontier/{name}")
    return "" if figure is None else f"{figure.value:.{digits}f}<!--fig:{figure.name}-->"


def _rejection(figures: Shown) -> str:
    rows = [
        [
            LABELS_OF[method],
            _cell(figures, f"mgrs/{method}/accuracy"),
            _cell(figures, f"mgrs/{method}/forwards", 0),
            _cell(figures, f"wordmath-hard/{method}/auroc_within_pool"),
        ]
        for method in ("roundtrips", "verifier", "sequential")
    ]
    heads = ["score", "accuracy", "forwards per problem", "within a problem"]
    width = len(heads) if any(row[-1] for row in rows) else len(heads) - 1
    return table(heads[:width], [row[:width] for row in rows])


def _carried(figures: Shown) -> str:
    """Return the table of fits from one set on another."""
    rows = []
    for source in SETS:
        if any(f"frontier/{name}/fitted20/from_{source}/auroc" in figures for name in SETS):
            rows.append([source, *(_plain(figures, _fit_name(source, name)) for name in SETS)])
    return table(["fitted on", *SETS], rows)


def _fit_name(source: str, name: str) -> str:
    own = f"{name}/fitted20"
    return f"{own}/auroc" if source == name else f"{own}/from_{source}/auroc"


def _thresholds(figures: Shown) -> str:
    """Return the table of thresholds from one set on another."""
    rows = []
    for source in SETS:
        names = [f"{name}/verifier/from_{source}" for name in SETS]
        if any(f"frontier/{name}/precision" in figures for name in names):
            pairs = [
                " of ".join(_plain(figures, f"{name}/{m}", 2) or "none" for m in ACCEPTED)
                for name in names
            ]
            rows.append([source, *pairs])
    return table(["threshold of", *SETS], rows)


def _canvases(figures: Shown) -> str:
    """Return what is measured on the usual and on the longer canvas, row by row."""
    rows = []
    for name in SETS:
        for own in (name, f"{name}-longer"):
            if f"frontier/{name}-longer/verifier/auroc" in figures:
                cells = [_cell(figures, f"{own}/{method}/auroc") for method in CANVASES]
                accepted = [_plain(figures, f"{own}/verifier/from_{name}/{m}", 2) for m in ACCEPTED]
                rows.append([own, *cells, *accepted])
    heads = ["set", *(LABELS_OF[method] for method in CANVASES), "right of these", "accepted"]
    return table(heads, rows)


def _seconds(figures: Shown) -> str:
    """Return the seconds per answer of each shape that was measured."""
    rows = []
    for place, shape in SHAPES.items():
        trips = "verify" if place == "cpu" else "roundtrips"
        names = [f"{place}/{what}_seconds" for what in ("probe", "verifier", trips)]
        if any(name in figures for name in names):
            ratio = (
                ""
                if "21mini" in place
                else _over_step(figures, names[1], VERIFIER_PASSES, names[2])
            )
            rows.append([shape, *(_number(figures.get(name)) for name in names), ratio])
    heads = ["model", "one probe", "verifier", "round trips", "a pass"]
    return table(heads, rows)


def _over_step(figures: Shown, name: str, passes: int, trips: str) -> str:
    """Return the time of a pass over that of a step of the rebuild; nothing where one is absent."""
    own, theirs = figures.get(name), figures.get(trips)
    if own is None or theirs is None:
        return ""
    return f"{own.value / passes / (theirs.value / TRIP_PASSES):.2f}"


def _single(figures: Shown) -> str:
    """Return how long a single probe takes in steps of the rebuild, shape by shape."""
    ratios = {
        shape: _over_step(figures, f"{place}/probe_seconds", 1, f"{place}/roundtrips_seconds")
        for place, shape in SHAPES.items()
        if place not in ("cpu", "h200/llada21mini")
    }
    known = [f"{ratio} ({shape})" for shape, ratio in ratios.items() if ratio]
    return ", ".join(known) or "an unknown share"


def _number(figure: Figure | None) -> str:
    return "" if figure is None else f"{figure.value:.3f}<!--fig:{figure.name}-->"


def write_records(arguments: argparse.Namespace) -> None:
    """Measure the records, and write figures, page and picture."""
    result = STUDY.run(read_source(arguments.out), None)
    text = page(dict(result.figures), _about(arguments.hardware, arguments.commit))
    origin = {"run": KEY, "command": COMMAND}
    origin |= {"commit": arguments.commit, "hardware": arguments.hardware}
    rows = {name: figure.entry() | origin for name, figure in result.figures.items()}
    new = select(rows, FIGURES, text)
    merge(FIGURES, new, ("frontier/",))
    write_page()
    print(f"{FIGURES}: {len(new)} of {len(result.figures)} figures")


def write_page() -> None:
    """Write the page and its picture from figures alone."""
    entries = read(FIGURES)
    own: dict[str, dict[str, Any]] = {n: row for n, row in entries.items() if row["run"] == KEY}
    if not own:
        raise RecordError(f"{FIGURES} holds no figures of the frontier; measure records first.")
    some = next(iter(own.values()))
    timed = {n: row for n, row in entries.items() if n.startswith(tuple(SHAPES))}
    figures = {name: parse(name, row) for name, row in (own | timed).items()}
    write_text(PAGE, page(figures, _about(some["hardware"], some["commit"])))
    plot = frontier_plot(Figures(figures[name] for name in own), LABELS_OF)
    if plot is not None:
        plot.draw(PICTURE)
    print(f"{PAGE}: written")


def _about(hardware: str, commit: str) -> str:
    return f"collected on {hardware} at commit {commit}"


def main(words: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    parser = argparse.ArgumentParser(description="The page of the study frontier.")
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("records", help="figures, page and picture from records")
    measure.add_argument("out", type=Path, help="folder with the records")
    measure.add_argument("--commit", required=True, help="commit that collected them")
    measure.add_argument("--hardware", required=True, help="what they were collected on")
    commands.add_parser("page", help="the page alone, from docs/figures.json")
    arguments = parser.parse_args(words)
    if arguments.command == "page":
        write_page()
    else:
        write_records(arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"studies.frontier.page: {error}")
