"""How the official evaluations of LLaDA and Dream ask, and how long a canvas they give.

The templates are theirs, letter by letter, since another wording is another number; each names the
file it was read in. Worked examples are no text of ours: they are rows of the benchmark's own train
split, as many as are asked for, and where the official ones are such rows, those (`shown`, by the
hash of what they ask). LLaDA shows them as earlier turns, Dream in front of the question.

Left out are examples that are no rows (GPQA; Dream's on GSM8K and MATH), and a beginning put into
the model's mouth (MBPP; Dream on HumanEval). Accuracies published with those are not comparable.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LLADA = "ML-GSAI/LLaDA b7e6c35, opencompass/opencompass/configs/datasets/"
DREAM = "DreamLM/Dream fac0a7f, eval_instruct/lm_eval/tasks/"
BORROWED = "Dream scores {} by likelihood alone; this is LLaDA's wording, "


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A prompt with places for the fields of a row, and the canvas that goes with it."""

    template: str
    length: int  # tokens, of the model's own tokenizer
    source: str
    without: str = ""  # what the official evaluation has and we do not, examples aside
    reply: str = "{solution}"  # how a worked example is answered
    turns: bool = True  # examples are earlier turns, or stand in front of the question
    shown: tuple[str, ...] = ()  # the rows of the train split that are shown officially, by `mark`

    def fill(self, fields: Mapping[str, str], before: Sequence[tuple[str, str]] = ()) -> str:
        """Return the prompt, behind examples that stand in front of it."""
        question_text = self.template.format(**fields)
        return "\n\n".join([*(question + reply for question, reply in before), question_text])

    def example(self, fields: Mapping[str, str], worked: Mapping[str, str]) -> tuple[str, str]:
        """Return a worked example: what is asked, and the reply."""
        return self.fill(fields), self.reply.format(**worked)


def mark(fields: Mapping[str, str]) -> str:
    """Return what a row is known by: a hash of its question, that is, of the first field."""
    return hashlib.sha256(next(iter(fields.values())).strip().encode()).hexdigest()[:12]
