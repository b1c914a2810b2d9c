"""A denoiser whose logits are written by hand, and a tokenizer that has learned nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import tokenizers
import torch
import torch.nn.functional as F
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from remask.denoisers.base import Preset
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.tokenizer import LLADA_TEMPLATE, Tokenizer
from remask.errors import InputError
from remask.settings import Number, checked
from remask.values import Canvas

_SPECIAL_TOKENS = (
    "<|endoftext|>", "<|mdm_mask|>", "<|startoftext|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
)  # fmt: skip


def tiny_tokenizer() -> Tokenizer:
    """Return a tokenizer of single bytes with LLaDA's special tokens: 262 ids, nothing learned."""
    names = (*_SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()))
    backend = tokenizers.Tokenizer(models.BPE(vocab={n: i for i, n in enumerate(names)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(_SPECIAL_TOKENS))
    return Tokenizer(
        backend=backend,
        mask_id=_SPECIAL_TOKENS.index("<|mdm_mask|>"),
        eos_ids=(0, _SPECIAL_TOKENS.index("<|eot_id|>")),
        pad_id=0,
        template=LLADA_TEMPLATE,
        trims=True,
    )


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class ScriptedDenoiser:
    """A denoiser that says what `script` says: tokens (B, L) -> logits (B, L, V).

    The script never sees padding: rows of a ragged batch are handed to it one by one. With a
    `block_size` it never sees a later block either: it is handed each row once for every block.
    """

    script: Callable[[Tensor], Tensor]
    name: str = "scripted"
    tokenizer: Tokenizer = field(default_factory=tiny_tokenizer)
    preset: Preset = field(default_factory=lambda: Preset(length=16, steps=16, block=16))
    max_length: int = 512
    forwards_per_call: int = 1
    block_size: int | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @staticmethod
    @checked
    def from_table(table: Tensor) -> "ScriptedDenoiser":
        """Return one whose logits at position i are row i of `table` (L, V), whatever it reads."""
        if table.dim() != 2:
            raise InputError(f"table must have shape (L, V), got {tuple(table.shape)}.")
        return ScriptedDenoiser(
            script=lambda tokens: table[: tokens.shape[1]].expand(len(tokens), -1, -1),
            max_length=len(table),
        )

    @staticmethod
    @checked
    def reciting(ids: Sequence[Number], margin: float = 10.0) -> "ScriptedDenoiser":
        """Return one that predicts ids[i] at position i, by `margin` over every other token."""
        width = tiny_tokenizer().backend.get_vocab_size()
        if max(ids, default=0) >= width:
            raise InputError(f"ids must be below {width}, got {max(ids)}.")
        table = F.one_hot(torch.tensor(ids, dtype=torch.long), width).float()
        return ScriptedDenoiser.from_table(float(margin) * table)

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        size: int = self.tokenizer.backend.get_vocab_size()
        return size

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Return the logits themselves, (B, L, V); zero where a row is padded."""
        if canvas.attend is None and self.block_size is None:
            return self.script(canvas.tokens)
        out = torch.zeros(*canvas.tokens.shape, self.vocab_size, device=self.device)
        for i, tokens in enumerate(canvas.tokens):
            real = tokens if canvas.attend is None else tokens[canvas.attend[i]]
            known = tokens[:0] if cache is None else cache.layers[0][i, : cache.lengths[i], 0, 0]
            out[i, : len(real)] = self._recite(torch.cat((known, real)))[len(known) :]
        return out

    def _recite(self, row: Tensor) -> Tensor:
        """Return what the script says of one row (L,), (L, V)."""
        length = max(1, len(row))
        size = self.block_size or length
        ends = range(size, length + size, size)
        return torch.cat([self.script(row[None, :end])[0, end - size :] for end in ends])

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        """Return the tokens themselves, as the one layer of a cache."""
        batch, num = canvas.tokens.shape
        if cache is None:
            nothing = canvas.tokens.new_zeros(batch, 0, 1, 1)
            cache = KVCache(layers=(nothing,), lengths=canvas.tokens.new_zeros(batch), columns=0)
        cache = cache.with_room(num)
        rows = torch.arange(batch, device=self.device)[:, None]
        cache.layers[0][rows, cache.places(num)] = canvas.tokens[..., None, None]
        return cache.extended(num, canvas.attend)

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        """Return the logits, (B, L, V), asked for block after block."""
        length = clean.shape[1]
        size = self.block_size or length
        columns = torch.arange(length, device=self.device)
        parts = []
        for start in range(0, length, size):
            tokens = torch.where(columns < start, clean, canvas.tokens)
            parts.append(self.hidden(replace(canvas, tokens=tokens))[:, start : start + size])
        return torch.cat(parts, 1)

    def head(self, rows: Tensor) -> Tensor:
        """Return a copy of the rows: callers write into logits."""
        return rows.float().clone()

    def embed(self, tokens: Tensor) -> Tensor:
        """Return one-hot vectors, (..., V)."""
        return F.one_hot(tokens, self.vocab_size).float()
