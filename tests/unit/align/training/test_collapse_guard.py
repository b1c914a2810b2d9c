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
        monitor.watch(**{"reward": reward, "length": 10.0, **told}, update=update)


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
    with pytest.raises(Collapse, match=r"the mean length is .*, at first 10"):
        watch(monitor, [1.0, 1.0], length=length)


def test_positives_that_become_less_likely_are_a_collapse(settings: Settings) -> None:
    """They begin at -1 and -2 by turns, -1.5 on average; then they are at -2.02, two a rollout.

    Averages of ten: -1.604, ..., -1.916, and -2.02 when all ten are new: 0.52 below.
    """
    monitor = CollapseGuard(settings())
    watch(monitor, [1.0] * 5, likelihoods=[-1.0, -2.0])
    watch(monitor, [1.0] * 4, likelihoods=[-2.02, -2.02])
    wanted = (
        r"collapse at update 0: .* -2.02 nats per token over the last 10 updates, at first -1.5 "
        r"\(collapse_likelihood_fall 0.5\)"
    )
    with pytest.raises(Collapse, match=wanted):
        watch(monitor, [1.0], likelihoods=[-2.02, -2.02])


def test_an_accuracy_below_its_best_by_more_than_chance_is_a_collapse(settings: Settings) -> None:
    """0.9 and 0.7 of 200 problems, 0.8 of all: two standard errors of their difference are 0.08.

    That is 2 sqrt(2 x 0.8 x 0.2 / 200); a difference of 0.2 is more than 0.1 + 0.08.
    """
    monitor = CollapseGuard(settings())
    monitor.watch_accuracy(0.9, 200, update=10)
    monitor.watch_accuracy(0.75, 200, update=20)
    wanted = r"update 30: accuracy on 200 .* is 0.7, and was 0.9 .* 0.1, and 0.08 by chance"
    with pytest.raises(Collapse, match=wanted):
        monitor.watch_accuracy(0.7, 200, update=30)


def test_nothing_is_judged_before_the_window_is_full_or_without_one(settings: Settings) -> None:
    waiting = CollapseGuard(settings(collapse_window=5))
    watch(waiting, [2.0, 0.0, 0.0, 0.0])
    assert waiting.state()["first"] == {}
    idle = CollapseGuard(settings(collapse_window=0))
    watch(idle, [2.0] * 20 + [0.0] * 20, likelihoods=[-1.0, -9.0])
    idle.watch_accuracy(1.0, 1000, update=0)
    idle.watch_accuracy(0.0, 1000, update=1)
    assert idle == CollapseGuard(settings(collapse_window=0))


def test_steps_that_are_no_numbers_are_counted(settings: Settings) -> None:
    monitor = CollapseGuard(settings(max_skipped=2))
    assert monitor.step_is_sound(1.0, 2.0, 1)
    assert not monitor.step_is_sound(math.nan, 2.0, 2)
    assert monitor.step_is_sound(1.0, 2.0, 3)
    assert not monitor.step_is_sound(1.0, math.inf, 4)
    assert monitor.skipped == 2
    with pytest.raises(Collapse, match=r"2 consecutive updates \(update 5: .*kernels: .*math"):
        monitor.step_is_sound(1.0, math.nan, 5)


def test_what_it_remembers_is_restored(settings: Settings) -> None:
    s = settings(collapse_window=2)
    whole, parted = CollapseGuard(s), CollapseGuard(s)
    watch(whole, [1.0, 2.0, 3.0], likelihoods=[-1.0, -1.5])
    whole.watch_accuracy(0.4, 10, update=3)
    watch(parted, [1.0, 2.0], likelihoods=[-1.0, -1.5])
    resumed = CollapseGuard(s)
    resumed.restore(parted.state())
    watch(resumed, [3.0], likelihoods=[-1.0, -1.5])
    resumed.watch_accuracy(0.4, 10, update=3)
    assert resumed == whole
