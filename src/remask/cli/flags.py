"""Flags, made from settings: a field of a settings class becomes the flag of the same name.

A command is a function of whole settings; `with_flags` makes of it the function that typer reads,
with one parameter for each field: the type, the default, the help line and the bounds are those of
the field, and nothing is said twice. A number beyond its bounds is a mistake in usage.
"""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from remask.settings import (
    Misfit,
    Setting,
    SettingField,
    default_text,
    nearest,
    rule,
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
    name = one.name.replace("_", "-")
    metavar, read = None, None
    if kind is not bool:
        is_plain = kind in (int, float, str, Path)
        metavar = f"<{kind.__name__.lower() if is_plain else '|'.join(_choices(kind)) or 'str'}>"
        # typer and pydantic do not quote the value in their errors, so the flag is read here.
        read = None if kind is str else _reader(f"--{name}", one, bounded)
        if not is_plain:
            kind, default = str, default if isinstance(default, int | float | str) else None
    can_be_off = kind is bool and default is not False  # None: the reader of the flag decides
    switch = f"--{name}/--no-{name}" if can_be_off else f"--{name}"
    names = [switch, *filter(None, [one.setting.short])]
    option = typer.Option(*names, help=one.setting.help, parser=read, metavar=metavar)
    return inspect.Parameter(
        one.name, _KEYWORD,
        default=inspect.Parameter.empty if one.required else default,
        annotation=Annotated[kind | None if default is None else kind, option],
    )  # fmt: skip


def _choices(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _reader(flag: str, one: SettingField, bounded: bool) -> Callable[[Any], Any]:
    """Return what reads the value of a flag, and raises an error that quotes it."""
    hint = one.hint if bounded else one.kind

    def read(text: Any) -> Any:
        if not isinstance(text, str):
            return text  # the default
        if get_origin(one.kind) is Mapping:
            return _shares(flag, text)
        value: Any = text
        with suppress(ValueError):
            if one.kind is int:
                value = int(text)
            elif one.kind is float and not bounded:
                return float(text)
        near = nearest(text, _choices(one.kind))
        try:
            return rule(hint, True)(value)
        except Misfit as misfit:
            remedy = f" Did you mean {near!r}?" if near else ""
            wanted, got = misfit.wanted, _typed(text)
            raise UsageError(f"{flag} must be {wanted}, got {got}.{remedy}") from None

    return read


def _typed(text: str) -> str:
    """Return what was typed, in quotes unless it is a number."""
    with suppress(ValueError):
        float(text)
        return shown(text).strip("'")
    return shown(text)


def _shares(flag: str, text: str) -> dict[str, float] | None:
    """Return {"wordmath": 0.4, ...} from "wordmath=0.4,..."."""
    try:
        pairs = [part.split("=") for part in text.split(",") if part]
        return {name.strip(): float(value) for name, value in pairs} or None
    except ValueError:
        wanted = "shares such as wordmath=0.4,choice=0.6"
        raise UsageError(f"{flag} must be {wanted}, got {shown(text)}.") from None
