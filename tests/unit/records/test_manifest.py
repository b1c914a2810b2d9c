"""Manifests of every version that was written, and sentences about those that never were."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.errors import RecordError
from remask.records.manifest import (
    VERSION,
    FileState,
    Manifest,
    ModelIdentity,
    RunEntry,
    ShardRange,
    check_resumable,
    find_manifest,
    manifest_path,
    parse_manifest,
    read_manifest,
)

SETTINGS = {"model": "tiny", "task": "wordmath", "samples": 2, "sampler": {"temperature": 0.0}}
OF_0_1_0: dict[str, Any] = {
    "asked": SETTINGS, "dataset": None,
    "model": {"name": "tiny", "revision": None, "dtype": "float32"},
    "runs": [{
        "started": "2026-11-15T00:00:00Z", "versions": {"python": "3.11", "remask": "0.1.0"},
        "device": "cpu", "problems": 9, "chunk": 4, "from": 0, "to": 9, "seconds": 1.5,
        "forwards": 20, "finished": None,
    }],
}  # fmt: skip
NOW = Manifest(
    settings=SETTINGS,
    notes={"compared_by": "spelling"},
    dataset={"sha256": "0" * 64},
    model=ModelIdentity(name="tiny", dtype="float32", weights="0" * 16),
    runs=[
        RunEntry(problems=9, chunk=4, start=0, stop=4, budget=100),
        RunEntry(problems=9, chunk=4, start=9, stop=9, retried=2),
        RunEntry(problems=9, chunk=4, start=4, stop=9),
    ],
)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    assert find_manifest(out) is None
    NOW.write(out)
    assert find_manifest(out) == read_manifest(out) == NOW
    document = json.loads(manifest_path(out).read_text())
    assert list(document) == ["version", "asked", "about", "dataset", "model", "runs", "checksum"]
    assert document["version"] == VERSION
    first, again, alone = document["runs"]
    assert (first["from"], first["to"], first["work"]) == (0, 4, 100)
    assert (again["retried"], again["work"]) == (2, None)
    assert "retried" not in first.keys() | alone.keys()


@pytest.mark.parametrize("state", ["journal", "file"])
def test_every_edit_of_a_manifest_is_noticed(tmp_path: Path, state: str) -> None:
    """Any change of one character gives another document, or none."""
    out = tmp_path / "a.jsonl"
    replace(NOW, **{state: FileState(rows=9, bytes=0)}).write(out)
    text = manifest_path(out).read_text()
    for place in range(0, len(text), 7):
        other = "8" if text[place] != "8" else "9"
        manifest_path(out).write_text(text[:place] + other + text[place + 1 :])
        if text[place].isspace():  # between two tokens, or damage
            continue
        with pytest.raises(RecordError, match=r"edited after remask wrote it|damaged|has version"):
            read_manifest(out)


def test_a_file_that_was_edited_is_read_without_its_manifest(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    out.write_bytes(b"{}\n")
    manifest = replace(NOW, file=FileState.of(out, 1))
    manifest.write(out)
    assert find_manifest(out) == manifest
    out.write_bytes(b"{} \n")
    assert find_manifest(out) is None


def test_a_run_with_other_facts_is_refused_with_both_values(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    check_resumable(out, NOW, replace(NOW, runs=[], thresholds={"roundtrips": 1.0}))
    check_resumable(out, NOW, replace(NOW, model=None, settings={**SETTINGS, "chunk": 5}))
    for change, sentence in [
        (
            {"settings": {**SETTINGS, "samples": 3}},
            "Cannot resume .*a.jsonl: samples was 2, got 3. ",
        ),
        (
            {"settings": {**SETTINGS, "sampler": {"temperature": 1.0}}},
            "sampler.temperature was 0.0",
        ),
        ({"settings": {"task": "wordmath"}}, "samples was 2, got not set"),
        ({"dataset": {"sha256": "1" * 64}}, "sha256 of the data was 0000"),
        ({"scorers": {"roundtrips": 2}}, "version of roundtrips was 1, got 2"),
        ({"notes": {"compared_by": "value"}}, "votes was spelling, got value"),
        ({"shard": ShardRange(number=1, of=2, start=0, stop=4)}, "shard was not set, got 1/2"),
    ]:
        with pytest.raises(RecordError, match=sentence):
            check_resumable(out, NOW, replace(NOW, **change))


def test_thresholds_of_the_preset_stand_beside_the_scorers(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    known = replace(NOW, scorers={"roundtrips": 1}, thresholds={"roundtrips": 0.82, "probe": 1})
    known.write(out)
    assert read_manifest(out) == known
    document = json.loads(manifest_path(out).read_text())
    assert list(document)[2:5] == ["about", "scorers", "thresholds"]


def test_one_of_the_first_release_is_read_and_written_anew(tmp_path: Path) -> None:
    manifest_path(tmp_path / "a.jsonl").write_text(json.dumps(OF_0_1_0))
    older = read_manifest(tmp_path / "a.jsonl")
    assert (older.version, older.notes) == (1, None)
    assert older.model == ModelIdentity(name="tiny", dtype="float32")
    assert (older.runs[0].start, older.runs[0].stop, older.runs[0].tokens) == (0, 9, None)
    older.write(tmp_path / "b.jsonl")
    again = read_manifest(tmp_path / "b.jsonl")
    assert (again.version, again.runs) == (VERSION, older.runs)


def test_scorers_have_versions_and_the_first_where_none_is_said(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    assert NOW.scorer_version("roundtrips") == 1
    replace(NOW, scorers={"roundtrips": 2}).write(out)
    again = read_manifest(out)
    assert (again.scorer_version("roundtrips"), again.scorer_version("editor")) == (2, 1)


def test_one_of_before_there_were_runs_is_read() -> None:
    older = parse_manifest({"asked": SETTINGS, "started": "then", "torch": "2"}, Path("a"))
    assert (older.runs, older.model, older.started) == ([], None, "then")
    assert older.drawn == "2 greedy copies"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"asked": 3}, "m.json is damaged: it has no asked, the settings by name; collect the rec"),
        ({"asked": {"sampler": 3}}, "asked.sampler is 3, not names with values"),
        ({"runs": 3}, "runs is 3, not a list"),
        ({"runs": [3]}, "runs.0 is 3, not names with values"),
        ({"runs": [{"from": "a"}]}, "runs.0.from is 'a', not a whole number"),
        ({"model": 3}, "model is 3, not names with values"),
        ({"scorers": {"editor": "a"}}, "scorers.editor is 'a', not a whole number"),
        ({"thresholds": {"roundtrips": "a"}}, "thresholds.roundtrips is 'a', not a number"),
        ({"version": VERSION + 1}, f"m.json has version {VERSION + 1}, and this remask reads 1 to"),
        ({"version": "a"}, "m.json has version 'a', and this remask reads 1 to 3; install a newer"),
    ],
)
def test_another_one_is_refused_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecordError, match=sentence):
        parse_manifest({**OF_0_1_0, **change}, Path("m.json"))


def test_a_manifest_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"has no manifest a.jsonl.manifest.json beside it"):
        read_manifest(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"asked": []}', '{"asked": {"sampler": 3}}']
)
def test_a_damaged_one_says_nothing_about_its_records(tmp_path: Path, text: str) -> None:
    manifest_path(tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(RecordError, match=r"a.jsonl.manifest.json is damaged: .* collect the rec"):
        find_manifest(tmp_path / "a.jsonl")
