"""Find a program in a text: in fences, between marks, or without either among prose.

Fences (and LLaDA's `[BEGIN]` and `[DONE]`) split a text into pieces. Of the pieces that define the
requested function, the last valid one counts, fenced pieces first. It is joined with definitions of
earlier fences that it uses. A fence may be missing or unclosed. A piece ends before the first
top-level line that is not Python; a function that was cut off is not a program.
"""

import ast
import re
import textwrap
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from remask.answers.markup import answer_of
from remask.answers.program import parsed
from remask.tasks.base import TIERS

MAX_PROGRAM = 20_000  # characters that are searched for where Python ends
_TRIES = 40
_STARTS = 8  # lines that look like code from which a program may begin

_FENCE = re.compile(
    r"(?:```+|~~~+)([^\S\n]*[\w+.-]*[^\S\n]*(?:\n|\Z))?|\[(?:BEGIN|DONE)\]|</?answer>"
)
_CODE_LINE = re.compile(
    r"^(?:async def |def |class |import |from \w+ import |@|[A-Za-z_]\w*(?:: ?[\w\[\], ]+)? = )",
    re.MULTILINE,
)
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_NAMED = (ast.FunctionDef, ast.ClassDef)
_NEW_BLOCK = re.compile(r"^(?=\S)", re.MULTILINE)


class ListedProgram(NamedTuple):
    """A program found in a text."""

    source: str
    tier: str


class _Piece(NamedTuple):
    """What stands between two fences, or before or after them."""

    text: str
    inside: bool


def find_program(text: str, names: Sequence[str] = ()) -> ListedProgram:
    """Return the program of `text` that defines one of `names`; without names, the first one."""
    pieces = _pieces(text)
    inside = [piece for piece in pieces if piece.inside]
    outside = [piece for piece in pieces if not piece.inside]
    for group, tier in ((inside, 1), (outside, 3)):
        for piece in reversed(group):
            source = _program(piece.text, names)
            if names and compiles(source) and defines(source, names):
                earlier = inside[: inside.index(piece)] if piece.inside else []
                return ListedProgram(_with_earlier(source, earlier), TIERS[tier])
    wanted = next((p for p in inside if defines(p.text, names)), None)
    first = wanted or next((p for p in inside if _CODE_LINE.search(p.text)), None)
    first = first or next(iter(inside), None)
    if first is not None and not (names and any(defines(p.text, names) for p in outside)):
        return ListedProgram(_program(first.text, names), TIERS[1])
    whole = "\n".join(piece.text for piece in outside) if outside else ""
    return ListedProgram(_program(whole, names), TIERS[3] if whole.strip() else TIERS[None])


def _with_earlier(source: str, earlier: Sequence[_Piece]) -> str:
    """Return a program behind the imports, functions and classes of earlier pieces that it uses."""
    tree = parsed(source)
    wanted = _names(tree, ast.Load) - _bound(tree) if tree else set()
    added: list[str] = []
    for piece in reversed(earlier):
        other = parsed(textwrap.dedent(piece.text)) if wanted else None
        for node in reversed(other.body if other else []):
            if not isinstance(node, _DEFINITIONS):
                continue
            bound = {node.name} if isinstance(node, _NAMED) else _bound(node)
            if bound & wanted:
                added.insert(0, ast.unparse(node))
                wanted = (wanted | _names(node, ast.Load)) - bound
    return "\n\n".join([*added, source])


def _bound(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    bound = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    aliases = (node for node in nodes if isinstance(node, ast.alias))
    bound |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
    return bound | _names(tree, ast.Store)


def _names(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, context)}


def pieces_of(text: str) -> list[str]:
    """Return the pieces of a text, those between fences first."""
    pieces = _pieces(text)
    return [piece.text for piece in sorted(pieces, key=lambda piece: not piece.inside)]


def defines(source: str, names: Sequence[str]) -> bool:
    """Say whether a text has a function or class of one of these names; without names, of any."""
    name = "|".join(map(re.escape, names)) or r"\w+"
    bound = rf"^\s*(?:async def|def|class)\s+(?:{name})\b|^(?:{name})\s*=\s*(?:lambda|\w+\()"
    return re.search(bound, source, re.MULTILINE) is not None


def _pieces(text: str) -> list[_Piece]:
    """Return what stands between fences and around them; empty pieces are left out."""
    text = answer_of(text)
    cuts: list[_Piece] = []
    start, inside = 0, False
    for fence in _FENCE.finditer(text):
        cuts.append(_Piece(text[start : fence.start()], inside))
        start, inside = fence.end(), not inside
    cuts.append(_Piece(text[start:], inside))
    return [piece for piece in cuts if piece.text.strip()]


def _program(text: str, names: Sequence[str]) -> str:
    """Return the program of one piece: all of it, or what is Python from a line of code on."""
    whole, text = _unquoted(text), textwrap.dedent(text)
    for source in (whole, text.strip("\n").rstrip()):
        if compiles(source):
            return source
    starts = [match.start() for match in _CODE_LINE.finditer(text[:MAX_PROGRAM])]
    for start in starts[:_STARTS]:
        source = python_only(text[start:])
        if compiles(source) and defines(source, names):
            return source
    return python_only(text[starts[0] :]) if starts else whole


def _unquoted(text: str) -> str:
    """Return a program without the quotes that the worked examples of LLaDA put around it."""
    text = text.strip("\n").rstrip()
    inner = text.strip()
    quoted = len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "'\""
    return inner[1:-1] if quoted and not compiles(text) else text


def python_only(text: str, begun: int = 0) -> str:
    """Return the longest beginning of `text` that is Python; all of it where none is.

    It ends before a line that is not indented, and not within the first `begun` characters.
    """
    whole = text.rstrip()
    text = whole[:MAX_PROGRAM]
    for _ in range(_TRIES):
        line = _wrong_line(text)
        if line is None:
            return text.rstrip()
        at = sum(map(len, text.splitlines(keepends=True)[:line]))
        ends = [m.start() for m in _NEW_BLOCK.finditer(text, begun, at) if m.start() > begun]
        ends = [end for end in ends if end < len(text)]
        if not ends:
            return whole
        text = text[: ends[-1]]
    return whole


def compiles(source: str) -> bool:
    """Say whether a text is Python; it is not run, and a very long one is not looked at."""
    return len(source) <= MAX_PROGRAM and _wrong_line(source) is None


def _wrong_line(source: str) -> int | None:
    """Return the number of the line that is no Python, from 1; None where all of it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a candidate's string
            # A syntax tree is not enough: it lets a `return` stand outside of a function.
            compile(source, "candidate", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, OverflowError, RecursionError, MemoryError):
        return source.count("\n") + 1
    return None


def completed(prompt: str, entry_point: str, program: str) -> str:
    """Return a program that defines `entry_point`, of an answer to a HumanEval prompt.

    An answer that repeats the function gets what stands before it in the prompt (imports, helpers).
    One that goes on where the prompt ends is joined to it, indented where it lost its indentation,
    in every line or in the first alone, and read up to where it stops being Python.
    """
    if defines(program, [entry_point]):
        head = re.search(rf"^\s*(?:async )?def {re.escape(entry_point)}\b", prompt, re.MULTILINE)
        return prompt[: head.start() if head else 0] + "\n" + textwrap.dedent(program)
    return continued(prompt, program) or prompt + program


def continued(prompt: str, body: str) -> str | None:
    """Return the prompt with a body that makes it Python, or its beginning; None for no body."""
    bodies = [body]
    if not body[:1].isspace():
        if re.match(r"(?:async def|def|class)\s", body) and compiles(body):
            return None  # another function; a body that begins with one returns after it
        bodies = [textwrap.indent(body, "    "), "    " + body]
    whole = (prompt + one for one in bodies)
    begun = (python_only(prompt + one, begun=len(prompt)) for one in bodies)
    for source in (*filter(compiles, whole), *filter(compiles, begun)):
        if re.search(r"^\s*[^\s#]", source[len(prompt) :], re.MULTILINE):
            return source
    return None
