"""A stand-in: a small random checkpoint that looks like a published one to whoever loads it.

What looks the same: the names of the files, the keys of config.json, generation_config.json and
the tokenizer's files, those that are missing among them, the names of the tensors, the spelling of
the special tokens and the turns of the chat template. What does not: sizes, ids, weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remask.testing.standins.cache import write_repository
from remask.testing.standins.vocabulary import Numbered, Vocabulary, number, to_json
from remask.testing.standins.weights import Shapes, draw, files

Json = dict[str, Any]
WIDTH, TRUE_WIDTH = 16, 8  # the second with the authors' ids: their vocabularies have 150,000 rows


@dataclass(frozen=True, kw_only=True)
class Standin:
    """A published checkpoint in small, as its authors' files describe it."""

    id: str
    vocabulary: Vocabulary
    config: Callable[[Numbered, int], Json]  # (ids, width) -> config.json
    tensor_shapes: Callable[[Mapping[str, Any]], Shapes]  # config.json -> tensors
    mask: str  # the tokens themselves, whether or not a file says so
    end: str
    tokenizer_config: Mapping[str, Any]
    special_tokens_map: Mapping[str, Any] = field(default_factory=dict)
    template: str = ""  # Jinja; empty: none is published
    asked_with: Mapping[str, Any] = field(default_factory=dict)  # what the authors pass to it
    template_file: bool = False  # as chat_template.jinja, as newer transformers write it
    generation: Callable[[Numbered], Json] | None = None  # None: the authors ship none
    fast: bool = True  # tokenizer.json
    slow: bool = False  # vocab.json and merges.txt
    added: Mapping[str, str] | None = None  # added_tokens.json, if any; odd spellings by the usual
    shards: int = 1
    source: str  # where the names of the keys were read
    unknown: str  # what was not read in a copy of the authors' own files

    def files(self, *, true_ids: bool = False, seed: int = 0) -> dict[str, bytes]:
        """Return the content of every file, by name."""
        ids = number(self.vocabulary, true_ids=true_ids)
        config = self.config(ids, TRUE_WIDTH if true_ids else WIDTH)
        tensors = draw(self.tensor_shapes(config), seed)
        if config.get("tie_word_embeddings") and "lm_head.weight" in tensors:
            tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        content = {"config.json": to_json(config), **files(tensors, self.shards)}
        if self.generation is not None:
            content["generation_config.json"] = to_json(self.generation(ids))
        return content | self._tokenizer(ids)

    def _tokenizer(self, ids: Numbered) -> dict[str, bytes]:
        declared = {"added_tokens_decoder": ids.decoder(), **self.tokenizer_config}
        content = {}
        if self.template and self.template_file:
            content["chat_template.jinja"] = self.template.encode()
        elif self.template:
            declared["chat_template"] = self.template
        content["tokenizer_config.json"] = to_json(declared)
        if self.special_tokens_map:
            content["special_tokens_map.json"] = to_json(self.special_tokens_map)
        if self.fast:
            content["tokenizer.json"] = to_json(ids.tokenizer())
        if self.slow:
            content |= {"vocab.json": to_json(ids.text), "merges.txt": ids.merges().encode()}
        if self.added is not None:
            named = {self.added.get(t, t): i for t, i in ids.added_tokens().items()}
            content["added_tokens.json"] = to_json(dict(sorted(named.items())))
        return content

    def write(self, cache: Path, *, true_ids: bool = False, seed: int = 0) -> Path:
        """Write the checkpoint into a hub cache and return the folder of its snapshot."""
        return write_repository(cache, self.id, self.files(true_ids=true_ids, seed=seed))


def token(content: str) -> Json:
    """Return a special token as special_tokens_map.json writes it in full."""
    return {
        "content": content, "lstrip": False, "normalized": False, "rstrip": False,
        "single_word": False,
    }  # fmt: skip
