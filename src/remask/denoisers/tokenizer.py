"""Encode and decode text, with the special ids and the chat template of a model.

Prompts are rendered and encoded as one string, as in training. A finished response is *appended* to
the ids of the prompt, because stock chat templates would add an assistant header to it.

A checkpoint has a tokenizer.json, or the vocab.json and merges.txt of Qwen's byte-level BPE, like
Dream. Code of a checkpoint is not run.
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

from remask.denoisers.special_ids import Sources, TokenSpelling, find_special_ids
from remask.errors import CheckpointError, InputError
from remask.records.text_file import read_bytes

LLADA_TEMPLATE = (
    "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)
LLADA_SYSTEM = "<|startoftext|><|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>"
# inclusionAI's stock template adds this system line if the user gives none.
ROLE_TEMPLATE = (
    "<role>SYSTEM</role>detailed thinking off<|role_end|>"
    "<role>HUMAN</role>{prompt}<|role_end|><role>ASSISTANT</role>"
)
ROLE_SYSTEM = "<role>SYSTEM</role>{system}\ndetailed thinking off<|role_end|>"
HALF = "\ufffd"  # decoded part of a character
_CHARACTER = 4  # maximum bytes of a character
_POINTER = b"version https://git-lfs."
OPENING = re.compile(r"<[^<>]+>(?=assistant)", re.IGNORECASE)  # opening of the model's turn
# Pre-tokenisation of Qwen: contractions, words, single digits, runs of punctuation, line ends,
# spaces.
QWEN_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_CHARACTERS = 64  # upper bound of the mean length of a token; three or four are usual


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokenizer:
    """A tokenizer with the ids a denoiser needs."""

    backend: tokenizers.Tokenizer
    mask_id: int
    eos_ids: tuple[int, ...]  # the first one fills a canvas after the answer
    pad_id: int
    template: str  # with one field, {prompt}
    system: str = ""  # template of a system turn, see `TokenSpelling`; empty: there are none
    primer: str = ""  # beginning of the requested reply that earlier replies do not have
    trims: bool = False  # whether the template strips messages
    max_length: int | None = None  # tokens of the longest input of the model

    @property
    def eos_id(self) -> int:
        """The id that fills a canvas after the answer."""
        return self.eos_ids[0]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that are not text, with the mask, which SDAR's files do not declare as special."""
        added = self.backend.get_added_tokens_decoder()
        return frozenset((self.mask_id, *(i for i, token in added.items() if token.special)))

    def encode(self, text: str, what: str = "text") -> list[int]:
        """Return the ids of `text`; `what` names it in errors.

        A text that is too long for the model is refused before it is tokenised.
        """
        if self.max_length is not None and len(text) > self.max_length * _CHARACTERS:
            raise InputError(
                f"the {what} has {len(text):,} characters, which are more than the "
                f"{self.max_length} tokens that the model can hold; shorten it."
            )
        return self._ids(text, what, self.special_ids)

    def render(
        self,
        prompt: str | Sequence[int],
        examples: Sequence[tuple[str, str]] = (),
        system: str = "",
        beginning: str = "",
    ) -> list[int]:
        """Return the ids of a conversation up to the canvas; a prompt of ids is returned as it is.

        Args:
            prompt: the user's last message.
            examples: earlier messages of the user, each with the model's reply.
            system: system message. Templates without system turns put it before the first message.
            beginning: text that the reply begins with; the canvas continues it.
        """
        if not isinstance(prompt, str):
            return list(prompt)
        return self.encode_whole(self.chat(prompt, examples, system, beginning))

    def encode_whole(self, text: str, what: str = "text") -> list[int]:
        """Return the ids of a text that may contain special tokens, but not the mask."""
        return self._ids(text, what, frozenset((self.mask_id,)))

    def _ids(self, text: str, what: str, refused: frozenset[int]) -> list[int]:
        try:
            ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        except (UnicodeEncodeError, TypeError) as error:
            raise InputError(f"the {what} is not valid unicode ({error}); re-encode it.") from None
        special = next((i for i in ids if i in refused), None)
        if special is not None:
            kind = "mask" if special == self.mask_id else "special"
            token = self.backend.id_to_token(special)
            raise InputError(f"the {what} contains the {kind} token {token!r}; remove it.")
        return ids

    def chat(
        self,
        prompt: str,
        examples: Sequence[tuple[str, str]] = (),
        system: str = "",
        beginning: str = "",
    ) -> str:
        """Return the text that `render` encodes."""
        given = (system,) if system else ()
        questions = (*given, *(question for question, _ in examples), prompt)
        if not all(text.strip() for text in questions):  # a reply may be empty
            raise InputError("the prompt is empty; give the question as text.")
        for text in (*given, *chain(*examples), prompt, beginning):
            self.encode(text, "prompt")  # a special token in it would end the turn
        if system and not self.system:
            prompt, examples = _folded(system, prompt, examples)
        head, field, tail = self.template.partition("{prompt}")
        if system and self.system:
            head = self._system_head(head, tail, system)
        # Without the field the prompt is dropped; `check_denoiser` reports such templates.
        said = self._earlier(examples) + self._said(prompt) if field else ""
        return head + said + tail + beginning

    def _system_head(self, head: str, tail: str, system: str) -> str:
        """Return the part of the template before the first message, with a system turn."""
        opening = OPENING.search(tail)
        assert opening is not None, "a template with a system turn has turns"
        user = head[head.rindex(opening.group()) :]
        return self.system.replace("{system}", self._said(system)) + user

    def _earlier(self, examples: Sequence[tuple[str, str]]) -> str:
        """Return the text of earlier turns, between the head of the template and the prompt.

        Turns are opened and closed as in the template: both begin with the token before the model's
        role. The primer, such as an empty thought, is only in the requested reply.
        """
        if not examples:
            return ""
        head, _, tail = self.template.partition("{prompt}")
        opening = OPENING.search(tail)
        if opening is None or opening.group() not in head:
            raise InputError("this model's template has no turns; leave worked examples out.")
        between = tail[: opening.start()] + head[head.rindex(opening.group()) :]
        unprimed = tail.removesuffix(self.primer)
        turns = (
            f"{self._said(question)}{unprimed}{self._said(reply)}{between}"
            for question, reply in examples
        )
        return "".join(turns)

    def _said(self, text: str) -> str:
        return text.strip() if self.trims else text

    def num_response(self, canvas: Sequence[int]) -> int:
        """Return the length of the response: up to and including its first end token."""
        ends = (i for i, token in enumerate(canvas) if token in self.eos_ids)
        return next(ends, len(canvas) - 1) + 1

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a canvas up to its first end token, without special tokens."""
        ids = ids[: self.num_response(ids)]
        text: str = self.backend.decode(list(ids), skip_special_tokens=True)
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token alone; special tokens have their names."""
        return [
            str(self.backend.id_to_token(i)) if i in self.special_ids else self.backend.decode([i])
            for i in ids
        ]

    def texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token; a character of several tokens belongs to the first."""
        texts = self.pieces(ids)
        for start in range(len(ids)):
            stop, text = start + 1, texts[start]
            most = min(start + _CHARACTER, len(ids))
            while HALF in text and stop < most and HALF in texts[stop]:
                stop += 1
                text = self.backend.decode(list(ids[start:stop]))
            if HALF not in text:  # otherwise the bytes are not a character
                texts[start:stop] = [text, *[""] * (stop - start - 1)]
        return texts

    @staticmethod
    def read(folder: Path, config: dict[str, Any], spelling: TokenSpelling) -> "Tokenizer":
        """Return the tokenizer of a checkpoint folder."""
        backend = read_backend(folder)
        sources = read_sources(folder, config, backend)
        largest = max(backend.get_vocab(with_added_tokens=True).values(), default=0)
        if largest >= sources.num_ids:
            raise CheckpointError(
                f"the tokenizer of {folder} has ids up to {largest}, config.json gives the model "
                f"{sources.num_ids}; the two do not belong together."
            )
        return Tokenizer.of(backend, sources, spelling)

    @staticmethod
    def of(backend: tokenizers.Tokenizer, sources: Sources, spelling: TokenSpelling) -> "Tokenizer":
        """Return a tokenizer with the special ids of `sources`."""
        ids = find_special_ids(sources, spelling)
        return Tokenizer(
            backend=backend,
            mask_id=ids.mask,
            eos_ids=ids.ends,
            pad_id=ids.pad,
            template=spelling.template,
            system=spelling.system,
            primer=spelling.primer,
            trims=spelling.trims,
        )


def _folded(
    system: str, prompt: str, examples: Sequence[tuple[str, str]]
) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return prompt and examples with the system message before the first message."""
    if not examples:
        return f"{system}\n\n{prompt}", examples
    question, reply = examples[0]
    return prompt, [(f"{system}\n\n{question}", reply), *examples[1:]]


def read_sources(folder: Path, config: dict[str, Any], backend: tokenizers.Tokenizer) -> Sources:
    """Return the files of a checkpoint folder that name special tokens."""
    return Sources(
        config=config,
        generation=_optional(folder / "generation_config.json"),
        tokenizer=_optional(folder / "tokenizer_config.json"),
        tokens=_optional(folder / "special_tokens_map.json"),
        token_id=backend.token_to_id,
    )


def read_backend(folder: Path) -> tokenizers.Tokenizer:
    """Return the tokenizer of tokenizer.json, or of vocab.json and merges.txt."""
    path = folder / "tokenizer.json"
    if not path.exists() and (folder / "vocab.json").exists():
        return _qwen(folder, _optional(folder / "tokenizer_config.json"))
    if not path.exists():
        raise CheckpointError(
            f"{folder} has no tokenizer.json, nor vocab.json with merges.txt; "
            "copy them from the checkpoint."
        )
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        if is_pointer(path):
            raise CheckpointError(pointer_sentence(path)) from None
        raise CheckpointError(f"{path} cannot be read ({error}); download it again.") from None


def _qwen(folder: Path, declared: dict[str, Any]) -> tokenizers.Tokenizer:
    """Return Qwen's byte-level BPE over the vocab.json and merges.txt of `folder`."""
    added = _added_tokens(folder, declared)
    # Added tokens are in the vocabulary, because the library would give them new ids otherwise.
    vocab = {**read_json(folder / "vocab.json"), **{t.content: i for i, t in added.items()}}
    merges = _merges(folder / "merges.txt")
    ids = [i for i in vocab.values() if isinstance(i, int)]
    if len(set(ids)) < len(ids):
        raise CheckpointError(
            f"{folder / 'vocab.json'} and the added tokens give two tokens one id; "
            "download them again."
        )
    try:
        model = models.BPE(vocab=vocab, merges=merges)
    except Exception as error:  # the library raises plain Exception
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{folder / 'vocab.json'} and merges.txt do not fit each other ({reason}); "
            "download both again."
        ) from None
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.NFC()
    pieces = pre_tokenizers.Split(tokenizers.Regex(QWEN_PIECES), behavior="isolated")
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pieces, in_bytes])
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens([token for _, token in sorted(added.items())])
    return backend


def _merges(path: Path) -> list[tuple[str, str]]:
    """Return the pairs of merges.txt in order."""
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
    """Return the added tokens of a checkpoint by id."""
    path = folder / "added_tokens.json"
    plain = read_json(path) if path.exists() else {}
    # added_tokens.json has ids only; its tokens are special.
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


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a checkpoint folder; a byte order mark is ignored."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; name the folder of a checkpoint.")
    try:
        value = json.loads(read_bytes(path, CheckpointError).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if is_pointer(path):
            raise CheckpointError(pointer_sentence(path)) from None
        raise CheckpointError(f"{path} is not valid JSON ({error}); download it again.") from None
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path} holds {type(value).__name__}, not an object; download it again."
        )
    return value


def is_pointer(path: Path) -> bool:
    """Return whether a file is a pointer of Git LFS instead of the contents."""
    with path.open("rb") as file:
        return file.read(len(_POINTER)) == _POINTER


def pointer_sentence(path: Path) -> str:
    """Return the error about a pointer of Git LFS."""
    return f"{path} is a pointer of Git LFS, not the file itself; fetch it with git lfs pull."
