"""config.json -> the fields of a family's configuration, each of the right kind.

A family lists the keys that shape its network, under the hub's names, and those it supports in one
value only: a key that is not obeyed must be refused, never ignored. Rotary embeddings are spelled
in three ways, by the age of the library that wrote the file; here they become one.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from remask.errors import CheckpointError

_ROTARY = {"rope_theta", "partial_rotary_factor"}
# Above what anybody has built, and below what takes minutes to outline; by how the key ends.
_MOST = {"layers": 1000, "experts": 10_000, "": 10**9}


def read_fields(
    kind: type, config: Mapping[str, Any], *, refused: Mapping[str, Any], family: str
) -> dict[str, Any]:
    """Return the fields of the dataclass `kind` that `config` has, or raise naming the key.

    Args:
        kind: a dataclass of whole numbers, numbers and flags, all above 0 where they are numbers.
        config: config.json.
        refused: keys with the only value that this family supports.
        family: its name, for the sentence.
    """
    config = plain_rotary(config, family)
    for name, only in refused.items():
        if config.get(name, only) not in (only, None):
            raise CheckpointError(
                f"config.json sets {name} to {config[name]!r}; "
                f"this {family} implementation supports {only!r} only."
            )
    known = {}
    for field in fields(kind):
        value = config.get(field.name)
        if value is not None or field.default is MISSING:
            known[field.name] = _checked(field, value)
    return known


def plain_rotary(config: Mapping[str, Any], family: str) -> dict[str, Any]:
    """Return config.json with what `rope_parameters` and `rope_scaling` say under plain keys.

    Older files have `rope_theta`, and `rope_scaling` where positions are stretched; newer ones put
    everything into `rope_parameters`. No family stretches: any kind but the default is refused.
    """
    plain = dict(config)
    for key in ("rope_parameters", "rope_scaling"):
        value = plain.pop(key, None)
        if value is None:
            continue
        _refuse_stretching(key, value, family)
        for name in _ROTARY & value.keys():
            if plain.get(name) not in (None, value[name]):
                raise CheckpointError(
                    f"config.json gives {name} as {plain[name]!r} and, in {key}, as "
                    f"{value[name]!r}; correct one of them."
                )
            plain[name] = value[name]
    return plain


def _refuse_stretching(key: str, value: Any, family: str) -> None:
    """Raise unless rotary settings are those of the default kind, or say nothing at all."""
    kind = value.get("rope_type", value.get("type")) if isinstance(value, Mapping) else value
    if kind is None and isinstance(value, Mapping) and value.keys() <= _ROTARY:
        return
    if kind != "default" or not isinstance(value, Mapping):
        raise CheckpointError(
            f"config.json sets {key} to {kind or value!r}; "
            f"this {family} implementation supports the rope_type 'default' only."
        )


def read_block(config: Mapping[str, Any], name: str, default: int | None) -> int | None:
    """Return the tokens of a block by config.json, or `default` where it says nothing."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CheckpointError(
            f"config.json gives {name} as {value!r}; it must be a whole number above 0."
        )
    most = config.get("max_position_embeddings")
    if isinstance(most, int) and value > most:
        raise CheckpointError(
            f"config.json gives {name} as {value}, more than the {most} tokens of "
            "max_position_embeddings; correct one of them."
        )
    return value


def read_flag(config: Mapping[str, Any], name: str) -> bool:
    """Return a key of config.json that is true or false; false where it says nothing."""
    value = config.get(name)
    if value is not None and not isinstance(value, bool):
        raise CheckpointError(f"config.json gives {name} as {value!r}; it must be true or false.")
    return bool(value)


def _checked(field: Field[Any], value: Any) -> Any:
    """Return the value, or raise unless it is of the field's kind."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    number = number and 0 < value < float("inf")
    most = next(limit for end, limit in _MOST.items() if field.name.endswith(end))
    if field.type is int and not (number and isinstance(value, int)):
        wanted = "a whole number above 0"
    elif field.type is int and value > most:
        wanted = f"at most {most:,}"
    elif field.type is float and not number:
        wanted = "a number above 0"
    elif field.type is bool and not isinstance(value, bool):
        wanted = "true or false"
    else:
        return value
    raise CheckpointError(f"config.json gives {field.name} as {value!r}; it must be {wanted}.")
