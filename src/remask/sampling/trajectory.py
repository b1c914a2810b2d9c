"""The answer while it was written: what each step would have said, and when it stopped changing.

That right answers come early and stay, and that others change on the way, is the observation behind
temporal voting (arXiv:2508.09138) and early commit (arXiv:2508.19982). The two numbers here are our
own reading of it; they need no model and cost no forward pass.
"""

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise

from remask.values import Trace


def tentative_answers(
    trace: Trace,
    num_response: int,
    decode: Callable[[Sequence[int]], str],
    read: Callable[[str], str | None],
) -> list[str | None]:
    """Return the answer that is read in what each step would have written, (S,).

    None where none is, and where the step had not predicted the response to its end: a trace knows
    the current block, not those behind it, and half a text may state anything.

    Args:
        trace: of a sample.
        num_response: of that sample.
        decode: tokens to text, as of the model's tokenizer: up to the first end token.
        read: the final answer of a text, or what two of them are compared by; each text is read
            once.
    """
    by_text: dict[str, str | None] = {}
    answers: list[str | None] = []
    for tokens, steps in groupby(trace.tentative):  # most steps change nothing
        answer = None
        if tokens[num_response - 1] >= 0:
            text = decode([token for token in tokens if token >= 0])
            if text not in by_text:
                by_text[text] = read(text)
            answer = by_text[text]
        answers += [answer for _ in steps]
    return answers


def answer_flips(answers: Sequence[str | None]) -> int:
    """Return how often one answer gave way to another; steps that state none are passed over."""
    return sum(a != b for a, b in pairwise(answer for answer in answers if answer is not None))


def settled_step(answers: Sequence[str | None]) -> float:
    """Return the share of the steps before the final answer came to stay, in 0..1.

    0: it was there from the first step. 1: the last step states none, so nothing settled.
    """
    if not answers or answers[-1] is None:
        return 1.0
    other = [step for step, answer in enumerate(answers) if answer != answers[-1]]
    return (other[-1] + 1) / len(answers) if other else 0.0
