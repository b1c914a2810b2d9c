"""Prompts by a cursor, groups in one batch, rewards by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remask import api
from remask.align.build import build_reward
from remask.align.policy import load_policy, trained
from remask.align.rollout import Prompts, RolloutMaker, draw_groups, gold_samples
from remask.align.settings import AlignSettings
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.errors import SettingsError

Settings = Callable[..., AlignSettings]


@pytest.fixture
def gsm8k(tmp_path: Path) -> Path:
    """Ten training rows, whose answers are their numbers."""
    folder = tmp_path / "gsm8k"
    folder.mkdir()
    rows = [{"question": f"What is {i} + 0?", "answer": f"It is {i}.\n#### {i}"} for i in range(10)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_every_pass_over_a_benchmark_has_all_rows_in_an_order_of_its_own(
    settings: Settings, gsm8k: Path
) -> None:
    """Ten rows, three of them held out for validation: passes of seven."""
    prompts = Prompts(settings(task="gsm8k", data=gsm8k, eval_problems=3))
    passes = [[prompts.training(7 * k + i).gold for i in range(7)] for k in range(2)]
    assert [sorted(map(int, golds)) for golds in passes] == [list(range(7))] * 2
    assert passes[0] != passes[1]
    held = [int(prompts.validation(i).gold) for i in range(prompts.num_validation())]
    assert sorted(held) == [7, 8, 9]
    again = Prompts(settings(task="gsm8k", data=gsm8k, eval_problems=3))
    assert [again.training(i).gold for i in range(7, 14)] == passes[1]


def test_a_benchmark_that_would_be_all_held_out_is_refused(settings: Settings, gsm8k: Path) -> None:
    with pytest.raises(SettingsError, match=r"eval_problems must be below .*\(10\), got 10"):
        Prompts(settings(task="gsm8k", data=gsm8k, eval_problems=10))


def test_training_problems_belong_to_the_seed_and_validation_to_all(settings: Settings) -> None:
    one, other = Prompts(settings()), Prompts(settings(seed=1))
    assert one.training(0).id == "countdown/easy/train/0/0"
    assert other.training(0).id == "countdown/easy/train/1/0"
    assert one.validation(0) == other.validation(0)
    assert "/validation/" in one.validation(0).id


@torch.no_grad()
def test_a_group_is_the_same_alone_and_in_company(settings: Settings) -> None:
    s = settings()
    policy, prompts = load_policy(s), Prompts(s)
    sampler = s.sampler(policy, prompts.task.canvas_length(prompts.level))
    problems = [prompts.training(i) for i in range(3)]
    together = draw_groups(policy, problems, 2, sampler, seed=7)
    alone = [x for p in problems for x in draw_groups(policy, [p], 2, sampler, seed=7)]
    assert [x.canvas for x in together] == [x.canvas for x in alone]
    assert [(x.item, x.number) for x in together[:3]] == [
        (problems[0].id, 0), (problems[0].id, 1), (problems[1].id, 0),
    ]  # fmt: skip
    assert len({x.canvas for x in together}) == 6
    other = draw_groups(policy, problems, 2, sampler, seed=8)
    assert all(a.canvas != b.canvas for a, b in zip(together, other, strict=True))


@torch.no_grad()
def test_a_rollout_pays_and_compares_within_its_groups(settings: Settings) -> None:
    s = settings(reward="toy_rewards:low_ids=2,outcome")
    policy, prompts = load_policy(s), Prompts(s)
    maker = RolloutMaker(
        settings=s, prompts=prompts, denoiser=policy,
        sampler=s.sampler(policy, prompts.task.canvas_length(prompts.level)),
        reward=build_reward(s, prompts.task, policy),
    )  # fmt: skip
    found = maker.make([4, 5], rollout=0, update=0)
    assert [p.id[-1] for p in found.problems] == ["4", "4", "4", "5", "5", "5"]
    assert found.parts.keys() == {"low_ids", "outcome"}
    low = found.parts["low_ids"]
    assert found.rewards == [2 * (value or 0.0) for value in low]
    assert found.advantages.view(2, 3).sum(1).tolist() == pytest.approx([0, 0], abs=1e-6)
    assert found.seconds.keys() == {"rollout", "score"}


def test_gold_solutions_end_and_are_padded(settings: Settings) -> None:
    s = settings()
    policy, problem = load_policy(s), Prompts(s).training(0)
    (one, other) = gold_samples(policy, [problem], 2, 96)
    ids = policy.tokenizer.encode(problem.solution)
    assert one.canvas == (*ids, *[policy.tokenizer.eos_id] * (96 - len(ids)))
    assert (one.num_response, one.number, other.number) == (len(ids) + 1, 0, 1)


@pytest.mark.parametrize(
    "name",
    ["boxed_format", "consistency", "ungated", "lexicographic", "trusted"],
)
def test_rewards_go_by_their_names(name: str, settings: Settings) -> None:
    annealed = name in ("consistency", "ungated")
    own = {"alpha_min": 0.2, "alpha_max": 0.4, "base_reward": 3.0} if annealed else {}
    own |= {"trust": 0.4} if name == "trusted" else {}
    s = settings(reward=name, **own)
    found: Any = build_reward(s, Prompts(s).task, load_policy(s)).rewards[name]
    assert found.__name__ == name
    if annealed:
        assert (found.alpha_min, found.alpha_max, found.base_reward) == (0.2, 0.4, 3.0)
    if name == "lexicographic":
        assert found.rank_reward == 0.5
    if name == "trusted":
        assert found.trust == 0.4


def test_one_copy_of_the_start_both_holds_and_scores(settings: Settings) -> None:
    s = settings(method="diffu_grpo", reward="lexicographic", scored_by="start")
    policy, reference = load_policy(s), load_policy(s)
    shared: Any = build_reward(s, Prompts(s).task, policy, reference).rewards["lexicographic"]
    assert shared.scorer.denoiser is reference
    alone: Any = build_reward(s, Prompts(s).task, policy).rewards["lexicographic"]
    assert alone.scorer.denoiser not in (policy, reference)


def test_metrics_are_weighed_as_the_settings_say(settings: Settings) -> None:
    """Weights 3 and 1 of two metrics; the others have none."""
    s = settings(reward="consistency", metric_weights="token_accuracy=3,confidence=1")
    policy, task = load_policy(s), Prompts(s).task
    scorer: Any = build_reward(s, task, policy).rewards["consistency"].scorer
    given = {name: weight for name, weight in scorer.weights.items() if weight}
    assert given == {"token_accuracy": 0.75, "confidence": 0.25}
    assert scorer.weights.keys() == set(scorer.metrics)
    other = settings(reward="consistency", metric_weights="taste=1")
    with pytest.raises(SettingsError, match=r"metric_weights must .*tok.*, got 'taste'"):
        build_reward(other, task, policy)


@torch.no_grad()
@pytest.mark.parametrize("tuning", ["full", "lora"])
@pytest.mark.parametrize("scorer", ["roundtrips", "probe"])
def test_what_is_learned_changes_live_scores_and_not_those_of_the_start(
    settings: Settings, tuning: str, scorer: str
) -> None:
    plain = PLAIN if scorer == "probe" else {}
    s = settings(reward="toy_rewards:by_score", scorer=scorer, tuning=tuning, **plain)
    policy, prompts = load_policy(s), Prompts(s)
    sampler = s.sampler(policy, prompts.task.canvas_length(prompts.level))
    samples = draw_groups(policy, [prompts.training(0)], 3, sampler, seed=0)
    rewards = {
        who: build_reward(replace(s, scored_by=who), prompts.task, policy)
        for who in ("live", "start")
    }

    def paid() -> dict[str, Any]:
        prompt = [prompts.training(0).prompt] * 3
        texts = [sample.text for sample in samples]
        return {who: one(prompt, texts, sample=samples) for who, one in rewards.items()}

    before = paid()
    assert before["live"] == before["start"]
    for parameter in trained(policy).values():
        parameter.add_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))
    learned = paid()
    assert learned["start"] == before["start"]
    assert learned["live"] != before["live"]


PLAIN = {"trips": 4, "rebuild_steps": 16, "metrics": "paper"}  # what no other scorer has


def test_round_trips_score_completions_by_default(settings: Settings) -> None:
    s = settings(reward="consistency", seed=3)
    policy, task = load_policy(s), Prompts(s).task
    found: Any = build_reward(s, task, policy).rewards["consistency"]
    same = api.consistency(
        policy, kind=task, settings=s.part(ConsistencySettings), metrics="core", seed=3
    )
    assert isinstance(found.scorer, Consistency)
    assert vars(found.scorer) == vars(same)


@torch.no_grad()
@pytest.mark.parametrize("name", ["probe", "verifier"])
@pytest.mark.parametrize("task", ["countdown", "choice"])
def test_completions_are_paid_by_another_scorer_as_the_library_scores_them(
    settings: Settings, name: str, task: str
) -> None:
    """Alpha is 0.5 at the first update: 1.5 + 0.5 x the score of the same text and question."""
    s = settings(reward="ungated", scorer=name, task=task, **PLAIN)
    policy, prompts = load_policy(s), Prompts(s)
    maker = RolloutMaker(
        settings=s, prompts=prompts, denoiser=policy,
        sampler=s.sampler(policy, prompts.task.canvas_length(prompts.level)),
        reward=build_reward(s, prompts.task, policy),
    )  # fmt: skip
    found = maker.make([4, 5], rollout=0, update=0)
    questions = {problem.id: problem.prompt for problem in found.problems}
    judge = api.find_scorer(name, policy, questions, kind=prompts.task, seed=s.seed)
    values = [score.value or 0.0 for score in judge.score(found.samples)]
    assert found.rewards == pytest.approx([1.5 + 0.5 * value for value in values])
    assert len(set(values)) > 1


def test_a_training_is_paid_by_the_verifier(settings: Settings, train: Callable[..., Any]) -> None:
    rows = train(settings(reward="ungated", scorer="verifier", updates=2, **PLAIN))
    scores = [row["bmc/score"] for row in rows if "bmc/score" in row]
    assert scores
    assert all(0 < score < 1 for score in scores)
