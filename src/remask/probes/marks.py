"""Critical tokens: which tokens of a sample have a part in what decides its answer."""

from collections.abc import Callable, Mapping

from remask.answers.critical import OFFERED, critical_positions
from remask.denoisers.tokenizer import Tokenizer
from remask.extension import call
from remask.probes.readings import CriticalTokens
from remask.values import Sample


def mark_critical(
    tokenizer: Tokenizer,
    questions: Mapping[str, str],
    *,
    extract: Callable[[str], str | None],
    kind: str = "number",
) -> CriticalTokens:
    """Return what says of each response token of a sample whether it decides the answer.

    Args:
        tokenizer: of the model whose tokens they are.
        questions: the prompts, as text, by item, for samples without a `question`.
        extract: finds the final answer of a text.
        kind: of critical text, a key of `answers.critical.CRITICAL`.
    """

    def mark(sample: Sample) -> list[bool]:
        ids = sample.canvas[: sample.num_response]
        # The name of an end token is no part of the text, and would break a program's.
        special, texts = tokenizer.special_ids, tokenizer.texts(ids)
        pieces = ["" if i in special else text for i, text in zip(ids, texts, strict=True)]
        question = sample.question or questions.get(sample.item, "")
        answer = call("extract", extract, sample.text)
        return critical_positions(pieces, answer, prompt=question, kind=kind)

    return CriticalTokens(mark=mark, is_halved=kind not in OFFERED)
