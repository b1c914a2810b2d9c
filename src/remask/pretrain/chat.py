"""A chat template in Jinja, as autoregressive models have them -> ours, with one {prompt}.

It is rendered for one turn of the user, in a sandbox; for three turns, to see what it says of the
reply that is asked for and of no earlier one; and with a system turn, where it has such turns.
"""

from dataclasses import dataclass
from typing import Any

from remask.denoisers.special_ids import PROMPT
from remask.denoisers.tokenizer import OPENING
from remask.errors import CheckpointError

_ASKED, _EARLIER, _REPLY = "\ue000", "\ue001", "\ue002"  # private characters: no template has them


@dataclass(frozen=True, kw_only=True)
class Chat:
    """How a model is spoken to; `chat` of config.json."""

    template: str  # with one field, {prompt}
    system: str = ""  # with a field {system}: what takes the place of its head, see `TokenSpelling`
    primer: str = ""  # how it begins the reply that it asks for, and no earlier one
    trims: bool = False  # whether it takes blanks off both ends of what is said


def read_chat(source: str, *, bos: str, eos: str, where: str) -> Chat:
    """Return what a template in Jinja comes to, or raise naming whose it is.

    Args:
        source: the template.
        bos: the text of the token that begins a row, which templates ask for.
        eos: the same of the one that ends it.
        where: whose template it is, for the sentence.
    """
    try:
        once = _render(source, [_ASKED], bos, eos)
        padded = _render(source, [f" {_ASKED} "], bos, eos)
        several = _render(source, [_EARLIER, _REPLY, _ASKED], bos, eos)
    except Exception as error:  # whatever a template raises, it cannot be used
        raise _unfit(where, str(error).strip() or type(error).__name__) from None
    if once.count(_ASKED) != 1 or PROMPT in once:
        raise _unfit(where, "it does not say the prompt once")
    tail = once.partition(_ASKED)[2]
    unprimed = several.partition(_EARLIER)[2].partition(_REPLY)[0]
    primer = tail.removeprefix(unprimed) if unprimed and tail.startswith(unprimed) else ""
    return Chat(
        template=once.replace(_ASKED, PROMPT),
        system=_system(source, once, bos, eos),
        primer=primer,
        trims=f" {_ASKED} " not in padded,
    )


def _system(source: str, once: str, bos: str, eos: str) -> str:
    """Return how a system turn is spoken; "" where the template has none, or does not say it."""
    try:
        given = _render(source, [_EARLIER, _ASKED], bos, eos, roles=("system", "user"))
    except Exception:  # some templates refuse the role
        return ""
    head, _, tail = once.partition(_ASKED)
    opening = OPENING.search(tail)
    if opening is None or opening.group() not in head or given.count(_EARLIER) != 1:
        return ""
    user = head[head.rindex(opening.group()) :]
    before, _, behind = given.partition(user + _ASKED)
    return before.replace(_EARLIER, "{system}") if behind == tail and _EARLIER in before else ""


def _unfit(where: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"the chat template of {where} cannot be used ({reason.splitlines()[0]:.120}); "
        f"give one with {PROMPT} as template."
    )


def _render(
    source: str,
    turns: list[str],
    bos: str,
    eos: str,
    roles: tuple[str, str] = ("user", "assistant"),
) -> str:
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise ValueError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: "2026-01-01"  # one day, for every training
    messages: list[dict[str, Any]] = [
        {"role": roles[place % 2], "content": text} for place, text in enumerate(turns)
    ]
    return environment.from_string(source).render(
        messages=messages, add_generation_prompt=True, bos_token=bos, eos_token=eos,
        enable_thinking=False, tools=None,
    )  # fmt: skip
