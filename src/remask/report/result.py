"""What records show, in sentences: the first thing that a report says.

Where all answers are right, or all wrong, there is nothing to tell apart: no score can be judged by
them, and the report says so instead of drawing it.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from remask.analysis.diagnosis import SECTION
from remask.analysis.figure import Figure, Figures
from remask.analysis.limits import Limit
from remask.analysis.load_records import StudyRecords
from remask.analysis.methods import ROUNDTRIPS
from remask.analysis.pool import pools
from remask.records.record import Record
from remask.report.answer_list import verdict_on
from remask.report.table import text

GUESSING = 0.5  # the AUROC of a score that tells nothing
WORDS = ("trust", "undecided", "doubt")


def firsts(study: StudyRecords) -> list[Record]:
    """Return the answers that are judged: the first one of each question."""
    return [pool[0] for pool in pools(study.rows)]


def one_kind(study: StudyRecords) -> str:
    """Return why there is nothing to tell apart; empty where there are both kinds."""
    right = [row.right for row in firsts(study)]
    if all(right):
        return "No wrong answers: nothing to tell apart."
    return "" if any(right) else "No right answers: nothing to tell apart."


def result(studies: Sequence[StudyRecords], figures: Figures) -> str:
    """Return what the round trips tell, in one sentence or two."""
    if len(studies) == 1:
        return _of_one(studies[0], auroc_of(figures, studies[0].name))
    by_study = [auroc_of(figures, study.name) for study in studies]
    aurocs = [figure for figure in by_study if figure is not None]
    alike = sum(bool(one_kind(study)) for study in studies)
    aside = f" {_sets(alike)} of one kind alone." if alike else ""
    if not aurocs:
        return f"Nothing here tells right answers from wrong ones by round trips.{aside}"
    values = [figure.value for figure in aurocs]
    return (
        "Round trips tell right answers from wrong ones with an AUROC of "
        f"{min(values):.3f} to {max(values):.3f} on {len(values)} sets of answers, "
        f"{median(values):.3f} in the middle.{aside}"
        if len(values) > 1
        else f"{_told(aurocs[0])} on {aurocs[0].study}.{aside}"
    )


def auroc_of(figures: Figures, study: str) -> Figure | None:
    """Return how well the round trips tell the answers of a study apart, where that is known."""
    place = {"section": SECTION, "study": study, "method": ROUNDTRIPS.name}
    return figures.find(**place, measure="auroc")


def judged(study: StudyRecords, limit: Limit) -> str:
    """Return how many first answers of a study have each verdict."""
    counts: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for row in firsts(study):
        if row.scores.get(ROUNDTRIPS.name) is not None:
            verdict = verdict_on(row, limit)
            counts[verdict] += 1
            right[verdict] += bool(row.right)
    if not counts:
        return "No first answer was scored."
    if limit.reason:
        return f"No verdicts: {limit.reason}."
    listed = [f"{v} {counts[v]:,} ({right[v]:,} right)" for v in WORDS if counts[v]]
    return f"Threshold {limit}. First answers: {', '.join(listed)}."


def _of_one(study: StudyRecords, figure: Figure | None) -> str:
    answers = firsts(study)
    right = sum(bool(row.right) for row in answers)
    if reason := one_kind(study):
        whole = f"All {len(answers):,} questions are" if len(answers) > 1 else "The question is"
        return f"{reason} {whole} answered {'right' if right else 'wrong'}."
    if figure is None:
        return (
            f"No answer was scored by round trips: {right:,} of {len(answers):,} questions are "
            "answered right, and nothing tells which."
        )
    return f"{_told(figure)}, on {len(answers):,} questions of which {right:,} are answered right."


def _told(figure: Figure) -> str:
    has_interval = figure.low is not None and figure.high is not None
    low, high = figure.ends
    if has_interval and high < GUESSING:
        return f"Round trips do worse than guessing: an AUROC of {text(figure)}"
    if has_interval and low <= GUESSING:
        return f"Round trips cannot be told from guessing: an AUROC of {text(figure)}"
    return f"Round trips tell right answers from wrong ones with an AUROC of {text(figure)}"


def _sets(num: int) -> str:
    return "One set has answers" if num == 1 else f"{num} sets have answers"
