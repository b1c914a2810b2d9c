"""Rows to train on and to validate with, source by source, before and after the overlap rule.

Sources: `gsm8k` and `mawps` are published training problems; `gsm8k_numbers` and `mawps_numbers`
are the same with other numbers, re-solved; `stories` are told here, and `sums` have no story. What
is held out for validation is chosen first. A row of training is dropped where its question hits a
test or what is held out, in one of the three ways of `overlap.py`, or is one of a test
but for numbers and names; one of validation where it hits a test (or, of MAWPS, a training problem
of the same collection: it repeats itself). A problem that hits has no variants: renamed, they would
hit no more.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, Protocol

from remask.tasks.base import Problem, Split
from remask.tasks.public import BENCHMARKS
from remask.tasks.public.source import read_file
from studies.language.text.cast import renamed
from studies.language.text.equations import expression_of, renumber_equation, solve
from studies.language.text.names import NamelessIndex
from studies.language.text.overlap import OverlapIndex, words_of
from studies.language.text.renumber import renumber
from studies.language.text.solutions import plain_solution
from studies.language.text.story import StoryFrame, read_stories
from studies.language.text.sums import sums
from studies.language.text.telling import tell

WORDING = BENCHMARKS["gsm8k"].wordings["llada"]  # GSM8K, SVAMP and MAWPS are all asked so
LONGEST = 700  # characters of a response
SHARE_RENAMED = 0.5
# Why a row is dropped that a test has, too.
HIT = "hits a test"
HIT_RENAMED = "is one of a test but for numbers and names"


class Hits(Protocol):
    """Questions that rows must not hit."""

    def hits(self, text: str, /) -> bool:
        """Say whether a question does."""
        ...


class TextRow(NamedTuple):
    """A problem with the response to learn."""

    question: str
    response: str
    source: str

    def entry(self) -> dict[str, str]:
        """Return the line of a file."""
        prompt = WORDING.fill({"question": self.question})
        return {"prompt": prompt, "response": self.response, "source": self.source}


@dataclass(frozen=True, kw_only=True)
class CorpusPlan:
    """How many rows of each source there are to be."""

    seed: int = 0
    held_out: int = 500  # of GSM8K's training problems, and of the stories, for validation
    stories: int = 80_000
    sums: int = 60_000
    gsm8k_numbers: int = 8  # variants of one problem
    mawps_numbers: int = 10


@dataclass(kw_only=True)
class Corpus:
    """The rows, and what was dropped."""

    train: list[TextRow] = field(default_factory=list)
    valid: list[TextRow] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)  # "source: why" -> rows

    def num_in_tests(self, source: str) -> int:
        """Return how many rows of a source were not trained on because a test has them."""
        return sum(self.dropped[f"{source}: {why}"] for why in (HIT, HIT_RENAMED))


def build(data: Path, plan: CorpusPlan) -> Corpus:
    """Return all rows, the same ones for the same files and plan."""
    tests = [text for texts in test_questions(data).values() for text in texts]
    corpus = Corpus()
    solved, held = _split(gsm8k_rows(data), plan)
    hits_test = (HIT, OverlapIndex(tests))
    mawps = list(mawps_rows(data, "train"))
    itself = ("hits training", OverlapIndex(row.question for row in mawps))
    for rows, against in (
        (held, (hits_test,)),
        (mawps_rows(data, "validation"), (hits_test, itself)),
        (_stories(plan, "valid", plan.held_out), (hits_test,)),
    ):
        _keep(rows, corpus.valid, against, corpus.dropped, "valid ")
    in_valid = ("hits validation", OverlapIndex(row.question for row in corpus.valid))
    sources = _Sources((hits_test, in_valid), corpus.dropped)
    train = (
        *(row for row, _ in solved),
        *mawps,
        *_gsm8k_numbers([answer for _, answer in solved], plan, sources),
        *_mawps_numbers(data, plan, sources),
        *_stories(plan, "train", plan.stories),
        *_sums(plan),
    )
    renamed_test = (HIT_RENAMED, NamelessIndex(tests))
    _keep(train, corpus.train, (hits_test, renamed_test, in_valid), corpus.dropped)
    random.Random(f"order/{plan.seed}").shuffle(corpus.train)
    return corpus


def test_questions(data: Path) -> dict[str, list[str]]:
    """Return the questions of every test that a model trained on these rows is to be tried on."""
    named = {
        "gsm8k": data / "gsm8k" / "test.jsonl.gz",
        "svamp": data / "svamp" / "SVAMP.json.gz",
        "mawps": data / "mawps" / "testset.json.gz",
    }
    questions = {
        name: [question_of(problem) for problem in _problems(name, path, "test")]
        for name, path in named.items()
    }
    hard = data / "gsm_hard" / "test.jsonl.gz"
    return {**questions, "gsm_hard": [row.text("input") for row in read_file(hard)]}


def parts_of_mawps(data: Path) -> dict[str, list[str]]:
    """Return the questions of collections that MAWPS is made of: they cannot serve as tests."""
    return {
        name: [row.text("input") for row in read_file(data / "mawps" / f"{name}.jsonl.gz")]
        for name in ("multiarith", "addsub", "singleeq")
    }


def question_of(problem: Problem) -> str:
    """Return the question of a problem without the words around it."""
    return bare(problem.prompt)


def bare(prompt: str) -> str:
    """Return the question in a prompt of any of the benchmark's wordings."""
    for wording in BENCHMARKS["gsm8k"].wordings.values():
        before, _, after = wording.template.partition("{question}")
        if prompt.startswith(before) and prompt.endswith(after):
            return prompt[len(before) : len(prompt) - len(after)]
    return prompt


def gsm8k_rows(data: Path) -> list[tuple[TextRow, tuple[str, str]]]:
    """Return the training problems of GSM8K, each with its question and published answer."""
    rows = []
    for row in read_file(data / "gsm8k" / "train.jsonl.gz"):
        published = row.text("question"), row.text("answer")
        steps, final = plain_solution(published[1])
        rows.append((TextRow(published[0], f"{steps}\n#### {final}", "gsm8k"), published))
    return rows


def mawps_rows(data: Path, split: Split) -> Iterator[TextRow]:
    """Yield the problems of MAWPS whose equation gives the published answer."""
    for problem, expression in _mawps(data, split):
        solved = solve(question_of(problem), expression, Fraction(problem.gold))
        if solved is not None:
            yield TextRow(solved.question, solved.response, "mawps")


def story_rows(frames: Sequence[StoryFrame], rng: random.Random, count: int) -> Iterator[TextRow]:
    """Yield problems of the stories; a story comes as often as it has questions."""
    weights = [len(frame.asks) for frame in frames]
    made = 0
    while made < count:
        frame = rng.choices(frames, weights)[0]
        for problem in tell(frame, rng, 2):
            made += 1
            yield TextRow(problem.text, problem.solution, "stories")


def _stories(plan: CorpusPlan, split: str, count: int) -> Iterator[TextRow]:
    return story_rows(read_stories(), random.Random(f"stories/{split}/{plan.seed}"), count)


def _sums(plan: CorpusPlan) -> Iterator[TextRow]:
    for one in sums(random.Random(f"sums/{plan.seed}"), plan.sums):
        yield TextRow(one.question, one.response, "sums")


def _split(
    rows: list[tuple[TextRow, tuple[str, str]]], plan: CorpusPlan
) -> tuple[list[tuple[TextRow, tuple[str, str]]], list[TextRow]]:
    """Return what is trained on, and what is held out."""
    count = min(plan.held_out, len(rows) // 2)
    chosen = set(random.Random(f"held/{plan.seed}").sample(range(len(rows)), count))
    train = [row for place, row in enumerate(rows) if place not in chosen]
    return train, [row for place, (row, _) in enumerate(rows) if place in chosen]


class _Sources(NamedTuple):
    """Which problems variants may be made of."""

    against: Sequence[tuple[str, Hits]]
    dropped: Counter[str]

    def allow(self, question: str, source: str) -> bool:
        """Say whether variants of a problem may be made; where not, count the problem."""
        reason = _reason(question, self.against)
        if reason:
            self.dropped[f"{source}: none made of a problem that {reason}"] += 1
        return not reason


def _gsm8k_numbers(
    published: Iterable[tuple[str, str]], plan: CorpusPlan, sources: _Sources
) -> Iterator[TextRow]:
    rng = random.Random(f"gsm8k/{plan.seed}")
    for question, answer in published:
        if not sources.allow(question, "gsm8k_numbers"):
            continue
        for new in renumber(question, answer, rng, plan.gsm8k_numbers):
            yield _perhaps_renamed(new.question, new.solution, "gsm8k_numbers", rng)


def _mawps_numbers(data: Path, plan: CorpusPlan, sources: _Sources) -> Iterator[TextRow]:
    rng = random.Random(f"mawps/{plan.seed}")
    for problem, expression in _mawps(data, "train"):
        question = question_of(problem)
        if solve(question, expression, Fraction(problem.gold)) is None:
            continue
        if not sources.allow(question, "mawps_numbers"):
            continue
        for new in renumber_equation(question, expression, rng, plan.mawps_numbers):
            yield _perhaps_renamed(new.question, new.response, "mawps_numbers", rng)


def _perhaps_renamed(question: str, response: str, source: str, rng: random.Random) -> TextRow:
    if rng.random() < SHARE_RENAMED:
        question, response = renamed((question, response), rng)
    return TextRow(question, response, source)


def _mawps(data: Path, split: Split) -> Iterator[tuple[Problem, str]]:
    name = {"train": "trainset", "validation": "validset"}[split]
    for problem in _problems("mawps", data / "mawps" / f"{name}.json.gz", split):
        expression = expression_of(problem.facts["equation"])
        if expression is not None:
            yield problem, expression


def _problems(name: str, path: Path, split: Split) -> Iterator[Problem]:
    benchmark = BENCHMARKS[name].task(path=path)
    return (benchmark.problem(index, split=split) for index in range(benchmark.size(split)))


def _keep(
    rows: Iterable[TextRow],
    kept_rows: list[TextRow],
    against: Sequence[tuple[str, Hits]],
    dropped: Counter[str],
    prefix: str = "",
) -> None:
    """Append the rows that may stay, and count the others by source and reason."""
    seen: set[tuple[str, ...]] = set()
    for row in rows:
        words = words_of(row.question)
        reason = (
            "comes twice" if words in seen else "is too long" if len(row.response) > LONGEST else ""
        )
        reason = reason or _reason(row.question, against)
        if reason:
            dropped[f"{prefix}{row.source}: {reason}"] += 1
        else:
            seen.add(words)
            kept_rows.append(row)


def _reason(question: str, against: Sequence[tuple[str, Hits]]) -> str:
    """Return why a question may not be trained on; "" where it may."""
    return next((why for why, index in against if index.hits(question)), "")
