"""Settings that only one method, reward or scorer reads; for the others they are refused.

No torch here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from remask.errors import SettingsError
from remask.values import ROUNDTRIPS

FORMATS = ("soft_format", "strict_format", "tag_count", "whole_number_answer", "boxed_format")
SCORED = ("consistency", "lexicographic", "trusted", "ungated")  # rewards that need scores
REWARDS = ("consistency", "outcome", "ungated", "lexicographic", "trusted", *FORMATS)
_TRIPS = ("trips", "rebuild_steps", "mask_ratio", "mask_design", "metrics", "metric_weights")
_PROBE = ("probe", "reading")
_SCORES = ("scorer", "scored_by", *_PROBE, *_TRIPS)
_ANNEALED = ("alpha_min", "alpha_max", "base_reward")
_PAID = (*_ANNEALED, "right_reward", "rank_reward", "trust")
_MASKS = ("copies", "mask_sampler", "mask_block", "prompt_mask_ratio", "loss_region")


class Owner(NamedTuple):
    """Settings that only apply if `field` has one of `values`."""

    field: str  # method, reward or scorer
    values: tuple[str, ...]
    names: tuple[str, ...]
    or_function: bool = False  # a user's reward (module:name) may need them too


OWNERS = (
    Owner("method", ("spg",), ("negative", "renyi_order", "upper_weight")),
    Owner("method", ("diffu_grpo",), ("clip", "kl_weight")),
    Owner("method", ("spg", "diffu_grpo"), ("reward", "temperature", *_MASKS, *_SCORES, *_PAID)),
    Owner("reward", ("consistency", "ungated"), _ANNEALED),
    Owner("reward", ("outcome",), ("right_reward",)),
    Owner("reward", ("lexicographic",), ("rank_reward",)),
    Owner("reward", ("trusted",), ("trust",)),
    Owner("reward", SCORED, _SCORES, or_function=True),
    Owner("scorer", (ROUNDTRIPS,), _TRIPS),
    Owner("scorer", ("probe",), _PROBE),
)


def check_owners(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise if a setting that would be ignored differs from its default."""
    for owner, name in ignored(values):
        value, field = values[name], owner.field
        if value != defaults[name]:
            shown = ", ".join(value) if isinstance(value, tuple) else value
            raise SettingsError(
                f"{name} requires {field} {' or '.join(owner.values)}, got {name} {shown} with "
                f"{field} {', '.join(_names(values[field]))}."
            )


def ignored(values: Mapping[str, Any]) -> Iterator[tuple[Owner, str]]:
    """Yield the settings that would be ignored, each with the owner that it lacks."""
    for owner in OWNERS:
        names = _names(values[owner.field])
        if owner.field == "reward" and not all(name in REWARDS or ":" in name for name in names):
            continue  # an unknown reward is refused as such
        if not any(name in owner.values or (owner.or_function and ":" in name) for name in names):
            yield from ((owner, name) for name in owner.names)


def _names(value: str | Sequence[str]) -> list[str]:
    """Return the names in a field, without weights."""
    return [word.partition("=")[0] for word in ((value,) if isinstance(value, str) else value)]
