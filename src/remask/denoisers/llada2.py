"""LLaDA2: block-causal attention and many small experts (LLaDA2.0-mini, LLaDA2.1-mini).

A token attends to its own block and to all earlier ones. Blocks are counted from the first token of
the row, so the end of a prompt shares a block with the beginning of its answer. Settings that no
published configuration uses (biases of q, k and v, other routers, a normed head) raise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remask.denoisers.config import Llama3Rotary, head_dim, read_fields
from remask.denoisers.experts import Experts, expert_map
from remask.denoisers.native import Family, Network, TensorMap
from remask.denoisers.tokenizer import ROLE_SYSTEM, ROLE_TEMPLATE
from remask.denoisers.transformer import Attention, Block, GatedMLP
from remask.errors import CheckpointError

ARCHITECTURE = "LLaDA2MoeModelLM"
_SUPPORTED = {
    "attention_bias": False,
    "hidden_act": "silu",
    "mlp_bias": False,
    "moe_router_enable_expert_bias": True,
    "norm_head": False,
    "norm_softmax": False,
    "norm_topk_prob": True,
    "router_dtype": "fp32",
    "score_function": "sigmoid",
    "tie_word_embeddings": False,
    "use_qk_norm": True,
    "use_qkv_bias": False,
    "use_rmsnorm": True,
    "use_sliding_window": False,
    "using_split_qkv_in_self_attention": False,
}


@dataclass(frozen=True, kw_only=True)
class LLaDA2Config:
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int  # of the dense layers
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    # Defaults are those of the authors' class.
    first_k_dense_replace: int = field(default=0, metadata={"zero": True})  # come first
    num_shared_experts: int = field(default=0, metadata={"zero": True})
    n_group: int = 8
    topk_group: int = 4
    rope_theta: float = 10_000.0
    rope_scaling: Llama3Rotary | None = None
    partial_rotary_factor: float = 0.5
    routed_scaling_factor: float = 2.5
    rms_norm_eps: float = 1e-5
    use_bias: bool = True  # of the output projection of attention
    block_size: int = 32  # value used in training; no published config.json has the key

    @staticmethod
    def read(config: Mapping[str, Any]) -> "LLaDA2Config":
        changed = {"head_dim": config.get("head_dim") or head_dim(config)}
        if not config.get("first_k_dense_replace"):
            changed["intermediate_size"] = config.get("intermediate_size") or 1  # is not used
        known = read_fields(
            LLaDA2Config,
            {**config, **changed},
            supported=_SUPPORTED,
            family="LLaDA2",
            ignored=("rotary_dim",),
        )
        return LLaDA2Config(**known).checked()

    def checked(self) -> "LLaDA2Config":
        if self.num_attention_heads % self.num_key_value_heads or self.rotated % 2:
            raise CheckpointError(
                f"config.json gives num_attention_heads {self.num_attention_heads}, "
                f"num_key_value_heads {self.num_key_value_heads} and {self.rotated} rotated "
                "dimensions; kv heads must divide the heads, 2 the dimensions."
            )
        in_reach = self.topk_group * self.num_experts // self.n_group
        if self.num_experts % self.n_group or not 1 < self.num_experts_per_tok <= in_reach:
            raise CheckpointError(
                f"config.json gives num_experts {self.num_experts}, n_group {self.n_group}, "
                f"topk_group {self.topk_group} and num_experts_per_tok {self.num_experts_per_tok}; "
                "groups must be equal and the best of them hold enough experts, 2 or more."
            )
        return self

    @property
    def rotated(self) -> int:
        """Number of rotated dimensions of a head, the first ones."""
        return int(self.head_dim * self.partial_rotary_factor)


class Router(nn.Module):
    """Select the k best experts of the best groups and normalise their weights, in float32.

    A learned bias per expert balances the load; it affects the selection and not the weights.
    """

    def __init__(self, config: LLaDA2Config) -> None:
        super().__init__()
        self.config = config
        self.num_chosen = config.num_experts_per_tok
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))
        self.expert_bias: Tensor
        self.register_buffer("expert_bias", torch.zeros(config.num_experts))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return float32 weights and chosen experts, each (T, k)."""
        scores = self.score(rows).sigmoid()  # (T, E)
        chosen = self.choose(scores + self.expert_bias)
        weights = scores.gather(-1, chosen)
        shares = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return shares * self.config.routed_scaling_factor, chosen

    def score(self, rows: Tensor) -> Tensor:
        if rows.is_cuda and rows.dtype == torch.bfloat16 and not torch.is_grad_enabled():
            # Products of bfloat16 are exact in float32; only the order of the sum differs.
            return torch.mm(rows, self.weight.T, out_dtype=torch.float32)
        return F.linear(rows.float(), self.weight.float())

    def choose(self, scores: Tensor) -> Tensor:
        """Return the best k of scores (T, E) within the best groups, (T, k)."""
        groups = scores.view(len(scores), self.config.n_group, -1)  # (T, groups, E / groups)
        # Comparisons, not topk: compiled, they become part of one kernel. Ties go to the first.
        first, place = groups.max(-1, keepdim=True)
        taken = torch.arange(groups.shape[-1], device=groups.device) == place
        second = groups.masked_fill(taken, -torch.inf).amax(-1, keepdim=True)
        strengths = first + second  # (T, groups, 1): a group is as good as its two best
        numbers = torch.arange(groups.shape[1], device=groups.device)
        tied = (strengths.mT == strengths) & (numbers < numbers[:, None])
        ahead = (strengths.mT > strengths) | tied  # (T, groups, groups)
        best = ahead.sum(-1, keepdim=True) < self.config.topk_group
        in_reach = groups.masked_fill(~best, -torch.inf).flatten(1)
        return in_reach.topk(self.config.num_experts_per_tok).indices

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Return the module moved or cast by `fn`, its bias only moved: rounded it would err."""
        bias = self.expert_bias
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # A change of dtype leaves whole numbers alone, so the bias travels as its bits.
        self.expert_bias = fn(bias.view(torch.int32)).view(torch.float32)
        return self


class MixedExperts(nn.Module):
    """Experts that tokens are routed to, and one that all tokens visit, if there is one."""

    def __init__(self, config: LLaDA2Config) -> None:
        super().__init__()
        c, inner = config, config.moe_intermediate_size
        self.routed = Experts(Router(c), c.num_experts, c.hidden_size, inner)
        self.shared = (
            GatedMLP(c.hidden_size, inner * c.num_shared_experts) if c.num_shared_experts else None
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.routed(x)
        return out if self.shared is None else out + self.shared(x)


class LLaDA2(Network):
    def __init__(self, config: LLaDA2Config) -> None:
        self.config = config
        super().__init__(
            (_block(config, i) for i in range(config.num_hidden_layers)),
            vocab_size=config.vocab_size,
            width=config.hidden_size,
            eps=config.rms_norm_eps,
            tied=False,
            max_length=config.max_position_embeddings,
            rotated=config.rotated,
            theta=config.rope_theta,
            stretched=config.rope_scaling,
        )
        self.block_size: int = config.block_size


def _block(c: LLaDA2Config, layer: int) -> Block:
    attention = Attention(
        c.hidden_size,
        c.num_attention_heads,
        c.num_key_value_heads,
        head_dim=c.head_dim,
        qk_norm_eps=c.rms_norm_eps,
    )
    if c.use_bias:
        attention.out = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size)
    dense = layer < c.first_k_dense_replace
    mlp = GatedMLP(c.hidden_size, c.intermediate_size) if dense else MixedExperts(c)
    return Block(attention, mlp, c.hidden_size, c.rms_norm_eps)


def tensor_map(config: LLaDA2Config) -> TensorMap:
    c = config
    num_rows = (c.num_attention_heads + 2 * c.num_key_value_heads) * c.head_dim
    yield "embedding.weight", [("model.word_embeddings.weight", c.vocab_size)]
    for i in range(c.num_hidden_layers):
        ours, hub = f"blocks.{i}.", f"model.layers.{i}."
        mine, theirs = f"{ours}attention.", f"{hub}attention."
        yield f"{ours}attention_norm.weight", [(f"{hub}input_layernorm.weight", c.hidden_size)]
        yield f"{mine}qkv.weight", [(f"{theirs}query_key_value.weight", num_rows)]
        yield f"{mine}qk_norm.q.weight", [(f"{theirs}query_layernorm.weight", c.head_dim)]
        yield f"{mine}qk_norm.k.weight", [(f"{theirs}key_layernorm.weight", c.head_dim)]
        yield f"{mine}out.weight", [(f"{theirs}dense.weight", c.hidden_size)]
        if c.use_bias:
            yield f"{mine}out.bias", [(f"{theirs}dense.bias", c.hidden_size)]
        yield f"{ours}mlp_norm.weight", [(f"{hub}post_attention_layernorm.weight", c.hidden_size)]
        if i < c.first_k_dense_replace:
            yield from _mlp_map(f"{ours}mlp.", f"{hub}mlp.", c.intermediate_size, c.hidden_size)
        else:
            yield from _expert_map(c, f"{ours}mlp.", f"{hub}mlp.")
    yield "norm.weight", [("model.norm.weight", c.hidden_size)]
    yield "unembedding.weight", [("lm_head.weight", c.vocab_size)]


def _mlp_map(ours: str, hub: str, inner: int, width: int) -> TensorMap:
    halves = [(f"{hub}gate_proj.weight", inner), (f"{hub}up_proj.weight", inner)]
    yield f"{ours}gate_up.weight", halves
    yield f"{ours}down.weight", [(f"{hub}down_proj.weight", width)]


def _expert_map(c: LLaDA2Config, ours: str, hub: str) -> TensorMap:
    inner = c.moe_intermediate_size
    yield f"{ours}routed.router.weight", [(f"{hub}gate.weight", c.num_experts)]
    yield f"{ours}routed.router.expert_bias", [(f"{hub}gate.expert_bias", c.num_experts)]
    yield from expert_map(f"{ours}routed.", hub, c.num_experts, inner, c.hidden_size)
    shared_inner = inner * c.num_shared_experts
    if not shared_inner:
        return
    yield from _mlp_map(f"{ours}shared.", f"{hub}shared_experts.", shared_inner, c.hidden_size)


FAMILY = Family(
    architecture=ARCHITECTURE,
    build=lambda config: LLaDA2(LLaDA2Config.read(config)),
    tensor_map=lambda network: tensor_map(network.config),
    template=ROLE_TEMPLATE,
    system=ROLE_SYSTEM,
    ends=("<|role_end|>",),
    schedule="shares",
    turns=False,  # not checked: we have not seen the authors' tokenizer
    model_types=("llada2_moe",),
    settled={"use_bias": ".attention.dense.bias"},
)
