"""`remask solve`: the same decisions as the API's, told as they come."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.load import load
from remask.sampling.settings import SamplerSettings
from remask.tasks import task
from remask.verifier.threshold import NO_THRESHOLD, PAPER

Run = Callable[..., Any]
Fast = tuple[str, ...]
PROMPT = "Ann has 3 beads. Bo has 2 more. How many has Bo?"
SHORT = ConsistencySettings(trips=2, rebuild_steps=2)
LIMIT = ("--threshold", "0.75")  # none is known for short round trips


def test_json_holds_the_decision_of_the_api(run: Run, fast: Fast, model: str) -> None:
    shown = run(
        "solve", PROMPT, *fast, *LIMIT, "--temperature", "0.8", "--budget", "3", "--seed", "5",
        "--json",
    )  # fmt: skip
    found = json.loads(shown.out)
    denoiser = load(model)
    decision = api.solve(
        denoiser, PROMPT, settings=SHORT, metrics="core", budget=3, seed=5, threshold=0.75,
        sampler=replace(SamplerSettings.of(denoiser.preset), temperature=0.8),
    )  # fmt: skip
    assert (found["answer"], found["action"]) == (decision.sample.text, decision.action)
    assert found["reason"] == decision.reason
    assert found["score"] == pytest.approx(decision.score.value, abs=1e-6)
    assert found["forwards"] == decision.forwards
    assert [a["answer"] for a in found["attempts"]] == [s.text for s, _ in decision.attempts]
    assert sum(a["forwards"] for a in found["attempts"]) == decision.forwards
    assert found["settings"] == {
        "mask_ratio": 0.9, "mask_design": "independent", "tail": "masked", "trips": 2,
        "rebuild_steps": 2, "rebuild_temperature": 0.0, "metrics": "core", "kind": "number",
    }  # fmt: skip


@pytest.mark.parametrize("edit", [0.9, 0.0])
def test_editing_is_that_of_the_api(run: Run, fast: Fast, model: str, edit: float) -> None:
    """A random model is never sure: at 0.9 one token a pass, 16, then 1 that edits nothing.

    Verifying takes 2 x 2 forwards more. At 0 whatever it would rather write is written, so that it
    reads its answer several times.
    """
    words = ("--edit-threshold", edit, "--reveal-threshold", "0.9", "--budget", "1", "--json")
    found = json.loads(run("solve", PROMPT, *fast, *LIMIT, *words).out)
    denoiser = load(model)
    sampler = replace(
        SamplerSettings.of(denoiser.preset), reveal_threshold=0.9, edit_threshold=edit
    )
    decision = api.solve(
        denoiser, PROMPT, settings=SHORT, metrics="core", budget=1, sampler=sampler, threshold=0.75
    )
    assert (found["answer"], found["forwards"]) == (decision.sample.text, decision.forwards)
    assert found["sampler"]["edit_threshold"] == edit
    assert (found["forwards"] == 17 + 4) == (edit == 0.9)


def test_editing_without_a_threshold_to_reveal_by_is_refused(
    fails: Callable[..., str], fast: Fast
) -> None:
    told = fails(1, "solve", PROMPT, *fast, *LIMIT, "--edit-threshold", "0.9")
    assert told == "editing needs a reveal_threshold; 0.95 is LLaDA2.1's."


def test_attempts_answer_and_cost_are_shown(run: Run, fast: Fast) -> None:
    """Two attempts on a canvas of 16: 2 x 16 forwards to write, 2 x 2 x 2 to verify, 40 in all."""
    words = ("--temperature", "1", "--budget", "2", "--threshold", "1.1")
    shown = run("solve", PROMPT, *fast, *words)
    assert shown.code == 0
    assert "attempt 1 " in shown.out
    assert "attempt 2 " in shown.out
    assert shown.out.count("not above 1.1") == 2
    assert "fallback: no sample of 2 scored above 1.1" in shown.out
    assert "cost: 40 forwards, 32 to write and 8 to verify" in shown.out


def test_the_first_answer_above_the_threshold_is_accepted(run: Run, fast: Fast) -> None:
    shown = run("solve", PROMPT, *fast, "--temperature", "1", "--threshold", "-1")
    assert "above -1, accepted" in shown.out
    assert "attempt 2" not in shown.out


def test_another_scorer_needs_a_threshold_of_its_own(
    run: Run, fails: Callable[..., str], model: str, tmp_path: Path
) -> None:
    """0.75 is for round trips; a model's file may have one for each scorer."""
    words = ("solve", PROMPT, "--scorer", "editor", "--temperature", "1", "--budget", "2")
    assert fails(1, *words, "--model", model).startswith(NO_THRESHOLD)
    found = json.loads(run(*words, "--model", model, "--threshold", "-1", "--json").out)
    assert (found["scorer"], found["action"], found["threshold"]) == ("editor", "accept", -1)
    assert (found["threshold_source"], found["verdict"]) == ("given", "trust")
    folder = tmp_path / "known"
    shutil.copytree(model, folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"threshold": {"editor": 1.5}}))
    found = json.loads(run(*words, "--model", folder, "--json").out)
    assert (found["action"], found["threshold"], len(found["attempts"])) == ("fallback", 1.5, 2)
    assert (found["threshold_source"], found["verdict"]) == ("preset", "doubt")
    assert fails(1, *words, "--model", folder, "--kind", "choice").startswith(NO_THRESHOLD)


def test_default_round_trips_stop_by_the_paper_s_threshold_without_a_verdict(
    run: Run, model: str
) -> None:
    words = ("solve", PROMPT, "--model", model, "--budget", "1")
    found = json.loads(run(*words, "--json").out)
    assert (found["threshold"], found["threshold_source"]) == (0.75, PAPER)
    assert (found["verdict"], found["trusted"]) == ("unknown", None)
    assert f"threshold 0.75: {PAPER}" in run(*words).out


def test_a_task_draws_the_problem_of_that_number_and_grades_the_answer(
    run: Run, fast: Fast
) -> None:
    problem = task("choice").problem(3, split="test", level="easy")
    words = ("--task", "choice", "--level", "easy", "--seed", "3", "--budget", "1")
    model = ("--length", "8")
    found = json.loads(run("solve", *words, *fast, *LIMIT, *model, "--json").out)
    assert (found["prompt"], found["id"], found["gold"]) == (
        problem.prompt,
        problem.id,
        problem.gold,
    )
    assert found["right"] is False  # a random model has no clue
    assert found["settings"]["kind"] == "choice"
    shown = run("solve", *words, *fast, *LIMIT, *model).out
    assert problem.id in shown
    assert f"(wrong, it is {problem.gold})" in shown


def test_another_length_keeps_one_token_a_step_and_one_block(run: Run, fast: Fast) -> None:
    fast = (*fast, *LIMIT)
    found = json.loads(run("solve", PROMPT, *fast, "--budget", "1", "--length", "24", "--json").out)
    sampler = found["sampler"]
    assert (sampler["length"], sampler["steps"], sampler["block"]) == (24, 24, 24)
    found = json.loads(
        run("solve", PROMPT, *fast, "--budget", "1", "--steps", "4", "--block", "8", "--json").out
    )
    sampler = found["sampler"]
    assert (sampler["length"], sampler["steps"], sampler["block"]) == (16, 4, 8)


def test_the_mask_ratio_may_be_uniform(run: Run, fast: Fast) -> None:
    words = ("--mask-ratio", "uniform", "--budget", "1", "--json")
    assert (
        json.loads(run("solve", PROMPT, *fast, *LIMIT, *words).out)["settings"]["mask_ratio"]
        == "uniform"
    )
