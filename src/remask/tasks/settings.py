"""Which task is asked, and how: words that flags, files and requests share. No torch here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from remask.settings import Setting

AnswerKind = Literal[
    "number",
    "choice",
    "code",
    "text",
    "wordmath",
    "countdown",
    "pycode",
    "gsm8k",
    "svamp",
    "mawps",
    "math",
    "math500",
    "arc",
    "gpqa",
    "humaneval",
    "mbpp",
]
WordingName = Literal["llada", "dream"]

Shots = Annotated[
    int,
    Setting("Worked examples to show, rows of the benchmark's train split.", least=0, most=100),
]


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """A task, and where a public benchmark's problems are from and how they are asked."""

    task: Annotated[
        str,
        Setting(
            "wordmath, countdown, choice or pycode; or gsm8k, svamp, mawps, math, math500, "
            "arc, gpqa, humaneval, mbpp; or module:name of your own."
        ),
    ]
    data: Annotated[
        Path | None,
        Setting("Rows of a public benchmark: a file, or a folder of splits; the hub by default."),
    ] = None
    wording: Annotated[
        str, Setting("Whose official prompt asks a public benchmark: llada, or dream.")
    ] = "llada"
    shots: Shots = 0
    allow_execution: Annotated[
        bool, Setting("Let grading run the model's code (humaneval, mbpp): no security boundary.")
    ] = False
    level: Annotated[
        str, Setting("Level of the task, as in easy or hard; the first by default.")
    ] = ""
