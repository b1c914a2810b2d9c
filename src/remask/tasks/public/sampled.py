"""Find the calls in a programming prompt; a vote compares what two programs do in these calls.

HumanEval shows calls in its docstring (`>>> f(2)`, `f(2) == 4`, "f(2) returns 4"); MBPP shows its
tests. The expected results are not used, because then the vote would be a grader. Nothing is run
here.
"""

import ast
import warnings
from collections.abc import Iterable

_LONGEST = 2_000  # characters of a call
_MOST = 16  # calls


def calls_in(text: str, name: str) -> list[str]:
    """Return the calls of the function `name` with literal arguments in a text."""
    calls: dict[str, None] = {}
    start = text.find(f"{name}(")
    while start >= 0 and len(calls) < _MOST:
        call = _call(text, start)
        if call is not None and not _continues(text, start):
            calls[call] = None
        start = text.find(f"{name}(", start + 1)
    return list(calls)


def calls_of_tests(tests: Iterable[str]) -> list[str]:
    """Return the left sides of the assertions of some tests."""
    calls: dict[str, None] = {}
    for test in tests:
        tree = _parsed(test, "exec")
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Assert):
                side = node.test.left if isinstance(node.test, ast.Compare) else node.test
                if any(isinstance(inner, ast.Call) for inner in ast.walk(side)):
                    calls[ast.unparse(side)] = None
    return list(calls)[:_MOST]


def _call(text: str, start: int) -> str | None:
    """Return the call that begins at `start`, if its arguments are literals."""
    end = text.find(")", start)
    while 0 <= end < start + _LONGEST:
        tree = _parsed(text[start : end + 1], "eval")
        if isinstance(tree, ast.Expression):
            return text[start : end + 1] if _is_plain(tree.body) else None
        end = text.find(")", end + 1)
    return None


def _is_plain(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return False
    try:
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            ast.literal_eval(argument)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _continues(text: str, start: int) -> bool:
    return start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_.")


def _parsed(text: str, mode: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape in a string
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
