"""Arithmetic as it stands in solutions: "(22-14)/4", worked out exactly and step by step."""

import ast
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

_ALLOWED = re.compile(r"[0-9a-z+\-*/(). ]+")
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_ZEROS = re.compile(r"(?<![\d.])0+(?=\d)")  # Python refuses "007"
DECIMALS = 3  # of a number in a solution


class Step(NamedTuple):
    """One operation: "22-14", and what it gives."""

    written: str
    value: Fraction


def evaluate(text: str, values: Mapping[str, Fraction | int] | None = None) -> Fraction:
    """Return the value of an expression; names in it are looked up. Raises ValueError."""
    return _value(_parsed(text), values or {})


def parsed(text: str) -> ast.expr:
    """Return an expression as a tree, to be worked out many times; ValueError where it is none."""
    return _parsed(text)


def recomputed(tree: ast.expr, becomes: Mapping[Fraction, Fraction]) -> Fraction:
    """Return the value of a tree in which numbers have become others. Raises ValueError."""
    match tree:
        case ast.Constant():
            value = _value(tree, {})
            return becomes.get(value, value)
        case ast.BinOp(left=left, op=operator, right=right):
            return _apply(operator, recomputed(left, becomes), recomputed(right, becomes))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -recomputed(operand, becomes)
    raise ValueError(f"{ast.unparse(tree)} is no arithmetic")


def steps(text: str) -> list[Step]:
    """Return the operations of an expression in the order in which a person does them."""
    done: list[Step] = []
    _work(_parsed(text), done)
    return done


def number(value: Fraction | int) -> str:
    """Return a number as it is written: "12", "2.5"; ValueError where it has many decimals."""
    value = Fraction(value)
    if value.denominator == 1:
        return str(value.numerator)
    if (value * 10**DECIMALS).denominator != 1:
        raise ValueError(f"{value} has more than {DECIMALS} decimals")
    return f"{float(value):.{DECIMALS}f}".rstrip("0")


def is_whole(value: Fraction) -> bool:
    """Say whether a value is an integer."""
    return value.denominator == 1


def _parsed(text: str) -> ast.expr:
    if len(text) > 200 or not _ALLOWED.fullmatch(text):
        raise ValueError(f"{text!r} is no arithmetic")
    try:
        return ast.parse(_ZEROS.sub("", text.strip()), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is no arithmetic") from None


def _value(node: ast.expr, values: Mapping[str, Fraction | int]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as constant) if not isinstance(constant, bool):
            return Fraction(str(constant))
        case ast.Name(id=name) if name in values:
            return Fraction(values[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.BinOp(left=left, op=operator, right=right):
            return _apply(operator, _value(left, values), _value(right, values))
    raise ValueError(f"{ast.unparse(node)} is no arithmetic")


def _apply(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div() if right:
            return left / right
    raise ValueError("an operation that is not done here")


def _work(node: ast.expr, done: list[Step]) -> Fraction:
    """Append the operations below a node, then its own."""
    if not isinstance(node, ast.BinOp):
        return _value(node, {})
    left, right = _work(node.left, done), _work(node.right, done)
    value = _apply(node.op, left, right)
    done.append(Step(f"{number(left)}{_SIGNS[type(node.op)]}{number(right)}", value))
    return value
