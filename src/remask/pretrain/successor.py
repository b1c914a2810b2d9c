"""What an ancestor becomes: the network that looks both ways, its tokenizer, its files.

The mask token begins at the mean of all embeddings: at nothing in particular.
"""

from dataclasses import asdict
from typing import Any

import torch

from remask.denoisers.native import Family
from remask.denoisers.qwen import Qwen
from remask.denoisers.special_ids import Sources, with_chat
from remask.denoisers.tokenizer import Tokenizer
from remask.errors import CheckpointError
from remask.pretrain.adapt_settings import AdaptSettings
from remask.pretrain.ancestor import Ancestor
from remask.pretrain.mask_token import with_mask_token

_BLOCK = 32  # of the preset: written all at once, the end of an answer is settled before its middle


class Successor:
    """The model in the making, and what its files will say."""

    def __init__(self, ancestor: Ancestor, settings: AdaptSettings) -> None:
        self.settings, self.name = settings, ancestor.name
        self.family: Family = ancestor.family
        self.chat = asdict(ancestor.chat)
        self.network: Qwen = ancestor.network(shifted=settings.shifted)
        self.tokenizer = self._tokenizer(ancestor)
        if not ancestor.is_adapted:
            with torch.no_grad():
                rows = self.network.embedding.weight
                rows[self.tokenizer.mask_id] = rows.mean(0)

    @property
    def max_length(self) -> int:
        """Tokens that a row may have."""
        return self.network.max_length

    def copy(self) -> Qwen:
        """Return another network with the same weights, where they are."""
        with torch.device("meta"):
            other = type(self.network)(self.network.config)
        other.shifted = self.network.shifted
        other.to_empty(device=self.network.embedding.weight.device)
        other.load_state_dict(self.network.state_dict())
        return other

    def _tokenizer(self, ancestor: Ancestor) -> Tokenizer:
        """Return the tokenizer, exactly as it will be read from the files that are written."""
        num_ids = self.network.vocab_size
        largest = max(ancestor.backend.get_vocab(with_added_tokens=True).values(), default=0)
        if largest >= num_ids:
            raise CheckpointError(
                f"the tokenizer of {self.name} has ids up to {largest}, the network {num_ids}; "
                "the two do not belong together."
            )
        sources = ancestor.special_tokens
        ends, padding = sources.first("eos"), sources.first("pad")
        backend = with_mask_token(
            ancestor.backend, num_ids=num_ids, template=ancestor.chat.template,
            ends=frozenset((*ends, *padding)), wanted=self.settings.mask_token,
        )  # fmt: skip
        backend.no_truncation()
        backend.no_padding()
        self.special = {
            "mask_token_id": backend.token_to_id(self.family.mask_token),
            "eos_token_id": list(ends or padding),
            "pad_token_id": (padding or ends or (None,))[0],
        }
        spelling = with_chat(self.family, {"chat": self.chat})
        own = Sources(
            config={"vocab_size": num_ids, **self.special}, generation={}, tokenizer={}, tokens={},
            token_id=backend.token_to_id,
        )  # fmt: skip
        return Tokenizer.of(backend, own, spelling)

    def config(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return config.json; `facts` of the training stand in it under `adapted`."""
        return {
            "architectures": [self.family.architecture],
            "model_type": self.family.model_types[0],
            **asdict(self.network.config),
            "shifted": self.network.shifted,
            **self.special,
            "chat": self.chat,
            "adapted": {"from": self.name, **facts},
        }

    def preset(self) -> dict[str, Any]:
        """Return generation_config.json: the largest canvas, a token a step, in blocks."""
        length = self.settings.canvas
        block = min(self.settings.block or _BLOCK, length)
        return {"length": length, "steps": length, "block": block, "temperature": 0.0}
