"""A network's forward pass for training, made for a GPU.

Rows of a batch lie behind one another in one row of N tokens, N being the same for every batch
whatever the length of its rows: all but attention is compiled for that one shape, once for all
layers. Attention alone sees rows. The head is applied to the tokens asked for, some thousands at a
time, whose gradients are taken at once: logits of a whole batch would be its largest tensor.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from remask.denoisers.native import Network
from remask.denoisers.transformer import Attention, Block
from remask.pretrain.noise import NoisyRows

Precision = AbstractContextManager[Any]  # what a forward pass is run under, such as autocast
_LOGITS = 2**29  # logits that are computed at a time: 2 GiB of float32


def _before(block: Block, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v of a layer, each (1, N, heads, head_dim)."""
    return cast(Attention, block.attention).heads(block.attention_norm(x), cos, sin)


def _behind(block: Block, x: Tensor, mixed: Tensor) -> Tensor:
    """Return the residual stream behind a layer, (1, N, width), of what its heads mixed."""
    return block.feed_forward(x + cast(Attention, block.attention).out(mixed))


class FlatTrunk:
    """The blocks of any network of one shape, over rows laid behind one another."""

    def __init__(self, compile_with: Callable[..., Callable[..., object]] | None = None) -> None:
        """Compile the parts of a layer, where something is given to do it."""
        compiled = compile_with or (lambda function: function)
        self.before = cast(Callable[..., tuple[Tensor, Tensor, Tensor]], compiled(_before))
        self.behind = cast(Callable[..., Tensor], compiled(_behind))

    def states(self, network: Network, tokens: Tensor, length: int, *, causal: bool) -> Tensor:
        """Return the last residual stream, (N, width), of rows of `length` in `tokens` (N,)."""
        num = len(tokens) // length
        cos, sin = (table.repeat(num, 1, 1) for table in network.rotary(length))  # (N, 1, half)
        x = network.embedding(tokens)[None]  # (1, N, width)
        for layer in network.blocks:
            block = cast(Block, layer)
            heads = self.before(block, x, cos, sin)
            q, k, v = (part.reshape(num, length, *part.shape[2:]) for part in heads)
            mixed = cast(Attention, block.attention).full(q, k, v, causal=causal)
            x = self.behind(block, x, mixed.reshape(1, len(tokens), -1))
        out: Tensor = x[0]
        return out


def asked_states(
    trunk: FlatTrunk, network: Network, rows: NoisyRows, length: int, *, causal: bool = False
) -> Tensor:
    """Return the normed states that predict the tokens asked for, (M, width).

    `causal`: as the ancestor does, each from those before it alone, whatever the network's shift.
    """
    states = trunk.states(network, rows.tokens, length, causal=causal)
    # The prompt is never empty, so there is a row before each token that is asked for.
    before = int(causal or network.shifted)
    out: Tensor = network.norm(states.index_select(0, rows.places - before))
    return out


def head_loss(
    network: Network, states: Tensor, rows: NoisyRows, autocast: Callable[[], Precision]
) -> Tensor:
    """Return the loss of the tokens asked for, a scalar; where gradients are on, take them.

    Those of the states go back through their graph when all parts of the head are done.
    """
    learning = torch.is_grad_enabled()
    leaf = states.detach().requires_grad_(learning)
    total = torch.zeros((), device=states.device)
    size = max(1, _LOGITS // network.vocab_size)
    for start in range(0, len(states), size):
        here = slice(start, start + size)
        with autocast():
            logits = network.project(leaf[here])  # (M', V)
        surprise = F.cross_entropy(logits.float(), rows.targets[here], reduction="none")
        loss = (surprise * rows.weights[here]).sum()
        if learning:
            loss.backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    if learning:
        states.backward(leaf.grad)  # type: ignore[no-untyped-call]
    return total
