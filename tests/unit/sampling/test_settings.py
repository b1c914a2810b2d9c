"""Settings of the sampler: what is refused, what a preset says, what the authors published."""

import math

import pytest

from remask.denoisers.base import Preset
from remask.errors import SettingsError
from remask.sampling.loop import draws_places, filters_tokens, looks_closer
from remask.sampling.settings import Rule, SamplerSettings

# The keys of Dream's generation_config.json, with the defaults of its loop.
DREAM_FILE = {
    "alg": "origin",
    "alg_temp": None,
    "eps": 0.001,
    "mask_token_id": None,
    "output_history": False,
    "steps": 512,
    "temperature": 0.0,
    "top_k": None,
    "top_p": None,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": "left"}, "order must be low_confidence, .*, got 'left'"),
        ({"order_temperature": -1.0}, "order_temperature must be at least 0, got -1.0"),
        ({"order_temperature": math.nan}, "order_temperature must be .*, got nan"),
        ({"top_p": 0.0}, "top_p must be above 0, got 0.0"),
        ({"top_p": 1.1}, "top_p must be at most 1, got 1.1"),
        ({"top_p": math.nan}, "top_p must be a number above 0 and at most 1, got nan"),
        ({"top_k": 0}, "top_k must be .*, got 0"),
        ({"reveal_threshold": 0.0}, "reveal_threshold must be .*, got 0.0"),
        ({"reveal_threshold": 1.5}, "reveal_threshold must be .*, got 1.5"),
        ({"reveal_threshold": 0.9, "order": "random"}, "not 'random'"),
        ({"reveal_threshold": 0.9, "order": "origin"}, "not 'origin'"),
        ({"reveal_threshold": 0.9, "order": "entropy"}, "not 'entropy'"),
        ({"reveal_threshold": 0.9, "order_temperature": 0.1}, "and order_temperature 0"),
        ({"reveal_threshold": 0.9, "order": "sequential"}, "not 'sequential'"),
        ({"order_temperature": 0.1, "order": "sequential"}, "requires order_temperature 0"),
        ({"ends_last": True, "order": "sequential"}, "got 0.0 and True"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Rule(**changes)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=message):
        SamplerSettings(length=8, steps=8, block=8, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["low_confidence", "maskgit_plus", "topk_margin"])
def test_a_threshold_goes_with_orders_that_compare_probabilities(order: str) -> None:
    assert Rule(order=order, reveal_threshold=1.0).reveal_threshold == 1  # type: ignore[arg-type]


def test_without_a_word_about_it_nothing_changes() -> None:
    """The settings of a bare preset are LLaDA's, as before there were others."""
    plain = SamplerSettings(length=128, steps=128, block=128)
    assert SamplerSettings.of(Preset()).for_pool(1) == plain
    asks = draws_places(plain), filters_tokens(plain), looks_closer(plain)
    assert asks == (False, False, False)
    assert (plain.order, plain.reveal_threshold) == ("low_confidence", None)


def test_dreams_own_file_is_read() -> None:
    """512 steps and no length: 512 tokens in one block, one a step."""
    expected = SamplerSettings(length=512, steps=512, block=512, order="origin")
    assert SamplerSettings.of(Preset.read(DREAM_FILE)).for_pool(1) == expected


def test_options_in_dreams_words_and_in_ours_are_read() -> None:
    theirs = {"alg": "entropy", "alg_temp": 0.2, "top_p": 0.9, "top_k": 50, "temperature": 0.1}
    ours = {**theirs, "order": "entropy", "order_temperature": 0.2}
    expected = Preset(order="entropy", order_temperature=0.2, top_p=0.9, top_k=50, temperature=0.1)
    assert Preset.read(theirs) == expected
    assert Preset.read({k: v for k, v in ours.items() if k[:3] != "alg"}) == expected


def test_a_length_beside_the_steps_stays_what_it_is() -> None:
    assert Preset.read({"length": 64, "steps": 32}) == Preset(length=64, steps=32)
    assert Preset.read({"steps": 64, "block": 16}) == Preset(length=64, steps=64, block=16)


def test_an_option_of_another_tool_that_is_switched_off_is_not_set() -> None:
    assert Preset.read({"top_k": 0, "top_p": None, "alg_temp": 0}) == Preset()


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("order", 3, "a string"),
        ("ends_last", 1, "true or false"),
        ("reveal_threshold", "high", "a number"),
        ("order_temperature", "warm", "a number"),
        ("top_p", "most", "a number"),
        ("top_k", 2.5, "an integer at least 1"),
    ],
)
def test_a_preset_with_the_wrong_kind_of_value_is_refused(
    name: str, value: object, kind: str
) -> None:
    message = f"{name} must be {kind}, got {value!r}"
    with pytest.raises(SettingsError, match=message):
        Preset.read({"steps": 8, name: value})
    with pytest.raises(SettingsError, match=message):
        Preset.read({"tasks": {"pycode": {name: value}}})


def test_a_task_may_depart_from_the_rule() -> None:
    preset = Preset.read({"ends_last": True, "tasks": {"pycode": {"reveal_threshold": 0.9}}})
    assert SamplerSettings.of(preset).ends_last
    changed = SamplerSettings.of(preset.for_task("pycode"))
    assert (changed.ends_last, changed.reveal_threshold) == (True, 0.9)


def test_a_task_may_not_change_what_is_no_setting() -> None:
    with pytest.raises(SettingsError, match=r"tasks\.pycode\.tasks must be a sampler setting"):
        Preset(tasks={"pycode": {"tasks": {}}}).for_task("pycode")


@pytest.mark.parametrize(
    "published",
    [
        {"length": 512, "steps": 512, "block": 512, "ends_last": True},
        {"length": 256, "steps": 256, "block": 8},
        {"length": 1024, "steps": 1024, "block": 128, "ends_last": True},
        {"length": 512, "steps": 512, "temperature": 0.2, "top_p": 0.95, "order": "entropy"},
        {"length": 256, "steps": 256, "temperature": 0.1, "top_p": 0.9, "order": "entropy"},
        {"length": 256, "steps": 256, "block": 32, "reveal_threshold": 0.9},
    ],
    ids=["llada", "llada blocks", "llada 1.5", "dream chat", "dream eval", "fast-dllm"],
)
def test_published_settings_can_be_written_down(published: dict[str, object]) -> None:
    given = {"block": published["length"], **published}
    found = SamplerSettings.of(Preset.read(given)).for_pool(1)
    assert found == SamplerSettings(**given)  # type: ignore[arg-type]
