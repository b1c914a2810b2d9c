"""OpenAI's older route: texts that are continued, without the turns of a chat."""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from remask.sampling.drafts import Draft
from remask.serve import programs
from remask.serve.chat import END_OF_STREAM, TokenUsage, check_stream, openai_head, token_usage
from remask.serve.errors import InvalidValue
from remask.serve.inputs import Inputs, draft_of, read_completions
from remask.serve.openai_schema import CompletionRequest
from remask.serve.programs import Plan, draw_needs
from remask.serve.request import ClientRequest
from remask.serve.responses import FinishReason, Response
from remask.serve.routes import STREAMED, event, event_stream, log_texts, respond
from remask.serve.sent import SentAnswer, SentSoFar, ends_at, sent_answer, token_logs
from remask.serve.service import Service
from remask.serve.settings import MAX_BUDGET
from remask.values import Sample

if TYPE_CHECKING:
    from fastapi import APIRouter


class TextLogprobs(Response):
    """OpenAI's; what the numbers mean is in docs/server.md."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(Response):
    """OpenAI's."""

    index: int
    text: str
    finish_reason: FinishReason
    logprobs: TextLogprobs | None


class TextCompletion(Response):
    """OpenAI's."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: TokenUsage


def add_completion_route(router: "APIRouter", service: Service) -> None:
    """Add the route."""

    @router.post("/v1/completions", response_model=TextCompletion, responses=STREAMED)
    async def completions(body: CompletionRequest, request: Request) -> HttpResponse:
        """Continue texts, in OpenAI's shape."""
        return await _complete(service, body, request)


async def _complete(service: Service, body: CompletionRequest, request: Request) -> HttpResponse:
    client = ClientRequest(service, request)
    _check(body)

    def prepare() -> tuple[CompletionResponder, Plan]:
        responder = CompletionResponder(service, client, body, read_completions(service, body))
        return responder, responder.plan()

    responder, plan = await client.in_thread(prepare)
    log_texts(client, *body.prompts)
    await client.start(plan)
    if body.stream:
        return event_stream(client, responder.stream())
    samples = await client.run()
    return await respond(client, lambda: responder.completion(samples))


def _check(body: CompletionRequest) -> None:
    """Refuse parameters that contradict each other."""
    check_stream(body)
    if body.best_of not in (None, body.num_choices):
        raise InvalidValue("best_of must be n: all that is drawn is sent.", "best_of")
    if body.echo and body.logprobs is not None:
        raise InvalidValue(
            "echo has no logprobs here: a prompt is read, not written; leave one of them out.",
            "echo",
        )
    if len(body.prompts) * body.num_choices > MAX_BUDGET:
        raise InvalidValue(
            f"{len(body.prompts)} prompts with n {body.num_choices} are more than {MAX_BUDGET} "
            "answers; send fewer at a time.",
            "prompt",
        )


@dataclass(frozen=True, eq=False)
class CompletionResponder:
    """What makes the documents of one request: `n` choices of each prompt, one after another.

    Equal prompts have equal answers, which are drawn once.
    """

    service: Service
    client: ClientRequest
    body: CompletionRequest
    inputs: list[Inputs]  # of each prompt

    @property
    def choices(self) -> list[tuple[Inputs, int]]:
        """What each choice answers, and which sample it is."""
        return [(inputs, n) for inputs in self.inputs for n in range(self.body.num_choices)]

    def plan(self) -> Plan:
        """Return the program that draws the answers, or raise if there is none."""
        denoiser = self.service.denoiser
        unique = {(inputs.item, n): (inputs, n) for inputs, n in self.choices}
        drafts = [draft_of(self.service, inputs, n) for inputs, n in unique.values()]
        ends = ends_at(denoiser.tokenizer, self.inputs[0].stops)
        program = programs.draw(denoiser, drafts, self.client.emit, ends)
        return Plan(program, draw_needs(drafts))

    def completion(self, samples: list[Sample]) -> TextCompletion:
        """Return the response as one document."""
        answers = self._answers(samples)
        choices = [
            TextChoice(text=self._echoed(index) + answer.text, **self._end(index, answer))
            for index, answer in enumerate(answers)
        ]
        head = openai_head(self.service, "cmpl", "text_completion")
        return TextCompletion(**head, choices=choices, usage=token_usage(answers, len(self.inputs)))

    async def stream(self) -> AsyncGenerator[str, None]:
        """Yield the response as events."""
        head = openai_head(self.service, "cmpl", "text_completion")
        sent = SentSoFar(self.service.denoiser.tokenizer, self.inputs[0].stops)
        async with self.client.events() as events:
            async for _, draft in events:
                for chunk in self._grown(draft, sent):
                    yield event(head | chunk)
        samples = self.client.result
        for chunk in await self.client.in_thread(lambda: list(self._last(samples))):
            yield event(head | chunk)
        yield END_OF_STREAM

    def _grown(self, draft: Draft, sent: SentSoFar) -> Iterator[dict[str, Any]]:
        """Yield what a finished block adds to the choices that it belongs to."""
        for index, (inputs, number) in enumerate(self.choices):
            if (inputs.item, number) != (draft.item, draft.number):
                continue
            opening = "" if index in sent.texts else self._echoed(index)
            added = opening + sent.add(index, draft)
            if added:
                end = {"finish_reason": None, "logprobs": None}
                yield {"choices": [{"index": index, "text": added, **end}]}

    def _last(self, samples: list[Sample]) -> Iterator[dict[str, Any]]:
        """Yield what follows the blocks: the ends, and the usage."""
        answers = self._answers(samples)
        for index, answer in enumerate(answers):
            yield {"choices": [{"text": "", **self._end(index, answer)}]}
        if self.body.tells_usage:
            yield {"choices": [], "usage": token_usage(answers, len(self.inputs))}

    def _answers(self, samples: list[Sample]) -> list[SentAnswer]:
        by_key = {(sample.item, sample.number): sample for sample in samples}
        tokenizer = self.service.denoiser.tokenizer
        return [sent_answer(tokenizer, i, by_key[i.item, number]) for i, number in self.choices]

    def _echoed(self, index: int) -> str:
        return self.choices[index][0].prompt if self.body.echo else ""

    def _end(self, index: int, answer: SentAnswer) -> dict[str, Any]:
        logprobs = None if self.body.logprobs is None else self._logprobs(answer)
        return {"index": index, "finish_reason": answer.finish_reason, "logprobs": logprobs}

    def _logprobs(self, answer: SentAnswer) -> TextLogprobs:
        logs = token_logs(self.service.denoiser.tokenizer, answer)
        offsets = [0]
        for log in logs:
            offsets.append(offsets[-1] + len(log.text))
        return TextLogprobs(
            tokens=[log.text for log in logs],
            token_logprobs=[log.logp for log in logs],
            top_logprobs=[_by_text(log.likeliest) for log in logs],
            text_offset=offsets[:-1],
        )


def _by_text(likeliest: list[tuple[str, float]]) -> dict[str, float]:
    """Return the logarithms by text; of tokens that read alike, like parts of a character, one."""
    logs: dict[str, float] = {}
    for text, logp in likeliest:
        logs.setdefault(text, logp)
    return logs
