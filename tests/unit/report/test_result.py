"""What a report says first."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.analysis.diagnosis import SECTION
from remask.analysis.figure import Figure, Figures
from remask.analysis.limits import Limit
from remask.analysis.load_records import StudyRecords
from remask.records.record import Record
from remask.report.result import judged, one_kind, result

Make = Callable[..., Record]


def study(rows: Sequence[Record], name: str = "apples") -> StudyRecords:
    return StudyRecords(name=name, task="t", path=Path(name), rows=rows, threshold=0.75)


def auroc(name: str, value: float, low: float | None = None, high: float | None = None) -> Figure:
    place: Any = {"section": SECTION, "study": name, "method": "roundtrips", "measure": "auroc"}
    return Figure(**place, value=value, unit="AUROC", low=low, high=high)


def mixed(make: Make, num: int = 4) -> list[Record]:
    return [make(f"{k}", right=k > 0) for k in range(num)]


def test_one_study_is_one_sentence(make_record: Make) -> None:
    figures = Figures([auroc("apples", 0.9, 0.8, 0.95)])
    assert result([study(mixed(make_record))], figures) == (
        "Round trips tell right answers from wrong ones with an AUROC of 0.900 [0.800, 0.950], on "
        "4 questions of which 3 are answered right."
    )


@pytest.mark.parametrize(
    ("low", "high", "sentence"),
    [
        (0.22, 1.0, "Round trips cannot be told from guessing: an AUROC of 0.400 [0.220, 1.000], "),
        (0.38, 0.5, "Round trips cannot be told from guessing: an AUROC of 0.400 [0.380, 0.500], "),
        (0.38, 0.42, "Round trips do worse than guessing: an AUROC of 0.400 [0.380, 0.420], "),
        (None, None, "Round trips tell right answers from wrong ones with an AUROC of 0.400, "),
    ],
)
def test_what_may_be_guessing_is_said_to_be(
    make_record: Make, low: float | None, high: float | None, sentence: str
) -> None:
    figures = Figures([auroc("apples", 0.4, low, high)])
    assert result([study(mixed(make_record))], figures).startswith(sentence)


@pytest.mark.parametrize(
    ("right", "sentence"),
    [
        (
            [True] * 3,
            "No wrong answers: nothing to tell apart. All 3 questions are answered right.",
        ),
        (
            [False, False],
            "No right answers: nothing to tell apart. All 2 questions are answered wr",
        ),
        ([True], "No wrong answers: nothing to tell apart. The question is answered right."),
    ],
)
def test_answers_of_one_kind_tell_nothing(
    make_record: Make, right: list[bool], sentence: str
) -> None:
    rows = [make_record(f"{k}", right=is_right) for k, is_right in enumerate(right)]
    assert result([study(rows)], Figures()).startswith(sentence)


def test_only_the_first_answer_of_a_question_counts(make_record: Make) -> None:
    rows = [make_record("a", 0), make_record("a", 1, right=False), make_record("b", 0)]
    assert one_kind(study(rows)) == "No wrong answers: nothing to tell apart."
    assert one_kind(study(mixed(make_record))) == ""


def test_answers_that_nobody_scored(make_record: Make) -> None:
    assert result([study(mixed(make_record))], Figures()) == (
        "No answer was scored by round trips: 3 of 4 questions are answered right, and nothing "
        "tells which."
    )


def test_several_studies_have_a_range_and_a_middle(make_record: Make) -> None:
    names = ("a", "b", "c")
    studies = [study(mixed(make_record), name) for name in names]
    studies.append(study([make_record()], "d"))
    figures = Figures(auroc(n, v) for n, v in zip(names, (0.7, 0.9, 0.85), strict=True))
    assert result(studies, figures) == (
        "Round trips tell right answers from wrong ones with an AUROC of 0.700 to 0.900 on 3 sets "
        "of answers, 0.850 in the middle. One set has answers of one kind alone."
    )
    one = result(studies, Figures([auroc("b", 0.9)]))
    assert one.startswith(
        "Round trips tell right answers from wrong ones with an AUROC of 0.900 on"
    )
    assert result(studies, Figures()) == (
        "Nothing here tells right answers from wrong ones by round trips. One set has answers of "
        "one kind alone."
    )


def test_a_threshold_makes_three_heaps(make_record: Make) -> None:
    """Scores .9, .8, .7 and .5 at .75: within .1 of it two are undecided."""
    scores = (0.9, 0.8, 0.7, 0.5)
    rows = [
        replace(make_record(f"{k}", score=score, right=k != 1), stderr=0.1)
        for k, score in enumerate(scores)
    ]
    assert judged(study(rows), Limit(value=0.75, origin="given")) == (
        "Threshold 0.75, as given. First answers: trust 1 (1 right), undecided 2 (1 right), "
        "doubt 1 (1 right)."
    )
    unknown = Limit(value=0.75, origin="paper", reason="no threshold is known")
    assert judged(study(rows), unknown) == "No verdicts: no threshold is known."
    rows = [make_record("a", score=None)]
    assert judged(study(rows), Limit(value=0.75, origin="given")) == "No first answer was scored."
