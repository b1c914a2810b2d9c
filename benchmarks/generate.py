"""What a written answer costs: tokens per second, forward passes per second, memory.

    python benchmarks/generate.py --shape llada8b --device cuda   LLaDA-8B's shape, random weights;
                                                                  also dream7b, lladamoe,
                                                                  llada21mini

`sample` with the settings that the authors publish against a plain re-implementation of their own
loop, in the same process, on random weights. Speed at one token per forward is measured: how many
tokens a forward reveals where a threshold decides depends on the weights, and random ones are never
sure. An uninstalled checkout runs with PYTHONPATH=src and no more packages than torch and
tokenizers. What a verified answer costs is measured by verify.py.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import torch
from lib.meter import Timed, matmul_tflops, timed
from lib.public import public_experts, write
from lib.report import Report, Row, progress
from lib.shapes import SHAPES, Shape, build, compile_blocks, random_tokens, windows
from lib.work import Work, block_by_block, up_to_each, whole, work_of

from remask.denoisers.devices import choose_device
from remask.denoisers.native import NativeDenoiser
from remask.sampling.sampler import sample
from remask.sampling.schedule import dream_schedule, even_schedule
from remask.sampling.settings import DREAM_ORDERS, SamplerSettings
from remask.values import Sample

NOTES = (
    "Random weights and a stub tokenizer that knows no end token: every row is written to its end.",
    "A part of the answer is timed, over a canvas of full length: shape.writing says which. "
    "Warm-up: the same call with the fewest steps, compilation included; the device is "
    "synchronized before and after every timed call.",
    "tokens_per_second: of all rows together, at one token per row and forward, as the published "
    "schedules have it without a threshold. Real weights reveal several tokens where a threshold "
    "is met; random ones never meet it, and the price of asking is in the figures. The last block "
    "of a block-causal model is written whole, and counted whole, although the answer is then cut.",
    "ratio: tokens per second over those of the uncompiled public loop, which writes one answer at "
    "a time. FLOPs as in verify.py.",
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A network on a device, and what it writes."""

    shape: Shape
    denoiser: NativeDenoiser
    repetitions: int

    @property
    def settings(self) -> SamplerSettings:
        """Of the timed part."""
        return self.shape.writing.settings

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return self.shape.writing.num_given + self.settings.length

    @property
    def steps(self) -> list[int]:
        """Forward passes of each window; where a threshold decides, each reveals one token."""
        parts = self.windows
        if self.settings.reveal_threshold is not None:
            return [part.stop - part.start for part in parts]
        return [self.settings.steps // len(parts)] * len(parts)

    @property
    def windows(self) -> list[slice]:
        """What is written one after another."""
        start, block = self.shape.writing.num_given, self.settings.block
        if self.denoiser.block_size is not None:
            return windows(start, self.length, self.denoiser.block_size)
        return [slice(first, first + block) for first in range(start, self.length, block)]

    def work(self, rows: int, *, public: bool) -> Work:
        """Return the work of so many rows."""
        block_size = self.denoiser.block_size
        if block_size is None:
            passes = whole(self.length, sum(self.steps))
        elif public:
            passes = up_to_each(self.windows, self.steps)
        else:
            passes = block_by_block(self.windows, self.steps, block_size)
        head_rows = None if public else rows * self.rows_asked()
        forwards = rows * sum(self.steps)
        return work_of(
            self.denoiser.model, passes, rows=rows, forwards=forwards, head_rows=head_rows
        )

    def rows_asked(self) -> int:
        """Return how many rows of one answer go to the head: what is still masked at each step."""
        counts = dream_schedule if self.settings.order in DREAM_ORDERS else even_schedule
        total = 0
        for part, steps in zip(self.windows, self.steps, strict=True):
            num_masked = part.stop - part.start
            reveals = counts(torch.tensor([num_masked]), steps)[:, 0]  # (S,)
            total += int((num_masked - reveals.cumsum(0) + reveals).sum())
        return total

    def fewest(self) -> SamplerSettings:
        """Return the settings with as few steps as there may be: two of a single block."""
        blocks = self.settings.length // self.settings.block
        return replace(self.settings, steps=max(2, blocks), reveal_threshold=None)


def answers_of(
    bench: Bench, prompts: Sequence[Sequence[int]], settings: SamplerSettings
) -> list[Sample]:
    """Return the library's answers."""
    return sample(bench.denoiser, prompts, settings, items=[str(i) for i in range(len(prompts))])


def measure(bench: Bench, rows: int, *, public: bool, compiled: bool) -> Row:
    """Return the cost of writing so many answers at once."""
    loop = "public" if public else "ours"
    progress(f"{loop}, {rows} rows at once, {'compiled' if compiled else 'eager'}")
    device = bench.denoiser.device
    prompts = random_tokens(bench.shape, rows, bench.shape.writing.num_given)
    work = partial(write, bench.denoiser) if public else partial(answers_of, bench)
    warm_up = timed(partial(work, prompts, bench.fewest()), 1, device)
    call = timed(partial(work, prompts, bench.settings), bench.repetitions, device)
    row = {"loop": loop, "compiled": compiled, "rows": rows}
    found = costs(bench, rows, call, bench.work(rows, public=public))
    return row | found | {"warm_up_s": warm_up.seconds[0]}


def costs(bench: Bench, rows: int, call: Timed, work: Work) -> Row:
    """Return the columns of a timed call."""
    seconds, steps = median(call.seconds), sum(bench.steps)
    return {
        "canvas": bench.length,
        "timed_steps": steps,
        "seconds": call.seconds,
        "steps_per_second": steps / seconds,
        "forwards_per_second": work.forwards / seconds,
        "tokens_per_second": rows * steps / seconds,
        "seconds_per_answer": bench.shape.writing.steps * seconds / steps / rows,
        "tflops": work.flops / seconds / 1e12,
        "peak_memory_gb": call.memory_gb,
    }


def shape_rows(bench: Bench, batches: Sequence[int], eager: bool) -> Iterator[Row]:
    """Yield the rows: the public loop and ours, one answer at a time, then ours compiled."""
    with public_experts(bench.denoiser.model):
        yield measure(bench, 1, public=True, compiled=False)
    blocks = bench.denoiser.block_size is not None  # short passes, which gain most from compiling
    for rows in batches if eager or blocks else batches[:1]:
        yield measure(bench, rows, public=False, compiled=False)
    if eager:
        return
    compile_blocks(bench.denoiser)
    for rows in batches:
        yield measure(bench, rows, public=False, compiled=True)


def measure_shape(arguments: argparse.Namespace, words: Sequence[str]) -> Report:
    """Return the report on a shape."""
    shape, device = SHAPES[arguments.shape], choose_device(arguments.device)
    peak = matmul_tflops(shape.matmul, device)
    report = Report.of_shape(
        "generate", arguments, words, shape.described(), peak, {"notes": NOTES}
    )
    bench = Bench(shape=shape, denoiser=build(shape, device), repetitions=arguments.repetitions)
    base: float | None = None
    for row in shape_rows(bench, arguments.batches, arguments.eager):
        base = base or row["tokens_per_second"]
        row |= {"peak_share": row["tflops"] / peak, "ratio": row["tokens_per_second"] / base}
        report.add(row)
        progress(f"{row['tokens_per_second']:.1f} tokens/s, {row['ratio']:.2f} x the public")
    return report


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure what a written answer costs.")
    parser.add_argument("--shape", choices=SHAPES, required=True, help="random weights of it")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8], help="answers at once")
    parser.add_argument("--repetitions", type=int, default=2, help="timed calls")
    parser.add_argument("--eager", action="store_true", help="do not compile the blocks")
    parser.add_argument("--out", type=Path, help="JSON file, else benchmarks/results/NAME.json")
    return parser.parse_args(arguments)


def main(words: Sequence[str]) -> None:
    """Measure, print the table, write the JSON."""
    measure_shape(read_arguments(words), words).show()


if __name__ == "__main__":
    main(sys.argv[1:])
