"""Which settings belong to a method, a reward or a scorer, and would be ignored by the others.

A setting that is ignored misleads whoever has set it, so it is refused. No torch here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from remask.errors import SettingsError
from remask.values import ROUNDTRIPS

FORMATS = (
    "soft_format", "strict_format", "tag_count", "whole_number_answer", "boxed_format",
)  # fmt: skip
REWARDS = (
    "consistency", "outcome", "ungated", "lexicographic", "trusted", "placebo", "oracle", *FORMATS,
)  # fmt: skip
SCORED = ("consistency", "lexicographic", "trusted", "ungated", "placebo")  # which need the score
_TRIPS = ("trips", "rebuild_steps", "mask_ratio", "mask_design", "metrics", "metric_weights")
_PROBE = ("probe", "reading")
_REWARDED = (
    "reward", "temperature", "copies", "mask_sampler", "mask_block", "prompt_mask_ratio",
    "loss_region",
)  # fmt: skip


class Owner(NamedTuple):
    """Settings that are ignored unless a field has one of some values."""

    field: Literal["method", "reward", "scorer"]
    values: tuple[str, ...]
    names: tuple[str, ...]
    or_function: bool = False  # from outside, which may ask for them


OWN = (
    Owner("method", ("spg",), (
        "negative", "renyi_order", "upper_weight", "negative_floor", "ratio_clip", "start_kl",
        "never_down",
    )),
    Owner("method", ("diffu_grpo",), ("clip", "kl_weight")),
    Owner("method", ("regression",), ("beta", "anchor", "centred")),
    Owner("method", ("spg", "diffu_grpo", "regression"), (
        *_REWARDED, "scorer", "scored_by", *_PROBE, *_TRIPS, "alpha_min", "alpha_max",
        "base_reward", "right_reward", "rank_reward", "trust",
    )),
    Owner("reward", ("consistency", "ungated"), ("alpha_min", "alpha_max", "base_reward")),
    Owner("reward", ("outcome",), ("right_reward",)),
    Owner("reward", ("lexicographic", "placebo", "oracle"), ("rank_reward",)),
    Owner("reward", ("trusted", "placebo", "oracle"), ("trust",)),
    Owner("reward", SCORED, ("scorer", "scored_by", *_PROBE, *_TRIPS), or_function=True),
    Owner("scorer", (ROUNDTRIPS,), _TRIPS),
    Owner("scorer", ("probe",), _PROBE),
)  # fmt: skip


def check_owners(values: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
    """Raise where a setting that nobody would look at is not what it usually is."""
    for owner, name in ignored(values):
        if values[name] != usual[name]:
            raise SettingsError(_sentence(owner, name, values))


def ignored(values: Mapping[str, Any]) -> Iterator[tuple[Owner, str]]:
    """Yield the settings that nobody would look at, each with whom it belongs to."""
    for owner in OWN:
        words = _words(values[owner.field])
        if owner.field == "reward" and not all(word in REWARDS or ":" in word for word in words):
            continue  # what is no reward at all is refused as such
        if not any(word in owner.values or (owner.or_function and ":" in word) for word in words):
            yield from ((owner, name) for name in owner.names)


def _words(value: str | Sequence[str]) -> list[str]:
    """Return the names in a field, without weights."""
    return [word.partition("=")[0] for word in ((value,) if isinstance(value, str) else value)]


def _sentence(owner: Owner, name: str, values: Mapping[str, Any]) -> str:
    value, field = values[name], owner.field
    shown = ", ".join(value) if isinstance(value, tuple) else value
    *others, last = owner.values
    whose = f"{', '.join(others)} or {last}" if others else last
    held = ", ".join(_words(values[field]))
    return f"{name} {shown} belongs to {field} {whose}, and {field} is {held}; leave {name} out."
