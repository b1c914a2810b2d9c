"""The public benchmarks as tasks: rows become problems, answers get grades with reasons."""

import contextlib
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remask.consistency.metrics import METRICS
from remask.errors import InputError, TaskError
from remask.tasks import TASKS, task
from remask.tasks.base import TIERS, Grade, Split, answer_key, compared_by
from remask.tasks.public import BENCHMARKS, NAMES
from remask.tasks.public.benchmark import Benchmark
from remask.tasks.public.choices import Arc, Gpqa, find_letter
from remask.tasks.public.competition import Competition
from remask.tasks.public.equations import Mawps, Svamp, written
from remask.tasks.public.gsm8k import Gsm8k
from remask.tasks.public.programs import HumanEval, Mbpp
from remask.tasks.public.source import BenchmarkRow

ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k": [
        {"question": "Two and two?", "answer": "It is 2 + 2 = <<2+2=4>>4.\n#### 4"},
        {"question": "A thousand and one?", "answer": "Simple.\n#### 1,001"},
    ],
    "svamp": [
        {"ID": "chal-1", "Body": "Ann had 9 red pens and 4 blue pens. If she lost 3 red pens",
         "Question": "How many red pens did Ann have left?", "Equation": "( 9.0 - 3.0 )",
         "Answer": 6.0, "Type": "Subtraction"},
        {"ID": "chal-2", "Body": "There were 8 rows of 1200 seats. ", "Question": "How many seats?",
         "Equation": "( 8.0 * 1200.0 )", "Answer": 9600.0, "Type": "Multiplication"},
    ],
    "mawps": [
        {"id": 7, "original_text": "Bo 's mom had $ 22 .   She did n't keep 14 % , did she ?",
         "segmented_text": "", "equation": "X=((22.0-14.0)/4.0)", "ans": 2.0},
        {"id": 8, "original_text": "How much is it ?", "segmented_text": "",
         "equation": "x=0.5+0.3333333333333333", "ans": "0.8333333333333334"},
        {"id": 9, "original_text": "Find the number .", "segmented_text": "",
         "equation": "(6.0+x)*(x-6.0)=189.0", "ans": -15.0},
    ],
    "math": [
        {"problem": "Solve $2x=1$.", "solution": r"$x=\boxed{\frac{1}{2}}$.", "level": "Level 1",
         "type": "Algebra"},
        {"problem": "Which?", "solution": r"It is $\boxed{\text{(B)}}$.", "level": "Level 5"},
        {"problem": "Odd one.", "solution": r"$\boxed{3}$", "level": "Level ?"},
    ],
    "math500": [
        {"problem": "Add.", "solution": r"$\boxed{1,\!000}$", "answer": "1000", "level": 3,
         "subject": "Prealgebra", "unique_id": "a"},
    ],
    "arc": [
        {"id": "q1", "question": "Which is wet?", "answerKey": "B",
         "choices": {"text": ["sand", "water", "air"], "label": ["A", "B", "C"]}},
        {"id": "q2", "question": "Which is hot?", "answerKey": "4",
         "choices": {"text": ["ice", "snow", "fog", "fire"], "label": ["1", "2", "3", "4"]}},
        {"id": "q3", "answerKey": "A", "question": {"stem": "Which flies?", "choices": [
            {"text": "bird", "label": "A"}, {"text": "fish", "label": "B"}]}},
    ],
    "gpqa": [
        {"Record ID": f"rec{n}", "Question": f"Question {n}?", "Correct Answer": f"right {n}",
         "Incorrect Answer 1": "wrong a", "Incorrect Answer 2": "wrong b",
         "Incorrect Answer 3": "wrong c", "High-level domain": "Physics"} for n in range(40)
    ],
    "humaneval": [
        {"task_id": "T/0", "entry_point": "double", "test":
         "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n",
         "prompt": 'import math\n\ndef double(x):\n    """Return x times two."""\n',
         "canonical_solution": "    y = math.floor(x)\n    return y + y\n"},
    ],
    "mbpp": [
        {"task_id": number, "text": "Write a function to add one.", "test_setup_code": "",
         "code": "STEP = 1\r\ndef inc(x):\r\n    return x + STEP",
         "test_list": ["assert inc(1) == 2", "assert inc(5) == 6", "assert inc(0) == 1"]}
        for number in (3, 11, 12, 511, 601)
    ],
}  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """One file per benchmark, named after no split."""
    paths = {}
    for name, rows in ROWS.items():
        paths[name] = tmp_path / f"{name}.jsonl"
        paths[name].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return paths


def of(files: Mapping[str, Path], name: str, **named: Any) -> Benchmark:
    return task(name, path=files[name], **named)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_keeps_the_contract_of_a_task(name: str, files: dict[str, Path]) -> None:
    found = of(files, name, allow_execution=True)
    problem = found.problem(0)
    assert problem.task == found.name == name
    assert problem.id.startswith(f"{name}/{problem.level}/test/0/")
    assert problem.level in found.levels
    assert set(found.metrics) <= set(METRICS)
    assert problem.gold
    assert problem.gold == found.extract(problem.solution)
    assert found.grade(problem, problem.solution)
    assert found.process_ok(problem, problem.solution)
    assert not found.grade(problem, "I do not know.")
    assert found.canvas_length("") == BENCHMARKS[name].wordings["llada"].length
    assert found.problem(0) == problem


@pytest.mark.parametrize("name", NAMES)
def test_a_grade_says_what_was_read_and_how(name: str, files: dict[str, Path]) -> None:
    found = of(files, name, allow_execution=True)
    problem = found.problem(0)
    right, none = found.judge(problem, problem.solution), found.judge(problem, "")
    assert right.right
    assert right.extracted
    assert right.tier in TIERS.values()
    assert right.reason in ("equal", "passed")
    assert none == Grade(
        right=False, extracted=None, tier="none", method=none.method, reason=none.reason
    )
    assert none.reason in ("no answer", "no program")


@pytest.mark.parametrize("name", NAMES)
def test_both_wordings_ask_the_question_and_name_their_source(
    name: str, files: dict[str, Path]
) -> None:
    question = {"gpqa": "Question 0?", "mbpp": "add one", "humaneval": "def double(x):"}
    asked = question.get(name) or str(next(iter(ROWS[name][0].values())))
    asked = {"arc": "Which is wet?", "svamp": "have left?", "mawps": "keep 14%"}.get(name, asked)
    for wording, source in (("llada", "ML-GSAI/LLaDA"), ("dream", "Dream")):
        found = of(files, name, wording=wording)
        assert asked in found.problem(0).prompt
        assert source in found.wording.source
        assert found.wording.length in (64, 256, 512, 768, 1024)
    with pytest.raises(TaskError, match=r"Unknown wording of .* 'mine'. Known: llada, dream"):
        of(files, name, wording="mine")


def test_prompts_are_worded_letter_by_letter(files: dict[str, Path]) -> None:
    assert of(files, "gsm8k").problem(0).prompt == (
        "Question: Two and two?\nLet's think step by step\nAnswer:"
    )
    assert of(files, "math").problem(0).prompt == (
        "Solve $2x=1$.\nPlease reason step by step, and put your final answer within \\boxed{}."
    )
    assert of(files, "arc").problem(0).prompt == (
        "Question: Which is wet?\nA. sand\nB. water\nC. air\nAnswer:"
    )
    assert of(files, "gsm8k", wording="dream").problem(0).prompt == "Q: Two and two?\nA:"
    assert (
        of(files, "mbpp", wording="dream")
        .problem(0)
        .prompt.endswith(
            "pass these tests:\n\nassert inc(1) == 2\nassert inc(5) == 6\nassert inc(0) == 1"
        )
    )


def test_gold_is_what_the_rows_say(files: dict[str, Path]) -> None:
    assert [of(files, "gsm8k").problem(i).gold for i in (0, 1)] == ["4", "1001"]
    assert [of(files, "svamp").problem(i).gold for i in (0, 1)] == ["6", "9600"]
    assert [of(files, "mawps").problem(i).gold for i in (0, 2)] == ["2", "-15"]
    assert [of(files, "math").problem(i).gold for i in range(3)] == ["1/2", "b", "3"]
    assert of(files, "math500").problem(0).gold == "1000"
    assert [of(files, "arc").problem(i).gold for i in range(3)] == ["B", "D", "A"]
    assert "<<" not in of(files, "gsm8k").problem(0).solution


def test_svamp_joins_story_and_question_and_mawps_is_written_as_people_do(
    files: dict[str, Path],
) -> None:
    """The blanks around marks go; the equation is the solution, as it is published."""
    end = "\nLet's think step by step\nAnswer:"
    pens, seats = (of(files, "svamp").problem(i) for i in (0, 1))
    assert pens.prompt == (
        "Question: Ann had 9 red pens and 4 blue pens. If she lost 3 red pens How many red pens "
        f"did Ann have left?{end}"
    )
    assert seats.prompt == f"Question: There were 8 rows of 1200 seats. How many seats?{end}"
    assert seats.solution == "x=8*1200\n#### 9600"
    assert pens.facts["record"] == "chal-1"
    assert pens.facts["type"] == "Subtraction"
    mom, part, root = (of(files, "mawps").problem(i) for i in range(3))
    assert mom.prompt == f"Question: Bo's mom had $22. She didn't keep 14%, did she?{end}"
    assert mom.solution == "x=(22-14)/4\n#### 2"
    assert part.solution == "x=0.5+0.3333333333333333\n#### 0.8333333333333334"
    assert root.solution == "(6+x)*(x-6)=189\n#### -15"


@pytest.mark.parametrize(
    ("plain", "apart"),
    [
        ("a 'dunk a clown' booth.", "a ' dunk a clown ' booth ."),
        ("The girls' team won, 3 (of 4).", "The girls ' team won , 3 ( of 4 ) ."),
        ("A T-shirt, 5 - 3 of them", "A T - shirt , 5 - 3 of them"),
        ("They weren't at Joe’s; $5 a day?", "They were n't at Joe ’s ; $ 5 a day ?"),
    ],
)
def test_words_and_marks_that_stand_apart_are_joined(plain: str, apart: str) -> None:
    assert written(apart) == written(plain) == plain


@pytest.mark.parametrize(
    ("text", "right", "reason"),
    [
        ("#### 0.83", True, "equal to two decimals"),
        ("#### 5/6", True, "equal to two decimals"),
        ("The answer is 0.8333.", True, "equal to two decimals"),
        ("#### 0.8333333333333334", True, "equal"),
        ("#### 0.8", False, "is not"),
        ("#### 0.84", False, "is not"),
        ("#### 1", False, "is not"),
        ("nothing", False, "no answer"),
        ("#### " + "9" * 5000, False, "is not"),
    ],
)
def test_a_fraction_of_mawps_is_right_to_two_decimals(
    text: str, right: bool, reason: str, files: dict[str, Path]
) -> None:
    graded = of(files, "mawps").judge(of(files, "mawps").problem(1), text)
    assert graded.right is right
    assert reason in graded.reason


def test_votes_on_mawps_are_to_two_decimals_whatever_the_gold(files: dict[str, Path]) -> None:
    """2/3 is 67/100 there; a whole number and one of two decimals stay what they are."""
    found = of(files, "mawps")
    assert compared_by(found) == "value"
    for problem in (found.problem(0), found.problem(1)):
        keys = {answer_key(found, problem, f"#### {said}") for said in ("2/3", "0.67", "0.6667")}
        assert keys == {"67/100"}
        assert answer_key(found, problem, "#### 14") == "14"
        assert answer_key(found, problem, "#### 2.25") == "9/4"
        assert answer_key(found, problem, "#### nothing") is None
        assert answer_key(found, problem, "#### " + "9" * 300) == "9" * 300
    assert answer_key(of(files, "svamp"), of(files, "svamp").problem(0), "#### 2/3") == "2/3"


def test_a_whole_number_of_mawps_is_not_rounded(files: dict[str, Path]) -> None:
    found = of(files, "mawps")
    assert [found.grade(found.problem(0), f"#### {said}") for said in ("2", "2.0", "2.004")] == [
        True, True, False,
    ]  # fmt: skip


def test_mawps_is_a_folder_of_its_authors_names(tmp_path: Path) -> None:
    """Plain or packed; the name says the split."""
    rows = ROWS["mawps"]
    (tmp_path / "trainset.json").write_text(json.dumps(rows))
    (tmp_path / "validset.json.gz").write_bytes(gzip.compress(json.dumps(rows[:2]).encode()))
    (tmp_path / "testset.json").write_text(json.dumps(rows[:1]))
    found = task("mawps", path=tmp_path, shots=1)
    assert {split: found.size(split) for split in get_args(Split)} == {
        "train": 3, "validation": 2, "test": 1,
    }  # fmt: skip
    [(_, reply)] = found.problem(0).examples
    assert reply == "x=(22-14)/4\nThe answer is 2"


@pytest.mark.parametrize("name", ["svamp", "mawps"])
def test_what_is_not_on_the_hub_is_said_with_its_place(name: str) -> None:
    with pytest.raises(InputError, match=r"is not on the hub; take .*json.* as path"):
        task(name).problem(0)


def test_math_has_levels_and_subjects(files: dict[str, Path]) -> None:
    found = of(files, "math")
    assert found.levels == ("all", "1", "2", "3", "4", "5")
    assert [found.problem(i).level for i in range(3)] == ["1", "5", "all"]
    assert (found.size(), found.size(level="5"), found.size(level="2")) == (3, 1, 0)
    assert found.problem(0, level="5") == found.problem(1), "the same row has one id"
    assert found.problem(0).facts["subject"] == "Algebra"
    with pytest.raises(TaskError, match="Unknown level of math '6'"):
        found.problem(0, level="6")


def test_mbpp_is_split_by_its_published_ranges(files: dict[str, Path]) -> None:
    found = of(files, "mbpp")
    sizes = {split: found.size(split) for split in get_args(Split)}
    assert sizes == {"train": 2, "validation": 1, "test": 2}
    assert found.problem(0, split="train").facts["record"] == "3"
    assert len(found) == 2


def test_an_index_a_split_or_a_name_that_does_not_exist_is_told(files: dict[str, Path]) -> None:
    with pytest.raises(TaskError, match=r"gsm8k has 2 problems of split 'test'.* index 2 is not"):
        of(files, "gsm8k").problem(2)
    with pytest.raises(TaskError, match="index -1 is not"):
        of(files, "gsm8k").problem(-1)
    with pytest.raises(TaskError, match="math500 has no split 'train'; choose one of test"):
        of(files, "math500").problem(0, split="train")
    with pytest.raises(TaskError, match=r"Unknown task 'mmlu'. Known: wordmath, countdown"):
        task("mmlu")
    with pytest.raises(TaskError, match=r"Unknown wording 'foo'. Known: llada, dream"):
        task("wordmath", wording="foo")


def test_gpqa_options_are_shuffled_by_seed_and_record(files: dict[str, Path]) -> None:
    """Over 40 records every letter is right now and then; the same seed gives the same order."""
    found = of(files, "gpqa")
    problems = [found.problem(i) for i in range(40)]
    assert {p.gold for p in problems} == set("ABCD")
    assert problems == [found.problem(i) for i in range(40)]
    assert [p.gold for p in problems] != [found.problem(i, seed=1).gold for i in range(40)]
    for number, problem in enumerate(problems):
        assert problem.facts["options"]["ABCD".index(problem.gold)] == f"right {number}"
        assert sorted(problem.facts["options"])[0] == f"right {number}"
        assert f"{problem.gold}. right {number}\n" in problem.prompt


@pytest.mark.parametrize(
    ("text", "letter", "tier"),
    [
        ("B. water, since it is wet.", "B", 3),
        ("(C) because", "C", 3),
        ("B", "B", 3),
        ("D: it burns", "D", 3),
        ("A. is tempting, but the answer is (C).", "C", 2),
        (r"A. no. \boxed{D}", "D", 1),
        ("A bird is not a fish", None, None),
        ("water", None, None),
    ],
)
def test_a_letter_is_read_by_tiers_and_then_at_the_start(
    text: str, letter: str | None, tier: int | None
) -> None:
    found = find_letter(text, "ABCD")
    assert (found.answer, found.tier) == (letter, tier)


def test_a_letter_that_is_not_on_offer_is_no_answer(files: dict[str, Path]) -> None:
    found = of(files, "arc")
    problem = found.problem(0)  # three options
    assert found.judge(problem, "The answer is D.").reason == "no answer"
    assert found.judge(problem, "The answer is A.").reason == "'A' is not 'B'"


def test_math_is_graded_by_spelling_then_by_algebra(files: dict[str, Path]) -> None:
    found = of(files, "math")
    half = found.problem(0)
    graded = found.judge(half, "So the answer is $0.5$.")
    assert graded == Grade(
        right=True, extracted="0.5", tier="statement", method="exact", reason="equal"
    )
    assert found.judge(half, r"$\boxed{\frac{x}{2x}}$").method == "math-verify"
    assert found.judge(half, r"$\boxed{2}$").reason == r"'2' is not '\\frac{1}{2}'"
    assert found.judge(found.problem(1), "(B)").tier == "none"
    assert found.judge(found.problem(1), r"\boxed{B}").right
    found.check()


def test_code_is_not_run_without_leave(files: dict[str, Path], tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    for name in ("humaneval", "mbpp"):
        found = of(files, name)
        problem = found.problem(0)
        text = f"open({str(proof)!r}, 'w')"
        for refused in (lambda: found.judge(problem, text), found.check):  # noqa: B023
            with pytest.raises(TaskError, match=r"requires allow_execution=True \(--allow"):
                refused()
        of(files, name, allow_execution=True).check()
    assert not proof.exists()


def test_provenance_names_file_hash_and_wording(files: dict[str, Path]) -> None:
    found = of(files, "gsm8k").provenance()
    assert found["origin"] == "gsm8k.jsonl"
    assert len(found["sha256"]) == 64
    assert found["wording"] == BENCHMARKS["gsm8k"].wordings["llada"].source


@pytest.mark.parametrize("name", NAMES)
def test_the_hub_is_pinned_to_a_commit(name: str) -> None:
    hub = BENCHMARKS[name].hub
    assert len(hub.revision) == 40
    assert int(hub.revision, 16)
    assert hub.splits.keys() == hub.sizes.keys()
    assert hub.licence


FORMS = [Gsm8k(), Svamp(), Mawps(), Competition(), Arc(), Gpqa(), HumanEval(), Mbpp()]
NEEDED = [
    (Gsm8k(), "gsm8k", "answer"), (Gsm8k(), "gsm8k", "question"),
    (Svamp(), "svamp", "Body"), (Svamp(), "svamp", "Answer"), (Svamp(), "svamp", "Equation"),
    (Mawps(), "mawps", "original_text"), (Mawps(), "mawps", "ans"),
    (Competition(), "math", "solution"), (Competition(), "math", "problem"),
    (Arc(), "arc", "answerKey"), (Arc(), "arc", "question"), (Gpqa(), "gpqa", "Correct Answer"),
    (Gpqa(), "gpqa", "Incorrect Answer 3"), (HumanEval(), "humaneval", "test"),
    (HumanEval(), "humaneval", "entry_point"), (Mbpp(), "mbpp", "test_list"),
    (Mbpp(), "mbpp", "code"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "name", "field"), NEEDED)
def test_a_row_that_lacks_a_field_is_named_with_it(form: Any, name: str, field: str) -> None:
    fields = {key: value for key, value in ROWS[name][0].items() if key != field}
    with pytest.raises(InputError, match=f"here line 9 lacks the field '{field}'"):
        form.read(BenchmarkRow(fields=fields, where="here line 9"), 0)


@pytest.mark.parametrize(
    ("form", "name", "change", "message"),
    [
        (Gsm8k(), "gsm8k", {"answer": "it is 4"}, "'answer' does not end with #### and a number"),
        (Svamp(), "svamp", {"Answer": "six"}, "'Answer' is not a number"),
        (Mawps(), "mawps", {"ans": [1, 2]}, "'ans' is not a number"),
        (Competition(), "math", {"solution": "3"}, "'solution' has no .boxed"),
        (Arc(), "arc", {"answerKey": "E"}, "'answerKey' is 'E', which is none of A, B, C"),
        (Arc(), "arc", {"choices": None}, "'question' has no text, or its choices are not 2 to 8"),
        (HumanEval(), "humaneval", {"entry_point": "a b"}, "'entry_point' is not the name of"),
        (Mbpp(), "mbpp", {"test_list": []}, "'test_list' is empty"),
    ],
)
def test_a_field_with_a_wrong_value_is_named(
    form: Any, name: str, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        form.read(BenchmarkRow(fields=ROWS[name][0] | change, where="here line 9"), 0)


def test_a_number_of_mbpp_that_is_none_is_named() -> None:
    with pytest.raises(InputError, match="'task_id' is not a number"):
        Mbpp().split_of(BenchmarkRow(fields={"task_id": "x"}, where="here"))


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    st.data(), st.sampled_from(list(zip(FORMS, [n for n in ROWS if n != "math500"], strict=True)))
)
def test_no_row_makes_a_format_crash(data: st.DataObject, form: tuple[Any, str]) -> None:
    """Rows are real ones with some fields replaced by anything JSON can hold."""
    fields = dict(ROWS[form[1]][0])
    for key in data.draw(st.sets(st.sampled_from(list(fields)))):
        fields[key] = data.draw(VALUES)
    with contextlib.suppress(InputError):
        entry = form[0].read(BenchmarkRow(fields=fields, where="here"), 0)
        assert entry.gold or form[1] in ("humaneval", "mbpp", "math")


@given(st.text(max_size=200), st.sampled_from(FORMS))
def test_no_text_makes_an_extractor_raise(text: str, form: Any) -> None:
    found = form.extract(text)
    assert found is None or isinstance(found, str)


GENERATED: Sequence[tuple[str, str, str, str]] = [
    ("wordmath", "number", "Answer: 1", "' is not '"),
    ("choice", "letter", "no letter here", "no answer"),
    ("countdown", "arithmetic", "Answer: 1 + 1", "the numbers are not those given, each once"),
    ("countdown", "arithmetic", "no", "no expression"),
    ("pycode", "tests", "def f(", "crashed: SyntaxError"),
]


@pytest.mark.parametrize(("name", "method", "text", "reason"), GENERATED)
def test_generated_tasks_give_grades_too(name: str, method: str, text: str, reason: str) -> None:
    found = TASKS[name]
    assert task(name) is found
    problem = found.problem(0)
    right, wrong = found.judge(problem, problem.solution), found.judge(problem, text)
    assert right.right
    assert right.method == wrong.method == method
    assert right.reason in ("equal", "passed")
    assert not wrong.right
    assert reason in wrong.reason
