"""`--preset`: the authors' decoding on the command line, the same as the API's."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.denoisers import catalog
from remask.denoisers.catalog import find_preset, preset
from remask.denoisers.load import load
from remask.sampling.settings import SamplerSettings

Run = Callable[..., Any]
Fails = Callable[..., str]
Fast = tuple[str, ...]
PROMPT = "Ann has 3 beads. Bo has 2 more. How many has Bo?"
MMLU = "GSAI-ML/LLaDA-8B-Instruct:MMLU"  # three tokens: quick
SHORT = ConsistencySettings(trips=2, rebuild_steps=2)
LIMIT = ("--threshold", "0.75")  # none is known for short round trips


@pytest.fixture
def hub(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that has the random model under every id."""
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: model)


def test_solve_with_a_preset_is_the_api_with_it(run: Run, fast: Fast, model: str) -> None:
    words = ("--preset", MMLU, "--budget", "1", "--json")
    found = json.loads(run("solve", PROMPT, *fast, *LIMIT, *words).out)
    denoiser = load(model, preset=MMLU)
    decision = api.solve(denoiser, PROMPT, settings=SHORT, metrics="core", budget=1, threshold=0.75)
    assert (found["answer"], found["score"]) == (decision.sample.text, decision.score.value)
    assert found["preset"] == MMLU
    settings = SamplerSettings.of(preset("GSAI-ML/LLaDA-8B-Instruct", "MMLU"))
    assert found["sampler"] == asdict(settings.for_pool(1))
    direct = api.solve(
        load(model),
        PROMPT,
        sampler=settings,
        settings=SHORT,
        metrics="core",
        budget=1,
        threshold=0.75,
    )
    assert direct.sample.text == found["answer"]


@pytest.mark.usefixtures("hub")
def test_a_hub_id_has_its_presets_by_their_names_alone(run: Run, fast: Fast) -> None:
    words = ("--model", "GSAI-ML/LLaDA-8B-Instruct", "--preset", "hella", "--budget", "1")
    found = json.loads(run("solve", PROMPT, *fast, *LIMIT, *words, "--json").out)
    assert (found["sampler"]["length"], found["sampler"]["block"]) == (3, 3)


def test_flags_win_over_the_preset(run: Run, fast: Fast) -> None:
    flags = ("--length", "8", "--temperature", "0.5", "--order", "maskgit_plus", "--budget", "1")
    words = ("--preset", MMLU, *flags, "--reveal-threshold", "0.6", "--steps", "4", "--json")
    found = json.loads(run("solve", PROMPT, *fast, *LIMIT, *words).out)["sampler"]
    assert (found["length"], found["block"], found["steps"]) == (8, 8, 4)
    assert (found["temperature"], found["order"]) == (0.5, "maskgit_plus")
    assert found["reveal_threshold"] == 0.6


def test_parallel_decoding_takes_fewer_steps(run: Run, fast: Fast) -> None:
    """The likeliest of 262 tokens has more than 0.0001: one step reveals all 16."""
    words = ("solve", PROMPT, *fast, *LIMIT, "--budget", "1", "--json")
    slow, quick = (
        json.loads(run(*words, *more).out) for more in ((), ("--reveal-threshold", "0.0001"))
    )
    assert slow["forwards"] - quick["forwards"] == 15


def test_a_named_preset_decides_on_the_canvas_of_a_task_too(run: Run, fast: Fast) -> None:
    words = ("solve", "--task", "choice", *fast, *LIMIT, "--budget", "1", "--json")
    assert json.loads(run(*words, "--preset", MMLU).out)["sampler"]["length"] == 3


def test_verify_uses_the_canvas_of_the_preset(run: Run, fast: Fast, model: str) -> None:
    """GPQA writes 64 tokens; the random model's own canvas has 16."""
    name = "GSAI-ML/LLaDA-8B-Instruct:GPQA"
    words = ("verify", PROMPT, "Bo has 5.", *fast, "--json")
    plain, long = (json.loads(run(*words, *more).out) for more in ((), ("--preset", name)))
    assert plain["score"] != long["score"]
    denoiser = load(model, preset=name)
    assert len(api.sample_from_text(denoiser, PROMPT, "Bo has 5.").canvas) == 64
    score = api.score(denoiser, PROMPT, "Bo has 5.", settings=SHORT, metrics="core")
    assert long["score"] == pytest.approx(score.value, abs=1e-9)


def test_score_does_not_mix_two_presets(
    run: Run, fails: Fails, fast: Fast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"prompt": "a", "answer": str(i)}) + "\n" for i in (1, 2)))
    words = ("score", source, "-o", out, *fast, "--batch", "1")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("remask.records.parquet.RowTable.write", stop)
        assert run(*words, "--preset", MMLU).code == 130
    assert "preset was " in fails(1, *words)
    assert run(*words, "--preset", MMLU).code == 0


def test_collect_samples_by_the_preset(run: Run, model: str, tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    words = ("collect", "--model", model, "--task", "choice", "-o", out, "--metrics", "core")
    quick = ("--trips", "1", "--rebuild-steps", "1", "--problems", "1", "--preset", MMLU)
    assert run(*words, *quick).code == 0
    manifest = json.loads((tmp_path / "records.jsonl.manifest.json").read_text())
    assert manifest["asked"]["sampler"]["length"] == 3


@pytest.mark.parametrize("command", ["solve", "verify"])
def test_an_unknown_preset_is_one_sentence_with_the_names(
    command: str, fails: Fails, fast: Fast
) -> None:
    words = (PROMPT,) if command == "solve" else (PROMPT, "5")
    said = fails(1, command, *words, *fast, "--preset", "GSAI-ML/LLaDA-1.5:chess")
    assert "'chess'" in said
    assert "'GSM8K', 'MATH', 'GPQA', 'HumanEval', 'MBPP', 'IFEval'" in said
    assert "no published presets" in fails(1, command, *words, *fast, "--preset", "GSM8K")


def test_unsupported_settings_are_printed_once_on_standard_error(run: Run, fast: Fast) -> None:
    name = "Dream-org/Dream-Coder-v0-Instruct-7B:code"
    words = ("--preset", name, "--length", "4", "--budget", "1", "--json")
    shown = run("solve", PROMPT, *fast, *LIMIT, *words)
    assert shown.code == 0
    assert json.loads(shown.out)["sampler"]["order"] == "entropy"
    told = [line for line in shown.err.splitlines() if "eos_penalty" in line]
    assert told == [f"remask: {find_preset('', name).warning}"]


def test_a_threshold_needs_an_order_that_is_a_probability(fails: Fails, fast: Fast) -> None:
    words = ("--order", "entropy", "--reveal-threshold", "0.9", "--budget", "1")
    assert "reveal_threshold compares probabilities" in fails(
        1, "solve", PROMPT, *fast, *LIMIT, *words
    )


def test_an_early_commit_saves_forwards_and_needs_an_order_that_looks(
    run: Run, fails: Fails, fast: Fast
) -> None:
    words = ("solve", PROMPT, *fast, *LIMIT, "--length", "4", "--budget", "1")
    plain, early = (
        json.loads(run(*words, *gap, "--json").out) for gap in ((), ("--commit-gap", "0.000001"))
    )
    assert plain["sampler"]["commit_gap"] is None
    assert early["sampler"]["commit_gap"] == 0.000001
    assert early["forwards"] < plain["forwards"]
    said = fails(1, *words, "--commit-gap", "5", "--order", "random")
    assert said.startswith("commit_gap stops when predictions are sure")


def test_models_shows_every_preset(run: Run) -> None:
    found = json.loads(run("models", "GSAI-ML/LLaDA-1.5", "--json").out)["presets"]
    checkpoint = catalog.find("GSAI-ML/LLaDA-1.5")
    assert checkpoint is not None
    assert [p["task"] for p in found] == [p.task for p in checkpoint.presets]
    assert (found[0]["settings"]["block"], found[0]["settings"]["ends_last"]) == (16, True)
    assert found[0]["unsupported"] == {}
    shown = run("models", "GSAI-ML/LLaDA-8B-Instruct").out
    assert "    length=512 steps=512 block=64 temperature=0.0 resample" in shown
    assert "suppress_eos=True" in shown
    coder = run("models", "Dream-org/Dream-Coder-v0-Instruct-7B").out
    assert "    unsupported: eos_penalty=3.0\n" in coder
    assert shown.endswith("\n--preset NAME asks for one; accuracies are their authors' own\n")
