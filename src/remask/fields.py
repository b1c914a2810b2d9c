"""Values that come from a file or a flag, fitted to the fields of a dataclass.

A field says what it takes by its type: bool, int, float, str, Path, a tuple of texts, a mapping of
texts to one of these, a Literal, any of them or None, and inside Annotated the limits of a number.
What does not fit is refused in one sentence with the field, the value and what to give instead.
Numbers must be finite, and yes or no is no number. No package but the standard library is needed.
"""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from remask.errors import SettingsError

_T = TypeVar("_T")
_CLOSE = 0.75  # of difflib: one or two letters of a word of eight


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Between what a number may be; `above` and `below` are themselves outside."""

    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    below: float = math.inf

    def hold(self, value: float) -> bool:
        """Return whether a number is inside."""
        return self.least <= value <= self.most and self.above < value < self.below

    def __str__(self) -> str:
        """Return them in words."""
        words = {
            "at least": self.least, "above": self.above, "at most": self.most, "below": self.below
        }  # fmt: skip
        return " and ".join(f"{w} {_shown(x)}" for w, x in words.items() if math.isfinite(x))

    def broken_by(self, value: float) -> str:
        """Return the one limit that a number is beyond, in words; "" where it is inside."""
        if self.hold(value):
            return ""
        if math.isnan(value):
            return str(self)
        if value < self.least or value <= self.above:
            return str(Limits(least=self.least, above=self.above))
        return str(Limits(most=self.most, below=self.below))


def _shown(limit: float) -> str:
    return f"{int(limit):,}" if float(limit).is_integer() else f"{limit:g}"


def misfit(
    kind: type, told: Mapping[str, Any], *, apart: Collection[str] = frozenset()
) -> str | None:
    """Return what is wrong with a document that shall hold the fields of a dataclass, in words.

    A number there is a number: only a flag, or YAML, may write it as a text. Fields in `apart` are
    looked at elsewhere.
    """
    known: dict[str, Field[Any]] = {f.name: f for f in fields(kind) if f.name not in apart}
    hints = get_type_hints(kind)
    for name, field in known.items():
        needed = field.default is MISSING and field.default_factory is MISSING
        if name not in told and needed:
            return f"it has no {name}"
    for name, value in told.items():
        if name not in known:
            return f"it has {name}, which is no field of it"
        wrong = _misfit(hints[name], value)
        if wrong:
            return f"{name} is {value!r:.80}, not {wrong}"
    return None


def _misfit(hint: Any, value: Any) -> str | None:
    if hint is float and isinstance(value, str):
        return "a number"
    try:
        fit(hint, value)
    except Unfit as wanted:
        return str(wanted)
    return None


class Unfit(Exception):
    """What a field would have taken."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that somebody has misspelt; None where none is close."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, _CLOSE)), None)


def fitted(kind: type[_T], told: Mapping[str, Any]) -> _T:
    """Return the dataclass of these values, or raise one sentence."""
    known: dict[str, Field[Any]] = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind, include_extras=True)
    values = {}
    for name, value in told.items():
        if name not in known:
            near = nearest(name, known)
            remedy = f"use {near}" if near else f"there are {', '.join(known)}"
            raise SettingsError(f"{name} is no setting; {remedy}.")
        try:
            values[name] = fit(hints[name], value)
        except Unfit as wanted:
            raise SettingsError(
                f"{name} is {value!r:.80}; {_remedy(known[name], wanted)}"
            ) from None
    for name, field in known.items():
        if name not in values and field.default is MISSING:
            flag = name.replace("_", "-")
            raise SettingsError(f"{name} is missing; give --{flag}, or {name} in the file.")
    return kind(**values)


def _remedy(field: "Field[Any]", wanted: Unfit) -> str:
    known = field.default is not MISSING and field.default is not None
    default = ", ".join(field.default) if isinstance(field.default, tuple) else field.default
    return f"give {wanted} (the default is {default})." if known else f"give {wanted}."


def fit(hint: Any, value: Any) -> Any:
    """Return the value as the type wants it, or raise what it wants."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _limited(args[0], args[1], value)
    if origin in (Union, UnionType):
        return _fit_any(args, value)
    if origin is Literal:
        if value in args and not isinstance(value, bool):
            return value
        raise Unfit(" or ".join(filter(None, (", ".join(args[:-1]), args[-1]))))
    if origin is Mapping:
        return _fit_mapping(args[1], value)
    if origin in (list, tuple) and args[0] is not str:
        return _fit_list(args[0], value)
    return _PLAIN[origin or hint](value)


def _fit_any(hints: tuple[Any, ...], value: Any) -> Any:
    if value is None and NoneType in hints:
        return None
    (hint,) = [h for h in hints if h is not NoneType]
    return fit(hint, value)


def _fit_mapping(hint: Any, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise Unfit("names with values")
    if hint is Any:
        return dict(value)
    try:
        return {name: fit(hint, part) for name, part in value.items()}
    except Unfit as wanted:
        raise Unfit(f"names, each with {wanted}") from None


def _fit_list(hint: Any, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise Unfit("a list")
    try:
        return tuple(fit(hint, part) for part in value)
    except Unfit as wanted:
        raise Unfit(f"a list, each {wanted}") from None


def _limited(hint: Any, limits: Limits, value: Any) -> Any:
    try:
        found = fit(hint, value)
    except Unfit as wanted:
        raise Unfit(f"{wanted} {limits}") from None
    if not limits.hold(found):
        raise Unfit(f"{'a whole number' if hint is int else 'a number'} {limits}")
    return found


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Unfit("true or false")


def _int(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Unfit("a whole number")


def _float(value: Any) -> float:
    """Return a number; a text may be one, because YAML 1.1 takes 1e-6 for a text."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if math.isfinite(found):
        return found
    raise Unfit("a number")


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Unfit("a text")


def _path(value: Any) -> Path:
    if isinstance(value, Path) or (isinstance(value, str) and value and "\0" not in value):
        return Path(value)
    raise Unfit("a path")


def _names(value: Any) -> tuple[str, ...]:
    """Return names; a flag gives them as one text, with commas."""
    listed = value.split(",") if isinstance(value, str) else value
    if isinstance(listed, list | tuple) and all(isinstance(v, str) and v.strip() for v in listed):
        named = tuple(part.strip() for part in listed)
        if named:
            return named
    raise Unfit("names")


_PLAIN = {bool: _bool, int: _int, float: _float, str: _str, Path: _path, tuple: _names}
