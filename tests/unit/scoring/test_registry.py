"""One table of scorers: seed, kind and prompts reach each, and nothing is ignored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from remask import api
from remask.baselines.judge import SelfEvaluation
from remask.baselines.likelihood import Perplexity
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.native import NativeDenoiser
from remask.errors import ExtensionError, SettingsError
from remask.probes.scorer import ProbeScorer
from remask.sampling.settings import SamplerSettings
from remask.scoring.registry import SCORERS, find_scorer
from remask.values import Scorer

WRITER = SamplerSettings(length=16, steps=8, block=16, temperature=0.7)
PROMPT = "Which one? (A) a duck (B) a dog"
SHORT: dict[str, Any] = {"settings": ConsistencySettings(trips=2), "metrics": "core"}


@pytest.fixture(scope="module")
def model(llada: NativeDenoiser) -> NativeDenoiser:
    return replace(llada, preset=Preset(length=32, steps=32, block=32))


@pytest.mark.parametrize("name", SCORERS)
def test_every_name_makes_a_scorer_that_scores_a_drawn_answer(
    model: NativeDenoiser, name: str
) -> None:
    answer = api.sample(model, PROMPT, settings=WRITER, trace=True)
    extra = SHORT if name == "roundtrips" else {}
    score = api.score(model, PROMPT, answer, scorer=name, kind="choice", **extra)
    assert score.value is not None or score.reason


@pytest.mark.parametrize("name", ["roundtrips", "perplexity", "dcocoa"])
def test_a_seed_reaches_every_scorer_that_draws(model: NativeDenoiser, name: str) -> None:
    answer = api.sample(model, PROMPT, settings=WRITER, trace=True)
    extra = SHORT if name == "roundtrips" else {}
    values = [
        api.score(model, PROMPT, answer, scorer=name, seed=seed, **extra).value
        for seed in (0, 0, 1)
    ]
    assert values[0] == values[1] != values[2]


def test_seed_kind_and_sampler_are_those_that_were_given(model: NativeDenoiser) -> None:
    made = find_scorer("perplexity", model, [], seed=5)
    assert isinstance(made, Perplexity)
    assert made.seed == 5
    probe = find_scorer("probe", model, [], seed=5, kind="text")
    assert isinstance(probe, ProbeScorer)
    assert probe.seed == 5
    sampler = replace(WRITER, order="entropy")
    judge = find_scorer("self_evaluation", model, [], seed=5, sampler=sampler)
    assert isinstance(judge, SelfEvaluation)
    assert (judge.seed, judge.settings.order) == (5, "entropy")


@pytest.mark.parametrize("name", ["probe", "verifier", "self_evaluation", "critical_count"])
def test_a_sample_with_an_item_of_its_own_keeps_its_prompt(
    model: NativeDenoiser, name: str
) -> None:
    (named,) = api.sample_many(model, [PROMPT], items=["x"], settings=WRITER)
    usual = replace(named, item=api.item_of(PROMPT))
    scores = [
        api.score(model, PROMPT, one, scorer=name, kind="choice")
        for one in (named, usual, replace(named, question=""))
    ]
    if name not in ("self_evaluation", "verifier"):  # their draws are keyed by the item
        assert scores[0] == scores[1] == scores[2]
    assert scores[0] == scores[2]
    assert "prompt" not in scores[0].reason


def test_samples_that_share_an_item_have_their_own_prompts(model: NativeDenoiser) -> None:
    other = "Which one? (A) a cat (B) a cow"
    answer = "It is the duck, so (A)."
    brought = [api.sample_from_text(model, p, answer, item="x") for p in (PROMPT, other)]
    together = api.score_many(
        model, [*zip((PROMPT, other), brought, strict=True)], scorer="critical_count", kind="choice"
    )
    alone = [
        api.score(model, p, one, scorer="critical_count", kind="choice")
        for p, one in zip((PROMPT, other), brought, strict=True)
    ]
    assert together == alone


def test_a_users_maker_knows_the_prompt_under_the_item_of_the_sample(
    model: NativeDenoiser,
) -> None:
    seen: list[Mapping[str, str]] = []

    def maker(model: Denoiser, questions: Mapping[str, str]) -> Scorer:
        seen.append(questions)
        return find_scorer("length", model, [])

    (named,) = api.sample_many(model, [PROMPT], items=["x"], settings=WRITER)
    api.score(model, PROMPT, named, scorer=maker)
    assert seen == [{"x": PROMPT}]


def test_a_maker_with_a_parameter_that_nobody_fills_is_refused(model: NativeDenoiser) -> None:
    def maker(model: Denoiser, questions: Mapping[str, str], *, colour: str) -> Scorer:
        raise AssertionError

    with pytest.raises(SettingsError, match="colour"):
        find_scorer(maker, model, [])


def test_a_type_error_inside_a_maker_is_not_blamed_on_its_parameters(
    model: NativeDenoiser,
) -> None:
    def maker(model: Denoiser, questions: Mapping[str, str]) -> Scorer:
        return len(3)  # type: ignore[arg-type,return-value]

    with pytest.raises(ExtensionError, match=r"'maker' failed with TypeError.*test_registry\.py"):
        find_scorer(maker, model, [])


@pytest.mark.parametrize("setting", [{"metrics": "core"}, {"weights": {"confidence": 1.0}},
                                     {"settings": ConsistencySettings(trips=1)}])  # fmt: skip
def test_settings_of_round_trips_are_refused_beside_another_scorer(
    model: NativeDenoiser, setting: dict[str, Any]
) -> None:
    with pytest.raises(SettingsError, match="belongs to the round trips"):
        api.score(model, PROMPT, "It is (A).", scorer="probe", **setting)
