"""Unseen problems put to a model: how many right, with right steps, at what length and cost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from remask.align.rollout import draw_groups
from remask.align.settings import AlignSettings
from remask.decide.auroc import auroc
from remask.denoisers.base import Denoiser
from remask.probes.marks import mark_critical
from remask.probes.scorer import ProbeScorer
from remask.probes.settings import Probe
from remask.tasks import steps_ok, task
from remask.tasks.base import Problem, Split
from remask.values import Sample
from studies.align.arms import BLOCK, SCORED, SETTINGS

CANVASES = {"short": 1.0, "medium": 1.5, "long": 2.0}  # times the canvas of the level
PROBE = SCORED["probe"]
Row = dict[str, Any]


class Asking:
    """Greedy answers of a model to the problems of one setting."""

    def __init__(
        self, denoiser: Denoiser, settings: AlignSettings, *, num_problems: int, split: Split
    ) -> None:
        first = settings.seed * num_problems  # each seed has problems of its own
        self.denoiser, self.settings = denoiser, settings
        self.family = task(settings.task)
        level = settings.level or self.family.levels[0]
        self.problems: list[Problem] = [
            self.family.problem(first + i, split=split, level=level) for i in range(num_problems)
        ]
        self.usual = settings.sampler(denoiser, self.family.canvas_length(level))

    def on_canvases(self, steps_per_block: int) -> dict[str, Row]:
        """Return what answers on each canvas came to; those of the short one are scored too."""
        out = {}
        for name, times in CANVASES.items():
            length = -(-round(self.usual.length * times) // BLOCK) * BLOCK
            drawn = self.answers(length, steps_per_block)
            out[name] = self.summary(drawn)
            if name == "short":
                out[name] |= self.scored(drawn)
        return out

    def at_paces(self, paces: Sequence[int]) -> dict[str, Row]:
        """Return what answers on the short canvas came to, by steps for each block of it."""
        return {str(k): self.summary(self.answers(self.usual.length, k)) for k in paces}

    def answers(self, length: int, steps_per_block: int) -> list[Sample]:
        """Return one greedy answer to each problem."""
        steps = length // BLOCK * steps_per_block
        block = length if self.usual.block == self.usual.length else self.usual.block
        sampler = replace(self.usual, length=length, steps=steps, block=block, temperature=0.0)
        return draw_groups(self.denoiser, self.problems, 1, sampler, seed=0)

    def summary(self, drawn: Sequence[Sample]) -> Row:
        """Return shares and means over the answers; no share of steps where these have no label."""
        right, ok = self.graded(drawn)
        row: Row = {
            "num": len(drawn), "accuracy": mean(right),
            "tokens": mean([s.num_response for s in drawn]),
            "forwards": mean([s.forwards for s in drawn]),
        }  # fmt: skip
        if None not in ok:
            row["right_steps"] = mean([bool(o) for o in ok])
            row["process_ok"] = row["right_steps"] / row["accuracy"] if any(right) else None
        return row

    def scored(self, drawn: Sequence[Sample]) -> Row:
        """Return the mean score by the model itself, and how well it tells right from wrong."""
        questions = {problem.id: problem.prompt for problem in self.problems}
        family, kind = self.family, getattr(self.family, "critical", "number")
        scorer = ProbeScorer(
            denoiser=self.denoiser, probe=Probe.named(PROBE), reading=SCORED["reading"],
            critical=mark_critical(
                self.denoiser.tokenizer, questions, extract=family.extract, kind=kind
            ),
        )  # fmt: skip
        right, ok = self.graded(drawn)
        values = [score.value for score in scorer.score(drawn)]
        known = [i for i, value in enumerate(values) if value is not None]
        among = [i for i in known if right[i]]
        return {
            "score": mean([values[i] for i in known]),
            "auroc": auroc([values[i] for i in known], [right[i] for i in known]),
            "auroc_steps": auroc([values[i] for i in among], [bool(ok[i]) for i in among]),
        }

    def graded(self, drawn: Sequence[Sample]) -> tuple[list[bool], list[bool | None]]:
        """Return which answers are right, and which of them have right steps."""
        pairs = list(zip(self.problems, drawn, strict=True))
        right = [self.family.grade(problem, one.text) for problem, one in pairs]
        ok = [
            steps_ok(self.family, problem, one.text, is_right)
            for (problem, one), is_right in zip(pairs, right, strict=True)
        ]
        return right, ok


def paces_of(setting: str) -> list[int]:
    """Return the steps for each block at which a setting is asked too: 16 is a token a step.

    One step is the least there is: what another arm spends lies in between.
    """
    own = SETTINGS[setting]["steps_per_block"]
    return sorted({1, own - 1, own + 1, BLOCK})


def mean(values: Sequence[Any]) -> float | None:
    """Return the mean; None of nothing."""
    return sum(values) / len(values) if values else None
