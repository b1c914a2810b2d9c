"""The messages of a chat, as clients and harnesses give them -> what a model is asked.

Roles are those of OpenAI. Messages of one role that follow one another are one turn, with a blank
line between them; a last one of the assistant is the beginning of the reply that is asked for. What
system and developer messages say is one turn, which comes first wherever they stand: templates have
no other place for it.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from remask.errors import InputError

SYSTEM_ROLES = ("system", "developer")
_SPEAKERS = ("user", "assistant")


class AskedChat(NamedTuple):
    """A chat that ends with what the model is asked."""

    prompt: str
    examples: tuple[tuple[str, str], ...] = ()  # the user's turns before it, and the replies
    system: str = ""
    beginning: str = ""  # of the reply


def read_turns(messages: Sequence[tuple[str, str]]) -> AskedChat:
    """Return the turns of messages, each a role and a text, or raise where they make no chat."""
    for role, _ in messages:
        if role not in (*SYSTEM_ROLES, *_SPEAKERS):
            raise InputError(
                f"the role {role!r:.80} is unknown; use system, developer, user or assistant."
            )
    spoken = [message for message in messages if message[0] in _SPEAKERS]
    turns = [
        (role, _joined(text for _, text in group))
        for role, group in groupby(spoken, key=lambda message: message[0])
    ]
    beginning = turns.pop()[1] if turns and turns[-1][0] == "assistant" else ""
    roles = [role for role, _ in turns]
    if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        raise InputError(
            f"the roles of the messages are {', '.join(role for role, _ in messages) or 'none'}; "
            "give turns of user and assistant, of which the user's is the first."
        )
    texts = [text for _, text in turns]
    examples = tuple(zip(texts[:-1:2], texts[1:-1:2], strict=True))
    system = _joined(text for role, text in messages if role in SYSTEM_ROLES)
    return AskedChat(texts[-1], examples, system, beginning)


def _joined(texts: Iterable[str]) -> str:
    """Return texts as one; those that say nothing add nothing."""
    return "\n\n".join(filter(None, texts))
