"""Validation: one set of rules for settings classes, mappings and arguments of functions.

    trips: Annotated[int, Setting("Round trips per answer.", least=1, most=10_000)] = 4

A type hint with its bounds is the rule, and `fit` applies it. A settings class calls `check` when
an instance is made; `validate` makes an instance of a mapping (a YAML file, flags); `checked`
decorates a public function or class, and validates the arguments of each call. They all raise an
error of the form `X must be Y, got Z.`

Rules: numpy integers and floats count as numbers, bool does not, and numbers must be finite. A list
may be any iterable but a string, a set or a mapping, and is read once. An object must have the
attributes of its protocol. The command line makes flags of the same fields, and a pydantic model
may use the same annotations. Importing this module imports neither torch nor pydantic.
"""

import builtins
import difflib
import inspect
import math
import operator
import os
import reprlib
import sys
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from remask.errors import InputError, SettingsError

_T = TypeVar("_T")
_CLOSE = 0.75  # of difflib: one or two letters of a word of eight
_START = 3  # letters that are too few to complete
_LISTED = 30  # known names that an error lists
_SHOWN = 80  # characters of a value in an error


@dataclass(frozen=True)
class Setting:
    """What a field is for, and the bounds of its number; `above` and `below` are exclusive."""

    help: str = ""
    least: float = field(default=-math.inf, kw_only=True)
    above: float = field(default=-math.inf, kw_only=True)
    most: float = field(default=math.inf, kw_only=True)
    below: float = field(default=math.inf, kw_only=True)
    short: str = field(default="", kw_only=True)  # of its flag, as in -m

    def __str__(self) -> str:
        """Return the bounds in words; "" if there are none."""
        words = {
            "at least": self.least, "above": self.above, "at most": self.most, "below": self.below
        }  # fmt: skip
        return " and ".join(f"{w} {_number(x)}" for w, x in words.items() if math.isfinite(x))

    def broken_by(self, value: float) -> str:
        """Return the one bound that a number violates, in words; "" if it is within bounds."""
        if value != value:  # NaN; `math.isnan` overflows for large integers
            return str(self)
        if value < self.least or value <= self.above:
            return str(Setting(least=self.least, above=self.above))
        if value > self.most or value >= self.below:
            return str(Setting(most=self.most, below=self.below))
        return ""

    def check(self, name: str, value: Any, kind: type = int) -> Any:
        """Return a finite number of this kind within the bounds, or raise."""
        return fit(name, Annotated[kind, self], value)

    # What pydantic asks for of metadata that stands for several others.
    __is_annotated_types_grouped_metadata__ = True

    def __iter__(self) -> Iterator[Any]:
        """Yield the help and the bounds as pydantic knows them."""
        from pydantic import Field

        named = {"ge": self.least, "gt": self.above, "le": self.most, "lt": self.below}
        bounds: Any = {name: bound for name, bound in named.items() if math.isfinite(bound)}
        yield Field(description=self.help or None, **bounds)


Seed = Annotated[int, Setting("Seed of every random draw.")]
Number = Annotated[int, Setting("Which sample of the pool.", least=0)]
# The range of every score but those of a scorer of one's own, and of the baselines that return
# log-probabilities or lengths: a threshold need only be finite there.
Threshold = Annotated[float, Setting("A score above it is accepted.")]
_INT64 = Setting(least=-(2**63), most=2**63 - 1)  # an integer without bounds of its own


def _number(bound: float) -> str:
    return f"{int(bound):,}" if float(bound).is_integer() else f"{bound:g}"


def shown(value: Any) -> str:
    """Return a short `repr` for an error, whatever the value is."""
    try:
        text = repr(value) if isinstance(value, str | bytes | Real) else _brief(value)
    except Exception:  # the repr of any object may raise; that of a huge integer does
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = _SHOWN


def _brief(value: Any) -> str:
    return " ".join(_repr.repr(value).split())


class SettingField(NamedTuple):
    """One field of a settings class, or one parameter that is declared like it."""

    name: str  # in Python, in YAML and, with hyphens, on the command line
    kind: Any  # its type without None and without what is inside Annotated
    setting: Setting
    optional: bool  # None is a value of it
    default: Any = MISSING
    hint: Any = Any

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING


@cache
def setting_fields(kind: Any) -> Mapping[str, SettingField]:
    """Return the fields of a settings class by their names."""
    hints = _hints(kind)
    return {f.name: setting_field(f.name, hints[f.name], _default_of(f)) for f in fields(kind)}


def _default_of(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def setting_field(name: str, hint: Any, default: Any = MISSING) -> SettingField:
    """Return what an annotation says."""
    kind, setting, optional = hint, Setting(), False
    while True:
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            setting = next((part for part in args[1:] if isinstance(part, Setting)), setting)
            kind = args[0]
        elif origin in (Union, UnionType) and NoneType in args:
            optional = True
            kind = Union[tuple(part for part in args if part is not NoneType)]  # noqa: UP007
        else:
            return SettingField(name, kind, setting, optional, default, hint)


def check(instance: Any) -> None:
    """Raise if a field of a dataclass does not fit its hint; numpy numbers become Python's."""
    for name, one in setting_fields(instance.__class__).items():
        value = getattr(instance, name)
        fitted = fit(name, one.hint, value)
        if fitted is not value:
            object.__setattr__(instance, name, fitted)


def validate(kind: Callable[..., _T], mapping: Mapping[str, Any], where: str = "the file") -> _T:
    """Return the settings of a mapping.

    A text may stand for a number, because YAML 1.1 reads 1e-6 as a text, and for several names,
    with commas, as a flag gives them.
    """
    known = setting_fields(kind)
    for name in mapping:
        if name not in known:
            raise unknown_name("setting", name, known)
    for name, one in known.items():
        if name not in mapping and one.required:
            flag = str(name).replace("_", "-")
            raise SettingsError(f"{name} is missing; give --{flag}, or {name} in {where}.")
    return kind(**{n: fit(n, known[n].hint, v, is_text=True) for n, v in mapping.items()})


def default_text(one: SettingField) -> str:
    """Return the default of a field in words; "" if it has none."""
    if one.required or one.default is None:
        return ""
    return ", ".join(one.default) if isinstance(one.default, tuple) else str(one.default)


def nearest(word: Any, known: Iterable[str]) -> str | None:
    """Return the known word that is spelt most like this one, or begins so; None if none is."""
    lower, start = {name.lower(): name for name in known}, str(word).lower()
    close = difflib.get_close_matches(start, list(lower), 1, _CLOSE)
    begun = (name for name in lower if len(start) > _START and name.startswith(start))
    return lower.get(next(iter(close), next(begun, "")))


def unknown_name(
    what: str,
    name: Any,
    known: Iterable[str],
    also: str = "",
    error: Callable[[str], Exception] = SettingsError,
) -> Exception:
    """Return the error for a name that is not known, with the nearest name or all of them."""
    near, names = nearest(name, known), list(known)
    remedy = ""
    if near:
        remedy = f" Did you mean {near!r}?"
    elif len(names) <= _LISTED:
        remedy = f" Known: {', '.join(names)}{also}."
    return error(f"Unknown {what} {shown(name)}.{remedy}")


class Misfit(Exception):
    """A value that does not fit its hint."""

    def __init__(self, wanted: str, value: Any, place: str = "") -> None:
        super().__init__(wanted)
        self.wanted, self.value, self.place = wanted, value, place

    def error(self, name: str, kind: Callable[[str], Exception]) -> Exception:
        """Return the error that names the field or the argument."""
        return kind(f"{name}{self.place} must be {self.wanted}, got {shown(self.value)}.")

    def at(self, place: str) -> "Misfit":
        """Return the same misfit inside a list or a mapping."""
        return Misfit(self.wanted, self.value, place + self.place)


Rule = Callable[[Any], Any]  # a value -> the value as it is used; raises Misfit


def fit(
    name: str,
    hint: Any,
    value: Any,
    *,
    is_text: bool = False,
    error: Callable[[str], Exception] = SettingsError,
) -> Any:
    """Return a value as its hint has it, or raise. `is_text`: texts may stand for numbers."""
    apply = rule(hint, is_text)
    try:
        return apply(value)
    except Misfit as misfit:
        raise misfit.error(name, error) from None
    except Exception as failure:  # a method of the value raised
        raise Misfit("a readable value", value).error(name, error) from failure


@cache
def rule(hint: Any, is_text: bool = False, setting: Setting | None = None) -> Rule:
    """Return the rule of a type hint."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        own = next((part for part in args[1:] if isinstance(part, Setting)), setting)
        return rule(Any if Any in args[1:] else args[0], is_text, own)
    if origin in (Union, UnionType):
        return _one_of([rule(part, is_text, setting) for part in args], NoneType in args)
    if origin is Literal:
        return _choice(args)
    if hint in _NUMBERS:
        return _number_rule(hint, setting, is_text)
    if origin in (list, tuple, abc.Sequence, abc.Iterable):
        return _list_rule(origin, args, is_text)
    if origin in (dict, abc.Mapping):
        return _mapping_rule(rule(args[0], is_text), rule(args[1], is_text))
    if origin is abc.Callable:
        return _holds(callable, "a function")
    return _PLAIN[hint] if hint in _PLAIN else _object_rule(hint)


def _object_rule(hint: Any) -> Rule:
    if getattr(hint, "_is_protocol", False):
        return _protocol_rule(hint)
    if isinstance(hint, type) and hint not in (object, Any):  # Any is a class
        return _holds(lambda value: isinstance(value, hint), _with_article(hint.__name__))
    return lambda value: value


def _holds(test: Callable[[Any], bool], wanted: str, make: Rule | None = None) -> Rule:
    def apply(value: Any) -> Any:
        if not test(value):
            raise Misfit(wanted, value)
        return value if make is None else make(value)

    return apply


def _is_bool(value: Any) -> bool:
    of_numpy = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
    return isinstance(value, bool) or of_numpy


def _is_path(value: Any) -> bool:
    if not isinstance(value, str | Path) or value == "" or "\0" in str(value):
        return False
    return all(len(name) <= 255 for name in os.fsencode(value).split(b"/"))  # as file systems allow


_NUMBERS: Mapping[Any, tuple[type, str]] = {
    int: (Integral, "an integer"),
    float: (Real, "a number"),
}
_PLAIN: Mapping[Any, Rule] = {
    bool: _holds(_is_bool, "true or false", bool),
    str: _holds(lambda value: isinstance(value, str), "a string", str.__str__),
    Path: _holds(_is_path, "a path", Path),
    NoneType: _holds(lambda value: value is None, "None"),
}


def _number_rule(kind: type, setting: Setting | None, is_text: bool) -> Rule:
    abstract, words = _NUMBERS[kind]
    bounds = setting if setting is not None and str(setting) else None
    wanted = f"{words} {bounds}" if bounds else words
    limits = bounds or Setting()

    def apply(value: Any) -> Any:
        if is_text and kind is float and isinstance(value, str):
            value = _read_float(value)
        if not isinstance(value, abstract) or isinstance(value, bool):
            raise Misfit(wanted, value)
        number: Any = value if type(value) in (int, float) else kind(value)
        broken = limits.broken_by(number) if number == number else wanted
        if not broken and kind is int:
            broken = _INT64.broken_by(number)
        if broken:
            raise Misfit(broken, value)
        if kind is float and not _is_finite(number):
            raise Misfit(wanted if bounds else "a finite number", value)
        return number

    return apply


def _read_float(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the largest float
        return False


def _choice(words: tuple[Any, ...]) -> Rule:
    def has(value: Any) -> bool:
        return any(type(value) is type(word) and value == word for word in words)

    return _holds(has, _either(words))


def _one_of(rules: Sequence[Rule], optional: bool) -> Rule:
    def apply(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, abc.Iterator):  # read once, for all alternatives
            value = _listed(value, "a list")
        misfits = []
        for each in rules:
            try:
                return each(value)
            except Misfit as misfit:
                misfits.append(misfit)
        deepest = max(misfits, key=lambda misfit: len(misfit.place))
        if deepest.place:  # a list of the right kind with a wrong element
            raise deepest
        words = [m.wanted for m in misfits if m.wanted != "None"]
        raise Misfit(" or ".join(dict.fromkeys(words)), value)

    return apply


def _list_rule(origin: Any, args: tuple[Any, ...], is_text: bool) -> Rule:
    is_pair = origin is tuple and args[-1] is not Ellipsis
    each = [rule(part, is_text) for part in (args if is_pair else args[:1])]
    words = _with_article(f"tuple of {len(args)}") if is_pair else "a list"
    plain = frozenset() if is_pair else _QUICK.get(args[0], frozenset())
    make = tuple if origin is tuple else list

    def apply(value: Any) -> Any:
        if is_text and origin is tuple and isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        values = _listed(value, words)
        if is_text and args[0] is str and not (values and all(map(_is_word, values))):
            raise Misfit("a list of names", value)
        if is_pair and len(values) != len(each):
            raise Misfit(words, value)
        if plain and plain.issuperset(map(type, values)) and all(map(_is_plain, values)):
            return value if type(value) in (tuple, make) else make(values)
        rules = each if is_pair else each * len(values)
        fitted = [_element(i, r, v) for i, (r, v) in enumerate(zip(rules, values, strict=True))]
        if type(value) in (tuple, make) and all(map(operator.is_, fitted, value)):
            return value
        return (tuple if type(value) is tuple else make)(fitted)

    return apply


# Elements of a long list that need no rule of their own if they have these types.
_QUICK: Mapping[Any, frozenset[type]] = {
    str: frozenset({str}), int: frozenset({int}), float: frozenset({float}),
    float | None: frozenset({float, NoneType}),
}  # fmt: skip


def _is_plain(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, float) or math.isfinite(value)


def _listed(value: Any, words: str) -> Sequence[Any]:
    """Return the elements of an iterable, read once."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | set | frozenset | type):
        raise Misfit(words, value)
    if not isinstance(value, abc.Iterable) and not hasattr(value, "__getitem__"):
        raise Misfit(words, value)
    try:
        elements = value.tolist() if hasattr(value, "tolist") else list(value)  # arrays, tensors
    except Exception:
        elements = None
    if not isinstance(elements, list):
        raise Misfit(words, value)
    return elements


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _element(key: Any, each: Rule, value: Any) -> Any:
    try:
        return each(value)
    except Misfit as misfit:
        raise misfit.at(f"[{shown(key)}]") from None


def _mapping_rule(key: Rule, value: Rule) -> Rule:
    def apply(given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise Misfit("a mapping", given)
        fitted = {_element(k, key, k): _element(k, value, v) for k, v in given.items()}
        return given if all(fitted.get(k) is v for k, v in given.items()) else fitted

    return apply


@cache
def _members(protocol: type) -> tuple[str, ...]:
    """Return the attributes that an object of this protocol must have."""
    names = dict[str, None]()
    for base in protocol.__mro__:
        if getattr(base, "_is_protocol", False):
            names |= dict.fromkeys([*vars(base), *inspect.get_annotations(base)])
    return tuple(name for name in names if not name.startswith("_"))


def _protocol_rule(protocol: type) -> Rule:
    words = _with_article(protocol.__name__)

    def apply(value: Any) -> Any:
        missing = [name for name in _members(protocol) if not has_attribute(value, name)]
        if missing or isinstance(value, type):
            names = ", ".join(missing[:3])
            raise Misfit(f"{words} with {names}" if names else words, value)
        return value

    return apply


def has_attribute(value: Any, name: str) -> bool:
    """Return whether a value has an attribute that can be read."""
    try:
        return hasattr(value, name)
    except Exception:  # a property may raise anything
        return False


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOUaeiou' else 'a'} {noun}"


def _either(words: tuple[Any, ...]) -> str:
    listed = [str(word) for word in words]
    return " or ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


class _Names(dict[str, Any]):
    """Names for hints: those that a module imports for type checkers alone stand for anything."""

    def __missing__(self, name: str) -> Any:
        torch = sys.modules.get("torch")
        known = {"torch": torch, "Tensor": getattr(torch, "Tensor", Any)} if torch else {}
        return known.get(name, getattr(builtins, name, Any))


@cache
def _hints(described: Any) -> Mapping[str, Any]:
    """Return the type hints of a class or a function."""
    try:
        return get_type_hints(described, include_extras=True)
    except NameError:
        names = _Names(vars(sys.modules[described.__module__]))
        return get_type_hints(described, localns=names, include_extras=True)


def checked(described: _T) -> _T:
    """Validate the arguments of a function, or of a class when an instance is made.

    Every parameter with a hint is fitted to it (see `fit`). Arguments that the signature does not
    have, and arguments that are missing, are an `InputError` too.
    """
    if isinstance(described, type):
        described.__init__ = _checked(described.__init__, described)  # type: ignore[misc]
        return described
    return cast(_T, _checked(cast(Callable[..., Any], described)))


def _checked(function: Callable[..., Any], owner: type | None = None) -> Callable[..., Any]:
    described = function if owner is None else owner
    name = described.__name__
    signature = inspect.signature(function)
    spread = {
        parameter.name: parameter.kind
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    hints: dict[str, Any] = {}

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not hints:  # at the first call: a hint may name a class that is defined later
            hints.update({n: h for n, h in _hints(described).items() if n != "return"} or {"": Any})
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"Wrong arguments of {name}: {error}.") from None
        given = bound.arguments
        for key, value in given.items():
            hint = hints.get(key)
            if hint is None:
                continue
            if key in spread:
                many = value.items() if isinstance(value, dict) else enumerate(value)
                fitted = {k: _fit_argument(str(k), hint, v) for k, v in many}
                given[key] = fitted if isinstance(value, dict) else tuple(fitted.values())
            else:
                given[key] = _fit_argument(key, hint, value)
        return function(*bound.args, **bound.kwargs)

    return call


def _fit_argument(name: str, hint: Any, value: Any) -> Any:
    """Return an argument as its hint has it: a wrong number or choice is a `SettingsError`."""

    def error(sentence: str) -> Exception:
        one = setting_field(name, hint)
        kinds = get_args(one.kind) if get_origin(one.kind) in (Union, UnionType) else (one.kind,)
        plain = any(kind in (bool, int, float) or get_origin(kind) is Literal for kind in kinds)
        return SettingsError(sentence) if plain else InputError(sentence)

    return fit(name, hint, value, error=error)
