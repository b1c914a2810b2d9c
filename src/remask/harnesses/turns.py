"""The messages of a chat, as harnesses give them -> what a model of remask is asked.

Roles are those of OpenAI. Messages of one role that follow one another are one turn, with a blank
line between them; a last one of the assistant is the beginning of the reply that is asked for.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from remask.errors import InputError

_SYSTEM = ("system", "developer")


class AskedChat(NamedTuple):
    """A chat that ends with what the model is asked."""

    prompt: str
    examples: tuple[tuple[str, str], ...] = ()  # the user's turns before it, and the replies
    system: str = ""
    beginning: str = ""  # of the reply


def read_turns(messages: Sequence[tuple[str, str]]) -> AskedChat:
    """Return the turns of messages, each a role and a text, or raise where they make no chat."""
    turns = [
        (role, "\n\n".join(text for _, text in group))
        for role, group in groupby(messages, key=lambda message: _role(message[0]))
    ]
    system = turns.pop(0)[1] if turns and turns[0][0] == "system" else ""
    beginning = turns.pop()[1] if turns and turns[-1][0] == "assistant" else ""
    roles = [role for role, _ in turns]
    if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        raise InputError(
            f"the roles of the messages are {', '.join(role for role, _ in messages) or 'none'}; "
            "give turns of user and assistant one after the other, and the user's last."
        )
    texts = [text for _, text in turns]
    examples = tuple(zip(texts[:-1:2], texts[1:-1:2], strict=True))
    return AskedChat(texts[-1], examples, system, beginning)


def _role(role: str) -> str:
    if role not in (*_SYSTEM, "user", "assistant"):
        raise InputError(
            f"the role {role!r:.80} is unknown; use system, developer, user or assistant."
        )
    return "system" if role in _SYSTEM else role
