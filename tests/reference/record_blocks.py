"""Record what the references of the block models compute and write, on tiny random weights.

    python tests/reference/record_blocks.py SDAR DLLM FAST

SDAR, DLLM and FAST are folders with copies of github.com/JetAstra/SDAR and github.com/ZHZisZZ/dllm,
and one with the modeling.py and configuration.py of the checkpoint Fast_dLLM_v2_7B; transformers
must be installed. SDAR with experts and DreamReasoner, whose own files are on the hub alone, are
transformers' Qwen3-MoE and Qwen3 under the same attention.

For each family a file with configuration, weights under the hub's names, tokens and float32 logits
in the rows where the reference has them; and block_samplers.json, with our settings, the prompt,
the tokens that the published loops write at temperature 0, the pass over its block that wrote each,
and the passes over every block. Settled in the references as we settle it: they never predict the
mask token, and of equal confidences the earlier position goes first.
"""

import importlib.machinery
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import record_dream
import record_samplers
import torch
import torch.nn.functional as F
import transformers
from record_dream import MASK_ID, PAD_ID, drawn, package
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.cache_utils import DynamicCache

HERE = Path(__file__).parent
LENGTH, REAL = 12, (12, 9)  # columns, and how many of them each row has
SHARPER = 8.0  # times the logits: the published thresholds are then met now and then
NEVER = -1e30
Case = dict[str, Any]

SHAPE: Case = {
    "vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 64, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 128, "mask_token_id": MASK_ID, "pad_token_id": PAD_ID,
}  # fmt: skip
QWEN3: Case = {**SHAPE, "head_dim": 16, "tie_word_embeddings": False}
EXPERTS: Case = {
    **QWEN3, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip


def main(sdar: Path, dllm: Path, fast: Path) -> None:
    """Write the files."""
    prepare_transformers()
    blocks = {"block_size": 4}
    networks = {
        "sdar": (sdar_network(sdar), "SDARForCausalLM", {**QWEN3, **blocks}),
        "sdar_moe": (moe_network(), "SDARMoeForCausalLM", {**EXPERTS, **blocks}),
        "dreamreasoner": (qwen3_network(), "DreamForCausalLM", {**QWEN3, **blocks}),
        "a2d_qwen2": (a2d_network(dllm, "qwen2", SHAPE), "A2DQwen2LMHeadModel", SHAPE),
        "a2d_llama": (a2d_network(dllm, "llama", SHAPE), "A2DLlamaLMHeadModel", SHAPE),
        "a2d_block": (
            a2d_network(dllm, "qwen3", record_dream.A2D),
            "A2DQwen3LMHeadModel",
            {**record_dream.A2D, **blocks},
        ),
        "fast_dllm": (fast_network(fast), "Fast_dLLM_QwenForCausalLM", {**SHAPE, "bd_size": 4}),
    }
    for name, (network, architecture, config) in networks.items():
        record(name, network, {"architectures": [architecture], **config})
    torch.topk = record_samplers.first_of_equals
    loops = {
        "sdar": sdar_loop(networks["sdar"][0], sdar),
        "a2d_block": a2d_loop(networks["a2d_block"][0], dllm),
        "fast_dllm": fast_loop(networks["fast_dllm"][0]),
    }
    found = {name: list(records(loop, CASES[name])) for name, loop in loops.items()}
    path = HERE / "block_samplers.json"
    lists = {k: "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for k, rows in found.items()}
    text = ",\n".join(f'"{name}": {rows}' for name, rows in lists.items())
    path.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


def prepare_transformers() -> None:
    """Give transformers 5 back what the reference files expect of version 4, and of a GPU."""
    rope = transformers.modeling_rope_utils
    rope.ROPE_INIT_FUNCTIONS["default"] = record_dream.default_rotary
    rope.rope_config_validation = lambda config: None  # type: ignore[attr-defined]
    transformers.utils.LossKwargs = transformers.utils.TransformersKwargs  # type: ignore[attr-defined]
    DynamicCache.__getitem__ = kept_layer  # type: ignore[attr-defined]
    torch.compile = lambda *args, **options: lambda function: function  # type: ignore[assignment]
    stub("einops", rearrange=joined_heads, repeat=None)
    stub("flash_attn", flash_attn_func=attention, flash_attn_varlen_func=None)
    stub("flash_attn.bert_padding", index_first_axis=None, pad_input=None, unpad_input=None)
    for name in ("flash_attn.ops", "flash_attn.ops.triton"):
        stub(name)
    stub("flash_attn.ops.triton.layer_norm", rms_norm_fn=rms_norm)


def stub(name: str, **members: Any) -> None:
    """Let a module be imported that is not installed."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    module.__dict__.update(members)
    sys.modules[name] = module


def kept_layer(cache: DynamicCache, layer: int) -> tuple[Tensor, Tensor]:
    held = cache.layers[layer]
    assert held.keys is not None
    assert held.values is not None
    return held.keys, held.values


def joined_heads(x: Tensor, pattern: str) -> Tensor:
    """Return what einops would of the two patterns that are used."""
    if pattern.startswith("b h l d"):
        x = x.transpose(1, 2)
    return x.flatten(2)


def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, softmax_scale: float
) -> Tensor:  # (B, L, heads, head_dim)
    assert not causal
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, scale=softmax_scale, enable_gqa=True)
    return out.transpose(1, 2)


def rms_norm(x: Tensor, weight: Tensor, bias: None, eps: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def sdar_network(checkout: Path) -> nn.Module:
    folder = checkout / "training" / "model" / "SDAR-4B-Chat"
    reference = package("sdar", folder)
    sys.modules["reference_sdar.fused_linear_diffusion_cross_entropy"] = SimpleNamespace(  # type: ignore[assignment]
        FusedLinearDiffusionCrossEntropyLoss=None
    )
    config = reference("configuration_sdar").SDARConfig(**QWEN3)
    config.fuse_cross_entropy = False
    return drawn(reference("modeling_sdar").SDARForCausalLM(config))


def qwen3_network() -> nn.Module:
    config = transformers.Qwen3Config(**QWEN3, attn_implementation="sdpa")
    return drawn(transformers.Qwen3ForCausalLM(config))


def moe_network() -> nn.Module:
    config = transformers.Qwen3MoeConfig(**EXPERTS, attn_implementation="sdpa")
    network = transformers.Qwen3MoeForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            flat = 0.1 * noise + name.endswith("norm.weight")
            weight.copy_((noise / weight.shape[-1] ** 0.5 if weight.dim() > 1 else flat).bfloat16())
    return network.eval().requires_grad_(False)


def a2d_network(dllm: Path, kind: str, config: Case) -> nn.Module:
    folder = dllm / "dllm" / "pipelines" / "a2d" / "models" / kind
    reference = package(f"a2d_{kind}", folder)(f"modeling_{kind}")
    prefix = f"A2D{kind.capitalize()}"
    settings = getattr(reference, f"{prefix}Config")(**config, attn_implementation="sdpa")
    network = drawn(getattr(reference, f"{prefix}LMHeadModel")(settings))
    for layer in network.model.layers:  # type: ignore[union-attr]
        layer.attention_type = "full_attention"  # newer layers no longer say it of themselves
    return network


def fast_network(folder: Path) -> nn.Module:
    reference = package("fast", folder)
    config = reference("configuration").Fast_dLLM_QwenConfig(**SHAPE, bd_size=4)
    modeling = reference("modeling")
    modeling.Fast_dLLM_QwenForCausalLM._tied_weights_keys = {}
    return drawn(modeling.Fast_dLLM_QwenForCausalLM(config))


def real() -> Tensor:
    """Return what is text and not padding, (2, 12)."""
    return torch.arange(LENGTH) < torch.tensor(REAL)[:, None]


def tokens() -> Tensor:
    """Return two rows of ids below 100, some of them masked, (2, 12)."""
    rows = torch.randint(100, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    rows[:, [1, 5, 6, 10]] = MASK_ID
    return rows.where(real(), PAD_ID)


def seen(size: int) -> Tensor:
    """Return who sees whom, (2, 1, 12, 12)."""
    blocks = torch.arange(LENGTH) // size
    return (blocks[:, None] >= blocks) & real()[:, None, None, :]


def logits(name: str, network: Any) -> Tensor:
    """Return float32 logits (2, 12, V)."""
    if name == "fast_dllm":  # its blocks are an argument, and it knows no padding
        rows = [
            network(row[None, :num], block_size=4).logits
            for row, num in zip(tokens(), REAL, strict=True)
        ]
        return torch.cat([F.pad(row, (0, 0, 0, LENGTH - row.shape[1])) for row in rows])
    mask = seen(LENGTH if name in ("a2d_qwen2", "a2d_llama") else 4)
    if name != "sdar":  # the others want what is added to the scores
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    places = torch.arange(LENGTH)[None].expand(2, -1)
    out: Tensor = network(
        tokens(), attention_mask=mask, position_ids=places, use_cache=False
    ).logits
    return out


def record(name: str, network: nn.Module, config: Case) -> None:
    """Write one family's file."""
    held = {f"weights.{key}": w.bfloat16() for key, w in hub_tensors(network)}
    exact = logits(name, network).where(real()[..., None], 0.0)
    path = HERE / f"{name}.safetensors"
    tensors = {"tokens": tokens(), "attend": real(), "float32": exact}
    save_file({**held, **tensors}, path, metadata={"config": json.dumps(config)})
    sys.stdout.write(
        f"{path}: {path.stat().st_size} bytes, largest logit {exact.abs().max():.2f}\n"
    )


def hub_tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights under the hub's names: there, every expert has matrices of its own."""
    for name, weight in network.named_parameters():
        stem = name.removesuffix("gate_up_proj").removesuffix("down_proj")
        if stem.endswith("experts."):
            for number, matrix in enumerate(weight):
                if name.endswith("gate_up_proj"):
                    gate, up = matrix.chunk(2)
                    yield f"{stem}{number}.gate_proj.weight", gate.contiguous()
                    yield f"{stem}{number}.up_proj.weight", up.contiguous()
                else:
                    yield f"{stem}{number}.down_proj.weight", matrix.contiguous()
        else:
            yield name, weight


# The loops.

Loop = Callable[[Case, int, list[int]], tuple[list[int], list[Tensor]]]  # the row, blocks as shown
PROMPTS = (
    [17, 3, 88, 42, 9],
    [5, 61, 61, 2, 94, 30, 11, 76, 50],
    [23, 7, 7, 81, 40, 66, 12, 98],
    [44, 90, 13, 71, 8, 39, 39, 25, 6, 28, 77, 1, 95, 64, 33, 91],
)
SHAPES: tuple[Case, ...] = ({"length": 24, "block": 4}, {"length": 24, "block": 8})
LONG: Case = {"length": 32, "block": 32}
CASES: dict[str, tuple[Case, ...]] = {
    # 0.85 is SDAR's, 0.9 TraDo's and DreamReasoner's; none is static.
    "sdar": tuple(
        {**shape, "reveal_threshold": threshold}
        for shape in (*SHAPES, LONG)
        for threshold in (None, 0.9, 0.85, 0.5)
    ),
    "a2d_block": tuple(
        {**shape, "steps": steps}
        for shape, steps in (
            ({"length": 24, "block": 8}, 24),
            ({"length": 24, "block": 8}, 12),
            ({"length": 24, "block": 8}, 9),
            (LONG, 32),
            (LONG, 20),
        )
    ),
    "fast_dllm": tuple(
        {**shape, "sub_block": size, "reveal_threshold": threshold}
        for shape, size in (
            ({"length": 24, "block": 8}, 4),
            ({"length": 24, "block": 8}, 8),
            ({"length": 32, "block": 32}, 8),
        )
        for threshold in (None, 0.9, 0.5)
    ),
}


class Watched:
    """A network with sharper logits that never predicts the mask token, and what it was shown."""

    device = torch.device("cpu")

    def __init__(self, network: Any) -> None:
        self.network, self.seen = network, list[Tensor]()

    def eval(self) -> None:
        pass

    def __call__(self, rows: Tensor, **options: Any) -> Any:
        if not options.get("store_kv") and not options.get("update_past_key_values"):
            self.seen.append(rows[0].clone())
        out = self.network(rows, **options)
        out.logits = out.logits * SHARPER
        out.logits[..., MASK_ID] = NEVER
        return out


def sdar_loop(network: Any, checkout: Path) -> Loop:
    """Return `block_diffusion_generate` with its noise off: the likeliest token is drawn."""
    source = (checkout / "generate.py").read_text(encoding="utf-8").split("def parse_args")[0]
    names: dict[str, Any] = {"__name__": "reference"}
    exec(compile(source, "generate.py", "exec"), names)
    torch.multinomial = lambda probs, num_samples: probs.argmax(-1, keepdim=True)  # type: ignore[assignment]

    def run(case: Case, end: int, prompt: list[int]) -> tuple[list[int], list[Tensor]]:
        model, threshold = Watched(network), case["reveal_threshold"]
        out = names["block_diffusion_generate"](
            model,
            {"input_ids": torch.tensor([prompt])},
            MASK_ID,
            gen_length=case["length"],
            block_length=case["block"],
            denoising_steps=case["block"],
            remasking_strategy=f"low_confidence_{'dynamic' if threshold else 'static'}",
            confidence_threshold=threshold,
            stopping_criteria_idx=[end],
        )
        return out[0].tolist(), model.seen

    return run


def a2d_loop(network: Any, dllm: Path) -> Loop:
    """Return `BD3LMSampler.sample`."""
    for name in ("dllm", "dllm.core", "dllm.core.samplers"):
        stub(name)
        sys.modules[name].__path__ = [str(dllm / name.replace(".", "/"))]
    sampler = importlib.import_module("dllm.core.samplers.bd3lm")
    schedulers = importlib.import_module("dllm.core.schedulers")

    def run(case: Case, end: int, prompt: list[int]) -> tuple[list[int], list[Tensor]]:
        model = Watched(network)
        ids = SimpleNamespace(
            mask_token_id=MASK_ID, bos_token_id=PAD_ID, pad_token_id=PAD_ID, eos_token_id=end
        )
        made = sampler.BD3LMSampler(
            model=model, tokenizer=ids, scheduler=schedulers.LinearAlphaScheduler()
        )
        out = made.sample(
            [torch.tensor(prompt)],
            max_new_tokens=case["length"],
            block_size=case["block"],
            steps=case["steps"],
            temperature=0.0,
            return_dict=False,
        )
        # Passes over a prefix, which keep it, come before those over a block.
        shown = [row for row in model.seen if len(row) == case["block"] and (row == MASK_ID).any()]
        return out[0][-(len(out[0]) - padded(len(prompt), case["block"])) :].tolist(), shown

    return lambda case, end, prompt: with_prompt(prompt, run(case, end, prompt))


def padded(num: int, size: int) -> int:
    return -(-num // size) * size


def with_prompt(prompt: list[int], found: tuple[list[int], list[Tensor]]) -> Any:
    return [*prompt, *found[0]], found[1]


def fast_loop(network: Any) -> Loop:
    """Return the checkpoint's own `generate`."""
    plain = network.forward

    def run(case: Case, end: int, prompt: list[int]) -> tuple[list[int], list[Tensor]]:
        model = Watched(plain)
        network.forward = lambda input_ids, **options: model(input_ids, **options)
        out = network.generate(
            torch.tensor([prompt]),
            max_new_tokens=case["length"] + case["block"],
            mask_id=MASK_ID,
            threshold=case["reveal_threshold"] or 1,
            small_block_size=case["sub_block"],
            block_size=case["block"],
            stop_token=end,
        )[0]
        return out[0].tolist(), model.seen

    return run


def records(loop: Loop, cases: tuple[Case, ...]) -> Iterator[Case]:
    """Yield every case, once with an end token that never comes and once with one that does."""
    for case in cases:
        for prompt in PROMPTS:
            if len(prompt) == case["block"] and "sub_block" in case:
                continue  # the published loop loses a prompt of exactly one block
            plain = taken(loop, case, PAD_ID, prompt)
            yield plain
            if case["block"] == 8:
                yield taken(loop, case, plain["tokens"][len(plain["tokens"]) // 2], prompt)


def taken(loop: Loop, case: Case, end: int, prompt: list[int]) -> Case:
    """Return the case with what the reference wrote for it, up to the end."""
    row, shown = loop(case, end, prompt)
    written = row[len(prompt) :][: case["length"]]
    if end in written:
        written = written[: written.index(end) + 1]
    # Inside a block masks only vanish: where there are more of them, another one has begun.
    blocks: list[list[Tensor]] = []
    for before, now in zip([None, *shown], shown, strict=False):
        if before is None or (now == MASK_ID).sum() >= (before == MASK_ID).sum():
            blocks.append([])
        blocks[-1].append(now == MASK_ID)
    # A token was written by the last pass that saw it masked; one that none saw, before all.
    still = [torch.stack(block).sum(0) for block in blocks]
    blank = torch.zeros(case["block"], dtype=torch.long)  # where a block ended with its first token
    passes = torch.cat([*((number - 1).clamp(min=0) for number in still), blank])
    first = 0 if "steps" in case else len(prompt) % case["block"]  # A2D's begin with the answer
    return {
        "settings": case,
        "ends": [end],
        "prompt": prompt,
        "tokens": written,
        "passes": passes[first:][: len(written)].tolist(),
        "forwards": [len(block) for block in blocks],
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
