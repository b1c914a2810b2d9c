"""The text API: one call alone equals the same call in a batch, and what it refuses."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask import api
from remask.answers.critical import CRITICAL
from remask.baselines.confidence import ModelConfidence
from remask.baselines.editor import EditorAgreement
from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import best_of
from remask.denoisers.base import Preset
from remask.denoisers.native import NativeDenoiser
from remask.errors import InputError, SettingsError
from remask.sampling.settings import SamplerSettings
from remask.tasks import KNOWN, TASKS
from remask.values import Sample, Score
from remask.verifier.threshold import NO_THRESHOLD, PAPER

PROMPTS = ["Add 2 and 3.", "How many legs has a duck?", "x"]
WRITER = SamplerSettings(length=8, steps=8, block=8, temperature=0.7)
SHORT = ConsistencySettings(trips=2, rebuild_steps=2)


@pytest.fixture(scope="module")
def model(llada: NativeDenoiser) -> NativeDenoiser:
    return replace(llada, preset=Preset(length=32, steps=32, block=32))


def close(one: Score, other: Score) -> bool:
    return one.drift == other.drift and one.by_metric == pytest.approx(other.by_metric, abs=1e-5)


def test_samples_alone_equal_samples_together(model: NativeDenoiser) -> None:
    together = api.sample_many(model, PROMPTS, settings=WRITER, number=1, seed=2)
    alone = [api.sample(model, p, settings=WRITER, number=1, seed=2) for p in PROMPTS]
    assert [s.canvas for s in together] == [s.canvas for s in alone]


def test_another_number_is_another_sample(model: NativeDenoiser) -> None:
    one, two = (api.sample(model, "x", settings=WRITER, number=n) for n in (0, 1))
    assert one.canvas != two.canvas
    assert one == api.sample(model, "x", settings=WRITER)


def test_the_preset_of_the_model_is_the_default(model: NativeDenoiser) -> None:
    """Canvas 32 with 32 steps: 32 forwards."""
    answer = api.sample(model, "x")
    assert (len(answer.canvas), answer.forwards) == (32, 32)


def test_a_prompt_is_known_by_its_text() -> None:
    assert api.item_of("a") == api.item_of("a") != api.item_of("b")
    assert api.item_of("\ud800").startswith("prompt/")


@pytest.mark.parametrize(("num_letters", "num_canvas"), [(1, 32), (31, 32), (32, 64), (63, 64)])
def test_a_brought_answer_gets_an_end_and_a_tail(
    model: NativeDenoiser, num_letters: int, num_canvas: int
) -> None:
    """The preset's 32 tokens where the answer and its end fit, else the next multiple of 32."""
    brought = api.sample_from_text(model, "x", "a" * num_letters)
    assert len(brought.canvas) == num_canvas
    assert brought.num_response == num_letters + 1
    assert set(brought.canvas[num_letters:]) == {model.tokenizer.eos_id}
    assert model.tokenizer.decode(brought.canvas) == brought.text == "a" * num_letters


@pytest.mark.parametrize("answer", ["", " \n\t"])
def test_an_empty_answer_is_refused(model: NativeDenoiser, answer: str) -> None:
    with pytest.raises(InputError, match="the answer is empty"):
        api.sample_from_text(model, "x", answer)


@pytest.mark.parametrize("token", ["<mask>", "<eos>", "<eot>"])
def test_special_tokens_inside_an_answer_are_refused(model: NativeDenoiser, token: str) -> None:
    with pytest.raises(InputError, match="the answer contains"):
        api.sample_from_text(model, "x", f"a{token}b")


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_any_other_text_can_be_brought(model: NativeDenoiser, text: str) -> None:
    assert model.tokenizer.decode(api.sample_from_text(model, "x", text).canvas) == text


@pytest.mark.parametrize(("prompt", "answer"), [("x", "\ud800"), ("\udc80", "x")])
def test_text_that_is_no_unicode_is_refused(
    model: NativeDenoiser, prompt: str, answer: str
) -> None:
    with pytest.raises(InputError, match="is not valid unicode"):
        api.sample_from_text(model, prompt, answer)


def test_scores_alone_equal_scores_together(model: NativeDenoiser) -> None:
    pairs: list[tuple[str, str | Sample]] = [(prompt, "2+3=5, so 5") for prompt in PROMPTS]
    scorer = api.consistency(model, settings=SHORT, metrics="core", seed=1)
    together = api.score_many(model, pairs, scorer=scorer)
    for (prompt, answer), score in zip(pairs, together, strict=True):
        assert close(
            api.score(model, prompt, answer, settings=SHORT, metrics="core", seed=1), score
        )


def test_a_bare_score_is_that_of_the_round_trips(model: NativeDenoiser) -> None:
    score = api.score(model, "Add 2 and 3.", "5", settings=SHORT, metrics="core")
    name = "roundtrips"
    assert (score.scorer, score.version) == (name, api.scorer_version(name))
    assert score.by_trip.keys() >= {"token_accuracy", "answer_match"}
    named = api.score(model, "Add 2 and 3.", "5", settings=SHORT, metrics="core", scorer=name)
    assert named == score


def test_a_drawn_sample_is_scored_on_its_own_canvas(model: NativeDenoiser) -> None:
    answer = api.sample(model, "x", settings=WRITER)
    score = api.score(model, "x", answer, settings=SHORT, metrics="core")
    assert len(score.drift) == answer.num_response


def test_decisions_alone_equal_decisions_together(model: NativeDenoiser) -> None:
    prompts = [*PROMPTS, PROMPTS[0]]
    scorer = api.consistency(model, settings=SHORT, metrics="core")
    together = api.solve_many(
        model, prompts, scorer=scorer, sampler=WRITER, threshold=0.4, budget=2
    )
    for prompt, decision in zip(prompts, together, strict=True):
        alone = api.solve(
            model, prompt, sampler=WRITER, settings=SHORT, metrics="core", threshold=0.4, budget=2
        )
        assert (alone.action, alone.sample.canvas) == (decision.action, decision.sample.canvas)
        assert len(alone.attempts) == len(decision.attempts)
        assert decision.item == api.item_of(prompt)


def test_the_threshold_of_the_preset_is_the_default(model: NativeDenoiser) -> None:
    generous = replace(model, preset=replace(model.preset, temperature=0.5, threshold=-1.0))
    decision = api.solve(generous, "x")
    assert (decision.action, len(decision.attempts)) == ("accept", 1)
    assert (decision.threshold, decision.threshold_source) == (-1.0, "preset")
    decision = api.solve(model, "x", budget=1)
    assert (decision.threshold, decision.threshold_source) == (0.75, PAPER)
    for changed in ({"settings": SHORT}, {"metrics": "core"}):
        with pytest.raises(SettingsError, match="no threshold is known for these settings"):
            api.solve(generous, "x", **changed)


def test_the_threshold_of_the_preset_is_that_of_the_scorer(model: NativeDenoiser) -> None:
    preset = replace(
        model.preset, temperature=0.5, tasks={"choice": {"threshold": {"editor": 2.0}}}
    )
    known = replace(model, preset=replace(preset, threshold={"roundtrips": 2.0, "editor": -1.0}))
    decision = api.solve(known, "x", scorer="editor", budget=2)
    assert (decision.action, len(decision.attempts)) == ("accept", 1)
    decision = api.solve(known, "x", scorer="editor", budget=2, kind="choice")
    assert (decision.action, len(decision.attempts)) == ("fallback", 2)
    with pytest.raises(SettingsError) as error:
        api.solve_many(model, ["x"], scorer="editor")
    assert str(error.value).startswith(NO_THRESHOLD)
    assert api.solve(model, "x", scorer="editor", threshold=-1.0).action == "accept"


@pytest.mark.parametrize("name", ["probe", "verifier"])
def test_the_verifier_rejects_and_chooses_and_is_named(model: NativeDenoiser, name: str) -> None:
    """Nothing scores above 2, all above -1; the best of three by score, whoever wrote them."""
    draw = partial(api.solve, model, "x", scorer=name, sampler=WRITER, budget=3)
    none, first = draw(threshold=2.0), draw(threshold=-1.0)
    assert (none.action, first.action) == ("fallback", "accept")
    assert (len(none.attempts), len(first.attempts)) == (3, 1)
    values = [score.rank for _, score in none.attempts]
    assert none.score.value == max(values) > min(values)
    assert {score.scorer for _, score in none.attempts} == {name}
    assert none.forwards == sum(s.forwards + score.forwards for s, score in none.attempts)
    middle = sorted(values)[1]
    later = draw(threshold=middle)
    assert later.sample == none.sample, "the only one above the second best"
    with pytest.raises(SettingsError, match=f"has none for scorer {name}, kind number"):
        draw()
    judge = api.find_scorer(name, model, ["x"])

    def pool(items: Sequence[str], number: int) -> list[Sample]:
        return [api.sample(model, "x", settings=WRITER.for_pool(3), number=number)]

    [best] = best_of(pool, judge, [api.item_of("x")], 3)
    assert (best.sample, best.score) == (none.sample, none.score)
    assert best.reason == f"best of 3 by {name}"


def test_a_greedy_preset_is_solved_with_default_arguments(model: NativeDenoiser) -> None:
    """Nothing scores above 2: all of the budget is spent, and only sample 0 is the greedy one."""
    decision = api.solve(model, "x", settings=SHORT, metrics="core", threshold=2.0)
    assert model.preset.temperature == 0
    assert len(decision.attempts) == 10
    canvases = [sample.canvas for sample, _ in decision.attempts]
    plain = SamplerSettings(length=32, steps=32, block=32)
    assert canvases[0] == api.sample(model, "x", settings=plain).canvas
    warm = replace(plain, temperature=model.preset.resample_temperature)
    for number in range(1, 10):
        assert canvases[number] == api.sample(model, "x", settings=warm, number=number).canvas
    assert len(set(canvases)) == 10


def test_resampling_at_a_temperature_of_0_of_the_users_is_refused(model: NativeDenoiser) -> None:
    greedy = SamplerSettings(length=8, steps=8, block=8)
    with pytest.raises(
        SettingsError, match=r"draws the same answer every time, and budget is 10; "
    ):
        api.solve(model, "x", sampler=greedy, scorer="probe", threshold=0.5)
    decision = api.solve(model, "x", sampler=greedy, scorer="probe", threshold=0.5, budget=1)
    assert len(decision.attempts) == 1


def test_every_task_and_kind_has_a_reader() -> None:
    for name in TASKS:
        assert set(api.reader(name).metrics) == set(TASKS[name].metrics)
    assert api.reader("number").extract("so it is 12. Answer: 12") == "12"
    assert api.reader("text").extract("Answer: 12") is None
    assert "answer_match" not in api.reader("text").metrics
    decide = {name: api.reader(name).critical for name in (*api.READERS, "pycode", "arc", "math")}
    assert decide == {
        "number": "number", "choice": "choice", "code": "code", "text": "text",
        "pycode": "code", "arc": "choice", "math": "formula",
    }  # fmt: skip
    assert {api.reader(name).critical for name in KNOWN} <= set(CRITICAL)
    with pytest.raises(SettingsError, match=r"Unknown kind 'poem'. Known: number, choice"):
        api.reader("poem")


def test_weights_reach_the_composite(model: NativeDenoiser) -> None:
    names = api.consistency(model, kind="text", metrics="core").metrics
    weights = {name: float(name == "confidence") for name in names}
    score = api.score(model, "x", "5", kind="text", settings=SHORT, metrics="core", weights=weights)
    assert score.value == pytest.approx(score.by_metric["confidence"])


class ByLength:
    """A scorer of one's own: longer is better."""

    name = "length"

    def score(self, samples: Sequence[Sample]) -> list[Score]:
        return [Score(value=float(len(sample.text))) for sample in samples]


def test_a_scorer_of_ones_own_scores_and_decides(model: NativeDenoiser) -> None:
    pairs: list[tuple[str, str | Sample]] = [("x", "ab"), ("x", "abcd")]
    assert [s.value for s in api.score_many(model, pairs, scorer=ByLength())] == [2, 4]
    assert [s.scorer for s in api.score_many(model, pairs, scorer=ByLength())] == ["length"] * 2
    assert api.score(model, "x", "abc", scorer=ByLength()).value == 3
    decision = api.solve(model, "x", scorer=ByLength(), sampler=WRITER, threshold=-1)
    assert (decision.action, decision.score.value) == ("accept", len(decision.sample.text))


def test_scorers_have_names_and_may_be_made_of_the_model(model: NativeDenoiser) -> None:
    """A random model is asked whether it is right; what it says is no number, and is said."""
    answer = api.sample(model, "x", settings=WRITER)
    assert (
        api.score(model, "x", answer, scorer="confidence") == ModelConfidence().score([answer])[0]
    )
    edited = EditorAgreement(denoiser=model).score([answer])[0]
    assert api.score(model, "x", answer, scorer="editor") == edited
    assert api.score(model, "x", answer, scorer="self_evaluation").forwards > 0
    passes = {"dise": 1, "perplexity": 16, "length": 0}
    scores = {name: api.score(model, "x", answer, scorer=name) for name in passes}
    assert {name: score.scorer for name, score in scores.items()} == {n: n for n in passes}
    assert {name: score.forwards for name, score in scores.items()} == passes
    seen: list[object] = []

    def make(*given: object) -> ByLength:
        seen.extend(given)
        return ByLength()

    assert api.score(model, "x", "abc", scorer=make).value == 3
    assert seen == [model, {api.item_of("x"): "x"}]


@pytest.mark.parametrize("kind", ["number", "text", "wordmath"])
def test_a_scorer_is_made_for_the_kind_of_the_answers_where_it_asks(
    model: NativeDenoiser, kind: str
) -> None:
    seen: list[object] = []

    def make(model: object, questions: object, kind: object) -> ByLength:
        seen.append(kind)
        return ByLength()

    assert api.score(model, "x", "abc", scorer=make, kind=kind).value == 3
    api.score_many(model, [("x", "abc")], scorer=make, kind=kind)
    api.solve(model, "x", scorer=make, kind=kind, sampler=WRITER, threshold=-1)
    assert seen == [kind] * 3


def test_the_probe_masks_what_decides_an_answer_of_its_kind(model: NativeDenoiser) -> None:
    """The 5 of a number, every token of a text; the end token's name is no part of either."""
    score = {k: api.score(model, "x", "so 5.", scorer="probe", kind=k) for k in ("number", "text")}
    assert [logp is not None for logp in score["number"].logp] == [c == "5" for c in "so 5.|"]
    assert None not in score["text"].logp
    assert len(score["text"].logp) == 6
    assert {s.scorer for s in score.values()} == {"probe"}
    assert score["number"] != score["text"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("confidenc", "Unknown scorer 'confidenc'. Did you mean 'confidence'?"),
        ("nope", f"Unknown scorer 'nope'. Known: {', '.join(api.SCORERS)}, or module:name."),
        (ByLength, "too many positional arguments."),
        (lambda model, questions: 3, "scorer 'int' has no name, score; see docs/extending.md."),
    ],
)
def test_what_is_no_scorer_is_refused(model: NativeDenoiser, given: Any, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        api.score(model, "x", "5", scorer=given)
    assert str(refused.value).endswith(sentence)


def test_a_task_of_ones_own_reads_answers_as_one_of_the_package_does(model: NativeDenoiser) -> None:
    own = TASKS["wordmath"]
    assert api.reader(own) == api.reader("wordmath")
    score = api.score(model, "x", "It is 5.", kind=own, settings=SHORT, metrics="core")
    assert score == api.score(
        model, "x", "It is 5.", kind="wordmath", settings=SHORT, metrics="core"
    )


def test_an_answer_at_hand_stands_on_the_canvas_of_the_fit(model: NativeDenoiser) -> None:
    """A longer canvas has another tail, and other probabilities."""

    class Long(api.Verifier):
        length = 64

    short = api.verifier(model)
    fields = {name: getattr(short, name) for name in ("denoiser", "extract", "critical")}
    usual, long = (
        api.score(model, "x", "1+1=2", scorer=scorer).value for scorer in (short, Long(**fields))
    )
    sample = api.sample_from_text(model, "x", "1+1=2", length=64)
    assert long == pytest.approx(api.score(model, "x", sample, scorer=short).value)
    assert long != usual


@pytest.mark.parametrize(
    ("name", "value"),
    [("metrics", "core"), ("weights", {"a": 1.0}), ("settings", ConsistencySettings(trips=2))],
)
def test_settings_of_round_trips_beside_another_scorer_are_refused(
    model: NativeDenoiser, name: str, value: Any
) -> None:
    given = {name: value}
    with pytest.raises(SettingsError, match=f"{name} belongs to the round trips"):
        api.score(model, "x", "1", scorer="probe", **given)
    with pytest.raises(SettingsError, match=f"{name} belongs to the round trips"):
        api.solve(model, "x", scorer="probe", threshold=0.5, **given)
