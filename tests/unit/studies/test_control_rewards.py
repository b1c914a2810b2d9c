"""The control rewards of the alignment study, on problems with known answers."""

from typing import Any

from remask.align.rewards import Progress
from remask.tasks import task
from remask.values import Score
from studies.align.rewards import oracle, placebo


def arguments() -> dict[str, Any]:
    """Two problems with four right answers and a wrong one each."""
    problems = [task("countdown").problem(i, split="train", level="easy", seed=3) for i in (0, 1)]
    repeated = [problem for problem in problems for _ in range(5)]
    texts = [text for p in problems for text in (*[p.solution] * 4, "none")]
    return {"prompts": [p.prompt for p in repeated], "completions": texts, "problem": repeated}


def test_a_placebo_rewards_as_many_right_answers_as_are_trusted() -> None:
    values = [0.9, 0.5, 0.1, None, 0.9] * 2
    scores = [Score(value=value) for value in values]
    drawn = set()
    for step in range(20):
        state = Progress(global_step=step, max_steps=20)
        rewards = placebo(**arguments(), score=scores, trainer_state=state)
        assert rewards == placebo(**arguments(), score=scores, trainer_state=state)
        assert sum(rewards[:5]) == sum(rewards[5:]) == 2
        assert rewards[4] == rewards[9] == 0, "wrong answers"
        drawn.add(tuple(rewards[:5]))
    assert len(drawn) == 6, "two of four"


def test_an_oracle_rewards_right_answers_with_right_steps() -> None:
    given = arguments()
    family = task("countdown")
    expected = [
        float(family.grade(p, text) and family.process_ok(p, text))
        for p, text in zip(given["problem"], given["completions"], strict=True)
    ]
    assert oracle(**given) == expected == [1.0, 1.0, 1.0, 1.0, 0.0] * 2
