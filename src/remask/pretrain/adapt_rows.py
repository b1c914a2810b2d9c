"""Rows to learn from: JSON lines with `prompt` and `response` -> token ids.

A prompt is rendered by the model's chat template, and the response appended to it, as everywhere in
this package. Other fields of a row are left alone. A row that has no room, with one end token
behind it, is left out and counted.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from remask.denoisers.tokenizer import Tokenizer
from remask.errors import InputError
from remask.records import jsonl

FIELDS = ("prompt", "response")


class Pair(NamedTuple):
    """One row of a file."""

    prompt: str
    response: str
    where: str  # file and line, for error sentences


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenRows:
    """Rows of ids, one behind the other."""

    ids: NDArray[np.int32]  # all rows, prompt and response
    starts: NDArray[np.int64]  # (n + 1,) where each begins, and the end
    num_prompt: NDArray[np.int64]  # (n,)
    num_dropped: int = 0  # rows that were too long

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.num_prompt)

    @property
    def num_response(self) -> NDArray[np.int64]:
        """Tokens of each response, without an end."""
        return np.diff(self.starts) - self.num_prompt

    def lay_out(self, rows: NDArray[np.int64], length: int, end: int) -> NDArray[np.int64]:
        """Return rows by their numbers as one batch, (B, length): the rest of each is `end`."""
        out = np.full((len(rows), length), end, np.int64)
        for place, row in enumerate(rows):
            ids = self.ids[self.starts[row] : self.starts[row + 1]]
            out[place, : len(ids)] = ids
        return out

    def digest(self) -> str:
        """Return what tells these rows from others."""
        parts = (self.ids, self.starts, self.num_prompt)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


def read_pairs(paths: Sequence[Path]) -> list[Pair]:
    """Return the rows of files in their order, or raise naming the file, the line and the field."""
    pairs: list[Pair] = []
    for path in paths:
        pairs += _read(path)
    return pairs


def _read(path: Path) -> list[Pair]:
    if not path.is_file():
        raise InputError(
            f"rows {path} is no file; name one of JSON lines with prompt and response."
        )
    pairs = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                row = jsonl.parse_line(line, path, number)
                pairs.append(_pair(row, f"{path} line {number}"))
    if not pairs:
        raise InputError(f"rows {path} holds no rows; name a file with prompts and responses.")
    return pairs


def _pair(row: jsonl.Row, where: str) -> Pair:
    for name in FIELDS:
        text = row.get(name)
        if not isinstance(text, str) or not text.strip():
            raise InputError(
                f"{where} has {name} {text!r:.40}; it must be a text that is not empty."
            )
    return Pair(row["prompt"], row["response"], where)


def encode_rows(
    pairs: Sequence[Pair], tokenizer: Tokenizer, *, canvas: int, longest: int
) -> TokenRows:
    """Return the ids of rows, without those whose response and an end do not fit."""
    prompts = _encode([_rendered(tokenizer, pair.prompt) for pair in pairs], tokenizer, pairs)
    responses = _encode([pair.response for pair in pairs], tokenizer, pairs)
    own = _num_special(tokenizer, _encode([_rendered(tokenizer, "")], tokenizer, []))[0]
    strange = (_num_special(tokenizer, prompts) > own) | (_num_special(tokenizer, responses) > 0)
    for row in np.flatnonzero(strange):
        _refuse(tokenizer, pairs[int(row)])
    num_prompt, num_response = _lengths(prompts), _lengths(responses)
    fitting = np.flatnonzero((num_response < canvas) & (num_prompt + num_response < longest))
    if not len(fitting):
        raise InputError(
            f"all {len(pairs):,} rows are left out: none fits with an end token into canvas "
            f"{canvas} and longest {longest}; raise them, or give shorter rows."
        )
    lengths = (num_prompt + num_response)[fitting]
    return TokenRows(
        ids=_joined([part for row in fitting for part in (prompts[row], responses[row])]),
        starts=np.concatenate(([0], np.cumsum(lengths))),
        num_prompt=num_prompt[fitting],
        num_dropped=len(pairs) - len(fitting),
    )


def _lengths(parts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    return np.array([len(part) for part in parts], np.int64)


def _joined(parts: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    return np.fromiter(chain.from_iterable(parts), np.int32)


def _num_special(tokenizer: Tokenizer, parts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return how many special tokens each list of ids has."""
    special = np.isin(_joined(parts), list(tokenizer.special_ids))
    before = np.concatenate(([0], np.cumsum(special)))
    ends = np.cumsum(_lengths(parts))
    return np.diff(before[ends], prepend=0)


def _rendered(tokenizer: Tokenizer, prompt: str) -> str:
    said = prompt.strip() if tokenizer.trims else prompt
    return tokenizer.template.replace("{prompt}", said)


def _encode(texts: list[str], tokenizer: Tokenizer, pairs: Sequence[Pair]) -> list[list[int]]:
    """Return the ids of texts, all together: one by one they take minutes."""
    try:
        batch = tokenizer.backend.encode_batch_fast(texts, add_special_tokens=False)
    except (UnicodeEncodeError, TypeError):  # half of a surrogate pair is no text
        for pair in pairs:
            _refuse(tokenizer, pair, harmless=True)
        raise
    return [encoding.ids for encoding in batch]


def _refuse(tokenizer: Tokenizer, pair: Pair, *, harmless: bool = False) -> None:
    """Raise what the tokenizer says of a row; `harmless`: it may have nothing to say."""
    for name, text in zip(FIELDS, pair[:2], strict=True):
        try:
            tokenizer.encode(text, name)
        except InputError as error:
            raise InputError(f"{pair.where}: {error}") from None
    if not harmless:
        raise InputError(f"{pair.where} cannot be told from the chat template; reword it.")
