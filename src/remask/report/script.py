"""The script and the style of a report: the shared web parts and its own, each as one text.

A report paints tokens, bars and thresholds with the very files that the server's page loads. From
disk a browser loads no modules, so they are laid one after another, each in a function of its own.
"""

import re
from pathlib import Path

OWN = Path(__file__).parent / "assets"
WEB = Path(__file__).parent / "web"  # the parts that the server's page loads too
MODULES = ("dom", "tokens", "bars", "threshold", "study", "slider")  # none before what it imports

_IMPORT = re.compile(r'^import (\{.*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function\*?|class) (\w+))", re.MULTILINE)


def script() -> str:
    """Return the modules and `report.js` as one classic script."""
    modules = "".join(f"const {name} = {_wrapped(_read(WEB / f'{name}.js'))}" for name in MODULES)
    return f'"use strict";\n(() => {{\n{modules}{_wrapped(_read(OWN / "report.js"))}}})();\n'


def style() -> str:
    """Return what both pages paint with, then the layout of the report."""
    return _read(WEB / "paint.css") + _read(OWN / "report.css")


def _wrapped(module: str) -> str:
    names = ", ".join(_EXPORT.findall(module))
    body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = \2;", module))
    return f"(() => {{\n{body}return {{ {names} }};\n}})();\n"


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii")
