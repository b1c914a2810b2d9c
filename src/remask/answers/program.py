"""Find a Python program in a text, and the spans of its names, operators and constants.

A program may be cut off or invalid, so one regular expression splits it into tokens: `tokenize`
rejects broken programs and splits f-strings differently in different versions of Python. Nothing is
executed here.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from keyword import iskeyword

from remask.answers.markup import answer_span

MAX_SOURCE = 100_000  # characters; a longer program is not parsed
Span = tuple[int, int]

_FENCE = re.compile(r"```[^\n]*\n?")
_FIRST_LINE = re.compile(r"^(?:async def|def|class|import|from|@)\b", re.MULTILINE)
_DONE = "[DONE]"  # ends the programs of MBPP's worked examples
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>(?i:[rbfu]{1,2})?(?:
        \"{3}(?:[^\\]|\\.?)*?(?:\"{3}|\Z)|'{3}(?:[^\\]|\\.?)*?(?:'{3}|\Z)
        |\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?))
    |(?P<number>\.?[0-9](?:[eE][-+](?=[0-9])|[\w.])*)
    |(?P<name>[^\W\d]\w*)
    |(?P<arrow>->|:=)
    |(?P<operator>\*\*=?|//=?|>>=?|<<=?|[-+*/%&|^@<>=!]=|[-+*/%&|^@~<>])""",
    re.VERBOSE | re.DOTALL,
)
_VALUES = {"True", "False", "None"}
_WORD_OPERATORS = {"and", "or", "not", "in", "is"}
_DOC = re.compile(r"^[^\S\n]*([rRuU]?(?:\"{3}|'{3}))", re.MULTILINE)
_NAME = r"[^\W\d]\w*"
_BINDING = re.compile(  # stretches in which a name is bound
    rf"""\b(?:def|class)\s+{_NAME}(?:\s*\((?:[^):]|:(?!\s*\n)){{0,400}}(?:\)\s*->[^:\n]{{0,80}})?)?
    |\bfor\b[^:\n]{{0,80}}?\bin\b
    |\blambda\b[^:\n]{{0,80}}:
    |\bas\s+{_NAME}
    |^[ \t]*(?:import|from)\b[^\n]*
    |^[ \t]*{_NAME}(?:[ \t]*,[ \t]*{_NAME})*[ \t]*(?:=(?!=)|:(?!=)[^=\n]{{0,80}}=(?!=))""",
    re.VERBOSE | re.MULTILINE,
)


def fenced_span(text: str) -> Span:
    """Return the span inside the first Markdown fence, or of the whole text."""
    opening = _FENCE.search(text)
    if opening is None:
        return 0, len(text)
    closing = _FENCE.search(text, opening.end())
    return opening.end(), closing.start() if closing else len(text)


def program_span(text: str) -> Span:
    """Return the span of the program: inside a fence, or from the first line of code."""
    first, last = answer_span(text)
    start, end = fenced_span(text[first:last])
    if end - start < last - first:
        return first + start, first + end
    done = text.find(_DONE, first, last)
    last = last if done < 0 else done
    line = _FIRST_LINE.search(text, first, last)
    return line.start() if line else first, last


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree, or None if `source` does not parse."""
    if len(source) > MAX_SOURCE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # generated code has odd escapes and comparisons
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def name_spans(source: str) -> list[Span]:
    """Return the spans of used names.

    Bindings do not count, because the name is free: definitions, parameters, loop variables,
    imports and assignment targets.
    """
    return [
        token.span()
        for token in _unbound(source)
        if token.lastgroup == "name" and not iskeyword(token.group())
    ]


def operator_spans(source: str) -> list[Span]:
    """Return the spans of operators, including words such as `and`, outside bindings."""
    return [
        token.span()
        for token in _unbound(source)
        if token.lastgroup == "operator" or token.group() in _WORD_OPERATORS
    ]


def constant_spans(source: str) -> list[Span]:
    """Return the spans of numbers, strings, True, False and None, without docstrings."""
    docs = {doc.start(1) for doc in _DOC.finditer(source)}
    return [
        token.span()
        for token in _TOKEN.finditer(source)
        if token.lastgroup == "number"
        or token.group() in _VALUES
        or (token.lastgroup == "string" and token.start() not in docs)
    ]


def _unbound(source: str) -> Iterator[re.Match[str]]:
    """Yield the tokens outside bindings."""
    binding = bytearray(len(source))
    for stretch in _BINDING.finditer(source):
        start, end = stretch.span()
        binding[start:end] = b"\x01" * (end - start)
    yield from (token for token in _TOKEN.finditer(source) if not binding[token.start()])
