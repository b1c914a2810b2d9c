"""What of an answer is sent: its text up to a stop, its tokens, and block by block what is new.

Whole or as a stream, in the shape of a chat or of a completion, it is the same text.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass

from remask.denoisers.tokenizer import Tokenizer
from remask.sampling.drafts import Draft
from remask.serve.inputs import Inputs
from remask.serve.programs import Ends, Verified
from remask.serve.responses import FinishReason, drawn, finish_reason, readable
from remask.serve.stops import StopTexts
from remask.values import Likeliest, Sample

_LEAST = -9999.0  # OpenAI's least logarithm


@dataclass(frozen=True, kw_only=True)
class SentAnswer:
    """An answer as it is sent."""

    sample: Sample
    verified: Verified | None
    text: str
    num_tokens: int  # of its sample, from the first: those that the text is made of, and the end
    finish_reason: FinishReason


@dataclass(frozen=True, kw_only=True)
class TokenLog:
    """One token of an answer, with logarithms of probabilities when it was revealed."""

    text: str
    logp: float
    step: int
    likeliest: list[tuple[str, float]]


def sent_answer(
    tokenizer: Tokenizer, inputs: Inputs, sample: Sample, verified: Verified | None = None
) -> SentAnswer:
    """Return what is sent of an answer."""
    text, size = inputs.stops.cut(sample.text), sample.num_response
    if text is not None:
        size = _num_tokens(tokenizer, sample, len(text))
    return SentAnswer(
        sample=sample,
        verified=verified,
        text=sample.text if text is None else text,
        num_tokens=size,
        finish_reason=finish_reason(tokenizer, sample) if text is None else "stop",
    )


def _num_tokens(tokenizer: Tokenizer, sample: Sample, length: int) -> int:
    """Return how many tokens the first characters of an answer take."""
    sizes = range(sample.num_response + 1)
    return bisect_left(sizes, length, key=lambda n: len(tokenizer.decode(sample.canvas[:n])))


def token_logs(tokenizer: Tokenizer, answer: SentAnswer) -> list[TokenLog]:
    """Return the tokens that the text of an answer is made of: not its end token."""
    sample, size = answer.sample, answer.num_tokens
    probs, steps = drawn(sample)
    ids = sample.canvas[:size]
    likeliest: list[Likeliest] = [*sample.likeliest[:size]] or [()] * size
    rows = zip(ids, tokenizer.texts(ids), probs[:size], steps[:size], likeliest, strict=True)
    return [
        TokenLog(
            text=text,
            logp=max(_LEAST, math.log(prob)) if prob > 0 else _LEAST,
            step=step,
            likeliest=[
                (piece, max(_LEAST, logp))
                for piece, (_, logp) in zip(tokenizer.pieces([t for t, _ in top]), top, strict=True)
            ],
        )
        for i, text, prob, step, top in rows
        if i not in tokenizer.special_ids
    ]


def ends_at(tokenizer: Tokenizer, stops: StopTexts) -> Ends:
    """Return what says of a draft that a stop stands in it, so that no more of it is sent."""
    return lambda draft: (
        bool(stops.texts) and stops.cut(tokenizer.decode(draft.written)) is not None
    )


class SentSoFar:
    """How much of each choice a stream has sent."""

    def __init__(self, tokenizer: Tokenizer, stops: StopTexts) -> None:
        self.tokenizer, self.stops = tokenizer, stops
        self.texts: dict[int, str] = {}

    def add(self, index: int, draft: Draft) -> str:
        """Return what a finished block adds to a choice."""
        text = readable(self.tokenizer, draft)
        cut = self.stops.cut(text)
        if cut is not None:
            text = cut
        elif not draft.ended:
            text = self.stops.settled(text)
        before, self.texts[index] = self.texts.get(index, ""), text
        return text[len(before) :]
