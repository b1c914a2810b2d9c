from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.tasks.base import Problem
from remask.tasks.choice import (
    CHAINS,
    CHAINS_UP,
    CLOSINGS,
    ENDS,
    LINKS,
    LINKS_UP,
    MOVES,
    PASSES,
    ROUTES,
    STARTS,
    VERDICTS,
    Choice,
)

TASK = Choice()
NUMBERS = range(300)
WORDS = {"more": "taller", "less": "shorter", "most": "tallest", "least": "shortest"}
ORDER = Problem(
    id="by-hand",
    task="choice",
    level="easy",
    prompt="Ben is shorter than Ana. Ben is taller than Tom. Who is the tallest? "
    "A) Tom B) Ana C) Zoe D) Ben",
    gold="B",
    solution="Ana > Ben > Tom. Ana is the tallest. The answer is B.",
    facts={
        "kind": "order",
        "people": ["Ana", "Ben", "Tom"],
        "question": "most",
        "asked": "",
        "answer": "Ana",
        "options": ["Tom", "Ana", "Zoe", "Ben"],
        "path": [],
        "words": WORDS,
    },
)
TRACK = Problem(
    id="by-hand",
    task="choice",
    level="easy",
    prompt="Ana has the pen. Tom has the cup. Ana gives the pen to Ben. Ben gives the pen to Tom. "
    "Who has the pen? A) Tom B) Ana C) Zoe D) Ben",
    gold="A",
    solution="Ana has it. Then Ben. Then Tom. So it is Tom. Answer: A",
    facts={
        "kind": "hand",
        "people": ["Ana", "Tom", "Ben"],
        "question": "",
        "asked": "pen",
        "answer": "Tom",
        "options": ["Tom", "Ana", "Zoe", "Ben"],
        "path": ["Ana", "Ben", "Tom"],
        "words": {"o": "pen"},
    },
)


def test_the_four_options_differ_and_letters_are_used_evenly():
    golds = []
    for level, index in product(TASK.levels, NUMBERS):
        problem = TASK.problem(index, level=level)
        options = problem.prompt.split("? A) ")[1].replace(")", "").split()[::2]
        assert len(set(options)) == 4
        assert f"{problem.gold}) {problem.facts['answer']}" in problem.prompt
        golds.append(problem.gold)
    assert all(golds.count(letter) > len(golds) / 6 for letter in "ABCD")


def test_hard_has_more_people_than_anything_trained():
    people = {
        level: {len(TASK.problem(i, level=level).facts["people"]) for i in NUMBERS}
        for level in TASK.levels
    }
    assert people == {"easy": {3, 4}, "medium": {4, 5}, "hard": {6, 7}}


def test_swaps_are_trained_more_often_than_asked():
    """40 per cent of the training puzzles, a quarter of the others."""
    share = {}
    for split in ("train", "test"):
        kinds = [TASK.problem(i, split=split).facts["kind"] for i in range(400)]
        share[split] = kinds.count("swap") / len(kinds)
    assert share["test"] < 0.33 < share["train"]


def test_all_kinds_of_puzzle_come():
    kinds = {TASK.problem(i).facts["kind"] for i in NUMBERS}
    questions = {TASK.problem(i).facts["question"] for i in NUMBERS}
    assert kinds == {"order", "hand", "swap"}
    assert questions == {"", *VERDICTS}


def test_one_key_comes_in_different_wordings():
    wordings: dict[str, set[str]] = {}
    for index in range(6000):
        problem = TASK.problem(index, split="train")
        wordings.setdefault(problem.facts["key"], set()).add(problem.solution)
    assert max(map(len, wordings.values())) >= 2


@pytest.mark.parametrize("link", [*LINKS, *LINKS_UP])
@pytest.mark.parametrize("verdict", VERDICTS["most"])
@pytest.mark.parametrize("closing", CLOSINGS)
def test_every_link_is_read_back_and_a_false_one_found_out(link, verdict, closing):
    tail = [verdict.format(a="Ana", **WORDS), closing.format(l="B", a="Ana")]
    first, second = (link.format(a=a, b=b, **WORDS) for a, b in (("Ana", "Ben"), ("Ben", "Tom")))
    false = link.format(a="Tom", b="Ben", **WORDS)
    assert TASK.process_ok(ORDER, " ".join([second, first, *tail]))
    assert not TASK.process_ok(ORDER, " ".join([first, *tail]))
    assert not TASK.process_ok(ORDER, " ".join([first, second, false, *tail]))


def test_a_wrong_check_of_an_option_is_found_out():
    steps, closing = "Ana > Ben > Tom. Ana is the tallest.", "Answer: B"
    right = "A) Tom: no. B) Ana: yes. C) Zoe: no. D) Ben: no."
    assert TASK.process_ok(ORDER, f"{steps} {right} {closing}")
    for wrong in (right.replace("Tom: no", "Tom: yes"), right.replace("Zoe", "Ben")):
        assert not TASK.process_ok(ORDER, f"{steps} {wrong} {closing}")


def test_a_closing_that_names_another_person_is_wrong():
    steps = "Ana > Ben > Tom. Ana is the tallest."
    assert TASK.process_ok(ORDER, f"{steps} The answer is B) Ana.")
    assert not TASK.process_ok(ORDER, f"{steps} The answer is B) Tom.")


@pytest.mark.parametrize("chain", [*CHAINS, *CHAINS_UP])
def test_every_chain_is_read_back_and_a_false_one_found_out(chain):
    def text(people):
        ranked = people[::-1] if chain in CHAINS_UP else people
        joined = {"down": " > ".join(ranked), "up": " < ".join(ranked), "list": ", ".join(ranked)}
        return f"{chain.format(**joined, **WORDS)} Ana is the tallest. Answer: B"

    assert TASK.process_ok(ORDER, text(["Ana", "Ben", "Tom"]))
    assert not TASK.process_ok(ORDER, text(["Ana", "Tom", "Ben"]))
    assert not TASK.process_ok(ORDER, text(["Tom", "Ben", "Ana"]))
    assert not TASK.process_ok(ORDER, text(["Ana", "Tom"]))


@pytest.mark.parametrize(("start", "step"), [*product(STARTS, [*PASSES, MOVES["hand"]])])
def test_every_pass_is_read_back_and_a_false_one_found_out(start, step):
    def text(*path):
        parts = [start.format(a=path[0], o="pen")]
        parts += [step.format(a=a, b=b, o="pen") for a, b in pairwise(path)]
        return " ".join([*parts, "So it is Tom. The answer is A."])

    assert TASK.process_ok(TRACK, text("Ana", "Ben", "Tom"))
    assert not TASK.process_ok(TRACK, text("Ana", "Tom"))
    assert not TASK.process_ok(TRACK, text("Ana", "Zoe", "Tom"))
    assert not TASK.process_ok(TRACK, text("Ben", "Ana", "Tom"))


@pytest.mark.parametrize(("route", "end"), [*product(ROUTES, ENDS)])
def test_every_route_and_end_is_read_back(route, end):
    way = route.format(o="pen", route="Ana to Ben to Tom")
    assert TASK.process_ok(TRACK, f"{way} {end.format(a='Tom', o='pen')} Answer: A")
    assert not TASK.process_ok(TRACK, f"{way} {end.format(a='Ben', o='pen')} Answer: A")


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (ORDER, "The answer is B."),  # no derivation
        (ORDER, "Ana is the tallest. The answer is B."),  # no derivation
        (ORDER, "Ana > Ben > Tom. The answer is B."),  # nobody named
        (ORDER, "Ana > Ben > Tom. Ben is the tallest. The answer is B."),  # not whom B names
        (ORDER, "Ana > Ben > Tom. Ana is the shortest. The answer is B."),
        (ORDER, "Ana is older than Ben. Ben > Tom. Ana is the tallest. The answer is B."),
        (ORDER, "Ana > > Ben > Tom. Ana is the tallest. The answer is B."),  # garbled
        (ORDER, "Ana > Ben > Zoe > Tom. Ana is the tallest. The answer is B."),  # a stranger
        (TRACK, "Ana has the cup. Then Ben. Then Tom. So it is Tom. Answer: A"),  # wrong thing
        (TRACK, "Ana and Ben swap, so Ben has it. Then Tom. So it is Tom. Answer: A"),  # no swap
        (TRACK, "Ana has it. Then Then Ben. Then Tom. So it is Tom. Answer: A"),  # garbled
    ],
)
def test_a_right_letter_with_a_wrong_step_is_found_out(problem, text):
    assert TASK.grade(problem, text)
    assert not TASK.process_ok(problem, text)


@pytest.mark.parametrize("text", ["", "Ana > Ben > Tom. Ana is the tallest. The answer is A."])
def test_a_wrong_letter_is_wrong(text):
    assert not TASK.grade(ORDER, text)
    assert not TASK.process_ok(ORDER, text)


def test_a_transitive_consequence_counts_as_true():
    text = "Ana is taller than Tom. Ana > Ben > Tom. So Ana is the tallest. Answer: B"
    assert TASK.process_ok(ORDER, text)


@given(st.text(alphabet=st.sampled_from("AnaBenTom <>.,:ABCD\n"), max_size=60))
def test_no_text_makes_the_grader_raise_and_noise_is_never_a_right_process(noise):
    assert not TASK.process_ok(ORDER, noise)
    assert not TASK.process_ok(TRACK, f"~{noise} {TRACK.solution}")
