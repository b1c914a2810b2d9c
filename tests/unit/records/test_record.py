"""Lines of a file of records, read as what they are or refused in a sentence."""

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.errors import RecordError
from remask.records import jsonl
from remask.records.manifest import FileState, Manifest
from remask.records.record import (
    NO_KEY,
    BaselineCost,
    ErrorRecord,
    Line,
    Record,
    SkippedFlaw,
    answers_in,
    read_records,
)

Make = Callable[..., Record]
ERROR = ErrorRecord(
    id="gsm8k/all/test/0/3", task="gsm8k", level="all", number=0, prompt="Why?", gold="18",
    error="it is too long.",
)  # fmt: skip
SKIPPED = SkippedFlaw(
    id="wordmath/easy/test/0/0", task="wordmath", level="easy", number=2, kind="x"
)


@pytest.fixture
def every(make_record: Make) -> list[Line]:
    """One line of each kind that `collect` writes."""
    plain = replace(make_record(), by_trip={}, drift=[], stderr=None, verify_forwards=None)
    graded = replace(
        make_record(), tier="markup", method="number", reason="equal", pieces=["#", "1"]
    )
    return [
        plain,
        graded,
        replace(graded, key=None),
        replace(graded, key="1/2"),
        replace(plain, baselines={"editor": BaselineCost(1), "vote": BaselineCost(2, "no number")}),
        replace(plain, features={"critical.critical_mean": -0.25, "length": 3.0, "tre": None}),
        replace(make_record(), kind="digit", pieces=["1"]),
        ERROR,
        SKIPPED,
    ]


def test_lines_are_read_as_they_were_written(every: list[Line], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    names = [f"p{number}" for number in range(len(every))]
    every = [
        replace(line, id=name, task="wordmath", number=0)
        for line, name in zip(every, names, strict=True)
    ]
    jsonl.append(path, [line.to_json() for line in every])
    again = read_records(path)
    assert again == every
    assert [type(line) for line in again] == [type(line) for line in every]
    assert [line.to_json() for line in again] == list(jsonl.read(path))


def test_what_was_not_measured_is_not_written(every: list[Line]) -> None:
    plain, graded, unread, keyed, compared, probed, flawed, *_ = every
    assert "drift" not in plain.to_json()
    assert "key" not in graded.to_json()
    assert unread.to_json()["key"] is None
    assert list(keyed.to_json())[-2:] == ["pieces", "key"]
    assert compared.to_json()["baselines"] == {
        "editor": {"forwards": 1},
        "vote": {"forwards": 2, "reason": "no number"},
    }
    assert "baselines" not in probed.to_json()
    assert "features" not in compared.to_json()
    assert probed.to_json()["features"] == {
        "critical.critical_mean": -0.25,
        "length": 3.0,
        "tre": None,
    }
    assert list(flawed.to_json())[-2:] == ["kind", "pieces"]


def test_the_answers_of_a_model_are_neither_errors_nor_flaws(every: list[Line]) -> None:
    assert answers_in(every) == every[:6]


def test_votes_compare_the_key_or_the_answer(make_record: Make) -> None:
    record = make_record(answer="0.5")
    assert record.vote_key == "0.5"
    assert replace(record, key="1/2").vote_key == "1/2"
    assert replace(record, key=None).vote_key is None


def test_a_record_without_a_key_stays_one_on_its_way_to_another_process(make_record: Make) -> None:
    again = pickle.loads(pickle.dumps(make_record()))
    assert again == make_record()
    assert again.key is NO_KEY


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"id": 3}, "is damaged: line 3 has id 3, not a text; collect it again"),
        ({"number": "0"}, "line 3 has number '0', not a whole number"),
        ({"number": True}, "line 3 has number True, not a whole number"),
        ({"right": "yes"}, "line 3 has right 'yes', not true or false"),
        ({"answer": 12}, "line 3 has answer 12, not a text"),
        ({"key": 12}, "line 3 has key 12, not a text"),
        ({"scores": []}, r"line 3 has scores \[\], not names with values"),
        ({"scores": {"a": "high"}}, "line 3 has scores.a 'high', not a number"),
        ({"scores": {"a": True}}, "line 3 has scores.a True, not a number"),
        ({"by_trip": {"a": 1}}, "line 3 has by_trip.a 1, not a list"),
        ({"drift": [0, "a"]}, "line 3 has drift.1 'a', not a number"),
        ({"drift": float("nan")}, r"line 3 is not valid JSON \(NaN is not valid in JSON\)"),
        ({"features": [1]}, r"line 3 has features \[1\], not names with values"),
        ({"features": {"length": "3"}}, "line 3 has features.length '3', not a number"),
        ({"features": {"length": [3]}}, r"line 3 has features.length \[3\], not a number"),
        ({"baselines": {"editor": {}}}, "line 3 has no 'baselines.editor.forwards'"),
        ({"task": ...}, r"line 3 has no 'task': give what remask collect wrote\."),
        ({"error": 3, "text": ...}, "line 3 has error 3, not a text"),
    ],
)
def test_a_line_of_another_form_is_named_with_what_is_wrong(
    make_record: Make, tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    path, row = tmp_path / "a.jsonl", make_record().to_json()
    wrong = {name: value for name, value in {**row, **change}.items() if value is not ...}
    path.write_text(f"{json.dumps(row)}\n\n{json.dumps(wrong)}\n")
    with pytest.raises(RecordError, match=sentence):
        read_records(path)


def test_a_whole_number_is_a_number_and_a_field_of_somebody_elses_is_no_matter(
    make_record: Make, tmp_path: Path
) -> None:
    row = {**make_record().to_json(), "drift": [0, 1], "mine": {"a": 1}}
    jsonl.append(tmp_path / "a.jsonl", [row])
    (record,) = read_records(tmp_path / "a.jsonl")
    assert isinstance(record, Record)
    assert record.drift == [0.0, 1.0]


def test_marks_of_editors_and_halves_of_surrogates_do_not_stop_it(
    make_record: Make, tmp_path: Path
) -> None:
    path, row = tmp_path / "a.jsonl", make_record().to_json()
    broken = {**ERROR.to_json(), "prompt": "a\ud800", "task": row["task"]}
    path.write_text("\ufeff" + json.dumps(row) + "\n" + json.dumps(broken) + "\n")
    error = replace(ERROR, prompt="a?", task=row["task"])
    assert read_records(path) == [make_record(), error]


def test_utf_16_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}", encoding="utf-16")
    with pytest.raises(RecordError, match="is UTF-16, not UTF-8"):
        list(read_records(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"scores": {"roundtrips": 7}},
            "line 2: roundtrips must be at most 1, got 7",
        ),
        ({"scores": {"confidence": -0.1}}, "line 2: confidence must be at least 0, got -0.1"),
        ({"scores": {"tre": 7.0}}, "line 2: tre must be at most 1, got 7"),
        ({"forwards": -5}, "line 2: forwards must be at least 0, got -5"),
        ({"forwards": 10**310}, "line 2: forwards must be at most 1,000,000,000,000,000, got 1000"),
        ({"number": 10**19}, "line 2: number must be at most 1,000,000,000,000,000, got 1000"),
        ({"verify_forwards": -1}, "line 2: verify_forwards must be at least 0"),
        ({"baselines": {"editor": {"forwards": -1}}}, "line 2: baselines.editor.forwards must be"),
        ({"drift": [0.5, 1.5]}, "line 2: drift must be at most 1, got 1.5"),
        ({"by_trip": {"answer_match": [2.0]}}, "line 2: answer_match must be at most 1, got 2"),
        ({"number": -1}, "line 2: number must be at least 0"),
        ({"task": "choice"}, "the task of b must be 'wordmath', got 'choice'"),
        ({"id": "a"}, "sample 0 of a is recorded twice"),
        ({"number": 1}, "sample 0 of b is missing"),
    ],
)
def test_a_value_out_of_range_and_a_wrong_row_are_refused(
    make_record: Make, tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "a.jsonl"
    one, two = ({**make_record().to_json(), "id": name, "number": 0} for name in "ab")
    jsonl.append(path, [one, two])
    assert len(read_records(path)) == 2
    path.unlink()
    jsonl.append(path, [one, {**two, **change}])
    with pytest.raises(RecordError, match=re.escape(sentence)):
        read_records(path)


def test_records_are_complete_or_refused(make_record: Make, tmp_path: Path) -> None:
    """Two problems with two samples each; an error stands for both samples."""
    path = tmp_path / "a.jsonl"
    rows = [
        {**make_record().to_json(), "id": name, "number": number}
        for name in "ab"
        for number in range(2)
    ]
    manifest = Manifest(settings={"task": rows[0]["task"], "samples": 2, "problems": 2})

    def sound(lines: list[dict[str, Any]]) -> bool:
        path.unlink(missing_ok=True)
        jsonl.append(path, lines)
        manifest.write(path)  # one of an older version has no digest
        try:
            read_records(path)
        except RecordError:
            return False
        return True

    failed = {**ERROR.to_json(), "id": "b", "task": rows[0]["task"]}
    assert sound(rows)
    assert sound([*rows[:2], failed])
    assert not any(sound(rows[:k] + rows[k + 1 :]) for k in range(4))
    assert not sound(rows[:2])
    assert not sound([*rows, rows[3]])
    assert not sound([*rows[:2], failed, failed])
    replace(manifest, journal=FileState()).write(path)
    with pytest.raises(RecordError, match="is not finished"):
        read_records(path)


def test_an_edited_file_is_checked_without_its_manifest(make_record: Make, tmp_path: Path) -> None:
    path, row = tmp_path / "a.jsonl", make_record().to_json()
    jsonl.append(path, [row])
    settings = {"task": row["task"], "samples": 1, "problems": 1}
    Manifest(settings=settings, file=FileState.of(path, 1)).write(path)
    jsonl.append(path, [{**row, "id": "another"}])
    assert len(read_records(path)) == 2
