"""Text to ids and back, with the special ids and the chat template of a model family.

Prompts are rendered and encoded as one string, as the models were trained; a finished response is
*appended* to the prompt's ids and never rendered with them, because stock chat templates add an
assistant header to whatever they are given.

A checkpoint brings a tokenizer.json, or, like Dream, the vocab.json and merges.txt of Qwen's
byte-level BPE; code that comes with a checkpoint is not run.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from remask.errors import CheckpointError, InputError

LLADA_TEMPLATE = (
    "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)
# inclusionAI's: its stock template writes the system line when the user gives none.
ROLE_TEMPLATE = (
    "<role>SYSTEM</role>detailed thinking off<|role_end|>"
    "<role>HUMAN</role>{prompt}<|role_end|><role>ASSISTANT</role>"
)
_OPENING = re.compile(r"<[^<>]+>(?=assistant)", re.IGNORECASE)  # of the model's turn
MASK_TOKEN = "<|mask|>"  # what the families call it whose config.json has no id for it
# How Qwen's tokenizers cut text before merging: contractions, words, single digits, runs of
# punctuation, line ends, spaces.
_QWEN_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokenizer:
    """A tokenizer with the ids a denoiser needs."""

    backend: tokenizers.Tokenizer
    mask_id: int
    eos_ids: tuple[int, ...]  # first the one that fills the tail
    pad_id: int
    template: str  # with one field, {prompt}

    @property
    def eos_id(self) -> int:
        """The id that fills a canvas after its end."""
        return self.eos_ids[0]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that never stand for text."""
        added = self.backend.get_added_tokens_decoder()
        return frozenset(i for i, token in added.items() if token.special)

    def encode(self, text: str, what: str = "text") -> list[int]:
        """Return the ids of `text`; `what` names it in the error."""
        try:
            ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        except (UnicodeEncodeError, TypeError) as error:
            raise InputError(f"the {what} is not valid unicode ({error}); re-encode it.") from None
        special = next((i for i in ids if i in self.special_ids), None)
        if special is not None:
            kind = "mask" if special == self.mask_id else "special"
            token = self.backend.id_to_token(special)
            raise InputError(f"the {what} contains the {kind} token {token!r}; remove it.")
        return ids

    def render(self, prompt: str, examples: Sequence[tuple[str, str]] = ()) -> list[int]:
        """Return the ids of a user's turn, ready for the canvas to follow.

        Each example is a turn of the user and one of the model, before it.
        """
        for text in (*chain(*examples), prompt):
            if not text.strip():
                raise InputError("the prompt is empty; give the question as text.")
            self.encode(text, "prompt")  # a special token in it would end the turn
        whole = self.template.replace("{prompt}", self._earlier(examples) + prompt.strip())
        ids: list[int] = self.backend.encode(whole, add_special_tokens=False).ids
        return ids

    def _earlier(self, examples: Sequence[tuple[str, str]]) -> str:
        """Return what stands between the head of the template and a prompt that follows these.

        What a template says of one turn tells how another is opened and closed: the model's begins
        with the token before its role, and the user's with the same token.
        """
        if not examples:
            return ""
        head, _, tail = self.template.partition("{prompt}")
        opening = _OPENING.search(tail)
        if opening is None or opening.group() not in head:
            raise InputError("this model's template has no turns; leave worked examples out.")
        between = tail[: opening.start()] + head[head.rindex(opening.group()) :]
        turns = (f"{asked.strip()}{tail}{reply.strip()}{between}" for asked, reply in examples)
        return "".join(turns)

    def num_response(self, canvas: Sequence[int]) -> int:
        """Return the length of the response: up to and including its first end token."""
        ends = (i for i, token in enumerate(canvas) if token in self.eos_ids)
        return next(ends, len(canvas) - 1) + 1

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a canvas up to its first end token, special tokens left out."""
        ids = ids[: self.num_response(ids)]
        text: str = self.backend.decode(list(ids), skip_special_tokens=True)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return what each token alone reads as; special tokens by their names."""
        return [
            str(self.backend.id_to_token(i)) if i in self.special_ids else self.backend.decode([i])
            for i in ids
        ]

    @staticmethod
    def read(
        folder: Path, config: dict[str, Any], template: str, ends: Sequence[str]
    ) -> "Tokenizer":
        """Return the tokenizer of a checkpoint folder; `ends` names further end tokens."""
        path = folder / "tokenizer_config.json"
        declared = read_json(path) if path.exists() else {}
        backend = _backend(folder, declared)
        mask_id, eos_id = _mask_id(config, declared, backend), _id(config, "eos_token_id")
        if mask_id == eos_id:
            raise CheckpointError(f"config.json gives {mask_id} as both mask_token_id and EOS.")
        pad_id = _pad_id(config, declared, backend, eos_id)
        turn_ends = [backend.token_to_id(end) for end in ends]
        # An EOS that ends turns comes once: after it such models learned to write padding.
        filler = pad_id if eos_id in turn_ends else eos_id
        found = dict.fromkeys((filler, eos_id, *turn_ends))
        return Tokenizer(
            backend=backend,
            mask_id=mask_id,
            eos_ids=tuple(i for i in found if i is not None),
            pad_id=pad_id,
            template=template,
        )


def _backend(folder: Path, declared: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return the tokenizer of tokenizer.json, or of vocab.json and merges.txt."""
    path = folder / "tokenizer.json"
    if not path.exists() and (folder / "vocab.json").exists():
        return _qwen(folder, declared)
    if not path.exists():
        raise CheckpointError(
            f"{folder} has no tokenizer.json, nor vocab.json with merges.txt; "
            "copy them from the checkpoint."
        )
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise CheckpointError(f"{path} cannot be read ({error}); download it again.") from None


def _qwen(folder: Path, declared: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return Qwen's byte-level BPE over the vocab.json and merges.txt of `folder`."""
    added = _added_tokens(folder, declared)
    # Added tokens join the vocabulary with the ids they have; the library would number them anew.
    vocab = {**read_json(folder / "vocab.json"), **{t.content: i for i, t in added.items()}}
    merges = _merges(folder / "merges.txt")
    try:
        model = models.BPE(vocab=vocab, merges=merges)
    except Exception as error:  # the library raises plain Exception
        raise CheckpointError(
            f"{folder / 'vocab.json'} and merges.txt do not fit each other ({error}); "
            "download both again."
        ) from None
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.NFC()
    pieces = pre_tokenizers.Split(tokenizers.Regex(_QWEN_PIECES), behavior="isolated")
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pieces, in_bytes])
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens([token for _, token in sorted(added.items())])
    return backend


def _merges(path: Path) -> list[tuple[str, str]]:
    """Return the pairs of merges.txt, first merged first."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist; copy it from the checkpoint.") from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not valid text ({error}); download it again.") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise CheckpointError(
                f"{path} has {line!r} in line {number}, not two tokens; download it again."
            )
        pairs.append((left, right))
    return pairs


def _added_tokens(folder: Path, declared: dict[str, Any]) -> dict[int, AddedToken]:
    """Return the tokens beside the vocabulary, by id, as the checkpoint declares them."""
    path = folder / "added_tokens.json"
    plain = read_json(path) if path.exists() else {}
    # added_tokens.json says nothing but the id: such a token is special, no text may spell it.
    try:
        entries = {int(i): {"content": content} for content, i in plain.items()}
        entries |= {int(i): e for i, e in declared.get("added_tokens_decoder", {}).items()}
        return {i: _added(entry) for i, entry in entries.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the added tokens of {folder} cannot be read ({error!r}); "
            "download tokenizer_config.json again."
        ) from None


def _added(entry: dict[str, Any]) -> AddedToken:
    return AddedToken(
        entry["content"],
        special=entry.get("special", True),
        normalized=entry.get("normalized", False),
        lstrip=entry.get("lstrip", False),
        rstrip=entry.get("rstrip", False),
        single_word=entry.get("single_word", False),
    )


def _mask_id(
    config: dict[str, Any], declared: dict[str, Any], backend: tokenizers.Tokenizer
) -> int:
    """Return the id that config.json gives, else that of the tokenizer's mask token."""
    if config.get("mask_token_id") is not None:
        return _id(config, "mask_token_id")
    token = _name(declared.get("mask_token")) or MASK_TOKEN
    found = backend.token_to_id(token)
    if found is None:
        raise CheckpointError(
            f"config.json gives mask_token_id as None and the tokenizer has no {token}; "
            "remask needs a model with a mask token, so name its id in config.json."
        )
    return _id({**config, "mask_token_id": found}, "mask_token_id")


def _pad_id(
    config: dict[str, Any], declared: dict[str, Any], backend: tokenizers.Tokenizer, eos_id: int
) -> int:
    """Return the id that config.json gives, else the tokenizer's, else EOS."""
    if config.get("pad_token_id") is not None:
        return _id(config, "pad_token_id")
    token = _name(declared.get("pad_token"))
    found = None if token is None else backend.token_to_id(token)
    return eos_id if found is None else found


def _name(token: Any) -> str | None:
    """Return the text of a token that tokenizer_config.json names, bare or with its flags."""
    return token.get("content") if isinstance(token, dict) else token


def _id(config: dict[str, Any], name: str) -> int:
    """Return a token id of config.json, or raise naming it."""
    value = config.get(name)
    size = config.get("embedding_size") or config.get("vocab_size") or 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < size:
        raise CheckpointError(
            f"config.json gives {name} as {value!r}; it must be an id below {size}."
        )
    return value


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a checkpoint folder, or raise naming the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist; is this a checkpoint folder?") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}); download it again.") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds {type(value).__name__}, not an object.")
    return value
