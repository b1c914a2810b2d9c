"""From a request to what the core needs: the prompt, the sampler, the verifier.

The same names mean the same as on the command line.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from remask import api
from remask.consistency.settings import ConsistencySettings, MetricSet
from remask.decide.stages import StagedVerifier
from remask.denoisers.base import Denoiser
from remask.errors import InputError, SettingsError, TaskError
from remask.sampling.batches import whole_canvas
from remask.sampling.drafts import Draft, begin
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.serve.errors import ApiError, InvalidValue
from remask.serve.openai_schema import ChatRequest, CompletionRequest, OpenAIRequest
from remask.serve.schema import (
    ChatSettings,
    PromptRequest,
    SolveRequest,
    TripSettings,
    VerifyRequest,
)
from remask.serve.service import Service
from remask.serve.stops import StopTexts
from remask.serve.turns import split_turns
from remask.settings import unknown_name
from remask.tasks import TASKS
from remask.tasks.base import Problem
from remask.turns import AskedChat
from remask.values import ROUNDTRIPS, Sample, Scorer
from remask.verifier.columns import VERIFIER
from remask.verifier.origin import (
    canvas_length,
    check_sampler,
    fitted_sampler,
    other_settings,
)
from remask.verifier.threshold import ScoreThreshold, Source, text_source

_SOURCES = ("prompt", "messages", "task")  # where a question stands
_SAMPLING = ("temperature", "top_p")  # of a request, beside the length of the canvas
_TRIP_FIELDS = [f.name for f in fields(ConsistencySettings) if f.name in TripSettings.model_fields]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a request asks for: the prompt, and how answers to it are drawn and verified."""

    prompt: str
    examples: tuple[tuple[str, str], ...] = ()  # the turns before it
    system: str = ""
    beginning: str = ""  # of the reply
    raw: bool = False  # the prompt stands for itself, without the turns of a chat
    problem: Problem | None = None
    kind: str
    seed: int
    remask: TripSettings  # as the client wrote it
    metrics: MetricSet
    scorer: str  # as the request, or whoever started the server, calls it
    source: Source = "model"  # who wrote the answer
    threshold: ScoreThreshold = field(default_factory=ScoreThreshold)
    sampler: SamplerSettings | None = None  # where answers are drawn
    budget: int = 1
    stops: StopTexts = field(default_factory=StopTexts)
    num_top: int = 0  # likeliest tokens that are told of each
    # What the request calls a thing that may be refused.
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def item(self) -> str:
        """The identity that the draws depend on."""
        return self.remask.item or api.item_of(self.prompt)

    @property
    def settings(self) -> ConsistencySettings:
        """How the round trips are made."""
        given: dict[str, Any] = {name: getattr(self.remask, name) for name in _TRIP_FIELDS}
        return ConsistencySettings(**given)

    def name_of(self, thing: str) -> str:
        """Return what the request calls the prompt, the canvas or the kind."""
        return self.names.get(thing, thing)

    def extract(self, text: str) -> str | None:
        """Return the final result of an answer."""
        return api.reader(self.kind).extract(text)


@contextmanager
def naming(param: str) -> Iterator[None]:
    """Raise what the library refuses inside as a value of this field that cannot be used."""
    try:
        yield
    except (InputError, SettingsError, TaskError) as error:
        raise InvalidValue(str(error), param) from None


def most_tokens(service: Service) -> int:
    """Return how long a prompt and its canvas may be: what is allowed, and what the model holds."""
    return min(service.settings.max_tokens, service.denoiser.max_length)


def read_inputs(service: Service, body: VerifyRequest | SolveRequest) -> Inputs:
    """Return what a request to verify or solve asks for, or raise where it cannot be done."""
    check_model(service, body.model)
    problem = _problem(body)
    kind = body.kind or ("number" if problem is None else problem.task)
    inputs = _inputs(service, kind, body.seed, body.remask, _turns(body, problem))
    source = next(name for name in _SOURCES if getattr(body, name) is not None)
    names = {"prompt": source, "canvas": "answer"}
    inputs = replace(inputs, problem=problem, names=names)
    if isinstance(body, VerifyRequest):
        is_fitted = _fitted(service, inputs.scorer) is not None
        own = text_source(body.remask.own, inputs.scorer, is_fitted=is_fitted)
        inputs = replace(inputs, source=own)
        return _judged(service, inputs)
    inputs = replace(inputs, names={**names, "canvas": "max_tokens"})
    budget = body.remask.budget
    check_variety(body.temperature, budget, "remask.budget")
    sampler = _sampler(service, inputs, body.temperature, body.max_tokens)
    inputs = replace(inputs, sampler=_pool(sampler, budget, "remask.budget"), budget=budget)
    return _judged(service, inputs, stops=True)


def read_chat(service: Service, body: ChatRequest) -> Inputs:
    """Return what a chat asks for, or raise where it cannot be done."""
    check_model(service, body.model)
    remask = body.remask or ChatSettings(kind="text")
    check_variety(body.temperature, remask.budget, "remask.budget")
    inputs = _inputs(service, remask.kind, body.draw_seed, remask, split_turns(body.messages))
    canvas = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    inputs = replace(
        inputs,
        budget=remask.budget,
        num_top=body.top_logprobs or 0,
        names={"prompt": "messages", "canvas": canvas, "kind": "remask.kind"},
    )
    inputs = _drawn(service, inputs, body, body.max_completion_tokens or body.max_tokens)
    if body.remask is None:
        return inputs  # nothing is scored
    return _judged(service, inputs, stops=inputs.budget > 1)


def read_completions(service: Service, body: CompletionRequest) -> list[Inputs]:
    """Return what is asked for of each prompt, or raise where it cannot be done."""
    check_model(service, body.model)
    usual = ChatSettings(kind="text")
    read = []
    for number, prompt in enumerate(body.prompts):
        place = "prompt" if isinstance(body.prompt, str) else f"prompt.{number}"
        names = {"prompt": place, "canvas": "max_tokens"}
        inputs = _inputs(service, usual.kind, body.draw_seed, usual, AskedChat(prompt))
        inputs = replace(inputs, raw=True, num_top=body.logprobs or 0, names=names)
        read.append(_drawn(service, inputs, body, body.max_tokens))
    return read


def _drawn(service: Service, inputs: Inputs, body: OpenAIRequest, most: int | None) -> Inputs:
    """Return the inputs with how answers are drawn."""
    check_variety(body.temperature, body.num_choices, "n")
    sampler = _sampler(service, inputs, body.temperature, most)
    if body.nucleus is not None:
        sampler = replace(sampler, top_p=body.nucleus)
    size, param = (inputs.budget, "remask.budget") if inputs.budget > 1 else (body.num_choices, "n")
    pool = _pool(sampler, size, param)
    return replace(inputs, sampler=pool, stops=StopTexts(body.stops))


def _pool(sampler: SamplerSettings, size: int, param: str) -> SamplerSettings:
    with naming(param):
        return sampler.for_pool(size, param)


def _inputs(
    service: Service, kind: str, seed: int, remask: TripSettings, turns: AskedChat
) -> Inputs:
    return Inputs(
        prompt=turns.prompt,
        examples=turns.examples,
        system=turns.system,
        beginning=turns.beginning,
        kind=kind,
        seed=seed,
        remask=remask,
        metrics=remask.metrics or service.settings.metrics,
        scorer=_scorer(service, remask),
    )


def _judged(service: Service, inputs: Inputs, *, stops: bool = False) -> Inputs:
    """Return the inputs with the threshold that applies, or raise if sampling cannot stop."""
    scorer, given = _made(service, service.denoiser, inputs), inputs.remask.threshold
    with naming("remask.threshold"):
        found = api.threshold_for(
            service.denoiser, scorer, kind=inputs.kind, source=inputs.source, given=given,
            stops=stops,
        )  # fmt: skip
    return replace(inputs, threshold=found)


def _scorer(service: Service, remask: TripSettings) -> str:
    """Return which scorer is meant, or raise where it is not known or has no such settings.

    One from outside the package runs only where whoever started the server named it.
    """
    name = service.settings.scorer if remask.scorer is None else remask.scorer
    if name not in scorers(service):
        raise InvalidValue(str(unknown_name("scorer", name, scorers(service))), "remask.scorer")
    if name == ROUNDTRIPS:
        return name
    for setting in sorted(remask.model_fields_set & {*_TRIP_FIELDS, "metrics"}):
        raise InvalidValue(
            f"{setting} belongs to round trips, and {name} scores the answers here; leave it out.",
            f"remask.{setting}",
        )
    return name


def scorers(service: Service) -> tuple[str, ...]:
    """Return the scorers that a request may name, the server's own first."""
    return tuple(dict.fromkeys([service.settings.scorer, *api.SCORERS]))


def _fitted(service: Service, scorer: str) -> StagedVerifier | None:
    """Return the stages that the server was started with, where they score."""
    return service.fitted if scorer == VERIFIER else None


def preset_threshold(service: Service) -> float | None:
    """Return the threshold of the server's scorer for the model's own answers, if it has one."""
    fitted = _fitted(service, service.settings.scorer)
    kind = "number" if fitted is None else fitted.provenance.task
    return _judged(
        service, _inputs(service, kind, 0, TripSettings(), AskedChat(""))
    ).threshold.value


def _problem(body: PromptRequest) -> Problem | None:
    """Return the problem that a request names; exactly one of prompt, messages, task is given."""
    given = [name for name in _SOURCES if getattr(body, name) is not None]
    if len(given) != 1:
        names = " and ".join(given) or "none of them"
        raise InvalidValue(
            f"give exactly one of prompt, messages and task, not {names}.",
            given[-1] if given else "prompt",
        )
    if body.task is not None:
        with naming("level"):
            return TASKS[body.task].problem(body.seed, split="test", level=body.level or "")
    if body.level is not None:
        raise InvalidValue("level needs a task; leave it out.", "level")
    return None


def _turns(body: PromptRequest, problem: Problem | None) -> AskedChat:
    if problem is not None:
        return AskedChat(problem.prompt)
    if body.messages is not None:
        return split_turns(body.messages)
    return AskedChat(body.prompt or "")


def scorer_of(service: Service, inputs: Inputs) -> Scorer:
    """Return the scorer of a request; the encoder that it needs may not be loaded yet."""
    if inputs.scorer == VERIFIER and inputs.sampler is not None:
        other = [n for n in other_settings(service.fitted, inputs.sampler) if n in _SAMPLING]
        with naming(other[0] if other else inputs.name_of("canvas")):
            check_sampler(service.fitted, inputs.sampler)
    # The batcher charges and interrupts the passes of its own denoiser, which rows of trips get.
    is_trips = inputs.scorer == ROUNDTRIPS
    return _made(service, service.denoiser if is_trips else service.batcher.denoiser, inputs)


def _made(service: Service, model: Denoiser, inputs: Inputs) -> Scorer:
    """Return the scorer of a request, made of this model."""
    name, questions = inputs.scorer, {inputs.item: inputs.prompt}
    if name == ROUNDTRIPS:
        with naming("remask.mask_ratio"):
            settings = inputs.settings
        return api.consistency(
            model, kind=inputs.kind, settings=settings, metrics=inputs.metrics, seed=inputs.seed
        )
    with naming(inputs.name_of("kind")):
        if name != VERIFIER:
            return api.find_scorer(name, model, questions, kind=inputs.kind, seed=inputs.seed)
        return api.verifier(
            model, questions, kind=inputs.kind, fitted=service.fitted,
            budget=service.settings.max_forwards, seed=inputs.seed,
        )  # fmt: skip


def sample_of(service: Service, inputs: Inputs, answer: str) -> Sample:
    """Return the client's answer as a sample, or raise where it cannot be verified."""
    ids = prompt_ids(service, inputs)
    with naming("answer"):
        sample = api.sample_from_text(
            service.denoiser, ids, answer, item=inputs.item,
            length=canvas_length(_fitted(service, inputs.scorer)),
        )  # fmt: skip
    num_canvas = len(whole_canvas(service.denoiser, sample))
    _check_tokens(service, inputs, len(ids), num_canvas)
    return sample


def draft_of(service: Service, inputs: Inputs, number: int = 0) -> Draft:
    """Return an empty answer, or raise where the model cannot write it."""
    assert inputs.sampler is not None, "answers are drawn"
    ids = prompt_ids(service, inputs)
    _check_tokens(service, inputs, len(ids), inputs.sampler.length)
    with naming(inputs.name_of("canvas")):
        return begin(
            service.denoiser, ids, inputs.sampler, item=inputs.item, number=number,
            seed=inputs.seed, num_top=inputs.num_top,
        )  # fmt: skip


def prompt_ids(service: Service, inputs: Inputs) -> list[int]:
    """Return the prompt as the model reads it, or raise where it cannot."""
    param, tokenizer = inputs.name_of("prompt"), service.denoiser.tokenizer
    with naming(param):
        if not inputs.raw:
            return tokenizer.render(inputs.prompt, inputs.examples, inputs.system, inputs.beginning)
        if not inputs.prompt.strip():
            raise InputError("the prompt is empty; give it as text.")
        return tokenizer.encode_whole(inputs.prompt, "prompt")  # it may bring its own template


def preset_sampler(service: Service, inputs: Inputs) -> SamplerSettings:
    """Return the sampler of a request that changes nothing; a fitted verifier has its own."""
    problem, fitted = inputs.problem, _fitted(service, inputs.scorer)
    if problem is None:
        canvas = api.reader(inputs.kind).canvas
        if fitted is not None and inputs.kind in api.kinds_like(fitted.provenance.task):
            own = fitted_sampler(fitted, service.denoiser, inputs.kind)
            if own is not None:
                return own
        return sampler_settings(service.denoiser, kind=inputs.kind, canvas=canvas)
    canvas = TASKS[problem.task].canvas_length(problem.level)
    return sampler_settings(service.denoiser, kind=problem.task, canvas=canvas)


def _sampler(
    service: Service, inputs: Inputs, temperature: float | None, max_tokens: int | None
) -> SamplerSettings:
    """Return the preset's sampler with what the request changes."""
    sampler = preset_sampler(service, inputs)
    if max_tokens is not None:
        sampler = _shortened(service, sampler, max_tokens, inputs.name_of("canvas"))
    return sampler if temperature is None else sampler.at(temperature)


def _shortened(service: Service, base: SamplerSettings, most: int, param: str) -> SamplerSettings:
    """Return a sampler with a canvas of at most so many tokens, in whole blocks.

    A canvas that is one block stays one; the steps per token stay what they are.
    """
    allowed = most_tokens(service)
    if most > allowed:
        raise InvalidValue(
            f"{param} is {most}; this server allows {allowed}.", param, "too_many_tokens"
        )
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


def _check_tokens(service: Service, inputs: Inputs, num_prompt: int, num_canvas: int) -> None:
    most = most_tokens(service)
    if num_prompt + num_canvas > most:
        raise InvalidValue(
            f"the prompt has {num_prompt} tokens and its answer room for {num_canvas}, more than "
            f"the {most} that a request may have; shorten one of them.",
            inputs.name_of("prompt" if num_prompt > num_canvas else "canvas"),
            "too_many_tokens",
        )
