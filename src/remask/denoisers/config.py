"""config.json -> the fields of a family's configuration, each of the right kind.

A family lists the keys that shape its network, under the hub's names, and those it supports in one
value only: a key that is not obeyed must be refused, never ignored.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from remask.errors import CheckpointError


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


def _checked(field: Field[Any], value: Any) -> Any:
    """Return the value, or raise unless it is of the field's kind."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    if field.type is int and not (number and isinstance(value, int)):
        wanted = "a whole number above 0"
    elif field.type is float and not number:
        wanted = "a number above 0"
    elif field.type is bool and not isinstance(value, bool):
        wanted = "true or false"
    else:
        return value
    raise CheckpointError(f"config.json gives {field.name} as {value!r}; it must be {wanted}.")
