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

_LLADA = "ML-GSAI/LLaDA b7e6c35, opencompass/opencompass/configs/datasets/"
_DREAM = "DreamLM/Dream fac0a7f, eval_instruct/lm_eval/tasks/"


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


# Rows 7364, 1708, 669 and 6724 of GSM8K's train split; tasks 2, 3 and 4 of MBPP.
GSM8K_SHOWN = ("40c1a60c6ce4", "be2aceb8a7f5", "e8d5da7770da", "b6468982b0e9")
MBPP_SHOWN = ("a3aeabc1e9ea", "5b19fa13872d", "caf5f7eef063")
_ARC = "Question: {question}\n{options}\nAnswer:"
_GPQA = (
    "Question:\n{question}\nChoices:\n{options}\nWhen you're ready to answer, please use the "
    "format 'The correct answer is (X)' where X is the correct letter choice from 'ABCD'."
)
_MBPP = (
    "You are an expert Python programmer, and here is your task: {task} "
    "Your code should pass these tests:\n\n"
)
_MATH = Wording(
    template="{problem}\nPlease reason step by step, and put your final answer within \\boxed{{}}.",
    length=512,
    source=_LLADA + "math/math_0shot_gen_11c4b5.py",
)
_MATH_DREAM = Wording(
    template="Problem:\n{problem}\n\nSolution:",
    length=512,
    source=_DREAM + "minerva_math/utils.py",
    reply=" {solution}\nFinal Answer: The final answer is ${answer}$. I hope it is correct.",
    turns=False,
)
_BORROWED = "Dream scores {} by likelihood alone; this is LLaDA's wording, "

WORDINGS: dict[str, dict[str, Wording]] = {
    "gsm8k": {
        "llada": Wording(
            template="Question: {question}\nLet's think step by step\nAnswer:",
            length=256,
            source=_LLADA + "gsm8k/gsm8k_gen_1d7fe4.py",
            reply="{steps}\nThe answer is {final}",
            shown=GSM8K_SHOWN,
        ),
        "dream": Wording(
            template="Q: {question}\nA:",
            length=256,
            source=_DREAM + "gsm8k/gsm8k-cot.yaml",
            reply=" {steps}\nThe answer is {final}.",
            turns=False,
        ),
    },
    "math": {"llada": _MATH, "dream": _MATH_DREAM},
    "math500": {"llada": _MATH, "dream": _MATH_DREAM},
    "arc": {
        "llada": Wording(
            template=_ARC,
            length=512,
            source=_LLADA + "ARC_c/ARC_c_gen_1e0de5.py",
            reply="{letter}",
        ),
        "dream": Wording(
            template=_ARC,
            length=512,
            source=_BORROWED.format("ARC") + _LLADA + "ARC_c/ARC_c_gen_1e0de5.py",
            reply="{letter}",
        ),
    },
    "gpqa": {
        "llada": Wording(
            template=_GPQA,
            length=64,
            source=_LLADA + "gpqa/gpqa_fewshot_gen.py",
            without="5 worked examples, which are no rows of it",
        ),
        "dream": Wording(
            template=_GPQA,
            length=64,
            source=_BORROWED.format("GPQA") + _LLADA + "gpqa/gpqa_fewshot_gen.py",
            without="5 worked examples, which are no rows of it",
        ),
    },
    "humaneval": {
        "llada": Wording(
            template="Complete the following python code:\n{prompt}",
            length=512,
            source=_LLADA + "humaneval/humaneval_gen_8e312c.py",
        ),
        "dream": Wording(
            template="Write a solution to the following problem and make sure that it passes the "
            "tests:\n```{prompt}",
            length=768,
            source=_DREAM + "humaneval/humaneval_instruct.yaml",
            without="the beginning of the reply",
        ),
    },
    "mbpp": {
        "llada": Wording(
            template=_MBPP + " {tests}  \n",
            length=256,
            source=_LLADA + "mbpp/mbpp_gen_830460.py",
            without="the beginning of the reply",
            reply="[BEGIN]\n '{code}' \n[DONE] \n\n ",
            shown=MBPP_SHOWN,
        ),
        "dream": Wording(
            template=_MBPP + "{tests}",
            length=1024,
            source=_DREAM + "mbpp/mbpp_instruct.yaml",
            without="the beginning of the reply",
            reply="\n[BEGIN]\n{code}\n[DONE]",
            turns=False,
            shown=MBPP_SHOWN,
        ),
    },
}
