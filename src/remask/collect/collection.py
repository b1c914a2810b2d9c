"""A file of answers that grows in portions: what is there, what is missing, what failed.

Rows are appended in order as portions finish; a run that was killed goes on after the last whole
portion, and ends with the same bytes. Another size of portion makes other batches, which may change
the last digit of a number. What the rows are of is the caller's to say (`collect`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from remask.collect import manifest
from remask.collect.asking import Asked, refuse_all
from remask.collect.chunks import Engine, Portion
from remask.collect.minute import work_budget
from remask.collect.pace import Pace
from remask.collect.shards import Shards
from remask.denoisers.base import Denoiser
from remask.records import jsonl

Row = dict[str, Any]
Progress = Callable[[int, int], None]  # answers that are there, forward passes of this run


@dataclass(kw_only=True, eq=False)
class Collection:
    """One call of `collect`: the records on disk, and what is still to be worked."""

    out: Path
    denoiser: Denoiser
    engine: Engine
    problems: int
    samples: int  # of each problem
    canvas: int  # tokens
    pace: Pace  # what answers cost; its limits are those of a run
    ask: Callable[[int], Asked]
    load: Callable[[Portion], Any]
    work: Callable[[Denoiser, Any], list[Row]]
    lengths: dict[int, int] = field(default_factory=dict)  # of problems, once they were looked at

    def go_on(
        self, document: manifest.Document, shards: Shards, progress: Progress
    ) -> manifest.Document:
        """Work what is missing; return the manifest with this run in it."""
        samples, total = self.samples, self.problems * self.samples
        jsonl.recover(self.out)
        places = _places(jsonl.read(self.out), samples)
        there = places[-1] if places else 0
        done = manifest.resume_at(document, there, self.portions, per=samples)
        progress(min(done, total), 0)  # more may be there than is wanted
        if done >= total:
            return document
        refuse_all(map(self.ask, range(self.problems)))
        jsonl.keep(self.out, sum(place <= done for place in places))
        first, number = divmod(done, samples)
        run = self._start(
            document, first, {"from_sample": number, "work": work_budget(self.denoiser)}
        )
        portions = self.portions(run.entry)
        results = self.engine.results(portions, self.load, self.work, shards)
        for portion, rows in zip(portions, results, strict=True):
            jsonl.append(self.out, rows)
            run.note(portion.stop // samples, rows, finished=portion.stop == total)
            progress(portion.stop, run.entry["forwards"])
        return run.document

    def retry(self, document: manifest.Document, shards: Shards, progress: Progress) -> None:
        """Ask again what could not be asked; answers take the place of their error."""
        rows = list(jsonl.read(self.out))
        numbers = [place // self.samples - 1 for place in _places(rows, self.samples)]
        failed = [number for row, number in zip(rows, numbers, strict=True) if "error" in row]
        if not failed:
            return
        run = self._start(document, self.problems, {"retried": len(failed), "work": None})
        whole = [Portion(n * self.samples, (n + 1) * self.samples) for n in failed]
        results = self.engine.results(whole, self.load, self.work, shards)
        answers = dict(zip(failed, results, strict=True))
        jsonl.replace_rows(self.out, _merged(rows, numbers, answers))
        spent = [row for several in answers.values() for row in several]
        run.note(self.problems, spent, finished=True)
        progress(self.problems * self.samples, run.entry["forwards"])

    def portions(self, run: Mapping[str, Any]) -> list[Portion]:
        """Return the portions of a run, as its entry in the manifest says."""
        first = run["from"]
        limits = replace(
            self.pace, most=run["chunk"], tokens=run.get("tokens"), work=run.get("work")
        )
        lengths = [self._length(number) for number in range(first, run["problems"])]
        return limits.portions(first * self.samples + run.get("from_sample", 0), lengths)

    def _length(self, number: int) -> int:
        """Return the tokens of a problem and its canvas; 0 for one that cannot be asked."""
        if number not in self.lengths:
            question = self.ask(number)
            self.lengths[number] = 0 if question.error else len(question.prompt) + self.canvas
        return self.lengths[number]

    def _start(
        self, document: manifest.Document, done: int, further: Mapping[str, Any]
    ) -> manifest.Run:
        return manifest.start(
            self.denoiser, document, done, self.out, self.engine.name, further=further
        )


def _places(rows: Iterable[Mapping[str, Any]], samples: int) -> list[int]:
    """Return the place after each row: an error stands for all answers to its problem."""
    return list(accumulate(samples if "error" in row else 1 for row in rows))


def _merged(
    rows: Iterable[Row], numbers: Iterable[int], answers: Mapping[int, list[Row]]
) -> Iterator[Row]:
    """Yield the rows in order, each error replaced by what came of asking again."""
    for row, number in zip(rows, numbers, strict=True):
        yield from answers[number] if "error" in row else [row]
