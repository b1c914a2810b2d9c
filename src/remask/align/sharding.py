"""One network over several processes, each with a part of every weight: FSDP2's `fully_shard`.

A block's weights are gathered when it computes and let go after it; gradients are summed over
processes and each keeps its part of the sum. So weights, gradients and moments take a part of the
memory, and all processes must make the same passes at the same time. They do not have the same
number of them: `Lockstep` asks before each pass who is to make which, and whoever has none to make
goes along with one of a single token that teaches nothing.

Each graph holds one pass: its backward pass comes before the next pass of any kind.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from remask.align.policy import Policy
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.native import Network
from remask.errors import SettingsError
from remask.values import Canvas

if TYPE_CHECKING:
    from remask.align.distributed import Distributed

_METHODS = (  # of a network, that use its weights
    "states", "forward_cached", "extend_cache", "hidden_noisy_given_clean", "finish_last_layer",
    "project",
)  # fmt: skip
_PLAIN, _LEARNS = 0, 1  # kinds of passes


def shard(network: Network, device: torch.device, size: int) -> None:
    """Leave to this process its part of every weight.

    The last block is called in two pieces, so it lies with embedding, norm and head: what is used
    from the first to the last moment of a pass is gathered once.
    """
    from torch.distributed import fsdp
    from torch.distributed.device_mesh import init_device_mesh

    state = getattr(fsdp, "FSDPModule", None)
    if not hasattr(state, "set_force_sum_reduction_for_comms"):
        raise SettingsError(
            f"sharding needs a newer torch than {torch.__version__}; "
            "upgrade it (2.13 is tested), or set sharding none."
        )
    mesh = init_device_mesh(device.type, (size,))
    for block in network.blocks[:-1]:
        fsdp.fully_shard(block, mesh=mesh)
    fsdp.fully_shard(network, mesh=mesh, reshard_after_forward=False)
    for name in _METHODS:
        fsdp.register_fsdp_forward_method(network, name)
    for module in network.modules():
        if isinstance(module, fsdp.FSDPModule):  # divided by nothing: the parts of a loss add up
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


class Lockstep:
    """Sees to it that all processes make the same passes."""

    def __init__(self, network: Network, distributed: "Distributed") -> None:
        self.network, self.distributed = network, distributed
        self._open: Tensor | None = None  # states of a pass whose way back has not been made

    def states(self, compute: Callable[[], Tensor]) -> Tensor:
        """Return the states of a pass, made as soon as it is the turn of its kind."""
        learns = torch.is_grad_enabled()
        self._wait_for(_LEARNS if learns else _PLAIN)
        with warnings.catch_warnings():  # about changing a view in place, which nobody does
            warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
            states = compute()
        if learns:
            self._open = states
            states.register_hook(self._close)  # type: ignore[no-untyped-call]
        return states

    def wait(self) -> None:
        """Return when it is the turn of a pass through which nothing learns."""
        self._wait_for(_PLAIN)

    def finish(self) -> None:
        """Return when no process has a pass left to make; all of them must come here."""
        self._wait_for(None)

    def release(self) -> None:
        """Let go of gathered weights: after an update they are those of before."""
        from torch.distributed import fsdp

        for module in self.network.modules():
            if isinstance(module, fsdp.FSDPModule):
                module.reshard()

    def _wait_for(self, kind: int | None) -> None:
        was_training = self.network.training
        self.network.eval()  # what the others compute must not draw from this pass's dropout
        self._go_back()
        while (turn := self._turn(kind)) != kind:
            self.go_along(learns=turn == _LEARNS)
        self.network.train(was_training)

    def _turn(self, kind: int | None) -> int | None:
        """Return the kind of the next pass of all: what teaches nothing comes first."""
        wanted = {"plain": float(kind == _PLAIN), "learns": float(kind == _LEARNS)}
        num = self.distributed.sums(wanted)
        return _PLAIN if num["plain"] else _LEARNS if num["learns"] else None

    def go_along(self, *, learns: bool = False) -> None:
        """Make a pass of one token that teaches nothing."""
        with torch.set_grad_enabled(learns):
            token = torch.zeros(1, 1, dtype=torch.long, device=self.network.norm.weight.device)
            states = self.network.states(token)
            if learns:
                self._back_through(states)

    def _go_back(self) -> None:
        """Make the way back of a pass of which no token counted: the others make theirs."""
        if self._open is not None:
            states, self._open = self._open, None
            self._back_through(states[:1, :1])

    @torch.enable_grad()
    def _back_through(self, states: Tensor) -> None:
        # Every weight needs a gradient, be it 0: the sums of all processes have the same tensors.
        logits = self.network.project(self.network.finish_last_layer(states[0]))
        (logits * 0).sum().backward()  # type: ignore[no-untyped-call]

    def _close(self, gradient: Tensor) -> None:
        self._open = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardedPolicy(Policy):
    """A policy of whose weights this process has a part; its passes wait for the others."""

    lockstep: Lockstep

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Return the states before the last MLP, (B, L, width)."""
        plain = super().hidden
        return self.lockstep.states(lambda: plain(canvas, cache))

    def extend_cache(self, canvas: Canvas, cache: KVCache | None = None) -> KVCache:
        """Return the cache with the columns of `canvas` added; nothing learns through it."""
        self.lockstep.wait()
        if canvas.tokens.shape[1] == 0:  # no block would be computed, and the others compute them
            self.lockstep.go_along()
        return super().extend_cache(canvas, cache)

    def hidden_noisy_given_clean(self, canvas: Canvas, clean: Tensor) -> Tensor:
        """Return the states of every block behind blocks of `clean`, (B, L, width)."""
        plain = super().hidden_noisy_given_clean
        return self.lockstep.states(lambda: plain(canvas, clean))


def shard_policy(policy: Policy, distributed: "Distributed") -> ShardedPolicy:
    """Return a policy whose network is divided among the processes, in place."""
    shard(policy.model, distributed.device, distributed.size)
    return ShardedPolicy(
        name=policy.name, model=policy.model, tokenizer=policy.tokenizer, preset=policy.preset,
        in_bfloat16=policy.in_bfloat16, lockstep=Lockstep(policy.model, distributed),
    )  # fmt: skip
