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
    lines = run(*("show_every=1" if w == "show_every=0" else w for w in words)).out.splitlines()
    assert lines[0].startswith("update 0/2  validation accuracy 0.0%")
    assert lines[1].lstrip().startswith("countdown/easy/train/0/0  reward ")
    assert "update 1/2  reward " in "\n".join(lines)
    assert lines[-1].startswith("model written to ")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (("--updates", "0"), "updates must be at least 1, got 0"),
        (("--reward", "applause"), "Unknown reward 'applause'. Known: consistency, outcome, ung"),
        (("--reward", "outcom"), "Unknown reward 'outcom'. Did you mean 'outcome'?"),
        (("--reward", "no_module:fn"), "reward 'no_module:fn' cannot be imported"),
        (("--reward", "math:pi"), "reward 'math:pi' must be a function, got float"),
        (("--reward", ":"), "reward ':' cannot be imported"),
        (("--reward", "ungated="), "reward must have weights as in name=0.5, got 'ungated='"),
        (
            ("--reward", "ungated=much"),
            "reward must have weights as in name=0.5, got 'un",
        ),
        (("--reward", "ungated,ungated"), "reward 'ungated' is named twice"),
        (("--reward", "outcome"), "trips requires reward consistency or lexicographic or trusted"),
        (("--set", "metric_weights=nope=1"), "metric_weights must name metrics of the score ("),
        (("--set", "copies=9"), "copies must be at most the number of blocks (4 of 4 tokens on a"),
        (("--task", "golf"), "Unknown task 'golf'"),
        (("--level", "absurd"), "Unknown level of countdown 'absurd'"),
        (
            ("--tuning", "lora", "--set", "lora_targets=o_proj"),
            "lora_targets must be auto or linear layers",
        ),
        (("--set", "colour=red"), "Unknown setting 'colour'."),
        (("--config", "nowhere.yaml"), "cannot use nowhere.yaml: No such file or directory"),
        (("--steps", "3"), "steps must be a multiple of the number of blocks (4), got 3"),
    ],
)
def test_a_mistake_is_one_sentence(
    changes: tuple[str, ...], sentence: str, fails: Callable[..., str], words: tuple[str, ...]
) -> None:
    assert fails(1, *words, *changes).startswith(sentence)
    if changes[0] != "--tuning":  # what layers there are is asked of the model alone
        assert fails(1, *words, *changes, "--dry-run").startswith(sentence)


def test_a_dry_run_refuses_a_folder_of_others(
    fails: Callable[..., str], model: str, tmp_path: Path
) -> None:
    words = ("align", "--model", model, "--task", "gsm8k", "--out", str(tmp_path / "out"),
             "--dry-run")  # fmt: skip
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


def test_a_dry_run_measures_and_writes_nothing(
    run: Run, words: tuple[str, ...], tmp_path: Path
) -> None:
    shown = run(*words, "--dry-run")
    assert shown.code == 0
    assert "rollouts: 2 of 2 completions, 16 tokens in 4 steps" in shown.out
    assert "peak memory" in shown.out
    assert "hours in total, without validation" in shown.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("recipe", "more"), [(RECIPE, ()), (PAPER, ("--metrics", "core"))])
def test_the_recipes_for_8b_pass_a_dry_run_with_a_small_model(
    recipe: Path, more: tuple[str, ...], run: Run, model: str
) -> None:
    told = run(
        "align", "--config", recipe, "--model", model, "--task", "countdown", "--dry-run",
        "--length", "32", "--steps", "4", "--block", "8", "--device", "cpu",
        "--prompts-per-update", "1", "--json", *more,
    )  # fmt: skip
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert found["rollouts"] == 1500
    assert found["measured_completions"] == 8
    assert found["seconds_per_update"].keys() == {"rollout", "score", "update"}


def test_resume_without_a_run_is_a_mistake(
    fails: Callable[..., str], words: tuple[str, ...], tmp_path: Path
) -> None:
    assert "requires a run in" in fails(1, *words, "--resume")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["--updates", "--seed", "--learning-rate", "--trips", "--set"])
@pytest.mark.parametrize("digits", [310, 5000])
def test_a_number_of_many_digits_is_one_sentence(
    flag: str, digits: int, fails: Callable[..., str], words: tuple[str, ...], tmp_path: Path
) -> None:
    value = "lora_rank=" * (flag == "--set") + "9" * digits
    is_read_by_class = flag == "--learning-rate" or (flag == "--set" and digits == 310)
    said = fails(1 if is_read_by_class else 2, *words, flag, value)
    assert any(word in said for word in ("9999", "inf", flag))
    assert not (tmp_path / "out").exists()
