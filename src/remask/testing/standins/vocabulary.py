"""Vocabularies of the stand-ins: bytes, a few merges, and the special tokens of the authors.

The special tokens are spelled as the authors spell them. Their ids are small ones, in the authors'
order, or, on request, the authors' own: then the ids between hold words that mean nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenizers import pre_tokenizers

_ROUND = 16  # an embedding has rows to spare above the last token, as the authors' have
_PAIRS = "Ġ t|h e|i n|Ġ a|e r|o n|Ġt he|r e|Ġ s|a t|e s|Ġ w|n d|Ġ o|i s|o r|Ġa nd|1 2|Ġ =|Ġ +"
# How the tokenizers of both houses cut text into words, in words of our own: a contraction, a run
# of letters, a digit, a run of signs, white space.
_WORDS = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A kind of tokenizer: the tokens beside the text, with the ids the authors gave them."""

    kind: str
    special: Mapping[str, int]  # spelling -> the authors' id
    size: int  # rows of the authors' embedding
    plain: Mapping[str, int] = field(default_factory=dict)  # added tokens that count as text

    @property
    def added(self) -> dict[str, int]:
        """Every token beside the text, by the authors' id."""
        return dict(sorted({**self.special, **self.plain}.items(), key=lambda pair: pair[1]))


@dataclass(frozen=True, kw_only=True)
class Numbered:
    """A vocabulary with the ids that one stand-in gives it."""

    vocabulary: Vocabulary
    text: Mapping[str, int]
    added: Mapping[str, int]
    size: int  # rows of the embedding

    def __getitem__(self, token: str) -> int:
        """Return the id of an added token."""
        return self.added[token]

    def decoder(self) -> Json:
        """Return `added_tokens_decoder` of tokenizer_config.json."""
        return {str(i): _flags(token, self._special(token)) for token, i in self.added.items()}

    def added_tokens(self) -> Json:
        """Return added_tokens.json."""
        return dict(sorted(self.added.items()))

    def merges(self) -> str:
        """Return merges.txt."""
        return "\n".join(["#version: 0.2", *_PAIRS.split("|"), ""])

    def tokenizer(self) -> Json:
        """Return tokenizer.json: byte-level BPE."""
        to_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
        words = {"type": "Split", "pattern": {"Regex": _WORDS}, "behavior": "Isolated"}
        steps = [{**words, "invert": False}, {**to_bytes, "use_regex": False}]
        added = [{"id": i, **_flags(t, self._special(t))} for t, i in self.added.items()]
        model = {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
            # The library numbers added tokens anew unless the model knows them.
            "vocab": {**self.text, **self.added}, "merges": _PAIRS.split("|"),
        }  # fmt: skip
        return {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
            "post_processor": {**to_bytes, "use_regex": False},
            "decoder": {**to_bytes, "use_regex": False}, "model": model,
        }  # fmt: skip

    def _special(self, token: str) -> bool:
        return token in self.vocabulary.special


def _flags(token: str, special: bool) -> Json:
    same = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"content": token, **same, "special": special}


def number(vocabulary: Vocabulary, *, true_ids: bool) -> Numbered:
    """Return the vocabulary with ids: the authors', or small ones in the same order.

    Tokens that the authors put before the text keep their ids either way: one of them is a mask
    token whose id is known by heart, because no file names it.
    """
    words = _text()
    first = {token: i for token, i in vocabulary.added.items() if i < len(words)}
    start = max(first.values(), default=-1) + 1
    rest = [token for token in vocabulary.added if token not in first]
    if true_ids:
        stop = min((vocabulary.added[token] for token in rest), default=vocabulary.size)
        words += [f"Ġw{i}" for i in range(start + len(words), stop)]
        added, size = vocabulary.added, vocabulary.size
    else:
        after = start + len(words)
        added = {**first, **{token: after + i for i, token in enumerate(rest)}}
        size = -(-(after + len(rest) + 1) // _ROUND) * _ROUND
    text = {word: start + i for i, word in enumerate(words)}
    return Numbered(vocabulary=vocabulary, text=text, added=added, size=size)


def _text() -> list[str]:
    """Return the bytes, and what the merges make of them."""
    merged = [pair.replace(" ", "") for pair in _PAIRS.split("|")]
    return [*sorted(pre_tokenizers.ByteLevel.alphabet()), *merged]


def to_json(value: Any) -> bytes:
    """Return a file of the hub: indented JSON that ends its last line."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
