"""Claims about figures: each one holds, fails or is inconclusive by its 95 % interval.

Claims are entries of a YAML table, by section, each with a test:

    diagnosis:
    - claim: Round trips separate right from wrong answers better than confidence.
      test: diagnosis/{}/roundtrips_minus_confidence/auroc > 0

`{}` stands for a study; the claim is judged on every study that has the figure. `A > B` compares
the interval of a figure with a number or with the interval of another figure: it is inconclusive
if they overlap or touch. `value(A) >= B` and `low(A) >= B` compare the value or the lower end alone
and are never inconclusive. `C1 and C2` needs both, and `{1,2}` stands for one condition each.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import yaml  # type: ignore[import-untyped]

from remask.analysis.figure import Figure

PAPER = Path(__file__).with_name("paper.yaml")
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
NOT_OVER_RUNS = "the interval takes the runs as given"
MAIN_STUDY = "wordmath-hard"  # of the `geometry` figures whose names have no study
_CONDITION = re.compile(r"(?:(value|low)\(([^\s()]+)\)|([^\s()]+)) ([<>]=?) (\S+)")
_CHOICE = re.compile(r"\{([^{}]+)\}")
_NUMBER = re.compile(r"[-+]?[\d.]+")
Figures = Mapping[str, Figure]
Interval = tuple[float, float]


class Condition(NamedTuple):
    """One comparison of a test."""

    part: str  # "value", "low", or "" for the interval
    name: str  # of the figure, with {} for the study
    operator: str
    bound: str  # a number, or the name of a figure

    def judge(self, figures: Figures) -> Iterator[tuple[str, Figure, bool | None]]:
        """Yield each study with its figure and whether the condition holds, None if unknown."""
        number = float(self.bound) if _NUMBER.fullmatch(self.bound) else None
        bounds = {} if number is not None else by_study(self.bound, figures)
        for study, figure in by_study(self.name, figures).items():
            if number is not None:
                bound = (number, number)
            elif study in bounds:
                bound = bounds[study].ends
            else:
                continue
            holds = compare(self._interval(figure), self.operator, bound)
            yield study, figure, False if self.part and holds is None else holds

    def _interval(self, figure: Figure) -> Interval:
        if self.part == "value":
            return figure.value, figure.value
        if self.part == "low":
            low = -math.inf if figure.low is None else figure.low
            return low, low
        return figure.ends


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One entry of a table of claims.

    Args:
        section: key under which it stands.
        claim: what is claimed.
        test: conditions on figures.
        source: where the paper says so.
        digits: decimals of the measured figure on a page.
        over_runs: only an interval over training runs decides.
        min_runs: with fewer runs than this the claim cannot hold.
    """

    section: str
    claim: str
    test: str
    source: str = ""
    digits: int = 3
    over_runs: bool = False
    min_runs: int = 0

    def conditions(self) -> list[Condition]:
        """Return the conditions of the test."""
        found = []
        for text in (text for part in self.test.split(" and ") for text in _alternatives(part)):
            match = _CONDITION.fullmatch(text)
            if match is None:
                raise ValueError(f"test of a claim must be NAME > BOUND, got {text!r}.")
            part, inner, name, operator, bound = match.groups()
            found.append(Condition(part or "", inner or name, operator, bound))
        return found

    def names(self) -> list[str]:
        """Return the names of the figures in the test, with {} for the study."""
        names = [name for each in self.conditions() for name in (each.name, each.bound)]
        return [name for name in names if not _NUMBER.fullmatch(name)]

    def judge(self, figures: Figures) -> "Verdict":
        """Return on which studies the claim holds, fails and is inconclusive."""
        by_study: dict[str, list[bool | None]] = {}
        note = ""
        for condition in self.conditions():
            for study, figure, holds in condition.judge(figures):
                if self.over_runs and not _is_over_runs(figure):
                    holds, note = None, NOT_OVER_RUNS
                elif holds and (figure.n or 0) < self.min_runs:
                    holds = None
                by_study.setdefault(study, []).append(holds)
        outcomes = {
            study: False if False in several else None if None in several else True
            for study, several in by_study.items()
        }
        held, failed, undecided = (
            tuple(study for study, outcome in outcomes.items() if outcome is wanted)
            for wanted in (True, False, None)
        )
        return Verdict(self, held, failed, undecided, note)


class Verdict(NamedTuple):
    """Studies on which a claim holds, fails and is inconclusive."""

    claim: Claim
    held: tuple[str, ...]
    failed: tuple[str, ...]
    undecided: tuple[str, ...]
    note: str = ""

    @property
    def word(self) -> str:
        """The verdict over all studies: one failure is enough to fail."""
        return FAILS if self.failed else OPEN if self.undecided else HOLDS

    @property
    def tally(self) -> str:
        """Counts such as "3 of 8 hold, 1 fail"; the note if there is a single study."""
        held, failed, undecided = map(len, self[1:4])
        studies = held + failed + undecided
        return f"{held} of {studies} hold, {failed} fail" if studies > 1 else self.note


def read_claims(path: Path = PAPER) -> list[Claim]:
    """Return the claims of a table, by default those of the paper."""
    sections = yaml.safe_load(path.read_text("utf-8"))
    return [Claim(section=name, **row) for name, rows in sections.items() for row in rows]


def verdicts(figures: Figures, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Return the verdicts on all claims (default: the paper's) that the figures decide on."""
    judged = [claim.judge(figures) for claim in (read_claims() if claims is None else claims)]
    return [verdict for verdict in judged if any(verdict[1:4])]


def compare(ours: Interval, operator: str, theirs: Interval) -> bool | None:
    """Compare two intervals; None if they overlap or touch."""
    if operator.startswith("<"):
        ours, theirs = theirs, ours
    if ours[0] > theirs[1] or (operator.endswith("=") and ours[0] == theirs[1]):
        return True
    return False if ours[1] < theirs[0] else None


def by_study(name: str, figures: Figures) -> dict[str, Figure]:
    """Return the figures of a name with {} for the study, by study."""
    pattern = re.compile(re.escape(name).replace(r"\{\}", "([^/]+)"))
    matches = {key: match for key in figures if (match := pattern.fullmatch(key))}
    found = {"/".join(match.groups()): figures[key] for key, match in matches.items()}
    main = name.replace("geometry/{}/", "geometry/")
    return found if main == name or main not in figures else {MAIN_STUDY: figures[main]} | found


def _alternatives(condition: str) -> list[str]:
    match = _CHOICE.search(condition)
    if match is None:
        return [condition]
    before, after = condition[: match.start()], condition[match.end() :]
    return [x for word in match[1].split(",") for x in _alternatives(f"{before}{word}{after}")]


def _is_over_runs(figure: Figure) -> bool:
    return figure.low is not None and "t over" in f"{figure.unit} {figure.detail}"
