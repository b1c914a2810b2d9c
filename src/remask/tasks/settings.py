"""How a task is named and asked, in words that flags, files and requests share. No torch here."""

from typing import Annotated, Literal

from remask.settings import Setting

AnswerKind = Literal[
    "number", "choice", "code", "text", "wordmath", "countdown", "pycode", "gsm8k", "math",
    "math500", "arc", "gpqa", "humaneval", "mbpp",
]  # fmt: skip
WordingName = Literal["llada", "dream"]

Shots = Annotated[
    int,
    Setting("Worked examples to show, rows of the benchmark's train split.", least=0, most=100),
]
