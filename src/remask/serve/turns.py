"""A conversation in messages, as the chat template of a model wants it."""

from collections.abc import Sequence
from typing import NamedTuple

from remask.serve.errors import InvalidValue
from remask.serve.schema import Message

Examples = tuple[tuple[str, str], ...]  # a user's turn and the model's, before the prompt
_SYSTEM = ("system", "developer")


class ChatTurns(NamedTuple):
    """A conversation: what is asked last, and what comes before it."""

    prompt: str
    examples: Examples = ()
    system: str = ""


def split_turns(messages: Sequence[Message]) -> ChatTurns:
    """Return the conversation; system and developer turns are one, and come first.

    Clients send system turns that say nothing, which are none, and empty answers as they came.
    """
    turns = [(i, m) for i, m in enumerate(messages) if m.role not in _SYSTEM or m.text.strip()]
    for number, message in turns:
        if message.role == "user" and not message.text.strip():
            raise InvalidValue(
                "a message of the user is empty; give its text, or leave the message out.",
                f"messages.{number}.content",
            )
    first = next((i for i, (_, m) in enumerate(turns) if m.role not in _SYSTEM), len(turns))
    later = next((number for number, m in turns[first:] if m.role in _SYSTEM), None)
    if later is not None:
        raise InvalidValue(
            "system and developer turns come before all others; move it to the front.",
            f"messages.{later}.role",
        )
    spoken = [message for _, message in turns[first:]]
    roles = ["user" if i % 2 == 0 else "assistant" for i in range(len(spoken))]
    if [message.role for message in spoken] != roles or len(spoken) % 2 == 0:
        raise InvalidValue(
            "messages must be turns of user and assistant, one after another, the last one the "
            "user's.",
            "messages",
        )
    texts = [message.text for message in spoken]
    return ChatTurns(
        prompt=texts[-1],
        examples=tuple(zip(texts[:-1:2], texts[1:-1:2], strict=True)),
        system="\n\n".join(message.text for _, message in turns[:first]),
    )
