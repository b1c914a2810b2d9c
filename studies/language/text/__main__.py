"""Word problems to train a small model on: rows, a card that counts them, and their overlap.

    python -m studies.language.text build DATA OUT       train.jsonl, valid.jsonl and card.md in OUT
    python -m studies.language.text --seed 1 build DATA OUT --stories 50000 --sums 0
    python -m studies.language.text overlap DATA OUT/train.jsonl       what is left: 0, 0, 0, 0
    python -m studies.language.text near DATA OUT/train.jsonl FILE     tests that a row nearly is
    python -m studies.language.text show --count 5               some stories, without any file

DATA is a folder with gsm8k/{train,test}.jsonl.gz, mawps/{trainset,validset,testset}.json.gz,
svamp/SVAMP.json.gz and gsm_hard/test.jsonl.gz as their authors publish them (docs/benchmarks.md
says where); for the card also mawps/{multiarith,addsub,singleeq}.jsonl.gz. A row is `prompt`,
`response` and `source`; the prompt is the benchmarks' own, and the response ends with `#### N`, as
their graders read it. The same files and seed give the same rows. MathQA is left out, since of it
only a sample of the test is at hand, and ASDiv, since SVAMP is made from it.

Overlap is counted in the three ways of `overlap.py`, and once more without numbers and
names; `overlap` exits with 0 where nothing is left in any of the four.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remask.errors import InputError, RemaskError
from remask.records.jsonl import encode, replace_file, write_text
from remask.records.text_file import read_text
from studies.language.text.corpus import (
    Corpus,
    CorpusPlan,
    TextRow,
    bare,
    build,
    parts_of_mawps,
    story_rows,
    test_questions,
)
from studies.language.text.names import NamelessIndex
from studies.language.text.near import nearness
from studies.language.text.overlap import OverlapIndex
from studies.language.text.story import read_stories
from studies.shared.figures import figure_of, parse, save

LICENCES = {
    "gsm8k": "MIT",
    "gsm8k_numbers": "MIT (made from GSM8K)",
    "mawps": "ODC-By 1.0 as published with LLM-Adapters; MAWPS itself states none",
    "mawps_numbers": "as mawps",
    "stories": "Apache-2.0 (this project)",
    "sums": "Apache-2.0 (this project)",
}


def card(corpus: Corpus, plan: CorpusPlan, overlaps: dict[str, str]) -> str:
    """Return what is in the files, as a page."""
    train, valid = (Counter(row.source for row in rows) for rows in (corpus.train, corpus.valid))
    sizes = f"{len(corpus.train):,} rows to train on, {len(corpus.valid):,} to validate with"
    lines = [
        "# Word problems for training", "", f"Made with seed {plan.seed}: {sizes}.", "",
        "| source | train | validation | words of a question | words of a response | licence |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for source, licence in LICENCES.items():
        rows = [row for row in corpus.train if row.source == source]
        asked = _mean([len(row.question.split()) for row in rows])
        said = _mean([len(row.response.split()) for row in rows])
        lines.append(
            f"| {source} | {train[source]:,} | {valid[source]:,} | {asked} | {said} | {licence} |"
        )
    lines += ["", "Dropped before training:", "", "| what | rows |", "|---|---|"]
    lines += [f"| {what} | {count:,} |" for what, count in sorted(corpus.dropped.items())]
    lines += ["", "Overlap left (same; same but for numbers; 13 words in a row; same but for "
              "numbers and names):", ""]  # fmt: skip
    lines += [f"- {name}: {count}" for name, count in overlaps.items()]
    return "\n".join(lines) + "\n"


def measure_overlap(data: Path, questions: Sequence[str]) -> dict[str, str]:
    """Return the overlap of questions with every test, and with the parts of MAWPS for the note."""
    sets = {**test_questions(data), **_noted(data)}
    return {
        name: f"{OverlapIndex(texts).count(questions)}, {NamelessIndex(texts).count(questions)}"
        for name, texts in sets.items()
    }


def _noted(data: Path) -> dict[str, list[str]]:
    try:
        parts = parts_of_mawps(data)
    except InputError:
        return {}
    return {f"{name}, a part of MAWPS, no test here": texts for name, texts in parts.items()}


def figures_of(corpus: Corpus) -> dict[str, dict[str, Any]]:
    """Return how many rows there are of each source, and how many a test would not let in."""
    train = Counter(row.source for row in corpus.train)
    figures = {"real/held_out": figure_of(len(corpus.valid), "rows held out")}
    for source in LICENCES:
        dropped = corpus.num_in_tests(source)
        figures[f"real/rows/{source}"] = figure_of(train[source], "rows to train on")
        figures[f"real/dropped/{source}"] = figure_of(dropped, "rows that a test has, too")
    return figures


def run_build(arguments: argparse.Namespace) -> int:
    """Build the rows and write them."""
    started = time.perf_counter()
    plan = CorpusPlan(seed=arguments.seed, stories=arguments.stories, sums=arguments.sums)
    corpus = build(arguments.data, plan)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train", corpus.train), ("valid", corpus.valid)):
        replace_file(arguments.out / f"{name}.jsonl", encode(row.entry() for row in rows))
    overlaps = measure_overlap(arguments.data, [row.question for row in corpus.train])
    text = card(corpus, plan, overlaps)
    write_text(arguments.out / "card.md", text)
    print(text)
    save(arguments, figures_of(corpus), "rows", "python -m studies.language.text build DATA OUT")
    show(corpus.train, arguments.count, arguments.seed)
    print(f"{time.perf_counter() - started:.0f} s")
    return 0


def run_overlap(arguments: argparse.Namespace) -> int:
    """Print the overlap of a file of rows with the tests; return 0 where there is none."""
    questions = read_questions(arguments.rows)
    tests = [text for texts in test_questions(arguments.data).values() for text in texts]
    left = OverlapIndex(tests).count(questions)
    nameless = NamelessIndex(tests).count(questions)
    print(f"{len(questions):,} rows against {len(tests):,} test questions: {left}, {nameless}")
    total = left.same + left.same_but_numbers + left.windows + nameless
    figure = figure_of(total, "rows", len(questions))
    save(
        arguments,
        {"real/overlap": figure},
        "overlap",
        "python -m studies.language.text overlap DATA ROWS",
    )
    return int(total > 0)


def run_near(arguments: argparse.Namespace) -> int:
    """Write which test questions a row nearly is: not overlap by the rules, and yet not new."""
    tests = test_questions(arguments.data)
    every = [text for texts in tests.values() for text in texts]
    likeness = dict(zip(every, nearness(every, read_questions(arguments.rows)), strict=True))
    found = {name: [text for text in texts if likeness[text]] for name, texts in tests.items()}
    for name, near in found.items():
        print(f"{name}: {len(near)} of {len(tests[name])} test questions are nearly a row's")
    write_text(arguments.out, json.dumps({"questions": found}, indent=1) + "\n")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print some stories."""
    rng = random.Random(arguments.seed)
    show(list(story_rows(read_stories(), rng, arguments.count)), arguments.count, arguments.seed)
    return 0


def read_questions(path: Path) -> list[str]:
    """Return the questions of a file of rows."""
    if not path.is_file():
        raise InputError(f"ROWS {path} is no file; name a file of rows, such as OUT/train.jsonl.")
    questions = []
    lines = read_text(path, InputError).removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            questions.append(bare(json.loads(line)["prompt"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path} line {number} has no prompt; give a file of rows.") from None
    return questions


def show(rows: Sequence[TextRow], count: int, seed: int) -> None:
    """Print a few rows of every source."""
    rng = random.Random(f"show/{seed}")
    for source in LICENCES:
        some = [row for row in rows if row.source == source]
        for row in rng.sample(some, min(count, len(some))):
            print(f"[{source}] {row.question}\n{row.response}\n")


def _mean(values: Sequence[int]) -> str:
    return f"{sum(values) / len(values):.0f}" if values else ""


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Word problems to train a small model on.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2, help="rows to print per source")
    commands = parser.add_subparsers(required=True)
    made = commands.add_parser("build", help="write the rows and their card")
    made.add_argument("data", type=Path)
    made.add_argument("out", type=Path)
    made.add_argument("--stories", type=int, default=CorpusPlan.stories)
    made.add_argument("--sums", type=int, default=CorpusPlan.sums)
    made.set_defaults(run=run_build)
    overlap = commands.add_parser("overlap", help="print the overlap with the tests")
    overlap.add_argument("data", type=Path)
    overlap.add_argument("rows", type=Path)
    overlap.set_defaults(run=run_overlap)
    near = commands.add_parser("near", help="write which test questions a row nearly is")
    near.add_argument("data", type=Path)
    near.add_argument("rows", type=Path)
    near.add_argument("out", type=Path, help="file to write, JSON")
    near.set_defaults(run=run_near)
    commands.add_parser("show", help="print some stories").set_defaults(run=run_show)
    return parse(parser, words)


if __name__ == "__main__":
    try:
        arguments = read_arguments(sys.argv[1:])
        sys.exit(arguments.run(arguments))
    except RemaskError as error:
        sys.exit(f"studies.language.text: {error}")
