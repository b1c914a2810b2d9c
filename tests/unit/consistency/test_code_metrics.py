"""What survived of a Python program."""

import ast
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from remask.answers import program
from remask.consistency.code_metrics import ast_similarity, source_of, token_substitution

ADD = "def add(a, b):\n    return a + b\n"
BOTH = (ast_similarity, token_substitution)


@pytest.mark.parametrize("metric", BOTH)
def test_an_identical_program_scores_one(metric) -> None:
    assert metric(ADD, ADD) == 1.0


def test_ast_similarity_counts_shared_edges() -> None:
    """Worked by hand.

    x + 1 has the edges Module-Expr, Expr-BinOp, BinOp.left-Name, BinOp.op-Add,
    BinOp.right-Constant: 5. x - 1 differs in BinOp.op-Sub alone. Shared 4, in all 6: 2/3.
    """
    assert ast_similarity("x + 1", "x - 1") == pytest.approx(4 / 6)


def test_ast_similarity_counts_repeated_edges() -> None:
    """f() has Module-Expr, Expr-Call, Call.func-Name: 3 edges; twice, 6. Shared 3 of 6."""
    assert ast_similarity("f()", "f()\nf()") == 0.5


def test_ast_similarity_sees_structure_and_neither_names_nor_literals() -> None:
    assert ast_similarity(ADD, "def plus(x, y):\n  # sum\n  return x + y") == 1.0
    assert ast_similarity("x = 1", "y = 22") == 1.0


def test_programs_without_a_shared_edge_score_zero() -> None:
    assert ast_similarity("", "x") == 0.0
    assert ast_similarity("", "# nothing") == 1.0


def test_a_program_that_does_not_parse_is_like_its_equal_only() -> None:
    assert ast_similarity("def (", "def (") == 1.0
    assert ast_similarity("def (", "def [") == 0.0
    assert ast_similarity("def (", ADD) == 0.0


def test_token_substitution_counts_edits() -> None:
    """Worked by hand.

    "x = a + b" is x, =, a, +, b, NEWLINE: 6 tokens. One is substituted: 1 - 1/6. Two more,
    "* c", are inserted: 3 edits over 8 tokens: 1 - 3/8 = 5/8.
    """
    assert token_substitution("x = a + b\n", "x = a - b\n") == pytest.approx(5 / 6)
    assert token_substitution("x = a + b\n", "x = a - b * c\n") == pytest.approx(5 / 8)


def test_token_substitution_sees_names_and_not_comments() -> None:
    assert token_substitution("x = 1\n", "x = 1  # one\n\n") == 1.0
    assert token_substitution("x = 1\n", "y = 1\n") == pytest.approx(3 / 4)


def test_without_a_shared_token_the_score_is_zero() -> None:
    """Neither tokenizes (open brackets), so words and marks are compared: 2 of 2 differ."""
    assert token_substitution("(a", "[b") == 0.0


def test_where_one_program_does_not_tokenize_both_are_cut_into_words() -> None:
    """Words and marks of "f(x)" are f ( x ), those of "f(x" are f ( x: one edit over 4."""
    assert token_substitution("f(x)\n", "f(x") == pytest.approx(3 / 4)


def test_a_program_may_stand_in_a_fence() -> None:
    assert source_of(f"Here it is:\n```python\n{ADD}```\nDone.") == ADD
    assert source_of("```\nx = 1") == "x = 1"
    assert ast_similarity(f"```python\n{ADD}```", ADD) == 1.0


@pytest.mark.parametrize("metric", BOTH)
@given(a=st.text(), b=st.text())
def test_scores_are_symmetric_and_bounded_on_any_text(metric, a: str, b: str) -> None:
    assert 0 <= metric(a, b) <= 1
    assert metric(a, b) == metric(b, a)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 50_000,
        "-" * 90_000 + "1",
        "1" + "+1" * 45_000,
        "x" + ".x" * 45_000,
        "x = \x00",
        "\ud800",
        '"\\d"',
        "9" * 10_000,
        '"""\n' * 24_999,
        '"""' + "\n" * 90_000,
        "if x:\n" + " " * 50_000 + "\t\n",
        "é∂漢🦆`" * 200_000,
        "a " * 500_000,
    ],
)
def test_of_hostile_programs_no_more_is_compared_than_the_limit(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is parsed, and what is compared token by token, has at most MAX_SOURCE characters."""
    sizes, normalized = [], Levenshtein.normalized_similarity

    def parse(text: str) -> ast.AST:
        sizes.append(len(text))
        return ast.parse(text)

    def similarity(a: list[str], b: list[str]) -> float:
        sizes.extend((len(a), len(b)))
        return float(normalized(a, b))

    monkeypatch.setattr(program, "ast", SimpleNamespace(**{**vars(ast), "parse": parse}))
    counted = SimpleNamespace(normalized_similarity=similarity)
    monkeypatch.setattr("rapidfuzz.distance.Levenshtein", counted)
    assert ast_similarity(source, source) == 1.0
    assert token_substitution(source, source) == 1.0
    assert ast_similarity(source, "def f(): pass") < 1
    assert max(sizes) <= program.MAX_SOURCE + 1  # the tokenizer adds the end of a line
