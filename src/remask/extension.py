"""Things that others bring: an object, the name of a table entry, or `module:name`.

In Python an extension is handed over as an object. On the command line and in a file it is written
`module:name`; the module is looked for in the current folder too. What is not there, or lacks what
it needs, is refused in one sentence. No torch here.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from remask.errors import SettingsError
from remask.settings import nearest

_T = TypeVar("_T")


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
        ) from None


def taken(maker: Callable[..., Any], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of this a maker of objects has a parameter for."""
    try:
        names = inspect.signature(maker).parameters
    except ValueError:  # a built-in one without a signature
        return {}
    return {name: value for name, value in offered.items() if name in names}


def unknown(what: str, name: str, known: Sequence[str] | Mapping[str, Any]) -> SettingsError:
    """Return the error for a name that no table has, with the nearest one, or all."""
    remedy = nearest(name, known) or f"{', '.join(known)}, or module:name"
    return SettingsError(f"{what} {name!r} is unknown; use {remedy}.")


def _with_members(what: str, given: _T, name: str, members: Sequence[str]) -> _T:
    missing = [member for member in members if not hasattr(given, member)]
    if missing:
        raise SettingsError(f"{what} {name!r} has no {', '.join(missing)}; see docs/extending.md.")
    return given
