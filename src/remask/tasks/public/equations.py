"""SVAMP and MAWPS: short word problems that come with an equation, answered by one number.

SVAMP asks a question about a story, joined by a blank as its users do. In the files of MAWPS words
and marks stand apart ("customers in his section ."); here they are written as people do. Numbers
are compared by value, as GSM8K's are. MAWPS has fractions as decimals (0.8333333333333334 for 5/6):
a gold of four decimals or more stands for a fraction, and an answer to two decimals is right.
"""

import re
from dataclasses import replace
from fractions import Fraction

from remask.answers import canonical_number, find_number
from remask.answers.number import MAX_DIGITS
from remask.tasks.base import Grade, Problem
from remask.tasks.public.benchmark import BenchmarkEntry, BenchmarkSpec
from remask.tasks.public.gsm8k import GSM8K, Gsm8k
from remask.tasks.public.source import BenchmarkRow, Hub

SVAMP_HUB = Hub(
    repository="arkilpatel/SVAMP",
    revision="689d7ccac74b9983a2ac7cc3b264f441b99e7c53",
    licence="MIT",
    splits={"test": "test"},
    sizes={"test": 1000},
    hosted=False,
    access="take SVAMP.json from its authors' repository on GitHub and give it as path",
)
MAWPS_HUB = Hub(
    repository="AGI-Edgerunners/LLM-Adapters",
    revision="816657208af4db747803f87ba40a4c71383fed7a",
    licence="ODC-By 1.0 as published there; MAWPS itself states none",
    splits={"train": "trainset", "validation": "validset", "test": "testset"},
    sizes={"train": 1898, "validation": 237, "test": 238},
    hosted=False,
    access="take trainset.json, validset.json and testset.json of MAWPS from that repository on "
    "GitHub and give their folder as path",
)
_DECIMAL = re.compile(r"(\d)\.0+(?!\d)")
_LONG = 4  # decimals from which a gold is a fraction that was cut off
_NEAR = Fraction(1, 200)  # of such a gold: half of the second decimal
# Marks that the file sets apart, and how they are written.
_TOGETHER = (
    (re.compile(r"\s+"), " "),
    (re.compile(r" (?=[.,?!;:%)])"), ""),
    (re.compile(r"(?<=[$(]) "), ""),
    (re.compile(r"(?<=[A-Za-z]) - (?=[A-Za-z])"), "-"),
    (re.compile(r" (?=(?:['’](?:s|re|ll|ve|d|m|t)|n['’]t)\b)"), ""),
    (re.compile(r"(?<= )' ([^']{1,30}) '"), r"'\1'"),
    (re.compile(r"(?<=s) (?=['’] [a-z])"), ""),  # "the girls ' team"
)


class Svamp(Gsm8k):
    """Rows with `Body`, `Question`, `Equation` and `Answer`, and `ID` and `Type` if known."""

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        """Return the story with its question."""
        problem_text = f"{row.text('Body').strip()} {row.text('Question').strip()}"
        return _entry(row, problem_text, "Answer", "Equation", record="ID", kind="Type")


class Mawps(Gsm8k):
    """Rows with `original_text`, `equation` and `ans`, and `id` if known."""

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        """Return the problem as people write it."""
        return _entry(row, written(row.text("original_text")), "ans", "equation", record="id")

    @property
    def compared_by(self) -> str:
        """What two answers are compared by."""
        return "value"

    def key(self, problem: Problem, text: str) -> str | None:
        """Return the number to two decimals: 2/3 and 0.67 say the same.

        Whether the gold stands for a fraction has no part in it: a vote that knew it would be a
        grader.
        """
        answer = self.extract(text)
        if answer is None or len(answer) > MAX_DIGITS:
            return answer
        return str(round(Fraction(answer), 2))

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the final number is the gold one, to two decimals for a fraction."""
        grade = super().judge(problem, text)
        answer = find_number(text).answer
        if grade.right or answer is None or not problem.facts["rounded"]:
            return grade
        if len(answer) > MAX_DIGITS or abs(Fraction(answer) - Fraction(problem.gold)) > _NEAR:
            return grade
        return replace(grade, right=True, reason="equal to two decimals")


def written(text: str) -> str:
    """Return a text whose words and marks stand apart as people write it."""
    for pattern, sign in _TOGETHER:
        text = pattern.sub(sign, text)
    return text.strip()


def _entry(
    row: BenchmarkRow, problem_text: str, answer: str, equation: str, *, record: str, kind: str = ""
) -> BenchmarkEntry:
    literal = str(row.value(answer)).strip()
    gold = canonical_number(literal)
    if gold is None:
        raise row.wrong(answer, "is not a number")
    steps = _plain(row.text(equation))
    final = _DECIMAL.sub(r"\1", literal)
    facts = {
        "record": str(row.fields.get(record, "")),
        "type": str(row.fields.get(kind, "")),
        "equation": steps,
        "rounded": len(literal.rpartition(".")[2]) >= _LONG and "." in literal,
    }
    return BenchmarkEntry(
        fields={"question": problem_text},
        gold=gold,
        solution=f"{steps}\n#### {final}",
        facts=facts,
        worked={"steps": steps, "final": final},
    )


def _plain(equation: str) -> str:
    text = _DECIMAL.sub(r"\1", re.sub(r"\s+", "", equation))
    text = text if "=" in text else f"x={text}"
    name, _, side = text.partition("=")
    return f"{name.lower()}={_unwrapped(side)}"


def _unwrapped(side: str) -> str:
    depth = 0
    for place, mark in enumerate(side):
        depth += (mark == "(") - (mark == ")")
        if depth == 0 and place < len(side) - 1:
            return side
    return side[1:-1] if side.startswith("(") and side.endswith(")") else side


# Neither is in the official evaluations; OpenCompass, which LLaDA's is made with, asks SVAMP so.
_WORDINGS = {
    name: replace(
        wording, shown=(), source=f"no official evaluation; GSM8K's wording, {wording.source}"
    )
    for name, wording in GSM8K.wordings.items()
}
SVAMP = BenchmarkSpec(
    name="svamp", hub=SVAMP_HUB, form=lambda allow_execution: Svamp(), wordings=_WORDINGS
)
MAWPS = BenchmarkSpec(
    name="mawps", hub=MAWPS_HUB, form=lambda allow_execution: Mawps(), wordings=_WORDINGS
)
