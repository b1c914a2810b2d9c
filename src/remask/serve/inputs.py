"""From a request to what the core wants: the question, the check and the sampler.

The same words mean the same as on the command line: `options.question` and `options.sampler` are
their counterparts there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.sampling.blocks import whole_canvas
from remask.sampling.drafts import Draft, begin
from remask.sampling.sampler import check_length
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.serve.errors import Fault
from remask.serve.programs import Check
from remask.serve.schema import Asked, ChatRequest, Message, TripSettings
from remask.serve.service import Service
from remask.tasks import TASKS, steps_ok
from remask.tasks.base import Problem
from remask.values import Sample

_RUNS_CODE = {"pycode"}  # whose grader would run what a client sends


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, and how answers to it are read and verified."""

    prompt: str
    examples: tuple[tuple[str, str], ...]  # earlier turns
    kind: str
    seed: int
    item: str
    named: bool  # the client chose the item
    problem: Problem | None
    trips: TripSettings

    @property
    def settings(self) -> ConsistencySettings:
        """How the round trips are made."""
        t = self.trips
        return ConsistencySettings(
            trips=t.trips,
            rebuild_steps=t.rebuild_steps,
            mask_ratio=t.mask_ratio,
            mask_design=t.mask_design,
            rebuild_temperature=t.rebuild_temperature,
        )

    def extract(self, text: str) -> str | None:
        """Return the final result of an answer."""
        return api.reader(self.kind).extract(text)

    def threshold(self, service: Service) -> float:
        """Return what a score must exceed."""
        given = self.trips.threshold
        return service.denoiser.preset.for_task(self.kind).threshold if given is None else given

    def metrics(self, service: Service) -> Any:
        """Return the name of the metric set."""
        return self.trips.metrics or service.settings.metrics

    def check(self, service: Service) -> Check:
        """Return the scorer of its answers, ready: the model's thread loads no encoder."""
        scorer = api.consistency(
            service.denoiser,
            kind=self.kind,
            settings=self.settings,
            metrics=self.metrics(service),
        )
        scorer.warm()
        return Check(scorer=scorer, reads=self.kind, seed=self.seed)

    def grade(self, text: str) -> dict[str, Any] | None:
        """Return what is known of an answer's truth; no code is run to find out."""
        if self.problem is None or self.problem.task in _RUNS_CODE:
            return None
        task = TASKS[self.problem.task]
        right = task.grade(self.problem, text)
        return {
            "id": self.problem.id,
            "gold": self.problem.gold,
            "right": right,
            "process_ok": steps_ok(task, self.problem, text, right),
        }


def question_of(asked: Asked, trips: TripSettings) -> Question:
    """Return what a request to verify or solve asks."""
    given = [name for name in ("prompt", "messages", "task") if getattr(asked, name) is not None]
    if len(given) != 1:
        told = " and ".join(given) or "none of them"
        raise Fault(
            400, f"give exactly one of prompt, messages and task, not {told}.", code="invalid_value"
        )
    if asked.level is not None and asked.task is None:
        raise Fault(400, "level needs a task; leave it out.", param="level", code="invalid_value")
    if asked.task is not None:
        problem = TASKS[asked.task].problem(asked.seed, split="test", level=asked.level or "")
        return _question(
            problem.prompt, (), asked.kind or asked.task, asked.seed, trips, problem=problem
        )
    messages = asked.messages or [Message(role="user", content=asked.prompt or "")]
    return _question(*turns_of(messages), asked.kind or "number", asked.seed, trips)


def chat_question(body: ChatRequest) -> Question:
    """Return what a chat asks."""
    prompt, turns = turns_of(body.messages)
    trips = body.remask or TripSettings()
    kind = "text" if body.remask is None else body.remask.kind
    return _question(prompt, turns, kind, body.seed or 0, trips)


def _question(
    prompt: str,
    turns: tuple[tuple[str, str], ...],
    kind: str,
    seed: int,
    trips: TripSettings,
    problem: Problem | None = None,
) -> Question:
    return Question(
        prompt=prompt,
        examples=turns,
        kind=kind,
        seed=seed,
        item=trips.item or api.item_of(prompt),
        named=trips.item is not None,
        problem=problem,
        trips=trips,
    )


def turns_of(messages: Sequence[Message]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the last question, and the turns before it."""
    roles = ["user" if i % 2 == 0 else "assistant" for i in range(len(messages))]
    if [message.role for message in messages] != roles or len(messages) % 2 == 0:
        raise Fault(
            400, "messages must be turns of user and assistant, one after another, the last one "
            "the user's.", param="messages", code="invalid_value",
        )  # fmt: skip
    texts = [message.text for message in messages]
    return texts[-1], tuple(zip(texts[:-1:2], texts[1:-1:2], strict=True))


def brought(service: Service, question: Question, answer: str) -> Sample:
    """Return an answer from outside, or raise where it cannot be verified."""
    service.check_text(question.prompt, answer, *chain(*question.examples))
    sample = api.sample_from_text(
        service.denoiser, question.prompt, answer, item=question.item, examples=question.examples
    )
    num_canvas = len(whole_canvas(service.denoiser, sample))
    service.check_tokens(len(sample.prompt), num_canvas)
    check_length(service.denoiser, len(sample.prompt), num_canvas)
    return sample


def drafted(
    service: Service, question: Question, settings: SamplerSettings, number: int = 0
) -> Draft:
    """Return an empty answer, or raise where the model cannot write it."""
    service.check_text(question.prompt, *chain(*question.examples))
    ids = service.denoiser.tokenizer.render(question.prompt, question.examples)
    service.check_tokens(len(ids), settings.length)
    return begin(
        service.denoiser, ids, settings, item=question.item, number=number, seed=question.seed
    )


def sampler_of(
    service: Service,
    question: Question,
    *,
    temperature: float | None,
    max_tokens: int | None,
    top_p: float | None = None,
    param: str = "max_tokens",
) -> SamplerSettings:
    """Return the preset for what is asked, with what the request changes.

    `param` is what the request calls `max_tokens`.
    """
    problem, kind, canvas = question.problem, question.kind, api.reader(question.kind).canvas
    if problem is not None:
        kind, canvas = problem.task, TASKS[problem.task].canvas_length(problem.level)
    base = sampler_settings(service.denoiser, kind=kind, canvas=canvas, temperature=temperature)
    if max_tokens is not None:
        base = _shortened(service, base, max_tokens, param)
    return base if top_p is None else replace(base, top_p=top_p)


def require_variety(temperature: float | None, size: int, param: str) -> None:
    """Refuse several samples at a temperature that draws one answer; `param` asks for so many."""
    if temperature == 0 and size > 1:
        raise Fault(
            400, f"temperature 0 draws the same answer every time, and {param} is {size}; leave "
            f"temperature out, give one above 0, or {param} 1.", param="temperature",
            code="invalid_value",
        )  # fmt: skip


def _shortened(service: Service, base: SamplerSettings, most: int, param: str) -> SamplerSettings:
    """Return a sampler with a canvas of at most so many tokens, in whole blocks.

    A canvas that is one block stays one; the steps per token stay what they are.
    """
    if most > service.settings.max_tokens:
        raise Fault(
            400, f"{param} is {most}; this server allows {service.settings.max_tokens}.",
            param=param, code="too_many_tokens",
        )  # fmt: skip
    fixed = service.denoiser.block_size
    if fixed is not None and most < fixed:
        raise Fault(
            400, f"{param} is {most}; this model writes blocks of {fixed}, so give at least "
            "that.", param=param, code="invalid_value",
        )  # fmt: skip
    whole = base.block == base.length and fixed is None
    block = most if whole or most < base.block else base.block
    length = most // block * block
    per_block = max(1, base.steps * block // base.length)
    return replace(base, length=length, block=block, steps=per_block * (length // block))
