"""Metrics of a Python program and its reconstruction: syntax tree and tokens.

The paper names both metrics in its section on code generation without definitions; these are ours.
Higher is better. A program may be inside a Markdown fence. Nothing is executed, and no text makes a
function raise.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator

from remask.answers.program import MAX_SOURCE, fenced_span, parsed

_WORD = re.compile(r"\w+|[^\w\s]")
_LAYOUT = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_IGNORED = {tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER}


def ast_similarity(a: str, b: str) -> float:
    """Return the Jaccard similarity of two programs' multisets of syntax-tree edges.

    An edge is (type of the parent, field, type of the child), so the measure sees structure and
    operators, and neither names nor literals, which `token_substitution` sees. A program that
    does not parse shares nothing with one that does; two such are alike only if equal.
    """
    edges_a, edges_b = _edges(source_of(a)), _edges(source_of(b))
    if edges_a is None and edges_b is None:
        return float(a == b)
    if edges_a is None or edges_b is None:
        return 0.0
    union = (edges_a | edges_b).total()
    return (edges_a & edges_b).total() / union if union else 1.0


def token_substitution(a: str, b: str) -> float:
    """Return 1 - the share of Python tokens substituted, inserted or deleted between two programs.

    The share is the token-level edit distance over the length of the longer program. Comments and
    blank lines do not count, indentation does. Unless both programs tokenize, both are cut into
    words and marks instead, so that the cut itself makes no difference. A program is compared up
    to MAX_SOURCE characters.
    """
    a, b = source_of(a)[:MAX_SOURCE], source_of(b)[:MAX_SOURCE]
    tokens_a, tokens_b = _python_tokens(a), _python_tokens(b)
    if tokens_a is None or tokens_b is None:
        tokens_a, tokens_b = _WORD.findall(a), _WORD.findall(b)
    from rapidfuzz.distance import Levenshtein  # not needed to make round trips

    return float(Levenshtein.normalized_similarity(tokens_a, tokens_b))


def source_of(text: str) -> str:
    """Return the program in `text`: the first Markdown fence, or all of it without a fence."""
    start, end = fenced_span(text)
    return text[start:end]


def _edges(source: str) -> Counter[tuple[str, str, str]] | None:
    """Return the edges of the syntax tree; None if `source` does not parse."""
    tree = parsed(source)
    if tree is None:
        return None
    return Counter(edge for parent in ast.walk(tree) for edge in _edges_below(parent))


def _edges_below(parent: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield the edges to the children of a node, except Load and Store contexts."""
    for field, value in ast.iter_fields(parent):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                yield type(parent).__name__, field, type(child).__name__


def _python_tokens(source: str) -> list[str] | None:
    """Return tokens, layout tokens by name; None if `source` does not tokenize."""
    try:
        return [
            tokenize.tok_name[token.type] if token.type in _LAYOUT else token.string
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type not in _IGNORED
        ]
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
