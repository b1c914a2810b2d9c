"""The line for a shell that gives the same score or the same answer.

Only what departs from the command line's own defaults is said. Where it has no words for what was
asked (several turns, an identity of its own, a nucleus, a NUL byte) there is no line.
"""

import shlex
from typing import Any

from remask.sampling.settings import SamplerSettings
from remask.serve.inputs import Question, sampler_of
from remask.serve.schema import SolveSettings, TripSettings
from remask.serve.service import Service

_DEFAULTS = TripSettings()
_TRIP_FLAGS = ("trips", "rebuild_steps", "mask_ratio", "mask_design", "rebuild_temperature")


def verify_command(service: Service, question: Question, answer: str) -> str | None:
    """Return the `remask verify` that gives the same score."""
    return _line(service, question, "verify", {"answer": answer})


def solve_command(
    service: Service, question: Question, sampler: SamplerSettings, budget: int
) -> str | None:
    """Return the `remask solve` that comes to the same decision."""
    usual = sampler_of(service, question, temperature=None, max_tokens=None)
    if sampler.top_p != usual.top_p:
        return None
    told: dict[str, Any] = {
        "length": sampler.length,
        "steps": sampler.steps,
        "block": sampler.block,
    }
    if sampler.resample_temperature is None:
        told = {"temperature": sampler.temperature, **told}  # else the preset's, which has two
    if budget != SolveSettings().budget:
        told["budget"] = budget
    return _line(service, question, "solve", told)


def _line(service: Service, question: Question, name: str, told: dict[str, Any]) -> str | None:
    texts = [question.prompt, *(str(value) for value in told.values())]
    if question.examples or question.named or any("\0" in text for text in texts):
        return None
    flags = {**_model(service), **_asked(question), **told, **_trips(service, question)}
    words = ["remask", name, *(f"--{k.replace('_', '-')}={v}" for k, v in flags.items())]
    if question.problem is None:
        words += ["--", question.prompt]
    return shlex.join(words)


def _model(service: Service) -> dict[str, Any]:
    s = service.settings
    told = {"model": s.model}
    if s.preset:
        told["preset"] = s.preset
    if s.dtype != "auto":
        told["dtype"] = s.dtype
    return told


def _asked(question: Question) -> dict[str, Any]:
    told: dict[str, Any] = {}
    usual = "number"
    if question.problem is not None:
        usual = question.problem.task
        told |= {"task": question.problem.task, "level": question.problem.level}
    if question.kind != usual:
        told["kind"] = question.kind
    if question.seed:
        told["seed"] = question.seed
    return told


def _trips(service: Service, question: Question) -> dict[str, Any]:
    asked = question.trips
    told = {
        name: getattr(asked, name)
        for name in _TRIP_FLAGS
        if getattr(asked, name) != getattr(_DEFAULTS, name)
    }
    if question.metrics(service) != "paper":
        told["metrics"] = question.metrics(service)
    if asked.threshold is not None:
        told["threshold"] = asked.threshold
    return told
