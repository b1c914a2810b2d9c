"""Answers as a page lists them: their kinds, their fair share of the room, safe JSON."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.analysis.limits import Limits
from remask.analysis.load_records import RecordFile
from remask.records.record import Record
from remask.report.answer_list import (
    ALARM,
    DOUBTED,
    DOUBTFUL,
    FIELDS,
    KINDS,
    SPURIOUS,
    TRUSTED,
    UNDECIDED,
    ListedAnswer,
    encode,
    list_entries,
    listed_answers,
)

Make = Callable[..., Record]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


GIVEN = Limits(given={"wordmath": 0.75})


def a_file(*rows: Record, name: str = "f") -> RecordFile:
    return RecordFile(path=Path(f"{name}.jsonl"), rows=rows)


def listed(found: list[ListedAnswer], files: list[RecordFile], **room: int) -> list[Record]:
    """Return the answers of the page's data, by field."""
    data = json.loads(list_entries(found, files, **({"most": 100, "limit": 10**6} | room)).data)
    return [dict(zip(data["fields"], values, strict=True)) for values in data["answers"]]


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({"right": True, "score": 0.9, "confidence": 0.9}, ()),
        ({"right": True, "score": 0.7, "confidence": 0.5}, (ALARM,)),
        ({"right": True, "score": 0.7, "confidence": 0.9}, (DOUBTED, ALARM)),
        ({"right": True, "score": 0.9, "confidence": 0.9, "process_ok": False}, (SPURIOUS,)),
        ({"right": False, "answer": "2", "score": 0.9, "confidence": 0.9}, (TRUSTED,)),
        ({"right": False, "answer": "2", "score": 0.75, "confidence": 0.5}, ()),
        ({"right": True, "score": 0.8, "confidence": 0.9, "stderr": 0.06}, (UNDECIDED,)),
        ({"right": False, "answer": "2", "score": 0.7, "stderr": 0.06}, (UNDECIDED,)),
        ({"right": False, "answer": None, "score": None, "confidence": 0.9}, (DOUBTFUL,)),
    ],
)
def test_kinds_follow_from_label_score_and_confidence(
    make_record: Make, changes: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    """The threshold is 0.75, strictly; the middle confidence of the file is 0.6."""
    others = [make_record("b", confidence=0.6), make_record("c", confidence=0.6)]
    stderr = changes.pop("stderr", 0.0)
    row = replace(make_record("a", **changes), stderr=stderr)
    found = listed_answers([a_file(row, *others)], GIVEN)
    assert found[0].kinds == kinds


def test_unlabelled_steps_are_not_spurious(make_record: Make) -> None:
    row = replace(make_record(score=0.9), process_ok=None)
    assert listed_answers([a_file(row)], Limits())[0].kinds == ()


def test_a_task_has_its_own_threshold(make_record: Make) -> None:
    [entry] = listed_answers(
        [a_file(make_record(score=0.8))], Limits(given={"wordmath": 0.9, "choice": 0.1})
    )
    assert (entry.limit.value, entry.verdict, entry.kinds) == (0.9, "doubt", (ALARM,))


def test_an_answer_carries_what_its_card_shows(make_record: Make) -> None:
    row = make_record(score=0.8125, answer="1")
    row = replace(row, text="1!", pieces=["1", "!", "<eos>"], reason="equal")
    files = [a_file(row)]
    [answer] = listed(listed_answers(files, GIVEN), files)
    assert set(answer) == set(FIELDS)
    assert answer["runs"] == ["1", 0, "!", 50, "<eos>", None]
    assert (answer["painted"], answer["score"], answer["reason"]) == (1, 0.812, "equal")
    assert answer["trips"] == [[0.812, 0.812]]
    assert answer["forwards"] == [10, 8]
    assert (answer["threshold"], answer["verdict"]) == (0.75, "trust")


def test_records_of_before_carry_their_text_unpainted(make_record: Make) -> None:
    """Neither pieces nor grades nor, where nothing was scored, anything of the round trips."""
    row = make_record(answer="1", by_trip={})
    row = replace(row, drift=[], stderr=None, verify_forwards=None)
    del row.scores["roundtrips"]
    files = [a_file(row)]
    [answer] = listed(listed_answers(files, Limits()), files)
    assert (answer["runs"], answer["painted"]) == (["#### 1", None], 0)
    assert (answer["score"], answer["stderr"], answer["trips"]) == (None, None, [])
    assert (answer["verdict"], answer["threshold"]) == ("unknown", None)
    assert answer["forwards"] == [10, None]


def test_rare_kinds_are_kept_before_frequent_ones(make_record: Make) -> None:
    """Room for 4 of 52: both wrong answers, two of the 50 right ones, in the order recorded."""
    rows = [make_record(f"{k:02}", score=0.9) for k in range(50)]
    rows[25:25] = [make_record(f"w{k}", right=False, answer="2", score=0.9) for k in range(2)]
    files = [a_file(*rows)]
    found = listed(listed_answers(files, Limits()), files, most=4)
    assert [answer["id"].rpartition("/")[2] for answer in found] == ["00", "01", "w0", "w1"]


def test_the_answers_stay_within_their_bytes(make_record: Make) -> None:
    rows = [replace(make_record(f"{k}"), text=f"<{k}>" * 900, prompt="&" * 900) for k in range(50)]
    files = [a_file(*rows)]
    found = list_entries(listed_answers(files, Limits()), files, most=50, limit=100_000)
    assert 1 < len(found.shown) < 50
    assert 80_000 < len(found.data) < 100_000 + 5_000  # the frame of the answers comes on top


def test_a_prompt_is_there_once(make_record: Make) -> None:
    files = [a_file(*(make_record("a", number) for number in range(5)))]
    data = json.loads(
        list_entries(listed_answers(files, Limits()), files, most=9, limit=10**6).data
    )
    assert data["prompts"] == ["How many?"]
    assert list(data["kinds"]) == list(KINDS)


def test_a_megabyte_of_text_is_cut(make_record: Make) -> None:
    files = [a_file(replace(make_record(), text="\u202e" * 1_000_000, gold="g" * 10_000))]
    found = list_entries(listed_answers(files, Limits()), files, most=9, limit=10**6)
    assert len(found.data) < 200_000
    assert "more characters" in found.data


@given(JSON)
def test_json_stands_in_a_script_element_and_comes_back(value: Any) -> None:
    text = encode(value)
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


def test_nan_is_no_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(float("nan"))
