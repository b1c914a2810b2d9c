"""The first call with a greedy model: the command line draws what the library draws."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.load import load
from remask.sampling.sampler import sample
from remask.sampling.settings import sampler_settings
from remask.tasks import task

Run = Callable[..., Any]
Fast = tuple[str, ...]
PROMPT = "Ann has 3 beads. Bo has 2 more. How many has Bo?"
SHORT = ConsistencySettings(trips=2, rebuild_steps=2)


def test_solve_with_default_arguments_is_the_api(run: Run, fast: Fast, model: str) -> None:
    shown = run("solve", PROMPT, *fast, "--threshold", "2", "--json")
    assert shown.code == 0, shown.err
    found = json.loads(shown.out)
    known = api.solve(load(model), PROMPT, settings=SHORT, metrics="core", threshold=2.0)
    assert [a["answer"] for a in found["attempts"]] == [s.text for s, _ in known.attempts]
    assert len({a["answer"] for a in found["attempts"]}) == 10
    sampler = found["sampler"]
    assert (sampler["temperature"], sampler["resample_temperature"]) == (0.0, 0.9)


def test_a_temperature_of_the_users_is_that_of_every_sample(
    run: Run, fast: Fast, model: str
) -> None:
    words = ("--threshold", "2", "--budget", "2", "--temperature", "0.5", "--json")
    found = json.loads(run("solve", PROMPT, *fast, *words).out)
    assert (found["sampler"]["temperature"], found["sampler"]["resample_temperature"]) == (
        0.5,
        None,
    )
    denoiser = load(model)
    warm = replace(denoiser, preset=replace(denoiser.preset, temperature=0.5))  # type: ignore[type-var]
    known = api.solve(warm, PROMPT, settings=SHORT, metrics="core", threshold=2.0, budget=2)
    assert [a["answer"] for a in found["attempts"]] == [s.text for s, _ in known.attempts]


def test_collect_draws_the_greedy_answer_and_warmer_ones(
    run: Run, fast: Fast, model: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    words = ("--task", "wordmath", "--problems", "2", "--samples", "3", "--scored", "0")
    short = ("--length", "16", "--steps", "4")
    assert run("collect", "-o", out, *fast, *words, *short).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    denoiser, family = load(model), task("wordmath")
    usual = replace(
        sampler_settings(denoiser, kind=family.name, canvas=family.canvas_length("")),
        length=16,
        steps=4,
        block=16,
    )
    problems = [family.problem(k, split="test", level="", seed=0) for k in range(2)]
    prompts = [denoiser.tokenizer.render(p.prompt, p.examples) for p in problems]
    for number, temperature in ((0, 0.0), (1, 0.9), (2, 0.9)):
        how = replace(usual, temperature=temperature, resample_temperature=None)
        known = sample(denoiser, prompts, how, items=[p.id for p in problems], number=number)
        assert [r["text"] for r in rows if r["number"] == number] == [s.text for s in known]
    assert len({row["text"] for row in rows[:3]}) == 3
    told = json.loads(Path(f"{out}.manifest.json").read_text())["asked"]["sampler"]
    assert (told["temperature"], told["resample_temperature"]) == (0.0, 0.9)


def test_one_greedy_answer_may_still_be_asked_for(run: Run, fast: Fast, tmp_path: Path) -> None:
    words: tuple[str, ...] = ("--temperature", "0", "--threshold", "0.75")
    assert run("solve", PROMPT, *fast, *words, "--budget", "1").code == 0
    words = ("--task", "wordmath", "--problems", "1", "--temperature", "0", "--steps", "4")
    out = tmp_path / "out.jsonl"
    assert run("collect", "-o", out, *fast, *words, "--length", "16").code == 0


def test_models_tells_how_further_samples_are_drawn(run: Run) -> None:
    found = json.loads(run("models", "GSAI-ML/LLaDA-8B-Instruct", "--json").out)
    assert found["resampling"]["temperature"] == 0.9
    assert "diffu_grpo_config.py" in found["resampling"]["source"]
    assert found["presets"][0]["settings"]["resample_temperature"] == 0.9
    shown = run("models", "GSAI-ML/LLaDA-8B-Instruct").out
    assert "\n  greedy presets: samples after the first at 0.9\n" in shown
    warm = json.loads(run("models", "apple/DiffuCoder-7B-Instruct", "--json").out)
    assert "resample_temperature" not in warm["presets"][0]["settings"]
