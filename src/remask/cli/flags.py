"""Flags, made from settings: a field of a settings class becomes the flag of the same name.

A command is a function of whole settings; `with_flags` makes of it the function that typer reads,
with one parameter for each field: the type, the default, the help line and the bounds are those of
the field, and nothing is said twice. A number beyond its bounds is a mistake in usage.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass, replace
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from remask.settings import (
    Setting,
    SettingField,
    default_text,
    setting_field,
    setting_fields,
    shown,
)

# What every usage mistake descends from; typer exports only this child of it.
UsageError: Any = typer.BadParameter.__mro__[1]


@dataclass(frozen=True, kw_only=True)
class FlagsOf:
    """Which flags one parameter of a command stands for: fields of a settings class.

    The command is given an instance where the parameter is annotated with the class, else a dict.
    """

    kind: Any
    only: tuple[str, ...] = ()  # all but `without` by default
    without: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)  # other than those of the class
    overrides: str | None = None  # what decides where a flag is left out; "": the class's default
    bounded: bool = True  # False: the class refuses numbers by itself, with sentences of its own

    def fields(self) -> list[SettingField]:
        """Return the fields, with the defaults that their flags have."""
        known = setting_fields(self.kind)
        names = self.only or [name for name, one in known.items() if one.setting.help]
        chosen = [known[name] for name in names if name not in self.without]
        if self.overrides is not None:
            return [self._without_default(one) for one in chosen]
        return [one._replace(default=self.defaults.get(one.name, one.default)) for one in chosen]

    def _without_default(self, one: SettingField) -> SettingField:
        usual = self.overrides or default_text(one)
        line = f"{one.setting.help.rstrip('.')}; {usual} by default." if usual else one.setting.help
        return one._replace(default=None, setting=replace(one.setting, help=line))


def with_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that typer reads: settings are replaced by flags for their fields."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, FlagsOf] = {}
    flags: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        group = _group(hints[name])
        if group is None:
            flags[name] = _plain(name, hints[name], parameter.default)
            continue
        groups[name] = group
        flags |= {one.name: _flag(one, group.bounded) for one in group.fields()}

    def call(**values: Any) -> Any:
        gathered = {}
        for name, group in groups.items():
            named = {one.name: values.pop(one.name) for one in group.fields()}
            given = {name: value for name, value in named.items() if value is not None}
            whole = is_dataclass(_bare(hints[name]))
            gathered[name] = group.kind(**given) if whole else given
        return function(**values, **gathered)

    call.__doc__ = function.__doc__
    call.__annotations__ = {name: flag.annotation for name, flag in flags.items()}
    call.__signature__ = inspect.Signature(list(flags.values()))  # type: ignore[attr-defined]
    return call


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _group(hint: Any) -> FlagsOf | None:
    if is_dataclass(hint):
        return FlagsOf(kind=hint)
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, FlagsOf)), None)


def _plain(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return a parameter that is a flag by itself, or an argument as typer declares it."""
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    if not any(isinstance(mark, Setting) for mark in marks):
        return inspect.Parameter(name, _KEYWORD, default=default, annotation=hint)
    missing = default is inspect.Parameter.empty
    return _flag(setting_field(name, hint, MISSING if missing else default))


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _flag(one: SettingField, bounded: bool = True) -> inspect.Parameter:
    """Return the flag of a field."""
    kind, default = one.kind, one.default
    parse = _parser(kind)
    if parse is not None:
        kind, default = str, str(default) if isinstance(default, int | float) else None
    flag = one.name.replace("_", "-")
    can_be_off = kind is bool and default is not False  # None: whoever reads it decides
    switch = f"--{flag}/--no-{flag}" if can_be_off else f"--{flag}"
    names = [switch, *filter(None, [one.setting.short])]
    check = _callback(one, parse, bounded)
    option = typer.Option(*names, help=one.setting.help, callback=check)
    return inspect.Parameter(
        one.name, _KEYWORD,
        default=inspect.Parameter.empty if one.required else default,
        annotation=Annotated[kind | None if default is None else kind, option],
    )  # fmt: skip


def _callback(
    one: SettingField, parse: Callable[[str, str], Any] | None, bounded: bool
) -> Callable[[typer.CallbackParam, Any], Any]:
    def call(param: typer.CallbackParam, value: Any) -> Any:
        flag = param.opts[0]
        if value is not None and parse is not None:
            return parse(flag, value)
        if value is not None and bounded and one.kind in (int, float):
            broken = one.setting.broken_by(value)
            if broken:
                raise UsageError(f"{flag} must be {broken}, got {shown(value)}")
        return value

    return call


def _parser(kind: Any) -> Callable[[str, str], Any] | None:
    """Return what reads a value that typer knows only as a text; None for the others."""
    origin = get_origin(kind)
    if origin is tuple:
        return _names
    if origin is Mapping:
        return _shares
    if origin in (Union, UnionType):
        return lambda flag, text: _number_or_word(flag, text, get_args(kind))
    return None


def _names(flag: str, text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _shares(flag: str, text: str) -> dict[str, float] | None:
    """Return {"wordmath": 0.4, ...} from "wordmath=0.4,..."."""
    try:
        pairs = [part.split("=") for part in text.split(",") if part]
        return {name.strip(): float(value) for name, value in pairs} or None
    except ValueError:
        message = f"{flag} {text!r} is not of the form wordmath=0.4,choice=0.6"
        raise UsageError(message) from None


def _number_or_word(flag: str, text: str, kinds: tuple[Any, ...]) -> float | str:
    (words,) = (get_args(kind) for kind in kinds if kind is not float)
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag} {text!r} is neither a number nor {' or '.join(words)}") from None
