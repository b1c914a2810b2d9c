"""Graders on real files: gold solutions must be right, and wrong answers wrong.

    python -m studies.checks.grading DATA                        a table, and every exception
    python -m studies.checks.grading DATA --out report.json
    python -m studies.checks.grading DATA --figures docs/figures.json --commit SHA --hardware CPU

DATA is a folder with the files that `FILES` names (of MBPP all splits). Each row is graded with its
own published solution (`gold`) and with answers made wrong on purpose (`control`): gold + 1 where
gold is a number, every other letter, another row's answer or program. The programs of MBPP are run,
in children with limits.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from remask.analysis.figure import Figure, of_interval
from remask.analysis.statistics import proportion
from remask.errors import RemaskError
from remask.records.jsonl import write_text
from remask.tasks import task
from remask.tasks.base import Grade, Problem
from remask.tasks.public.benchmark import Benchmark
from remask.tasks.public.latex import number_of
from studies.shared.figures import parse, save

FILES = {
    "gsm8k": "gsm8k/test.jsonl.gz",
    "svamp": "svamp/SVAMP.json.gz",
    "mawps": "mawps/testset.json.gz",
    "math500": "math500/test.jsonl.gz",
    "arc": "arc_challenge/test.jsonl.gz",
    "mbpp": "mbpp/mbpp.jsonl.gz",
}
WANTED = 0.995


@dataclass(frozen=True, kw_only=True)
class Case:
    """One text to be graded, and what the grade should be."""

    problem: Problem
    text: str
    kind: str  # "gold", or which control
    right: bool


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a case; `grade` is None where the grader crashed."""

    case: Case
    grade: Grade | None
    crash: str = ""

    @property
    def as_wanted(self) -> bool:
        """Say whether the grade is the one it should be."""
        return self.grade is not None and self.grade.right == self.case.right


def problems_of(benchmark: Benchmark) -> list[Problem]:
    """Return the problems of every split that the file holds."""
    if benchmark.name != "mbpp":
        return [benchmark.problem(index) for index in range(len(benchmark))]
    return [
        benchmark.problem(index, split=split)
        for split in ("train", "validation", "test")
        for index in range(benchmark.size(split))
    ]


def cases(name: str, problems: Sequence[Problem]) -> Iterator[Case]:
    """Yield the gold solution of each problem and its controls."""
    for number, problem in enumerate(problems):
        yield Case(problem=problem, text=problem.solution, kind="gold", right=True)
        for kind, text in CONTROLS[name](problems, number):
            yield Case(problem=problem, text=text, kind=kind, right=False)


def other(problems: Sequence[Problem], number: int) -> Problem:
    """Return the next problem, round the end, whose answer is another one."""
    after = [*problems[number + 1 :], *problems[:number]]
    return next(p for p in after if p.gold != problems[number].gold)


Controls = Iterator[tuple[str, str]]


def number_controls(problems: Sequence[Problem], number: int) -> Controls:
    """Yield the solution with gold + 1 at its end, and with another row's answer."""
    problem = problems[number]
    head = problem.solution.rpartition("####")[0]
    yield "gold + 1", f"{head}#### {Fraction(problem.gold) + 1}"
    yield "another row", f"{head}#### {other(problems, number).gold}"


def math_controls(problems: Sequence[Problem], number: int) -> Controls:
    """Yield the solution with gold + 1 in its last box, and with another row's answer."""
    problem = problems[number]
    head = problem.solution.rpartition("\\boxed")[0]
    value = number_of(problem.gold)
    if value is not None:
        yield "gold + 1", f"{head}\\boxed{{{value + 1}}}"
    yield "another row", f"{head}\\boxed{{{other(problems, number).facts['answer']}}}"


def arc_controls(problems: Sequence[Problem], number: int) -> Controls:
    """Yield every other letter, with its option."""
    problem = problems[number]
    for letter, option in zip(problem.facts["letters"], problem.facts["options"], strict=True):
        if letter != problem.gold:
            yield "another letter", f"The answer is ({letter}) {option}"


def mbpp_controls(problems: Sequence[Problem], number: int) -> Controls:
    """Yield another row's program."""
    yield "another row", other(problems, number).solution


CONTROLS: dict[str, Callable[[Sequence[Problem], int], Controls]] = {
    "gsm8k": number_controls,
    "svamp": number_controls,
    "mawps": number_controls,
    "math500": math_controls,
    "arc": arc_controls,
    "mbpp": mbpp_controls,
}


def measure(name: str, benchmark: Benchmark, workers: int) -> list[Outcome]:
    """Return the outcome of every case of a benchmark."""

    def judge(case: Case) -> Outcome:
        try:
            return Outcome(case=case, grade=benchmark.judge(case.problem, case.text))
        except Exception as error:  # a crash is what this script looks for
            return Outcome(case=case, grade=None, crash=f"{type(error).__name__}: {error}")

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(judge, cases(name, problems_of(benchmark))))


def summary(name: str, outcomes: Sequence[Outcome]) -> dict[str, Figure]:
    """Return the shares graded as they should be: of gold solutions and of controls."""
    found = {}
    for side, right in (("gold", True), ("control", False)):
        share = proportion([o.as_wanted for o in outcomes if o.case.right == right])
        if share is not None:
            figure = of_interval(share, section="grading", study=name, measure=side, unit="share")
            found[figure.name] = figure
    return found


def exceptions(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return what was not graded as it should be, one by one."""
    return [
        {
            "id": o.case.problem.id,
            "record": o.case.problem.facts.get("record", ""),
            "kind": o.case.kind,
            "gold": o.case.problem.gold[:200],
            "crash": o.crash,
            **({} if o.grade is None else _shortened(o.grade)),
        }
        for o in outcomes
        if not o.as_wanted
    ]


def _shortened(grade: Grade) -> dict[str, Any]:
    return {k: v[:200] if isinstance(v, str) else v for k, v in asdict(grade).items()}


def methods(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return how many cases were decided in which way."""
    found: dict[str, int] = {}
    for o in outcomes:
        name = "crash" if o.grade is None else f"{o.grade.tier}, {o.grade.method}"
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Graders on real files.")
    parser.add_argument("data", type=Path, help="folder with the benchmark files")
    parser.add_argument("--only", choices=list(FILES), action="append", help="may be repeated")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write the report here, as JSON")
    return parse(parser, words)


def main(words: Sequence[str]) -> int:
    """Measure, print, write; return 0 where every share is as wanted and nothing crashed."""
    arguments = read_arguments(words)
    report: dict[str, Any] = {}
    figures: dict[str, Figure] = {}
    for name in arguments.only or FILES:
        started = time.perf_counter()
        benchmark = task(name, path=arguments.data / FILES[name], allow_execution=True)
        outcomes = measure(name, benchmark, arguments.workers)
        figures |= summary(name, outcomes)
        report[name] = {
            "provenance": benchmark.provenance(),
            "seconds": round(time.perf_counter() - started, 1),
            "methods": methods(outcomes),
            "exceptions": exceptions(outcomes),
        }
        print(f"{name}: {json.dumps(report[name], indent=2, ensure_ascii=False)}", flush=True)
    for name, figure in figures.items():
        print(f"{name} {figure.value:.4f} ({figure.low:.4f} to {figure.high:.4f}), n={figure.n}")
    shares = {name: figure.entry() for name, figure in figures.items()}
    if arguments.out:
        document = {"figures": shares, "benchmarks": report}
        write_text(arguments.out, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    save(arguments, shares, "grading", "python -m studies.checks.grading DATA")
    crashed = any(case["crash"] for part in report.values() for case in part["exceptions"])
    return int(crashed or any(figure.value < WANTED for figure in figures.values()))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"grading.py: {error}")
