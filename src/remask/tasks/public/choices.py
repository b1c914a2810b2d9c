"""ARC-Challenge and GPQA: questions with options, answered by a letter.

Options are lettered A, B, C, ... whatever labels the file has (part of ARC is labelled 1 to 4). A
letter is read by the paper's tiers; beyond them, an answer that begins with its letter ("C. The
days ...") counts as the last tier, since that is how the official prompt of ARC is answered. The
options of GPQA, where the file puts the right one first, are shuffled by (seed, record).
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from remask.answers import Extraction, find_choice
from remask.tasks.base import Grade, Problem, compared
from remask.tasks.public.benchmark import BenchmarkEntry, BenchmarkSpec, Format
from remask.tasks.public.source import BenchmarkRow, Hub
from remask.tasks.public.wording import BORROWED, LLADA, Wording

LETTERS = "ABCDEFGH"

ARC_HUB = Hub(
    repository="allenai/ai2_arc",
    configs=("ARC-Challenge",),
    licence="CC BY-SA 4.0",
    revision="210d026faf9955653af8916fad021475a3f00453",
    splits={"train": "train", "validation": "validation", "test": "test"},
    sizes={"train": 1119, "validation": 299, "test": 1172},
)
GPQA_HUB = Hub(
    repository="Idavidrein/gpqa",
    configs=("gpqa_main",),
    licence="CC BY 4.0; its authors ask that questions are not shown in plain text online",
    revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
    splits={"test": "train"},
    sizes={"test": 448},
    access="GPQA is gated: accept its terms on the dataset page Idavidrein/gpqa and log in "
    "(`hf auth login`), or take gpqa_main.csv from the archive in the repository idavidrein/gpqa, "
    "whose README has the password, and give it as path",
)


def find_letter(text: str, letters: str = "ABCDE") -> Extraction:
    """Return the letter that `text` settles on, otherwise the one that it begins with."""
    return find_choice(text, letters, leading=True)


def listed(options: Sequence[str]) -> str:
    """Return the options as the official prompts list them."""
    return "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, options, strict=False))


def entry(question: str, options: Sequence[str], right: int, **facts: Any) -> BenchmarkEntry:
    """Return a question with lettered options."""
    gold = LETTERS[right]
    return BenchmarkEntry(
        fields={"question": question, "options": listed(options)},
        gold=gold,
        solution=f"The answer is ({gold}) {options[right]}",
        facts={"letters": LETTERS[: len(options)], "options": list(options), **facts},
        worked={"letter": gold},
    )


class _Lettered(Format):
    critical = "choice"

    def extract(self, text: str) -> str | None:
        return find_letter(text).answer

    def judge(self, problem: Problem, text: str) -> Grade:
        return compared(find_letter(text, problem.facts["letters"]), problem.gold, "letter")


class Arc(_Lettered):
    """Rows with `question`, `choices` (`text` and `label`) and `answerKey`.

    In AI2's own files `question` holds `stem` and `choices`; those are read as well.
    """

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        """Return the question with its options relettered."""
        question: Any = row.value("question")
        choices = row.fields.get("choices")
        if isinstance(question, dict):
            question, choices = question.get("stem"), question.get("choices")
        texts, labels = _texts_and_labels(choices)
        if not isinstance(question, str) or not 2 <= len(texts) <= len(LETTERS):
            raise row.wrong("question", f"has no text, or its choices are not 2 to {len(LETTERS)}")
        key = str(row.value("answerKey")).strip()
        if key not in labels:
            raise row.wrong("answerKey", f"is {key!r}, which is none of {', '.join(labels)}")
        return entry(question, texts, labels.index(key), record=str(row.fields.get("id", "")))


def _texts_and_labels(choices: Any) -> tuple[list[str], list[str]]:
    """Return both columns of the choices, empty where they are not of a known shape."""
    texts: Any = None
    labels: Any = None
    if isinstance(choices, list) and all(isinstance(choice, dict) for choice in choices):
        texts, labels = ([choice.get(name) for choice in choices] for name in ("text", "label"))
    elif isinstance(choices, dict):
        texts, labels = choices.get("text"), choices.get("label")
    if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels):
        return [], []
    return [str(text) for text in texts], [str(label) for label in labels]


class Gpqa(_Lettered):
    """Rows with `Question`, `Correct Answer` and `Incorrect Answer 1` to `3`."""

    def read(self, row: BenchmarkRow, seed: int) -> BenchmarkEntry:
        """Return the question with its options in the order that the seed decides."""
        question, right = row.text("Question").strip(), row.text("Correct Answer").strip()
        wrong = [row.text(f"Incorrect Answer {number}").strip() for number in (1, 2, 3)]
        record = str(row.fields.get("Record ID") or question)
        options = [right, *wrong]
        order = list(range(len(options)))
        random.Random(f"gpqa/{seed}/{record}").shuffle(order)
        return entry(
            question,
            [options[place] for place in order],
            order.index(0),
            record=record,
            subject=str(row.fields.get("High-level domain") or ""),
        )


_ARC = Wording(
    template="Question: {question}\n{options}\nAnswer:",
    length=512,
    source=LLADA + "ARC_c/ARC_c_gen_1e0de5.py",
    reply="{letter}",
)
_GPQA = Wording(
    template="Question:\n{question}\nChoices:\n{options}\nWhen you're ready to answer, please use "
    "the format 'The correct answer is (X)' where X is the correct letter choice from 'ABCD'.",
    length=64,
    source=LLADA + "gpqa/gpqa_fewshot_gen.py",
    without="5 worked examples, which are no rows of it",
)


def _borrowed(wording: Wording, name: str) -> dict[str, Wording]:
    """Return LLaDA's wording for both: Dream's evaluation asks nothing in words."""
    dream = replace(wording, source=BORROWED.format(name) + wording.source)
    return {"llada": wording, "dream": dream}


ARC = BenchmarkSpec(
    name="arc",
    hub=ARC_HUB,
    form=lambda allow_execution: Arc(),
    wordings=_borrowed(_ARC, "ARC"),
)
GPQA = BenchmarkSpec(
    name="gpqa",
    hub=GPQA_HUB,
    form=lambda allow_execution: Gpqa(),
    wordings=_borrowed(_GPQA, "GPQA"),
)
