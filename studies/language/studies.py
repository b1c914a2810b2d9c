"""The paper's studies on the same records, under `real/`: what its claims are judged by.

Each study is the library's own. Those that look at pools read the problems that have some; what one
answer tells is measured on all problems, and stands in the place of what pools said of it.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from remask.analysis.figure import Figure, Figures
from remask.analysis.load_records import RecordFile, Source, source_of
from remask.errors import RecordError
from remask.report.claims import by_study, read_claims
from remask.report.studies import STUDIES
from studies.language.answers import BenchmarkAnswers, read_curves
from studies.language.problems import BENCHMARKS

PREFIX = "real/"
OF_POOLS = ("diagnosis", "correction", "cost")
OF_ANSWERS = ("diagnosis", "geometry")
OF_CURVES = "ablation"
# Shown beside what the claims need.
_SHOWN = re.compile(
    r"ablation/[^/]+/(mask_ratio|rebuild_steps|trips)/[^/]+/(auroc|above_default)"
    r"|correction/[^/]+/[^/]+/(accuracy|n_avg|forwards|threshold)"
)


def study_figures(answers: Sequence[BenchmarkAnswers], out: Path) -> dict[str, Figure]:
    """Return the figures that claims and pages need, by their names under `real/`."""
    figures = Figures()
    for names, source in _sources(answers, out):
        for name in names:
            figures |= _run(name, source)
    return {f"{PREFIX}{name}": figures[name] for name in wanted(figures)}


def wanted(figures: Figures) -> list[str]:
    """Return which of these are of a benchmark and looked at by a claim, or shown."""
    looked_at = {
        name
        for claim in read_claims()
        for pattern in claim.names()
        for name in _named(pattern, figures)
    }
    shown = looked_at | {name for name in figures if _SHOWN.fullmatch(name)}
    return [name for name in figures if name in shown and figures[name].study in BENCHMARKS]


def claimed(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Return the figures of this study under the names that the claims know."""
    return {name.removeprefix(PREFIX): f for name, f in figures.items() if name.startswith(PREFIX)}


def _sources(
    answers: Sequence[BenchmarkAnswers], out: Path
) -> Iterator[tuple[tuple[str, ...], Source]]:
    """Yield the studies with the records that they read; later figures replace earlier ones."""
    validation = [each.validation for each in answers if each.validation is not None]
    pools = [each.pool for each in answers if each.pool is not None]
    if pools:
        yield OF_POOLS, source_of(out.name, [*pools, *validation])
    every = [each.greedy for each in answers]
    yield OF_ANSWERS, source_of(out.name, [*every, *validation])
    yield (OF_CURVES,), source_of(out.name, [*every, *_unlike(every, out), *validation])


def _unlike(every: Sequence[RecordFile], out: Path) -> list[RecordFile]:
    """Return the points of the curves, of which the usual one is there."""
    tasks = {file.task for file in every}
    return [file for file in read_curves(out) if file.task in tasks]


def _run(name: str, source: Source) -> Figures:
    try:
        return STUDIES[name].figures(source)
    except RecordError as error:  # part of the records is not there yet
        print(f"{name} is left out: {error}", file=sys.stderr)
        return Figures()


def _named(pattern: str, figures: Figures) -> Iterator[str]:
    if pattern.count("{}") == 1:
        for study in by_study(pattern, figures):
            yield pattern.replace("{}", study)
