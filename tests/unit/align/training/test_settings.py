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
# Settings, and what the error must name.
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"learing_rate": 1}, r"'learing_rate'.*'learning_rate'"),
    ({"nope": 1}, r"Unknown setting 'nope'"),
    ({"updates": 10**9}, r"updates must be at most 100,000,000, got 1000000000"),
    ({"updates": "many"}, r"updates must be an integer .*, got 'many'"),
    ({"updates": True}, r"updates must be an integer .*, got True"),
    ({"updates": 0}, r"updates must be at least 1, got 0"),
    ({"trips": 10**8}, r"trips must be at most 10,000, got 100000000"),
    ({"trips": 0}, r"trips must be at least 1, got 0"),
    ({"method": "ppo"}, r"method must be spg, diffu_grpo or sft, got 'ppo'"),
    ({"num_generations": 1}, r"num_generations must be at least 2, got 1"),
    ({"collapse_reward_ratio": 2}, r"collapse_reward_ratio must be at most 1, got 2"),
    ({"learning_rate": "fast"}, r"learning_rate must be a number above 0, got 'fast'"),
    ({"temperature": 0}, r"temperature must be above 0, got 0"),
    ({"warmup": 10, "updates": 10}, r"warmup must be below updates \(10\), got 10"),
    ({"sharding": "learner"}, r"sharding must be none or auto with tuning lora, got learner"),
    ({"renyi_order": 0.5}, r"renyi_order must be at least 1, got 0\.5"),
    ({"copies": 1}, r"copies must be at least 2 .*, got 1"),
    ({"method": "diffu_grpo", "copies": 2, "mask_sampler": "random"}, r"copies must be 1 .*got 2"),
    ({"method": "diffu_grpo", "copies": 2}, r"copies must be 1 with mask_sampler 'full', got 2"),
    ({"reward": "trusted=2"}, r"'trusted' requires trust"),
    ({"reward": "trusted", "trust": 40.0}, r"trust must be at most 1, got 40\.0"),
    ({"metric_weights": "token_accuracy"}, r"metric_weights .*, got 'token_accuracy'"),
    ({"metric_weights": ["confidence=0"]}, r"metric_weights must be at least 0.*got confidence=0"),
    ({"scorer": "probe", "probe": "criticl"}, r"Unknown probe 'criticl'"),
    (
        {"scorer": "probe", "reading": "response_min"},
        r"reading must be critical_mean or critical_min .*, got response_min",
    ),
    # settings that another method, reward or scorer would ignore
    ({"method": "sft", "renyi_order": 2.0}, r"renyi_order requires method spg, got .*2\.0.* sft"),
    ({"method": "spg", "clip": 0.2}, r"clip requires method diffu_grpo, got .*0\.2.* spg"),
    ({"reward": "outcome", "rank_reward": 1.0}, r"rank_reward requires reward lexicographic, got"),
    ({"reward": "lexicographic", "trust": 0.5}, r"trust requires reward trusted, got"),
    ({"reward": "outcome", "alpha_max": 2.0}, r"alpha_max requires reward consistency or ungated"),
    (
        {"reward": "outcome,soft_format=0.5", "scorer": "verifier"},
        r"scorer requires reward .*, got scorer verifier with reward outcome, soft_format",
    ),
    ({"probe": "halves8"}, r"probe requires scorer probe, got probe halves8 .* roundtrips"),
    ({"method": "sft", "reward": "outcome"}, r"reward requires method spg or diffu_grpo, got"),
    *[
        ({"scorer": "verifier", name: value}, rf"{name} requires scorer roundtrips, got {name}")
        for name, value in (("trips", 8), ("mask_design", "stratified"), ("metrics", "core"))
    ],
]


@pytest.mark.parametrize(("changes", "words"), MISTAKES)
def test_a_mistake_names_the_field_and_the_value(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_settings({**LEAST, **changes})


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
        ("- a\n- b\n", r"run.yaml must have lines such as `name: value`, got a list\."),
        ("a: [1\nb: 2\n", r"run.yaml is not valid YAML in line 2\."),
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
