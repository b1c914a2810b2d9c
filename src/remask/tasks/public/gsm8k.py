"""GSM8K: grade-school word problems whose answer is one number.

Gold is what follows `####`. Numbers are compared by value, as `remask.answers` reads them; the
calculator marks `<<...>>` of the published solutions are left out of `Problem.solution`.
"""

import re

from remask.answers import canonical_number, extract_number, find_number
from remask.tasks.base import Grade, Problem, compared
from remask.tasks.public.benchmark import BenchmarkEntry, BenchmarkSpec, Format
from remask.tasks.public.source import BenchmarkRow, Hub
from remask.tasks.public.wording import DREAM, LLADA, Wording

HUB = Hub(
    repository="openai/gsm8k",
    revision="740312add88f781978c0658806c59bc2815b9866",
    licence="MIT",
    configs=("main",),
    splits={"train": "train", "test": "test"},
    sizes={"train": 7473, "test": 1319},
)
_MARKS = re.compile(r"<<[^<>]*>>")


class Gsm8k(Format):
    """Rows with `question` and `answer`."""

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        answer = row.text("answer")
        gold = canonical_number(answer.rpartition("####")[2].strip())
        if gold is None or "####" not in answer:
            raise row.wrong("answer", "does not end with #### and a number")
        fields = {"question": row.text("question")}
        solution = _MARKS.sub("", answer)
        steps, _, final = (part.strip() for part in solution.rpartition("####"))
        worked = {"steps": steps, "final": final}
        return BenchmarkEntry(fields=fields, gold=gold, solution=solution, worked=worked)

    def extract(self, text: str) -> str | None:
        return extract_number(text)

    def judge(self, problem: Problem, text: str) -> Grade:
        return compared(find_number(text), problem.gold, "number")


# Rows 7364, 1708, 669 and 6724 of the train split.
_SHOWN = ("40c1a60c6ce4", "be2aceb8a7f5", "e8d5da7770da", "b6468982b0e9")
GSM8K = BenchmarkSpec(
    name="gsm8k",
    hub=HUB,
    form=lambda allow_execution: Gsm8k(),
    wordings={
        "llada": Wording(
            template="Question: {question}\nLet's think step by step\nAnswer:",
            reply="{steps}\nThe answer is {final}",
            length=256,
            shown=_SHOWN,
            source=LLADA + "gsm8k/gsm8k_gen_1d7fe4.py",
        ),
        "dream": Wording(
            template="Q: {question}\nA:",
            reply=" {steps}\nThe answer is {final}.",
            length=256,
            turns=False,
            source=DREAM + "gsm8k/gsm8k-cot.yaml",
        ),
    },
)
