"""From values to documents: what docs/server.md promises, made here and nowhere else."""

import math
import secrets
from dataclasses import asdict
from statistics import fmean
from typing import Any

from remask.consistency.metrics import uniform_weights
from remask.denoisers.tokenizer import HALF
from remask.sampling.drafts import Draft
from remask.sampling.settings import SamplerSettings
from remask.serve.cli_equivalent import solve_command, verify_command
from remask.serve.inputs import Question
from remask.serve.programs import Verified
from remask.serve.service import Service
from remask.values import Decision, RoundTrips, Sample, Score

Document = dict[str, Any]
_DRAWN = ("temperature", "resample_temperature", "length", "steps", "block")


def new_id(prefix: str) -> str:
    """Return an identity for an answer of the server."""
    return f"{prefix}-{secrets.token_hex(8)}"


def written(service: Service, draft: Draft) -> str:
    """Return what can be read of an answer in the making: none of it will change."""
    text = service.denoiser.tokenizer.decode(draft.written)
    # The rest of a character may be in the next block.
    return text if draft.ended else text.rstrip(HALF)


def verification(
    service: Service, question: Question, verified: Verified, seconds: float, command: str | None
) -> Document:
    """Return the document of /v1/verify."""
    sample, score = verified.sample, verified.score
    limit = question.threshold(service)
    return {
        "id": new_id("ver"),
        "object": "remask.verification",
        "model": service.settings.model,
        "item": sample.item,
        "text": sample.text,
        "extracted": question.extract(sample.text),
        "score": score.value,
        "stderr": score.stderr,
        "threshold": limit,
        "accepted": score.exceeds(limit),
        "reason": score.reason,
        "metrics": metrics(score),
        "tokens": _tokens(service, sample, score),
        "trips": _trips(service, verified.trips) if question.trips.trace else [],
        "cost": {"forwards": score.forwards, "seconds": seconds},
        "settings": _settings(service, question),
        "graded": question.grade(sample.text),
        "command": command,
    }


def verified_answer(
    service: Service, question: Question, verified: Verified, seconds: float
) -> Document:
    """Return the document of an answer brought from outside, with its command."""
    command = verify_command(service, question, verified.sample.text)
    return verification(service, question, verified, seconds, command)


def metrics(score: Score) -> Document:
    """Return the metrics with the weights that they had in the score."""
    names = list(score.by_trip)
    even = uniform_weights(names)
    total = sum(even[name] for name in names if name in score.by_metric)
    return {
        name: {
            "value": score.by_metric.get(name),
            "weight": even[name] / total if name in score.by_metric else 0.0,
            "by_trip": list(score.by_trip[name]),
        }
        for name in names
    }


def _tokens(service: Service, sample: Sample, score: Score) -> list[Document]:
    tokenizer, ids = service.denoiser.tokenizer, sample.canvas[: sample.num_response]
    probs = sample.probs or (None,) * len(ids)
    return [
        {"text": text, "drift": drift, "confidence": prob, "special": i in tokenizer.special_ids}
        for text, drift, prob, i in zip(
            tokenizer.texts(ids), score.drift, probs[: len(ids)], ids, strict=True
        )
    ]


def _trips(service: Service, trips: RoundTrips) -> list[Document]:
    size, tokenizer = trips.sample.num_response, service.denoiser.tokenizer
    assert trips.steps is not None, "round trips made here have steps"
    out = []
    for n, text in enumerate(trips.texts):
        masked = trips.masked[n, :size].tolist()
        steps, logp = trips.steps[n, :size].tolist(), trips.logp[n, :size].tolist()
        out.append(
            {
                "text": text,
                "masked": masked,
                "rebuilt": tokenizer.texts(trips.rebuilt[n, :size].tolist()),
                "steps": [s if m else None for s, m in zip(steps, masked, strict=True)],
                "original": [math.exp(p) if m else None for p, m in zip(logp, masked, strict=True)],
            }
        )
    return out


def _settings(service: Service, question: Question) -> Document:
    told = asdict(question.settings)
    return told | {
        "metrics": question.metrics(service),
        "kind": question.kind,
        "seed": question.seed,
    }


def attempt(service: Service, question: Question, sample: Sample) -> Document:
    """Return the event `attempt`."""
    tokenizer, size = service.denoiser.tokenizer, sample.num_response
    assert sample.probs is not None, "answers drawn here have probabilities"
    assert sample.steps is not None, "and steps"
    ids = sample.canvas[:size]
    tokens = [
        {"text": text, "confidence": prob, "step": step, "special": i in tokenizer.special_ids}
        for text, prob, step, i in zip(
            tokenizer.texts(ids), sample.probs[:size], sample.steps[:size], ids, strict=True
        )
    ]
    return {
        "number": sample.number,
        "text": sample.text,
        "extracted": question.extract(sample.text),
        "tokens": tokens,
        "confidence": fmean(sample.probs[:size]),
        "finish_reason": finish_reason(service, sample),
        "forwards": sample.forwards,
    }


def finish_reason(service: Service, sample: Sample) -> str:
    """Return `stop` where the model ended the answer, `length` where the canvas did."""
    last = sample.canvas[sample.num_response - 1]
    return "stop" if last in service.denoiser.tokenizer.eos_ids else "length"


def decision(
    service: Service,
    question: Question,
    sampler: SamplerSettings,
    decided: Decision,
    budget: int,
    seconds: float,
) -> Document:
    """Return the event `decision`."""
    sample = decided.sample
    drawn = {name: getattr(sampler, name) for name in _DRAWN}
    return {
        "id": new_id("sol"),
        "object": "remask.solution",
        "model": service.settings.model,
        "item": decided.item,
        "prompt": question.prompt,
        "action": decided.action,
        "accepted": sample.number if decided.action == "accept" else None,
        "number": sample.number,
        "text": sample.text,
        "extracted": question.extract(sample.text),
        "score": decided.score.value,
        "threshold": question.threshold(service),
        "budget": budget,
        "reason": decided.reason,
        "num_attempts": len(decided.attempts),
        "cost": {"forwards": decided.forwards, "seconds": seconds},
        "settings": _settings(service, question) | {"budget": budget, **drawn},
        "graded": question.grade(sample.text),
        "command": solve_command(service, question, sampler, budget),
    }


def logprobs(service: Service, sample: Sample) -> Document:
    """Return OpenAI's shape; what the numbers mean is in docs/server.md."""
    tokens = attempt_tokens(service, sample)
    return {"content": tokens, "refusal": None}


def attempt_tokens(service: Service, sample: Sample) -> list[Document]:
    """Return the tokens of an answer with the logarithms of their probabilities."""
    size = sample.num_response
    texts = service.denoiser.tokenizer.texts(sample.canvas[:size])
    assert sample.probs is not None, "answers drawn here have probabilities"
    assert sample.steps is not None, "and steps"
    return [
        {
            "token": text,
            "logprob": max(-9999.0, math.log(prob)) if prob > 0 else -9999.0,  # OpenAI's least
            "bytes": list(text.encode("utf-8", "replace")),
            "top_logprobs": [],
            "step": step,
        }
        for text, prob, step in zip(texts, sample.probs[:size], sample.steps[:size], strict=True)
    ]
