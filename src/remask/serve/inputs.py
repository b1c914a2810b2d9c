"""From a request to what the core needs: the prompt, the sampler, the verifier.

The same names mean the same as on the command line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

from remask import api
from remask.consistency.settings import ConsistencySettings, MetricSet
from remask.decide.stages import StagedVerifier
from remask.sampling.batches import check_length, whole_canvas
from remask.sampling.drafts import Draft, begin
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.serve.errors import ApiError, InvalidValue
from remask.serve.schema import (
    ChatRequest,
    ChatSettings,
    Message,
    PromptRequest,
    SolveRequest,
    TripSettings,
    VerifyRequest,
)
from remask.serve.service import Service
from remask.tasks import TASKS
from remask.tasks.base import Problem
from remask.values import ROUNDTRIPS, Sample, Scorer
from remask.verifier.origin import canvas_length

VERIFIER = "verifier"
Examples = tuple[tuple[str, str], ...]  # a user's turn and the model's, before the prompt
_CHARACTERS = 16  # that a token may have on average
_TRIP_FIELDS = [f.name for f in fields(ConsistencySettings) if f.name in TripSettings.model_fields]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a request asks for: the prompt, and how answers to it are drawn and verified."""

    prompt: str
    examples: Examples = ()
    problem: Problem | None = None
    kind: str
    seed: int
    remask: TripSettings  # as the client wrote it
    metrics: MetricSet
    scorer: str  # as the request, or whoever started the server, calls it
    scorer_name: str  # as it calls itself
    threshold: float | None  # None: nobody knows one of this scorer
    sampler: SamplerSettings | None = None  # where answers are drawn
    budget: int = 1

    @property
    def item(self) -> str:
        """The identity that the draws depend on."""
        return self.remask.item or api.item_of(self.prompt)

    @property
    def settings(self) -> ConsistencySettings:
        """How the round trips are made."""
        given: dict[str, Any] = {name: getattr(self.remask, name) for name in _TRIP_FIELDS}
        return ConsistencySettings(**given)

    def extract(self, text: str) -> str | None:
        """Return the final result of an answer."""
        return api.reader(self.kind).extract(text)


def read_inputs(service: Service, body: VerifyRequest | SolveRequest) -> Inputs:
    """Return what a request to verify or solve asks for, or raise where it cannot be done."""
    check_model(service, body.model)
    problem = _problem(body)
    kind = body.kind or ("number" if problem is None else problem.task)
    inputs = _inputs(service, kind, body.seed, body.remask, *_turns(body, problem))
    inputs = replace(inputs, problem=problem)
    if isinstance(body, VerifyRequest):
        return inputs
    budget = body.remask.budget
    check_variety(body.temperature, budget, "remask.budget")
    sampler = _sampler(service, inputs, body.temperature, body.max_tokens, "max_tokens")
    return replace(inputs, sampler=sampler.for_pool(budget), budget=budget)


def read_chat(service: Service, body: ChatRequest) -> Inputs:
    """Return what a chat asks for, or raise where it cannot be done."""
    check_model(service, body.model)
    remask = body.remask or ChatSettings(kind="text")
    check_variety(body.temperature, body.n or 1, "n")
    check_variety(body.temperature, remask.budget, "remask.budget")
    inputs = _inputs(service, remask.kind, body.seed or 0, remask, *split_turns(body.messages))
    most, param = body.max_tokens, "max_tokens"
    if body.max_completion_tokens is not None:
        most, param = body.max_completion_tokens, "max_completion_tokens"
    sampler = _sampler(service, inputs, body.temperature, most, param)
    if body.top_p is not None:
        sampler = replace(sampler, top_p=body.top_p)
    budget = remask.budget
    pool = sampler.for_pool(budget) if budget > 1 else sampler.for_pool(body.n or 1, "n")
    return replace(inputs, sampler=pool, budget=budget)


def _inputs(
    service: Service, kind: str, seed: int, remask: TripSettings, prompt: str, examples: Examples
) -> Inputs:
    scorer = _scorer(service, remask)
    name = api.find_scorer(scorer, service.denoiser, {}).name if ":" in scorer else scorer
    threshold, fitted = remask.threshold, _fitted(service, scorer)
    if threshold is None and fitted is not None:
        threshold = fitted.threshold
    if threshold is None:
        threshold = service.denoiser.preset.for_task(kind).threshold_for(name)
    return Inputs(
        prompt=prompt,
        examples=examples,
        kind=kind,
        seed=seed,
        remask=remask,
        metrics=remask.metrics or service.settings.metrics,
        scorer=scorer,
        scorer_name=name,
        threshold=threshold,
    )


def _scorer(service: Service, remask: TripSettings) -> str:
    """Return which scorer is meant, or raise where it is not known or has no such settings.

    One from outside the package runs only where whoever started the server named it.
    """
    name = service.settings.scorer if remask.scorer is None else remask.scorer
    if name not in scorers(service):
        known = ", ".join(scorers(service))
        raise InvalidValue(
            f"remask.scorer is {name[:60]!r}; this server knows {known}.", "remask.scorer"
        )
    if name == ROUNDTRIPS:
        return name
    for field in sorted(remask.model_fields_set & {*_TRIP_FIELDS, "metrics"}):
        raise InvalidValue(
            f"{field} belongs to round trips, and {name} scores the answers here; leave it out.",
            f"remask.{field}",
        )
    return name


def scorers(service: Service) -> tuple[str, ...]:
    """Return the scorers that a request may name, the server's own first."""
    return tuple(dict.fromkeys([service.settings.scorer, *api.SCORERS]))


def _fitted(service: Service, scorer: str) -> StagedVerifier | None:
    """Return the stages that the server was started with, where they score."""
    return service.fitted if scorer == VERIFIER else None


def decided_above(inputs: Inputs) -> float:
    """Return the threshold that decides, or raise where there is none."""
    if inputs.threshold is None:
        raise InvalidValue(
            f"this model has no threshold for scores of {inputs.scorer_name!r}; give "
            "remask.threshold.",
            "remask.threshold",
        )
    return inputs.threshold


def _problem(body: PromptRequest) -> Problem | None:
    """Return the problem that a request names; exactly one of prompt, messages, task is given."""
    given = [name for name in ("prompt", "messages", "task") if getattr(body, name) is not None]
    if len(given) != 1:
        names = " and ".join(given) or "none of them"
        raise InvalidValue(f"give exactly one of prompt, messages and task, not {names}.")
    if body.task is not None:
        return TASKS[body.task].problem(body.seed, split="test", level=body.level or "")
    if body.level is not None:
        raise InvalidValue("level needs a task; leave it out.", "level")
    return None


def _turns(body: PromptRequest, problem: Problem | None) -> tuple[str, Examples]:
    if problem is not None:
        return problem.prompt, ()
    if body.messages is not None:
        return split_turns(body.messages)
    return body.prompt or "", ()


def split_turns(messages: Sequence[Message]) -> tuple[str, Examples]:
    """Return the last prompt, and the turns before it."""
    roles = ["user" if i % 2 == 0 else "assistant" for i in range(len(messages))]
    if [message.role for message in messages] != roles or len(messages) % 2 == 0:
        raise InvalidValue(
            "messages must be turns of user and assistant, one after another, the last one the "
            "user's.",
            "messages",
        )
    texts = [message.text for message in messages]
    return texts[-1], tuple(zip(texts[:-1:2], texts[1:-1:2], strict=True))


def scorer_of(service: Service, inputs: Inputs) -> Scorer:
    """Return the scorer, ready: the model's thread loads no encoder."""
    name, questions = inputs.scorer, {inputs.item: inputs.prompt}
    if name == VERIFIER:
        return api.verifier(
            service.denoiser, questions, kind=inputs.kind, fitted=service.fitted,
            budget=service.settings.max_forwards, seed=inputs.seed,
        )  # fmt: skip
    if name != ROUNDTRIPS:
        return api.find_scorer(
            name, service.denoiser, questions, kind=inputs.kind, seed=inputs.seed
        )
    scorer = api.consistency(
        service.denoiser,
        kind=inputs.kind,
        settings=inputs.settings,
        metrics=inputs.metrics,
        seed=inputs.seed,
    )
    scorer.warm()
    return scorer


def sample_of(service: Service, inputs: Inputs, answer: str) -> Sample:
    """Return the client's answer as a sample, or raise where it cannot be verified."""
    _check_texts(service, inputs, answer)
    sample = api.sample_from_text(
        service.denoiser, inputs.prompt, answer, item=inputs.item, examples=inputs.examples,
        length=canvas_length(_fitted(service, inputs.scorer)),
    )  # fmt: skip
    num_canvas = len(whole_canvas(service.denoiser, sample))
    _check_tokens(service, len(sample.prompt), num_canvas)
    check_length(service.denoiser, len(sample.prompt), num_canvas)
    return sample


def draft_of(service: Service, inputs: Inputs, number: int = 0) -> Draft:
    """Return an empty answer, or raise where the model cannot write it."""
    assert inputs.sampler is not None, "answers are drawn"
    _check_texts(service, inputs)
    ids = service.denoiser.tokenizer.render(inputs.prompt, inputs.examples)
    _check_tokens(service, len(ids), inputs.sampler.length)
    return begin(
        service.denoiser, ids, inputs.sampler, item=inputs.item, number=number, seed=inputs.seed
    )


def preset_sampler(service: Service, inputs: Inputs) -> SamplerSettings:
    """Return the sampler of a request that changes nothing."""
    problem = inputs.problem
    if problem is None:
        canvas = api.reader(inputs.kind).canvas
        return sampler_settings(service.denoiser, kind=inputs.kind, canvas=canvas)
    canvas = TASKS[problem.task].canvas_length(problem.level)
    return sampler_settings(service.denoiser, kind=problem.task, canvas=canvas)


def _sampler(
    service: Service, inputs: Inputs, temperature: float | None, max_tokens: int | None, param: str
) -> SamplerSettings:
    """Return the preset's sampler with what the request changes.

    `param` is what the request calls `max_tokens`.
    """
    sampler = preset_sampler(service, inputs)
    if max_tokens is not None:
        sampler = _shortened(service, sampler, max_tokens, param)
    return sampler if temperature is None else sampler.at(temperature)


def _shortened(service: Service, base: SamplerSettings, most: int, param: str) -> SamplerSettings:
    """Return a sampler with a canvas of at most so many tokens, in whole blocks.

    A canvas that is one block stays one; the steps per token stay what they are.
    """
    if most > service.settings.max_tokens:
        raise InvalidValue(
            f"{param} is {most}; this server allows {service.settings.max_tokens}.",
            param, "too_many_tokens",
        )  # fmt: skip
    fixed = service.denoiser.block_size
    if fixed is not None and most < fixed:
        raise InvalidValue(
            f"{param} is {most}; this model writes blocks of {fixed}, so give at least that.", param
        )
    whole = base.block == base.length and fixed is None
    block = most if whole or most < base.block else base.block
    length = most // block * block
    per_block = max(1, base.steps * block // base.length)
    return replace(base, length=length, block=block, steps=per_block * (length // block))


def check_model(service: Service, name: str | None) -> None:
    """Refuse another model than the one that is served."""
    served = service.settings.model
    if name not in (None, served):
        raise ApiError(
            404, f"model {name!r} is not served here; use {served!r}.",
            param="model", code="model_not_found",
        )  # fmt: skip


def check_variety(temperature: float | None, size: int, param: str) -> None:
    """Refuse several samples at a temperature that draws one answer; `param` sets the number."""
    if temperature == 0 and size > 1:
        raise InvalidValue(
            f"temperature 0 draws the same answer every time, and {param} is {size}; leave "
            f"temperature out, give one above 0, or {param} 1.",
            "temperature",
        )


def _check_texts(service: Service, inputs: Inputs, *more: str) -> None:
    """Refuse what is too long beyond doubt, before it is cut into tokens."""
    most = _CHARACTERS * service.settings.max_tokens
    if any(len(text) > most for text in (inputs.prompt, *chain(*inputs.examples), *more)):
        raise InvalidValue(
            f"a text is longer than {most} characters; shorten it.", code="too_many_tokens"
        )


def _check_tokens(service: Service, num_prompt: int, num_canvas: int) -> None:
    most = service.settings.max_tokens
    if num_prompt + num_canvas > most:
        raise InvalidValue(
            f"the prompt has {num_prompt} tokens and the canvas {num_canvas}, more than the {most} "
            "that a request may have; shorten one of them.",
            code="too_many_tokens",
        )
