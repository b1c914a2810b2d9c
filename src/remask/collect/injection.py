"""Right solutions and the same with a flaw written in, scored: one JSON line each.

    pairs = reference_pairs(task, level="hard", problems=300)     the tasks' own solutions
    pairs = recorded_pairs(rows)                                   or what a model wrote, all right
    collect_injected(model, pairs, InjectionSettings(), out)

A problem has one line for its solution and one per kind of flaw, in the order of `flaws.KINDS`; a
kind that does not apply has a line without text. Tasks define the flaws (`tasks.flaws`), and
`analysis.spurious` studies the scores.

The model did not write these answers, so they have no confidence of generation. They have
`read_confidence` instead: the mean probability of their tokens, masking every eighth at a time.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, cast

import torch

from remask import api
from remask.collect import runner
from remask.collect.answers import GradedAnswer, identity, make_record, scorer_for
from remask.collect.chunks import RowSize, cut
from remask.collect.engine import ChunkedWork, Lines, Local
from remask.collect.manifest import identify, new_entry
from remask.collect.settings import InjectionSettings
from remask.denoisers.base import Denoiser
from remask.errors import RecordError
from remask.records.jsonl import Row
from remask.records.manifest import Manifest
from remask.records.record import Record, SkippedFlaw
from remask.sampling.batches import spread, whole_canvas, whole_rows
from remask.sampling.likelihood import log_likelihood
from remask.tasks import task as find_task
from remask.tasks.base import Problem, Split, Task, check_level
from remask.tasks.flaws import KINDS, inject
from remask.values import ROUNDTRIPS, Canvas, Sample

ORIGINAL = "original"
VARIANTS = (ORIGINAL, *KINDS)
HIDDEN_EVERY = 8  # passes that read an answer; each hides every eighth of its tokens

Pair = tuple[Problem, str]  # a problem and a right solution of it


class Case(NamedTuple):
    """One text to be scored."""

    problem: Problem
    kind: str  # one of VARIANTS
    text: str | None  # None: the kind does not apply to this solution


def reference_pairs(
    name: str, *, level: str = "", split: Split = "test", problems: int = 100, seed: int = 0
) -> list[Pair]:
    """Return problems of a task with the solutions that come with them."""
    task = find_task(name)
    level = check_level(task, level, split)
    drawn = (task.problem(k, split=split, level=level, seed=seed) for k in range(problems))
    return [(problem, problem.solution) for problem in drawn]


def recorded_pairs(rows: Iterable[Record]) -> list[Pair]:
    """Return the recorded standard answers that are right in every step, with their problems."""
    sound = (row for row in rows if row.number == 0 and row.process_ok)
    return [(problem_of(row), row.text) for row in sound]


def cases(pairs: Iterable[Pair], seed: int = 0) -> Iterator[Case]:
    """Yield every solution as it is and with each kind of flaw."""
    for problem, solution in pairs:
        yield Case(problem, ORIGINAL, solution)
        for kind in KINDS:
            yield Case(problem, kind, inject(problem, solution, kind, seed))


def collect_injected(
    denoiser: Denoiser,
    pairs: Sequence[Pair],
    settings: InjectionSettings,
    out: Path,
    progress: Callable[[int], None] = lambda done: None,
) -> Path:
    """Write the records of `pairs`, all of one task, continuing where an earlier run stopped."""
    task = pairs[0][0].task if pairs else ""
    about = {**asdict(settings), "flaws": list(KINDS), "problems": len(pairs)}
    new = Manifest(
        settings=json.loads(json.dumps({"model": denoiser.name, **about})),
        model=identify(denoiser),
        scorers={ROUNDTRIPS: api.scorer_version(ROUNDTRIPS)},
        thresholds=dict(denoiser.preset.thresholds(task)),
    )

    def compute(model: Denoiser, some: Sequence[Pair]) -> Lines:
        rows = [line.to_json() for line in injected_records(model, some, settings)]
        return list(_grouped(iter(rows)))

    with runner.open_results(out, new, group=_grouped) as results:
        for (problem, solution), (_, lines) in zip(pairs, results.lines(), strict=False):
            if (lines[0]["id"], lines[0]["text"]) != (problem.id, solution):
                raise RecordError(
                    f"{out} has another solution of {lines[0]['id']}; choose another file."
                )
        missing = results.missing
        chunks = cut(((row, RowSize(0)) for row in missing), settings.chunk)
        work = ChunkedWork(chunks, lambda chunk: pairs[chunk.start : chunk.stop], compute)
        progress(len(results.rows) - len(missing))
        entry = new_entry(denoiser, "local", missing, len(pairs), most=settings.chunk)
        for _ in results.run(Local(denoiser), work, entry) if missing else ():
            progress(len(results.rows) - len(results.missing))
        results.finish()
    return out


def _grouped(lines: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield the lines of each problem."""
    for line in lines:
        yield [line, *(line for _, line in zip(VARIANTS[1:], lines, strict=False))]


def injected_records(
    denoiser: Denoiser, pairs: Sequence[Pair], settings: InjectionSettings
) -> Iterator[Record | SkippedFlaw]:
    """Yield the lines of some pairs, a problem's together."""
    task = find_task(pairs[0][0].task)
    variants = list(cases(pairs, settings.seed))
    samples = [sample_of_case(denoiser, task, case) for case in variants]
    present = [sample for sample in samples if sample is not None]
    scores = scorer_for(denoiser, task, settings).score(present)
    scored = zip(present, scores, read_confidence(denoiser, present), strict=True)
    for case, sample in zip(variants, samples, strict=True):
        if sample is None:
            number = VARIANTS.index(case.kind)
            yield SkippedFlaw(**identity(case.problem, number), kind=case.kind)
            continue
        answer, score, confidence = next(scored)
        grade = task.judge(case.problem, answer.text)
        process = grade.right and task.process_ok(case.problem, answer.text)
        record = make_record(task, case.problem, answer, GradedAnswer(grade, process), score)
        yield replace(
            record,
            scores={**record.scores, "read_confidence": round(confidence, 7)},
            kind=case.kind,
            pieces=denoiser.tokenizer.pieces(answer.canvas[: answer.num_response]),
        )


def read_confidence(denoiser: Denoiser, samples: Sequence[Sample]) -> list[float]:
    """Return the mean probability of each answer's tokens given the prompt and most of the others.

    Every token is hidden once, together with those that stand a multiple of `HIDDEN_EVERY` away.
    """
    jobs = [(k, phase) for k in range(len(samples)) for phase in range(HIDDEN_EVERY)]
    lengths = [len(samples[k].prompt) + len(whole_canvas(denoiser, samples[k])) for k, _ in jobs]
    total = [0.0] * len(samples)

    def read(replica: Denoiser, batch: list[int]) -> list[float]:
        return _read(replica, [(samples[jobs[i][0]], jobs[i][1]) for i in batch])

    for batch, summed in spread(denoiser, whole_rows(lengths, denoiser.device), read):
        for i, probs in zip(batch, summed, strict=True):
            total[jobs[i][0]] += probs
    return [probs / sample.num_response for probs, sample in zip(total, samples, strict=True)]


@torch.no_grad()
def _read(denoiser: Denoiser, jobs: Sequence[tuple[Sample, int]]) -> list[float]:
    """Return the summed probability of the tokens that each row hides."""
    canvas = Canvas.of(
        [sample.prompt for sample, _ in jobs],
        [whole_canvas(denoiser, sample) for sample, _ in jobs],
        denoiser.tokenizer.pad_id,
        denoiser.device,
    )
    ends, phases = (
        torch.tensor(column, device=denoiser.device)[:, None]
        for column in zip(*((sample.num_response, phase) for sample, phase in jobs), strict=True)
    )
    response = canvas.canvas & (canvas.offsets < ends)  # (B, L)
    masked = response & (canvas.offsets % HIDDEN_EVERY == phases)
    probs = log_likelihood(denoiser, canvas, masked).exp() * masked
    summed: list[float] = probs.sum(1).tolist()
    return summed


def sample_of_case(denoiser: Denoiser, task: Task, case: Case) -> Sample | None:
    """Return a text as a sample on the canvas of its level, longer only where it does not fit."""
    if case.text is None:
        return None
    tokenizer = denoiser.tokenizer
    ids = tokenizer.encode(case.text, "solution")
    length = max(task.canvas_length(case.problem.level), len(ids) + 1)
    return Sample(
        item=case.problem.id,
        number=VARIANTS.index(case.kind),
        prompt=tuple(tokenizer.render(case.problem.prompt)),
        canvas=(*ids, *[tokenizer.eos_id] * (length - len(ids))),
        num_response=len(ids) + 1,
        text=case.text,
    )


def problem_of(row: Record) -> Problem:
    """Return the problem that a row answers, drawn again from its identity."""
    try:
        name, level, split, seed, index = row.id.split("/")
        problem = find_task(name).problem(
            int(index), split=cast(Split, split), level=level, seed=int(seed)
        )
    except ValueError:
        raise RecordError(
            f"The id of a record must be TASK/LEVEL/SPLIT/SEED/NUMBER, got {row.id!r:.80}."
        ) from None
    if problem.prompt != row.prompt:
        raise RecordError(f"{row.id} is another problem in these records; collect them again.")
    return problem
