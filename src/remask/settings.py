"""Settings, declared once: a dataclass field with its type, its help text and its bounds.

    trips: Annotated[int, Setting("Round trips per answer.", least=1, most=10_000)] = 4

A settings class calls `check` when it is made. A mapping from outside (a YAML file, flags) becomes
a dataclass through `validate`, with pydantic. Both refuse a value in one sentence that names the
field, the value and what to give instead. The command line makes flags of the same fields, and a
pydantic model may use the same annotations. Importing this module imports neither torch nor
pydantic.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from remask.errors import SettingsError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_T = TypeVar("_T")
_CLOSE = 0.75  # of difflib: one or two letters of a word of eight


@dataclass(frozen=True)
class Setting:
    """What a field is for, and the bounds of its number; `above` and `below` are outside."""

    help: str = ""
    least: float = field(default=-math.inf, kw_only=True)
    above: float = field(default=-math.inf, kw_only=True)
    most: float = field(default=math.inf, kw_only=True)
    below: float = field(default=math.inf, kw_only=True)
    short: str = field(default="", kw_only=True)  # of its flag, as in -m

    def __str__(self) -> str:
        """Return the bounds in words; "" where there are none."""
        words = {
            "at least": self.least, "above": self.above, "at most": self.most, "below": self.below
        }  # fmt: skip
        return " and ".join(f"{w} {_shown(x)}" for w, x in words.items() if math.isfinite(x))

    def broken_by(self, value: float) -> str:
        """Return the one bound that a number is beyond, in words; "" where it is inside."""
        if math.isnan(value):
            return str(self)
        if value < self.least or value <= self.above:
            return str(Setting(least=self.least, above=self.above))
        if value > self.most or value >= self.below:
            return str(Setting(most=self.most, below=self.below))
        return ""

    def check(self, name: str, value: Any, kind: type = int) -> None:
        """Raise where a value is no finite number of this kind, or is beyond the bounds."""
        allowed = int if kind is int else int | float
        number = isinstance(value, allowed) and not isinstance(value, bool)
        broken = self.broken_by(value) if number and not math.isnan(value) else ""
        if broken:
            raise SettingsError(f"{name} is {value}; it must be {broken}.")
        if not number or not math.isfinite(value):
            words = f"{_WORDS[kind]} {self}".rstrip()
            raise SettingsError(f"{name} is {value!r:.80}; it must be {words}.")

    # What pydantic asks for of metadata that stands for several others.
    __is_annotated_types_grouped_metadata__ = True

    def __iter__(self) -> Iterator[Any]:
        """Yield the help and the bounds as pydantic knows them."""
        from pydantic import Field

        named = {"ge": self.least, "gt": self.above, "le": self.most, "lt": self.below}
        bounds: Any = {name: bound for name, bound in named.items() if math.isfinite(bound)}
        yield Field(description=self.help or None, **bounds)


Seed = Annotated[int, Setting("Seed of every random draw.")]


def _shown(bound: float) -> str:
    return f"{int(bound):,}" if float(bound).is_integer() else f"{bound:g}"


class SettingField(NamedTuple):
    """One field of a settings class, or one parameter that is declared like it."""

    name: str  # in Python, in YAML and, with hyphens, on the command line
    kind: Any  # its type without None and without what is inside Annotated
    setting: Setting
    optional: bool  # None is a value of it
    default: Any = MISSING

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING


@cache
def setting_fields(kind: Any) -> Mapping[str, SettingField]:
    """Return the fields of a settings class by their names."""
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: setting_field(f.name, hints[f.name], _default_of(f)) for f in fields(kind)}


def _default_of(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def setting_field(name: str, hint: Any, default: Any = MISSING) -> SettingField:
    """Return what an annotation says."""
    setting, optional = Setting(), False
    while True:
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            setting = next((part for part in args[1:] if isinstance(part, Setting)), setting)
            hint = args[0]
        elif origin in (Union, UnionType) and NoneType in args:
            optional = True
            hint = Union[tuple(part for part in args if part is not NoneType)]  # noqa: UP007
        else:
            return SettingField(name, hint, setting, optional, default)


def check(instance: Any) -> None:
    """Raise where a field of a settings class is no such number, beyond a bound, or no choice."""
    for name, one in setting_fields(instance.__class__).items():
        value = getattr(instance, name)
        if value is None and one.optional:
            continue
        if one.kind in (int, float):
            one.setting.check(name, value, one.kind)
        elif get_origin(one.kind) is Literal and value not in get_args(one.kind):
            raise SettingsError(
                f"{name} {value!r:.80} is unknown; use {_either(get_args(one.kind))}."
            )


def validate(kind: Callable[..., _T], mapping: Mapping[str, Any], where: str = "the file") -> _T:
    """Return the settings of a mapping, or raise one sentence.

    Numbers must be finite, and true is no number. A text may stand for a number, because YAML 1.1
    takes 1e-6 for a text, and for several names, with commas, as a flag gives them.
    """
    known = setting_fields(kind)
    values = {}
    for name, value in mapping.items():
        if name not in known:
            near = nearest(name, known)
            remedy = f"use {near}" if near else f"there are {', '.join(known)}"
            raise SettingsError(f"{name} is no setting; {remedy}.")
        one = known[name]
        try:
            values[name] = _fit(one, value)
        except (ValueError, OverflowError):  # pydantic's own is a ValueError
            remedy, default = f"give {_wanted(one)}", default_text(one)
            remedy += f" (the default is {default})" if default else ""
            raise SettingsError(f"{name} is {value!r:.80}; {remedy}.") from None
    for name, one in known.items():
        if name not in values and one.required:
            flag = name.replace("_", "-")
            raise SettingsError(f"{name} is missing; give --{flag}, or {name} in {where}.")
    return kind(**values)


def default_text(one: SettingField) -> str:
    """Return the default of a field in words; "" where it has none."""
    if one.required or one.default is None:
        return ""
    return ", ".join(one.default) if isinstance(one.default, tuple) else str(one.default)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that somebody has misspelt; None where none is close."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, _CLOSE)), None)


def _fit(one: SettingField, value: Any) -> Any:
    """Return a value as its field has it, or raise ValueError."""
    if value is None and one.optional:
        return None
    fitted = _adapter(one.kind).validate_python(value)
    if one.kind in (int, float) and one.setting.broken_by(fitted):
        raise ValueError
    return fitted


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    """Return what makes pydantic take what a type means, and nothing that resembles it."""
    from pydantic import BeforeValidator, FiniteFloat, StrictStr, TypeAdapter
    from pydantic.types import Strict

    own: dict[Any, Any] = {
        float: Annotated[FiniteFloat, BeforeValidator(_no_bool)],
        Path: Annotated[Path, BeforeValidator(_path)],
        tuple[str, ...]: Annotated[tuple[StrictStr, ...], BeforeValidator(_names)],
    }
    return TypeAdapter(
        Annotated[kind, Strict()] if kind in (bool, int, str) else own.get(kind, kind)
    )


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError
    return value


def _path(value: Any) -> Any:
    if isinstance(value, str) and (not value or "\0" in value):
        raise ValueError
    return value


def _names(value: Any) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError
    if not all(isinstance(part, str) and part.strip() for part in listed):
        raise ValueError
    return tuple(part.strip() for part in listed)


_WORDS: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a text", Path: "a path",
    tuple[str, ...]: "names",
}  # fmt: skip


def _wanted(one: SettingField) -> str:
    """Return what a field takes, in words."""
    if get_origin(one.kind) is Literal:
        return _either(get_args(one.kind))
    return f"{_WORDS[one.kind]} {one.setting}".rstrip()


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
