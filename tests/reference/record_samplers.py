"""Record what the published sampling loops of LLaDA, Dream and Fast-dLLM write at temperature 0.

    python tests/reference/record_samplers.py DLLM LLADA FAST

DLLM, LLADA and FAST are folders with copies of github.com/ZHZisZZ/dllm (both networks and Dream's
loop), github.com/ML-GSAI/LLaDA and github.com/NVlabs/Fast-dLLM; transformers must be installed.
The networks are the random ones of record_dream.py and record_llada.py. The file, samplers.json,
holds our settings, the prompt, the tokens written and the step that wrote each. Two things are
settled in the reference as we settle them: its networks never predict the mask token, and of equal
confidences, where torch.topk may return either, the earlier position goes first.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import record_dream
import record_llada
import torch
import transformers.modeling_rope_utils
from torch import Tensor

HERE = Path(__file__).parent
MASK_ID = record_dream.MASK_ID
PROMPTS = ([17, 3, 88, 42, 9], [5, 61, 61, 2, 94, 30, 11, 76, 50])
NEVER = -1e30  # finite: the recorded loop takes differences
Case = dict[str, Any]
Written = tuple[Tensor, list[Tensor]]  # the row at the end, and after each forward pass

LLADA: tuple[Case, ...] = (
    {"length": 24, "steps": 24, "block": 24},
    {"length": 24, "steps": 7, "block": 24},
    {"length": 24, "steps": 24, "block": 8},
    {"length": 32, "steps": 8, "block": 8},
    {"length": 24, "steps": 24, "block": 24, "ends_last": True},
    {"length": 24, "steps": 8, "block": 24, "ends_last": True},
    {"length": 24, "steps": 24, "block": 12, "ends_last": True},
    {"length": 24, "steps": 24, "block": 24, "suppressed": True},
    {"length": 24, "steps": 12, "block": 8, "suppressed": True},
    {"length": 24, "steps": 24, "block": 24, "suppressed": True, "ends_last": True},
)
FAST: tuple[Case, ...] = tuple(
    {"length": 32, "steps": 32, "block": block, "reveal_threshold": threshold}
    for block in (8, 32)
    for threshold in (0.05, 0.07, 0.1, 0.9)
)
SHAPES: tuple[Case, ...] = (
    {"steps": 24},
    {"steps": 7},
    {"steps": 40},
    {"steps": 12, "top_p": 0.9},
    {"steps": 12, "top_k": 5},
    {"steps": 12, "top_p": 0.5, "top_k": 20},
)
DREAM: tuple[Case, ...] = (
    *(
        {"length": 24, "block": 24, "order": order, **shape}
        for order in ("maskgit_plus", "topk_margin", "entropy")
        for shape in SHAPES
    ),
    {"length": 24, "block": 24, "order": "origin", "steps": 1},
)


def main(dllm: Path, llada: Path, fast: Path) -> None:
    """Write samplers.json."""
    torch.topk = first_of_equals
    transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["default"] = record_dream.default_rotary
    writer, dreamer = llada_network(dllm), dream_network(dllm)
    often = frequent(writer, llada)
    rare = [record_dream.PAD_ID]
    found = {
        "llada": [
            record(case, often if needs_ends(case) else rare, prompt, llada_loop(writer, llada))
            for case in LLADA
            for prompt in PROMPTS
        ],
        "fast": [record(c, rare, p, fast_loop(writer, fast)) for c in FAST for p in PROMPTS],
        "dream": [record(c, rare, p, dream_loop(dreamer)) for c in DREAM for p in PROMPTS],
    }
    path = HERE / "samplers.json"
    lists = {k: "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for k, rows in found.items()}
    text = ",\n".join(f'"{name}": {rows}' for name, rows in lists.items())
    path.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes, end tokens {often}\n")


def first_of_equals(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return what torch.topk does, the earlier of equal values first."""
    ranked, places = values.sort(dim=-1, descending=True, stable=True)
    return ranked[..., :k], places[..., :k]


def needs_ends(case: Case) -> bool:
    return "ends_last" in case or "suppressed" in case


def llada_network(dllm: Path) -> Any:
    """Return the reference's LLaDA with the weights of llada.safetensors."""
    reference = record_dream.package("llada", dllm / "dllm" / "pipelines" / "llada" / "models")
    modeling = reference("modeling_llada")
    config = reference("configuration_llada").LLaDAConfig(
        **record_llada.LLADA, **record_llada.DROPOUTS
    )
    inner = modeling.create_model_config_from_pretrained_config(config)
    inner.init_device = "cpu"
    network = modeling.LLaDAModelLM(config, modeling.LLaDAModel(inner, init_params=True))
    return record_dream.drawn(network)


def dream_network(dllm: Path) -> Any:
    """Return the reference's Dream with the weights of dream.safetensors."""
    reference = record_dream.package("dream", dllm / "dllm" / "pipelines" / "dream" / "models")
    config = reference("configuration_dream").DreamConfig(**record_dream.DREAM)
    return record_dream.drawn(reference("modeling_dream").DreamModel(config))


def loop_of(path: Path, ids: dict[str, int]) -> Callable[..., Any]:
    """Return `generate` of a script, with other special ids and without its imports of models."""
    lines = path.read_text(encoding="utf-8").splitlines()
    source = "\n".join(x for x in lines if not x.startswith(("from transformers", "from model")))
    for theirs, ours in ids.items():
        source = source.replace(theirs, str(ours))
    names: dict[str, Any] = {"__name__": "reference"}
    exec(compile(source, str(path), "exec"), names)
    generate: Callable[..., Any] = names["generate"]
    return generate


class Watched:
    """A network as the loops call it, that never predicts the mask token and takes notes."""

    device = torch.device("cpu")

    def __init__(self, network: Any) -> None:
        self.network, self.seen = network, list[Tensor]()

    def __call__(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Any:
        self.seen.append(tokens[0].clone())
        logits = self.network(tokens, attention_mask=attention_mask, use_cache=False).logits
        logits[..., MASK_ID] = NEVER
        return SimpleNamespace(logits=logits)


def llada_loop(network: Any, checkout: Path) -> Callable[..., Written]:
    def run(case: Case, ends: list[int], prompt: Tensor) -> Written:
        generate = loop_of(checkout / "generate.py", {"126081": ends[0], "126348": ends[-1]})
        model = Watched(network)
        out = generate(
            model,
            prompt,
            torch.ones_like(prompt),
            steps=case["steps"],
            gen_length=case["length"],
            block_length=case["block"],
            cfg_scale=0.0,
            mask_id=MASK_ID,
            logits_eos_inf=case.get("suppressed", False),
            confidence_eos_eot_inf=case.get("ends_last", False),
        )
        return out[0], [*model.seen[1:], out[0]]

    return run


def fast_loop(network: Any, checkout: Path) -> Callable[..., Written]:
    def run(case: Case, ends: list[int], prompt: Tensor) -> Written:
        model = Watched(network)
        out, num_forwards = loop_of(checkout / "llada" / "generate.py", {})(
            model,
            prompt,
            steps=case["steps"],
            gen_length=case["length"],
            block_length=case["block"],
            mask_id=MASK_ID,
            threshold=case["reveal_threshold"],
        )
        assert num_forwards == len(model.seen)
        return out[0], [*model.seen[1:], out[0]]

    return run


def dream_loop(network: Any) -> Callable[..., Written]:
    def never(step: int, tokens: Tensor, logits: Tensor) -> Tensor:
        logits[..., MASK_ID] = NEVER
        return logits

    def run(case: Case, ends: list[int], prompt: Tensor) -> Written:
        config = SimpleNamespace(
            output_history=True,
            return_dict=True,
            max_length=prompt.shape[1] + case["length"],
            mask_token_id=MASK_ID,
            steps=case["steps"],
            eps=1e-3,
            alg=case["order"],
            alg_temp=0.0,
            temperature=0.0,
            top_p=case.get("top_p"),
            top_k=case.get("top_k"),
        )
        with torch.no_grad():
            out = network._sample(prompt, None, config, lambda step, tokens, logits: tokens, never)
        return out.sequences[0], [row[0] for row in out.history]

    return run


def frequent(network: Any, checkout: Path) -> list[int]:
    """Return the two tokens LLaDA writes most: as end tokens they put the rules to the test."""
    rows = [
        llada_loop(network, checkout)(LLADA[0], [record_dream.PAD_ID], torch.tensor([prompt]))[0]
        for prompt in PROMPTS
    ]
    written = [t for row, p in zip(rows, PROMPTS, strict=True) for t in row[len(p) :].tolist()]
    return [token for token, _ in Counter(written).most_common(2)]


def record(case: Case, ends: list[int], prompt: list[int], loop: Callable[..., Written]) -> Case:
    """Return the case with what the reference wrote for it."""
    final, after = loop(case, ends, torch.tensor([prompt]))
    rows = torch.stack(after)[:, len(prompt) :]  # (S, C)
    still = rows == MASK_ID
    assert torch.equal(rows.where(still, final[len(prompt) :]), rows.where(still, rows))
    return {
        "settings": case,
        "ends": ends,
        "prompt": prompt,
        "tokens": final[len(prompt) :].tolist(),
        "passes": still.sum(0).tolist(),  # forward passes before the one that wrote each token
        "forwards": len(after),
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
