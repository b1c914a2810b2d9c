"""The loop as a whole: that it learns, that it goes on where it was stopped, that it is one."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import remask
from remask.align import checkpoint, lora, trainer, update
from remask.align.collapse_guard import Collapse
from remask.align.policy import load_policy, trained
from remask.align.rollout import Prompts
from remask.align.settings import AlignSettings, as_yaml, check_settings
from remask.align.trainer import align, rate_at
from remask.errors import ExtensionError, InputError, RecordError, SettingsError, WriteError
from remask.records.lock import locked

Settings = Callable[..., AlignSettings]
Train = Callable[..., list[dict[str, Any]]]
Same = Callable[[Path, Path], None]
GoesOn = Callable[[AlignSettings], None]
METHODS = {
    "spg": {"reward": "ungated,toy_rewards:low_ids=0.5"},
    "spg-lora": {"tuning": "lora"},
    "diffu_grpo": {"method": "diffu_grpo", "inner_updates": 3, "updates": 9},
    "diffu_grpo-lora": {"method": "diffu_grpo", "tuning": "lora"},
    "sft": {"method": "sft", "length": 96, "block": 48},
}
PASSING = {"time/rollout", "time/score", "time/update", "memory/peak_gb", "eta_s"}


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the log without what no two runs share."""
    lines = (out / "log.jsonl").read_text("utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in PASSING} for line in lines]


@pytest.fixture
def goes_on(train: Train, same_state: Same, tmp_path: Path) -> GoesOn:
    """Resume a run; assert that it ends as one that was never interrupted."""

    def check(s: AlignSettings) -> None:
        train(s, resume=True)
        whole = replace(s, out=tmp_path / "whole")
        train(whole)
        same_state(s.out, whole.out)

    return check


class Stop(Exception):
    """What ends a run from outside."""


@pytest.mark.parametrize("name", METHODS)
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(
    name: str, settings: Settings, train: Train, same_state: Same, tmp_path: Path
) -> None:
    whole = settings(out=tmp_path / "whole", **METHODS[name])
    train(whole)
    parted = replace(whole, out=tmp_path / "parted")

    def stop(row: dict[str, Any]) -> None:
        if row.get("step", 0) > whole.updates - 2:
            raise Stop

    with pytest.raises(Stop):
        align(parted, stop)
    rows = train(parted, resume=True)
    assert 0 < rows[0]["resumed"] < whole.updates
    same_state(whole.out, parted.out)
    assert rows_of(whole.out) == rows_of(parted.out)


def test_a_run_whose_time_is_over_leaves_a_checkpoint_and_goes_on(
    settings: Settings, goes_on: GoesOn
) -> None:
    """Time is over at the second question, after four of six updates."""
    s, over = settings(checkpoint_every=100, eval_every=0), iter([False, True])
    align(s, lambda row: None, is_over=lambda: next(over))
    assert checkpoint.folder_of(s.out).last() == s.out / "checkpoint-000004"
    assert not (s.out / "final").exists()
    goes_on(s)


def test_a_toy_reward_rises_within_a_few_updates(settings: Settings, train: Train) -> None:
    """Half of all tokens pay: the mean reward begins near one half."""
    rows = train(
        settings(updates=24, inner_updates=1, prompts_per_update=4,
                 num_generations=8, learning_rate=1e-2, max_grad_norm=1.0, eval_every=0,
                 checkpoint_every=24)
    )  # fmt: skip
    rewards = [row["reward"] for row in rows if "reward" in row]
    assert sum(rewards[-4:]) / 4 > sum(rewards[:4]) / 4 + 0.1


def test_the_log_has_the_names_of_trl_and_our_own(settings: Settings, train: Train) -> None:
    rows = train(settings(reward="ungated", show_every=1))
    first = next(row for row in rows if "loss" in row)
    assert {
        "reward", "reward_std", "frac_reward_zero_std", "rewards/ungated/mean",
        "rewards/ungated/std", "completions/mean_length", "completions/min_length",
        "completions/max_length", "completions/clipped_ratio", "entropy", "loss", "grad_norm",
        "learning_rate", "num_tokens", "bmc/alpha", "bmc/score", "spg/mask_ratio", "spg/gap",
        "spg/nan_skipped", "time/rollout", "time/score", "time/update", "memory/peak_gb", "eta_s",
    } <= first.keys()  # fmt: skip
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["bmc/alpha"] for row in rows if "bmc/alpha" in row] == pytest.approx(
        [0.5, 0.5 + 0.5 * 2 / 6, 0.5 + 0.5 * 4 / 6]
    )
    assert sum("completion" in row for row in rows) == 6  # two of each of the three rollouts


def test_what_comes_out_loads_and_says_what_the_policy_says(
    settings: Settings, train: Train, fill_adapters: Callable[[Any, Path], None]
) -> None:
    s = settings(tuning="lora", learning_rate=1e-2, eval_every=0)
    train(s)
    plain = remask.load(s.out / "best", device="cpu")
    start = load_policy(s)
    fill_adapters(start.model, s.out / "best" / "adapter")
    tokens = torch.arange(10, 40)[None]
    told, wanted = plain.model(tokens), start.model(tokens)
    torch.testing.assert_close(told, wanted)
    with lora.without_adapters(start.model):
        assert not torch.allclose(start.model(tokens), wanted, atol=1e-4)


def poisoned(monkeypatch: pytest.MonkeyPatch, calls: range) -> None:
    """Make some calls for log-probabilities return NaN; those without gradients do not count."""
    plain, count = update.log_probs, iter(range(10**6))

    def log_probs(*args: Any) -> torch.Tensor:
        found = plain(*args)
        return found * torch.nan if found.requires_grad and next(count) in calls else found

    monkeypatch.setattr(update, "log_probs", log_probs)


def test_a_batch_with_nan_is_skipped_and_counted(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch, state_of: Any
) -> None:
    """6 rows in micro-batches of 4, 2 copies: 4 calls an update; calls 4 to 7 are update 2."""
    poisoned(monkeypatch, range(4, 8))
    s = settings()
    rows = [row for row in train(s) if "loss" in row]
    assert [row["spg/nan_skipped"] for row in rows] == [0, 1, 1, 1, 1, 1]
    assert rows[1]["loss"] is None
    assert all(row["loss"] is not None for row in rows[2:])
    weights = state_of(s.out)["weights"]
    assert all(bool(torch.isfinite(value).all()) for value in weights.values())


def test_many_such_batches_in_a_row_end_the_run_and_leave_a_good_checkpoint(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch, goes_on: GoesOn
) -> None:
    s = settings(max_skipped=2)
    with monkeypatch.context() as patched:
        poisoned(patched, range(8, 10**6))
        with pytest.raises(Collapse, match=r"2 consecutive updates \(update 4: .*kernels: .*math"):
            train(s)
    assert checkpoint.folder_of(s.out).last() == s.out / "checkpoint-000002"
    goes_on(s)


def test_a_collapsed_reward_ends_the_run(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = settings(collapse_window=1, updates=8)
    plain, told = trainer.summary, iter([1.0, 1.0, 0.1, 1.0])
    monkeypatch.setattr(trainer, "summary", lambda rows: {**plain(rows), "reward": next(told)})
    with pytest.raises(Collapse, match=r"collapse at update 6: .*mean reward is 0.1"):
        train(s)
    assert checkpoint.folder_of(s.out).last() == s.out / "checkpoint-000004"


def test_a_reward_that_raises_is_named_and_the_run_can_go_on(
    settings: Settings, train: Train, goes_on: GoesOn
) -> None:
    s = settings(reward="toy_rewards:failing")
    with pytest.raises(
        ExtensionError, match="reward 'failing' failed with ZeroDivisionError: no rea"
    ):
        train(s)
    assert checkpoint.folder_of(s.out).last() == s.out / "checkpoint-000004"
    goes_on(s)  # the third call of the reward is past


def test_a_full_disk_leaves_the_last_checkpoint_as_it_was(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch, goes_on: GoesOn
) -> None:
    s, times = settings(), iter(range(10))

    def save(state: Any, path: Path, plain: Any = torch.save) -> None:
        if next(times) == 1:
            path.write_bytes(b"half of it")
            raise OSError(28, "No space left on device")
        plain(state, path)

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", save)
        wanted = (
            r"No space left on device\. Free some space and resume: checkpoint-000002 is intact"
        )
        with pytest.raises(WriteError, match=wanted):
            train(s)
    assert [p.name for p in s.out.glob("checkpoint*")] == ["checkpoint-000002"]
    goes_on(s)


def test_a_full_disk_leaves_the_best_model_as_it_was(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = settings()
    train(s)
    before = (s.out / "best" / "model.safetensors").read_bytes()

    def save(folder: Path, *args: Any, **named: Any) -> None:
        (folder / "model.safetensors").write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save", save)
    with pytest.raises(WriteError, match=r"Cannot write .*best: No space left"):
        checkpoint.save_model(load_policy(s), s, "best", update=6)
    assert (s.out / "best" / "model.safetensors").read_bytes() == before
    assert not list(s.out.glob("*.part"))


def command(s: AlignSettings, path: Path) -> list[str]:
    path.write_text(as_yaml(s), "utf-8")
    return [sys.executable, "-m", "remask.cli", "align", "--config", str(path)]


def environment(toy: Path, **more: str) -> dict[str, str]:
    known = {k: v for k, v in os.environ.items() if k != "DEADLY"}
    source = Path(remask.__file__).parents[1]  # of the package under test, installed or not
    paths = os.pathsep.join((str(toy), str(source)))
    return {**known, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **more}


def test_a_killed_process_leaves_a_run_that_goes_on(
    settings: Settings, toy: Path, tmp_path: Path, goes_on: GoesOn
) -> None:
    s = settings(reward="toy_rewards:deadly")
    words = command(s, tmp_path / "run.yaml")
    done = subprocess.run(
        words, env=environment(toy, DEADLY="1"), capture_output=True, timeout=600, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert checkpoint.folder_of(s.out).last() == s.out / "checkpoint-000004"
    goes_on(s)
    assert rows_of(s.out) == rows_of(tmp_path / "whole")


def start_two(words: list[str], toy: Path, **of_second: str) -> list["subprocess.Popen[bytes]"]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(toy, RANK=str(rank), LOCAL_RANK=str(rank), **shared, **more),
        )
        for rank, more in enumerate(({}, of_second))
    ]  # fmt: skip


def same_weights(state_of: Any, a: Path, b: Path) -> None:
    ours, theirs = state_of(a)["weights"], state_of(b)["weights"]
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(theirs[name], value, atol=1e-5, rtol=0)


def test_two_processes_go_on_from_one_and_learn_what_one_does(
    settings: Settings, train: Train, toy: Path, tmp_path: Path, state_of: Any, deep: Path
) -> None:
    """The weights of three blocks are divided among the two, what one has saved included."""
    s = settings(model=str(deep), reward="ungated,toy_rewards:low_ids", out=tmp_path / "two",
                 eval_problems=3, alpha_min=1.0, alpha_max=1.0)  # fmt: skip
    train(replace(s, updates=2))
    running = start_two(command(s, tmp_path / "run.yaml"), toy)
    told = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0, 0], told
    assert told[0][0].startswith(b"resumed at update 2")
    assert not told[1][0].strip(), "only the first process speaks"
    one = replace(s, out=tmp_path / "one")
    train(one)
    same_weights(state_of, one.out, s.out)
    ours = state_of(one.out)["weights"]
    start = {n: p.detach() for n, p in trained(load_policy(s)).items()}
    assert max(float((ours[n] - start[n]).abs().max()) for n in ours) > 1e-3
    for a, b in zip(rows_of(one.out), rows_of(s.out), strict=True):
        assert a.keys() == b.keys()
        assert all(b[k] == pytest.approx(v, abs=1e-5) for k, v in a.items() if k != "max_steps")
    tokens = torch.arange(10, 40)[None]
    saved = [remask.load(out / "final", device="cpu").model(tokens) for out in (one.out, s.out)]
    torch.testing.assert_close(*saved, atol=1e-4, rtol=0)


def test_a_killed_worker_is_missed_in_one_sentence_and_one_process_goes_on(
    settings: Settings, train: Train, toy: Path, tmp_path: Path, state_of: Any, deep: Path
) -> None:
    s = settings(model=str(deep), reward="toy_rewards:deadly")
    running = start_two(command(s, tmp_path / "run.yaml"), toy, DEADLY="1")
    told = [process.communicate(timeout=600) for process in running]
    assert running[1].returncode == -signal.SIGKILL
    assert running[0].returncode == 1
    last = told[0][1].decode().strip().splitlines()[-1]
    assert last.startswith("remask: Rank 0 of 2 lost contact with another rank"), told[0][1]
    assert last.endswith("Restart all ranks with --resume.")
    assert checkpoint.folder_of(s.out).last() == s.out / "checkpoint-000004"
    assert train(s, resume=True)[0] == {"resumed": 4}
    whole = replace(s, out=tmp_path / "whole")
    train(whole)
    same_weights(state_of, whole.out, s.out)


def test_a_run_is_not_continued_with_other_settings(settings: Settings, train: Train) -> None:
    s = settings(updates=2)
    train(s)
    with pytest.raises(SettingsError, match=r"Cannot resume .*: seed was 0, got 5"):
        train(replace(s, seed=5))
    assert "seed: 0" in (s.out / "settings.yaml").read_text(), "a refused run changes nothing"
    before = (s.out / "settings.yaml").read_bytes()
    assert train(s)[0] == {"resumed": 2}
    assert (s.out / "settings.yaml").read_bytes() == before
    train(replace(s, learning_rate=1e-4), resume=True)


def test_resume_requires_a_run(settings: Settings, train: Train, toy: Path) -> None:
    """A run that was killed before its first checkpoint is one, and starts at update 0."""
    s = settings(updates=2)
    with pytest.raises(SettingsError, match=r"requires a run in .*out, found none"):
        train(s, resume=True)
    assert not s.out.exists()

    def stop(row: dict[str, Any]) -> None:
        raise Stop

    with pytest.raises(Stop):
        align(replace(s, seed=5), stop)
    assert checkpoint.folder_of(s.out).last() is None
    assert [row["step"] for row in train(s, resume=True) if "step" in row] == [0, 1, 2, 2]
    assert [row["step"] for row in rows_of(s.out)] == [0, 1, 2, 2]


def test_changed_weights_of_the_initial_model_are_refused(
    settings: Settings, train: Train, model: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(model, source)
    s = settings(model=str(source), updates=2)
    train(s)
    weights = source / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(SettingsError, match=r"Cannot resume .*: weights was '"):
        train(s)


def test_a_second_process_is_refused(settings: Settings, train: Train) -> None:
    s = settings(updates=2)
    with locked(s.out), ThreadPoolExecutor(1) as other:
        refused = other.submit(train, s)
        with pytest.raises(RecordError, match=rf"in use by process {os.getpid()} \("):
            refused.result()
    assert not s.out.exists()


def test_all_ranks_end_with_the_reason_why_the_first_one_was_refused(
    settings: Settings, toy: Path, tmp_path: Path
) -> None:
    s = settings()
    with locked(s.out):
        running = start_two(command(s, tmp_path / "run.yaml"), toy)
        told = [process.communicate(timeout=600)[1].decode() for process in running]
    assert [process.returncode for process in running] == [1, 1], told
    assert all(f"in use by process {os.getpid()} (" in text for text in told)
    assert not s.out.exists()


def test_the_best_model_is_the_one_of_the_best_validation(
    settings: Settings, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Validations at 0, 2, 4 and 6 updates say 0, 1/2, 1/2 and 0 of two: the second is kept."""
    s = settings()
    told = iter([False, False, True, False, False, True, False, False])
    task = Prompts(s).task
    monkeypatch.setattr(type(task), "grade", lambda self, problem, text: next(told))
    kept: list[int] = []
    plain = checkpoint.save_model

    def save_model(*args: Any, **named: Any) -> Path:
        kept.append(len(rows))
        return plain(*args, **named)

    monkeypatch.setattr(checkpoint, "save_model", save_model)
    rows: list[dict[str, Any]] = []
    align(s, rows.append)
    assert [r["eval/accuracy"] for r in rows if "eval/accuracy" in r] == [0.0, 0.5, 0.5, 0.0]
    place = checkpoint.folder_of(s.out).read(s.out / "checkpoint-000006")["place"]
    assert (place["best"], place["best_update"]) == (0.5, 2)
    assert [rows[num - 1]["step"] for num in kept] == [0, 2, 6]  # start, best, final


def test_the_schedule_is_warm_up_and_then_what_was_asked(settings: Settings) -> None:
    """Warm-up 2 of 6: 1/2, 1; linear over the other 4: 1, 3/4, 1/2, 1/4; the cosine's middle."""
    linear = settings(warmup=2, schedule="linear")
    assert [rate_at(u, linear) for u in range(6)] == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    assert rate_at(4, settings(warmup=2, schedule="cosine")) == pytest.approx(0.5)
    assert rate_at(5, settings()) == 1.0


def test_copies_for_which_there_are_no_blocks_are_refused_at_once(
    settings: Settings, train: Train
) -> None:
    with pytest.raises(SettingsError, match=r"number of blocks \(4 of 4 tokens.*got 5"):
        train(settings(copies=5))


def test_a_gold_solution_that_does_not_fit_is_named(settings: Settings, train: Train) -> None:
    with pytest.raises(InputError, match=r"length must be .* of countdown/easy/train/0/0, got"):
        train(settings(method="sft"))


def test_the_settings_of_a_run_are_written_beside_it(settings: Settings, train: Train) -> None:
    import yaml

    s = settings(updates=2)
    train(s)
    assert check_settings(yaml.safe_load((s.out / "settings.yaml").read_text())) == s
