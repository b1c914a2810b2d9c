"""Reinforcement learning with the score as a reward."""

from remask.align.combined import Combined, combine
from remask.align.rewards import (
    ConsistencyReward,
    LexicographicReward,
    OutcomeReward,
    Progress,
    TrustedReward,
    UngatedReward,
)

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
