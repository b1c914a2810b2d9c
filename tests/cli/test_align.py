"""`remask align`: one sentence for a mistake, a dry run that trains nothing, a run that does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import remask

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "examples" / "align-llada-8b-gsm8k.yaml"
PAPER = ROOT / "examples" / "align-llada-8b-gsm8k-paper.yaml"
LLADA_8B = {
    "architectures": ["LLaDAModelLM"], "d_model": 4096, "n_layers": 32, "n_heads": 32,
    "n_kv_heads": 32, "mlp_hidden_size": 12288, "vocab_size": 126464,
    "max_sequence_length": 4096,
}  # fmt: skip


@pytest.fixture
def words(model: str, tmp_path: Path) -> tuple[str, ...]:
    """A training of two updates."""
    return (
        "align", "--model", model, "--task", "countdown", "--out", str(tmp_path / "out"),
        "--tuning", "full", "--reward", "ungated", "--metrics", "core", "--updates", "2",
        "--prompts-per-update", "1", "--num-generations", "2", "--inner-updates", "1",
        "--length", "16", "--steps", "4", "--block", "4", "--trips", "2", "--rebuild-steps", "2",
        "--eval-problems", "2", "--device", "cpu", "--set", "show_every=0",
        "--track", "none",
    )  # fmt: skip


def test_a_training_is_told_line_by_line_and_its_model_loads(
    run: Run, words: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(*words, "--json")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["step"] for row in rows[:-1]] == [0, 1, 2, 2]
    assert rows[-1] == {"model": str(tmp_path / "out" / "best")}
    assert remask.load(tmp_path / "out" / "best").preset.length == 16
    assert "curves drawn in" in done.err
    assert (tmp_path / "out" / "curves.svg").is_file()
    again = run(*words, "--resume")
    assert again.out.splitlines()[0] == "resumed at update 2"


def test_sentences_say_what_json_does(run: Run, words: tuple[str, ...]) -> None:
    lines = run(*words, "--set", "show_every=1").out.splitlines()
    assert lines[0].startswith("update 0/2  validation accuracy 0.0%")
    assert lines[1].lstrip().startswith("countdown/easy/train/0/0  reward ")
    assert "update 1/2  reward " in "\n".join(lines)
    assert lines[-1].startswith("model written to ")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (("--updates", "0"), "updates is 0; give a whole number at least 1"),
        (("--reward", "applause"), "reward 'applause' is unknown; use consistency, outcome, ung"),
        (("--reward", "outcom"), "reward 'outcom' is unknown; use outcome."),
        (("--reward", "no_module:fn"), "reward 'no_module:fn' cannot be imported"),
        (("--reward", "math:pi"), "reward 'math:pi' is float, not a function"),
        (("--reward", ":"), "reward ':' cannot be imported"),
        (("--reward", "ungated="), "reward 'ungated=' has no number for a weight"),
        (("--reward", "ungated=much"), "reward 'ungated=much' has no number for a weight"),
        (("--reward", "ungated,ungated"), "reward 'ungated' is named twice"),
        (
            ("--reward", "outcome"),
            "trips 2 belongs to reward consistency, lexicographic, trusted, ",
        ),
        (("--set", "metric_weights=nope=1"), "metric_weights name 'nope', which is no metric of "),
        (("--set", "copies=9"), "copies 9 is more than the 4 blocks of 4 tokens on a canvas of 1"),
        (("--task", "golf"), "task 'golf' is unknown"),
        (("--level", "absurd"), "level 'absurd' of task 'countdown' is unknown"),
        (("--tuning", "lora", "--set", "lora_targets=o_proj"), "lora_targets o_proj matches no "),
        (("--set", "colour=red"), "colour is no setting; there are model, task"),
        (("--config", "nowhere.yaml"), "config nowhere.yaml cannot be read"),
        (("--steps", "3"), "steps 3 is no multiple of the 4 blocks"),
    ],
)
def test_a_mistake_is_one_sentence(
    changes: tuple[str, ...], sentence: str, fails: Callable[..., str], words: tuple[str, ...]
) -> None:
    assert fails(1, *words, *changes).startswith(sentence)
    if changes[0] != "--tuning":  # what layers there are is asked of the model alone
        assert fails(1, *words, *changes, "--dry-run").startswith(sentence)


def test_a_dry_run_refuses_an_oracle_of_a_benchmark_and_an_unfair_share(
    fails: Callable[..., str], model: str, tmp_path: Path
) -> None:
    words = ("align", "--model", model, "--task", "gsm8k", "--out", str(tmp_path / "out"),
             "--dry-run")  # fmt: skip
    assert fails(1, *words, "--reward", "oracle").startswith("reward 'oracle' needs labels of ste")
    said = fails(1, *words, "--reward", "outcome", "--processes", "3")
    assert said.startswith("prompts_per_update 16 is no multiple of the 3 processes")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "note.txt").touch()
    assert "holds note.txt, which is not of this run" in fails(1, *words, "--reward", "outcome")


def test_a_setting_is_given_once(fails: Callable[..., str], words: tuple[str, ...]) -> None:
    said = fails(2, *words, "--set", "task=nope")
    assert "task is given by --task and by --set task=nope; give it once" in said


def test_a_module_that_fails_to_load_is_told_in_one_sentence(
    fails: Callable[..., str], words: tuple[str, ...], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_reward.py").write_text("def fn(:\n")
    said = fails(1, *words, "--reward", "broken_reward:fn", "--dry-run")
    assert said.startswith("reward 'broken_reward:fn' cannot be imported (SyntaxError: ")


def test_a_setting_without_a_value_is_a_mistake_of_usage(
    fails: Callable[..., str], words: tuple[str, ...]
) -> None:
    assert "'renyi_order' has no value" in fails(2, *words, "--set", "renyi_order")


def test_a_dry_run_trains_nothing(run: Run, words: tuple[str, ...], tmp_path: Path) -> None:
    shown = run(*words, "--dry-run")
    assert shown.code == 0
    assert "forward passes of a row per update, at most: rollout 8, score 8" in shown.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("recipe", "score", "preview"), [(RECIPE, 128 * 4 / 4, 0.0), (PAPER, 2048.0, 256.0)]
)
def test_the_recipes_for_8b_pass_their_dry_runs(
    recipe: Path, score: float, preview: float, run: Run, tmp_path: Path
) -> None:
    """8.02 B weights of 2 bytes; 128 completions of 128 steps, 4 updates each: 4,096 passes.

    Adapters of rank 128 on 32 blocks: 128 x (4096 + 12288 + 2 x 4096 + 4096 + 24576 + 12288 +
    4096) = 8,912,896 a block, 285 M in all. The stable one raises alone, which needs no preview,
    and the start that scores needs no weights of its own.
    """
    (tmp_path / "config.json").write_text(json.dumps(LLADA_8B))
    told = run(
        "align", "--config", recipe, "--model", tmp_path, "--dry-run", "--processes", "8",
        "--device", "cpu", "--json",
    )  # fmt: skip
    found = json.loads(told.out)
    assert found["parameters"] == pytest.approx(8.016e9, rel=1e-3)
    assert found["memory_gb"]["weights"] == pytest.approx(16.03, abs=0.01)
    assert found["trained"] == 32 * 128 * 69632
    assert found["rollouts"] == 1500
    assert found["forwards_per_update"] == {
        "rollout": 4096.0, "score": score, "preview": preview, "update": 256.0,
    }  # fmt: skip
    assert found["memory_gb"]["total"] < 80
    assert found["gpus_needed"] == {"24": None, "80": 1, "141": 1}
    assert 10 < found["hours"] < 1000


def test_full_training_of_8b_says_how_many_gpus_it_needs(run: Run, tmp_path: Path) -> None:
    """8.016 B weights x (4 + 4 + 8) bytes / n, a copy of 16.0 GB, 13.5 GB whole at once, 27.5 GB
    of activations and logits: 57.1 + 128.3 / n is below 72 for 16 of 80 GB, below 126.9 for 2.

    Scored by the start, each has 16.0 GB more: too much for 80 GB, and below 126.9 for 4. Held to
    it, 32.1 GB, once, though the start scores as well.
    """
    (tmp_path / "config.json").write_text(json.dumps(LLADA_8B))
    words = ("align", "--model", tmp_path, "--dry-run", "--tuning", "full", "--device", "cpu")
    plan = json.loads(run(*words, "--config", PAPER, "--processes", "8", "--json").out)
    assert plan["gpus_needed"] == {"24": None, "80": 16, "141": 2}
    assert plan["memory_gb"]["total"] == pytest.approx(57.1 + 128.3 / 8, abs=0.1)
    said = run(*words, "--config", PAPER).out
    assert "GPUs that it needs: no number of 24 GB, 16 of 80 GB, 2 of 141 GB" in said
    start = ("--set", "start_kl=0.05")
    held = json.loads(run(*words, "--config", RECIPE, *start, "--processes", "8", "--json").out)
    assert held["gpus_needed"] == {"24": None, "80": None, "141": 4}
    assert held["memory_gb"]["total"] == pytest.approx(89.2 + 128.3 / 8, abs=0.1)
    scored = json.loads(run(*words, "--config", RECIPE, "--processes", "8", "--json").out)
    assert scored["gpus_needed"] == {"24": None, "80": None, "141": 4}
    assert scored["memory_gb"]["total"] == pytest.approx(73.1 + 128.3 / 8, abs=0.1)
