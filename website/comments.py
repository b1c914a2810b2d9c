"""Comments at the ends of fields, and help texts of settings, as their text in the reference."""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import griffe


@cache
def comments(path: Path) -> dict[int, str]:
    """Return the comments of a file by line."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(io.BytesIO(file.read()).readline))
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


@cache
def own_lines(path: Path) -> frozenset[int]:
    """Return the lines of a file that hold a comment and nothing else."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(n for n, line in enumerate(lines, 1) if line.lstrip().startswith("#"))


def help_of(node: ast.AST) -> str:
    """Return the help text of a setting that an annotation carries; "" where there is none."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and getattr(part.func, "id", "") == "Setting" and part.args:
            text = part.args[0]
            return text.value if isinstance(text, ast.Constant) else ""
    return ""


@cache
def aliases(path: Path) -> dict[str, str]:
    """Return the help texts of the settings that a file names once for several fields."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    named = [n for n in body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    return {node.targets[0].id: help_of(node.value) for node in named}


def setting_help(node: ast.AST, path: Path) -> str:
    """Return the help text of a field, written in its annotation or in what that names."""
    annotation = getattr(node, "annotation", None)
    if isinstance(annotation, ast.Name):
        return aliases(path).get(annotation.id, "")
    return help_of(node)


def without_setting(annotation: Any) -> Any:
    """Return the type of a setting, whose help text and bounds stand beside it already."""
    if not isinstance(annotation, griffe.ExprSubscript):
        return annotation
    parts = annotation.slice
    if str(annotation.left) != "Annotated" or not isinstance(parts, griffe.ExprTuple):
        return annotation
    return parts.elements[0]


class Comments(griffe.Extension):
    """Gives an attribute without a docstring the comment that stands beside it."""

    def on_class_members(self, *, cls: griffe.Class, **others: Any) -> None:
        """Leave out how pydantic reads a class: it is no argument of it."""
        if "__pydantic_config__" in cls.members:
            cls.del_member("__pydantic_config__")

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **others: Any) -> None:
        """Read the help text of a setting, the comment at the line's end, or that above it."""
        attr.annotation = without_setting(attr.annotation)
        if attr.docstring or not isinstance(node, ast.AST) or attr.lineno is None:
            return
        path = attr.filepath
        if not isinstance(path, Path):
            return
        text = setting_help(node, path) or comments(path).get(attr.endlineno or attr.lineno, "")
        above = attr.lineno - 1
        lines: list[str] = []
        while not text and above in own_lines(path):
            lines.insert(0, comments(path)[above])
            above -= 1
        text = text or " ".join(lines)
        if text and not text.startswith(("noqa", "type:", "fmt:")):
            attr.docstring = griffe.Docstring(text[0].upper() + text[1:], parent=attr)
