"""Rollouts: prompts of the training split, a group of completions for each, and their rewards.

Prompts are numbered: problems of a generated task, or rows of a public benchmark in a new random
order for each epoch. Draws are keyed by (seed, rollout, problem, number), so a rollout is
independent of the number of processes and of resuming.

In supervised fine-tuning the completions are gold solutions without rewards.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from remask import rng
from remask.align.advantages import group_advantages
from remask.align.combined import Combined
from remask.align.rewards import Progress, Values
from remask.align.settings import AlignSettings
from remask.denoisers.base import Denoiser
from remask.errors import InputError, SettingsError
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.tasks import task as find_task
from remask.tasks.base import Problem, Split, Task, check_level
from remask.tasks.public.benchmark import Benchmark
from remask.values import Sample


@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """Completions of this process, group by group, with their rewards."""

    problems: tuple[Problem, ...]  # B, repeated within a group
    samples: tuple[Sample, ...]  # B
    rewards: Values  # B; None if no reward applies
    parts: dict[str, Values]  # B values of each reward
    advantages: Tensor  # (B,) on the CPU
    metrics: dict[str, float] = field(default_factory=dict)  # logged by rewards, such as bmc/score
    seconds: dict[str, float] = field(default_factory=dict)  # by phase


def task_of(settings: AlignSettings) -> Task:
    """Return the task of a training, without reading the rows of a benchmark."""
    return find_task(
        settings.task,
        path=settings.data,
        wording=settings.wording,
        allow_execution=settings.allow_execution,
    )


class Prompts:
    """Training and validation problems of a task, by number."""

    def __init__(self, settings: AlignSettings) -> None:
        self.task = task_of(settings)
        self.level = check_level(self.task, settings.level, "train")
        self.seed = settings.seed
        self.held_out = settings.eval_problems
        self._order: tuple[int, list[int]] = (-1, [])
        if isinstance(self.task, Benchmark):
            self.task.check()
            self._check_size(self.task)

    def _check_size(self, task: Benchmark) -> None:
        have = task.size("train", self.level)
        num_held_out = 0 if self._validates(task) else self.held_out
        if have <= num_held_out:
            raise SettingsError(
                f"eval_problems must be below the number of training rows of {task.name} ({have}), "
                f"got {self.held_out}."
            )

    @staticmethod
    def _validates(task: Benchmark) -> bool:
        return "validation" in task.source.hub.splits

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of a benchmark's rows; empty for generated tasks."""
        if not isinstance(self.task, Benchmark):
            return {}
        splits: list[Split] = ["train", "validation"] if self._validates(self.task) else ["train"]
        return {f"{split} rows": self.task.source.rows(split).sha256 for split in splits}

    def training(self, number: int) -> Problem:
        """Return training problem `number`, counted over all epochs."""
        if not isinstance(self.task, Benchmark):
            return self._problem(number, "train")
        num_held_out = 0 if self._validates(self.task) else self.held_out
        size = self.task.size("train", self.level) - num_held_out
        turn, place = divmod(number, size)
        if self._order[0] != turn:
            key = torch.tensor(rng.key(self.seed, self.task.name, "order", turn))
            self._order = turn, rng.uniform(key, torch.arange(size)).argsort().tolist()
        return self._problem(self._order[1][place], "train")

    def validation(self, number: int) -> Problem:
        """Return validation problem `number`, which is neither a training nor a test problem.

        Benchmarks without a validation split use the last rows of their training split.
        """
        if isinstance(self.task, Benchmark) and not self._validates(self.task):
            return self._problem(self.task.size("train", self.level) - 1 - number, "train")
        return self._problem(number, "validation")

    def num_validation(self) -> int:
        """Return the number of validation problems."""
        if isinstance(self.task, Benchmark) and self._validates(self.task):
            return min(self.held_out, self.task.size("validation", self.level))
        return self.held_out

    def _problem(self, index: int, split: Split) -> Problem:
        # Validation is the same for every seed; training is not.
        drawn = split == "train" and not isinstance(self.task, Benchmark)
        seed = self.seed if drawn else 0
        return self.task.problem(index, split=split, level=self.level, seed=seed)


def draw_groups(
    denoiser: Denoiser,
    problems: Sequence[Problem],
    size: int,
    settings: SamplerSettings,
    *,
    seed: int,
) -> list[Sample]:
    """Return `size` completions of each problem, group by group."""
    prompts = [denoiser.tokenizer.render(p.prompt, p.examples) for p in problems]
    named = [(problem, number) for problem in problems for number in range(size)]
    drawn = sample(
        denoiser,
        [prompt for prompt in prompts for _ in range(size)],
        settings,
        items=[f"{problem.id}#{number}" for problem, number in named],
        seed=seed,
    )
    return [
        replace(one, item=problem.id, number=number)
        for one, (problem, number) in zip(drawn, named, strict=True)
    ]


def gold_samples(
    denoiser: Denoiser, problems: Sequence[Problem], size: int, length: int
) -> list[Sample]:
    """Return the gold solution of each problem `size` times, padded with EOS to `length`."""
    tokenizer = denoiser.tokenizer
    out = []
    for problem in problems:
        ids = tokenizer.encode(problem.solution, "solution")
        if len(ids) + 1 > length:
            raise InputError(
                f"length must be at least {len(ids) + 1} for the solution of {problem.id}, got "
                f"{length}."
            )
        one = Sample(
            item=problem.id,
            prompt=tuple(tokenizer.render(problem.prompt, problem.examples)),
            canvas=(*ids, *[tokenizer.eos_id] * (length - len(ids))),
            num_response=len(ids) + 1,
            text=problem.solution,
        )
        out += [replace(one, number=number) for number in range(size)]
    return out


def compute_rewards(
    reward: Combined, problems: Sequence[Problem], samples: Sequence[Sample], state: Progress
) -> tuple[dict[str, Values], dict[str, float]]:
    """Return the values of each reward, and the metrics that the rewards log."""
    metrics: dict[str, float] = {}
    columns: dict[str, Any] = {
        "completion_ids": [list(s.canvas[: s.num_response]) for s in samples],
        "problem": list(problems),
        "sample": list(samples),
        "trainer_state": state,
        "log_metric": metrics.__setitem__,
        "log_extra": lambda column, values: None,
    }
    prompts, texts = [p.prompt for p in problems], [s.text for s in samples]
    return reward.parts(prompts, texts, **columns), metrics


@dataclass(frozen=True, kw_only=True, eq=False)
class RolloutMaker:
    """Makes rollouts with the current model."""

    settings: AlignSettings
    prompts: Prompts
    denoiser: Denoiser
    sampler: SamplerSettings
    reward: Combined | None  # None: supervised
    clock: Callable[[], float] = time.perf_counter

    def make(self, numbers: Sequence[int], *, rollout: int, update: int) -> Rollout:
        """Return a rollout over some training problems.

        Args:
            numbers: numbers of this process's problems.
            rollout: number of the rollout, a key of the draws.
            update: optimizer updates made.
        """
        s, started = self.settings, self.clock()
        problems = [self.prompts.training(number) for number in numbers]
        repeated = tuple(p for p in problems for _ in range(s.num_generations))
        if self.reward is None:
            gold = gold_samples(self.denoiser, problems, s.num_generations, self.sampler.length)
            return Rollout(
                problems=repeated,
                samples=tuple(gold),
                rewards=[None] * len(gold),
                parts={},
                advantages=torch.zeros(len(gold)),
                seconds={"rollout": self.clock() - started, "score": 0.0},
            )
        seed = rng.key(s.seed, "rollout", "align", rollout)
        drawn = draw_groups(self.denoiser, problems, s.num_generations, self.sampler, seed=seed)
        written = self.clock()
        state = Progress(global_step=update, max_steps=s.updates)
        parts, metrics = compute_rewards(self.reward, repeated, drawn, state)
        rewards = self.reward.total(parts)
        values = torch.tensor([math.nan if r is None else r for r in rewards])
        advantages = group_advantages(values.view(-1, s.num_generations)).flatten()
        return Rollout(
            problems=repeated,
            samples=tuple(drawn),
            rewards=rewards,
            parts=parts,
            advantages=advantages,
            metrics=metrics,
            seconds={"rollout": written - started, "score": self.clock() - written},
        )
