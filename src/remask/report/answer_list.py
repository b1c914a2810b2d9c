"""Answers as a page lists them: of which kinds they are, and which of them fit into it.

A page must stay small, so it may hold fewer answers than the records do. Files and kinds then take
turns: the rare ones, which people look for, come whole, and the many that are alike share the rest.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from statistics import median
from typing import Any

from remask.analysis.audit import REASONS, audit
from remask.analysis.limits import Limit, Limits
from remask.analysis.load_records import RecordFile
from remask.records.record import Record
from remask.report.drift_spans import cut, painted, patterned, shown
from remask.values import ROUNDTRIPS, Score, Verdict, score_text

DOUBTED = "confident but doubted"
SPURIOUS = "right but spurious"
TRUSTED = "wrong but trusted"
ALARM = "right but doubted"
UNDECIDED = "undecided"
DOUBTFUL = "doubtful label"
KINDS = {
    DOUBTED: "The model was surer than with half of the answers of the same file, and the round "
    "trips speak against it: their score is not above the threshold.",
    SPURIOUS: "The final answer is right and a step on the way is wrong.",
    TRUSTED: "The answer is wrong, and the round trips speak for it: what they cannot see.",
    ALARM: "The answer is right, and the round trips speak against it: a false alarm.",
    UNDECIDED: "The score is within one standard error of the threshold.",
    DOUBTFUL: "How the final answer was read gives reason to look at the label.",
}
FIELDS = (  # of one answer in the page's data, in order
    "file", "id", "number", "prompt", "gold", "runs", "painted", "answer", "right", "steps",
    "reason", "kinds", "doubts", "score", "stderr", "threshold", "verdict", "confidence",
    "forwards", "trips",
)  # fmt: skip
SHORT = 400  # characters that are shown of a gold or extracted answer


@dataclass(frozen=True, kw_only=True)
class ListedAnswer:
    """One answer, and what it is an example of."""

    file: int
    row: Record
    limit: Limit
    verdict: Verdict
    kinds: tuple[str, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The answers that a page shows, as JSON, and which they are."""

    data: str
    shown: Sequence[ListedAnswer]


def listed_answers(files: Sequence[RecordFile], limits: Limits) -> list[ListedAnswer]:
    """Return every answer of the files, judged by the threshold of each."""
    return [entry for number, file in enumerate(files) for entry in _of(number, file, limits)]


def list_entries(
    listed: Sequence[ListedAnswer], files: Sequence[RecordFile], *, most: int, limit: int
) -> Listing:
    """Return at most `most` of the entries, in at most `limit` bytes."""
    by_pattern = [patterned(file.rows) for file in files]
    metrics = list(dict.fromkeys(m for entry in listed for m in entry.row.by_trip))
    prompts: dict[str, int] = {}
    lines: dict[int, str] = {}
    size = 0
    for place in _in_turns(listed):
        row = listed[place].row
        prompt = cut(row.prompt)
        number = prompts.get(prompt, len(prompts))
        paint = by_pattern[listed[place].file]
        line = encode(_values(listed[place], number, metrics, by_pattern=paint))
        cost = len(line) + 1 + (len(encode(prompt)) + 1 if number == len(prompts) else 0)
        if len(lines) == most or size + cost > limit:
            break
        prompts[prompt] = number
        lines[place] = line
        size += cost
    data = {
        "fields": FIELDS, "kinds": KINDS, "doubts": REASONS, "prompts": list(prompts),
        "metrics": list(map(shown, metrics)), "files": [shown(file.name) for file in files],
        "whole": len(lines) == len(listed),
    }  # fmt: skip
    head = encode(data).removesuffix("}")
    order = sorted(lines)
    answers = ",".join(lines[place] for place in order)
    return Listing(data=f'{head},"answers":[{answers}]}}', shown=[listed[place] for place in order])


def encode(value: Any) -> str:
    """Return JSON that may stand inside a script element: plain ASCII, without < > &."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _of(number: int, file: RecordFile, limits: Limits) -> Iterator[ListedAnswer]:
    limit = file.limit(limits)
    sure = [value for row in file.rows if (value := _confidence(row)) is not None]
    usual = median(sure) if sure else 1.0
    for row, doubts in zip(file.rows, audit(file.rows), strict=True):
        verdict = verdict_on(row, limit)
        kinds = tuple(_kinds(row, verdict, usual, is_doubtful=bool(doubts)))
        yield ListedAnswer(
            file=number, row=row, limit=limit, verdict=verdict, kinds=kinds, doubts=doubts
        )


def verdict_on(row: Record, limit: Limit) -> Verdict:
    """Return the verdict of the round trips on an answer."""
    return limit.verdict(Score(value=row.scores.get(ROUNDTRIPS), stderr=row.stderr))


def _kinds(row: Record, verdict: Verdict, usual: float, *, is_doubtful: bool) -> Iterator[str]:
    confidence = _confidence(row)
    if verdict == "doubt" and confidence is not None and confidence > usual:
        yield DOUBTED
    if row.right and row.process_ok is False:
        yield SPURIOUS
    if verdict == "trust" and not row.right:
        yield TRUSTED
    if verdict == "doubt" and row.right:
        yield ALARM
    if verdict == "undecided":
        yield UNDECIDED
    if is_doubtful:
        yield DOUBTFUL


def _confidence(row: Record) -> float | None:
    return row.scores.get("confidence")


def _in_turns(listed: Sequence[ListedAnswer]) -> Iterator[int]:
    """Yield the places of all entries, one of each group after the other."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for place, entry in enumerate(listed):
        groups[entry.file, entry.kinds, entry.row.right].append(place)
    turns = chain.from_iterable(zip_longest(*groups.values()))
    return (place for place in turns if place is not None)


def _values(
    entry: ListedAnswer, prompt: int, metrics: Sequence[str], *, by_pattern: bool
) -> list[Any]:
    """Return an answer as the values of FIELDS; what repeats itself is a number in a list."""
    row = entry.row
    runs = painted(row, by_pattern=by_pattern)
    plain = [(cut(row.text), None)]
    by_trip = row.by_trip
    limit = None if entry.limit.reason else entry.limit.value
    return [
        entry.file, cut(row.id, SHORT), row.number, prompt, cut(row.gold, SHORT),
        [part for run in (plain if runs is None else runs) for part in run],
        int(runs is not None),
        None if row.answer is None else cut(row.answer, SHORT),
        int(row.right), row.process_ok, cut(row.reason or "", SHORT),
        [list(KINDS).index(kind) for kind in entry.kinds],
        [REASONS.index(doubt) for doubt in entry.doubts],
        _rounded(row.scores.get(ROUNDTRIPS), limit), _rounded(row.stderr), limit,
        entry.verdict, _rounded(_confidence(row)),
        [row.forwards, row.verify_forwards],
        [[_rounded(value) for value in by_trip.get(metric, ())] for metric in metrics],
    ]  # fmt: skip


def _rounded(value: float | None, threshold: float | None = None) -> float | None:
    """Return a number in three digits, or in more if these hide its side of the threshold."""
    if value is None:
        return None
    short = float(score_text(value, threshold))
    return int(short) if short == int(short) else short
