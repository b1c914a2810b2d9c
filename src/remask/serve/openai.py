"""OpenAI's routes: chat and text completions, whole or as a stream of finished blocks.

Both routes draw `n` samples of each prompt, and share everything but the shape of a choice.
"""

import math
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from remask.denoisers.tokenizer import Tokenizer
from remask.sampling.drafts import Draft
from remask.serve import programs
from remask.serve.inputs import Inputs, draft_of, read_chat, read_completions, scorer_of
from remask.serve.programs import Plan, Verified, draw_needs, verify_needs
from remask.serve.requests import ChatRequest, CompletionRequest, OpenAIRequest
from remask.serve.responses import (
    FinishReason,
    Responder,
    Response,
    SolveDecision,
    Verification,
    drawn,
    finish_reason,
    new_id,
    readable,
)
from remask.serve.routes import STREAMED, answer, event, solve_plan
from remask.serve.service import Service
from remask.serve.stops import StopTexts
from remask.values import Likeliest, Sample

if TYPE_CHECKING:
    from fastapi import APIRouter

_MIN_LOGP = -9999.0  # OpenAI's


class LikelyToken(Response):
    """A token with its log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class LogprobToken(LikelyToken):
    """A token of an answer, with the step that revealed it."""

    top_logprobs: list[LikelyToken]
    step: int


class Logprobs(Response):
    """Log-probabilities of a chat choice; docs/server.md defines them."""

    content: list[LogprobToken]
    refusal: None


class AssistantMessage(Response):
    """The message of a chat choice."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatChoice(Response):
    """A choice of a chat, with its verification if the request has `remask`."""

    index: int
    message: AssistantMessage
    finish_reason: FinishReason
    logprobs: Logprobs | None
    remask: Verification | None = None


class TokenUsage(Response):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(Response):
    """Response of POST /v1/chat/completions, with the decision if `remask.budget` is above 1."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage
    remask: SolveDecision | None = None


class TextLogprobs(Response):
    """Log-probabilities of a text choice; docs/server.md defines them."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(Response):
    """A choice of a text completion."""

    index: int
    text: str
    finish_reason: FinishReason
    logprobs: TextLogprobs | None


class TextCompletion(Response):
    """Response of POST /v1/completions."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: TokenUsage


def add_openai_routes(router: "APIRouter", service: Service) -> None:
    @router.post("/v1/chat/completions", response_model=ChatCompletion, responses=STREAMED)
    async def chat(body: ChatRequest, request: Request) -> HttpResponse:
        """Answer a chat, in OpenAI's shape."""
        body.check()
        return await answer(service, request, body, lambda: [read_chat(service, body)], ChatReply)

    @router.post("/v1/completions", response_model=TextCompletion, responses=STREAMED)
    async def completions(body: CompletionRequest, request: Request) -> HttpResponse:
        """Continue texts, in OpenAI's shape."""
        body.check()
        return await answer(
            service, request, body, lambda: read_completions(service, body), TextReply
        )


class TokenLog(NamedTuple):
    """A token of an answer, with log-probabilities of the step that revealed it."""

    text: str
    logp: float
    step: int
    likeliest: list[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class CutAnswer:
    """An answer up to its stop text."""

    sample: Sample
    verified: Verified | None
    text: str
    num_tokens: int  # tokens of the text, or all with the end token if it was not cut
    finish_reason: FinishReason

    @classmethod
    def of(cls, tokenizer: Tokenizer, stops: StopTexts, result: Sample | Verified) -> "CutAnswer":
        verified = result if isinstance(result, Verified) else None
        sample = result.sample if isinstance(result, Verified) else result
        cut, size = stops.cut(sample.text), sample.num_response
        if cut is not None:
            size = bisect_left(
                range(size + 1),
                len(cut),
                key=lambda num: len(tokenizer.decode(sample.canvas[:num])),
            )
        return cls(
            sample=sample,
            verified=verified,
            text=sample.text if cut is None else cut,
            num_tokens=size,
            finish_reason=finish_reason(tokenizer, sample) if cut is None else "stop",
        )

    def token_logs(self, tokenizer: Tokenizer) -> list[TokenLog]:
        """Return the tokens of the text, without special tokens."""
        sample, size = self.sample, self.num_tokens
        probs, steps = drawn(sample)
        ids = sample.canvas[:size]
        likeliest: list[Likeliest] = [*sample.likeliest[:size]] or [()] * size
        rows = zip(ids, tokenizer.texts(ids), probs[:size], steps[:size], likeliest, strict=True)
        return [
            TokenLog(
                text=text,
                logp=max(_MIN_LOGP, math.log(prob)) if prob > 0 else _MIN_LOGP,
                step=step,
                likeliest=[
                    (piece, max(_MIN_LOGP, logp))
                    for piece, (_, logp) in zip(
                        tokenizer.pieces([token for token, _ in top]), top, strict=True
                    )
                ],
            )
            for i, text, prob, step, top in rows
            if i not in tokenizer.special_ids
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenAIReply(Responder):
    """The response to one request, as a document or as events; subclasses shape the choices.

    Equal prompts have equal answers, which are drawn once.
    """

    body: OpenAIRequest
    prefix: ClassVar[str]  # of ids
    kind: ClassVar[str]  # `object` of the document
    chunk_kind: ClassVar[str]
    document_type: ClassVar[type[Response]]
    empty: ClassVar[dict[str, Any]]  # the part of a chunk without text

    @property
    def choices(self) -> list[tuple[Inputs, int]]:
        """The prompt of each choice, and the number of its sample."""
        return [(inputs, n) for inputs in self.prompts for n in range(self.body.num_choices)]

    @property
    def decides(self) -> bool:
        """Whether answers are drawn until one is accepted."""
        return self.inputs.budget > 1

    @property
    def scores(self) -> bool:
        return False

    def plan(self) -> Plan:
        if self.decides:
            return solve_plan(self)
        denoiser, stops, emit = self.service.denoiser, self.inputs.stops, self.client.emit
        unique = {(inputs.item, n): (inputs, n) for inputs, n in self.choices}
        drafts = [draft_of(self.service, inputs, n) for inputs, n in unique.values()]

        def ends(draft: Draft) -> bool:
            written = denoiser.tokenizer.decode(draft.written) if stops.texts else ""
            return stops.cut(written) is not None

        if not self.scores:
            return Plan(programs.draw(denoiser, drafts, emit, ends), draw_needs(drafts))
        scorer = scorer_of(self.service, self.inputs)
        program = programs.draw_and_verify(denoiser, drafts, scorer, self.inputs.kind, emit, ends)
        return Plan(program, draw_needs(drafts) + verify_needs(drafts, scorer), scorer)

    def document(self, result: Any) -> Response:
        answers = self._answers(result)
        choices = [
            {**self._whole(index, one.text), **self._end(index, one)}
            for index, one in enumerate(answers)
        ]
        rest = {"choices": choices, "usage": self._usage(answers)}
        return self.document_type.model_validate(
            {**self._head(self.kind), **rest, **self._decision(result)}
        )

    async def events(self) -> AsyncGenerator[str, None]:
        head = self._head(self.chunk_kind)
        sent: dict[int, str] = {}  # the text of each choice so far
        async with self.client.events() as events:
            async for name, value in events:
                if name == "block" and not self.decides:
                    for chunk in self._grown(value, sent):
                        yield event(head | chunk)
        result = self.client.result
        for chunk in await self.client.in_thread(lambda: list(self._last(result, sent))):
            yield event(head | chunk)
        yield "data: [DONE]\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        model, now = self.service.settings.model, int(time.time())
        return {"id": new_id(self.prefix), "object": kind, "created": now, "model": model}

    def _answers(self, result: Any) -> list[CutAnswer]:
        """Return the answer of each choice."""
        tokenizer, stops = self.service.denoiser.tokenizer, self.inputs.stops
        if self.decides:
            decision, attempts = result
            return [CutAnswer.of(tokenizer, stops, attempts[decision.sample.number])]
        cut = [CutAnswer.of(tokenizer, stops, one) for one in result]
        by_key = {(one.sample.item, one.sample.number): one for one in cut}
        return [by_key[inputs.item, number] for inputs, number in self.choices]

    def _grown(self, draft: Draft, sent: dict[int, str]) -> Iterator[dict[str, Any]]:
        """Yield the chunks that a finished block adds to the choices of its sample."""
        stops, text = self.inputs.stops, readable(self.service.denoiser.tokenizer, draft)
        cut = stops.cut(text)
        if cut is not None or not draft.ended:
            text = stops.settled(text) if cut is None else cut
        for index, (inputs, number) in enumerate(self.choices):
            if (inputs.item, number) != (draft.item, draft.number):
                continue
            if index not in sent:
                yield from self._chunk(index, "", is_first=True)
            yield from self._chunk(index, text[len(sent.get(index, "")) :])
            sent[index] = text

    def _chunk(self, index: int, text: str, *, is_first: bool = False) -> Iterator[dict[str, Any]]:
        """Yield a chunk of a choice, unless it would be empty."""
        part = self._part(index, text, is_first=is_first)
        if part not in ({"text": ""}, {"delta": {"content": ""}}):
            choice = {"index": index, **part, "finish_reason": None, "logprobs": None}
            yield {"choices": [choice]}

    def _last(self, result: Any, sent: dict[int, str]) -> Iterator[dict[str, Any]]:
        """Yield the chunks after the last block: unsent answers, the ends, the usage."""
        answers = self._answers(result)
        for index, one in enumerate(answers):
            if index not in sent:
                yield from self._chunk(index, one.text, is_first=True)
            yield {"choices": [{**self._end(index, one), **self.empty}], **self._decision(result)}
        if self.body.has_usage:
            yield {"choices": [], "usage": self._usage(answers)}

    def _end(self, index: int, answer: CutAnswer) -> dict[str, Any]:
        end = {"index": index, "finish_reason": answer.finish_reason}
        return end | {"logprobs": self._logprobs(answer)}

    def _usage(self, answers: list[CutAnswer]) -> TokenUsage:
        prompts = answers[:: self.body.num_choices]
        prompt = sum(len(answer.sample.prompt) for answer in prompts)
        completion = sum(answer.num_tokens for answer in answers)
        return TokenUsage(
            prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion
        )

    def _decision(self, result: Any) -> dict[str, Any]:
        return {"remask": self.decision(result[0])} if self.decides else {}

    def _part(self, index: int, text: str, *, is_first: bool) -> dict[str, Any]:
        """Return the text of a chunk of a choice."""
        raise NotImplementedError

    def _whole(self, index: int, text: str) -> dict[str, Any]:
        """Return the text of a choice of the document."""
        return self._part(index, text, is_first=True)

    def _logprobs(self, answer: CutAnswer) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class ChatReply(OpenAIReply):
    """Response of POST /v1/chat/completions."""

    body: ChatRequest
    prefix = "chatcmpl"
    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    document_type = ChatCompletion
    empty: ClassVar[dict[str, Any]] = {"delta": {}}

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.body.messages]

    @property
    def scores(self) -> bool:
        return self.body.remask is not None

    def _part(self, index: int, text: str, *, is_first: bool) -> dict[str, Any]:
        role = {"role": "assistant"} if is_first else {}
        return {"delta": {**role, "content": text}}

    def _whole(self, index: int, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text, "refusal": None}}

    def _end(self, index: int, answer: CutAnswer) -> dict[str, Any]:
        end = super()._end(index, answer)
        if answer.verified is None:
            return end
        return end | {"remask": self.verification(answer.verified)}

    def _logprobs(self, answer: CutAnswer) -> Any:
        if not self.body.logprobs:
            return None
        content = [
            LogprobToken(
                **_token(log.text, log.logp),
                top_logprobs=[LikelyToken(**_token(*likely)) for likely in log.likeliest],
                step=log.step,
            )
            for log in answer.token_logs(self.service.denoiser.tokenizer)
        ]
        return Logprobs(content=content, refusal=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class TextReply(OpenAIReply):
    """Response of POST /v1/completions."""

    body: CompletionRequest
    prefix = "cmpl"
    kind = chunk_kind = "text_completion"
    document_type = TextCompletion
    empty: ClassVar[dict[str, Any]] = {"text": ""}

    def _part(self, index: int, text: str, *, is_first: bool) -> dict[str, Any]:
        echoed = self.choices[index][0].prompt if is_first and self.body.echo else ""
        return {"text": echoed + text}

    def _logprobs(self, answer: CutAnswer) -> Any:
        if self.body.logprobs is None:
            return None
        logs = answer.token_logs(self.service.denoiser.tokenizer)
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
    """Return log-probabilities by text; of tokens with equal texts the likeliest counts."""
    logs: dict[str, float] = {}
    for text, logp in likeliest:
        logs.setdefault(text, logp)
    return logs


def _token(text: str, logp: float) -> dict[str, Any]:
    return {"token": text, "logprob": logp, "bytes": list(text.encode("utf-8", "replace"))}
