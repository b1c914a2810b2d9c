"""The guards, on numbers written by hand."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from remask.align.collapse_guard import Collapse, CollapseGuard
from remask.align.settings import AlignSettings

Settings = Callable[..., AlignSettings]


def watch(monitor: CollapseGuard, rewards: Sequence[float], **told: Any) -> None:
    for update, reward in enumerate(rewards):
        monitor.watch(**{"reward": reward, "length": 10.0, "entropy": 0.5, **told}, update=update)


def test_a_reward_below_a_quarter_of_its_best_average_is_a_collapse(settings: Settings) -> None:
    """Averages of two: 2, 2, 1.2, 0.45: the last is below 0.25 x 2."""
    monitor = CollapseGuard(settings(collapse_window=2))
    watch(monitor, [2.0, 2.0, 2.0])
    watch(monitor, [0.4])
    with pytest.raises(
        Collapse,
        match=r"collapse at update 0: over the last 2 rollouts the mean reward is 0.45, below 0.25",
    ):
        watch(monitor, [0.5])


def test_rewards_that_were_never_good_are_no_collapse(settings: Settings) -> None:
    monitor = CollapseGuard(settings(collapse_window=2))
    watch(monitor, [0.0, -1.0, 0.0, 0.0, -5.0])
    assert monitor.state()["best_reward"] == 0


@pytest.mark.parametrize("length", [41.0, 2.4])
def test_a_length_four_times_off_is_a_collapse(length: float, settings: Settings) -> None:
    monitor = CollapseGuard(settings(collapse_window=2))
    watch(monitor, [1.0, 1.0])
    with pytest.raises(Collapse, match=r"the mean length is .* and it began at 10"):
        watch(monitor, [1.0, 1.0], length=length)


@pytest.mark.parametrize(("entropy", "field"), [(2.6, "rise 2"), (0.009, "ratio 0.02")])
def test_an_entropy_far_from_its_start_is_a_collapse(
    entropy: float, field: str, settings: Settings
) -> None:
    """It began at 0.5: more than 2.5 or less than 0.01 is too far."""
    monitor = CollapseGuard(settings(collapse_window=2))
    watch(monitor, [1.0, 1.0])
    watch(monitor, [1.0], entropy=0.5)
    with pytest.raises(Collapse, match=rf"collapse_entropy_{field}"):
        watch(monitor, [1.0, 1.0], entropy=entropy)


def test_nothing_is_judged_before_the_window_is_full_or_without_one(settings: Settings) -> None:
    waiting = CollapseGuard(settings(collapse_window=5))
    watch(waiting, [2.0, 0.0, 0.0, 0.0])
    assert waiting.state()["first"] == {}
    idle = CollapseGuard(settings(collapse_window=0))
    watch(idle, [2.0] * 20 + [0.0] * 20)
    assert idle.state()["first"] == {}


def test_steps_that_are_no_numbers_are_counted(settings: Settings) -> None:
    monitor = CollapseGuard(settings(max_skipped=2))
    assert monitor.step_is_sound(1.0, 2.0, 1)
    assert not monitor.step_is_sound(math.nan, 2.0, 2)
    assert monitor.step_is_sound(1.0, 2.0, 3)
    assert not monitor.step_is_sound(1.0, math.inf, 4)
    assert monitor.skipped == 2
    with pytest.raises(Collapse, match="2 updates in a row, up to 5"):
        monitor.step_is_sound(1.0, math.nan, 5)


def test_what_it_remembers_is_restored(settings: Settings) -> None:
    s = settings(collapse_window=2)
    whole, parted = CollapseGuard(s), CollapseGuard(s)
    watch(whole, [1.0, 2.0, 3.0])
    watch(parted, [1.0, 2.0])
    resumed = CollapseGuard(s)
    resumed.restore(parted.state())
    watch(resumed, [3.0])
    assert resumed == whole
