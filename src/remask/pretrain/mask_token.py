"""Which token masks, in a vocabulary that was made without one.

By order: the one that is `<|mask|>` already, or that is asked for by name; an id that has a row in
the embedding and no token; a token that its authors reserved and this text does without, such as
`<|reserved_special_token_0|>` of Llama 3 or `<reponame>` of SmolLM2, which marks code. It is called
`<|mask|>` from then on.
"""

import json
import re

import tokenizers

from remask.denoisers.special_ids import MASK_TOKEN
from remask.errors import SettingsError

# Names that say that nothing was ever trained under them, then those of corpora of code.
_RESERVED = re.compile(r"reserved|unused|placeholder|dummy|extra_?(id_?)?\d", re.IGNORECASE)
_CODE = (
    "<reponame>", "<repo_name>", "<gh_stars>", "<empty_output>", "<jupyter_script>",
    "<jupyter_output>", "<jupyter_code>", "<jupyter_text>", "<jupyter_start>", "<issue_closed>",
    "<issue_comment>", "<issue_start>", "<filename>", "<file_sep>", "<commit_before>",
)  # fmt: skip


def with_mask_token(
    backend: tokenizers.Tokenizer, *, num_ids: int, template: str, ends: frozenset[int], wanted: str
) -> tokenizers.Tokenizer:
    """Return a tokenizer that has `<|mask|>`, or raise where no token can become it.

    Args:
        backend: the tokenizer of the ancestor.
        num_ids: rows of the embedding.
        template: of the chat, whose tokens are not free.
        ends: ids that end or pad, which are not free either.
        wanted: the token to take; "" chooses.
    """
    if not wanted and backend.token_to_id(MASK_TOKEN) is not None:
        return backend
    names = {i: token.content for i, token in backend.get_added_tokens_decoder().items()}
    free = {i: name for i, name in names.items() if i not in ends and name not in template}
    if wanted:
        return _renamed(backend, _by_name(backend, wanted, free))
    unused = 1 + max(backend.get_vocab(with_added_tokens=True).values(), default=-1)
    if unused < num_ids:
        return _renamed(backend, unused)
    reserved = [i for i, name in sorted(free.items()) if _RESERVED.search(name)]
    code = [i for name in _CODE for i in free if free[i] == name]
    if not reserved + code:
        raise SettingsError(
            f"the tokenizer has no unused id below {num_ids} and no reserved token that could "
            f"mask; name one of its special tokens as mask_token: {_listed(free)}."
        )
    return _renamed(backend, (reserved + code)[0])


def _by_name(backend: tokenizers.Tokenizer, wanted: str, free: dict[int, str]) -> int:
    number = backend.token_to_id(wanted)
    if number not in free:
        raise SettingsError(
            f"mask_token {wanted!r} is no special token that is free; there are {_listed(free)}."
        )
    return int(number)


def _listed(free: dict[int, str]) -> str:
    return ", ".join(name for _, name in sorted(free.items())[:20]) or "none"


def _renamed(backend: tokenizers.Tokenizer, number: int) -> tokenizers.Tokenizer:
    """Return the tokenizer with `<|mask|>` for the token of this id, or for none."""
    written = json.loads(backend.to_str())
    vocab, old = written["model"]["vocab"], backend.id_to_token(number)
    vocab.pop(old, None)
    vocab[MASK_TOKEN] = number  # an added token alone would be numbered anew
    entry = {
        "id": number, "content": MASK_TOKEN, "special": True, "normalized": False,
        "single_word": False, "lstrip": False, "rstrip": False,
    }  # fmt: skip
    others = [token for token in written["added_tokens"] if token["id"] != number]
    written["added_tokens"] = sorted([*others, entry], key=lambda token: int(token["id"]))
    return tokenizers.Tokenizer.from_str(json.dumps(written))
