"""The demo on a small random checkpoint: the whole story, in seconds.

Random weights get everything wrong, so the grader is replaced: an answer is right where its text
has an even number of characters. The tables then have something to tell apart.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from remask.analysis.correction import correction
from remask.analysis.diagnosis import diagnosis
from remask.cli import demonstration
from remask.collect.answers import GradedAnswer
from remask.consistency.settings import ConsistencySettings
from remask.errors import SettingsError
from remask.records.record import Record, read_records, records_in
from remask.report import terminal
from remask.tasks.base import Grade
from remask.testing import write_checkpoint
from remask.values import Sample
from remask.verifier.threshold import ScoreThreshold

PICTURES = ("separation", "roc", "drift-right", "drift-wrong")


def graded(right: bool) -> GradedAnswer:
    grade = Grade(right=right, extracted=None, tier="none", method="length", reason="")
    return GradedAnswer(grade, process_ok=False)


def grade_by_length(
    task: object, problems: Sequence[object], pools: Sequence[Sequence[Sample]]
) -> list[list[GradedAnswer]]:
    return [[graded(len(answer.text) % 2 == 0) for answer in pool] for pool in pools]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A small model in place of the embedded one, without the sentence encoder."""
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("model"), max_length=2048)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demonstration, "MODEL", str(checkpoint))
        patch.setattr(demonstration, "METRIC_SET", "core")
        patch.setattr(demonstration, "TOKENS_PER_STEP", 32)
        patch.setattr(demonstration, "grade_pools", grade_by_length)
        patch.setattr(demonstration, "CONSISTENCY", ConsistencySettings(trips=2, rebuild_steps=2))
        patch.setattr(demonstration, "EMBEDDED", checkpoint)  # carries no figures
        # None is known for these settings.
        known = ScoreThreshold(value=0.75, source="given")
        patch.setattr(demonstration.api, "threshold_for", lambda *_, **__: known)
        yield


class Told(NamedTuple):
    """One folder, two runs into it: what they printed."""

    out: Path
    story: str
    progress: str
    document: dict[str, Any]


@pytest.fixture(scope="module")
def told(small: None, tmp_path_factory: pytest.TempPathFactory) -> Told:
    out = tmp_path_factory.mktemp("runs") / "new" / "demo"
    story, progress, document = StringIO(), StringIO(), StringIO()
    with redirect_stdout(story), redirect_stderr(progress):
        assert demonstration.run(out=out, problems=6, samples=2, device="cpu") == 0
    with redirect_stdout(document), redirect_stderr(StringIO()):
        assert demonstration.run(out=out, problems=6, samples=2, device="cpu", as_json=True) == 0
    return Told(out, story.getvalue(), progress.getvalue(), json.loads(document.getvalue()))


def test_it_tells_the_story(told: Told) -> None:
    for words in (
        "6 wordmath problems (4 hard, 2 medium;", "Which score tells", "roundtrips", "agreement",
        "What do further samples gain?", "mgrs", "Rejection sampling:", "A typical right answer",
        "A typical wrong answer", f"written to {told.out}",
    ):  # fmt: skip
        assert words in told.story
    assert "writing 8 answers to hard problems" in told.progress
    assert "Full:" not in told.story


def test_it_leaves_pictures_records_and_a_summary(told: Told) -> None:
    pictures = {f"{name}.{kind}" for name in PICTURES for kind in ("png", "svg")}
    made = {path.name for path in told.out.iterdir()}
    assert made == pictures | {"records.jsonl", "summary.json"}
    assert {Path(name).name for name in told.document["files"]} <= made


def test_json_is_one_document_that_the_records_bear_out(told: Told) -> None:
    """The second run replaced the records of the first: 6 problems, 2 samples each."""
    found, rows = told.document, records_in(read_records(told.out / "records.jsonl"))
    assert len(rows) == 12
    assert found["right"] + found["wrong"] == sum(found["levels"].values()) == 6
    assert [d["method"] for d in found["diagnosis"]] == [d.method for d in diagnosis(rows)]
    gained = {c.method: c for c in correction(rows, found["threshold"], 2)}
    for row in found["correction"]:
        assert row["accuracy"]["value"] == gained[row["method"]].accuracy.value
    kept = json.loads((told.out / "summary.json").read_text())
    assert kept["diagnosis"] == found["diagnosis"]


@pytest.mark.usefixtures("small")
def test_only_answers_not_yet_trusted_are_followed_by_another_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even problems are trusted at once: 4 first answers, then those of the 2 odd ones."""
    asked: list[tuple[int, ...]] = []
    measure = demonstration.attempt

    def attempt(model: Any, samples: Sequence[Sample], *rest: Any) -> list[demonstration.Attempt]:
        asked.append(tuple(int(s.item[-1]) for s in samples))
        made = measure(model, samples, *rest)
        trust = [1.0 if int(s.item[-1]) % 2 == 0 else 0.0 for s in samples]
        return [
            a._replace(score=replace(a.score, value=v)) for a, v in zip(made, trust, strict=True)
        ]

    monkeypatch.setattr(demonstration, "attempt", attempt)
    monkeypatch.setattr(demonstration, "HARD_SHARE", 1.0)
    demonstration.run(out=tmp_path, problems=4, samples=3, device="cpu", as_json=True)
    assert asked == [(0, 1, 2, 3), (1, 3), (1, 3)]


@pytest.mark.usefixtures("small")
def test_a_model_that_is_never_right_is_shown_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [[graded(False)]] * 2
    monkeypatch.setattr(
        demonstration, "grade_pools", lambda task, problems, pools: wrong[: len(problems)]
    )
    assert demonstration.run(out=tmp_path, problems=2, samples=1, device="cpu") == 0
    told = capsys.readouterr().out
    assert "All answers are of one kind" in told
    assert not (tmp_path / "drift-right.png").exists()
    assert (tmp_path / "drift-wrong.png").exists()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("asked", [{"problems": 0}, {"samples": 0}])
def test_nothing_to_do_is_refused(tmp_path: Path, asked: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="is 0; it must be at least 1"):
        demonstration.run(out=tmp_path, device="cpu", **asked)


def test_the_full_size_figures_stand_beside(told: Told) -> None:
    about = {"n": 1000, "hardware": "one GPU"}
    figures = {
        "diagnosis/wordmath-hard/roundtrips/auroc": {"value": 0.9512, **about},
        "correction/wordmath-hard/mgrs/accuracy": {"value": 0.887, **about},
    }
    rows = records_in(read_records(told.out / "records.jsonl"))
    console = Console(file=StringIO(), width=80)
    found = diagnosis(rows, resamples=10)
    terminal.show_diagnosis(console, found, [True, False], figures, "wordmath-hard")
    gained = correction(rows, 0.75, resamples=10)
    terminal.show_correction(console, gained, figures, "wordmath-hard")
    shown = " ".join(console.file.getvalue().split())
    assert shown.count(" full ") == 2
    assert "0.951" in shown
    assert "88.7%" in shown
    assert "Full: AUROC on 1,000 problems (one GPU)." in shown
    assert "…" not in shown, "nothing is cut off at 80 columns"


def test_without_figures_in_the_package_the_column_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "EMBEDDED", tmp_path)
    assert demonstration.full_size() == {}
    (tmp_path / "figures.json").write_text('{"figures": {"a": {"value": 1}}}')
    assert demonstration.full_size() == {"a": {"value": 1}}


def test_the_verdict_names_gain_and_cost(make_record: Callable[..., Record]) -> None:
    rows = [
        replace(
            make_record(f"{k}", n, answer=str(k + n), right=n == 1, score=0.4 + 0.5 * n),
            verify_forwards=5,
        )
        for k in range(2)
        for n in range(2)
    ]
    assert terminal.verdict(correction(rows, 0.75)) == (
        "Rejection sampling: 0.0% right -> 100.0% with 2.00 samples and 30 forwards per problem; "
        "a vote over 2 gives 0.0%."
    )
