"""Text to ids and back, with the special ids and the chat template of a model family.

Prompts are rendered and encoded as one string, as the models were trained; a finished response is
*appended* to the prompt's ids and never rendered with them, because stock chat templates add an
assistant header to whatever they are given.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from remask.errors import CheckpointError, InputError

LLADA_TEMPLATE = (
    "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokenizer:
    """A tokenizer.json with the ids a denoiser needs."""

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

    def render(self, prompt: str) -> list[int]:
        """Return the ids of a user's turn, ready for the canvas to follow."""
        if not prompt.strip():
            raise InputError("the prompt is empty; give the question as text.")
        self.encode(prompt, "prompt")  # a special token in it would end the turn
        text = self.template.replace("{prompt}", prompt.strip())
        ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        return ids

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
        path = folder / "tokenizer.json"
        if not path.exists():
            raise CheckpointError(f"{folder} has no tokenizer.json; copy it from the checkpoint.")
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise CheckpointError(f"{path} cannot be read ({error}); download it again.") from None
        mask_id, eos_id = (_id(config, name) for name in ("mask_token_id", "eos_token_id"))
        if mask_id == eos_id:
            raise CheckpointError(f"config.json gives {mask_id} as both mask_token_id and EOS.")
        others = [backend.token_to_id(end) for end in ends]
        return Tokenizer(
            backend=backend,
            mask_id=mask_id,
            eos_ids=(eos_id, *(i for i in others if i not in (None, eos_id))),
            pad_id=eos_id if config.get("pad_token_id") is None else _id(config, "pad_token_id"),
            template=template,
        )


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
