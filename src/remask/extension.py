"""Objects of the user: an object, the name of a table entry, or `module:name`.

In Python an extension is handed over as an object. On the command line and in a file it is written
`module:name`; the module is looked for in the current folder too. An object that lacks what it
needs is refused. An exception inside an extension becomes an `ExtensionError` that names the
exception and the line of the user's file; the exception itself is its `__cause__`. No torch here.
"""

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from remask.errors import ExtensionError, RemaskError, SettingsError
from remask.settings import has_attribute, shown, unknown_name

_T = TypeVar("_T")
_PACKAGE = str(Path(__file__).parent)


def resolve(what: str, given: str | _T, table: Mapping[str, _T], members: Sequence[str] = ()) -> _T:
    """Return the object that was given, or that its name stands for.

    Args:
        what: what it is, for the error: "metric", "task", ...
        given: the object itself, a name in `table`, or `module:name`.
        table: what the package has, by name.
        members: attributes that an object from outside must have.
    """
    if not isinstance(given, str):
        return _with_members(what, given, type(given).__name__, members)
    if given in table:
        return table[given]
    if ":" in given:
        imported: _T = import_object(what, given)
        return _with_members(what, imported, given, members)
    raise unknown(what, given, table)


def import_object(what: str, name: str) -> Any:
    """Return what `module:name` stands for."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may raise anything while it is read
        line = (str(error).strip().splitlines() or [""])[0]
        raise SettingsError(
            f"{what} {name!r} cannot be imported ({type(error).__name__}: {line}); write "
            "module:name."
        ) from error


@contextmanager
def running(what: str, name: str) -> Iterator[None]:
    """Turn an exception of the user's code into an `ExtensionError` that shows its cause."""
    try:
        yield
    except RemaskError:
        raise
    except Exception as error:
        raise ExtensionError(f"{what} {name!r} failed with {cause_of(error)}.") from error


def cause_of(error: Exception) -> str:
    """Return an exception with the last line of its traceback outside this package."""
    lines = str(error).strip().splitlines()
    cause = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    known = (_PACKAGE, "site-packages")
    own = [frame for frame in frames if not any(part in frame.filename for part in known)]
    last = (own or frames)[-1]
    return f"{cause} ({last.filename}, line {last.lineno})"


def call(what: str, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Call a function of the user, which may have the wrong parameters or raise anything."""
    name = getattr(function, "__name__", type(function).__name__)
    bind(what, function, *args, **kwargs)
    with running(what, name):
        return function(*args, **kwargs)


def bind(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Raise unless a function takes these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in one without a signature
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join([*(f"<{type(a).__name__}>" for a in args), *kwargs])
        raise SettingsError(f"{what} must take the arguments ({names}): {error}.") from None


def taken(maker: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of this a maker of objects has a parameter for."""
    try:
        parameters = inspect.signature(maker).parameters
    except (TypeError, ValueError):  # a built-in one without a signature
        return {}
    return {name: value for name, value in offered.items() if name in parameters}


def unknown(what: str, name: str, known: Sequence[str] | Mapping[str, Any]) -> Exception:
    """Return the error for a name that no table has, with the nearest one, or all."""
    return unknown_name(what, name, known, ", or module:name")


def _with_members(what: str, given: _T, name: str, members: Sequence[str]) -> _T:
    missing = [member for member in members if not has_attribute(given, member)]
    if missing:
        raise SettingsError(
            f"{what} {shown(name)} has no {', '.join(missing)}; see docs/extending.md."
        )
    return given
