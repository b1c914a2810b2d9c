"""The shell command that gives the same score or the same answer.

Only what departs from the command line's own defaults is written. Where it has no flag for what a
request asks (several turns, a system turn, a reply that is begun, an identity of its own, a
nucleus, a NUL byte) there is no command.
"""

import shlex
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from remask.consistency.settings import ConsistencySettings
from remask.serve.inputs import Inputs, preset_sampler
from remask.serve.schema import SolveSettings
from remask.serve.service import Service
from remask.serve.settings import ServeSettings
from remask.values import ROUNDTRIPS
from remask.verifier.columns import VERIFIER

_USUAL, _USUAL_TRIPS = ServeSettings(model=""), ConsistencySettings()


def verify_command(service: Service, inputs: Inputs, answer: str) -> str | None:
    """Return the `remask verify` that gives the same score."""
    return _command(service, inputs, "verify", {"answer": answer})


def solve_command(service: Service, inputs: Inputs) -> str | None:
    """Return the `remask solve` that comes to the same decision."""
    sampler = inputs.sampler
    assert sampler is not None, "answers are drawn"
    if sampler.top_p != preset_sampler(service, inputs).top_p:
        return None
    flags: dict[str, Any] = {}
    if sampler.resample_temperature is None:
        flags["temperature"] = sampler.temperature  # else the preset's, which has two
    flags |= {name: getattr(sampler, name) for name in ("length", "steps", "block")}
    if inputs.budget != SolveSettings().budget:
        flags["budget"] = inputs.budget
    return _command(service, inputs, "solve", flags)


def _command(service: Service, inputs: Inputs, name: str, given: dict[str, Any]) -> str | None:
    texts = [inputs.prompt, *(str(value) for value in given.values())]
    if inputs.examples or inputs.system or inputs.beginning or inputs.remask.item is not None:
        return None
    if any("\0" in text for text in texts):
        return None
    flags = {**_model_flags(service), **_prompt_flags(inputs), **given}
    flags |= _score_flags(inputs)
    if inputs.scorer == VERIFIER:
        flags |= _changed(service.settings, _USUAL, ("fitted", "max_forwards"))
    own = ["--own"] if name == "verify" and inputs.source == "model" else []
    words = ["remask", name, *own, *(f"--{k.replace('_', '-')}={v}" for k, v in flags.items())]
    if inputs.problem is None:
        words += ["--", inputs.prompt]
    return shlex.join(words)


def _model_flags(service: Service) -> dict[str, Any]:
    settings = service.settings
    return {"model": settings.model, **_changed(settings, _USUAL, ("preset", "dtype", "weights"))}


def _prompt_flags(inputs: Inputs) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    usual = "number"
    if inputs.problem is not None:
        usual = inputs.problem.task
        flags |= {"task": inputs.problem.task, "level": inputs.problem.level}
    if inputs.kind != usual:
        flags["kind"] = inputs.kind
    if inputs.seed:
        flags["seed"] = inputs.seed
    return flags


def _score_flags(inputs: Inputs) -> dict[str, Any]:
    flags: dict[str, Any] = {"scorer": inputs.scorer}
    if inputs.scorer == ROUNDTRIPS:
        names = [field.name for field in fields(_USUAL_TRIPS)]
        flags = _changed(inputs.settings, _USUAL_TRIPS, names)
        if inputs.metrics != "paper":
            flags["metrics"] = inputs.metrics
    if inputs.remask.threshold is not None:
        flags["threshold"] = inputs.remask.threshold
    return flags


def _changed(settings: Any, usual: Any, names: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}
