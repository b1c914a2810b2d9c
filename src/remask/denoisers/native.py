"""Base classes of the native families: the network, its denoiser, and the description for `load`.

Each family is one module with a configuration, a `Network` with its blocks, and a `Family` with its
architecture, tensor names and chat template.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.config import Llama3Rotary
from remask.denoisers.identity import precision_name
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.levels import Levels, levels_of
from remask.denoisers.special_ids import TokenSpelling
from remask.denoisers.tokenizer import Tokenizer
from remask.denoisers.transformer import Attention, Block, LayerCache, RMSNorm, rotary_tables
from remask.errors import DenoiserError
from remask.values import Canvas

# Each parameter of a network with the hub tensors stacked into it, and their numbers of rows.
TensorMap = Iterator[tuple[str, list[tuple[str, int]]]]


class Network(nn.Module):
    """Embedding, blocks of a family, final norm and head.

    The blocks may be on several devices, in order (`denoisers.split`); inputs of a block are moved
    to its device.
    """

    block_size: int | None = None  # of block-causal attention, in tokens; None: full attention
    shifted = False  # row i - 1 predicts token i, as in autoregressive models
    answer_apart = False  # blocks are counted from the first token of the answer
    float32_rotary = False  # rotary tables are not cast to the dtype of the weights
    packed_as = ""  # format of quantised weights; "": none are quantised

    def __init__(
        self,
        blocks: Iterable[nn.Module],
        *,
        vocab_size: int,
        width: int,
        eps: float,
        tied: bool,
        max_length: int,
        rotated: int,
        theta: float,
        stretched: Llama3Rotary | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.max_length = vocab_size, max_length
        self.rotated, self.theta, self.stretched = rotated, theta, stretched
        self.embedding = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = RMSNorm(width, eps)
        self.unembedding = None if tied else nn.Linear(width, vocab_size, bias=False)

    def rotary(self, length: int) -> tuple[Tensor, Tensor]:
        """Return cos and sin for `length` positions, each (length, 1, rotated / 2)."""
        like = self.embedding.weight
        dtype = torch.float32 if self.float32_rotary else like.dtype
        return rotary_tables(length, self.rotated, self.theta, like.device, dtype, self.stretched)

    def visible(
        self, length: int, attend: Tensor | None, lacking: Tensor | None = None
    ) -> Tensor | None:
        """Return the attention mask, broadcast to (B, heads, L, L); None: full attention."""
        real = None if attend is None else attend[:, None, None, :]
        if self.block_size is None:
            return real
        blocks = self._numbers(torch.arange(length, device=self.embedding.weight.device), lacking)
        seen = (blocks[:, :, None] >= blocks[:, None])[:, None]  # (B, 1, L, L): no later one
        return seen if real is None else seen & real

    def _numbers(self, columns: Tensor, lacking: Tensor | None) -> Tensor:
        """Return the blocks of `columns` (L,) or (B, L), (B or 1, L).

        `lacking` (B,) is the number of columns that the first block of each row lacks; None: 0.
        """
        moved = columns[None] if columns.dim() == 1 else columns
        moved = moved if lacking is None else moved + lacking[:, None]
        return moved // self._size()

    def forward(self, tokens: Tensor, attend: Tensor | None = None) -> Tensor:
        """Return the normed last hidden states, (B, L, width); row i predicts token i."""
        return self.finish_last_layer(self.states(tokens, attend))

    def states(
        self, tokens: Tensor, attend: Tensor | None = None, lacking: Tensor | None = None
    ) -> Tensor:
        """Return hidden states before the last MLP, (B, L, width), for `finish_last_layer`.

        The last MLP works position by position, and most positions are never needed. Row i predicts
        token i. In a shifted network nothing predicts token 0; its row equals that of token 1.
        """
        length = tokens.shape[1]
        device = self.embedding.weight.device
        tokens, attend, lacking = _moved(device, tokens, attend, lacking)
        rows = self._through(tokens, *self.rotary(length), self.visible(length, attend, lacking))
        return self._aligned(rows, rows[:, 0])

    def finish_last_layer(self, rows: Tensor) -> Tensor:
        """Return the normed last hidden states of rows of `states`, (..., width)."""
        out: Tensor = self.norm(self._last.feed_forward(rows))
        return out

    @property
    def _last(self) -> Block:
        return cast(Block, self.blocks[-1])

    def _aligned(self, rows: Tensor, before: Tensor) -> Tensor:
        """Return `rows` (B, L, width) such that row i predicts token i.

        `before` (B, width) is the row of the previous column.
        """
        return torch.cat((before[:, None], rows[:, :-1]), 1) if self.shifted else rows

    def _through(
        self,
        tokens: Tensor,
        cos: Tensor,
        sin: Tensor,
        seen: Tensor | None,
        levels: Levels | None = None,
    ) -> Tensor:
        x = self.embedding(tokens)  # (B, L, width)
        for block in self.blocks[:-1]:
            x, cos, sin, seen, levels = _moved(home(block), x, cos, sin, seen, levels)
            x = block(x, cos, sin, seen, levels)
        return self._last.attend(*_moved(home(self._last), x, cos, sin, seen, levels))

    def forward_cached(
        self,
        cache: KVCache,
        tokens: Tensor,
        attend: Tensor | None = None,
        lacking: Tensor | None = None,
    ) -> Tensor:
        """Return `states` of the columns after `cache`, (B, L, width).

        Their keys and values are written into its free part.
        """
        rows = self._behind(cache, tokens, attend, lacking)
        if cache.last is None:
            return rows
        return self._aligned(rows, torch.where(cache.lengths[:, None] > 0, cache.last, rows[:, 0]))

    def _behind(
        self, cache: KVCache, tokens: Tensor, attend: Tensor | None, lacking: Tensor | None
    ) -> Tensor:
        """Return the unshifted rows of the columns after `cache`, (B, L, width)."""
        size, length = self._size(), tokens.shape[1]
        cache = cache.with_room(length)
        places = cache.places(length)  # (B, L)
        seen = self._seen_behind(cache, places, attend, lacking)
        tokens, places = _moved(self.embedding.weight.device, tokens, places)
        cos, sin = (table[places] for table in self.rotary(cache.room))  # (B, L, 1, rotated / 2)
        x = self.embedding(tokens)
        *earlier, last = cache.layers
        for block, heads in zip(self.blocks[:-1], earlier, strict=True):
            x, cos, sin, seen, places = _moved(home(block), x, cos, sin, seen, places)
            # Several blocks are a prompt, whose length is not worth a compilation. `_call_impl`
            # runs hooks, which may gather the weights.
            run: Callable[..., Tensor] = block if length <= size else block._call_impl
            x = run(x, cos, sin, seen, LayerCache(heads, places))
        x, cos, sin, seen, places = _moved(home(self._last), x, cos, sin, seen, places)
        return self._last.attend(x, cos, sin, seen, LayerCache(last, places))

    def _seen_behind(
        self, cache: KVCache, places: Tensor, attend: Tensor | None, lacking: Tensor | None
    ) -> Tensor:
        """Return the columns that `places` (B, L) attend to, (B, 1, L or 1, room).

        Columns of one block share a row. The first column is always attended to, because a row of
        padding alone would give NaN.
        """
        num = places.shape[1]
        ends = cache.lengths + (num if attend is None else attend.sum(1))  # (B,)
        columns = torch.arange(cache.room, device=places.device)
        asking = self._numbers(places if num > self._size() else places[:, :1], lacking)
        seen = self._numbers(columns, lacking)[:, None] <= asking[..., None]  # (B, L or 1, room)
        return (seen & (columns < ends.clamp(min=1)[:, None, None]))[:, None]

    def extend_cache(
        self,
        cache: KVCache | None,
        tokens: Tensor,
        attend: Tensor | None,
        lacking: Tensor | None = None,
    ) -> KVCache:
        """Return the cache with these columns added; without a cache they are the first."""
        size, num = self._size(), tokens.shape[1]
        cache = self._blank(len(tokens)) if cache is None else cache
        cache = cache.with_room(num + size)  # room for the steps of the next block
        if num == 0:
            return cache
        rows = self._behind(cache, tokens, attend, lacking)
        return cache.extended(num, attend, rows if self.shifted else None)

    def hidden_noisy_given_clean(
        self,
        noisy: Tensor,
        clean: Tensor,
        attend: Tensor | None,
        lacking: Tensor | None = None,
    ) -> Tensor:
        """Return `states` of each block of `noisy` after earlier blocks of `clean`, (B, L, width).

        Noisy blocks attend to themselves and to earlier clean blocks, clean blocks to clean ones up
        to themselves. Common parts of rows are computed once (`levels`).
        """
        device = self.embedding.weight.device
        noisy, clean, attend, lacking = _moved(device, noisy, clean, attend, lacking)
        length = noisy.shape[1]
        blocks = self._numbers(torch.arange(length, device=device), lacking)  # (B or 1, L)
        levels = levels_of(noisy, clean, attend, blocks)
        cos, sin = (table[levels.columns] for table in self.rotary(length))  # (N, 1, rotated / 2)
        rows = self._through(levels.tokens, cos, sin, None, levels)
        levels, blocks = _moved(rows.device, levels, blocks)
        *begun, texts, above = levels.split(rows)
        *_, (_, start, parents, _), (_, _, which, _) = levels.each
        if begun:
            texts = torch.cat((begun[0][parents], texts), 1)  # (T, L, width)
        below = texts[which]  # (B, L, width)
        return self._aligned_by_block(torch.cat((below[:, :start], above), 1), below, blocks)

    def _aligned_by_block(self, above: Tensor, below: Tensor, blocks: Tensor) -> Tensor:
        """Return noisy rows `above`, (B, L, width), such that row i predicts token i."""
        if not self.shifted:
            return above
        # The end of the previous clean block predicts the first token of a block.
        first = blocks != torch.cat((blocks[:, :1], blocks[:, :-1]), 1)
        own, before = (self._aligned(half, half[:, 0]) for half in (above, below))
        return torch.where(first[..., None], before, own)

    @property
    def num_kept(self) -> int:
        """Numbers per column in the cache; 0 without a cache."""
        if self.block_size is None:
            return 0
        return sum(layer.shape[2] * layer.shape[3] for layer in self._blank(0).layers)

    def _blank(self, num_rows: int) -> KVCache:
        """Return an empty cache, each layer on its device."""
        layers = []
        for block in self.blocks:
            heads = cast(Attention, block.attention)
            shape = (num_rows, 0, 2 * heads.num_kv_heads, heads.head_dim)
            layers.append(self.embedding.weight.new_zeros(shape, device=home(block)))
        norm = self.norm.weight  # (width,)
        return KVCache(
            layers=tuple(layers),
            lengths=torch.zeros(num_rows, dtype=torch.long, device=norm.device),
            columns=0,
            last=norm.new_zeros(num_rows, len(norm)) if self.shifted else None,
        )

    def _size(self) -> int:
        if self.block_size is None:
            raise DenoiserError(
                "a model with full attention has no cache and no blocks; call hidden(canvas)."
            )
        return self.block_size

    def project(self, rows: Tensor) -> Tensor:
        """Return logits (..., V) of hidden rows (..., width)."""
        if self.unembedding is None:
            return F.linear(rows, self.embedding.weight)
        out: Tensor = self.unembedding(rows)
        return out

    def compile_blocks(self) -> None:
        """Compile each block: blocks share one compilation, a whole trunk would be unrolled."""
        for block in self.blocks:
            block.compile(dynamic=False)


@dataclass(frozen=True, kw_only=True)
class Family(TokenSpelling):
    """What `load` needs to know about an architecture."""

    architecture: str  # architectures[0] of config.json
    build: Callable[[Mapping[str, Any]], Network]  # config.json -> the empty network
    tensor_map: Callable[[Any], TensorMap]  # of such a network
    model_types: tuple[str, ...] = ()  # model_type in config.json, used without an architecture
    # Name of a checkpoint -> keys that config.json may lack.
    named: Callable[[str], Mapping[str, Any]] = lambda name: {}
    head: str = "lm_head.weight"  # the tensor that tied checkpoints lack
    schedule: str = "even"  # see `sampling.schedule`
    # Flags that config.json may lack: true if a tensor name has this end.
    settled: Mapping[str, str] = field(default_factory=dict)
    # Tensors that the authors' code ignores: end of the name, and why.
    spare: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class NativeDenoiser:
    """A loaded network as a `Denoiser`."""

    name: str
    model: Network
    tokenizer: Tokenizer
    preset: Preset
    forwards_per_call: int = 1

    @property
    def device(self) -> torch.device:
        """Device of the head; with several devices, the last one."""
        return self.model.norm.weight.device

    @property
    def vocab_size(self) -> int:
        return self.model.vocab_size

    @property
    def max_length(self) -> int:
        return self.model.max_length

    @property
    def block_size(self) -> int | None:
        return self.model.block_size

    @property
    def answer_apart(self) -> bool:
        return self.model.answer_apart

    @torch.no_grad()
    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        lacking = self.lacking(canvas, cache)
        if cache is not None:
            return self.model.forward_cached(cache, canvas.tokens, canvas.attend, lacking)
        return self.model.states(canvas.tokens, canvas.attend, lacking)

    @torch.no_grad()
    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        lacking = self.lacking(canvas, cache)
        return self.model.extend_cache(cache, canvas.tokens, canvas.attend, lacking)

    @torch.no_grad()
    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        """Return the states of each block after the earlier blocks of `clean`, (B, L, width)."""
        return self.model.hidden_noisy_given_clean(
            canvas.tokens, clean, canvas.attend, self.lacking(canvas, None)
        )

    def lacking(self, canvas: Canvas, cache: KVCache | None) -> Tensor | None:
        """Return the number of columns that the first block of each row lacks, (B,); None: 0."""
        size = self.model.block_size
        if size is None or not self.model.answer_apart or canvas.tokens.shape[1] == 0:
            return None
        first = canvas.offsets[:, 0]  # (B,) position of the first column relative to the answer
        return (first if cache is None else first - cache.lengths) % size

    @torch.no_grad()
    def head(self, rows: Tensor) -> Tensor:
        return self.model.project(self.model.finish_last_layer(rows)).float()

    @torch.no_grad()
    def embed(self, tokens: Tensor) -> Tensor:
        """Return input embeddings, (..., width) float32."""
        embedding = self.model.embedding
        out: Tensor = embedding(tokens.to(embedding.weight.device))
        return out.to(self.device).float()


def home(block: nn.Module) -> torch.device:
    return cast(Block, block).attention_norm.weight.device


def _moved(device: torch.device, *tensors: Any) -> tuple[Any, ...]:
    """Return tensors on a device; None stays None."""
    return tuple(None if tensor is None else tensor.to(device) for tensor in tensors)


def stacked(network: Network, tensor_map: TensorMap) -> dict[str, Tensor]:
    """Return the destination of each hub tensor in a network that is not quantised."""
    if network.packed_as:
        raise DenoiserError(
            f"weights in {network.packed_as} cannot be written; load the model with weights full."
        )
    ours = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    return cut_rows({name: tensor_rows(tensor) for name, tensor in ours.items()}, tensor_map)


def tensor_rows(tensor: Tensor) -> Tensor:
    """Return a tensor as rows; stacked experts are concatenated."""
    whole = tensor.detach()
    return whole if whole.dim() == 1 else whole.flatten(0, -2)


def cut_rows(ours: Mapping[str, Any], tensor_map: TensorMap) -> dict[str, Any]:
    """Return for each hub tensor its rows in our parameters."""
    places: dict[str, Any] = {}
    for name, parts in tensor_map:
        rows, start = ours[name], 0
        for hub, num in parts:
            places[hub] = rows[start : start + num]
            start += num
        if start != len(rows):
            raise ValueError(f"{name} has {len(rows)} rows, its hub tensors {start}.")
    return places


def dtype_of(denoiser: Denoiser) -> str | None:
    """Return the number format of the weights; None for a model of another package."""
    native = native_of(denoiser)
    if native is None:
        return None
    return precision_name(native.model.embedding.weight.dtype, native.model.packed_as)


def native_of(denoiser: Denoiser) -> "NativeDenoiser | None":
    """Return the native model inside wrappers; None for a model of another package."""
    inner: Any = denoiser
    while hasattr(inner, "inner"):
        inner = inner.inner
    return inner if isinstance(inner, NativeDenoiser) else None
