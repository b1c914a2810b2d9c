"""A model of Inspect: messages in, answers out, with their scores.

Inspect asks many questions at once, each in a task of its own. What waits while the model is busy
is answered together: whoever finds it free takes along all that wait. Answers do not depend on it.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

import anyio.to_thread
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
)

from remask.errors import InputError, RemaskError, SettingsError
from remask.harnesses.answers import Answer, Answerer, Wanted, score_fields
from remask.harnesses.settings import HarnessSettings
from remask.settings import validate
from remask.turns import read_turns

_OURS = ("max_tokens", "temperature", "top_p", "top_k", "seed", "stop_seqs", "num_choices")
# What Inspect sees to itself.
_ITS_OWN = (
    "max_retries", "timeout", "attempt_timeout", "stream_idle_timeout", "max_connections",
    "adaptive_connections", "system_message", "max_tool_output", "internal_tools", "cache", "batch",
    "parallel_tool_calls", "cache_prompt", "fail_on_refusal", "reasoning_history",
)  # fmt: skip
_NEUTRAL = {"frequency_penalty": 0, "presence_penalty": 0, "logprobs": False, "top_logprobs": 0}


class _Ticket:
    """The answers that one question waits for."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self.wanted = wanted
        self.answers: list[Answer] = []
        self.error: Exception | None = None
        self.is_done = False


class RemaskAPI(ModelAPI):  # type: ignore[misc]  # Inspect's types are not read
    """A model of remask behind Inspect's interface."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: Any = None,
        **model_args: Any,
    ) -> None:
        """Load the model; `-M` sets the rest of `HarnessSettings`, by name."""
        super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())
        try:
            self.settings = validate(HarnessSettings, {"model": model_name, **model_args}, "-M")
            self.answerer = Answerer.of(model_name, self.settings.scorer, self.settings)
        except RemaskError as error:
            raise _as_sentence(error) from error
        self._waiting: SimpleQueue[_Ticket] = SimpleQueue()
        self._free = threading.Lock()
        self._seen: Counter[str] = Counter()

    def max_connections(self) -> int:
        """Return how many questions are asked at once."""
        return 32

    async def generate(
        self,
        input: list[Any],  # noqa: A002  # Inspect's name
        tools: list[Any],
        tool_choice: Any,
        config: Any,
    ) -> Any:
        """Return the answer to a chat, or several."""
        if tools:
            names = ", ".join(tool.name for tool in tools)
            raise SettingsError(
                f"tools are given ({names}), and this model calls none; leave them out."
            )
        wanted = self._wanted(input, config)
        answers = await anyio.to_thread.run_sync(self._answered, wanted)
        choices = [self._choice(answer) for answer in answers]
        read, written = len(wanted[0].prompt), sum(a.sample.num_response for a in answers)
        return ModelOutput(
            model=self.model_name,
            choices=choices,
            usage=ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written),
            metadata=choices[0].message.metadata,
        )

    def _wanted(self, messages: Sequence[Any], config: Any) -> list[Wanted]:
        """Return what is to be written: as many answers as there are choices.

        A chat that comes again, as in epochs, is answered anew unless a seed is set.
        """
        _check(config)
        turns = read_turns([(one.role, _text(one)) for one in messages])
        tokenizer, count = self.answerer.model.tokenizer, config.num_choices or 1
        chat = tokenizer.chat(*turns)
        sampler = self.answerer.sampler(
            config.max_tokens, temperature=config.temperature, top_p=config.top_p,
            top_k=config.top_k,
        ).for_pool(count, "num_choices")  # fmt: skip
        first = 0
        if config.seed is None:
            first = self._seen[chat]
            self._seen[chat] += count
        seed = self.settings.seed if config.seed is None else config.seed
        stops, prompt = tuple(config.stop_seqs or ()), tuple(tokenizer.encode_whole(chat))
        return [
            Wanted(chat, prompt, sampler, stops, number, seed)
            for number in range(first, first + count)
        ]

    def _answered(self, wanted: Sequence[Wanted]) -> list[Answer]:
        """Return the answers to one chat, with others that wait; runs in a thread of its own."""
        ticket = _Ticket(wanted)
        self._waiting.put(ticket)
        with self._free:
            if not ticket.is_done:
                self._answer(self._drain())
        if ticket.error is not None:
            raise ticket.error
        return ticket.answers

    def _drain(self) -> list[_Ticket]:
        """Return all that wait."""
        tickets = []
        while True:
            try:
                tickets.append(self._waiting.get_nowait())
            except Empty:
                return tickets

    def _answer(self, tickets: Sequence[_Ticket]) -> None:
        """Answer chats together; where that fails, one by one, so that none fails for another."""
        try:
            answers = iter(self.answerer.answers([w for t in tickets for w in t.wanted]))
            for ticket in tickets:
                ticket.answers = [next(answers) for _ in ticket.wanted]
        except Exception as error:  # too much memory for all of them, or a mistake of one
            if len(tickets) > 1:
                for ticket in tickets:
                    self._answer([ticket])
                return
            tickets[0].error = error
        for ticket in tickets:
            ticket.is_done = True

    def _choice(self, answer: Answer) -> Any:
        """Return an answer as Inspect has it; what is known of it stands in its metadata."""
        known = (
            None
            if answer.score is None
            else {"remask": score_fields(answer.score, answer.threshold)}
        )
        message = ChatMessageAssistant(
            content=answer.text, model=self.model_name, source="generate", metadata=known
        )
        reason = "stop" if answer.ended else "max_tokens"
        return ChatCompletionChoice(message=message, stop_reason=reason)


def _as_sentence(error: RemaskError) -> Exception:
    """Return an error as one that Inspect shows without a traceback, where it has such."""
    try:
        from inspect_ai._util.error import PrerequisiteError
    except ImportError:  # no public name: another version may have moved it
        return error
    from rich.markup import escape  # it prints markup

    shown: Exception = PrerequisiteError(escape(f"remask: {error}"))
    return shown


def _check(config: Any) -> None:
    """Refuse what would change an answer and cannot be done."""
    for name, value in config.model_dump(exclude_none=True).items():
        known = name in _OURS or name in _ITS_OWN
        if not known and (name not in _NEUTRAL or value != _NEUTRAL[name]):
            raise SettingsError(
                f"the setting {name} of a request is {value!r:.80}, which a diffusion model of "
                f"remask has not; leave it out, or set {', '.join(_OURS)}."
            )


def _text(message: Any) -> str:
    """Return the text of a message, which may hold nothing else."""
    parts = [] if isinstance(message.content, str) else message.content
    other = next((part.type for part in parts if part.type != "text"), None)
    if other is not None:
        raise InputError(f"a message of {message.role} holds {other}; this model reads text alone.")
    return str(message.text)
