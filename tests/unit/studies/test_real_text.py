"""Stories told here and the rows made of them: every sum is checked, and so is the overlap."""

import collections
import gzip
import json
import operator
import random
import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remask.errors import InputError
from remask.tasks import task
from remask.tasks.public import BENCHMARKS
from studies.language.text import __main__ as real_text
from studies.language.text.cast import BOYS, GIRLS, plural, with_article
from studies.language.text.corpus import CorpusPlan, TextRow, bare, build, story_rows
from studies.language.text.expression import evaluate
from studies.language.text.names import NamelessIndex
from studies.language.text.solutions import equations
from studies.language.text.story import gaps, read_stories, read_story_file
from studies.language.text.sums import SPOKEN, sums
from studies.language.text.telling import ToldProblem, tell
from studies.shared.figures import read

FRAMES = read_stories()
STEP = re.compile(r"(?<![\d.])([0-9+*/()-]+)=\$?([0-9]+)")


def told(seed: int, draws: int) -> list[ToldProblem]:
    rng = random.Random(seed)
    return [problem for frame in FRAMES for _ in range(draws) for problem in tell(frame, rng, 20)]


TOLD = told(0, 4)


def test_there_are_hundreds_of_wordings() -> None:
    assert len(FRAMES) == len({frame.name for frame in FRAMES}) >= 200
    assert sum(len(frame.asks) for frame in FRAMES) >= 600
    assert len({problem.wording for problem in TOLD}) >= 550


def test_every_story_tells_what_its_solution_needs_and_not_what_it_gives() -> None:
    assert [gap for frame in FRAMES for gap in gaps(frame)] == []


def test_every_solution_is_worked_out_again_by_another_hand() -> None:
    """Each line of a solution has one computation that is right; the last one is the answer."""
    for problem in TOLD:
        *lines, final = problem.solution.split("\n")
        assert final == f"#### {problem.answer}"
        for line in lines:
            [(left, right)] = STEP.findall(line)
            assert evaluate(left) == int(right), problem
        assert STEP.findall(lines[-1])[0][1] == problem.answer
        assert all(evaluate(a) == evaluate(b) for a, b in equations(problem.solution))


def test_every_number_of_a_first_step_is_in_the_story_or_a_known_one() -> None:
    spelled = "two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
    known = {"2", "3", "4", "5", "12", "60", "100"}  # half, a third, a quarter, five days, a dozen
    for problem in TOLD:
        numbers = set(re.findall(r"\d+", problem.text)) | known
        numbers |= {str(n) for n, word in enumerate(spelled, 2) if word in problem.text.lower()}
        for left, right in STEP.findall(problem.solution):
            assert set(re.findall(r"\d+", left)) <= numbers, problem
            numbers.add(right)


def test_the_grader_of_the_benchmarks_reads_the_answer() -> None:
    form = task("svamp").form
    assert all(form.extract(problem.solution) == problem.answer for problem in TOLD)


def test_texts_are_written_as_people_write() -> None:
    for problem in TOLD:
        for text in (problem.text, *problem.solution.split("\n")):
            assert not re.search(r"[{}\[\]|]|  | [.,?!]|\.\.|\b(\w+) \1\b", text), text
            assert not re.search(r"(?:^|[.?!] )[a-z]", text), text
            condition = re.search(r"\bIf ([A-Z][a-z]+)", text)
            assert not condition or condition[1] in (*GIRLS, *BOYS), text
            assert not re.search(r"(?<![\w+*/-])1 (?:more |fewer )?(?:\w+s)\b(?<!is)", text), text
            assert not re.search(r"\ba [aeio]\w+|\ban [^aeiouh\W]\w+", text), text
        assert problem.text.count("?") == 1
        assert problem.text.endswith("?")


def test_one_story_is_asked_different_things() -> None:
    """Contrast: the same draw, other questions, other answers."""
    frame = next(frame for frame in FRAMES if frame.name == "two-people-two")
    problems = list(tell(frame, random.Random(5), 20))
    assert len(problems) >= 4
    assert len({problem.answer for problem in problems}) >= 3
    assert len({problem.text.split(" has ")[0] for problem in problems}) == 1


def test_numbers_that_nobody_needs_are_common() -> None:
    unneeded = 0
    for problem in TOLD:
        given_numbers = collections.Counter(re.findall(r"\d+", problem.text))
        used = collections.Counter(re.findall(r"\d+", problem.solution))
        unneeded += bool(given_numbers - used)
    assert 0.3 < unneeded / len(TOLD) < 0.9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, len(FRAMES) - 1))
def test_no_draw_makes_a_wrong_solution(seed: int, place: int) -> None:
    for problem in tell(FRAMES[place], random.Random(seed), 20):
        for left, right in STEP.findall(problem.solution):
            assert evaluate(left) == int(right)
        assert int(problem.answer) >= 1


@pytest.mark.parametrize(
    ("one", "many"),
    [("toy car", "toy cars"), ("box", "boxes"), ("cherry", "cherries"), ("key", "keys"),
     ("loaf of bread", "loaves of bread"), ("sheep", "sheep"), ("peach", "peaches"),
     ("rose bush", "rose bushes"), ("person", "people")],
)  # fmt: skip
def test_plurals(one: str, many: str) -> None:
    assert plural(one) == many


def test_articles_and_names() -> None:
    assert [with_article(word) for word in ("apple", "hour", "unicorn", "T-shirt", "egg")] == [
        "an apple", "an hour", "a unicorn", "a T-shirt", "an egg",
    ]  # fmt: skip
    assert not set(GIRLS) & set(BOYS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("words x=thing\n", "line 1 is before the first story"),
        ("story a\nnumbers s+any\n", "line 2: 's.any' is no number"),
        ("story a\nfoo bar\n", "line 2 begins with 'foo'"),
        ("story a\n? e=s+g | How many?\n", "line 2 has 0 sentences for 1 steps"),
        ("story a\n? e | How many? | So.\n", "line 2: 'e' is not of the form name=value"),
    ],
)
def test_a_wrong_line_of_a_story_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_story_file(path)
    with pytest.raises(InputError, match="has no story"):
        read_stories(tmp_path / "nothing")


def test_a_gap_in_a_story_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        "story a\nwords x=thing\nnumbers s~any g~any e=s+g\n- {A} had {s x}. ~ {He} had {g x}.\n"
        "? e=s+g | How many {x}? | {A} has {e x}.\n? s=e-g | How many {x} now? | {s x}.\n"
    )
    assert sorted(gap.partition("' ")[2] for gap in gaps(read_story_file(path)[0])) == [
        "needs e.", "needs g.", "says he before a name.",
    ]  # fmt: skip


def packed(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    text = json.dumps(rows) if ".json." in path.name else lines
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


def mawps(number: int, text: str, equation: str, answer: float) -> dict[str, Any]:
    return {"id": number, "original_text": text, "segmented_text": text, "equation": equation,
            "ans": answer}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in the authors' formats; two training rows hit the tests, and one hits itself."""
    folder = tmp_path_factory.mktemp("data")
    things = ["pens", "cups", "hats", "keys", "maps", "bags"]
    solved = [
        {"question": f"Ann has 1{n} {thing} and buys 2{n} more. How many {thing} are there?",
         "answer": f"1{n}+2{n}=<<1{n}+2{n}={30 + 2 * n}>>{30 + 2 * n}\n#### {30 + 2 * n}"}
        for n, thing in enumerate(things, 3)
    ]  # fmt: skip
    tested = {"question": solved[0]["question"].replace("13", "77"), "answer": "It.\n#### 9"}
    packed(folder / "gsm8k" / "train.jsonl.gz", solved)
    packed(folder / "gsm8k" / "test.jsonl.gz", [tested])
    packed(folder / "gsm_hard" / "test.jsonl.gz", [{"input": "What is it?", "target": 1.0}])
    packed(folder / "svamp" / "SVAMP.json.gz", [
        {"ID": "1", "Body": "Bo had 9 cats", "Question": "How many?", "Equation": "( 9.0 )",
         "Answer": 9.0, "Type": "Addition"}])  # fmt: skip
    lost = "{} had {} figs . He lost {} figs . How many figs does he have now ?"
    packed(folder / "mawps" / "trainset.json.gz", [
        mawps(1, lost.format("Tom", 22, 14), "X=22.0-14.0", 8.0),
        mawps(2, "Jim has 7 cows and 5 dogs . How many animals are there ?", "X=7.0+5.0", 12.0),
        mawps(3, "Sue sold 6 mugs and 8 jugs . How many did she sell ?", "X=6.0+8.0", 14.0),
        mawps(4, "Sue sold 6 mugs and 8 jugs . How many did she sell ?", "X=6.0+9.0", 14.0),
    ])  # fmt: skip
    packed(folder / "mawps" / "validset.json.gz", [
        mawps(5, lost.format("Tom", 9, 4), "X=9.0-4.0", 5.0),
        mawps(6, "Zoe ate 4 nuts and 3 dates . How many did she eat ?", "X=4.0+3.0", 7.0),
    ])  # fmt: skip
    packed(folder / "mawps" / "testset.json.gz", [
        mawps(7, "Jim has 9 cows and 2 dogs . How many animals are there ?", "X=9.0+2.0", 11.0),
    ])  # fmt: skip
    return folder


PLAN = CorpusPlan(held_out=2, stories=60, sums=30, gsm8k_numbers=3, mawps_numbers=3)


def test_rows_that_hit_a_test_or_validation_are_dropped_and_counted(data: Path) -> None:
    corpus = build(data, PLAN)
    assert corpus.dropped["mawps: hits a test"] == 1
    assert corpus.dropped["mawps_numbers: none made of a problem that hits a test"] == 1
    assert not any("animals" in row.question for row in corpus.train if "mawps" in row.source)
    assert corpus.dropped["valid mawps: hits training"] == 1, "Tom's figs, with other numbers"
    hits = corpus.dropped["gsm8k: hits a test"] + corpus.dropped["valid gsm8k: hits a test"]
    assert hits == 1, "the pens"
    assert not any("pens" in row.question for row in corpus.train if "gsm8k" in row.source)
    sources = collections.Counter(row.source for row in corpus.train)
    assert sources["mawps"] == 2
    assert sources["stories"] >= 40
    assert sources["sums"] >= 20
    assert [row.question for row in corpus.valid if row.source == "mawps"] == [
        "Zoe ate 4 nuts and 3 dates. How many did she eat?"
    ]


def test_a_problem_that_hits_has_no_variants_and_a_renamed_one_is_dropped(
    data: Path, tmp_path: Path
) -> None:
    """A variant with other names hits nothing by the three ways; so it is not made at all."""
    shutil.copytree(data, tmp_path, dirs_exist_ok=True)
    asked = "{} has 7 cows and 5 dogs . {} buys 9 pigs . How many dogs does {} have ?"
    rows = [mawps(1, asked.format("Jim", "He", "Jim"), "X=7.0+5.0", 12.0),
            mawps(2, asked.format("Ann", "She", "Ann"), "X=7.0+5.0", 12.0),
            mawps(3, "Zoe ate 6 nuts and 8 dates . How many did she eat ?", "X=6.0+8.0", 14.0),
            mawps(4, "Sue sold 6 mugs and 8 jugs . How many did she sell ?", "X=6.0+8.0", 14.0),
            ]  # fmt: skip
    packed(tmp_path / "mawps" / "trainset.json.gz", rows)
    packed(tmp_path / "mawps" / "testset.json.gz", rows[:1])
    packed(tmp_path / "mawps" / "validset.json.gz", [
        mawps(5, "Zoe ate 9 nuts and 2 dates . How many did she eat at 5 ?", "X=9.0+2.0", 11.0),
    ])  # fmt: skip
    kept = [row for row in build(tmp_path, PLAN).train if "mawps" in row.source]
    corpus = build(tmp_path, PLAN)
    assert corpus.num_in_tests("mawps") == 2
    assert corpus.num_in_tests("mawps_numbers") == 3
    dropped = corpus.dropped
    assert dropped["mawps: is one of a test but for numbers and names"] == 1
    assert dropped["mawps_numbers: is one of a test but for numbers and names"] == 3
    assert dropped["mawps_numbers: none made of a problem that hits a test"] == 1
    assert not any("cows" in row.question for row in kept)


@pytest.mark.parametrize(
    ("question", "hits"),
    [
        ("Rick has 9 pens. He gave Dora 2. How many pens are his?", True),
        ("Amy has 9 pens. She gave Bo 2. How many pens are hers?", True),
        ("Ghislaine has nine pens. She gave Mr 2. How many pens are hers?", True),
        ("Rick has 9 cups. He gave Dora 2. How many cups are his?", False),
        ("Rick's 9 pens. He gave Dora 2. How many pens are his?", False),
    ],
)
def test_a_question_is_known_again_under_other_names(question: str, hits: bool) -> None:
    index = NamelessIndex(["Fred has 3 pens. He gave Ann 1. How many pens are his?"])
    assert index.hits(question) == hits
    assert index.count([question] * 2) == 2 * hits


def test_names_keep_their_endings_and_small_words_are_none() -> None:
    index = NamelessIndex(["After lunch how many of Fred's pens are left?"])
    assert index.nameless("How many are Kirsten's?") == ("how", "many", "are", "somebodys")
    assert index.nameless("Kirsten told Ann 3.") == ("somebody", "told", "somebody", "#")
    assert index.nameless("At 3 herself") == ("somebody", "#", "himself"), "never small in the test"


def test_the_same_seed_makes_the_same_rows(data: Path) -> None:
    assert build(data, PLAN) == build(data, PLAN)
    assert (
        build(data, PLAN).train
        != build(data, CorpusPlan(seed=1, held_out=2, stories=60, sums=30)).train
    )


def test_a_row_is_asked_as_the_benchmark_asks(data: Path) -> None:
    problem = task("mawps", path=data / "mawps" / "testset.json.gz").problem(0)
    row = TextRow(bare(problem.prompt), "It is 9+2=11.\n#### 11", "mawps")
    assert row.entry()["prompt"] == problem.prompt
    assert bare(problem.prompt) == "Jim has 9 cows and 2 dogs. How many animals are there?"
    assert task("mawps").form.judge(problem, row.response).right


def test_the_command_writes_rows_and_a_card_and_measures_nothing_left(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    words = ["--figures", str(figures), "--commit", "abc", "--hardware", "two cores"]
    words += ["build", str(data), str(tmp_path), "--stories", "40", "--sums", "20"]
    arguments = real_text.read_arguments(words)
    assert arguments.run(arguments) == 0
    lines = (tmp_path / "train.jsonl").read_text().splitlines()
    assert all(list(json.loads(line)) == ["prompt", "response", "source"] for line in lines)
    assert "- svamp: 0, 0, 0, 0\n" in (tmp_path / "card.md").read_text()
    counted = {name: row["value"] for name, row in read(figures).items()}
    assert sum(n for name, n in counted.items() if name.startswith("real/rows/")) == len(lines)
    sources = collections.Counter(json.loads(line)["source"] for line in lines)
    assert counted["real/rows/stories"] == sources["stories"] > 0
    assert counted["real/held_out"] == len((tmp_path / "valid.jsonl").read_text().splitlines())
    capsys.readouterr()
    arguments = real_text.read_arguments(["overlap", str(data), str(tmp_path / "train.jsonl")])
    assert arguments.run(arguments) == 0
    assert f"{len(lines)} rows against 4 test questions: 0, 0, 0, 0" in capsys.readouterr().out


def test_overlap_that_is_there_is_found_and_fails(data: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    row = TextRow("Bo had 7 cats How many?", "#### 7", "mine").entry()
    rows.write_text(json.dumps(row) + "\n")
    arguments = real_text.read_arguments(["overlap", str(data), str(rows)])
    assert arguments.run(arguments) == 1
    row = TextRow("Nothing\u2028of it\x85?", "#### 7", "mine").entry()
    rows.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert real_text.read_questions(rows) == ["Nothing\u2028of it\x85?"]
    rows.write_text("{}\n")
    with pytest.raises(InputError, match="line 1 has no prompt"):
        real_text.read_questions(rows)
    rows.write_bytes(b'{"prompt": "caf\xe9"}\n')
    with pytest.raises(InputError, match="not valid UTF-8"):
        real_text.read_questions(rows)
    for nothing in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InputError, match="is no file; name a file of rows"):
            real_text.read_questions(nothing)


@pytest.mark.parametrize("wording", ["llada", "dream"])
def test_a_question_is_found_in_any_wording(wording: str) -> None:
    template = BENCHMARKS["gsm8k"].wordings[wording].template
    assert bare(template.replace("{question}", "How many?")) == "How many?"
    assert bare("How many?") == "How many?"


def test_stories_come_by_their_number_of_questions() -> None:
    rows = list(story_rows(FRAMES, random.Random(0), 50))
    assert 50 <= len(rows) <= 51
    assert {row.source for row in rows} == {"stories"}


def test_a_sum_says_what_it_asks_and_works_it_out() -> None:
    """Words are worked out here in another way, from left to right."""
    work = dict(zip(SPOKEN.values(), (operator.add, operator.sub, operator.mul, operator.truediv),
                    strict=True))  # fmt: skip
    spoken_in = re.compile("|".join(map(re.escape, work)))
    for one in sums(random.Random(0), 2_000):
        asked = one.question.replace(", and then", "")
        numbers = [Fraction(text) for text in re.findall(r"[0-9]+(?:\.[0-9]+)?", asked)]
        value = numbers[0]
        for spoken, more in zip(spoken_in.findall(asked), numbers[1:], strict=True):
            value = work[spoken](value, more)
        steps, _, final = one.response.partition(".\n#### ")
        assert Fraction(final) == value >= 0
        for step in steps.split("\n"):
            expression, _, result = step.partition("=")
            assert evaluate(expression) == Fraction(result)
        assert len(steps.split("\n")) == len(numbers) - 1


def test_sums_cover_every_operation_and_cents() -> None:
    drawn = list(sums(random.Random(1), 500))
    for spoken in SPOKEN.values():
        assert sum(spoken in one.question for one in drawn) > 100
    assert any(re.search(r"[0-9]\.[0-9]{2} ", one.question) for one in drawn)
    assert drawn == list(sums(random.Random(1), 500))
