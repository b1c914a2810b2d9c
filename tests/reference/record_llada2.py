"""Record what LLaDA2.0 and LLaDA2.1 write at temperature 0, with their published `generate`.

    python tests/reference/record_llada2.py CHECKOUT

CHECKOUT is a folder with a copy of github.com/ZHZisZZ/dllm; transformers must be installed. The
network is the random one of record_moe.py with larger logits, under both generations of the code.
The file, llada2_samplers.json, holds our settings, the prompt, the tokens up to the first end
token, the pass over its block that last wrote each, the passes over each block, and how often a
token was overwritten. One thing is settled in the reference as we settle it: its network never
predicts the mask token.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import record_moe
import torch
from torch import Tensor

HERE = Path(__file__).parent
MASK_ID, RARE = record_moe.IDS["mask_token_id"], record_moe.IDS["eos_token_id"]
PROMPTS = (
    [17, 3, 88, 42, 9],
    [5, 61, 61, 2, 94, 30, 11, 76, 50],
    [23, 7, 7, 81, 40, 66, 12, 98],
)
NEVER = -1e30
SHARPER = 8.0  # times the logits: the published thresholds are then met now and then
Case = dict[str, Any]
SHAPES = ({"length": 24, "block": 4}, {"length": 24, "block": 8}, {"length": 32, "block": 32})

OLDER: tuple[Case, ...] = tuple(
    {**shape, "reveal_threshold": threshold} for shape in SHAPES for threshold in (0.95, 0.7, 0.4)
)
NEWER: tuple[Case, ...] = tuple(
    {**shape, "reveal_threshold": reveal, "edit_threshold": edit, "post_steps": post}
    for shape in SHAPES
    for reveal, edit, post in (
        (0.95, 0.9, 16), (0.7, 0.5, 16), (0.5, 0.0, 16), (0.5, 0.5, 0), (0.4, 0.2, 2),
    )
)  # fmt: skip


def main(checkout: Path) -> None:
    """Write llada2_samplers.json."""
    record_moe.prepare_transformers()
    pipelines = checkout / "dllm" / "pipelines"
    found = {}
    for name, cases, (folder, module) in (
        ("llada2", OLDER, ("llada2", "llada2_moe")),
        ("llada21", NEWER, ("llada21", "llada21_moe")),
    ):
        network = record_moe.build(pipelines / folder, module, "LLaDA2Moe", record_moe.LLADA2)
        found[name] = list(records(Watched(network), cases))
    path = HERE / "llada2_samplers.json"
    lists = {k: "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for k, rows in found.items()}
    text = ",\n".join(f'"{name}": {rows}' for name, rows in lists.items())
    path.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


class Watched:
    """A network that never predicts the mask token, and what its `generate` shows it."""

    def __init__(self, network: Any) -> None:
        self.network, self.plain = network, network.forward
        self.seen = list[Tensor]()
        network.forward = self.forward

    def forward(self, tokens: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Any:
        self.seen.append(tokens[0].clone())
        out = self.plain(
            tokens,
            attention_mask=attention_mask.float(),  # made for a network in bfloat16
            position_ids=position_ids,
            use_cache=False,
        )
        logits = out.logits * SHARPER
        logits[..., MASK_ID] = NEVER
        return SimpleNamespace(logits=logits)

    def generate(self, case: Case, end: int, prompt: list[int]) -> list[int]:
        self.seen = []
        editing = {}
        if "edit_threshold" in case:
            editing["editing_threshold"] = case["edit_threshold"]
            editing["max_post_steps"] = case["post_steps"]
        out = self.network.generate(
            torch.tensor([prompt]),
            gen_length=case["length"],
            block_length=case["block"],
            steps=case["block"],
            threshold=case["reveal_threshold"],
            eos_id=end,
            mask_id=MASK_ID,
            **editing,
        )
        written: list[int] = out[0].tolist()
        return written


def records(network: Watched, cases: tuple[Case, ...]) -> Iterator[Case]:
    """Yield every case, once with an end token that hardly comes and once with a frequent one."""
    for case in cases:
        for prompt in PROMPTS:
            plain = record(network, case, RARE, prompt)
            yield plain
            often = Counter(plain["tokens"][case["length"] // 3 :]).most_common(1)[0][0]
            if case["block"] == 8:
                yield record(network, case, often, prompt)


def record(network: Watched, case: Case, end: int, prompt: list[int]) -> Case:
    """Return the case with what the reference wrote for it."""
    tokens = network.generate(case, end, prompt)
    row = torch.tensor([*prompt, *tokens])
    passes, num_edits = [-1] * len(row), 0
    counts: Counter[int] = Counter()  # by the end of the block
    for i, before in enumerate(network.seen):
        later = network.seen[i + 1] if i + 1 < len(network.seen) else row
        num = min(len(before), len(row), len(later))
        for place in (before[:num] != later[:num]).nonzero()[:, 0].tolist():
            num_edits += before[place].item() != MASK_ID
            passes[place] = counts[len(before)]
        counts[len(before)] += 1
    return {
        "settings": case,
        "ends": [end],
        "prompt": prompt,
        "tokens": tokens,
        "passes": passes[len(prompt) :],
        "forwards": list(counts.values()),
        "edits": num_edits,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
