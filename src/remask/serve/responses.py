"""The documents of docs/server.md, and how they are made from results.

The OpenAPI document is made of the same models. A field without a default is always there; a field
with a default is left out if it was not set.
"""

import math
import secrets
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from remask.denoisers.tokenizer import HALF, Tokenizer
from remask.sampling.drafts import Draft
from remask.serve.inputs import Inputs
from remask.serve.programs import Plan, Verified
from remask.serve.request import ClientRequest
from remask.serve.service import Service
from remask.tasks import TASKS, steps_ok
from remask.values import ROUNDTRIPS, Decision, RoundTrips, Sample, Score, Verdict

FinishReason = Literal["stop", "length"]
StopCause = Literal["accepted", "budget", "deadline"]  # what ended the search
_RUNS_CODE = {"pycode"}  # tasks whose grader runs the answer as a program
_SAMPLER = ("temperature", "resample_temperature", "length", "steps", "block")


class Response(BaseModel):
    """A document, or a part of one."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class MetricValue(Response):
    """One metric of a score."""

    value: float | None
    weight: float
    by_trip: list[float | None]


class VerifiedToken(Response):
    """One token of an answer."""

    text: str
    drift: float | None
    confidence: float | None
    special: bool
    logp: float | None = None  # if the scorer reads it


class TripTrace(Response):
    """One round trip, token by token."""

    text: str
    masked: list[bool]
    rebuilt: list[str]
    steps: list[int | None]
    original: list[float | None]


class RequestCost(Response):
    """Cost of a response."""

    forwards: int
    seconds: float


class AnswerGrade(Response):
    """The grade of an answer whose problem is known."""

    id: str
    gold: str
    right: bool
    process_ok: bool | None


class AnswerReport(Response):
    """Fields of a verification and of a decision."""

    id: str
    model: str
    item: str
    text: str
    extracted: str | None
    scorer: str
    score: float | None
    threshold: float | None
    threshold_source: str | None  # given, fit, scorer, preset, or the paper's
    threshold_reason: str  # why there is no threshold
    verdict: Verdict
    reason: str
    cost: RequestCost
    settings: dict[str, Any]
    graded: AnswerGrade | None
    stage: str = ""  # the stage at which a fitted verifier stopped


class Verification(AnswerReport):
    """Response of POST /v1/verify."""

    object: Literal["remask.verification"]
    stderr: float | None
    accepted: bool | None  # true for the verdict trust, false for doubt, else null
    metrics: dict[str, MetricValue]
    tokens: list[VerifiedToken]
    trips: list[TripTrace]


class VerificationEvent(Verification):
    """The event `verification` of an attempt."""

    number: int


class BlockEvent(Response):
    """The event `block`: the text of an unfinished attempt."""

    number: int
    text: str
    finished: bool


class DrawnToken(Response):
    """One token of a generated answer."""

    text: str
    confidence: float
    step: int
    special: bool


class DrawnAnswer(Response):
    """The event `attempt`: a generated answer."""

    number: int
    text: str
    extracted: str | None
    tokens: list[DrawnToken]
    confidence: float
    finish_reason: FinishReason
    forwards: int


class SolveAttempt(DrawnAnswer):
    """A generated answer with its verification."""

    verification: Verification


class SolveDecision(AnswerReport):
    """The decision of rejection sampling: the event `decision`."""

    object: Literal["remask.solution"]
    prompt: str
    action: Literal["accept", "fallback"]
    accepted: int | None
    number: int
    budget: int
    num_attempts: int
    stopped: StopCause


class Solution(SolveDecision):
    """Response of POST /v1/solve: the decision with its attempts."""

    attempts: list[SolveAttempt]


def new_id(prefix: str) -> str:
    """Return a random id for a document."""
    return f"{prefix}-{secrets.token_hex(8)}"


def metric_values(score: Score) -> dict[str, MetricValue]:
    """Return the metrics with their weights in the score; 0 if it is not a weighted sum."""
    if not score.weights:
        return {
            name: MetricValue(value=value, weight=0.0, by_trip=[])
            for name, value in score.by_metric.items()
        }
    total = sum(score.weights[name] for name in score.by_metric)
    return {
        name: MetricValue(
            value=score.by_metric.get(name),
            weight=score.weights[name] / total if name in score.by_metric else 0.0,
            by_trip=list(score.by_trip.get(name, ())),
        )
        for name in score.by_trip or score.by_metric
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Responder:
    """The response to one request: its program, and the documents made of the results."""

    service: Service
    client: ClientRequest
    body: Any
    prompts: list[Inputs]
    error_event: ClassVar[str] = ""  # name of the last event of a stream that fails

    def plan(self) -> Plan:
        """Return the program that answers the request, or raise if the request is invalid."""
        raise NotImplementedError

    def document(self, result: Any) -> Response:
        """Return the result of the program as one document."""
        raise NotImplementedError

    def events(self) -> AsyncGenerator[str, None]:
        """Run the program, and yield the response as server-sent events."""
        raise NotImplementedError

    @property
    def inputs(self) -> Inputs:
        """The inputs of the first prompt; only /v1/completions has several."""
        return self.prompts[0]

    @property
    def texts(self) -> list[str]:
        """What the client sent, for the log."""
        return [inputs.prompt for inputs in self.prompts]

    def verification(self, verified: Verified) -> Verification:
        """Return the document of /v1/verify, or of an attempt of /v1/solve."""
        sample, score = verified.sample, verified.score
        verdict = self.inputs.threshold.verdict(score)
        return Verification(
            **self._report(sample, score, score.forwards),
            id=new_id("ver"),
            object="remask.verification",
            reason=score.reason,
            stderr=score.stderr,
            accepted={"trust": True, "doubt": False}.get(verdict),
            metrics=metric_values(score),
            tokens=self._verified_tokens(sample, score),
            trips=self._traces(verified.trips),
            settings=self._settings(),
        )

    def _report(self, sample: Sample, score: Score, forwards: int) -> dict[str, Any]:
        return {
            "model": self.service.settings.model,
            "item": sample.item,
            "text": sample.text,
            "extracted": self.inputs.extract(sample.text),
            "scorer": score.scorer,
            "score": score.value,
            **self.inputs.threshold.fields,
            "verdict": self.inputs.threshold.verdict(score),
            "cost": RequestCost(forwards=forwards, seconds=self.client.seconds),
            "graded": self._grade(sample.text),
            **({"stage": score.stage} if score.stage else {}),
        }

    def event(self, name: str, value: Any) -> Response:
        """Return an event of the program `solve`."""
        if name == "block":
            text = readable(self.service.denoiser.tokenizer, value)
            return BlockEvent(number=value.number, text=text, finished=value.ended)
        if name == "attempt":
            return self.attempt(value)
        verification = self.verification(value)
        return VerificationEvent(number=value.sample.number, **_set_fields(verification))

    def attempt(self, sample: Sample) -> DrawnAnswer:
        """Return a generated answer."""
        tokenizer, size = self.service.denoiser.tokenizer, sample.num_response
        ids, (probs, steps) = sample.canvas[:size], drawn(sample)
        tokens = [
            DrawnToken(text=text, confidence=prob, step=step, special=i in tokenizer.special_ids)
            for text, prob, step, i in zip(tokenizer.texts(ids), probs, steps, ids, strict=True)
        ]
        return DrawnAnswer(
            number=sample.number,
            text=sample.text,
            extracted=self.inputs.extract(sample.text),
            tokens=tokens,
            confidence=fmean(probs),
            finish_reason=finish_reason(tokenizer, sample),
            forwards=sample.forwards,
        )

    def decision(self, decided: Decision) -> SolveDecision:
        """Return the decision of rejection sampling."""
        sample, inputs, num = decided.sample, self.inputs, len(decided.attempts)
        stopped: StopCause = "budget" if num == inputs.budget else "deadline"
        sampler = {name: getattr(inputs.sampler, name) for name in _SAMPLER}
        return SolveDecision(
            **self._report(sample, decided.score, decided.forwards),
            id=new_id("sol"),
            object="remask.solution",
            prompt=inputs.prompt,
            action=decided.action,
            accepted=sample.number if decided.action == "accept" else None,
            number=sample.number,
            budget=inputs.budget,
            reason=decided.reason,
            num_attempts=num,
            stopped="accepted" if decided.action == "accept" else stopped,
            settings=self._settings() | {"budget": inputs.budget, **sampler},
        )

    def solution(self, decided: Decision, attempts: list[Verified]) -> Solution:
        """Return the decision and its attempts in one document."""
        listed = [
            SolveAttempt(
                **dict(self.attempt(verified.sample)), verification=self.verification(verified)
            )
            for verified in attempts
        ]
        return Solution(**_set_fields(self.decision(decided)), attempts=listed)

    def _verified_tokens(self, sample: Sample, score: Score) -> list[VerifiedToken]:
        tokenizer, ids = self.service.denoiser.tokenizer, sample.canvas[: sample.num_response]
        absent = (None,) * len(ids)
        probs = (sample.probs or absent)[: len(ids)]
        read: list[dict[str, Any]] = [{"logp": logp} for logp in score.logp] or [{}] * len(ids)
        return [
            VerifiedToken(
                text=text, drift=drift, confidence=prob, special=i in tokenizer.special_ids, **logp
            )
            for text, drift, prob, i, logp in zip(
                tokenizer.texts(ids), score.drift or absent, probs, ids, read, strict=True
            )
        ]

    def _traces(self, trips: RoundTrips | None) -> list[TripTrace]:
        if trips is None or not self.inputs.remask.trace:
            return []
        size, tokenizer = trips.sample.num_response, self.service.denoiser.tokenizer
        assert trips.steps is not None
        traces = []
        for n, text in enumerate(trips.texts):
            masked = trips.masked[n, :size].tolist()
            steps, logp = trips.steps[n, :size].tolist(), trips.logp[n, :size].tolist()
            trace = TripTrace(
                text=text,
                masked=masked,
                rebuilt=tokenizer.texts(trips.rebuilt[n, :size].tolist()),
                steps=[s if m else None for s, m in zip(steps, masked, strict=True)],
                original=[math.exp(p) if m else None for p, m in zip(logp, masked, strict=True)],
            )
            traces.append(trace)
        return traces

    def _settings(self) -> dict[str, Any]:
        inputs = self.inputs
        named = {"kind": inputs.kind, "seed": inputs.seed}
        if inputs.scorer != ROUNDTRIPS:
            return named
        return asdict(inputs.settings) | {"metrics": inputs.metrics} | named

    def _grade(self, text: str) -> AnswerGrade | None:
        """Return the grade of an answer; None if it is unknown, or if grading would run code."""
        problem = self.inputs.problem
        if problem is None or problem.task in _RUNS_CODE:
            return None
        task = TASKS[problem.task]
        right = task.grade(problem, text)
        process_ok = steps_ok(task, problem, text, right)
        return AnswerGrade(id=problem.id, gold=problem.gold, right=right, process_ok=process_ok)


def _set_fields(document: Response) -> dict[str, Any]:
    """Return the fields that were set, for a larger document."""
    return {name: getattr(document, name) for name in document.model_fields_set}


def readable(tokenizer: Tokenizer, draft: Draft) -> str:
    """Return the text of an unfinished answer that further blocks cannot change."""
    text = tokenizer.decode(draft.written)
    # The next block may complete the last character.
    return text if draft.ended else text.rstrip(HALF)


def finish_reason(tokenizer: Tokenizer, sample: Sample) -> FinishReason:
    """Return `stop` if the model ended the answer, `length` if it filled the canvas."""
    return "stop" if sample.canvas[sample.num_response - 1] in tokenizer.eos_ids else "length"


def drawn(sample: Sample) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return the probabilities and the steps of the tokens of a generated answer."""
    assert sample.probs is not None
    assert sample.steps is not None
    return sample.probs[: sample.num_response], sample.steps[: sample.num_response]
