"""Label audit: answers whose label is in doubt, because of how their final answer was read.

A wrong label is a wrong AUROC, and labels rest on reading free text. Nothing is graded anew here:
answers that a person should look at are named, with the reason. No reason is a proof.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

from remask.answers import Extraction, canonical_number, find_choice, find_number, numbers
from remask.records.record import Record

UNREAD = "no final answer could be read"
LAST_RESORT = "read from the last number or letter: nothing says that it is the answer"
TWO_ANSWERS = "the text states two different final answers"
GOLD_AT_THE_END = "graded wrong, but the gold answer stands at the end of the text"
UNDECIDED = "the grader did not reach a decision, which counts as wrong"
BOTH_GRADES = "the same answer to the same problem is graded right here and wrong there"
REASONS = (UNREAD, LAST_RESORT, TWO_ANSWERS, GOLD_AT_THE_END, UNDECIDED, BOTH_GRADES)

Finder = Callable[[str], Extraction]

_FINDERS: tuple[Finder, ...] = (find_number, find_choice)
_NUMBERS_END = 40  # characters at the end of a text in which a gold number counts as standing there
_TEXT_END = 200  # the same for any other gold answer
_NO_DECISION = ("not decided", "math-verify cannot read", "timeout")  # how such reasons begin
_SHORTEST = 3  # signs of a gold answer that do not stand anywhere by chance


def audit(rows: Sequence[Record]) -> list[tuple[str, ...]]:
    """Return why the label of each answer is in doubt: nothing, for most."""
    both = _graded_both_ways(rows)
    return [
        tuple(_readings(row)) + ((BOTH_GRADES,) if (row.id, row.answer) in both else ())
        for row in rows
    ]


def _readings(row: Record) -> list[str]:
    text, answer = row.text, row.answer
    reasons = []
    if answer is None:
        reasons.append(UNREAD)
    for find in _FINDERS:
        read = find(text)
        if answer is not None and read.answer == answer:  # so this is how the task reads answers
            reasons += [LAST_RESORT] if read.tier == 3 else []
            reasons += [TWO_ANSWERS] if _says_otherwise(find, read, text) else []
            break
    if not row.right and _gold_ends(text, row.gold):
        reasons.append(GOLD_AT_THE_END)
    if (row.reason or "").startswith(_NO_DECISION):
        reasons.append(UNDECIDED)
    return reasons


def _says_otherwise(find: Finder, read: Extraction, text: str) -> bool:
    """Say whether the rest of the text states another final answer, by markup or in words."""
    at = text.rfind(read.matched)
    if read.tier == 3 or at < 0:
        return False
    rest = find(text[:at] + text[at + len(read.matched) :])
    return rest.tier in (1, 2) and rest.answer != read.answer


def _gold_ends(text: str, gold: str) -> bool:
    number = canonical_number(gold)
    if number is not None:
        return number in numbers(text[-_NUMBERS_END:])
    bare = re.sub(r"\s", "", gold)
    return len(bare) >= _SHORTEST and bare in re.sub(r"\s", "", text[-_TEXT_END:])


def _graded_both_ways(rows: Sequence[Record]) -> set[tuple[str, str]]:
    grades: dict[tuple[str, str], set[bool]] = defaultdict(set)
    for row in rows:
        if row.answer is not None:
            grades[row.id, row.answer].add(row.right)
    return {answered for answered, given in grades.items() if len(given) > 1}
