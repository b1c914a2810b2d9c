"""The nouns: what flows from a prompt to a decision.

    Problem -> prompt ids -> Canvas -> Sample -> RoundTrips -> Score -> Decision

`Canvas` is a batch of rows and lives on the model's device; the others belong to one answer and
live on the CPU, because texts, metrics and records do. Letters: B rows, L length, C canvas length
(the part after the prompt), N trips, S steps, V vocabulary, H hidden width. torch is imported where
tensors are made: studies replay decisions from records without it.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from remask.errors import ExtensionError, InputError
from remask.extension import running
from remask.settings import Number, Setting, checked, shown

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Likeliest = tuple[tuple[int, float], ...]  # tokens and their log p, the likeliest first
ROUNDTRIPS = "roundtrips"  # the paper's scorer, which is meant where none is named
Verdict = Literal["trust", "undecided", "doubt", "unknown"]  # unknown: no threshold, or no score
ROUNDING = 1e-9  # scores this close to a threshold are equal to it
Forwards = Annotated[int, Setting("Forward passes.", least=0)]
NO_CONTENT = "the answer is empty"
# Categories of Unicode that show nothing by themselves, and letters and symbols that are blank.
_BLANK = frozenset(("Cc", "Cf", "Cs", "Mn", "Me", "Zs", "Zl", "Zp"))
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"


@dataclass(frozen=True, kw_only=True, eq=False)
class Canvas:
    """Rows of prompt + canvas, or some columns of them, padded on the right."""

    tokens: "Tensor"  # (B, L) int64
    canvas: "Tensor"  # (B, L) bool: may be masked and rewritten; never the prompt, never padding
    attend: "Tensor | None"  # (B, L) bool: not padding; None where no row is padded
    places: "Tensor | None" = None  # (B, L) `offsets`, which columns cut from a row cannot show

    @staticmethod
    def of(
        prompts: Sequence[Sequence[int]],
        canvases: Sequence[Sequence[int]],
        pad_id: int,
        device: "torch.device",
    ) -> "Canvas":
        """Return the batch of `prompts[i] + canvases[i]`."""
        import numpy as np
        import torch

        rows = [(*p, *c) for p, c in zip(prompts, canvases, strict=True)]
        lengths = torch.tensor([len(row) for row in rows], device=device)
        longest = max(len(row) for row in rows)
        padded = [(*row, *[pad_id] * (longest - len(row))) for row in rows]
        place = torch.arange(longest, device=device)  # (L,)
        starts = torch.tensor([len(p) for p in prompts], device=device)
        attend = place < lengths[:, None]  # (B, L)
        return Canvas(
            # By way of an array: torch takes ten times as long to read nested sequences.
            tokens=torch.from_numpy(np.array(padded, dtype=np.int64)).to(device),
            canvas=attend & (place >= starts[:, None]),
            attend=None if min(len(row) for row in rows) == longest else attend,
        )

    @property
    def offsets(self) -> "Tensor":
        """Place of every position inside its row's canvas, (B, L); negative in the prompt."""
        if self.places is not None:
            return self.places
        import torch

        place = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return place - self.canvas.int().argmax(1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What an answer looked like while it was written, over the S steps that it took part in.

    Entropies are in nats, of what the model predicts before temperature and filters.
    """

    entropy: tuple[float, ...]  # (C,) of the prediction that revealed each token; 0: none did
    # (S, C) the text after each step, were it the last of its block: the likeliest tokens where it
    # is still masked, whatever the temperature; -1 where nothing was predicted yet.
    tentative: tuple[tuple[int, ...], ...]
    mean_entropy: tuple[float, ...]  # (S,) over the places of the block that were masked


@checked
@dataclass(frozen=True, kw_only=True)
class Sample:
    """One answer: generated here (with its probabilities), or brought from outside (without)."""

    item: str  # identity of the problem or prompt; random draws are keyed by it
    number: Number = 0  # which sample of the pool; 0 is the "standard" answer
    prompt: tuple[int, ...]
    canvas: tuple[int, ...]  # C tokens: the response up to and with its first end token, then EOS
    num_response: int  # tokens up to and including the first end token, or C where there is none
    text: str
    probs: tuple[float, ...] | None = None  # (C,) of each token when it was unmasked, untempered
    steps: tuple[int, ...] | None = None  # (C,) the step that unmasked it; -1: filled after the end
    forwards: Forwards = 0  # forward passes this answer cost
    trace: Trace | None = field(default=None, compare=False, repr=False)  # None: not wanted
    # (C,) what was likeliest when each token was unmasked, untempered; (): not wanted
    likeliest: tuple[Likeliest, ...] = field(default=(), compare=False, repr=False)
    # The prompt as text, for scorers that ask about it; "": not known.
    question: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a response, probabilities or steps that do not fit the canvas."""
        size = len(self.canvas)
        if not 0 <= self.num_response <= size:
            raise InputError(
                f"num_response must be between 0 and the canvas ({size}), got {self.num_response}."
            )
        for name in ("probs", "steps"):
            column = getattr(self, name)
            if column is not None and len(column) != size:
                raise InputError(
                    f"{name} must have one value per canvas token ({size}), got {len(column)}."
                )

    @property
    def has_content(self) -> bool:
        """Whether the text has a visible character; without one there is nothing to score."""
        letters = (letter for letter in self.text if letter not in _FILLERS)
        return any(unicodedata.category(letter) not in _BLANK for letter in letters)


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class RoundTrips:
    """One answer masked again N times and rebuilt: all that a metric may look at."""

    sample: Sample
    masked: "Tensor"  # (N, C) bool
    rebuilt: "Tensor"  # (N, C) int64
    texts: tuple[str, ...]  # N rebuilds, each up to its own first end token
    confidence: tuple[float | None, ...]  # N: mean over steps of the mean highest probability
    logp: "Tensor"  # (N, C) log p(original token) at the first step; 0 where not masked
    steps: "Tensor | None" = None  # (N, C) the step that rebuilt it, of its block; -1: not masked
    drift: "Tensor"  # (num_response,) share of trips that masked a token and did not bring it back
    displacement: tuple[float, ...]  # N: RMS distance of the rebuild in the model's embedding space
    forwards: int


@checked
@dataclass(frozen=True, kw_only=True)
class Score:
    """Score of one answer. Higher means more likely correct, for every scorer."""

    value: float | None  # finite; None: there is no score, and `reason` says why
    by_metric: Mapping[str, float] = field(default_factory=dict)  # mean over trips
    by_trip: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    drift: tuple[float | None, ...] = ()  # per response token; None where no trip masked it
    logp: tuple[float | None, ...] = ()  # per response token; None where no probe read it
    stderr: float | None = None  # of `value`, over trips; None for a single trip
    forwards: Forwards = 0  # beyond those that generated the answer
    reason: str = ""  # why there is no value; or why one of a fit is no probability
    stage: str = ""  # of a fitted verifier: the one that settled it; the value is a probability
    # Who says so. Equal scores say the same of an answer, whoever gave them.
    scorer: str = field(default="", compare=False)  # its name
    version: int = field(default=1, compare=False)  # raised when it would score otherwise
    weights: Mapping[str, float] = field(default_factory=dict, compare=False)  # of the metrics

    @property
    def rank(self) -> float:
        """What scores are compared by: an answer without a score ranks below every score."""
        return -math.inf if self.value is None else self.value

    @checked
    def signed(self, scorer: str) -> "Score":
        """Return the score with the name of its scorer, where it does not say it itself."""
        return self if self.scorer else replace(self, scorer=scorer)

    @checked
    def exceeds(self, threshold: float) -> bool:
        """Return whether Algorithm 1 accepts the answer: its score is strictly above the threshold.

        An answer without a score is never accepted, and neither is a score that only rounding puts
        above the threshold.
        """
        return self.value is not None and self.value > threshold + ROUNDING

    @checked
    def verdict(self, threshold: float | None, *, is_certified: bool = False) -> Verdict:
        """Return the verdict; `unknown` without a score or a threshold.

        `undecided` is within one standard error of the threshold: other masks could have put the
        score on the other side. A certificate guarantees the comparison itself, so its verdict is
        `trust` if the answer is accepted and `doubt` otherwise.
        """
        if self.value is None or threshold is None:
            return "unknown"
        if self.stderr and not is_certified and abs(self.value - threshold) <= self.stderr:
            return "undecided"
        return "trust" if self.exceeds(threshold) else "doubt"


def is_trusted(verdict: Verdict) -> bool | None:
    """Return the field `trusted` of JSON documents; None for `unknown`."""
    return None if verdict == "unknown" else verdict == "trust"


def score_text(value: float, threshold: float | None = None) -> str:
    """Return a score with three decimals, or with as many as show its side of the threshold."""
    digits = 3
    while threshold is not None and abs(value - threshold) > ROUNDING and digits < 10:
        rounded = round(value, digits)
        if rounded != threshold and (rounded > threshold) == (value > threshold):
            break
        digits += 1
    return f"{value:.{digits}f}"


@checked
@dataclass(frozen=True, kw_only=True)
class Decision:
    """What rejection sampling, best-of-N or a vote settled on for one prompt."""

    item: str
    action: Literal["accept", "fallback"]
    sample: Sample
    score: Score
    attempts: tuple[tuple[Sample, Score], ...]  # in the order drawn
    forwards: Forwards  # generation and verification of every attempt
    reason: str
    threshold: float | None = None  # of rejection sampling
    threshold_source: str = ""  # see `verifier.threshold.ScoreThreshold`


class Scorer(Protocol):
    """Scores answers."""

    @property
    def name(self) -> str:
        """Name in tables and records."""
        ...

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample; a score must not depend on the other samples."""
        ...


@checked
def scores_of(scorer: Scorer, samples: Sequence[Sample]) -> list[Score]:
    """Return one score per sample, each with the name of the scorer.

    An answer without content has no score, whatever the scorer. An exception inside a scorer of the
    user is shown with its cause.
    """
    kept = [i for i, sample in enumerate(samples) if sample.has_content]
    found: Any = [] if not kept else _run(scorer, [samples[i] for i in kept])
    if not isinstance(found, list | tuple) or not all(isinstance(one, Score) for one in found):
        raise ExtensionError(
            f"scorer {scorer.name!r} must return a list of Scores, got {shown(found)}."
        )
    if len(found) != len(kept):
        raise ExtensionError(
            f"scorer {scorer.name!r} must return one Score per sample ({len(kept)}), "
            f"got {len(found)}."
        )
    scores = [Score(value=None, reason=NO_CONTENT, scorer=scorer.name)] * len(samples)
    for i, score in zip(kept, found, strict=True):
        scores[i] = score.signed(scorer.name)
    return scores


def _run(scorer: Scorer, samples: list[Sample]) -> Any:
    if type(scorer).__module__.partition(".")[0] == __package__:
        return scorer.score(samples)
    with running("scorer", str(scorer.name)):
        return scorer.score(samples)


ScoreMethod = Callable[[Any, Sequence[Sample]], list[Score]]


def skips_empty(method: ScoreMethod) -> ScoreMethod:
    """Decorate the `score` of a scorer: it is asked only about answers with content."""

    @wraps(method)
    def score(self: Any, samples: Sequence[Sample]) -> list[Score]:
        kept = [sample for sample in samples if sample.has_content]
        found = iter(method(self, kept) if kept else [])
        empty = Score(value=None, reason=NO_CONTENT, scorer=self.name)
        return [next(found) if sample.has_content else empty for sample in samples]

    return checked(score)


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the exact weighted mean, rounded once; the weights must have a positive sum.

    Rounded at each step, the mean of three ones and a zero with weights of 1/5 is above 0.75.
    """
    exact = [Fraction(weight) for weight in weights]  # raises if one is not finite
    parts = (weight * Fraction(value) for weight, value in zip(exact, values, strict=True))
    return float(sum(parts) / sum(exact))


def mean(values: Sequence[float]) -> float:
    """Return the exact mean, rounded once: that of equal values is the value itself."""
    return weighted_mean(values, [1.0] * len(values))
