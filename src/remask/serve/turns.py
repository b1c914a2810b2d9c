"""A conversation in messages, as the chat template of a model wants it."""

from collections.abc import Sequence

from remask.errors import InputError
from remask.serve.errors import InvalidValue
from remask.serve.schema import Message
from remask.turns import SYSTEM_ROLES, AskedChat, read_turns


def split_turns(messages: Sequence[Message]) -> AskedChat:
    """Return the conversation, or raise where the messages make none.

    Clients send system turns that say nothing, which are none, and empty answers as they came.
    """
    for number, message in enumerate(messages):
        if message.role == "user" and not message.text.strip():
            raise InvalidValue(
                "a message of the user is empty; give its text, or leave the message out.",
                f"messages.{number}.content",
            )
    said = [(m.role, m.text) for m in messages if m.role not in SYSTEM_ROLES or m.text.strip()]
    try:
        return read_turns(said)
    except InputError as error:
        raise InvalidValue(str(error), "messages") from None
