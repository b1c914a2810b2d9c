"""`remask verify`: the API's score, with the answer painted by drift."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remask import api
from remask.cli.terminal import DOUBT_LEGEND, LEGEND
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.load import load
from remask.tasks import task
from remask.verifier.threshold import NO_THRESHOLD

Run = Callable[..., Any]
Fast = tuple[str, ...]
PROMPT = "Ann has 3 beads. Bo has 2 more. How many has Bo?"
ANSWER = "Bo: 3+2=5. Answer: 5"


def verified(run: Run, *words: object, stdin: bytes = b"") -> dict[str, Any]:
    result = run("verify", *words, "--json", stdin=stdin)
    assert (result.code, result.err) == (0, "")
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_json_holds_the_score_of_the_api(run: Run, fast: Fast, model: str) -> None:
    found = verified(run, PROMPT, ANSWER, *fast, "--seed", "7")
    settings = ConsistencySettings(trips=2, rebuild_steps=2)
    score = api.score(load(model), PROMPT, ANSWER, settings=settings, metrics="core", seed=7)
    assert found["score"] == pytest.approx(score.value, abs=1e-6)
    assert found["stderr"] == pytest.approx(score.stderr, abs=1e-6)
    assert found["metrics"] == pytest.approx(score.by_metric, abs=1e-6)
    assert found["drift"] == pytest.approx(score.drift, abs=1e-6)
    assert found["forwards"] == score.forwards == 4
    assert found["tokens"] == [*ANSWER, "<|endoftext|>"]  # this model reads bytes
    assert (found["extracted"], found["threshold"], found["trusted"]) == ("5", None, None)


def test_the_verdict_asks_for_more_than_the_threshold(run: Run, fast: Fast) -> None:
    first = verified(run, PROMPT, ANSWER, *fast)
    score, stderr = first["score"], first["stderr"]
    at = verified(run, PROMPT, ANSWER, *fast, "--threshold", repr(score))
    assert (at["trusted"], at["verdict"]) == (False, "undecided")
    above = verified(run, PROMPT, ANSWER, *fast, "--threshold", repr(score - 1e-3))
    assert (above["trusted"], above["verdict"]) == (False, "undecided")
    shown = run("verify", PROMPT, ANSWER, *fast, "--threshold", repr(score - 2 * stderr)).out
    assert f"score {score:.3f}" in shown
    assert "trust, above the threshold" in shown


def test_metrics_may_be_listed(run: Run, fast: Fast, model: str) -> None:
    names = ["token_accuracy", "ast_similarity"]
    found = verified(run, PROMPT, ANSWER, *fast, "--metrics", ",".join(names))
    settings = ConsistencySettings(trips=2, rebuild_steps=2)
    score = api.score(load(model), PROMPT, ANSWER, settings=settings, metrics=names)
    assert found["metrics"] == pytest.approx(score.by_metric, abs=1e-6)
    assert found["score"] == pytest.approx(score.value, abs=1e-6)
    assert found["settings"]["metrics"] == "token_accuracy,ast_similarity"


def test_another_scorer_is_named_in_place_of_round_trips(run: Run, model: str) -> None:
    found = verified(run, PROMPT, ANSWER, "--model", model, "--scorer", "editor")
    score = api.score(load(model), PROMPT, ANSWER, scorer="editor")
    assert found["score"] == pytest.approx(score.value, abs=1e-6)
    assert found["settings"] == {"kind": "number", "scorer": "editor"}
    assert (found["drift"], found["forwards"]) == ([], 1)
    assert (found["scorer"], found["threshold"], found["trusted"]) == ("editor", None, None)
    shown = run("verify", PROMPT, ANSWER, "--model", model, "--scorer", "editor").out
    assert "editor_agreement" in shown
    assert LEGEND not in shown, "nothing was masked"
    assert f"score {score.value:.3f} by editor: {NO_THRESHOLD}" in shown
    words = ("--model", model, "--scorer", "editor", "--threshold", "-1")
    assert verified(run, PROMPT, ANSWER, *words)["trusted"] is True


def test_the_probe_tells_what_it_read(run: Run, model: str) -> None:
    found = verified(run, PROMPT, ANSWER, "--model", model, "--scorer", "probe")
    score = api.score(load(model), PROMPT, ANSWER, scorer="probe")
    assert found["score"] == pytest.approx(score.value, abs=1e-6)
    assert found["forwards"] == 1
    assert [logp is None for logp in found["logp"]] == [logp is None for logp in score.logp]
    assert len(found["logp"]) == len(found["tokens"])
    shown = run("verify", PROMPT, ANSWER, "--model", model, "--scorer", "probe").out
    assert "critical" in shown
    assert DOUBT_LEGEND in shown
    words = ("--scorer", "probe", "--threshold", "0.5", "--budget", "1")
    solved = run("solve", PROMPT, "--model", model, *words)
    assert "cost" in solved.out


def test_the_verifier_paints_by_log_p_and_says_its_cost(run: Run, model: str) -> None:
    words = ("--model", model, "--scorer", "verifier", "--seed", "3")
    found = verified(run, PROMPT, ANSWER, *words)
    score = api.score(load(model), PROMPT, ANSWER, scorer="verifier", seed=3)
    assert found["score"] == pytest.approx(score.value, abs=1e-6)
    assert found["score"] != api.score(load(model), PROMPT, ANSWER, scorer="verifier").value
    assert found["metrics"] == pytest.approx(score.by_metric, abs=1e-6)
    assert None not in found["logp"], "a forced path reads every token"
    assert found["logp"] == pytest.approx(score.logp, abs=1e-5)
    assert (found["forwards"], found["drift"], found["trusted"]) == (score.forwards, [], None)
    assert "stage" not in found, "nothing was fitted"
    shown = run("verify", PROMPT, ANSWER, *words).out
    assert DOUBT_LEGEND in shown
    assert shown.endswith(f"cost: {score.forwards} forwards\n")
    assert f"score {score.value:.3f} by verifier_at_hand: {NO_THRESHOLD}" in shown


def test_a_scorer_reads_answers_as_their_kind_is_read(run: Run, model: str, tmp_path: Path) -> None:
    """One pass masks the numbers of the answer, or all of a text, which has no final result."""
    rows, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows.write_text(json.dumps({"prompt": PROMPT, "answer": ANSWER}) + "\n")
    values = {}
    for kind in ("number", "text"):
        words = ("--model", model, "--scorer", "probe", "--kind", kind)
        score = api.score(load(model), PROMPT, ANSWER, scorer="probe", kind=kind)
        values[kind] = score.value
        assert verified(run, PROMPT, ANSWER, *words)["score"] == pytest.approx(score.value)
        assert run("score", rows, "-o", out, *words, "--force").code == 0
        assert json.loads(out.read_text())["remask_score"] == pytest.approx(score.value, abs=2e-6)
    assert values["number"] != values["text"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--metrics", "best"), 2, "Unknown metric 'best'. Known: paper, core, token_accuracy, "),
        (("--metrics", "answer_match,best"), 2, "Unknown metric 'best'. Known: paper, core, "),
        (("--metrics", "nosuch:x"), 1, "metric 'nosuch:x' cannot be imported"),
        (("--scorer", "editr"), 1, "Unknown scorer 'editr'. Did you mean 'editor'?"),
        (("--scorer", "nosuch:x"), 1, "scorer 'nosuch:x' cannot be imported"),
        (("--scorer", "editor", "--weights", "w.json"), 2, "--weights belongs to round trips, not"),
        (
            ("--scorer", "confidence", "--trips", "8"),
            2,
            "--trips belongs to round trips, not to --scorer confidence",
        ),
        (("--scorer", "editor", "--mask-ratio", "0.5"), 2, "--mask-ratio belongs to round trips"),
        (("--scorer", "editor", "--metrics", "core"), 2, "--metrics belongs to round trips"),
    ],
)
def test_a_scorer_or_metric_that_is_none_is_refused_before_a_model_is_loaded(
    fails: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], code: int, sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert fails(code, "verify", PROMPT, ANSWER, "--model", "nosuch", *words).startswith(sentence)


def test_the_answer_may_come_from_anywhere(run: Run, fast: Fast, tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text(ANSWER + "\n")
    said = verified(run, PROMPT, ANSWER, *fast)
    assert verified(run, PROMPT, *fast, "--answer", ANSWER) == said
    assert verified(run, PROMPT, *fast, "--answer-file", path) == said
    assert verified(run, PROMPT, *fast, "--answer-file", "-", stdin=ANSWER.encode()) == said
    assert verified(run, PROMPT, "-", *fast, stdin=ANSWER.encode() + b"\r\n") == said


def test_a_task_says_whether_the_answer_is_right(run: Run, model: str, tmp_path: Path) -> None:
    problem = task("choice").problem(2, split="test", level="easy")
    short = ("--model", model, "--metrics", "core", "--trips", "1", "--rebuild-steps", "1")
    words = ("--task", "choice", "--seed", "2", *short)
    answer = f"Answer: {problem.gold}"
    found = verified(run, *words, "--answer", answer)
    assert (found["right"], found["gold"], found["id"]) == (True, problem.gold, problem.id)
    shown = run("verify", *words, "--answer", answer).out
    assert shown.startswith(problem.id)
    assert "(right" in shown


def test_marks_stand_beneath_the_tokens_and_are_explained(
    run: Run, fast: Fast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every token of an answer that a random model cannot rebuild was lost in both trips."""
    monkeypatch.setenv("COLUMNS", "80")
    found = verified(run, PROMPT, ANSWER, *fast, "--mask-ratio", "1")
    lines = run("verify", PROMPT, ANSWER, *fast, "--mask-ratio", "1").out.splitlines()
    assert lines[0].startswith(ANSWER)
    by_mark = {0.0: " ", 0.5: "-", 1.0: "#"}
    marks = "".join(by_mark[drift] for drift in found["drift"][: len(ANSWER)])
    assert "#" in marks
    assert lines[1][: len(ANSWER)] == marks
    assert lines[2] == LEGEND


def test_an_answer_cannot_steer_the_terminal(run: Run, fast: Fast) -> None:
    shown = run("verify", PROMPT, "a\x1b[2Jb\u202ec\rd 5", *fast)
    assert shown.code == 0
    assert "a\\x1b[2Jb\\u202ec\\rd 5" in shown.out
    assert not {"\x1b", "\u202e", "\r"} & set(shown.out)


def test_characters_of_several_tokens_are_shown_whole(run: Run, fast: Fast) -> None:
    assert run("verify", PROMPT, "漢é🦆5", *fast).out.startswith("漢é🦆5")


def test_colour_is_for_terminals_that_want_it(
    run: Run, fast: Fast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31m" in run("verify", PROMPT, ANSWER, *fast).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in run("verify", PROMPT, ANSWER, *fast).out
