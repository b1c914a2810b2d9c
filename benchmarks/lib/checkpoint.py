"""A checkpoint at work: whole verifications, texts and metrics included, one answer at a time.

Needs the packages of the library, unlike the work on a shape.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import torch

from lib.meter import peak_memory_gb, timed
from lib.probing import num_passes
from lib.report import Row
from remask.consistency.roundtrips import round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.probes.readings import read
from remask.probes.settings import Probe
from remask.values import Sample

PROMPTS = {"easy": 96, "medium": 96, "hard": 160}  # the longest that are taken, in tokens
TRAINED = ("easy", "medium")
NOTES = (
    "Right solutions of wordmath on the canvas of their level, verified one at a time with the "
    "metric set paper; one answer beforehand as warm-up, encoder included. Medians over answers; "
    "the first row is over the two trained levels together, so many answers of each.",
    "forwards_per_second is over the rebuild part.",
    "probe_s, verifier_s, where they were asked for: a set of probes of the same answer, critical "
    "tokens found in its text. probe_pass_over_step, verifier_pass_over_step: seconds of a pass "
    "over those of a rebuild step of the same answer, whose trips are computed together.",
    "peak_resident_gb: ru_maxrss of the process, model, encoder and libraries together.",
)
Each = list[dict[str, float]]  # one per answer
Sets = Mapping[str, Sequence[str]]  # of probes, by name


def solved_answers(denoiser: Denoiser, number: int, level: str) -> list[Sample]:
    """Return right solutions of word problems, with EOS up to the end of the canvas."""
    from remask.tasks.wordmath import WordMath

    tokenizer, room = denoiser.tokenizer, WordMath().canvas_length(level)
    out: list[Sample] = []
    for i in range(20 * number):
        problem = WordMath().problem(i, level=level)
        ask, tell = tokenizer.render(problem.prompt), tokenizer.encode(problem.solution)
        if len(ask) <= PROMPTS[level] and len(tell) < room:
            canvas = (*tell, *[tokenizer.eos_id] * (room - len(tell)))
            prompt, used, text = tuple(ask), len(tell) + 1, tokenizer.decode(canvas)
            out.append(
                Sample(item=problem.id, prompt=prompt, canvas=canvas, num_response=used, text=text)
            )
        if len(out) == number:
            return out
    raise SystemExit(
        f"{len(out)} of {20 * number} problems fit prompts of {PROMPTS[level]} tokens and a "
        f"canvas of {room}, too few for --samples {number}; use a model trained on these tasks."
    )


def verify_each(
    denoiser: Denoiser, samples: Sequence[Sample], settings: ConsistencySettings, sets: Sets
) -> Iterator[dict[str, float]]:
    """Yield the seconds that each answer took, part by part.

    The encoder's share is what the metric set `paper` takes beyond `core`, which lacks only it.
    """
    # Here and not above: rapidfuzz and the encoder come with it, and a shape needs neither.
    from remask.api import critical_tokens
    from remask.consistency.roundtrips import Consistency
    from remask.tasks.wordmath import WordMath

    critical = critical_tokens(denoiser, {}, kind="wordmath")
    probes = {name: [Probe.named(one) for one in names] for name, names in sets.items()}
    paper = Consistency(denoiser=denoiser, extract=WordMath().extract, settings=settings)
    core = replace(paper, metric_set="core")
    paper.score(samples[:1])  # loads the encoder, fills the caches of every library
    for sample in samples:
        rebuilt = timed(partial(round_trips, denoiser, [sample], settings), 1, denoiser.device)
        measured = timed(partial(paper.measure, rebuilt.result), 1, denoiser.device)
        text = timed(partial(core.measure, rebuilt.result), 1, denoiser.device)
        step = rebuilt.seconds[0] / (settings.trips * settings.rebuild_steps)
        probed = {}
        for name, several in probes.items():
            call = partial(read, denoiser, [sample], several, critical=critical)
            (seconds,) = timed(call, 1, denoiser.device).seconds
            probed[f"{name}_s"] = seconds
            probed[f"{name}_pass_over_step"] = seconds / num_passes(sets[name]) / step
        yield {
            "seconds_per_answer": rebuilt.seconds[0] + measured.seconds[0],
            "rebuild_s": rebuilt.seconds[0],
            "text_metrics_s": text.seconds[0],
            "encoder_s": max(0.0, measured.seconds[0] - text.seconds[0]),
            **probed,
        }


def by_level(
    denoiser: Denoiser, number: int, settings: ConsistencySettings, sets: Sets
) -> dict[str, Each]:
    """Return the seconds of so many answers of each level, and of sets of probes beside them."""
    return {
        level: list(verify_each(denoiser, solved_answers(denoiser, number, level), settings, sets))
        for level in PROMPTS
    }


def middles(levels: dict[str, Each], forwards: int) -> Iterator[Row]:
    """Yield the medians over answers: of the trained levels together, then of each level."""
    trained = [row for level in TRAINED for row in levels[level]]
    for level, each in {"easy, medium": trained, **levels}.items():
        found: Row = {"level": level, "answers": len(each)}
        found |= {part: median(row[part] for row in each) for part in each[0]}
        found["forwards_per_second"] = forwards / found["rebuild_s"]
        yield found | {"peak_resident_gb": peak_memory_gb(torch.device("cpu"))}
