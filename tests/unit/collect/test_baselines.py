"""Baselines of a collection: chosen by name, at their cost, absent where no number came."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.analysis.diagnosis import diagnosis
from remask.analysis.pool import agreement, pools, vote
from remask.baselines.judge import REPLY, reply_settings
from remask.collect.collect import collect, prepare
from remask.collect.settings import OPTIONAL_BASELINES, CollectSettings, choose_baselines
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import RecordError, SettingsError
from remask.records import jsonl
from remask.records.record import NO_KEY, BaselineCost, Record
from remask.report.studies import study
from remask.sampling.settings import SamplerSettings
from remask.tasks import TASKS
from remask.testing import write_checkpoint

Make = Callable[..., dict[str, Any]]
MakeRecord = Callable[..., Record]
EVERY = ("confidence", "agreement", "vote", "self_evaluation", "editor")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Denoiser:
    torch.set_num_threads(1)
    folder = write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model", layers=1, width=16, heads=2, inner=16,
        length=16, max_length=1024, dtype=torch.float32,
    )  # fmt: skip
    return load(folder, device="cpu")


@pytest.fixture
def settings() -> CollectSettings:
    return CollectSettings(
        task="wordmath", problems=2, samples=2, metrics="core",
        sampler=SamplerSettings(length=16, steps=2, block=16, temperature=1.0),
        consistency=ConsistencySettings(trips=1, rebuild_steps=1),
    )  # fmt: skip


def test_the_free_ones_are_always_there_and_each_one_is_there_once() -> None:
    assert choose_baselines(("editor", "vote")) == ("confidence", "agreement", "vote", "editor")
    assert choose_baselines(()) == CollectSettings(task="wordmath").baselines
    twice = CollectSettings(task="wordmath", baselines=("tre",) * 2, probes=("visible",) * 2)
    assert twice == CollectSettings(task="wordmath", baselines=("tre",), probes=("visible",))
    with pytest.raises(SettingsError, match=r"Unknown baseline 'votes'. Did you mean 'vote'"):
        choose_baselines(("votes",))


def test_every_baseline_is_in_the_records_with_its_cost(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    """The first of two answers: 2 passes to write it, 1 to rebuild, 32 for a reply, 1 to edit."""
    out = collect(model, replace(settings, baselines=EVERY), tmp_path / "out.jsonl")
    rows = list(jsonl.read(out))
    for row in rows[::2]:
        assert set(row["baselines"]) == {"self_evaluation", "editor"}
        assert row["baselines"]["self_evaluation"]["forwards"] == REPLY
        assert row["baselines"]["editor"] == {"forwards": 1}
        assert 0 <= row["scores"]["editor"] <= 1
        said = row["scores"]["self_evaluation"]
        reason = row["baselines"]["self_evaluation"].get("reason", "")
        assert said is not None or reason.startswith("no number in the reply")
    assert not any("baselines" in row or "editor" in row["scores"] for row in rows[1::2])
    document = json.loads(Path(f"{out}.manifest.json").read_text())
    assert document["asked"]["baselines"] == list(EVERY)
    assert document["about"] == {"compared_by": "spelling", "edits": False}
    assert document["runs"][0]["forwards"] == 2 * (2 * 2 + 1 + REPLY + 1)


def test_by_default_nothing_is_added(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    plain = list(jsonl.read(collect(model, settings, tmp_path / "plain.jsonl")))
    every = replace(settings, baselines=EVERY)
    more = list(jsonl.read(collect(model, every, tmp_path / "more.jsonl")))
    assert not any("baselines" in row or "key" in row for row in plain)
    for row, rich in zip(plain, more, strict=True):
        rich.pop("baselines", None)
        rich["scores"] = {name: rich["scores"][name] for name in row["scores"]}
        assert rich == row


def make_older(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Turn the manifest into one of version 2, which has no digests."""
    path = Path(f"{out}.manifest.json")
    document = json.loads(path.read_text())
    document = {k: v for k, v in document.items() if k not in ("checksum", "file")}
    change(document)
    path.write_text(json.dumps({**document, "version": 2}))


def test_other_baselines_are_other_records_and_old_manifests_have_the_free_ones(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    make_older(out, lambda document: (document["asked"].pop("baselines"), document.pop("about")))
    with pytest.raises(RecordError, match=r"baselines was \['confidence', .*\], got"):
        collect(model, replace(settings, baselines=EVERY), out)
    collect(model, settings, out)
    assert len(list(jsonl.read(out))) == 4


def test_countdown_records_what_votes_compare(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, task="countdown"), tmp_path / "out.jsonl")
    assert all("key" in row for row in jsonl.read(out))
    document = json.loads(Path(f"{out}.manifest.json").read_text())
    assert document["about"] == {"compared_by": "value"}
    single = replace(settings, task="countdown", samples=1)
    alone = collect(model, single, tmp_path / "alone.jsonl")
    assert not any("key" in row for row in jsonl.read(alone)), "one sample has no vote"


def test_votes_by_value_are_not_added_to_votes_by_spelling(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    own = replace(settings, task="countdown", problems=1)
    out = collect(model, own, tmp_path / "out.jsonl")
    make_older(out, lambda document: document.pop("about"))
    with pytest.raises(RecordError, match="votes was spelling, got value"):
        collect(model, replace(own, problems=2), out)


def test_more_scored_than_drawn_is_refused(settings: CollectSettings) -> None:
    with pytest.raises(SettingsError, match="scored must be at most the number of samples"):
        prepare(replace(settings, samples=1, scored=5))


@pytest.mark.parametrize(("block", "expected"), [(16, (32, 16)), (64, (32, 32)), (24, (32, 32))])
def test_a_reply_is_greedy_and_a_token_a_step(
    model: Denoiser, block: int, expected: tuple[int, int]
) -> None:
    sampler = SamplerSettings(length=192, steps=192, block=block, temperature=0.8)
    found = reply_settings(model, sampler)
    assert (found.length, found.block) == expected
    assert (found.steps, found.temperature) == (32, 0.0)


def test_a_vote_counts_keys_and_not_spellings(make_record: MakeRecord) -> None:
    answers = [("1+2", "3"), ("2+1", "3"), ("3", "3 of other numbers"), ("1/0", None)]
    rows = [
        replace(make_record("a", number, answer=answer), key=key)
        for number, (answer, key) in enumerate(answers)
    ]
    (pool,) = pools(rows)
    assert (vote(pool), agreement(pool)) == (0.5, 0.5)
    old = [replace(row, key=NO_KEY) for row in rows]
    assert (vote(old), agreement(old)) == (0.25, 0.25)


def judged(make_record: MakeRecord, values: list[float | None]) -> list[Record]:
    rows = []
    for k, value in enumerate(values):
        row = make_record(str(k), right=k % 2 == 0)
        row.scores["self_evaluation"] = value
        reason = "" if value is not None else "no number in the reply 'yes'"
        rows.append(replace(row, baselines={"self_evaluation": BaselineCost(32, reason)}))
    return rows


def test_an_absent_number_is_counted_and_ranked_last(make_record: MakeRecord) -> None:
    """Right .9, wrong .2, right none, wrong none: (1 + 1 + 0 + .5) / 4. Writing costs 10 and the
    reply 32.
    """
    rows = judged(make_record, [0.9, 0.2, None, None])
    (row,) = (one for one in diagnosis(rows, resamples=9) if one.method == "self_evaluation")
    assert row.auroc is not None
    assert (row.auroc.value, row.absent, row.forwards) == (0.625, 2, 42.0)


def test_a_judge_that_never_says_a_number_is_shown_as_absent(
    make_record: MakeRecord, tmp_path: Path
) -> None:
    rows = judged(make_record, [None] * 4)
    jsonl.append(tmp_path / "some.jsonl", [row.to_json() for row in rows])
    told = study("diagnosis", [tmp_path / "some.jsonl"])
    assert told.figures["diagnosis/some/self_evaluation/absent"].value == 4
    assert "diagnosis/some/self_evaluation/auroc" not in told.figures
    first = next(table for table in told.tables if table.name == "auroc")
    place = list(first.heads).index("self-evaluation")
    assert first.rows[0][place] is told.figures["diagnosis/some/self_evaluation/absent"]
    from remask.report.table import text

    assert text(first.rows[0][place]) == "4 absent"
    assert any("self_evaluation is absent of 4 of 4 answers, as in: no number" in note
               for note in told.notes)  # fmt: skip


def test_the_gap_to_self_evaluation_is_paired(make_record: MakeRecord, tmp_path: Path) -> None:
    rows = judged(make_record, [0.9, 0.2, 0.3, 0.8, None, 0.1])
    jsonl.append(tmp_path / "some.jsonl", [row.to_json() for row in rows])
    told = study("diagnosis", [tmp_path / "some.jsonl"])
    assert told.figures["diagnosis/some/roundtrips_minus_self_evaluation/auroc"].n == 5


@pytest.mark.parametrize(
    ("task", "key", "is_told"),
    [("countdown", False, True), ("countdown", True, False), ("wordmath", False, False)],
)
def test_votes_by_the_old_rule_are_told(
    make_row: Make, tmp_path: Path, task: str, key: bool, is_told: bool
) -> None:
    assert task in TASKS
    rows = [
        make_row(str(k), number, task=task, right=k % 2 == 0) | ({"key": "1"} if key else {})
        for k in range(4)
        for number in range(2)
    ]
    jsonl.append(tmp_path / "some.jsonl", rows)
    for name in ("diagnosis", "correction"):
        notes = " ".join(study(name, [tmp_path / "some.jsonl"]).notes)
        assert ("follows the old rule on some" in notes) is is_told


def test_rivals_are_in_the_records_with_their_cost(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    """Masked likelihood and D-CoCoA take 16 passes each, DiSE one; those of the trace none."""
    rivals = OPTIONAL_BASELINES[2:]
    out = collect(model, replace(settings, baselines=rivals), tmp_path / "out.jsonl")
    plain = collect(model, settings, tmp_path / "plain.jsonl")
    paid = {"dise": 1, "perplexity": 16, "dcocoa": 16}
    for row, untraced in zip(jsonl.read(out), jsonl.read(plain), strict=True):
        assert row["text"] == untraced["text"]
        if row["number"] == 0:
            assert {n: c["forwards"] for n, c in row["baselines"].items()} == {
                name: paid.get(name, 0) for name in rivals
            }
            # A model that has learnt nothing may state no answer for a step to vote on.
            unread = {n for n in rivals if row["scores"][n] is None}
            assert unread <= {"temporal_entropy"}


def test_probes_stand_in_the_features_of_verified_answers(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(
        model, replace(settings, probes=("critical", "stratified50x8")), tmp_path / "out.jsonl"
    )
    rows = list(jsonl.read(out))
    assert not any("features" in row for row in rows[1::2])
    for row in rows[::2]:
        features = row["features"]
        assert features["length"] <= 16
        assert features["generation.response_mean"] <= 0
        assert features["critical.critical_mean"] <= 0
        assert features["critical.forwards"] == 1
        assert features["stratified50x8.forwards"] == 8
    document = json.loads(Path(f"{out}.manifest.json").read_text())
    written = sum(row["forwards"] + row.get("verify_forwards", 0) for row in rows)
    assert document["runs"][0]["forwards"] == written + 2 * 9
    with pytest.raises(RecordError, match=r"probes was \['critical', 'stratified50x8'\], got \[\]"):
        collect(model, settings, out)


def test_an_unknown_probe_is_refused_before_a_model_is_loaded() -> None:
    with pytest.raises(SettingsError, match=r"Unknown probe 'half'. Known: critical"):
        CollectSettings(task="wordmath", probes=("half",))
