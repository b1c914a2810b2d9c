"""Prompts and canvas lengths of the official evaluations of LLaDA and Dream.

The templates are exact copies, because the wording changes the accuracy; each names its source
file. Worked examples are rows of the benchmark's own train split: the official ones (`shown`, by
the hash of the question) if they are rows, otherwise the first ones. LLaDA shows them as earlier
turns, Dream before the question.

Two things are omitted: examples that are not rows (GPQA; Dream's on GSM8K and MATH), and a prefix
of the reply (MBPP; Dream on HumanEval). Accuracies published with those are not comparable.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LLADA = "ML-GSAI/LLaDA b7e6c35, opencompass/opencompass/configs/datasets/"
DREAM = "DreamLM/Dream fac0a7f, eval_instruct/lm_eval/tasks/"
BORROWED = "Dream scores {} by likelihood alone; this is LLaDA's wording, "


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A prompt template and its canvas length."""

    template: str
    length: int  # tokens, of the model's own tokenizer
    source: str
    without: str = ""  # parts of the official prompt that are missing here
    reply: str = "{solution}"  # reply of a worked example
    turns: bool = True  # examples are earlier turns, or precede the question
    shown: tuple[str, ...] = ()  # official examples, by `mark`

    def fill(self, fields: Mapping[str, str], before: Sequence[tuple[str, str]] = ()) -> str:
        """Return the prompt with the examples `before` it."""
        question_text = self.template.format(**fields)
        return "\n\n".join([*(question + reply for question, reply in before), question_text])

    def example(self, fields: Mapping[str, str], worked: Mapping[str, str]) -> tuple[str, str]:
        """Return the prompt and the reply of a worked example."""
        return self.fill(fields), self.reply.format(**worked)


def mark(fields: Mapping[str, str]) -> str:
    """Return the hash of a row's question, which is its first field."""
    return hashlib.sha256(next(iter(fields.values())).strip().encode()).hexdigest()[:12]
