"""Readers on the grammar of answers: the truth must be read exactly, the unreadable not at all.

    python -m studies.checks.reading                        a table, and examples of what went wrong
    python -m studies.checks.reading --only gsm8k --show 20
    python -m studies.checks.reading --figures docs/figures.json --commit SHA --hardware "2 cores"

`right` is the share of answers whose truth is read, and of unreadable ones in which nothing is;
`wrong` is the share in which another value is read. The rest was missed. Nothing is executed:
programs are compared as syntax trees.
"""

import argparse
import ast
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from grammar import Item, items

from remask.analysis.figure import Figure, of_interval
from remask.analysis.statistics import proportion
from remask.errors import RemaskError
from remask.tasks.base import Problem
from remask.tasks.countdown import Countdown
from remask.tasks.public.choices import Arc
from remask.tasks.public.competition import Competition
from remask.tasks.public.gsm8k import Gsm8k
from remask.tasks.public.programs import HumanEval, Mbpp
from studies.shared.figures import parse, save

COUNT = 2000
WANTED = 0.995


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a reader made of one answer."""

    item: Item
    extracted: str | None
    true: bool  # what was read is the truth, and nothing else

    @property
    def right(self) -> bool:
        """Say whether the truth was read, or nothing where there is none."""
        return self.extracted is None if self.item.truth is None else self.true

    @property
    def wrong(self) -> bool:
        """Say whether another value was read."""
        return self.extracted is not None and not self.true


def problem_of(task: str, item: Item, gold: str = "") -> Problem:
    """Return the problem that an answer of the grammar is one to."""
    facts = {"answer": gold, "entry_point": item.facts.get("name"), "setup": "", **item.facts}
    return Problem(id="", task=task, level="", prompt="", gold=gold, solution="", facts=facts)


def read_number(item: Item) -> Reading:
    """Compare the number that is read, by value."""
    found = Gsm8k().extract(item.text)
    same = found is not None and item.truth is not None and Fraction(found) == Fraction(item.truth)
    return Reading(item=item, extracted=found, true=same)


def read_formula(item: Item) -> Reading:
    """Compare the formula that is read with the truth, and with what it could be taken for."""
    form = Competition()
    found = form.judge(problem_of("math500", item, item.truth or "0"), item.text)
    mixed = any(
        form.judge(problem_of("math500", item, other), item.text).right for other in item.others
    )
    true = item.truth is not None and found.right and not mixed
    return Reading(item=item, extracted=found.extracted, true=true)


def read_letter(item: Item) -> Reading:
    """Compare the letter."""
    found = Arc().judge(problem_of("arc", item), item.text).extracted
    return Reading(item=item, extracted=found, true=found is not None and found == item.truth)


def read_expression(item: Item) -> Reading:
    """Compare the expression, up to what its canonical form leaves out."""
    task = Countdown()
    found = task.extract(item.text)
    true = item.truth is not None and found == task.extract(f"Answer: {item.truth}")
    return Reading(item=item, extracted=found, true=true)


def read_program(item: Item) -> Reading:
    """Compare the function that would be tested."""
    task = "humaneval" if "prompt" in item.facts else "mbpp"
    form = HumanEval() if task == "humaneval" else Mbpp()
    source = form.program(problem_of(task, item), item.text).source
    found = defined(source, item.facts["name"])
    truth = None if item.truth is None else defined(item.truth, item.facts["name"])
    return Reading(item=item, extracted=found, true=found is not None and found == truth)


def defined(source: str, name: str) -> str | None:
    """Return the tree of the last function of that name; None where there is none."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    functions = [n for n in body if isinstance(n, ast.FunctionDef) and n.name == name]
    return ast.dump(functions[-1]) if functions else None


READERS: dict[str, Callable[[Item], Reading]] = {
    "gsm8k": read_number,
    "math500": read_formula,
    "arc": read_letter,
    "mbpp": read_program,
    "humaneval": read_program,
    "countdown": read_expression,
}


def measure(task: str, count: int, seed: int = 0) -> list[Reading]:
    """Return what the reader of a task makes of the answers of the grammar."""
    return [READERS[task](item) for item in items(task, count, seed)]


def summary(task: str, readings: Sequence[Reading]) -> dict[str, Figure]:
    """Return the shares that were read right and wrong."""
    shares = {
        "right": proportion([reading.right for reading in readings]),
        "wrong": proportion([reading.wrong for reading in readings]),
    }
    figures = (
        of_interval(share, section="reading", study=task, measure=side, unit="share")
        for side, share in shares.items()
    )
    return {figure.name: figure for figure in figures}


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Readers on the grammar of answers.")
    parser.add_argument("--only", choices=list(READERS), action="append", help="may be repeated")
    parser.add_argument("--count", type=int, default=COUNT, help="answers per task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=3, help="failures to print per task")
    return parse(parser, words)


def main(words: Sequence[str]) -> int:
    """Measure, print, write; return 0 where every share is as wanted."""
    arguments = read_arguments(words)
    figures: dict[str, Figure] = {}
    for task in arguments.only or READERS:
        readings = measure(task, arguments.count, arguments.seed)
        figures |= summary(task, readings)
        failed = sorted((r for r in readings if not r.right), key=lambda r: not r.wrong)
        for reading in failed[: arguments.show]:
            print(f"{task} [{reading.item.form}] {reading.item.text!r}")
            print(f"    read {reading.extracted!r}, truth {reading.item.truth!r}")
            print(f"    and must not be {reading.item.others}" if reading.item.others else "")
    for name, figure in figures.items():
        print(f"{name} {figure.value:.4f} ({figure.low:.4f} to {figure.high:.4f}), n={figure.n}")
    shares = {name: figure.entry() for name, figure in figures.items()}
    save(arguments, shares, "reading", f"python -m studies.checks.reading --seed {arguments.seed}")
    low = any(f.value < WANTED for name, f in figures.items() if name.endswith("/right"))
    return int(low or any(f.value for name, f in figures.items() if name.endswith("/wrong")))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"reading.py: {error}")
