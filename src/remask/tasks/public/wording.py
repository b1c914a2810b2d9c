"""How the official evaluations of LLaDA and Dream ask, and how long a canvas they give.

The templates are theirs, letter by letter, since another wording is another number; each names the
file it was read in. Two things of theirs are left out, because a problem is one turn of a user:
worked examples given as earlier turns (LLaDA on GSM8K, GPQA and MBPP), and a beginning put into the
model's mouth (Dream on HumanEval and MBPP). Accuracies published with those are not comparable.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_LLADA = "ML-GSAI/LLaDA b7e6c35, opencompass/opencompass/configs/datasets/"
_DREAM = "DreamLM/Dream fac0a7f, eval_instruct/lm_eval/tasks/"


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A prompt with places for the fields of a row, and the canvas that goes with it."""

    template: str
    length: int  # tokens, of the model's own tokenizer
    source: str
    without: str = ""  # what the official evaluation has and we do not

    def fill(self, fields: Mapping[str, str]) -> str:
        """Return the prompt."""
        return self.template.format(**fields)


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
    template="Problem:\n{problem}\n\nSolution:", length=512, source=_DREAM + "minerva_math/utils.py"
)
_BORROWED = "Dream scores {} by likelihood alone; this is LLaDA's wording, "

WORDINGS: dict[str, dict[str, Wording]] = {
    "gsm8k": {
        "llada": Wording(
            template="Question: {question}\nLet's think step by step\nAnswer:",
            length=256,
            source=_LLADA + "gsm8k/gsm8k_gen_1d7fe4.py",
            without="4 worked examples as earlier turns",
        ),
        "dream": Wording(
            template="Q: {question}\nA:", length=256, source=_DREAM + "gsm8k/gsm8k-cot.yaml"
        ),
    },
    "math": {"llada": _MATH, "dream": _MATH_DREAM},
    "math500": {"llada": _MATH, "dream": _MATH_DREAM},
    "arc": {
        "llada": Wording(template=_ARC, length=512, source=_LLADA + "ARC_c/ARC_c_gen_1e0de5.py"),
        "dream": Wording(
            template=_ARC,
            length=512,
            source=_BORROWED.format("ARC") + _LLADA + "ARC_c/ARC_c_gen_1e0de5.py",
        ),
    },
    "gpqa": {
        "llada": Wording(
            template=_GPQA,
            length=64,
            source=_LLADA + "gpqa/gpqa_fewshot_gen.py",
            without="5 worked examples",
        ),
        "dream": Wording(
            template=_GPQA,
            length=64,
            source=_BORROWED.format("GPQA") + _LLADA + "gpqa/gpqa_fewshot_gen.py",
            without="5 worked examples",
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
            without="3 worked examples as earlier turns, and the beginning of the reply",
        ),
        "dream": Wording(
            template=_MBPP + "{tests}",
            length=1024,
            source=_DREAM + "mbpp/mbpp_instruct.yaml",
            without="the beginning of the reply",
        ),
    },
}
