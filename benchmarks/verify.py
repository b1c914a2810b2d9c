"""What one verified answer costs: seconds, forward passes per second, memory.

    python benchmarks/verify.py                                 the embedded model, on the CPU
    python benchmarks/verify.py --model FOLDER                  another checkpoint
    python benchmarks/verify.py --shape llada8b --device cuda   LLaDA-8B's shape, random weights;
                                                                also dream7b, lladamoe, llada21mini
    python benchmarks/verify.py --probe ...                     probes too, beside the round trips

With a model, answers are verified one at a time, texts and metrics included. With a shape, the
model part alone is measured (speed does not depend on the weights, and texts would need a
tokenizer): `round_trips` against a plain re-implementation of the loop that public code uses, on
the same masks, in the same process. An uninstalled checkout runs with PYTHONPATH=src; a shape needs
no more packages than torch and tokenizers. How good a score is belongs to the studies, not here.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import torch
from lib import checkpoint, figures
from lib.meter import Timed, matmul_tflops, timed
from lib.probing import NOTES as PROBE_NOTES
from lib.probing import SETS, num_passes, probe_work, read_set
from lib.public import public_experts, rebuild
from lib.report import Report, Row, progress
from lib.shapes import SHAPES, Shape, build, compile_blocks, random_answers, windows
from lib.work import Work, block_by_block, up_to_each, whole, work_of
from torch import Tensor

from remask.consistency.roundtrips import round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.devices import choose_device
from remask.denoisers.experts import Experts
from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser
from remask.values import RoundTrips

SETTINGS = ConsistencySettings()  # the paper's: 4 trips of 16 steps, 90 % masked
WARM_UP = replace(SETTINGS, rebuild_steps=2)  # same tensors as a whole run, an eighth of its time
PUBLIC_ANSWERS = 2  # the public loop takes answers one by one; two outlast a burst of clock speed
PUBLIC_BLOCK_STEPS = 2  # of each block: sixteen would take the public loop most of a minute
# Without the compiler, larger batches only take longer; short passes gain most from it.
EAGER_ANSWERS, EAGER_BLOCKS = 1, 8

NOTES = (
    "Random weights and a stub tokenizer: the model part alone, no texts, no metrics.",
    f"Warm-up: the same call with {WARM_UP.rebuild_steps} rebuild steps, compilation included; "
    "the device is synchronized before and after every timed call.",
    "seconds_per_answer: median over repetitions. ratio: uncompiled public loop / this row. The "
    f"public loop takes {PUBLIC_ANSWERS} answers in turn, the trips of each in one batch. Where "
    f"the model is block-causal it is timed over {PUBLIC_BLOCK_STEPS} steps of each block, all of "
    "which cost the same, and scaled to all.",
    "tokens_per_second counts every position, prompt included, of every forward. "
    "FLOPs: 2 x matrices x positions + 4 x length x width x layers x positions + the last MLP and "
    "the head, on masked rows for ours and on every position for the public loop. A block-causal "
    "model is "
    "charged with what it needs: the prompt once, each block in its own steps and, unless it is "
    "the last, once more.",
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A network on a device, and how long the row is that it verifies."""

    shape: Shape
    denoiser: NativeDenoiser
    repetitions: int
    probes: bool = False  # are measured too

    @property
    def length(self) -> int:
        """Tokens of a row."""
        return self.shape.num_prompt + self.shape.num_response

    @property
    def windows(self) -> list[slice]:
        """What is rebuilt one after another: the whole canvas, or its blocks."""
        return windows(self.shape.num_prompt, self.length, self.denoiser.block_size)

    def work(self, answers: int, head_rows: int | None) -> Work:
        """Return the work of so many answers: ours, or the public loop's where no rows are told."""
        steps, block_size = SETTINGS.rebuild_steps, self.denoiser.block_size
        each = [steps] * len(self.windows)
        if block_size is None:
            passes = whole(self.length, steps)
        elif head_rows is None:
            passes = up_to_each(self.windows, each)
        else:
            passes = block_by_block(self.windows, each, block_size)
        rows = answers * SETTINGS.trips
        return work_of(
            self.denoiser.model, passes, rows=rows, forwards=rows * sum(each), head_rows=head_rows
        )


def masked_rows(trips: RoundTrips, mask_id: int, device: torch.device) -> Tensor:
    """Return what the round trips of one answer started from, (N, L)."""
    canvas = torch.tensor(trips.sample.canvas).masked_fill(trips.masked, mask_id)  # (N, C)
    prompt = torch.tensor(trips.sample.prompt).expand(len(canvas), -1)
    return torch.cat([prompt, canvas], 1).to(device)


def rows_asked(trips: Sequence[RoundTrips], steps: int, parts: Sequence[slice]) -> int:
    """Return how many rows `round_trips` sends to the head: what is still masked at each step."""
    masked = torch.cat([t.masked for t in trips])  # (B, C)
    num_masked = torch.stack([masked[:, part].sum(1) for part in parts])  # (parts, B)
    return sum(int((num_masked * (steps - k) // steps).sum()) for k in range(steps))


def measure_ours(bench: Bench, answers: int, *, compiled: bool) -> Row:
    """Return the cost of the library's round trips of `answers` answers at once."""
    progress(f"ours, {answers} answers at once, {'compiled' if compiled else 'eager'}")
    samples, device = random_answers(bench.shape, answers), bench.denoiser.device
    warm_up = timed(partial(round_trips, bench.denoiser, samples, WARM_UP), 1, device)
    call = timed(partial(round_trips, bench.denoiser, samples, SETTINGS), bench.repetitions, device)
    start = bench.shape.num_prompt
    parts = [slice(w.start - start, w.stop - start) for w in bench.windows]
    work = bench.work(answers, rows_asked(call.result, SETTINGS.rebuild_steps, parts))
    row = {"loop": "ours", "compiled": compiled, "answers": answers}
    return row | costs(work, answers, call) | {"warm_up_s": warm_up.seconds[0]}


def measure_probes(bench: Bench, answers: int, name: str, *, compiled: bool) -> Row:
    """Return the cost of a set of probes of `answers` answers at once."""
    progress(f"{name}, {answers} answers at once, {'compiled' if compiled else 'eager'}")
    samples, denoiser = random_answers(bench.shape, answers), bench.denoiser
    warm_up = timed(partial(probe_work, denoiser, samples, SETS[name]), 1, denoiser.device)
    call = timed(
        partial(read_set, denoiser, samples, SETS[name]), bench.repetitions, denoiser.device
    )
    row = {"loop": name, "compiled": compiled, "answers": answers}
    return row | costs(warm_up.result, answers, call) | {"warm_up_s": warm_up.seconds[0]}


def measure_library(bench: Bench, answers: int, *, compiled: bool) -> Iterator[Row]:
    """Yield what the library does at one size of batch: round trips, then probes if asked for."""
    ours = measure_ours(bench, answers, compiled=compiled)
    yield ours
    step = ours["seconds_per_answer"] / (SETTINGS.trips * SETTINGS.rebuild_steps)
    for name in SETS if bench.probes else ():
        row = measure_probes(bench, answers, name, compiled=compiled)
        ratio = row["seconds_per_answer"] / num_passes(SETS[name]) / step
        yield row | {"pass_over_step": ratio}


def measure_public(bench: Bench, jobs: Sequence[Tensor], *, compiled: bool) -> Row:
    """Return the cost of the public loop on masked answers, one after the other."""
    progress(f"the public loop, {'compiled' if compiled else 'eager'}")
    start, device = bench.shape.num_prompt, jobs[0].device
    blocks = bench.denoiser.block_size is not None
    steps = PUBLIC_BLOCK_STEPS if blocks else SETTINGS.rebuild_steps
    with public_experts(bench.denoiser.model):
        warm_up = timed(partial(rebuild, bench.denoiser, jobs[0], start, 1), 1, device)
        call = timed(
            lambda: [rebuild(bench.denoiser, job, start, steps) for job in jobs],
            bench.repetitions,
            device,
        )
    scale = SETTINGS.rebuild_steps / steps
    call = call._replace(seconds=[scale * seconds for seconds in call.seconds])
    row = {"loop": "public", "compiled": compiled, "answers": 1}
    work = bench.work(len(jobs), None)
    return row | costs(work, len(jobs), call) | {"warm_up_s": warm_up.seconds[0]}


def costs(work: Work, answers: int, call: Timed) -> Row:
    """Return the columns of a timed call."""
    seconds = median(call.seconds)
    return {
        "seconds": call.seconds,
        "seconds_per_answer": seconds / answers,
        "forwards_per_second": work.forwards / seconds,
        "tokens_per_second": work.positions / seconds,
        "tflops": work.flops / seconds / 1e12,
        "peak_memory_gb": call.memory_gb,
    }


def shape_rows(bench: Bench, batches: Sequence[int], eager: bool) -> Iterator[Row]:
    """Yield the rows: the public loop first, then ours, then both with compiled blocks.

    The passes of a block-causal model are short, so that it gains most from being compiled: how
    much is measured at a larger batch as well.
    """
    shape, denoiser = bench.shape, bench.denoiser
    trips = round_trips(denoiser, random_answers(shape, PUBLIC_ANSWERS), WARM_UP)
    jobs = [masked_rows(t, shape.mask_id, denoiser.device) for t in trips]
    yield measure_public(bench, jobs, compiled=False)
    most = EAGER_ANSWERS if denoiser.block_size is None else EAGER_BLOCKS
    for answers in batches:
        if eager or answers <= most:
            yield from measure_library(bench, answers, compiled=False)
    if eager:
        return
    compile_blocks(denoiser)
    for answers in batches:
        yield from measure_library(bench, answers, compiled=True)
    # Blocks are compiled for each shape: this one is there already. Experts would be traced anew.
    if 1 in batches and not any(isinstance(m, Experts) for m in denoiser.model.modules()):
        yield measure_public(replace(bench, repetitions=1), jobs, compiled=True)


def measure_shape(arguments: argparse.Namespace, words: Sequence[str]) -> Report:
    """Return the report on a shape."""
    shape, device = SHAPES[arguments.shape], choose_device(arguments.device)
    peak = matmul_tflops(shape.matmul, device)
    about: Row = {"settings": asdict(SETTINGS), "notes": NOTES}
    if arguments.probe:
        about |= {"probes": SETS, "notes": (*NOTES, *PROBE_NOTES)}
    report = Report.of_shape("verify", arguments, words, shape.described(), peak, about)
    bench = Bench(
        shape=shape, denoiser=build(shape, device), repetitions=arguments.repetitions,
        probes=arguments.probe,
    )  # fmt: skip
    base: float | None = None
    for row in shape_rows(bench, arguments.answers, arguments.eager):
        base = base or row["seconds_per_answer"]
        if bench.probes:
            row.setdefault("pass_over_step", None)
        row |= {"peak_share": row["tflops"] / peak, "ratio": base / row["seconds_per_answer"]}
        report.add(row)
        progress(f"{row['seconds_per_answer']:.4f} s per answer, {row['ratio']:.2f} x the public")
    return report


def measure_model(arguments: argparse.Namespace, words: Sequence[str]) -> Report:
    """Return the report on a checkpoint: whole verifications, one answer at a time."""
    denoiser = load(arguments.model, device=arguments.device)
    sets = SETS if arguments.probe else {}
    levels = checkpoint.by_level(denoiser, arguments.samples, SETTINGS, sets)
    about = {
        "settings": asdict(SETTINGS),
        "name": f"verify-{Path(arguments.model).name}-{denoiser.device.type}",
        "device": denoiser.device.type,
        "model": str(arguments.model),
        "each": levels,
        "notes": checkpoint.NOTES,
        **({"probes": SETS} if sets else {}),
    }
    report = Report("verify.py", words, arguments.out, about)
    forwards = SETTINGS.trips * SETTINGS.rebuild_steps * denoiser.forwards_per_call
    for row in checkpoint.middles(levels, forwards):
        report.add(row)
    return report


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
    parser.add_argument("--probe", action="store_true", help="measure probes too: 1 and 17 passes")
    parser.add_argument("--eager", action="store_true", help="do not compile the blocks of a shape")
    parser.add_argument("--out", type=Path, help="JSON file, else benchmarks/results/NAME.json")
    return figures.parse(parser, arguments)


def cpu_figures(row: Row) -> dict[str, Row]:
    """Return what the pages quote of the embedded model: of its two trained levels together."""
    unit, num = "s, median, wordmath easy and medium", row["answers"]
    named = {
        "cpu/verify_seconds": figures.figure_of(row["seconds_per_answer"], unit, num),
        "cpu/verify_rss_gb": figures.figure_of(row["peak_resident_gb"], "GB"),
    }
    for name in ("probe", "verifier"):
        if f"{name}_s" in row:
            named[f"cpu/{name}_seconds"] = figures.figure_of(row[f"{name}_s"], unit, num)
    return named


def main(words: Sequence[str]) -> None:
    """Measure, print the table, write the JSON, and figures where they are wanted."""
    arguments = read_arguments(words)
    measure = measure_shape if arguments.shape else measure_model
    report = measure(arguments, words)
    report.show()
    if not arguments.shape:
        named = cpu_figures(report.content["results"][0])
        figures.save(arguments, named, "verify-tiny", "python benchmarks/verify.py --probe")


if __name__ == "__main__":
    main(sys.argv[1:])
