"""One chunk of a collection: problems -> prompts -> answers -> grades and scores -> records.

A prompt may be longer than the model's context, or hold what its tokenizer refuses. Such a problem
is no reason to stop: it becomes a line with `error` in place of answers, is counted beside the
others, and can be tried again.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from remask import api
from remask.baselines.confidence import ModelConfidence
from remask.collect.engine import Lines
from remask.collect.settings import (
    EXTRA_METRICS,
    OPTIONAL_BASELINES,
    TRACED_BASELINES,
    CollectSettings,
    InjectionSettings,
)
from remask.consistency.roundtrips import Consistency
from remask.denoisers.base import Denoiser
from remask.errors import InputError
from remask.probes.readings import Critical, read
from remask.probes.settings import Probe
from remask.records.record import NO_KEY, BaselineCost, ErrorRecord, Line, NoKey, Record
from remask.sampling.batches import check_length, whole_length
from remask.sampling.sampler import sample_rows
from remask.sampling.settings import SamplerSettings
from remask.scoring.registry import find_scorer
from remask.tasks import steps_ok
from remask.tasks.base import SPELLING, Grade, Problem, Task, answer_key, compared_by
from remask.values import Sample, Score
from remask.verifier.columns import Features
from remask.verifier.features import generation_features, probe_features

SampleKey = tuple[str, int]  # item and number of a sample


class PromptedProblem(NamedTuple):
    """A problem as the model gets it."""

    problem: Problem
    prompt: list[int]  # empty where it cannot be asked
    error: str = ""  # why not


class GradedAnswer(NamedTuple):
    """What is known of an answer's truth."""

    grade: Grade
    process_ok: bool | None  # every step is right as well; None: steps have no labels
    key: str | NoKey | None = NO_KEY  # what votes compare it by, where that is not its spelling


def prompt_for(denoiser: Denoiser, problem: Problem, length: int) -> PromptedProblem:
    """Return a problem with its prompt, to be answered on a canvas of `length` tokens."""
    try:
        prompt = denoiser.tokenizer.render(problem.prompt, problem.examples)
        check_length(denoiser, len(prompt), whole_length(denoiser, len(prompt), length))
    except InputError as error:
        return PromptedProblem(problem, [], f"{problem.id} cannot be asked: {error}")
    return PromptedProblem(problem, prompt)


@dataclass(frozen=True, kw_only=True)
class AnswerWork:
    """Computes the lines of problems; picklable."""

    task: Task
    settings: CollectSettings
    sampler: SamplerSettings  # of the pools

    def __call__(self, denoiser: Denoiser, problems: Sequence[PromptedProblem]) -> Lines:
        """Return the lines of each problem: one for each sample, or one with an error."""
        records = self.records(denoiser, problems)
        return [[line.to_json() for line in lines] for lines in records]

    def records(
        self, denoiser: Denoiser, problems: Sequence[PromptedProblem]
    ) -> Iterator[list[Line]]:
        """Yield the records of each problem."""
        readable = [problem for problem in problems if not problem.error]
        pools = self._pools(denoiser, readable)
        with_keys = self.settings.samples > 1 and compared_by(self.task) != SPELLING
        asked = [one.problem for one in readable]
        graded = iter(grade_pools(self.task, asked, pools, with_keys=with_keys))
        trips = self._round_trips(denoiser, pools)
        baselines = self._baselines(denoiser, asked, pools)
        features = self._features(denoiser, asked, pools)
        answers = iter(pools)
        for problem, _, error in problems:
            if error:
                about = identity(problem, 0)
                yield [ErrorRecord(**about, prompt=problem.prompt, gold=problem.gold, error=error)]
                continue
            lines: list[Line] = []
            for answer, truth in zip(next(answers), next(graded), strict=True):
                key = answer.item, answer.number
                record = make_record(self.task, problem, answer, truth, trips.get(key))
                grade = truth.grade
                record = replace(
                    record, tier=grade.tier, method=grade.method, reason=grade.reason,
                    key=truth.key, features=features.get(key, {}),
                )  # fmt: skip
                if key in trips:  # what the drift is of
                    pieces = denoiser.tokenizer.pieces(answer.canvas[: answer.num_response])
                    record = replace(record, pieces=pieces)
                lines.append(_with_baselines(record, baselines.get(key, {})))
            yield lines

    def _pools(self, denoiser: Denoiser, problems: Sequence[PromptedProblem]) -> list[list[Sample]]:
        """Return the samples of each problem, those that are compared with their traces."""
        samples, compared = self.settings.samples, self._num_compared
        traced = any(name in TRACED_BASELINES for name in self.settings.baselines)
        parts = [range(samples)]
        if traced:  # a trace costs more than its answer
            parts = [range(compared), range(compared, samples)]
        drawn = [
            draw_pools(
                denoiser, problems, self.sampler, own, self.settings.seed,
                trace=traced and own.start < compared,
            )
            for own in parts
            if own
        ]  # fmt: skip
        return [[s for part in pool for s in part] for pool in zip(*drawn, strict=True)]

    def _round_trips(
        self, denoiser: Denoiser, pools: Sequence[Sequence[Sample]]
    ) -> dict[SampleKey, Score]:
        """Return the scores of the answers that get round trips."""
        verified = [s for pool in pools for s in pool if s.number < self.settings.scored]
        scores = scorer_for(denoiser, self.task, self.settings).score(verified)
        return {(s.item, s.number): score for s, score in zip(verified, scores, strict=True)}

    def _baselines(
        self,
        denoiser: Denoiser,
        problems: Sequence[Problem],
        pools: Sequence[Sequence[Sample]],
    ) -> dict[SampleKey, dict[str, Score]]:
        """Return the scores of baselines that cost passes, by sample and name."""
        names = [name for name in OPTIONAL_BASELINES if name in self.settings.baselines]
        if not names:
            return {}
        questions = {problem.id: problem.prompt for problem in problems}
        verified = self._verified(pools)
        scores: dict[SampleKey, dict[str, Score]] = {}
        for name in names:
            scorer = find_scorer(
                name, denoiser, questions, kind=self.task, seed=self.settings.seed,
                sampler=self.sampler,
            )  # fmt: skip
            for s, score in zip(verified, scorer.score(verified), strict=True):
                scores.setdefault((s.item, s.number), {})[name] = score
        return scores

    def _features(
        self,
        denoiser: Denoiser,
        problems: Sequence[Problem],
        pools: Sequence[Sequence[Sample]],
    ) -> dict[SampleKey, Features]:
        """Return what probes read of answers, and what is known of these for nothing."""
        if not self.settings.probes:
            return {}
        verified, critical = self._verified(pools), self._critical(denoiser, problems)
        probes = [Probe.named(name) for name in self.settings.probes]
        readings = read(denoiser, verified, probes, critical=critical, seed=self.settings.seed)
        decode, extract = denoiser.tokenizer.decode, self.task.extract
        return {
            (s.item, s.number): _rounded(
                {**generation_features(s, critical, decode, extract), **probe_features(read_of_it)}
            )
            for s, read_of_it in zip(verified, readings, strict=True)
        }

    def _critical(self, denoiser: Denoiser, problems: Sequence[Problem]) -> Critical:
        questions = {problem.id: problem.prompt for problem in problems}
        return api.critical_tokens(denoiser, questions, kind=self.task)

    def _verified(self, pools: Sequence[Sequence[Sample]]) -> list[Sample]:
        """Return the answers that are compared."""
        return [s for pool in pools for s in pool if s.number < self._num_compared]

    @property
    def _num_compared(self) -> int:
        """How many of each problem: those that get round trips, at least the first."""
        return max(self.settings.scored, 1)


def scorer_for(
    denoiser: Denoiser, task: Task, settings: CollectSettings | InjectionSettings
) -> Consistency:
    """Return the round trips of a task's answers, with every metric that records hold."""
    scorer = api.consistency(
        denoiser,
        kind=task,
        settings=settings.consistency,
        metrics=settings.metrics,
        seed=settings.seed,
    )
    return replace(scorer, extra_metrics=EXTRA_METRICS)


def edits(denoiser: Denoiser) -> bool:
    """Return whether a model was trained to correct what it sees, as its preset tells."""
    return denoiser.preset.edit_threshold is not None


def draw_pools(
    denoiser: Denoiser,
    problems: Sequence[PromptedProblem],
    sampler: SamplerSettings,
    numbers: range,
    seed: int,
    *,
    trace: bool = False,
) -> list[list[Sample]]:
    """Return the samples of these numbers of each problem, traced or not."""
    answers = sample_rows(
        denoiser,
        [one.prompt for one in problems for _ in numbers],
        sampler,
        items=[one.problem.id for one in problems for _ in numbers],
        numbers=[number for _ in problems for number in numbers],
        seed=seed,
        trace=trace,
    )
    return [answers[k : k + len(numbers)] for k in range(0, len(answers), len(numbers))]


def grade_pools(
    task: Task,
    problems: Sequence[Problem],
    pools: Sequence[Sequence[Sample]],
    *,
    with_keys: bool = False,
) -> list[list[GradedAnswer]]:
    """Return what is known of every sample; equal texts of a problem are graded once."""

    def grade(job: tuple[Problem, str]) -> GradedAnswer:
        grade = task.judge(*job)
        key = answer_key(task, *job) if with_keys else NO_KEY
        return GradedAnswer(grade, steps_ok(task, *job, grade.right), key)

    pairs = list(zip(problems, pools, strict=True))
    jobs = {(p.id, answer.text): (p, answer.text) for p, pool in pairs for answer in pool}
    with ThreadPoolExecutor(os.cpu_count()) as threads:  # graders that run code wait for processes
        known = dict(zip(jobs, threads.map(grade, jobs.values()), strict=True))
    return [[known[p.id, answer.text] for answer in pool] for p, pool in pairs]


def identity(problem: Problem, number: int) -> dict[str, Any]:
    """Return what every line says: which problem it is about, and which sample."""
    return {"id": problem.id, "task": problem.task, "level": problem.level, "number": number}


def make_record(
    task: Task, problem: Problem, answer: Sample, truth: GradedAnswer, score: Score | None
) -> Record:
    """Return one sample as a record; numbers are rounded to what a float32 holds."""
    confidence, canvas = (
        ModelConfidence(scope=scope).score([answer])[0].value for scope in ("response", "canvas")
    )
    record = Record(
        **identity(problem, answer.number),
        prompt=problem.prompt,
        gold=problem.gold,
        text=answer.text,
        answer=task.extract(answer.text),
        right=truth.grade.right,
        process_ok=truth.process_ok,
        forwards=answer.forwards,
        scores=_rounded({"confidence": confidence, "confidence_canvas": canvas}),
    )
    if score is None:
        return record
    return replace(
        record,
        scores={**record.scores, "roundtrips": _round(score.value)},
        stderr=_round(score.stderr),
        metrics=_rounded(score.by_metric),
        by_trip={name: [_round(v) for v in values] for name, values in score.by_trip.items()},
        drift=[_round(d) for d in score.drift],
        verify_forwards=score.forwards,
    )


def _with_baselines(record: Record, scores: Mapping[str, Score]) -> Record:
    """Return a record with baselines that cost passes, and what they cost.

    One that gave no number is there all the same, as null, with the reason.
    """
    values = {name: _round(score.value) for name, score in scores.items()}
    costs = {name: BaselineCost(score.forwards, score.reason) for name, score in scores.items()}
    return replace(record, scores={**record.scores, **values}, baselines=costs)


def _rounded(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: _round(value) for name, value in values.items()}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 7)
