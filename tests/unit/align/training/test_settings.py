"""One schema: every mistake in a file or flag is one sentence with field, value and remedy."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.align.settings import (
    AlignSettings,
    as_yaml,
    check_settings,
    decisive,
    read_settings,
    record,
)
from remask.errors import SettingsError

LEAST = {"model": "tiny", "task": "wordmath", "out": "runs"}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": (
        {"learing_rate": 1},
        "Unknown setting 'learing_rate'. Did you mean 'learning_rate'?",
    ),
    "a word that is like no other": (
        {"nope": 1},
        f"Unknown setting 'nope'. Known: {', '.join(f.name for f in fields(AlignSettings))}.",
    ),
    "more updates than anybody waits for": (
        {"updates": 10**9},
        "updates must be at most 100,000,000, got 1000000000.",
    ),
    "adapters that are divided as if all weights learned": (
        {"sharding": "learner"},
        "sharding learner divides weights that all learn, and tuning is lora; use sharding all, "
        "which divides them for writing too, or leave sharding out.",
    ),
    "a copy where there is no room for one": (
        {"sharding": "all", "tuning": "full", "scored_by": "start"},
        "scored_by start needs a whole copy of the model, and sharding all has none; use "
        "sharding learner, or scored_by live.",
    ),
    "a whole reference where all else is divided": (
        {"sharding": "all", "tuning": "full", "method": "regression", "anchor": "start"},
        "anchor start needs a whole copy of the model, and sharding all has none; use sharding "
        "learner, or anchor rollout.",
    ),
    "a bound that nobody asks about": (
        {"method": "regression", "renyi_order": 2.0},
        "renyi_order 2.0 belongs to method spg, and method is regression; leave renyi_order out.",
    ),
    "a clip of another method": (
        {"method": "regression", "clip": 0.2},
        "clip 0.2 belongs to method diffu_grpo, and method is regression; leave clip out.",
    ),
    "ranks of what is not ranked": (
        {"reward": "outcome", "rank_reward": 1.0},
        "rank_reward 1.0 belongs to reward lexicographic, placebo or oracle, and reward is "
        "outcome; leave rank_reward out.",
    ),
    "trust of what is ranked": (
        {"reward": "lexicographic", "trust": 0.5},
        "trust 0.5 belongs to reward trusted, placebo or oracle, and reward is lexicographic; "
        "leave trust out.",
    ),
    "trust that was not said": (
        {"reward": "trusted=2"},
        "reward trusted has no trust, the least score of a right answer that is paid; set trust, "
        "for instance to 0.4.",
    ),
    "trust that nothing has": (
        {"reward": "trusted", "trust": 40.0},
        "trust must be at most 1, got 40.0.",
    ),
    "trust and ranks": (
        {"reward": "placebo", "trust": 0.5, "rank_reward": 1.0},
        "rank_reward 1.0 pays by ranks, and trust 0.5 by scores; leave one of them out.",
    ),
    "a weight of no score": (
        {"reward": "outcome", "alpha_max": 2.0},
        "alpha_max 2.0 belongs to reward consistency or ungated, and reward is outcome; leave "
        "alpha_max out.",
    ),
    "a scorer of nothing": (
        {"reward": "outcome,soft_format=0.5", "scorer": "verifier"},
        "scorer verifier belongs to reward consistency, lexicographic, trusted, ungated or "
        "placebo, and reward is outcome, soft_format; leave scorer out.",
    ),
    "a reading of another probe": (
        {"scorer": "probe", "reading": "response_min"},
        "reading response_min is none of critical; use critical_mean or critical_min.",
    ),
    "a probe that is none": (
        {"scorer": "probe", "probe": "criticl"},
        "Unknown probe 'criticl'. Did you mean 'critical'?",
    ),
    "a probe where round trips score": (
        {"probe": "halves8"},
        "probe halves8 belongs to scorer probe, and scorer is roundtrips; leave probe out.",
    ),
    "a reward of what has none": (
        {"method": "sft", "reward": "outcome"},
        "reward outcome belongs to method spg, diffu_grpo or regression, and method is sft; "
        "leave reward out.",
    ),
    "a pass inside another": (
        {"sharding": "all", "method": "diffu_grpo"},
        "kl_weight 0.04 needs a pass without adapters between two with them, which sharding all "
        "cannot make; set kl_weight 0, or leave sharding out.",
    ),
    "more round trips than anybody waits for": (
        {"trips": 10**8}, "trips must be at most 10,000, got 100000000.",
    ),
    "a text for a count": (
        {"updates": "many"},
        "updates must be an integer at least 1 and at most 100,000,000, got 'many'.",
    ),
    "yes for a count": (
        {"updates": True},
        "updates must be an integer at least 1 and at most 100,000,000, got True.",
    ),
    "none at all": (
        {"updates": 0},
        "updates must be at least 1, got 0.",
    ),
    "a method nobody has": (
        {"method": "ppo"},
        "method must be spg, diffu_grpo, regression or sft, got 'ppo'.",
    ),
    "a group of one": (
        {"num_generations": 1},
        "num_generations must be at least 2, got 1.",
    ),
    "a share above one": (
        {"collapse_reward_ratio": 2},
        "collapse_reward_ratio must be at most 1, got 2.",
    ),
    "a rate that is no number": (
        {"learning_rate": "fast"},
        "learning_rate must be a number above 0, got 'fast'.",
    ),
    "one copy": (
        {"copies": 1},
        "copies 1 gives the upper bound the gradient of the lower one; set copies 2 or more, or "
        "negative elbo, which is what it would be.",
    ),
    "copies of a full mask": (
        {"method": "diffu_grpo", "copies": 2, "mask_sampler": "random"},
        "copies 2 is more than diffu_grpo has; leave copies out.",
    ),
    "no noise": (
        {"temperature": 0},
        "temperature 0 draws the same completion every time, and equal ones teach nothing; use "
        "0.9.",
    ),
    "a restraint of another method": (
        {"method": "regression", "ratio_clip": 0.2},
        "ratio_clip 0.2 belongs to method spg, and method is regression; leave ratio_clip out.",
    ),
    "how far of another method": (
        {"beta": 2.0},
        "beta 2.0 belongs to method regression, and method is spg; leave beta out.",
    ),
    "a distance of nothing": (
        {"method": "regression", "beta": 0}, "beta must be above 0, got 0.",
    ),
    "a weight that is no number": (
        {"metric_weights": "token_accuracy"},
        "metric_weights 'token_accuracy' has no number for a weight; write name=0.5.",
    ),
    "no weight at all": (
        {"metric_weights": ["token_accuracy=0", "confidence=0"]},
        "metric_weights token_accuracy=0, confidence=0 must be 0 or more, and not all 0.",
    ),
    "an order below one": (
        {"renyi_order": 0.5},
        "renyi_order 0.5 gives no upper bound; use 1 or more, such as 1.5.",
    ),
    "round trips of no step": ({"trips": 0}, "trips must be at least 1, got 0."),
    "a warm-up without end": (
        {"warmup": 10, "updates": 10}, "warmup 10 is not below updates 10.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str) -> None:
    told, sentence = MISTAKES[name]
    with pytest.raises(SettingsError) as caught:
        check_settings({**LEAST, **told})
    assert str(caught.value) == sentence


@pytest.mark.parametrize("field", LEAST)
def test_what_must_be_said_is_asked_for(field: str) -> None:
    told = {name: value for name, value in LEAST.items() if name != field}
    with pytest.raises(SettingsError, match=f"{field} is missing; give --{field}, or {field} in"):
        check_settings(told)


def test_flags_override_the_file(tmp_path: Path) -> None:
    """1e-6 is a text to YAML 1.1, and a number to us."""
    path = tmp_path / "run.yaml"
    path.write_text("model: tiny\ntask: wordmath\nout: a\nlearning_rate: 2e-6\nupdates: 7\n")
    found = read_settings(path, {"out": Path("b"), "updates": 9})
    assert (found.learning_rate, found.updates, found.out) == (2e-6, 9, Path("b"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a\n- b\n", r"run.yaml holds list, not fields; write `name: value` lines\."),
        ("a: [1\nb: 2\n", r"run.yaml is not valid YAML in line 2; correct it\."),
        ("", r"model is missing"),
    ],
)
def test_a_file_that_is_no_settings_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=sentence):
        read_settings(path, {})


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot use .*none\.yaml: No such file"):
        read_settings(tmp_path / "none.yaml", {})


@given(
    st.dictionaries(
        st.sampled_from([*(f.name for f in fields(AlignSettings)), "extra"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()),
    )
)
def test_whatever_is_said_is_taken_or_refused_in_one_sentence(told: dict[str, Any]) -> None:
    try:
        found = check_settings({**LEAST, **told})
    except SettingsError as error:
        sentence = str(error)
    else:
        sentence = "."
        assert check_settings(record(found)) == found
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_settings_survive_the_file(tmp_path: Path) -> None:
    found = check_settings({**LEAST, "reward": "outcome,soft_format=0.5", "copies": 3})
    (tmp_path / "run.yaml").write_text(as_yaml(found))
    assert read_settings(tmp_path / "run.yaml", {}) == found
    assert found.reward == ("outcome", "soft_format=0.5")


def test_a_run_may_move_and_slow_down_but_not_change() -> None:
    ours = decisive(check_settings(LEAST))
    assert decisive(check_settings({**LEAST, "out": "elsewhere", "learning_rate": 1.0})) == ours
    assert decisive(check_settings({**LEAST, "warmup": 0})) == ours, "which is the default"
    changed = decisive(check_settings({**LEAST, "num_generations": 4}))
    assert {name for name in ours if ours[name] != changed[name]} == {"num_generations"}


@pytest.mark.parametrize(
    ("name", "value"), [("trips", 8), ("mask_design", "stratified"), ("metrics", "core")]
)
def test_settings_of_round_trips_are_refused_where_probes_score(name: str, value: Any) -> None:
    assert check_settings({**LEAST, name: value}).scorer == "roundtrips"
    with pytest.raises(SettingsError) as refused:
        check_settings({**LEAST, "scorer": "verifier", name: value})
    assert str(refused.value) == (
        f"{name} {value} belongs to scorer roundtrips, and scorer is verifier; leave {name} out."
    )


def test_the_rate_of_the_regression_falls_unless_it_is_said_otherwise() -> None:
    """A warm-up of ten updates, or of a tenth of them all."""
    stable = {**LEAST, "method": "regression"}
    s = check_settings(stable)
    assert (s.schedule, s.num_warmup) == ("linear", 10)
    assert check_settings({**stable, "updates": 25}).num_warmup == 2
    kept = check_settings({**stable, "schedule": "constant", "warmup": 0})
    assert (kept.schedule, kept.num_warmup) == ("constant", 0)
    assert check_settings(record(s)) == s
    assert (check_settings(LEAST).schedule, check_settings(LEAST).num_warmup) == ("constant", 0)


def test_the_defaults_are_the_published_ones() -> None:
    """SPG's, but for the rate and the group size of the paper."""
    s = check_settings(LEAST)
    assert (s.renyi_order, s.upper_weight, s.num_copies, s.inner_updates) == (1.5, 0.5, 2, 4)
    assert (s.lora_rank, s.lora_alpha, s.lora_dropout, s.max_grad_norm) == (128, 64, 0.05, 0.2)
    assert (s.beta1, s.beta2, s.weight_decay, s.temperature) == (0.9, 0.99, 0.1, 0.9)
    assert (s.learning_rate, s.num_generations, s.updates) == (1e-6, 8, 6000)
    assert s.masks(32, 256).mask_sampler == "block_random"
    assert s.masks(256, 256).mask_sampler == "random"  # no blocks to choose from
    asked = check_settings({**LEAST, "mask_sampler": "block_all", "mask_block": 8})
    assert (asked.masks(256, 256).mask_sampler, asked.masks(256, 256).block) == ("block_all", 8)
    assert check_settings({**LEAST, "method": "diffu_grpo"}).masks(32).mask_sampler == "full"
