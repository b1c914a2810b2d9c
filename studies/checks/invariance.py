"""Does a score depend on the company an answer is scored in? It should not.

Scores generated answers alone, in batches of 32, in the reverse order, and beside a far longer row
that pads all others; counts the answers whose score moves by more than 1e-5, and shows for each
that the first difference was a tie: two places, or two tokens, whose probabilities differ by less
than rounding does.

    python -m studies.checks.invariance --answers 1000
"""

import argparse
import json
import platform
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remask.api import sample_from_text
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.load import load
from remask.denoisers.wrap import Counted
from remask.records.jsonl import write_text
from remask.tasks import TASKS
from remask.values import Canvas, Sample, Score

TOLERANCE = 1e-5
TIE = 1e-4  # a gap of probability that float32 rounding of another batch can close


@dataclass(frozen=True, eq=False)
class Recorded(Counted):
    """Keeps the tokens of every row before every step."""

    states: list[Tensor] = field(default_factory=list)

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        """Keep, then pass on."""
        self.states.append(canvas.tokens.clone())
        return super().hidden(canvas, cache)


def answers(model: Denoiser, number: int) -> list[Sample]:
    """Return solutions of every task, half of them with a wrong number or word put in."""
    rng, out = random.Random(0), []
    for i in range(number):
        task = list(TASKS.values())[i % len(TASKS)]
        problem = task.problem(i, split="validation", level=task.levels[i // 4 % 3])
        made = sample_from_text(model, problem.prompt, problem.solution, item=problem.id)
        if i % 2:
            place = rng.randrange(made.num_response - 1)
            wrong = rng.choice(made.canvas[: made.num_response - 1])
            canvas = (*made.canvas[:place], wrong, *made.canvas[place + 1 :])
            made = replace(made, canvas=canvas, text=model.tokenizer.decode(canvas))
        out.append(made)
    return out


def scorer(model: Denoiser, settings: ConsistencySettings) -> Consistency:
    """Return the scorer; words are read the same way for every task here."""
    return Consistency(
        denoiser=model,
        extract=TASKS["wordmath"].extract,
        settings=settings,
        metric_set="core",
    )


def in_batches(how: Consistency, samples: Sequence[Sample], size: int) -> list[Score]:
    """Return scores, `size` answers at a time."""
    chunks = [samples[i : i + size] for i in range(0, len(samples), size)]
    return [score for chunk in chunks for score in how.score(chunk)]


def moved(one: Sequence[Score], other: Sequence[Score]) -> list[int]:
    """Return the answers whose value or any metric differs by more than the tolerance."""
    return [
        i
        for i, (a, b) in enumerate(zip(one, other, strict=True))
        if abs((a.value or 0) - (b.value or 0)) > TOLERANCE
        or any(abs(a.by_metric[m] - b.by_metric[m]) > TOLERANCE for m in a.by_metric)
    ]


def first_gap(
    model: Denoiser, how: Consistency, sample: Sample, company: Sequence[Sample]
) -> float:
    """Return how close the choice was where the two runs part, in probability.

    The states alone and in company agree up to a step; there both runs chose among the same
    predictions, and the gap is between the least confident choice of one and of the other.
    """
    alone, together = Recorded(model), Recorded(model)
    replace(how, denoiser=alone).score([sample])
    replace(how, denoiser=together).score(company)
    worst = 0.0
    for trip in range(how.settings.trips):
        own = [state[trip] for state in alone.states]
        others = _same_row(own[0], together.states, len(own))
        for step in range(len(own) - 1):
            if not torch.equal(own[step + 1], others[step + 1]):
                worst = max(worst, _gap(model, sample, own[step], own[step + 1], others[step + 1]))
                break
    return worst


def _same_row(wanted: Tensor, states: Sequence[Tensor], steps: int) -> list[Tensor]:
    """Return the states of the row that started as `wanted`, in whichever batch it was."""
    for start in range(0, len(states), steps):
        same = (states[start][:, : len(wanted)] == wanted).all(1)
        if same.any():
            row = int(same.nonzero()[0])
            return [state[row, : len(wanted)] for state in states[start : start + steps]]
    raise LookupError("the row is in no batch")


def _gap(model: Denoiser, sample: Sample, before: Tensor, one: Tensor, other: Tensor) -> float:
    """Return the spread of the probabilities of all tokens that only one of the runs revealed."""
    canvas = Canvas.of([sample.prompt], [before[len(sample.prompt) :].tolist()], 0, model.device)
    logits = model.head(model.hidden(canvas)[0])  # (L, V)
    logits[:, model.tokenizer.mask_id] = -torch.inf
    probs = logits.softmax(1)
    parted = (one != other).nonzero()[:, 0].tolist()
    chosen = [float(probs[i].max()) for i in parted]
    seconds = [float(probs[i].topk(2).values[1]) for i in parted]
    by_place = max(chosen) - min(chosen) if len(chosen) > 1 else 1.0
    by_token = min(a - b for a, b in zip(chosen, seconds, strict=True))
    return min(by_place, by_token)


def run(number: int, steps: int, trips: int, threads: int) -> dict[str, Any]:
    """Return the report."""
    torch.set_num_threads(threads)
    commit = _commit()  # of the code that runs: the tree may move on meanwhile
    model = load("tiny", device="cpu", dtype="float32")
    how = scorer(model, ConsistencySettings(trips=trips, rebuild_steps=steps))
    samples = answers(model, number)
    started = time.monotonic()
    alone = in_batches(how, samples, 1)
    longest = max(samples, key=lambda s: len(s.prompt) + len(s.canvas))
    company = [(*samples[i : i + 32],) for i in range(0, number, 32)]
    runs = {
        "batches of 32": in_batches(how, samples, 32),
        "reversed, batches of 7": in_batches(how, samples[::-1], 7)[::-1],
        "padded to the longest": [
            score for chunk in company for score in how.score((*chunk, longest))[:-1]
        ],
    }
    rows = []
    for name, scores in runs.items():
        exceptions = moved(alone, scores)
        gaps = [first_gap(model, how, samples[i], company[i // 32]) for i in exceptions]
        rows.append({"run": name, "exceptions": len(exceptions), "gaps": gaps})
        print(f"{name}: {len(exceptions)} of {number} moved; gaps {[f'{g:.1e}' for g in gaps]}")
    return {
        "answers": number,
        "trips": trips,
        "rebuild_steps": steps,
        "runs": rows,
        "all_ties": all(gap < TIE for row in rows for gap in row["gaps"]),
        "seconds": time.monotonic() - started,
        "hardware": f"{platform.processor() or platform.machine()}, {threads} threads",
        "torch": torch.__version__,
        "commit": commit,
    }


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def main() -> None:
    """Parse, run, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--rebuild-steps", type=int, default=16)
    parser.add_argument("--trips", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("invariance.json"))
    arguments = parser.parse_args()
    report = run(arguments.answers, arguments.rebuild_steps, arguments.trips, arguments.threads)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(arguments.out, json.dumps(report, indent=2) + "\n")
    print(f"all exceptions are ties: {report['all_ties']}; {report['seconds']:.0f} s")


if __name__ == "__main__":
    main()
