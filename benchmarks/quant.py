r"""What weights in few bits cost: how much worse scores and answers get, seconds, memory.

    python benchmarks/quant.py tiny                 the embedded model, on the CPU
    python benchmarks/quant.py shape --shape llada8b --device cuda      random weights of a shape
    python benchmarks/quant.py tiny --device cuda --formats full fp8 --scorers probe verifier
    python benchmarks/quant.py tiny --scorers roundtrips --given        the default scorer alone

`tiny` draws answers to word problems in full precision and scores them at every precision: the
labels are the same, so the AUROC differs by the scores alone. Each precision also draws answers
of its own, from the same noise, unless `--given` says that it need not. `shape` measures seconds
to verify and the memory at the peak.

Where the GPU is there may be nothing but torch and tokenizers. What the formats need then comes in
a folder `vendor` (about 40 MB), made where there is a package index, for torch 2.11 on Python 3.12:

    pip install --target vendor --python-version 3.12 --only-binary=:all: --no-deps \
        torchao==0.18.0 bitsandbytes==0.50.0 safetensors==0.8.0
    cd vendor/bitsandbytes && find . -name 'libbitsandbytes_*' \
        ! -name '*_cuda128.so' ! -name '*_cuda130.so' ! -name '*_cpu.so' -delete && cd ../..
    rm -rf vendor/torchao/*.so vendor/test vendor/bin
    find vendor -name __pycache__ -prune -exec rm -r {} +

    PYTHONPATH=src:vendor python benchmarks/quant.py shape --device cuda --formats fp8 --out X.json
    python benchmarks/quant.py figures X.json --commit SHA      anywhere, into docs/figures.json

A format in a process of its own: what was compiled before holds memory that is counted. Compiling
int8 tries many kernels and had not ended after two minutes; `--eager` measures it as it is.

Of bitsandbytes one library is loaded, by the CUDA that torch was built with: cuda128 (26.5 MB) for
12.8, cuda130 (3.9 MB) for 13.0. torchao 0.18 takes torch 2.11; its own kernels are not needed.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib import figures
from lib.meter import matmul_tflops
from lib.report import Report, Row, progress
from lib.shapes import SHAPES, build, compile_blocks
from torch import Tensor
from verify import SETTINGS, Bench, measure_ours

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.decide.auroc import auroc
from remask.denoisers.base import Denoiser
from remask.denoisers.devices import choose_device, num_bytes
from remask.denoisers.load import load
from remask.denoisers.native import dtype_of, native_of
from remask.denoisers.quantise import FORMATS, FULL, PackedLinear, find_format
from remask.sampling.settings import sampler_settings
from remask.tasks.base import Problem
from remask.tasks.wordmath import WordMath
from remask.values import Canvas, Sample

KIND, LEVEL = "wordmath", "hard"  # easier ones are nearly all right
SPEEDUP, DRAWS = 2, 1_000  # steps of an answer are half its tokens; draws of the bootstrap
TRIPS = ConsistencySettings()
SCORERS: dict[str, Callable[[Denoiser, list[str]], Any]] = {
    "probe": lambda model, prompts: api.find_scorer("probe", model, prompts, kind=KIND),
    "verifier": lambda model, prompts: api.find_scorer("verifier", model, prompts, kind=KIND),
    "roundtrips": lambda model, prompts: api.consistency(model, kind=KIND, settings=TRIPS),
}
NAMED = {"verifier": "", "roundtrips": "/roundtrips"}  # the scorers of the figures, and where
NOTES = (
    f"Answers to {KIND} problems, level {LEVEL}, drawn by the model in full precision, {SPEEDUP} "
    "tokens a step, and scored at each precision. auroc_loss: AUROC in full precision less this "
    f"one, with a 95 % interval over {DRAWS} bootstrap draws of problems.",
    "accuracy: of the answers that each precision draws itself, from the same noise. same_answers: "
    "share of them that are those of full precision, letter for letter.",
    "logit_error: norm of the difference over the norm, at every second token of the answers, "
    "masked. logp_error: mean difference of the log-probability of the true token. agreement: "
    "share of those places with the same likeliest token. head_...: the same with the head packed "
    "too, which it is not elsewhere.",
    "megabytes: of all weights, packed or not.",
)
SHAPE_NOTES = (
    "Random weights: the model part of a verification alone, as in verify.py. Weights are made and "
    "packed matrix by matrix. weights_gb: of all weights; peak_memory_gb: allocated at the peak.",
)


def problems_of(number: int) -> list[Problem]:
    """Return so many word problems."""
    return [WordMath().problem(i, level=LEVEL) for i in range(number)]


def write(model: Denoiser, problems: Sequence[Problem]) -> list[Sample]:
    """Return the model's answers, in fewer steps than it would like."""
    canvas = WordMath().canvas_length(LEVEL)
    settings = sampler_settings(model, kind=KIND, canvas=canvas, steps=canvas // SPEEDUP)
    prompts, items = [p.prompt for p in problems], [p.id for p in problems]
    return api.sample_many(model, prompts, settings=settings, items=items)


def grades(problems: Sequence[Problem], samples: Sequence[Sample]) -> list[bool]:
    """Return which answers are right."""
    pairs = zip(problems, samples, strict=True)
    return [WordMath().grade(problem, sample.text) for problem, sample in pairs]


@torch.no_grad()
def predictions(model: Denoiser, samples: Sequence[Sample]) -> list[tuple[Tensor, Tensor]]:
    """Return logits (M, V) and true tokens (M,) at every second token of each answer, masked."""
    out = []
    for sample in samples:
        places = torch.arange(0, sample.num_response, 2)
        tokens = torch.tensor(sample.canvas)
        masked = tokens.clone()
        masked[places] = model.tokenizer.mask_id
        row = Canvas.of([sample.prompt], [masked.tolist()], model.tokenizer.pad_id, model.device)
        hidden = model.hidden(row)[0, len(sample.prompt) :]
        logits = model.head(hidden[places.to(hidden.device)]).cpu()
        logits[:, model.tokenizer.mask_id] = 0
        out.append((logits, tokens[places]))
    return out


def errors(
    ours: Sequence[tuple[Tensor, Tensor]], exact: Sequence[tuple[Tensor, Tensor]]
) -> dict[str, float]:
    """Return how far predictions are from exact ones."""
    a, b = (torch.cat([logits for logits, _ in side]) for side in (ours, exact))
    truth = torch.cat([tokens for _, tokens in exact])[:, None]
    logp_a, logp_b = (side.log_softmax(1).gather(1, truth) for side in (a, b))
    return {
        "logit_error": ((a - b).norm() / b.norm()).item(),
        "logp_error": (logp_a - logp_b).abs().mean().item(),
        "agreement": (a.argmax(1) == b.argmax(1)).float().mean().item(),
    }


def pack_head(model: Denoiser, weights: str) -> None:
    """Pack the head too, which stays whole otherwise; one that is the embedding becomes its own."""
    native, form = native_of(model), find_format(weights)
    assert native is not None
    if form is not None:
        head = torch.nn.Linear(*native.model.embedding.weight.shape[::-1], bias=False)
        head.weight = native.model.embedding.weight
        native.model.unembedding = PackedLinear(form, head).to(head.weight.device)
        native.model.unembedding.weight.rows.copy_(head.weight.detach())


def scores(
    model: Denoiser, samples: Sequence[Sample], prompts: Sequence[str], scorer: str
) -> list[float]:
    """Return the score of each answer."""
    made = SCORERS[scorer](model, {s.item: p for s, p in zip(samples, prompts, strict=True)})
    return [score.rank for score in made.score(samples)]


def loss(ours: Sequence[float], exact: Sequence[float], right: Sequence[bool]) -> list[float]:
    """Return the AUROC that is lost, and the ends of its interval."""
    a, b, labels = np.array(ours), np.array(exact), np.array(right)
    drawn = np.random.default_rng(0).integers(len(labels), size=(DRAWS, len(labels)))
    values = []
    for rows in (np.arange(len(labels)), *drawn):
        pair = auroc(a[rows], labels[rows]), auroc(b[rows], labels[rows])
        if pair[0] is not None and pair[1] is not None:
            values.append(pair[1] - pair[0])
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return [values[0], float(low), float(high)]


def measure_tiny(arguments: argparse.Namespace, words: Sequence[str]) -> Report:
    """Return the report on the embedded model."""
    problems = problems_of(arguments.problems)
    prompts = [problem.prompt for problem in problems]
    about = {
        "name": f"quant-tiny-{choose_device(arguments.device).type}",
        "settings": {"level": LEVEL, "problems": len(problems), "trips": asdict(TRIPS)},
        "notes": NOTES,
    }
    report = Report("quant.py", words, arguments.out, about)
    samples: list[Sample] = []
    exact: dict[str, list[float]] = {}
    predicted: list[tuple[Tensor, Tensor]] = []
    for weights in arguments.formats:
        dtype = "float32" if weights == FULL else "auto"
        model = load("tiny", device=arguments.device, dtype=dtype, weights=weights)
        progress(f"answers of {dtype_of(model)}")
        own = samples if samples and arguments.given else write(model, problems)
        samples = samples or own
        right = grades(problems, samples)
        same = [a.text == b.text for a, b in zip(own, samples, strict=True)]
        row: Row = {"weights": weights, "precision": dtype_of(model), "answers": len(own)}
        row |= {"wrong": right.count(False), "accuracy": float(np.mean(grades(problems, own)))}
        row |= {"same_answers": float(np.mean(same)), "megabytes": megabytes(model)}
        logits = predictions(model, samples[: arguments.predicted])
        predicted = predicted or logits
        row |= errors(logits, predicted)
        for scorer in arguments.scorers:
            progress(f"{scorer} at {dtype_of(model)}")
            values = scores(model, samples, prompts, scorer)
            before = exact.setdefault(scorer, values)
            row[f"{scorer}/auroc"] = auroc(values, right)
            row[f"{scorer}/auroc_loss"] = loss(values, before, right)
            row[f"{scorer}/mean_change"] = float(np.abs(np.subtract(values, before)).mean())
        pack_head(model, weights)
        both = errors(predictions(model, samples[: arguments.predicted]), predicted)
        row |= {f"head_{name}": value for name, value in both.items()}
        report.add(row)
    return report


def megabytes(model: Denoiser) -> float:
    """Return the size of the weights."""
    native = native_of(model)
    assert native is not None
    return num_bytes(native.model) / 1e6


def measure_shape(arguments: argparse.Namespace, words: Sequence[str]) -> Report:
    """Return the report on a shape: one format after another, each with its memory to itself."""
    shape, device = SHAPES[arguments.shape], choose_device(arguments.device)
    peak = matmul_tflops(shape.matmul, device)
    about: Row = {"settings": asdict(SETTINGS), "notes": SHAPE_NOTES}
    report = Report.of_shape("quant", arguments, words, shape.described(), peak, about)
    for weights in arguments.formats:
        try:
            rows_of_format(report, arguments, weights, device)
        except Exception as error:  # a format that does not run here must not end the others
            progress(f"{weights} failed: {type(error).__name__}: {error}")
    return report


def rows_of_format(
    report: Report, arguments: argparse.Namespace, weights: str, device: torch.device
) -> None:
    """Add the rows of one format, not compiled and compiled."""
    denoiser = build(SHAPES[arguments.shape], device, weights=weights)
    bench = Bench(shape=SHAPES[arguments.shape], denoiser=denoiser, repetitions=2)
    known = {"weights": weights, "weights_gb": num_bytes(denoiser.model) / 1e9}
    for compiled in (False,) if arguments.eager else (False, True):
        if compiled:
            torch._dynamo.reset()
            compile_blocks(denoiser)
        for answers in arguments.answers:
            progress(f"{weights}:")
            row = measure_ours(bench, answers, compiled=compiled)
            report.add(known | row)
            progress(f"{row['seconds_per_answer']:.4f} s, {row['peak_memory_gb']:.1f} GB")
    del denoiser, bench
    if device.type == "cuda":
        torch.cuda.empty_cache()


def tiny_figures(rows: Sequence[Row]) -> dict[str, Row]:
    """Return what the pages quote of the embedded model."""
    named = {}
    for row in (row for row in rows if row["weights"] != FULL):
        path = f"quant/{row['weights']}"
        for scorer, place in NAMED.items():
            if f"{scorer}/auroc_loss" in row:
                value, low, high = row[f"{scorer}/auroc_loss"]
                unit = f"AUROC lost by the scorer {scorer}, {KIND} {LEVEL}"
                named[f"{path}{place}/auroc_loss"] = figures.figure_of(
                    value, unit, row["answers"], low=low, high=high
                )
        if "verifier/auroc_loss" in row:
            named[f"{path}/megabytes"] = figures.figure_of(row["megabytes"], "MB of weights, tiny")
    return named


def tiny_key(rows: Sequence[Row]) -> str:
    """Return what the command is called that measured the embedded model, by its scorers."""
    return "quant-tiny" if "verifier/auroc_loss" in rows[0] else "quant-tiny-roundtrips"


def shape_figures(report: Row) -> dict[str, Row]:
    """Return the figures of a report on a shape: seconds at the largest batch, memory at one."""
    named = {}
    path = f"h200/{report['name'].split('-')[1]}"
    for weights in {row["weights"] for row in report["results"]} - {FULL}:
        rows = [row for row in report["results"] if row["weights"] == weights]
        largest = max(row["answers"] for row in rows)
        best = min(
            (row for row in rows if row["answers"] == largest),
            key=lambda row: float(row["seconds_per_answer"]),
        )
        manner = "compiled" if best["compiled"] else "not compiled"
        named[f"{path}/{weights}/verify_seconds"] = figures.figure_of(
            best["seconds_per_answer"], f"s per answer, {largest} at once, {manner}", largest
        )
        least = min((row for row in rows), key=lambda row: int(row["answers"]))
        named[f"{path}/{weights}/memory_gb"] = figures.figure_of(
            least["peak_memory_gb"], f"GB allocated at the peak, {least['answers']} at once",
            least["answers"],
        )  # fmt: skip
    return named


def write_figures(arguments: argparse.Namespace) -> None:
    """Merge what a report says into docs/figures.json."""
    report = json.loads(arguments.report.read_text(encoding="utf-8"))
    arguments.hardware, rows, key = report["hardware"], report["results"], "quant-tiny"
    if report["name"].startswith(key):
        named, key = tiny_figures(rows), tiny_key(rows)
    else:
        named = shape_figures(report)
        key = "-".join([report["name"], *dict.fromkeys(row["weights"] for row in rows)])
    figures.save(arguments, named, key, report["command"])
    for name, row in named.items():
        print(f"{name}: {row['value']:.4g} {row['unit']}")


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Measure what weights in few bits cost.")
    commands = parser.add_subparsers(dest="what", required=True)
    tiny = commands.add_parser("tiny", help="the embedded model: scores, answers, megabytes")
    tiny.add_argument("--problems", type=int, default=120)
    tiny.add_argument("--predicted", type=int, default=40, help="answers whose logits are compared")
    tiny.add_argument("--scorers", nargs="*", choices=list(SCORERS), default=list(SCORERS))
    tiny.add_argument("--given", action="store_true", help="no answers of each precision's own")
    shape = commands.add_parser("shape", help="random weights: seconds, memory")
    shape.add_argument("--shape", choices=SHAPES, default="llada8b")
    shape.add_argument("--answers", type=int, nargs="+", default=[1, 8])
    shape.add_argument("--eager", action="store_true", help="do not compile the blocks")
    for one, formats in ((tiny, ("int8", "nf4")), (shape, tuple(FORMATS))):
        one.add_argument("--device", default="cpu", help="cpu, cuda or auto")
        one.add_argument("--formats", nargs="+", default=[FULL, *formats], help="full first")
        one.add_argument("--out", type=Path, help="JSON file, else benchmarks/results/NAME.json")
    tell = commands.add_parser("figures", help="of a report, into docs/figures.json")
    tell.add_argument("report", type=Path)
    for one in (tiny, tell):
        one.add_argument("--figures", type=Path, default=None if one is tiny else figures.FIGURES)
        one.add_argument("--commit", required=one is tell, help="commit that was measured")
    tiny.add_argument("--hardware", help="what it was measured on")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> None:
    """Measure, print the table, write the JSON, and figures where they are wanted."""
    arguments = read_arguments(words)
    if arguments.what == "figures":
        write_figures(arguments)
        return
    measure = measure_tiny if arguments.what == "tiny" else measure_shape
    report = measure(arguments, words)
    report.show()
    if arguments.what == "tiny":
        rows = report.content["results"]
        figures.save(arguments, tiny_figures(rows), tiny_key(rows), report.content["command"])


if __name__ == "__main__":
    main(sys.argv[1:])
