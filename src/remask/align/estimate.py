"""What a training would take, counted from config.json and the settings: nothing is loaded.

Forward passes are of one row, and at most: every completion is scored, though a gated reward scores
right ones alone, and every row is previewed, though only those below their group's mean are. Memory
is of one process. Activations are counted from the widths of the linear layers, inputs and outputs
kept one and a half times, a little more than graphs were seen to hold; the log has the truth.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from remask.align import checkpoint
from remask.align.distributed import BUCKET, check_share
from remask.align.lora import find_targets
from remask.align.method_settings import SpgSettings
from remask.align.named import check_rewards, resolve
from remask.align.policy import LOGITS
from remask.align.rollout import Prompts
from remask.align.settings import AlignSettings
from remask.consistency.roundtrips import steps_at_once
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.devices import choose_device, choose_dtype
from remask.denoisers.experts import Experts
from remask.denoisers.load import find_config, find_family, find_preset, outline
from remask.denoisers.native import Network
from remask.denoisers.preset import Preset
from remask.denoisers.tokenizer import Tokenizer, read_json
from remask.denoisers.transformer import Attention
from remask.errors import RemaskError
from remask.probes.readings import price
from remask.probes.settings import Probe
from remask.tasks import TASKS
from remask.tasks import task as find_task
from remask.tasks.base import check_level
from remask.values import ROUNDTRIPS
from remask.verifier.columns import LABEL_FREE_PROBES

PROMPT = 200  # tokens, where neither the tokenizer nor the problems are at hand
NUM_ASKED = 16  # problems whose prompts are measured
GPU_SIZES = (24, 80, 141)  # GB
TFLOPS = 400.0  # of one process; see docs/benchmarks.md for what an H200 reaches


@dataclass(frozen=True, kw_only=True)
class RowSize:
    """The rows of a training, in tokens."""

    num_prompt: int
    length: int
    steps: int
    block: int

    @property
    def row(self) -> int:
        """Tokens of a row."""
        return self.num_prompt + self.length


class OutlinedModel(NamedTuple):
    """What of a model that is not loaded decides how it is sampled."""

    preset: Preset
    block_size: int | None


class PricedModel(NamedTuple):
    """What of a model decides the forward passes of a probe."""

    block_size: int | None
    forwards_per_call: int = 1


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a network costs, counted on its outline."""

    num_parameters: int
    per_token: float  # weights of the blocks that a token meets
    mixed: int  # width of all heads of all layers
    spread: float  # inputs and outputs of the linear layers of all blocks
    num_layers: int
    width: int
    vocab_size: int
    num_adapted: int  # numbers in the adapters
    num_gathered: int  # of the weights, whole at once where they are divided

    def forward_flops(self, length: int, head_rows: float) -> float:
        """Return the arithmetic of one row through the network."""
        trunk = length * (2.0 * self.per_token + 4.0 * length * self.mixed)
        return trunk + 2.0 * self.width * self.vocab_size * head_rows


def estimate(
    settings: AlignSettings, *, processes: int = 1, tflops: float = TFLOPS
) -> dict[str, Any]:
    """Return forward passes, memory and time of a training, or refuse what the training would."""
    checkpoint.claim(settings)
    check_share(settings.prompts_per_update, processes, "prompts_per_update")
    task = find_task(
        settings.task, path=settings.data, wording=settings.wording,
        allow_execution=settings.allow_execution,
    )  # fmt: skip
    level = check_level(task, settings.level, "train")
    if settings.method != "sft":
        check_rewards(settings, task)
    folder = find_config(settings.model).parent
    network = outline(read_json(folder / "config.json"), folder)
    shape = shape_of(network, settings)
    canvas = canvas_of(settings, folder, network.block_size, task.canvas_length(level))
    if settings.method != "sft":
        settings.masks(canvas.block, canvas.length).check_length(canvas.length)
    forwards = forwards_per_update(settings, canvas, network.block_size)
    seconds = seconds_per_update(settings, shape, canvas, forwards, processes * tflops * 1e12)
    total = sum(seconds.values())
    return {
        "model": settings.model,
        "method": settings.method,
        "tuning": settings.tuning,
        "processes": processes,
        "parameters": shape.num_parameters,
        "trained": shape.num_adapted if settings.tuning == "lora" else shape.num_parameters,
        "completions_per_rollout": settings.num_rows,
        "rollouts": -(-settings.updates // settings.inner_updates),
        "row_tokens": {"prompt": canvas.num_prompt, "canvas": canvas.length},
        "sampler": {"steps": canvas.steps, "block": canvas.block},
        "forwards_per_update": forwards,
        "sharding": settings.sharding_of(processes),
        "memory_gb": memory_gb(settings, shape, canvas, processes),
        "gpus_needed": {
            str(size): gpus_needed(settings, shape, canvas, size) for size in GPU_SIZES
        },
        "tflops": tflops,
        "seconds_per_update": seconds,
        "hours": total * settings.updates / 3600,
    }


def shape_of(network: Network, settings: AlignSettings) -> Shape:
    """Return what an outlined network costs."""
    blocks = list(network.blocks.modules())
    linear = [m for m in blocks if isinstance(m, nn.Linear)]
    experts = [m for m in blocks if isinstance(m, Experts)]
    chosen = getattr(getattr(network, "config", None), "num_experts_per_tok", 0)
    visited = sum(
        chosen / len(m.down) * (m.gate_up.numel() + m.down.numel()) for m in experts
    )  # fmt: skip
    inner = sum(chosen * (m.gate_up.shape[1] + m.down.shape[2]) for m in experts)
    adapted = 0
    if settings.tuning == "lora":
        named = dict(network.named_modules())
        for target in find_targets(network, settings.lora_targets):
            adapted += settings.lora_rank * sum(named[target].weight.shape)
    return Shape(
        num_parameters=sum(p.numel() for p in network.parameters()),
        per_token=sum(m.weight.numel() for m in linear) + visited,
        mixed=sum(m.num_heads * m.head_dim for m in blocks if isinstance(m, Attention)),
        spread=sum(m.in_features + m.out_features for m in linear) + inner,
        num_layers=len(network.blocks),
        width=network.embedding.weight.shape[1],
        vocab_size=network.vocab_size,
        num_adapted=adapted,
        num_gathered=_gathered(network),
    )


def _gathered(network: Network) -> int:
    """Return what a divided network holds whole at once: its root, and a block and the next."""
    blocks = [sum(p.numel() for p in block.parameters()) for block in network.blocks[:-1]]
    root = sum(p.numel() for p in network.parameters()) - sum(blocks)
    return root + 2 * max(blocks, default=0)


def canvas_of(settings: AlignSettings, folder: Path, block_size: int | None, usual: int) -> RowSize:
    """Return the rows that a training would have, where the task asks for `usual` tokens.

    Of a benchmark no row is read for that.
    """
    prompts = Prompts(settings) if settings.task in TASKS else None
    model = OutlinedModel(find_preset(settings.model, folder), block_size)
    sampler = settings.sampler(model, usual)
    return RowSize(
        num_prompt=_prompt_tokens(prompts, folder), length=sampler.length, block=sampler.block,
        steps=sampler.steps,
    )  # fmt: skip


def _prompt_tokens(prompts: Prompts | None, folder: Path) -> int:
    """Return the mean length of the first prompts, or the usual one where it cannot be known."""
    if prompts is None:
        return PROMPT
    config = read_json(folder / "config.json")
    try:
        tokenizer = Tokenizer.read(folder, config, find_family(config, folder))
    except RemaskError:
        return PROMPT
    texts = [prompts.training(number).prompt for number in range(NUM_ASKED)]
    return round(sum(len(tokenizer.render(prompt)) for prompt in texts) / NUM_ASKED)


def forwards_per_update(
    settings: AlignSettings, canvas: RowSize, block_size: int | None = None
) -> dict[str, float]:
    """Return forward passes of one row per optimizer update, at most, of all processes."""
    s, rows = settings, settings.num_rows
    if s.method == "sft":
        return {"rollout": 0.0, "score": 0.0, "preview": 0.0, "update": float(rows)}
    scored = any(one.scored for one in resolve(s).values())
    passes = passes_of_score(s, canvas, block_size) if scored else 0
    return {
        "rollout": rows * canvas.steps / s.inner_updates,
        "score": rows * passes / s.inner_updates,
        "preview": rows * s.num_copies * passes_before(s),
        "update": float(rows * s.num_copies),
    }


def passes_before(settings: AlignSettings) -> float:
    """Return the passes of a masked copy before it learns, at most: now, at the rollout, at first.

    On the first update after a rollout the model is the one that wrote it.
    """
    s, spg = settings, settings.part(SpgSettings)
    later = (s.inner_updates - 1) / s.inner_updates
    now = float(s.method == "spg" and (spg.uses_upper or spg.restrained))
    if s.method == "regression":
        now = later if s.uses_rollout_model else 1.0
    return now + s.uses_rollout_model * later + s.uses_reference


def passes_of_score(settings: AlignSettings, canvas: RowSize, block_size: int | None) -> int:
    """Return the forward passes that score one completion, at most."""
    if settings.scorer != ROUNDTRIPS:
        names = LABEL_FREE_PROBES if settings.scorer == "verifier" else (settings.probe,)
        model = PricedModel(block_size)
        return sum(price(model, Probe.named(name), canvas.length) for name in names)
    steps = steps_at_once(settings.part(ConsistencySettings), block_size)
    blocks = 1 if block_size is None else -(-canvas.length // block_size)
    return settings.trips * steps * blocks


def seconds_per_update(
    settings: AlignSettings,
    shape: Shape,
    canvas: RowSize,
    forwards: dict[str, float],
    speed: float,
) -> dict[str, float]:
    """Return the seconds of each phase at so many FLOP/s; a pass back costs as its gradients do.

    That is one pass through the activations, one more to the weights where they all learn, and
    one more forward where activations are computed again.
    """
    back = 1 + (settings.tuning == "full") + settings.gradient_checkpointing
    half = canvas.block / 2  # of a block is masked on average; of a copy, half of the canvas
    costs = {
        "rollout": shape.forward_flops(canvas.row, half),
        "score": shape.forward_flops(canvas.row, canvas.length / 2),
        "preview": shape.forward_flops(canvas.row, canvas.length / 2),
        "update": shape.forward_flops(canvas.row, canvas.length / 2) * (1 + back),
    }
    return {phase: forwards[phase] * cost / speed for phase, cost in costs.items()}


def memory_gb(
    settings: AlignSettings, shape: Shape, canvas: RowSize, processes: int = 1
) -> dict[str, float]:
    """Return the memory of one process of several by what takes it."""
    s, mode = settings, settings.sharding_of(processes)
    size = choose_dtype(s.dtype, choose_device(s.device)).itemsize
    full, part = s.tuning == "full", 1 if mode == "none" else processes
    learn = shape.num_parameters if full else shape.num_adapted
    held = 4 if full else size
    weights = shape.num_parameters * held / part
    if mode == "learner" or (full and size < 4 and mode == "none"):
        weights += shape.num_parameters * size  # the copy that writes completions
    if full and s.uses_reference:
        weights += shape.num_parameters * 4  # the start, whole; it scores too, where it is to
    elif full and s.scored_by == "start" and any(one.scored for one in resolve(s).values()):
        weights += shape.num_parameters * size  # the copy that scores
    summed = 0 if part > 1 or processes == 1 else 2 * min(learn, BUCKET)  # a bucket and its sum
    tokens = s.micro_batch * canvas.row
    stored = 1.5 * shape.spread * size
    if s.gradient_checkpointing:
        stored = stored / shape.num_layers + shape.num_layers * shape.width * size
    logits = min(s.micro_batch * canvas.length * shape.vocab_size, LOGITS)
    memory = {
        "weights": weights / 1e9,
        "adapters": 0.0 if full else 4 * learn / part / 1e9,
        "gradients": 4 * (learn / part + summed) / 1e9,
        "optimizer": 8 * learn / part / 1e9,
        # Where weights are divided: some of them whole, and their gradients.
        "gathered": 0.0 if part == 1 else shape.num_gathered * (held + 4 * full) / 1e9,
        "activations": tokens * stored / 1e9,
        "logits": 3 * 4 * logits / 1e9,  # themselves, their exponentials, their gradients
    }
    return {**memory, "total": sum(memory.values())}


def gpus_needed(
    settings: AlignSettings, shape: Shape, canvas: RowSize, gigabytes: int
) -> int | None:
    """Return the fewest GPUs of a size that can train; None where no number of them can.

    Each has the same number of prompts, and a tenth of its memory is left to what is not counted.
    """
    num = settings.prompts_per_update
    for processes in (n for n in range(1, num + 1) if num % n == 0):
        if memory_gb(settings, shape, canvas, processes)["total"] <= 0.9 * gigabytes:
            return processes
    return None
