"""Jobs: what a file of answers becomes, and what is refused before work begins."""

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


def test_a_run_that_an_older_version_began_is_one_of_round_trips(
    llada: NativeDenoiser, source: Path
) -> None:
    out = source.with_name("out.jsonl")
    job = score_file.prepare(source, out, SETTINGS)
    older = {k: v for k, v in job.begun_with.items() if not k.startswith("scorer")}
    done = score_file.score_rows(SETTINGS, None, llada, [{"prompt": "q0", "answer": "0"}])
    write(job.part, [{"asked": older}, {"rows": done}])
    assert score_file.prepare(source, out, SETTINGS).results == done
    with pytest.raises(RecordError, match="was begun with another scorer;"):
        score_file.prepare(source, out, replace(SETTINGS, scorer="editor"))


def test_a_run_is_not_continued_with_another_fit(llada: NativeDenoiser, source: Path) -> None:
    about = Provenance(
        scorer="verifier", metric_set="features", metrics=(), task="wordmath", model=llada.name,
        split="validation", seed=0, version="", date="",
    )  # fmt: skip
    one, two = (fit_verifier([{"critical.critical_mean": x}], [True], about) for x in (-1.0, -2.0))
    out, settings = source.with_name("out.jsonl"), replace(SETTINGS, scorer="verifier")
    job = score_file.prepare(source, out, settings, fitted=one)
    done = score_file.score_rows(settings, one, llada, [{"prompt": "q0", "answer": "0"}])
    assert (done[0]["remask_scorer"], done[0]["remask_forwards"]) == ("verifier_at_hand", 1)
    write(job.part, [{"asked": job.begun_with}, {"rows": done}])
    assert score_file.prepare(source, out, settings, fitted=one).results == done
    with pytest.raises(RecordError, match="was begun with another fitted;"):
        score_file.prepare(source, out, settings, fitted=two)
    with pytest.raises(RecordError, match="was begun with another max_forwards;"):
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
    assert "NaN logits" in found[1]["remask_error"]
    assert (found[1]["remask_score"], found[1]["remask_forwards"]) == (None, 0)


def test_a_score_without_a_value_is_an_error_row() -> None:
    row = score_file._result(Score(value=None, reason="no metric has a value", forwards=4))
    assert (row["remask_score"], row["remask_error"]) == (None, "no metric has a value")
    assert row["remask_forwards"] == 4


def test_an_interrupted_job_continues_after_its_last_whole_batch(
    llada: NativeDenoiser, source: Path
) -> None:
    out = source.with_name("out.jsonl")

    def stop(done: int, forwards: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_file.score_file(
            llada, score_file.prepare(source, out, SETTINGS), batch=2, progress=stop
        )
    assert not out.exists()
    job = score_file.prepare(source, out, SETTINGS)
    assert len(job.results) == 4
    assert score_file.score_file(llada, job, batch=2).resumed == 4
    fresh = scored(llada, source, batch=2)
    assert [json.loads(line) for line in out.read_text().splitlines()] == fresh


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": "another"}, "model"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"kind": "text"}, "kind"),
        ({"metrics": "paper"}, "metrics"),
        ({"consistency": ConsistencySettings(trips=2, rebuild_steps=3)}, "consistency"),
        ({"prompt_column": "answer"}, "prompt_column"),
        ({"scorer": "editor"}, "scorer"),
        ({"seed": 1}, "seed"),
        ({"seed": 1, "model": "another"}, "model and seed"),
    ],
)
def test_results_of_other_settings_are_not_mixed(
    llada: NativeDenoiser, source: Path, change: dict[str, Any], named: str
) -> None:
    out = source.with_name("out.jsonl")
    job = score_file.prepare(source, out, SETTINGS)
    jsonl.append(job.part, [{"rows": [score_file._result("unusable.")]}])
    with pytest.raises(RecordError, match=f"begun with another {named};"):
        score_file.prepare(source, out, replace(SETTINGS, **change))
    assert len(score_file.prepare(source, out, SETTINGS).results) == 1


def test_an_unknown_kind_is_refused_before_anything_is_written(source: Path) -> None:
    with pytest.raises(SettingsError, match="kind 'poem' is unknown"):
        score_file.prepare(source, source.with_name("out.jsonl"), replace(SETTINGS, kind="poem"))
    assert [path.name for path in source.parent.iterdir()] == ["in.jsonl"]
