"""A grammar of answers: texts as models write them, each with what a careful person reads in it.

    from grammar import items
    for item in items("gsm8k", 2000, seed=0): ...

It was written from published outputs and from the solutions of the benchmarks, not from the
readers: it knows nothing of `remask`. An item is a draw of marker x value x unit x trailing words x
nesting, after a text with other numbers, letters or programs in it. Its truth is None where
nobody could say for sure what the answer is, or where only a part of it is there ("unreadable").

The forms are taken from these places: generations of LLaDA-8B-Instruct that come with d1
(dllm-reasoning/d1, eval/eval_baselines), of Qwen2.5 and Gemma models (LzyFischer/icml_kd, results),
the solutions of GSM8K, MATH, MBPP and HumanEval, and the options of ARC. No sentence was copied.
"""

import random
from collections.abc import Callable, Iterator

from grammar.expression import draw_expression
from grammar.formula import draw_formula
from grammar.item import Item
from grammar.letter import draw_letter
from grammar.number import draw_number
from grammar.program import draw_body, draw_program

__all__ = ["TASKS", "Item", "items"]

TASKS: dict[str, Callable[[random.Random], Item]] = {
    "gsm8k": draw_number,
    "math500": draw_formula,
    "arc": draw_letter,
    "mbpp": draw_program,
    "humaneval": draw_body,
    "countdown": draw_expression,
}


def items(task: str, count: int, seed: int = 0) -> Iterator[Item]:
    """Yield `count` answers; the same ones for the same seed."""
    rng = random.Random(f"{task}/{seed}")
    return (TASKS[task](rng) for _ in range(count))
