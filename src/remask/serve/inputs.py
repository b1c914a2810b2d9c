"""From the body of a request to what the library needs: the prompt, the sampler, the scorer."""

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
from remask.serve.requests import (
    ChatRequest,
    ChatSettings,
    CompletionRequest,
    OpenAIRequest,
    PromptRequest,
    SolveRequest,
    TripSettings,
    VerifyRequest,
    split_turns,
)
from remask.serve.service import Service
from remask.serve.stops import StopTexts
from remask.settings import unknown_name
from remask.tasks import TASKS
from remask.tasks.base import Problem
from remask.turns import AskedChat
from remask.values import ROUNDTRIPS, Sample, Scorer
from remask.verifier.columns import VERIFIER
from remask.verifier.origin import canvas_length, check_sampler, fitted_sampler, other_settings
from remask.verifier.threshold import ScoreThreshold, Source, text_source

_SOURCES = ("prompt", "messages", "task")  # fields with the question
_SAMPLING = ("temperature", "top_p")  # sampler fields of a request
_TRIP_FIELDS = [f.name for f in fields(ConsistencySettings) if f.name in TripSettings.model_fields]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """One prompt, and how its answers are drawn and scored."""

    turns: AskedChat
    raw: bool = False  # the prompt is encoded without the chat template
    problem: Problem | None = None
    kind: str
    seed: int
    remask: TripSettings
    metrics: MetricSet
    scorer: str
    source: Source = "model"  # who wrote the answer
    threshold: ScoreThreshold = field(default_factory=ScoreThreshold)
    sampler: SamplerSettings | None = None  # None: the request brings its answer
    budget: int = 1
    stops: StopTexts = field(default_factory=StopTexts)
    num_top: int = 0  # likeliest tokens reported at each position
    # The request's own names of "prompt", "canvas" and "kind", for errors.
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        return self.turns.prompt

    @property
    def system(self) -> str:
        return self.turns.system

    @property
    def item(self) -> str:
        """The identity that the draws depend on."""
        return self.remask.item or api.item_of(self.prompt)

    @property
    def settings(self) -> ConsistencySettings:
        given: dict[str, Any] = {name: getattr(self.remask, name) for name in _TRIP_FIELDS}
        return ConsistencySettings(**given)

    def name_of(self, thing: str) -> str:
        return self.names.get(thing, thing)

    def extract(self, text: str) -> str | None:
        """Return the final result of an answer."""
        return api.reader(self.kind).extract(text)


@contextmanager
def naming(param: str) -> Iterator[None]:
    """Raise the library's errors as invalid values of this field."""
    try:
        yield
    except (InputError, SettingsError, TaskError) as error:
        raise InvalidValue(str(error), param) from None


def most_tokens(service: Service) -> int:
    """Return the largest number of tokens of a prompt and its canvas."""
    return min(service.settings.max_tokens, service.denoiser.max_length)


def read_inputs(service: Service, body: VerifyRequest | SolveRequest) -> Inputs:
    """Return the inputs of /v1/verify or /v1/solve, or raise."""
    check_model(service, body.model)
    problem = _problem(body)
    kind = body.kind or ("number" if problem is None else problem.task)
    inputs = _inputs(service, kind, body.seed, body.remask, _turns(body, problem))
    source = next(name for name in _SOURCES if getattr(body, name) is not None)
    inputs = replace(inputs, problem=problem, names={"prompt": source, "canvas": "answer"})
    if isinstance(body, VerifyRequest):
        is_fitted = _fitted(service, inputs.scorer) is not None
        own = text_source(body.remask.own, inputs.scorer, is_fitted=is_fitted)
        return _judged(service, replace(inputs, source=own))
    budget = body.remask.budget
    inputs = replace(inputs, names={"prompt": source, "canvas": "max_tokens"}, budget=budget)
    check_variety(body.temperature, budget, "remask.budget")
    sampler = _sampler(service, inputs, body.temperature, body.max_tokens)
    with naming("remask.budget"):
        pool = sampler.for_pool(budget, "remask.budget")
    return _judged(service, replace(inputs, sampler=pool), stops=True)


def read_chat(service: Service, body: ChatRequest) -> Inputs:
    """Return the inputs of a chat, or raise."""
    check_model(service, body.model)
    remask = body.remask or ChatSettings(kind="text")
    check_variety(body.temperature, remask.budget, "remask.budget")
    inputs = _inputs(service, remask.kind, body.draw_seed, remask, split_turns(body.messages))
    canvas = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    names = {"prompt": "messages", "canvas": canvas, "kind": "remask.kind"}
    num_top = body.top_logprobs or 0
    inputs = replace(inputs, budget=remask.budget, num_top=num_top, names=names)
    inputs = _drawn(service, inputs, body, body.max_completion_tokens or body.max_tokens)
    if body.remask is None:
        return inputs  # nothing is scored
    return _judged(service, inputs, stops=inputs.budget > 1)


def read_completions(service: Service, body: CompletionRequest) -> list[Inputs]:
    """Return the inputs of each prompt, or raise."""
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


def _inputs(
    service: Service, kind: str, seed: int, remask: TripSettings, turns: AskedChat
) -> Inputs:
    return Inputs(
        turns=turns,
        kind=kind,
        seed=seed,
        remask=remask,
        metrics=remask.metrics or service.settings.metrics,
        scorer=_scorer(service, remask),
    )


def _drawn(service: Service, inputs: Inputs, body: OpenAIRequest, most: int | None) -> Inputs:
    """Return the inputs with their sampler and stop texts."""
    check_variety(body.temperature, body.num_choices, "n")
    sampler = _sampler(service, inputs, body.temperature, most)
    if body.nucleus is not None:
        sampler = replace(sampler, top_p=body.nucleus)
    size, param = (inputs.budget, "remask.budget") if inputs.budget > 1 else (body.num_choices, "n")
    with naming(param):
        pool = sampler.for_pool(size, param)
    return replace(inputs, sampler=pool, stops=StopTexts(body.stops))


def _judged(service: Service, inputs: Inputs, *, stops: bool = False) -> Inputs:
    """Return the inputs with their threshold; with `stops`, raise if there is none."""
    scorer, given = _made(service, service.denoiser, inputs), inputs.remask.threshold
    with naming("remask.threshold"):
        found = api.threshold_for(
            service.denoiser,
            scorer,
            kind=inputs.kind,
            source=inputs.source,
            given=given,
            stops=stops,
        )
    return replace(inputs, threshold=found)


def scorers(service: Service) -> tuple[str, ...]:
    """Return the scorers that a request may name, the server's own first."""
    return tuple(dict.fromkeys([service.settings.scorer, *api.SCORERS]))


def _scorer(service: Service, remask: TripSettings) -> str:
    """Return the name of the scorer, or raise if it is unknown or does not have these settings."""
    name = service.settings.scorer if remask.scorer is None else remask.scorer
    if name not in scorers(service):
        raise InvalidValue(str(unknown_name("scorer", name, scorers(service))), "remask.scorer")
    if name != ROUNDTRIPS:
        for setting in sorted(remask.model_fields_set & {*_TRIP_FIELDS, "metrics"}):
            message = f"{setting} requires the scorer {ROUNDTRIPS}, got {name}."
            raise InvalidValue(message, f"remask.{setting}")
    return name


def _fitted(service: Service, scorer: str) -> StagedVerifier | None:
    return service.fitted if scorer == VERIFIER else None


def preset_threshold(service: Service) -> float | None:
    """Return the threshold of the server's scorer for the model's own answers, if it has one."""
    fitted = _fitted(service, service.settings.scorer)
    kind = "number" if fitted is None else fitted.provenance.task
    inputs = _inputs(service, kind, 0, TripSettings(), AskedChat(""))
    return _judged(service, inputs).threshold.value


def _problem(body: PromptRequest) -> Problem | None:
    """Return the problem that a request names by its task, or None."""
    given = [name for name in _SOURCES if getattr(body, name) is not None]
    if len(given) != 1:
        names = " and ".join(given) or "none"
        message = f"Exactly one of prompt, messages and task must be given, got {names}."
        raise InvalidValue(message, given[-1] if given else "prompt")
    if body.task is not None:
        with naming("level"):
            return TASKS[body.task].problem(body.seed, split="test", level=body.level or "")
    if body.level is not None:
        raise InvalidValue("level requires task.", "level")
    return None


def _turns(body: PromptRequest, problem: Problem | None) -> AskedChat:
    if problem is not None:
        return AskedChat(problem.prompt)
    if body.messages is not None:
        return split_turns(body.messages)
    return AskedChat(body.prompt or "")


def scorer_of(service: Service, inputs: Inputs) -> Scorer:
    """Return the scorer of a request; its encoder may not be loaded yet."""
    if inputs.scorer == VERIFIER and inputs.sampler is not None:
        other = [n for n in other_settings(service.fitted, inputs.sampler) if n in _SAMPLING]
        with naming(other[0] if other else inputs.name_of("canvas")):
            check_sampler(service.fitted, inputs.sampler)
    # Rows of round trips get the batcher's denoiser, which charges and interrupts their passes.
    is_trips = inputs.scorer == ROUNDTRIPS
    return _made(service, service.denoiser if is_trips else service.batcher.denoiser, inputs)


def _made(service: Service, model: Denoiser, inputs: Inputs) -> Scorer:
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
            model,
            questions,
            kind=inputs.kind,
            fitted=service.fitted,
            budget=service.settings.max_forwards,
            seed=inputs.seed,
        )


def sample_of(service: Service, inputs: Inputs, answer: str) -> Sample:
    """Return the client's answer as a sample, or raise if it cannot be verified."""
    ids = prompt_ids(service, inputs)
    length = canvas_length(_fitted(service, inputs.scorer))
    with naming("answer"):
        sample = api.sample_from_text(
            service.denoiser, ids, answer, item=inputs.item, length=length
        )
    _check_tokens(service, inputs, len(ids), len(whole_canvas(service.denoiser, sample)))
    return sample


def draft_of(service: Service, inputs: Inputs, number: int = 0) -> Draft:
    """Return an empty answer, or raise if it does not fit into the model."""
    assert inputs.sampler is not None
    ids = prompt_ids(service, inputs)
    _check_tokens(service, inputs, len(ids), inputs.sampler.length)
    with naming(inputs.name_of("canvas")):
        return begin(
            service.denoiser,
            ids,
            inputs.sampler,
            item=inputs.item,
            number=number,
            seed=inputs.seed,
            num_top=inputs.num_top,
        )


def prompt_ids(service: Service, inputs: Inputs) -> list[int]:
    """Return the tokens of the prompt, or raise if it is empty or holds special tokens."""
    tokenizer = service.denoiser.tokenizer
    with naming(inputs.name_of("prompt")):
        if not inputs.raw:
            return tokenizer.render(*inputs.turns)
        if not inputs.prompt.strip():
            raise InputError("The prompt must be a non-empty string.")
        return tokenizer.encode_whole(inputs.prompt, "prompt")


def preset_sampler(service: Service, inputs: Inputs) -> SamplerSettings:
    """Return the default sampler: that of the fitted verifier, or the preset."""
    problem, fitted = inputs.problem, _fitted(service, inputs.scorer)
    if problem is not None:
        length = TASKS[problem.task].canvas_length(problem.level)
        return sampler_settings(service.denoiser, kind=problem.task, canvas=length)
    if fitted is not None and inputs.kind in api.kinds_like(fitted.provenance.task):
        own = fitted_sampler(fitted, service.denoiser, inputs.kind)
        if own is not None:
            return own
    canvas = api.reader(inputs.kind).canvas
    return sampler_settings(service.denoiser, kind=inputs.kind, canvas=canvas)


def _sampler(
    service: Service, inputs: Inputs, temperature: float | None, max_tokens: int | None
) -> SamplerSettings:
    """Return the default sampler with the settings of the request."""
    sampler = preset_sampler(service, inputs)
    if max_tokens is not None:
        sampler = _shortened(service, sampler, max_tokens, inputs.name_of("canvas"))
    return sampler if temperature is None else sampler.at(temperature)


def _shortened(service: Service, base: SamplerSettings, most: int, param: str) -> SamplerSettings:
    """Return a sampler with a canvas of at most `most` tokens, in whole blocks.

    A canvas of one block stays one block. The number of steps per token does not change.
    """
    allowed = most_tokens(service)
    if most > allowed:
        message = f"{param} must be at most {allowed}, got {most}."
        raise InvalidValue(message, param, "too_many_tokens")
    fixed = service.denoiser.block_size
    if fixed is not None and most < fixed:
        message = f"{param} must be at least {fixed}, the block size of the model, got {most}."
        raise InvalidValue(message, param)
    is_one_block = base.block == base.length and fixed is None
    block = most if is_one_block or most < base.block else base.block
    length = most // block * block
    per_block = max(1, base.steps * block // base.length)
    return replace(base, length=length, block=block, steps=per_block * (length // block))


def check_model(service: Service, name: str | None) -> None:
    """Raise for a model that is not served."""
    served = service.settings.model
    if name not in (None, served):
        message = f"model must be {served!r}, got {name!r}: it is not served here."
        raise ApiError(404, message, param="model", code="model_not_found")


def check_variety(temperature: float | None, size: int, param: str) -> None:
    """Raise for several samples at temperature 0; `param` sets their number."""
    if temperature == 0 and size > 1:
        message = f"temperature must be above 0 if {param} is above 1 ({param} is {size}), got 0."
        raise InvalidValue(message, "temperature")


def _check_tokens(service: Service, inputs: Inputs, num_prompt: int, num_canvas: int) -> None:
    most = most_tokens(service)
    if num_prompt + num_canvas > most:
        raise InvalidValue(
            f"prompt + canvas must be at most {most} tokens, got {num_prompt} + {num_canvas}.",
            inputs.name_of("prompt" if num_prompt > num_canvas else "canvas"),
            "too_many_tokens",
        )
