"""The dry run: what it measures, and that it leaves nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remask.align import timing
from remask.align.policy import load_policy, trained
from remask.align.settings import AlignSettings
from remask.align.train_log import Row
from remask.align.trainer import AlignTrainer
from remask.errors import RecordError

Settings = Callable[..., AlignSettings]


def test_seconds_are_those_of_the_second_rollout_times_the_prompts(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A micro-batch of 4 is filled by 2 of 6 prompts with 3 completions: a factor of 3.

    Rollout 8 s and score 2 s for two updates of 5 s and 7 s: 3 (4 + 1 + 6) = 33 s an update.
    """
    rounds = iter([(100.0, 100.0, 100.0, 100.0), (8.0, 2.0, 5.0, 7.0)])

    def timed(trainer: AlignTrainer) -> None:
        assert trainer.settings.prompts_per_update == 2
        rollout, score, *updates = next(rounds)
        first: Row = {"time/rollout": rollout, "time/score": score}
        for number, seconds in enumerate(updates):
            row = {"time/update": seconds, "memory/peak_gb": 0.5}
            trainer.train_log.say({**(first if number == 0 else {}), **row})

    monkeypatch.setattr(AlignTrainer, "round", timed)
    found = timing.measure(settings(prompts_per_update=6, updates=120))
    assert found is not None
    assert found["seconds_per_update"] == {"rollout": 12.0, "score": 3.0, "update": 18.0}
    assert found["hours"] == pytest.approx(33 * 120 / 3600)
    assert found["measured_completions"] == 6
    assert found["peak_memory_gb"] == 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tuning": "lora", "reward": "ungated"},
        {"method": "diffu_grpo", "warmup": 1, "inner_updates": 3},
        {"method": "sft", "length": 96, "block": 48},
    ],
)
def test_a_dry_run_measures_every_method_and_writes_nothing(
    changes: dict[str, object], settings: Settings, tmp_path: Path
) -> None:
    s = settings(**changes)
    found = timing.measure(s)
    assert found is not None
    learning = sum(p.numel() for p in trained(load_policy(s)).values())
    assert found["trained"] == learning
    assert found["hours"] > 0
    assert found["peak_memory_gb"] > 0
    assert found["rollouts"] == 6 // s.inner_updates
    assert not s.out.exists()


def test_a_dry_run_refuses_the_folder_that_the_run_would(settings: Settings) -> None:
    s = settings()
    s.out.mkdir()
    (s.out / "note.txt").touch()
    with pytest.raises(RecordError, match=r"note\.txt, which is not of this run"):
        timing.measure(s)
    with pytest.raises(RecordError):
        timing.measure(replace(s, updates=7))
