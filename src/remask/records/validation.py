"""Validation of what is read from files: pydantic at the border, and what it says in a sentence.

pydantic is imported when a file is read, so that nothing else pays for it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_T = TypeVar("_T")
# A number is a number, true is no number, and JSON has no NaN.
STRICT = {"strict": True, "allow_inf_nan": False, "arbitrary_types_allowed": True}
_ADAPTERS: "dict[type, TypeAdapter[Any]]" = {}
_WANTED = {  # by the beginning of pydantic's name for an error
    "string": "a text", "int": "a whole number", "bool": "true or false", "float": "a number",
    "finite": "a number", "dict": "names with values", "model": "names with values",
    "dataclass": "names with values", "mapping": "names with values", "list": "a list",
    "tuple": "a list", "none": "null", "unexpected": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing that is wrong with a document."""

    place: str  # dotted
    value: Any
    wanted: str  # in words; "" for a name that is no field
    is_missing: bool

    def __str__(self) -> str:
        """Return it as the reason in a sentence."""
        if self.is_missing:
            return f"it has no {self.place}"
        if not self.wanted:
            return f"it has {self.place}, which is no field of it"
        return f"{self.place} is {self.value!r:.80}, not {self.wanted}"


def adapter_of(kind: type[_T]) -> "TypeAdapter[_T]":
    """Return the validator of a class, made once."""
    from pydantic import TypeAdapter

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def validate(kind: type[_T], document: Mapping[str, Any]) -> _T:
    """Return a JSON object as its class, or raise pydantic's error.

    Half a surrogate pair, which a prompt that nobody can read may hold, is no text to pydantic; it
    becomes a question mark.
    """
    content = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
    return adapter_of(kind).validate_json(content)


def explain(error: "ValidationError", document: Mapping[str, Any]) -> Fault:
    """Return the first fault of a document that pydantic refused."""
    first = error.errors(include_url=False, include_context=False)[0]
    name, place = first["type"], []
    value: Any = document
    for part in first["loc"]:  # the last may be missing, or a type of a union
        try:
            value = value[part]
        except (LookupError, TypeError):
            break
        place.append(str(part))
    missing = str(first["loc"][-1]) if name == "missing" else ""
    return Fault(
        place=".".join([*place, missing] if missing else place),
        value=value,
        wanted=_WANTED.get(name.split("_")[0], first["msg"]),
        is_missing=bool(missing),
    )
