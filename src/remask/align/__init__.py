"""Reinforcement learning with the score as a reward."""

from remask.align.combined import Combined, combine
from remask.align.lexicographic import LexicographicReward, TrustedReward
from remask.align.reward import ConsistencyReward, OutcomeReward, Progress, UngatedReward

__all__ = [
    "Combined",
    "ConsistencyReward",
    "LexicographicReward",
    "OutcomeReward",
    "Progress",
    "TrustedReward",
    "UngatedReward",
    "combine",
]
