"""Jobs: what a file of answers becomes, and what is refused before work begins."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from remask import api
from remask.collect import score_file
from remask.collect.settings import ScoreSettings
from remask.consistency.settings import ConsistencySettings
from remask.decide.provenance import Provenance
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.errors import RecordError, SettingsError
from remask.records import jsonl
from remask.records.manifest import FileState, part_path, read_manifest
from remask.records.parquet import read_table
from remask.sampling.settings import SamplerSettings
from remask.testing import ScriptedDenoiser, tiny_tokenizer
from remask.values import Score
from remask.verifier.fit import fit_verifier

SETTINGS = ScoreSettings(
    model="random",
    metrics="core",
    consistency=ConsistencySettings(trips=2, rebuild_steps=2),
)
WRITER = SamplerSettings(length=8, steps=4, block=8, temperature=1.0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "in.jsonl", [{"prompt": f"q{i}", "answer": f"{i}"} for i in range(5)])


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored(denoiser: Denoiser, source: Path, **named: Any) -> list[dict[str, Any]]:
    out = source.with_name(f"out{len(list(source.parent.iterdir()))}.jsonl")
    score_file.score_file(denoiser, score_file.prepare(source, out, SETTINGS), **named)
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_progress_counts_rows_and_the_forwards_of_this_run(
    llada: NativeDenoiser, source: Path
) -> None:
    """2 trips x 2 steps: 4 forwards a row."""
    told: list[tuple[int, int]] = []
    job = score_file.prepare(source, source.with_name("out.jsonl"), SETTINGS)
    done = score_file.score_file(llada, job, batch=2, progress=lambda *now: told.append(now))
    assert told == [(0, 0), (2, 8), (4, 16), (5, 20)]
    assert done == score_file.ScoreSummary(rows=5, failed=0, forwards=20, resumed=0)


@pytest.mark.parametrize(("rows", "ends"), [(0, [1, 2, 3, 4, 5]), (3, [3, 5]), (None, [5])])
def test_portions_end_within_a_minute_of_work(
    llada: NativeDenoiser,
    source: Path,
    rows: int | None,
    ends: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4 forwards a row, so `rows` of them take their tokens 4 times; one is never cut."""
    sample = api.sample_from_text(llada, "q0", "0")
    work = None if rows is None else max(1, rows * 4 * (len(sample.prompt) + len(sample.canvas)))
    monkeypatch.setattr(score_file, "work_budget", lambda denoiser: work)
    told: list[int] = []
    job = score_file.prepare(source, source.with_name("out.jsonl"), SETTINGS)
    score_file.score_file(llada, job, progress=lambda done, forwards: told.append(done))
    assert told == [0, *ends]


def test_portions_know_what_the_verifier_costs(
    llada: NativeDenoiser, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """25 passes a row, so the work of 50 passes is two of the five rows."""
    sample = api.sample_from_text(llada, "q0", "0")
    work = 50 * (len(sample.prompt) + len(sample.canvas))
    monkeypatch.setattr(score_file, "work_budget", lambda denoiser: work)
    ends: list[int] = []
    settings = replace(SETTINGS, scorer="verifier")
    job = score_file.prepare(source, source.with_name("out.jsonl"), settings)
    score_file.score_file(llada, job, progress=lambda done, forwards: ends.append(done))
    assert ends == [0, 2, 4, 5]


def test_draws_belong_to_the_id_of_a_row_or_else_to_its_prompt(
    llada: NativeDenoiser, tmp_path: Path
) -> None:
    row = {"prompt": "Add 2 and 3.", "answer": "2+3=5, so it is 5"}
    variants = [row, {**row, "id": 7}, {**row, "id": "7"}, {**row, "id": None}]
    drifts = [r["remask_drift"] for r in scored(llada, write(tmp_path / "in.jsonl", variants))]
    assert drifts[1] == drifts[2] != drifts[0] == drifts[3]


def test_results_come_in_order_however_many_are_worked_at_once(
    llada: NativeDenoiser, source: Path
) -> None:
    one, all_at_once = scored(llada, source, batch=1), scored(llada, source, batch=64)
    for a, b in zip(one, all_at_once, strict=True):
        assert (a["prompt"], a["remask_drift"]) == (b["prompt"], b["remask_drift"])
        assert a["remask_score"] == pytest.approx(b["remask_score"], abs=2e-6)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_another_scorer_is_named_beside_its_scores(
    llada: NativeDenoiser, tmp_path: Path, suffix: str
) -> None:
    """Equal ids of different questions are no matter: each is asked about by its prompt."""
    rows = [{"id": 1, "prompt": f"q{i}", "answer": f"{i}"} for i in range(3)]
    source = write(tmp_path / "in.jsonl", [*rows, {"prompt": "q", "answer": ""}])
    pairs = [(row["prompt"], row["answer"]) for row in rows]
    for name in ("editor", "self_evaluation"):
        out, settings = tmp_path / f"{name}.{suffix}", replace(SETTINGS, scorer=name)
        score_file.score_file(llada, score_file.prepare(source, out, settings))
        results = read_table(out).rows
        assert [row["remask_scorer"] for row in results] == [name] * 4
        scores = api.score_many(llada, pairs, scorer=name)
        values = [None if s.value is None else round(s.value, 6) for s in scores]
        assert [row["remask_score"] for row in results] == [*values, None]
        assert [row["remask_forwards"] for row in results[:3]] == [s.forwards for s in scores]
        assert "empty" in results[3]["remask_error"]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_score_bears_its_own_name_and_says_whether_it_is_a_probability(
    llada: NativeDenoiser, tmp_path: Path, suffix: str
) -> None:
    """Of answers at hand: the label-free mean, a probability, and the mean for want of labels."""
    about = Provenance(
        scorer="verifier", metric_set="features", metrics=(), task="wordmath", model=llada.name,
        split="validation", seed=0, version="", date="",
    )  # fmt: skip
    answers = [{"critical.critical_mean": -0.2 if k < 5 else -2.0} for k in range(10)]
    enough = fit_verifier(answers, [k < 5 for k in range(10)], about)
    few = fit_verifier(answers[:6], [k < 5 for k in range(6)], about)
    rows = [{"prompt": "q", "answer": "12"}, {"prompt": "q", "answer": ""}]
    source, settings = write(tmp_path / "in.jsonl", rows), replace(SETTINGS, scorer="verifier")
    for number, (fitted, name) in enumerate(
        ((None, "verifier_at_hand"), (enough, "verifier"), (few, "verifier_at_hand"))
    ):
        out = tmp_path / f"{number}.{suffix}"
        score_file.score_file(llada, score_file.prepare(source, out, settings, fitted=fitted))
        scored, failed = read_table(out).rows
        scorer = api.verifier(llada, fitted=fitted)
        known = api.score(llada, "q", "12", scorer=scorer)
        assert [row["remask_scorer"] for row in (scored, failed)] == [name] * 2
        assert (known.scorer, scored["remask_error"]) == (name, None)
        if fitted is None:
            assert not {"remask_stage", "remask_reason"} & set(scored)
            continue
        told = scored["remask_stage"], scored["remask_reason"]
        assert told == (known.stage or None, known.reason or None)
        assert told == (("critical", None) if fitted is enough else (None, few.reason))
        assert (failed["remask_stage"], failed["remask_reason"]) == (None, None)


def test_a_run_is_not_continued_with_another_fit(llada: NativeDenoiser, source: Path) -> None:
    about = Provenance(
        scorer="verifier", metric_set="features", metrics=(), task="wordmath", model=llada.name,
        split="validation", seed=0, version="", date="",
    )  # fmt: skip
    one, two = (fit_verifier([{"critical.critical_mean": x}], [True], about) for x in (-1.0, -2.0))
    out, settings = source.with_name("out.jsonl"), replace(SETTINGS, scorer="verifier")
    interrupt(llada, score_file.prepare(source, out, settings, fitted=one))
    score_file.prepare(source, out, settings, fitted=one)
    with pytest.raises(RecordError, match=r"fitted was [0-9a-f]{16}, got [0-9a-f]{16}"):
        score_file.prepare(source, out, settings, fitted=two)
    with pytest.raises(RecordError, match=r"fitted was [0-9a-f]{16}, got not set"):
        score_file.prepare(source, out, settings)
    with pytest.raises(RecordError, match="max_forwards was not set, got 1"):
        score_file.prepare(source, out, replace(settings, max_forwards=1), fitted=one)


def test_only_the_answers_that_break_the_model_fail(tmp_path: Path) -> None:
    """Logits are NaN where the row holds a z; its neighbours in the batch are scored."""
    tokenizer = tiny_tokenizer()
    (bad,) = tokenizer.encode("z")

    def script(tokens: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, 262)
        return logits.masked_fill((tokens == bad).any(1)[:, None, None], torch.nan)

    denoiser = ScriptedDenoiser(script=script, tokenizer=tokenizer)
    rows = [{"prompt": prompt, "answer": "1"} for prompt in ("a", "z", "b")]
    found = scored(denoiser, write(tmp_path / "in.jsonl", rows))
    assert [row["remask_error"] is None for row in found] == [True, False, True]
    assert "got NaN" in found[1]["remask_error"]
    assert (found[1]["remask_score"], found[1]["remask_forwards"]) == (None, 0)


def test_a_score_without_a_value_is_an_error_row() -> None:
    row = score_file._result(Score(value=None, reason="no metric has a value", forwards=4))
    assert (row["remask_score"], row["remask_error"]) == (None, "no metric has a value")
    assert row["remask_forwards"] == 4


def test_an_interrupted_job_continues_after_its_last_whole_batch(
    llada: NativeDenoiser, source: Path
) -> None:
    out = source.with_name("out.jsonl")

    interrupt(llada, score_file.prepare(source, out, SETTINGS), batch=2, done=4)
    assert [row["row"] for row in jsonl.read(part_path(out))] == [0, 1, 2, 3]
    job = score_file.prepare(source, out, SETTINGS)
    assert score_file.score_file(llada, job, batch=2).resumed == 4
    fresh = scored(llada, source, batch=2)
    assert [json.loads(line) for line in out.read_text().splitlines()] == fresh
    assert "remask_row" not in fresh[0]
    manifest = read_manifest(out)
    assert (manifest.problems, manifest.journal) == (range(5), None)
    assert manifest.file == FileState.of(out, 5)
    assert manifest.runs[-1].finished


def interrupt(
    denoiser: Denoiser, job: score_file.ScoreJob, *, batch: int = 2, done: int = 2
) -> None:
    """Score until so many rows are there."""

    def stop(now: int, forwards: int) -> None:
        if now >= done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_file.score_file(denoiser, job, batch=batch, progress=stop)
    assert not job.out.exists()


def test_the_same_command_again_reads_a_finished_file_and_refuses_an_edited_one(
    llada: NativeDenoiser, source: Path
) -> None:
    out = source.with_name("out.jsonl")
    first = score_file.score_file(llada, score_file.prepare(source, out, SETTINGS))
    content = out.read_bytes()
    again = score_file.score_file(llada, score_file.prepare(source, out, SETTINGS))
    assert again == replace(first, resumed=5)
    out.write_bytes(content.replace(b"remask_score", b"remask_scare", 1))
    with pytest.raises(RecordError, match="was edited after remask wrote it"):
        score_file.prepare(source, out, SETTINGS)
    score_file.score_file(llada, score_file.prepare(source, out, SETTINGS, force=True))
    assert out.read_bytes() == content


def test_other_weights_are_refused_when_a_run_is_resumed(
    llada: NativeDenoiser, source: Path
) -> None:
    out = source.with_name("out.jsonl")
    interrupt(llada, score_file.prepare(source, out, SETTINGS))
    other = replace(llada, model=copy.deepcopy(llada.model))
    with torch.no_grad():
        next(iter(other.model.parameters())).flatten()[-3].add_(1)
    job = score_file.prepare(source, out, SETTINGS)
    before = part_path(out).read_bytes()
    with pytest.raises(RecordError, match=r"weights of the model was [0-9a-f]{32}, got"):
        score_file.score_file(other, job, batch=2)
    assert part_path(out).read_bytes() == before
    score_file.score_file(llada, job, batch=2)


def test_a_journal_that_was_edited_is_refused_and_left(llada: NativeDenoiser, source: Path) -> None:
    """A removed, doubled or swapped line would otherwise give a row the score of another."""
    out = source.with_name("out.jsonl")
    part = part_path(out)
    interrupt(llada, score_file.prepare(source, out, SETTINGS), done=4)
    content = part.read_bytes()
    one, two, *rest = content.splitlines(keepends=True)
    for lines in ([two, *rest], [one, one, two, *rest], [two, one, *rest], [one, two]):
        part.write_bytes(b"".join(lines))
        for act in (score_file.prepare, scored_again):
            with pytest.raises(RecordError, match=r"out.jsonl.part was edited after remask wrote"):
                act(source, out, SETTINGS)
        assert part.read_bytes() == b"".join(lines)


@pytest.mark.parametrize("what", ["journal", "lock"])
def test_a_journal_or_a_lock_that_is_changed_during_a_run_ends_it(
    llada: NativeDenoiser, source: Path, what: str
) -> None:
    """Another process may have changed them, so the rows are not written as scores."""
    out = source.with_name("out.jsonl")
    lock, part = source.with_name("out.jsonl.lock"), part_path(out)

    def change(done: int, forwards: int) -> None:
        if done == 4 and what == "lock":
            lock.unlink()
        elif done == 4:
            part.write_bytes(part.read_bytes().replace(b"0.", b"1.", 1))

    job = score_file.prepare(source, out, SETTINGS)
    said = "was edited during the run" if what == "journal" else "must exist until the end"
    with pytest.raises(RecordError, match=said):
        score_file.score_file(llada, job, batch=2, progress=change)
    assert not out.exists()


def test_a_kill_before_the_journal_is_removed_leaves_nothing(
    llada: NativeDenoiser, source: Path
) -> None:
    out = source.with_name("out.jsonl")
    job = score_file.prepare(source, out, SETTINGS)
    score_file.score_file(llada, job)
    part_path(out).write_bytes(b"")
    assert score_file.score_file(llada, job).resumed == 5
    assert not part_path(out).exists()


def scored_again(source: Path, out: Path, settings: ScoreSettings) -> None:
    job = score_file.prepare(source, out.with_name("none.jsonl"), settings)
    score_file.score_file(ScriptedDenoiser.from_table(torch.zeros(4, 262)), replace(job, out=out))


def test_an_unfinished_run_of_0_2_0_is_refused_with_the_way_on(
    llada: NativeDenoiser, source: Path
) -> None:
    out = source.with_name("out.jsonl")
    write(part_path(out), [{"asked": {"input": "0" * 64}}, {"rows": [{"remask_score": 1.0}]}])
    with pytest.raises(RecordError, match=r"unfinished run of remask 0.2.0. Finish it with that"):
        score_file.prepare(source, out, SETTINGS)
    score_file.score_file(llada, score_file.prepare(source, out, SETTINGS, force=True))
    assert not part_path(out).exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": "another"}, "model was random, got another"),
        ({"dtype": "bfloat16"}, "dtype was float32, got bfloat16"),
        ({"kind": "text"}, "kind was number, got text"),
        ({"metrics": "paper"}, "metrics was core, got paper"),
        (
            {"consistency": ConsistencySettings(trips=2, rebuild_steps=3)},
            "consistency.rebuild_steps was 2, got 3",
        ),
        ({"prompt_column": "answer"}, "prompt_column was prompt, got answer"),
        ({"scorer": "editor"}, "scorer was roundtrips, got editor"),
        ({"seed": 1}, "seed was 0, got 1"),
        ({"seed": 1, "model": "another"}, "model was random, got another; seed was 0, got 1"),
    ],
)
def test_results_of_other_settings_are_not_mixed(
    llada: NativeDenoiser, source: Path, change: dict[str, Any], named: str
) -> None:
    out = source.with_name("out.jsonl")
    interrupt(llada, score_file.prepare(source, out, SETTINGS))
    before = part_path(out).read_bytes()
    with pytest.raises(RecordError, match=named):
        score_file.prepare(source, out, replace(SETTINGS, **change))
    assert part_path(out).read_bytes() == before


def test_an_unknown_kind_is_refused_before_anything_is_written(source: Path) -> None:
    with pytest.raises(SettingsError, match="Unknown kind 'poem'"):
        score_file.prepare(source, source.with_name("out.jsonl"), replace(SETTINGS, kind="poem"))
    assert [path.name for path in source.parent.iterdir()] == ["in.jsonl"]
