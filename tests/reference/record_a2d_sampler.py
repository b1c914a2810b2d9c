"""Record what A2D's authors write at temperature 0, where steps do not divide the block.

    python tests/reference/record_a2d_sampler.py DLLM

DLLM is a folder with a copy of github.com/ZHZisZZ/dllm (network, sampler, schedule); transformers
must be installed. The network is the random one of record_dream.py. The file, a2d_sampler.json,
holds our settings, the prompt, the tokens written and the pass that wrote each, as samplers.json
does, and for blocks of up to 32 tokens in up to 32 steps how many tokens each step reveals.
"""

import json
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import record_dream
import torch
import transformers.modeling_rope_utils
from record_samplers import PROMPTS, Watched, first_of_equals
from torch import Tensor

HERE = Path(__file__).parent
CASES: tuple[dict[str, int], ...] = (
    {"length": 24, "steps": 24, "block": 24},
    {"length": 24, "steps": 7, "block": 24},
    {"length": 24, "steps": 10, "block": 24},
    {"length": 24, "steps": 16, "block": 24},
    {"length": 24, "steps": 40, "block": 24},
    {"length": 24, "steps": 15, "block": 8},
    {"length": 32, "steps": 6, "block": 16},
    {"length": 32, "steps": 12, "block": 8},
)
MOST = 32


def main(dllm: Path) -> None:
    """Write a2d_sampler.json."""
    torch.topk = lambda values, k: first_of_equals(values, int(k))
    transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["default"] = record_dream.default_rotary
    for name in ("dllm", "dllm.core", "dllm.core.samplers"):  # past their own __init__
        holder = types.ModuleType(name)
        holder.__path__ = [str(dllm / name.replace(".", "/"))]
        sys.modules[name] = holder
    network = a2d_network(dllm)
    written = [record(case, prompt, network) for case in CASES for prompt in PROMPTS]
    counts = [[numbers(n, steps) for steps in range(1, MOST + 1)] for n in range(1, MOST + 1)]
    path = HERE / "a2d_sampler.json"
    rows = ",\n".join(map(json.dumps, written))
    table = ",\n".join(json.dumps(row, separators=(",", ":")) for row in counts)
    path.write_text(f'{{\n"a2d": [\n{rows}\n],\n"counts": [\n{table}\n]\n}}\n', encoding="utf-8")
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


def a2d_network(dllm: Path) -> Any:
    """Return the reference's A2D with the weights of a2d.safetensors."""
    folder = dllm / "dllm" / "pipelines" / "a2d" / "models" / "qwen3"
    a2d = record_dream.package("a2d", folder)("modeling_qwen3")
    settings = a2d.A2DQwen3Config(**record_dream.A2D, attn_implementation="sdpa")
    network = record_dream.drawn(a2d.A2DQwen3LMHeadModel(settings))
    for layer in network.model.layers:
        layer.attention_type = "full_attention"  # newer layers no longer say it of themselves
    return network


def numbers(num_masked: int, steps: int) -> list[int]:
    """Return how many of so many masked tokens the authors reveal in each step they take."""
    from dllm.core.samplers.utils import get_num_transfer_tokens
    from dllm.core.schedulers import LinearAlphaScheduler

    masked = torch.ones(1, num_masked, dtype=torch.bool)
    listed: list[int] = get_num_transfer_tokens(masked, steps, LinearAlphaScheduler())[0].tolist()
    return listed


def record(case: dict[str, int], prompt: list[int], network: Any) -> dict[str, Any]:
    """Return the case with what the authors' sampler wrote for it."""
    from dllm.core.samplers.mdlm import MDLMSampler, MDLMSamplerConfig

    model = Watched(network)
    pad = record_dream.PAD_ID
    ids = SimpleNamespace(mask_token_id=record_dream.MASK_ID, bos_token_id=pad, eos_token_id=pad)
    sampler = MDLMSampler(model=model, tokenizer=ids)
    config = MDLMSamplerConfig(
        max_new_tokens=case["length"], steps=case["steps"], block_size=case["block"],
        return_dict=False,
    )  # fmt: skip
    out = sampler.sample([prompt], config)[0]
    after = torch.stack([*model.seen[1:], out])[:, len(prompt) :]  # (S, C)
    passes = (after == record_dream.MASK_ID).sum(0)
    final: Tensor = out[len(prompt) :]
    return {
        "settings": case,
        "ends": [pad],
        "prompt": prompt,
        "tokens": final.tolist(),
        "passes": passes.tolist(),
        "forwards": len(model.seen),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
