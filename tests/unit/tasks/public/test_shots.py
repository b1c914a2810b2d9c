"""Worked examples: rows of the train split, shown as the official evaluations show them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.errors import InputError, TaskError
from remask.tasks import public
from remask.tasks import task as find_task
from remask.tasks.public import NAMES
from remask.tasks.public.wording import mark

ASKED = "Question: {}\nLet's think step by step\nAnswer:"


def sums(start: int, count: int) -> list[dict[str, str]]:
    """Return rows of GSM8K: n and n."""
    return [
        {"question": f"{n} and {n}?", "answer": f"It is <<{n}+{n}={2 * n}>>{2 * n}.\n#### {2 * n}"}
        for n in range(start, start + count)
    ]


def programs(numbers: range) -> list[dict[str, Any]]:
    return [
        {"task_id": n, "text": f"Write task {n}.", "code": f"def f():\r\n    return {n} ",
         "test_setup_code": "", "test_list": [f"assert f() == {n}"]}
        for n in numbers
    ]  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """GSM8K with 5 rows to learn from and 2 to be asked."""
    write(tmp_path / "train.jsonl", sums(10, 5))
    write(tmp_path / "test.jsonl", sums(50, 2))
    return tmp_path


def test_examples_are_earlier_turns_in_llada_s_wording(folder: Path) -> None:
    """The calculator's marks are gone, and #### is the sentence of the official examples."""
    problem = find_task("gsm8k", path=folder, shots=2).problem(1)
    assert problem.prompt == ASKED.format("51 and 51?")
    assert problem.examples == (
        (ASKED.format("10 and 10?"), "It is 20.\nThe answer is 20"),
        (ASKED.format("11 and 11?"), "It is 22.\nThe answer is 22"),
    )


def test_examples_stand_in_front_of_the_question_in_dream_s(folder: Path) -> None:
    problem = find_task("gsm8k", path=folder, shots=2, wording="dream").problem(0)
    assert problem.examples == ()
    assert problem.prompt == (
        "Q: 10 and 10?\nA: It is 20.\nThe answer is 20.\n\n"
        "Q: 11 and 11?\nA: It is 22.\nThe answer is 22.\n\n"
        "Q: 50 and 50?\nA:"
    )


def test_without_examples_nothing_changes(folder: Path) -> None:
    plain = find_task("gsm8k", path=folder / "test.jsonl")
    assert plain.problem(0).examples == ()
    assert find_task("gsm8k", path=folder, shots=2).problem(0).id == plain.problem(0).id
    assert "examples" not in plain.provenance()


def test_a_problem_is_no_example_of_itself(folder: Path) -> None:
    task = find_task("gsm8k", path=folder, shots=2)
    shown = [asked for asked, _ in task.problem(1, split="train").examples]
    assert shown == [ASKED.format(f"{n} and {n}?") for n in (10, 12)]


def test_the_official_rows_come_first_where_all_of_them_are_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows 13 and 11 are official here; the third example is the first of the others."""
    marks = tuple(mark({"question": f"{n} and {n}?"}) for n in (13, 11))
    wording = replace(public.BENCHMARKS["gsm8k"].wordings["llada"], shown=marks)
    monkeypatch.setitem(public.BENCHMARKS["gsm8k"].wordings, "llada", wording)
    task = find_task("gsm8k", path=folder, shots=3)
    shown = [asked for asked, _ in task.problem(0).examples]
    assert shown == [ASKED.format(f"{n} and {n}?") for n in (13, 11, 10)]
    assert "3 rows of the split train, in the order of the file" in task.provenance()["examples"]
    two = find_task("gsm8k", path=folder, shots=2).provenance()["examples"]
    assert two.startswith("2 rows of the split train, the official rows, sha256 ")
    absent = replace(wording, shown=(*marks, mark({"question": "none"})))
    monkeypatch.setitem(public.BENCHMARKS["gsm8k"].wordings, "llada", absent)
    shown = [asked for asked, _ in find_task("gsm8k", path=folder, shots=2).problem(0).examples]
    assert shown == [ASKED.format(f"{n} and {n}?") for n in (10, 11)]


def test_mbpp_shows_programs_of_its_own_file_as_its_evaluations_write_them(tmp_path: Path) -> None:
    """Tasks 1 to 10 are for prompts; line ends stay as they are in the row."""
    path = write(tmp_path / "mbpp.jsonl", programs(range(1, 13)))
    ((asked, reply),) = find_task("mbpp", path=path, shots=1).problem(0).examples
    assert asked.startswith("You are an expert Python programmer, and here is your task: Write")
    assert asked.endswith("task 1. Your code should pass these tests:\n\n assert f() == 1  \n")
    assert reply == "[BEGIN]\n 'def f():\r\n    return 1' \n[DONE] \n\n "
    prompt = find_task("mbpp", path=path, shots=1, wording="dream").problem(0).prompt
    assert "assert f() == 1\n[BEGIN]\ndef f():\r\n    return 1\n[DONE]\n\nYou are an" in prompt


@pytest.mark.parametrize(
    ("name", "row", "replies"),
    [
        (
            "arc",
            {"id": "a", "question": "Which is wet?", "answerKey": "B",
             "choices": {"text": ["sand", "water"], "label": ["A", "B"]}},
            ("B", "Answer:B\n\n"),
        ),
        (
            "math",
            {"problem": "Half of 1?", "solution": r"It is $\boxed{\frac{1}{2}}$.", "level": 1},
            (
                r"It is $\boxed{\frac{1}{2}}$.",
                "\n\nSolution: It is $\\boxed{\\frac{1}{2}}$.\nFinal Answer: The final answer is "
                "$\\frac{1}{2}$. I hope it is correct.\n\n",
            ),
        ),
    ],
)  # fmt: skip
def test_letters_and_formulas_have_replies_of_their_own(
    name: str, row: dict[str, Any], replies: tuple[str, str], tmp_path: Path
) -> None:
    """Dream is asked ARC in LLaDA's words, so there the examples are turns as well."""
    for split in ("train", "test"):
        write(tmp_path / f"{split}.jsonl", [row])
    ((_, reply),) = find_task(name, path=tmp_path, shots=1).problem(0).examples
    assert reply == replies[0]
    other = find_task(name, path=tmp_path, shots=1, wording="dream").problem(0)
    if name == "arc":
        assert other.examples[0][1] == replies[0]
    else:
        assert replies[1] in other.prompt


def test_examples_that_cannot_be_had_are_refused(folder: Path) -> None:
    with pytest.raises(TaskError, match="has rows for 5 worked examples, and 6 are asked for"):
        find_task("gsm8k", path=folder, shots=6).problem(0)
    with pytest.raises(InputError, match="holds the split 'test' alone; give a folder that has a"):
        find_task("gsm8k", path=folder / "test.jsonl", shots=1).problem(0)
    with pytest.raises(TaskError, match="shots is -1"):
        find_task("gsm8k", path=folder, shots=-1)
    with pytest.raises(TaskError, match="'wordmath' is asked without worked examples"):
        find_task("wordmath", shots=1)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if "train" not in public.BENCHMARKS[n].hub.splits]
)
def test_a_benchmark_without_a_train_split_has_no_examples(name: str) -> None:
    with pytest.raises(TaskError, match="has no split 'train' to take worked examples from"):
        find_task(name, shots=1)


def test_the_number_of_official_examples_is_llada_s() -> None:
    """4 on GSM8K, 3 on MBPP; elsewhere none are rows."""
    counted = {name: len(public.BENCHMARKS[name].wordings["llada"].shown) for name in NAMES}
    assert {name: count for name, count in counted.items() if count} == {"gsm8k": 4, "mbpp": 3}
