"""Find the mask, end and padding ids of a checkpoint.

The first of these sources that names an id is used:

1. config.json: `mask_token_id`, `eos_token_id`, `pad_token_id`;
2. generation_config.json: the same keys;
3. tokenizer_config.json, then special_tokens_map.json: `mask_token`, `eos_token`, `pad_token`, bare
   or with their flags;
4. for the mask: the tokenizer's token with the family's spelling, then the family's id;
5. for the end: the padding token; for padding: the end token.

If `eos_token_id` is a list, each of its tokens ends an answer; the first is the end token. The
family names the tokens that end a turn. Contradictions raise: a mask token that also ends or pads,
two ids for the mask, an id without a logit. BOS is part of the chat template.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from remask.errors import CheckpointError

MASK_TOKEN = "<|mask|>"  # the usual spelling
PROMPT = "{prompt}"  # field of a chat template


@dataclass(frozen=True, kw_only=True)
class TokenSpelling:
    """The chat template and the special tokens of a family."""

    template: str  # chat template with one field, {prompt}
    ends: tuple[str, ...]  # tokens that end a turn, in addition to EOS
    # A system turn with one field, {system}; it replaces what the template has before the user's
    # first turn. Empty: the template has no system turn.
    system: str = ""
    primer: str = ""  # beginning of the requested reply that earlier replies do not have
    trims: bool = False  # whether the template strips messages
    mask_token: str = MASK_TOKEN
    mask_id: int | None = None  # used if no file names the mask token
    filler: str = ""  # token that the models write after the end, if the tokenizer has it
    turns: bool = True  # whether all tokenizers of the family have the tokens of the template
    inferred: tuple[str, ...] = ()  # tokens of a template that we inferred; they must exist


_Spelling = TypeVar("_Spelling", bound=TokenSpelling)
_CHAT: Mapping[str, type] = {"template": str, "system": str, "primer": str, "trims": bool}


def with_chat(spelling: _Spelling, config: Mapping[str, Any]) -> _Spelling:
    """Return the template of the family, or that of `chat` in config.json."""
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
    """The files of a checkpoint that name special tokens; a missing file is empty."""

    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    tokenizer: Mapping[str, Any]  # tokenizer_config.json
    tokens: Mapping[str, Any]  # special_tokens_map.json
    token_id: Callable[[str], int | None]  # id of a token in the tokenizer

    @property
    def num_ids(self) -> int:
        """Rows of the embedding."""
        size = self.config.get("embedding_size") or self.config.get("vocab_size")
        return size if isinstance(size, int) else 0

    def first(self, role: str) -> tuple[int, ...]:
        """Return the ids of `role` in the first file that names it, or ()."""
        return next((ids for _, ids in self.named(role)), ())

    def named(self, role: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and the ids of each file that names `role`, in the order of precedence."""
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
    """The special ids of a checkpoint."""

    mask: int
    ends: tuple[int, ...]  # the first one fills a canvas after the answer
    pad: int


def find_special_ids(sources: Sources, spelling: TokenSpelling) -> SpecialIds:
    """Return the special ids of a checkpoint, or raise for a missing or invalid one."""
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
        # Models whose EOS ends turns write it once and then padding.
        filler = pad if ends[0] in turns else ends[0]
    every_end = tuple(dict.fromkeys((filler, *ends, *turns)))
    for number in every_end:
        in_reach("the tokenizer", "an end token", number, sources.num_ids)
    _refuse_contradictions(masks, every_end, pad)
    return SpecialIds(mask=masks[0][1], ends=every_end, pad=pad)


def _masks(sources: Sources, spelling: TokenSpelling) -> Iterator[tuple[str, int]]:
    """Yield every id of the mask token with its source; the first is used."""
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
    """Return an id that has a row in the embedding, or raise with its source."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < num_ids:
        given = value if shown is None else shown
        raise CheckpointError(
            f"{where} gives {key} as {given!r}; it must be an id below {num_ids}."
        )
    return value
