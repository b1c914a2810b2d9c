"""Which ids mask, end and pad: one order of sources, for every family.

For each of them the first source that names one is believed:

1. config.json: `mask_token_id`, `eos_token_id`, `pad_token_id`;
2. generation_config.json: the same keys;
3. tokenizer_config.json, then special_tokens_map.json: `mask_token`, `eos_token`, `pad_token`, bare
   or with their flags;
4. the mask token alone: the tokenizer's token in the authors' spelling, then the id that the
   authors give where no file does;
5. the padding token for the end, and the end for padding.

`eos_token_id` may be a list: all of it ends an answer, and the first is the end. Tokens that end a
turn are known by the family's spelling. What contradicts itself is refused: a mask token that also
ends or pads, two ids for it, an id without a logit. BOS is a part of the template, by its spelling,
and no file is asked for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from remask.errors import CheckpointError

MASK_TOKEN = "<|mask|>"  # how most authors spell it
PROMPT = "{prompt}"  # the field of a chat template


@dataclass(frozen=True, kw_only=True)
class TokenSpelling:
    """How a family is spoken to: its chat template, and its special tokens as the authors spell."""

    template: str  # of the chat, with one field, {prompt}
    ends: tuple[str, ...]  # tokens that end a turn, beside EOS
    # With a field {system}: what stands before the user's first turn where a system turn is given,
    # instead of what the template has there; empty: it has no such turns.
    system: str = ""
    primer: str = ""  # how the template begins the reply it asks for, and no earlier one
    trims: bool = False  # whether the template takes blanks off both ends of what is said
    mask_token: str = MASK_TOKEN
    mask_id: int | None = None  # the authors' word, where no file names the mask token
    filler: str = ""  # what the models write behind the end, where a tokenizer has it
    turns: bool = True  # whether every tokenizer of the family has the tokens of the template
    inferred: tuple[str, ...] = ()  # tokens of a template that nobody saw: without them it is wrong


_Spelling = TypeVar("_Spelling", bound=TokenSpelling)
_CHAT: Mapping[str, type] = {"template": str, "system": str, "primer": str, "trims": bool}


def with_chat(spelling: _Spelling, config: Mapping[str, Any]) -> _Spelling:
    """Return how a checkpoint is spoken to: by `chat` of config.json, else as its family is."""
    chat = config.get("chat")
    if chat is None:
        return spelling
    known = isinstance(chat, Mapping) and {"template"} <= chat.keys() <= _CHAT.keys()
    if not known or not all(isinstance(value, _CHAT[key]) for key, value in chat.items()):
        raise CheckpointError(
            f"config.json gives chat as {chat!r:.80}; it must be an object with a template; it may "
            "have system and primer, texts all of them, and trims, true or false."
        )
    if chat["template"].count(PROMPT) != 1:
        raise CheckpointError(
            f"config.json gives chat a template {chat['template']!r:.80}; it must hold "
            f"{PROMPT} once."
        )
    return replace(spelling, **{"system": "", "primer": "", "trims": False, **chat})


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The files of a checkpoint that name special tokens; empty where one is missing."""

    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    tokenizer: Mapping[str, Any]  # tokenizer_config.json
    tokens: Mapping[str, Any]  # special_tokens_map.json
    token_id: Callable[[str], int | None]  # of the tokenizer

    @property
    def num_ids(self) -> int:
        """Rows of the embedding: every id is below it."""
        size = self.config.get("embedding_size") or self.config.get("vocab_size")
        return size if isinstance(size, int) else 0

    def first(self, role: str) -> tuple[int, ...]:
        """Return the ids that the first file which names `role` gives; () where none does."""
        return next((ids for _, ids in self.named(role)), ())

    def named(self, role: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield each file that names `role`, in the order in which they are believed."""
        key = f"{role}_token_id"
        for where, given in (("config", self.config), ("generation_config", self.generation)):
            if given.get(key) is not None:
                yield f"{where}.json", self._ids(f"{where}.json", key, given[key])
        files = (("tokenizer_config", self.tokenizer), ("special_tokens_map", self.tokens))
        for where, given in files:
            number = self._spelled(f"{where}.json", f"{role}_token", given)
            if number is not None:
                yield f"{where}.json", (number,)

    def _ids(self, where: str, key: str, value: Any) -> tuple[int, ...]:
        listed = value if key == "eos_token_id" and isinstance(value, list) and value else [value]
        return tuple(in_reach(where, key, one, self.num_ids, shown=value) for one in listed)

    def _spelled(self, where: str, key: str, given: Mapping[str, Any]) -> int | None:
        token = given.get(key)
        name = token.get("content") if isinstance(token, Mapping) else token
        if name is None:
            return None
        number = self.token_id(name) if isinstance(name, str) else None
        if number is None:
            raise CheckpointError(
                f"{where} gives {key} as {name!r}, which the tokenizer does not have; "
                "download the tokenizer's files again."
            )
        return in_reach(where, key, number, self.num_ids)


@dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """What a canvas is made with."""

    mask: int
    ends: tuple[int, ...]  # first the one that fills the tail
    pad: int


def find_special_ids(sources: Sources, spelling: TokenSpelling) -> SpecialIds:
    """Return the special ids of a checkpoint, or raise naming the key that is missing or wrong."""
    masks = list(_masks(sources, spelling))
    ends, padding = sources.first("eos"), sources.first("pad")
    if not ends and not padding:
        raise CheckpointError(
            "neither config.json, generation_config.json nor the tokenizer's files name an "
            "eos_token or a pad_token; write eos_token_id into config.json."
        )
    ends, pad = ends or padding[:1], (padding or ends)[0]
    turns = [i for i in map(sources.token_id, spelling.ends) if i is not None]
    filler = sources.token_id(spelling.filler) if spelling.filler else None
    if filler is None:
        # An EOS that ends turns comes once: after it such models learned to write padding.
        filler = pad if ends[0] in turns else ends[0]
    every_end = tuple(dict.fromkeys((filler, *ends, *turns)))
    for number in every_end:
        in_reach("the tokenizer", "an end token", number, sources.num_ids)
    _refuse_contradictions(masks, every_end, pad)
    return SpecialIds(mask=masks[0][1], ends=every_end, pad=pad)


def _masks(sources: Sources, spelling: TokenSpelling) -> Iterator[tuple[str, int]]:
    """Yield every id that stands for the mask token, and who says so; the first is believed."""
    named = [(where, ids[0]) for where, ids in sources.named("mask")]
    spelled = sources.token_id(spelling.mask_token)
    if spelled is not None:
        named.append((f"the tokenizer ({spelling.mask_token})", spelled))
    if not named and spelling.mask_id is not None:
        named.append(("its authors", spelling.mask_id))
    if not named:
        raise CheckpointError(
            f"config.json gives mask_token_id as None and the tokenizer has no "
            f"{spelling.mask_token}; remask needs a model with a mask token, so name its id in "
            "config.json."
        )
    for where, number in named:
        yield where, in_reach(where, "mask_token_id", number, sources.num_ids)


def _refuse_contradictions(masks: Sequence[tuple[str, int]], ends: Sequence[int], pad: int) -> None:
    where, mask = masks[0]
    if mask in ends or mask == pad:
        role = "EOS" if mask in ends else "pad_token_id"
        raise CheckpointError(
            f"{where} gives {mask} as mask_token_id, which is {role} too; correct one of them."
        )
    for other, number in masks:
        if number != mask:
            raise CheckpointError(
                f"the mask token is {mask} by {where} and {number} by {other}; "
                "the files do not belong together, download them again."
            )


def in_reach(where: str, key: str, value: Any, num_ids: int, shown: Any = None) -> int:
    """Return an id that has a row in the embedding, or raise naming who gives another."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < num_ids:
        given = value if shown is None else shown
        raise CheckpointError(
            f"{where} gives {key} as {given!r}; it must be an id below {num_ids}."
        )
    return value
