r"""MATH and MATH-500: competition problems whose answer is a formula in `\boxed{}`.

Gold is the field `answer` where a row has one, else what the last boxes of its solution hold.
Answers are compared by spelling first and by math-verify where spelling does not decide (extra
`math`). The levels are the published ones, 1 to 5; a row without one belongs to `all` alone. The
subject is in `Problem.facts`. MATH lies in order of its subjects: the first hundred problems are
algebra.
"""

import re
from dataclasses import replace

from remask.tasks.base import TIERS, Grade, Problem
from remask.tasks.public.benchmark import ALL, BenchmarkEntry, BenchmarkSpec, Format
from remask.tasks.public.equivalence import compare
from remask.tasks.public.formula import find_expression
from remask.tasks.public.latex import normalise
from remask.tasks.public.source import BenchmarkRow, Hub
from remask.tasks.public.symbolic import require
from remask.tasks.public.wording import DREAM, LLADA, Wording

HUB = Hub(
    repository="EleutherAI/hendrycks_math",
    revision="21a5633873b6a120296cce3e2df9d5550074f4a3",
    licence="MIT",
    configs=(
        "algebra",
        "counting_and_probability",
        "geometry",
        "intermediate_algebra",
        "number_theory",
        "prealgebra",
        "precalculus",
    ),
    splits={"train": "train", "test": "test"},
    sizes={"train": 7500, "test": 5000},
)
HUB_500 = Hub(
    repository="HuggingFaceH4/MATH-500",
    revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
    licence="none stated (MATH: MIT)",
    splits={"test": "test"},
    sizes={"test": 500},
)


class Competition(Format):
    """Rows with `problem` and `solution`, and `answer`, `level`, `subject` or `type` if known."""

    levels = (ALL, "1", "2", "3", "4", "5")
    critical = "formula"

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        solution = row.text("solution")
        answer = row.fields.get("answer") or _boxed(solution)
        if not str(answer).strip():
            raise row.wrong("solution", "has no \\boxed{} with an answer")
        level = re.search(r"[1-5]", str(row.fields.get("level", "")))
        subject = row.fields.get("subject") or row.fields.get("type") or ""
        return BenchmarkEntry(
            fields={"problem": row.text("problem")},
            gold=normalise(str(answer)),
            solution=solution,
            level=level.group() if level else ALL,
            facts={"answer": str(answer), "subject": str(subject)},
            worked={"solution": solution, "answer": str(answer)},
        )

    def extract(self, text: str) -> str | None:
        answer = find_expression(text).answer
        return None if answer is None else normalise(answer)

    def judge(self, problem: Problem, text: str) -> Grade:
        extraction = find_expression(text)
        tier = TIERS[extraction.tier]
        if extraction.answer is None:
            return Grade(right=False, extracted=None, tier=tier, method="none", reason="no answer")
        equal, method, reason = compare(problem.facts["answer"], extraction.answer)
        return Grade(
            right=equal,
            extracted=extraction.answer,
            tier=tier,
            method=method,
            reason=reason or "equal",
        )

    def check(self) -> None:
        require()


def _boxed(solution: str) -> str:
    """Return the answer that a published solution marks; boxes that are joined are a list."""
    read = find_expression(solution)
    return read.answer or "" if read.tier == 1 else ""


_WORDINGS = {
    "llada": Wording(
        template="{problem}\nPlease reason step by step, and put your final answer within "
        "\\boxed{{}}.",
        length=512,
        source=LLADA + "math/math_0shot_gen_11c4b5.py",
    ),
    "dream": Wording(
        template="Problem:\n{problem}\n\nSolution:",
        length=512,
        source=DREAM + "minerva_math/utils.py",
        reply=" {solution}\nFinal Answer: The final answer is ${answer}$. I hope it is correct.",
        turns=False,
    ),
}
MATH = BenchmarkSpec(
    name="math", hub=HUB, form=lambda allow_execution: Competition(), wordings=_WORDINGS
)
MATH500 = replace(MATH, name="math500", hub=HUB_500)
