"""Flaws in right solutions: what each kind does to solutions written by hand, and to any other."""

import re

import pytest
from by_hand import APPLES
from hypothesis import given
from hypothesis import strategies as st

from remask.answers import numbers
from remask.errors import TaskError
from remask.tasks import TASKS
from remask.tasks.base import Problem
from remask.tasks.choice_flaws import CHOICE_FLAWS
from remask.tasks.flaws import KINDS, MAKERS, inject, is_flawed
from remask.tasks.wordmath import sentences

TOLD = APPLES.solution
WORDS = {"more": "taller", "less": "shorter", "most": "tallest", "least": "shortest"}
RANKING = Problem(
    id="ranking",
    task="choice",
    level="easy",
    prompt="Ann is taller than Bob. Cid is shorter than Bob. Who is tallest? A) Bob B) Ann",
    gold="B",
    solution="Ann > Bob. Bob > Cid. Ann is the tallest. A) Bob: no. B) Ann: yes. Answer: B",
    facts={
        "kind": "order", "people": ["Ann", "Bob", "Cid"], "question": "most", "asked": "",
        "answer": "Ann", "options": ["Bob", "Ann", "Cid", "Eva"], "path": [], "words": WORDS,
    },
)  # fmt: skip
PASSED = Problem(
    id="passed",
    task="choice",
    level="easy",
    prompt="Ann has the cup. Ann gives the cup to Bob. Bob gives it to Cid. Who has it? A) Cid",
    gold="A",
    solution=(
        "Ann has it. Ann passes it to Bob. Bob passes it to Cid. That is Cid. "
        "A) Cid: yes. Answer: A"
    ),
    facts={
        "kind": "hand", "people": ["Ann", "Bob", "Cid", "Dan"], "question": "", "asked": "cup",
        "answer": "Cid", "options": ["Cid", "Ann", "Bob", "Dan"], "path": ["Ann", "Bob", "Cid"],
        "words": {"o": "cup"},
    },
)  # fmt: skip


def made(problem: Problem, kind: str, solution: str = "") -> set[str]:
    """Return every text of a kind that has the right answer and a wrong step."""
    told = sentences(solution or problem.solution)
    texts = (" ".join(sentence) for sentence in MAKERS[problem.task][kind](problem, told))
    return {text for text in texts if is_flawed(problem, text)}


@pytest.mark.parametrize("problem", [APPLES, RANKING, PASSED], ids=lambda problem: problem.id)
def test_the_solutions_written_by_hand_are_right(problem: Problem) -> None:
    assert TASKS[problem.task].process_ok(problem, problem.solution)


def test_a_fabricated_computation_is_true_and_of_numbers_found_nowhere() -> None:
    for text in made(APPLES, "fabrication"):
        [changed] = [s for s in sentences(text) if s not in sentences(TOLD)]
        left, sign, right, result = re.findall(r"\d+|[-+]", changed)
        assert int(left) + int(sign + right) == int(result)
        assert not {left, right} & {*numbers(APPLES.prompt), "12", "17", "51", "6"}
    assert "Zoe has 9+8=17. Tom has 17*3=51. The answer is 51." in made(APPLES, "fabrication")


def test_a_wrong_entity_is_another_person_of_the_problem() -> None:
    """Each of the two steps may be told of any of the three others."""
    found = made(APPLES, "wrong_entity")
    assert len(found) == 6
    assert "Mia has 12+5=17. Tom has 17*3=51. The answer is 51." in found


def test_a_skipped_step_leaves_its_result_in_use() -> None:
    """The last step cannot be left out: it is the answer."""
    assert made(APPLES, "skipped_constraint") == {"Tom has 17*3=51. The answer is 51."}
    alone = "Ben has 12. Zoe has 12+5=17. Tom has 17*3=51. The answer is 51."
    assert made(APPLES, "skipped_constraint", alone) == {
        "Ben has 12. Tom has 17*3=51. The answer is 51."
    }


def test_a_drift_changes_one_character_of_a_step() -> None:
    found = made(APPLES, "token_drift")
    for text in found:
        changed = [(a, b) for a, b in zip(TOLD, text, strict=True) if a != b]
        assert len(changed) == 1
        assert text.endswith("The answer is 51.")
    assert "Zoe has 12+5=19. Tom has 17*3=51. The answer is 51." in found
    assert "Zoe has 12-5=17. Tom has 17*3=51. The answer is 51." in found
    assert not any(re.search(r"\b0\d", text) for text in found), "no number begins with 0"


def test_a_result_said_twice_may_drift_once() -> None:
    told = "12+5=17, so Zoe has 17. Tom has 17*3=51. The answer is 51."
    found = made(APPLES, "token_drift", told)
    assert "12+5=17, so Zoe has 19. Tom has 17*3=51. The answer is 51." in found


def test_a_ranking_is_flawed_in_each_way() -> None:
    """Bob stands between Ann, who is the answer, and Cid, who may be left out."""
    rest = "Ann is the tallest. A) Bob: no. B) Ann: yes. Answer: B"
    assert f"Ann > Bob. Ann > Eva. Bob > Cid. {rest}" in made(RANKING, "fabrication")
    assert made(RANKING, "wrong_entity") == {
        f"Cid > Bob. Bob > Cid. {rest}", f"Ann > Bob. Bob > Ann. {rest}"
    }  # fmt: skip
    assert made(RANKING, "skipped_constraint") == {f"Ann > Cid. {rest}", f"Ann > Bob. {rest}"}
    found = made(RANKING, "token_drift")
    assert f"Ann < Bob. Bob > Cid. {rest}" in found
    assert "Ann > Bob. Bob > Cid. Ann is the shortest. A) Bob: no. B) Ann: yes. Answer: B" in found
    assert "Ann > Bob. Bob > Cid. Ann is the tallest. A) Bob: yes. B) Ann: yes. Answer: B" in found
    assert len(found) == 5


def test_a_chain_is_flawed_in_each_way() -> None:
    chain = "From shortest to tallest: Cid, Bob, Ann."
    rest = "Ann is the tallest. Answer: B"
    told = f"{chain} {rest}"
    assert f"From shortest to tallest: Cid, Eva, Bob, Ann. {rest}" in made(
        RANKING, "fabrication", told
    )
    assert f"From shortest to tallest: Bob, Cid, Ann. {rest}" in made(RANKING, "wrong_entity", told)
    assert f"From shortest to tallest: Cid, Ann. {rest}" in made(
        RANKING, "skipped_constraint", told
    )


def test_a_path_is_flawed_in_each_way() -> None:
    """Whoever takes the place of Bob, or comes before him, also passes the cup on."""
    rest = "That is Cid. A) Cid: yes. Answer: A"
    assert (
        f"Ann has it. Ann passes it to Eva. Eva passes it to Bob. Bob passes it to Cid. {rest}"
        in (made(PASSED, "fabrication"))
    )
    assert f"Ann has it. Ann passes it to Dan. Dan passes it to Cid. {rest}" in made(
        PASSED, "wrong_entity"
    )
    assert made(PASSED, "skipped_constraint") == {f"Ann has it. Ann passes it to Cid. {rest}"}
    told = f"The cup goes from Ann to Bob to Cid. {rest}"
    assert made(PASSED, "skipped_constraint", told) == {f"The cup goes from Ann to Cid. {rest}"}
    assert f"The hat goes from Ann to Bob to Cid. {rest}" in made(PASSED, "token_drift", told)
    assert f"The cup goes from Dan to Bob to Cid. {rest}" in made(PASSED, "wrong_entity", told)


def test_a_path_without_a_hand_between_others_cannot_be_shortened() -> None:
    """Ann, Bob, Ann: without Bob she would pass it to herself."""
    facts = {**PASSED.facts, "path": ["Ann", "Bob", "Ann"], "answer": "Ann"}
    problem = Problem(**{**vars(PASSED), "facts": facts, "gold": "B"})
    told = "Ann has it. Then Bob. Then Ann. That is Ann. B) Ann: yes. Answer: B"
    assert TASKS["choice"].process_ok(problem, told)
    assert inject(problem, told, "skipped_constraint") is None


def test_what_is_not_right_is_not_spoiled() -> None:
    assert inject(APPLES, TOLD.replace("17*3", "17+3"), "fabrication") is None
    assert inject(APPLES, "#### 51", "token_drift") is None
    countdown = TASKS["countdown"].problem(0)
    assert inject(countdown, countdown.solution, "token_drift") is None
    with pytest.raises(TaskError, match="Unknown flaw 'typo'"):
        inject(APPLES, TOLD, "typo")


def test_a_problem_of_one_step_has_none_to_skip() -> None:
    problems = (TASKS["wordmath"].problem(k) for k in range(40))
    single = next(problem for problem in problems if len(problem.facts["needed"]) == 1)
    assert inject(single, single.solution, "skipped_constraint") is None
    assert inject(single, single.solution, "token_drift") is not None


drawn = st.builds(
    lambda task, level, index: TASKS[task].problem(index, split="train", level=level),
    st.sampled_from(sorted(MAKERS)),
    st.sampled_from(["easy", "medium", "hard"]),
    st.integers(0, 10_000),
)


@given(drawn, st.sampled_from(KINDS), st.integers(0, 3))
def test_a_flaw_keeps_the_answer_and_spoils_a_step(problem: Problem, kind: str, seed: int) -> None:
    found = inject(problem, problem.solution, kind, seed)
    if found is None:
        assert kind == "skipped_constraint", "the other kinds apply to every solution"
        return
    task = TASKS[problem.task]
    assert found != problem.solution
    assert task.grade(problem, found)
    assert not task.process_ok(problem, found)
    assert found == inject(problem, problem.solution, kind, seed)
    assert inject(problem, found, kind, seed) is None, "one flaw is enough"


@given(drawn, st.text(max_size=80), st.sampled_from(KINDS))
def test_no_text_is_too_odd(problem: Problem, text: str, kind: str) -> None:
    assert inject(problem, text, kind) is None
    prefixed = f"{text} {problem.solution}"
    found = inject(problem, prefixed, kind)
    assert found is None or is_flawed(problem, found)


def test_seeds_draw_other_flaws() -> None:
    problem = TASKS["wordmath"].problem(0, level="hard")
    found = {inject(problem, problem.solution, "token_drift", seed) for seed in range(10)}
    assert len(found) > 5


def test_both_tasks_know_every_kind() -> None:
    assert set(CHOICE_FLAWS) == set(KINDS)
    assert all(set(makers) == set(KINDS) for makers in MAKERS.values())
