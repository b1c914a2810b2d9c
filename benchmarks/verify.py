"""What one verified answer costs: seconds, forward passes per second, memory.

    python benchmarks/verify.py                                 the embedded model, on the CPU
    python benchmarks/verify.py --model FOLDER                  another checkpoint
    python benchmarks/verify.py --shape llada8b --device cuda   LLaDA-8B's shape, random weights;
                                                                also dream7b, lladamoe

With a model, answers are verified one at a time, texts and metrics included. With a shape, the
model part alone is measured (speed does not depend on the weights, and texts would need a
tokenizer): `round_trips` against a plain re-implementation of the loop that public code uses, on
the same masks, in the same process. An uninstalled checkout runs with PYTHONPATH=src; a shape needs
no more packages than torch and tokenizers. How good a score is belongs to the studies, not here.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from remask.consistency.cycle import ConsistencySettings, round_trips
from remask.denoisers import dream, llada, llada_moe
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.experts import Experts
from remask.denoisers.load import choose_device, choose_dtype, load
from remask.denoisers.native import Family, NativeDenoiser, Network
from remask.denoisers.save import write_text
from remask.denoisers.transformer import Attention
from remask.sampling.reveal import even_counts
from remask.values import RoundTrips, Sample

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ConsistencySettings()  # the paper's: 4 trips of 16 steps, 90 % masked
WARM_UP = replace(SETTINGS, rebuild_steps=2)  # same tensors as a whole run, an eighth of its time
PROMPT = 96  # the longest prompt, in tokens, of the levels the embedded model was trained on
LEVELS = ("easy", "medium", "hard")  # of word problems; the first two were trained
PUBLIC_ANSWERS = 4  # the public loop takes answers one by one; four outlast a burst of clock speed
EAGER_ANSWERS = 8  # without the compiler, larger batches only take longer

SHAPE_NOTES = (
    "Random weights and a stub tokenizer: the model part alone, no texts, no metrics.",
    f"Warm-up: the same call with {WARM_UP.rebuild_steps} rebuild steps, compilation included; "
    "the device is synchronized before and after every timed call.",
    "seconds_per_answer: median over repetitions. ratio: uncompiled public loop / this row. The "
    f"public loop takes {PUBLIC_ANSWERS} answers in turn, the trips of each in one batch.",
    "tokens_per_second counts every position, prompt included, of every forward. "
    "FLOPs: 2 x matrices x positions + 4 x length x width x layers x positions + the head, "
    "on masked rows for ours and on every position for the public loop.",
)
MODEL_NOTES = (
    "Right solutions of wordmath on the canvas of their level, verified one at a time with the "
    "metric set paper; one answer beforehand as warm-up, encoder included. Medians over answers; "
    "the first row is over the two trained levels together, so many answers of each.",
    "forwards_per_second is over the rebuild part.",
    "peak_resident_gb: ru_maxrss of the process, model, encoder and libraries together.",
)

STARTED = time.perf_counter()
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A network and the answer it verifies."""

    family: Family
    config: dict[str, Any]  # as in config.json
    mask_id: int
    eos_id: int  # the first special id: smaller ones stand for text
    num_prompt: int = 200
    num_response: int = 256
    matmul: int = 8192  # side of the square matrices that measure the hardware's peak


LLADA_8B = {
    "d_model": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32, "mlp_hidden_size": 12288,
    "vocab_size": 126464, "max_sequence_length": 4096,
}  # fmt: skip
TOY = {
    "d_model": 32, "n_layers": 2, "n_heads": 2, "n_kv_heads": 2, "mlp_hidden_size": 64,
    "vocab_size": 256, "max_sequence_length": 64,
}  # fmt: skip
DREAM_7B = {
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
    "rope_theta": 1e6, "max_position_embeddings": 131072,
}  # fmt: skip
LLADA_MOE = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
    "expert_intermediate_size": 1024, "qk_layernorm": True, "rope_theta": 50000,
    "vocab_size": 157184, "max_position_embeddings": 8192,
}  # fmt: skip
SHAPES = {
    "llada8b": Shape(family=llada.FAMILY, config=LLADA_8B, mask_id=126336, eos_id=126081),
    "dream7b": Shape(family=dream.FAMILY, config=DREAM_7B, mask_id=151666, eos_id=151643),
    "lladamoe": Shape(family=llada_moe.FAMILY, config=LLADA_MOE, mask_id=156895, eos_id=156892),
    "toy": Shape(
        family=llada.FAMILY, config=TOY, mask_id=255, eos_id=254, num_prompt=12, num_response=16,
        matmul=128,
    ),
}  # fmt: skip


class Timed(NamedTuple):
    """A repeated call."""

    seconds: list[float]  # one per repetition
    memory_gb: float  # peak: allocated on the device, or resident on the CPU
    result: Any  # of the last repetition


def build(shape: Shape, device: torch.device) -> NativeDenoiser:
    """Return a denoiser of this shape with normal(0, 0.02) weights, made on the device itself."""
    with torch.device("meta"):
        model = shape.family.build(shape.config)
    model = model.to(choose_dtype("auto", device)).to_empty(device=device)
    generator = torch.Generator(device).manual_seed(0)
    for parameter in model.requires_grad_(False).eval().parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 0.02, generator=generator)
        else:
            parameter.fill_(1)  # the scales of the norms
    # The ids that round trips need, and no text.
    tokenizer: Any = SimpleNamespace(
        mask_id=shape.mask_id, eos_id=shape.eos_id, pad_id=shape.eos_id, decode=lambda ids: ""
    )
    return NativeDenoiser(name="random", model=model, tokenizer=tokenizer, preset=Preset())


def random_answers(shape: Shape, number: int) -> list[Sample]:
    """Return answers of random tokens that fill the canvas: no end token, no mask token."""
    generator = torch.Generator().manual_seed(0)
    size = (number, shape.num_prompt + shape.num_response)
    rows = torch.randint(0, shape.eos_id, size, generator=generator).tolist()
    return [
        Sample(
            item=str(i),
            prompt=tuple(row[: shape.num_prompt]),
            canvas=tuple(row[shape.num_prompt :]),
            num_response=shape.num_response,
            text="",
        )
        for i, row in enumerate(rows)
    ]


def masked_rows(trips: RoundTrips, mask_id: int, device: torch.device) -> Tensor:
    """Return what the round trips of one answer started from, (N, L)."""
    canvas = torch.tensor(trips.sample.canvas).masked_fill(trips.masked, mask_id)  # (N, C)
    prompt = torch.tensor(trips.sample.prompt).expand(len(canvas), -1)
    return torch.cat([prompt, canvas], 1).to(device)


@torch.no_grad()
def public_loop(denoiser: NativeDenoiser, rows: Tensor, steps: int) -> Tensor:
    """Return rows (B, L) rebuilt as public code does it.

    Logits at every position, softmax in float64, and for each row a top-k whose k is read from
    the device. Greedy, the same number of tokens in every step.
    """
    mask_id = denoiser.tokenizer.mask_id
    rows = rows.clone()
    reveals = even_counts((rows == mask_id).sum(1), steps)  # (S, B)
    for step in range(steps):
        logits = denoiser.model.project(denoiser.model(rows))  # (B, L, V)
        found = logits.argmax(-1)
        probs = logits.double().softmax(-1).gather(-1, found[..., None])[..., 0]  # (B, L)
        confidence = probs.masked_fill(rows != mask_id, -torch.inf)
        for i in range(len(rows)):
            positions = confidence[i].topk(int(reveals[step, i])).indices
            rows[i, positions] = found[i, positions]
    return rows


def rows_asked(trips: Sequence[RoundTrips], steps: int) -> int:
    """Return how many rows `round_trips` sends to the head: what is still masked at each step."""
    num_masked = torch.cat([t.masked.sum(1) for t in trips])  # (B,)
    return sum(int((num_masked * (steps - k) // steps).sum()) for k in range(steps))


def flops_of(network: Network, length: int, positions: int, head_rows: int) -> float:
    """Return the arithmetic of so many positions through the trunk and rows through the head."""
    matrices = mixed = 0
    for module in network.blocks.modules():
        if isinstance(module, torch.nn.Linear):
            matrices += module.weight.numel()
        elif isinstance(module, Attention):
            mixed += module.num_heads * module.head_dim
        elif isinstance(module, Experts):
            chosen = network.config.num_experts_per_tok / len(module.down)
            matrices += chosen * (module.gate_up.numel() + module.down.numel())
    per_position = 2.0 * matrices + 4 * length * mixed  # attention: scores and mixing
    return positions * per_position + 2.0 * network.embedding.weight.numel() * head_rows


def timed(work: Callable[[], Any], repetitions: int, device: torch.device) -> Timed:
    """Return the time of each call, the device idle before and after."""
    module: Any = torch.cuda if device.type == "cuda" else torch.cpu
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(repetitions):
        module.synchronize()  # CUDA calls return before their work is done
        start = time.perf_counter()
        result = work()
        module.synchronize()
        seconds.append(time.perf_counter() - start)
    return Timed(seconds, peak_memory_gb(device), result)


def peak_memory_gb(device: torch.device) -> float:
    """Return the peak allocated on CUDA since it was reset, or ever resident on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def matmul_tflops(side: int, device: torch.device) -> float:
    """Return the speed of large matrix products in the model's dtype, TFLOP/s."""
    dtype = choose_dtype("auto", device)
    a, b = torch.randn(2, side, side, device=device, dtype=dtype)
    timed(lambda: a @ b, 3, device)
    number = 20
    seconds = timed(lambda: [a @ b for _ in range(number)], 1, device).seconds[0]
    return 2 * side**3 * number / seconds / 1e12


def measure_ours(
    denoiser: NativeDenoiser, shape: Shape, answers: int, repetitions: int, compiled: bool
) -> Row:
    """Return the cost of the library's round trips of `answers` answers at once."""
    samples = random_answers(shape, answers)
    round_trips(denoiser, samples, WARM_UP)
    call = timed(lambda: round_trips(denoiser, samples, SETTINGS), repetitions, denoiser.device)
    row = {"loop": "ours", "compiled": compiled, "answers": answers}
    return row | costs(
        denoiser.model, shape, answers, call, rows_asked(call.result, SETTINGS.rebuild_steps)
    )


def measure_public(
    denoiser: NativeDenoiser, shape: Shape, jobs: Sequence[Tensor], repetitions: int, compiled: bool
) -> Row:
    """Return the cost of the public loop on masked answers, one after the other."""
    public_loop(denoiser, jobs[0], WARM_UP.rebuild_steps)
    steps = SETTINGS.rebuild_steps
    call = timed(
        lambda: [public_loop(denoiser, j, steps) for j in jobs], repetitions, jobs[0].device
    )
    row = {"loop": "public", "compiled": compiled, "answers": 1}
    return row | costs(denoiser.model, shape, len(jobs), call)


def costs(
    network: Network, shape: Shape, answers: int, call: Timed, head_rows: int | None = None
) -> Row:
    """Return the columns of a timed call; the head sees every position unless said otherwise."""
    seconds = median(call.seconds)
    forwards = answers * SETTINGS.trips * SETTINGS.rebuild_steps
    length = shape.num_prompt + shape.num_response
    positions = forwards * length
    flops = flops_of(network, length, positions, positions if head_rows is None else head_rows)
    return {
        "seconds": call.seconds,
        "seconds_per_answer": seconds / answers,
        "forwards_per_second": forwards / seconds,
        "tokens_per_second": positions / seconds,
        "tflops": flops / seconds / 1e12,
        "peak_memory_gb": call.memory_gb,
    }


def shape_rows(shape: Shape, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows: the public loop first, then ours, then both with compiled blocks."""
    denoiser = build(shape, choose_device(arguments.device))
    trips = round_trips(denoiser, random_answers(shape, PUBLIC_ANSWERS), WARM_UP)
    jobs = [masked_rows(t, shape.mask_id, denoiser.device) for t in trips]
    yield measure_public(denoiser, shape, jobs, arguments.repetitions, compiled=False)
    for answers in arguments.answers:
        if answers <= EAGER_ANSWERS or arguments.eager:
            turns = arguments.repetitions if arguments.eager else 1
            yield measure_ours(denoiser, shape, answers, turns, compiled=False)
    if arguments.eager:
        return
    denoiser.model.compile_blocks()
    for answers in arguments.answers:
        yield measure_ours(denoiser, shape, answers, arguments.repetitions, compiled=True)
    if 1 in arguments.answers:  # blocks are compiled for each shape: this one is there already
        yield measure_public(denoiser, shape, jobs, 1, compiled=True)


def measure_shape(arguments: argparse.Namespace) -> Row:
    """Return the report on a shape."""
    shape, device = SHAPES[arguments.shape], choose_device(arguments.device)
    peak = matmul_tflops(shape.matmul, device)
    rows: list[Row] = []
    for row in shape_rows(shape, arguments):
        base = (rows[0] if rows else row)["seconds_per_answer"]
        row |= {"peak_share": row["tflops"] / peak, "ratio": base / row["seconds_per_answer"]}
        rows.append(row)
        elapsed = time.perf_counter() - STARTED
        print(f"{elapsed:.1f} s: {len(rows)} rows measured", file=sys.stderr, flush=True)
    return {
        "name": f"verify-{arguments.shape}-{device.type}",
        "device": device.type,
        "dtype": str(choose_dtype("auto", device)).removeprefix("torch."),
        "shape": {**vars(shape), "family": shape.family.architecture},
        "matmul_tflops": peak,
        "results": rows,
        "notes": SHAPE_NOTES,
    }


def solved_answers(denoiser: Denoiser, number: int, level: str) -> list[Sample]:
    """Return right solutions of word problems, with EOS up to the end of the canvas."""
    from remask.tasks.wordmath import WordMath

    tokenizer, room = denoiser.tokenizer, WordMath().canvas_length(level)
    out: list[Sample] = []
    for i in range(20 * number):
        problem = WordMath().problem(i, level=level)
        ask, tell = tokenizer.render(problem.prompt), tokenizer.encode(problem.solution)
        if len(ask) <= PROMPT and len(tell) < room:
            canvas = (*tell, *[tokenizer.eos_id] * (room - len(tell)))
            prompt, used, text = tuple(ask), len(tell) + 1, tokenizer.decode(canvas)
            out.append(
                Sample(item=problem.id, prompt=prompt, canvas=canvas, num_response=used, text=text)
            )
        if len(out) == number:
            return out
    raise SystemExit(
        f"{len(out)} of {20 * number} problems fit prompts of {PROMPT} tokens and a "
        f"canvas of {room}, too few for --samples {number}; use a model trained on these tasks."
    )


def verify_each(denoiser: Denoiser, samples: Sequence[Sample]) -> Iterator[dict[str, float]]:
    """Yield the seconds that each answer took, part by part.

    The encoder's share is what the metric set `paper` takes beyond `core`, which lacks only it.
    """
    # Here and not above: rapidfuzz and the encoder come with it, and a shape needs neither.
    from remask.consistency.estimator import Consistency
    from remask.tasks.wordmath import WordMath

    paper = Consistency(denoiser=denoiser, extract=WordMath().extract, settings=SETTINGS)
    core = replace(paper, metric_set="core")
    paper.score(samples[:1])  # loads the encoder, fills the caches of every library
    for sample in samples:
        rebuilt = timed(partial(round_trips, denoiser, [sample], SETTINGS), 1, denoiser.device)
        measured = timed(partial(paper.measure, rebuilt.result), 1, denoiser.device)
        text = timed(partial(core.measure, rebuilt.result), 1, denoiser.device)
        yield {
            "seconds_per_answer": rebuilt.seconds[0] + measured.seconds[0],
            "rebuild_s": rebuilt.seconds[0],
            "text_metrics_s": text.seconds[0],
            "encoder_s": max(0.0, measured.seconds[0] - text.seconds[0]),
        }


def middle(each: Sequence[dict[str, float]], forwards: int) -> Row:
    """Return the medians over answers, and what follows from them."""
    found: Row = {part: median(row[part] for row in each) for part in each[0]}
    found["forwards_per_second"] = forwards / found["rebuild_s"]
    return found | {"peak_resident_gb": peak_memory_gb(torch.device("cpu"))}


def measure_model(arguments: argparse.Namespace) -> Row:
    """Return the report on a checkpoint: whole verifications, one answer at a time."""
    denoiser = load(arguments.model, device=arguments.device)
    levels = {
        level: list(verify_each(denoiser, solved_answers(denoiser, arguments.samples, level)))
        for level in LEVELS
    }
    trained = [row for level in LEVELS[:2] for row in levels[level]]
    forwards = SETTINGS.trips * SETTINGS.rebuild_steps * denoiser.forwards_per_call
    rows = [
        {"level": level, "answers": len(each)} | middle(each, forwards)
        for level, each in {"easy, medium": trained, **levels}.items()
    ]
    return {
        "name": f"verify-{Path(arguments.model).name}-{denoiser.device.type}",
        "device": denoiser.device.type,
        "model": str(arguments.model),
        "results": rows,
        "each": levels,
        "notes": MODEL_NOTES,
    }


def surroundings() -> Row:
    """Return what the numbers depend on besides the code."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    versions = {"remask": ours, "python": platform.python_version()}
    versions |= {p: importlib.metadata.version(p) for p in ("torch", "numpy", "tokenizers")}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    return {"hardware": hardware(), "versions": versions, "commit": commit()}


def hardware() -> str:
    """Return the GPU where there is one, the processor, its cores and the threads in use."""
    listing = Path("/proc/cpuinfo")
    text = listing.read_text() if listing.exists() else ""
    name = text.partition("model name")[2].partition("\n")[0].strip("\t: ") or platform.machine()
    gpu = f"{torch.cuda.get_device_name()}; " if torch.cuda.is_available() else ""
    return f"{gpu}{name}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def commit() -> str:
    """Return the commit, marked where files differ from it; "unknown" outside a repository."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def show(report: Row) -> None:
    """Print the table with its surroundings and notes."""
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in report["results"]]
    shown = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in r.values()] for r in rows]
    cells = [list(rows[0]), *shown]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    if "matmul_tflops" in report:
        print(f"square matmuls reach {report['matmul_tflops']:.3g} TFLOP/s in {report['dtype']}")
    print(report["hardware"])
    print(", ".join(f"{k} {v}" for k, v in report["versions"].items()), "commit", report["commit"])
    for note in report["notes"]:
        print(f"- {note}")


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure what one verified answer costs.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--model", default="tiny", help="'tiny' or a checkpoint folder")
    what.add_argument("--shape", choices=SHAPES, help="random weights of this shape instead")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--samples", type=int, default=24, help="answers, with a model")
    parser.add_argument(
        "--answers", type=int, nargs="+", default=[1, 8], help="answers at once, with a shape"
    )
    parser.add_argument("--repetitions", type=int, default=2, help="timed calls, with a shape")
    parser.add_argument("--eager", action="store_true", help="do not compile the blocks of a shape")
    parser.add_argument("--out", type=Path, help="JSON file, else benchmarks/results/NAME.json")
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> None:
    """Measure, print the table, write the JSON."""
    arguments = read_arguments(command)
    measured = measure_shape(arguments) if arguments.shape else measure_model(arguments)
    said = [word for word in command if word not in ("--out", str(arguments.out))]
    report = {
        "command": shlex.join(["python", "benchmarks/verify.py", *said]),
        **surroundings(),
        "settings": asdict(SETTINGS),
        **measured,
        "seconds_in_all": time.perf_counter() - STARTED,
    }
    out = arguments.out or ROOT / "benchmarks" / "results" / f"{report['name']}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, json.dumps(report, indent=2) + "\n")
    show(report)
    print(f"written to {out}")


if __name__ == "__main__":
    main(sys.argv[1:])
