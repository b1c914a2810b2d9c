"""The tokenizer that a GGUF file describes, rebuilt: byte-level BPE with the authors' pieces.

The file has the tokens, their kinds and the merges; of how text is cut before merging it has only a
name. The cuts of the names below are those that the models' authors publish; a tokenizer of another
kind, or under another name, is refused.
"""

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from remask.denoisers.tokenizer import QWEN_PIECES
from remask.errors import CheckpointError

_CONTROL, _OWN, _UNUSED = 3, 4, 5  # kinds of tokens: special, the user's own, a filler
_LLAMA3 = QWEN_PIECES.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)


def _bytes(*, cut: bool) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cut)


def _pieces(pattern: str) -> Any:
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated")
    return pre_tokenizers.Sequence([split, _bytes(cut=False)])


def _digits() -> Any:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, _bytes(cut=True)])


# How text is cut, by the file's name for it.
PIECES: Mapping[str, Any] = {
    "smollm": _digits,
    "qwen2": lambda: _pieces(QWEN_PIECES),
    "llama-bpe": lambda: _pieces(_LLAMA3),
    "gpt-2": lambda: _bytes(cut=True),
}


def build_tokenizer(facts: Mapping[str, Any], where: str) -> tokenizers.Tokenizer:
    """Return the tokenizer, or raise naming the key of the file that does not fit.

    Args:
        facts: the metadata of the file.
        where: the file, for the sentence.
    """
    kind, pieces = facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre")
    if kind != "gpt2" or pieces not in PIECES:
        raise CheckpointError(
            f"{where} has a tokenizer of the kind {kind!r}, its text cut as {pieces!r}; known are "
            f"gpt2 with {', '.join(PIECES)}."
        )
    tokens, kinds = facts.get("tokenizer.ggml.tokens"), facts.get("tokenizer.ggml.token_type")
    merges = facts.get("tokenizer.ggml.merges")
    lists = (tokens, kinds, merges)
    if not all(isinstance(part, list) for part in lists) or len(tokens) != len(kinds):  # type: ignore[arg-type]
        raise CheckpointError(f"{where} lacks tokens, token types or merges; download it again.")
    return _byte_level(tokens or [], kinds or [], merges or [], str(pieces), where)


def _byte_level(
    tokens: list[str], kinds: list[int], merges: list[str], pieces: str, where: str
) -> tokenizers.Tokenizer:
    vocab = {
        token: number
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind != _UNUSED
    }
    halves = (merge.partition(" ") for merge in merges)
    pairs = [(left, right) for left, _, right in halves]
    try:
        whole = pieces == "llama-bpe"  # there a piece that is a token is not built from others
        model = models.BPE(vocab=vocab, merges=pairs, ignore_merges=whole)
    except Exception as error:  # the library raises plain Exception
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{where} has tokens and merges that do not fit each other ({reason}); "
            "download it again."
        ) from None
    backend = tokenizers.Tokenizer(model)
    if pieces == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = PIECES[pieces]()
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(
        [
            AddedToken(token, special=kind == _CONTROL, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind in (_CONTROL, _OWN)
        ]
    )
    return backend
