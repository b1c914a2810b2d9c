"""Wrong arguments of public functions are errors of remask; odd ones mean what they say."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import remask
from remask import api
from remask.analysis.correlation import spearman
from remask.analysis.fitting import fit
from remask.answers import extract_choice, extract_number, numbers
from remask.consistency.settings import ConsistencySettings
from remask.decide.threshold import accepts_all, best_f1, fewest_answers
from remask.decide.weights import combine
from remask.denoisers.base import Preset
from remask.denoisers.native import NativeDenoiser
from remask.errors import DenoiserError, ExtensionError, InputError, RemaskError, SettingsError
from remask.records.record import answers_in, read_records
from remask.report.studies import study
from remask.sampling.settings import SamplerSettings
from remask.settings import Setting, checked, shown, validate
from remask.tasks import TASKS
from remask.tasks.base import answer_key
from remask.testing import ScriptedDenoiser, check_denoiser, check_scorer, write_checkpoint
from remask.values import Sample, Score, mean, scores_of, weighted_mean
from remask.verifier.threshold import ScoreContext, find_threshold

WRITER = SamplerSettings(length=8, steps=8, block=8, temperature=0.7)
SAID = Sample(item="a", prompt=(), canvas=(5,), num_response=1, text="b")
SHORT = ConsistencySettings(trips=2, rebuild_steps=2)
Share = Annotated[float, Setting(least=0, most=1)]


@pytest.fixture(scope="module")
def model(llada: NativeDenoiser) -> NativeDenoiser:
    return replace(llada, preset=Preset(length=32, steps=32, block=32))


class Unreadable:
    """An object whose attributes raise, even `__class__`."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


class Unspeakable(str):
    def __str__(self) -> str:
        raise ValueError


class Named(Protocol):
    name: str

    def act(self) -> None: ...


@checked
def example(
    count: int,
    share: Share = 0.5,
    *words: str,
    text: str | Sequence[int] = "",
    pairs: Sequence[tuple[str, int]] = (),
    by_name: Mapping[str, float] | None = None,
    named: Named | None = None,
    work: Callable[[], None] | None = None,
    flag: bool = False,
    **more: int,
) -> dict[str, Any]:
    """Return the arguments."""
    return {key: value for key, value in locals().items() if key != "self"}


class TestChecked:
    @pytest.mark.parametrize(
        ("given", "name", "value"),
        [
            ({"count": np.int64(3)}, "count", 3),
            ({"count": np.uint8(3)}, "count", 3),
            ({"share": np.float32(0.25)}, "share", 0.25),
            ({"share": 1}, "share", 1),
            ({"flag": np.bool_(True)}, "flag", True),
            ({"text": (i for i in [1, 2])}, "text", [1, 2]),
            ({"text": np.array([1, 2])}, "text", [1, 2]),
            ({"text": torch.tensor([1, 2])}, "text", [1, 2]),
            ({"text": range(2)}, "text", [0, 1]),
            ({"pairs": zip("ab", [1, 2], strict=True)}, "pairs", [("a", 1), ("b", 2)]),
            ({"pairs": [["a", np.int64(1)]]}, "pairs", [("a", 1)]),
            ({"pairs": {"a": 1}.items()}, "pairs", [("a", 1)]),
            ({"by_name": {"a": np.float64(0.5)}}, "by_name", {"a": 0.5}),
            ({"by_name": None}, "by_name", None),
            ({"other": np.int64(2)}, "more", {"other": 2}),
        ],
    )  # fmt: skip
    def test_an_odd_value_becomes_the_plain_one(
        self, given: dict[str, Any], name: str, value: Any
    ) -> None:
        found = example(**{"count": 1, **given})[name]
        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"count": True}, "count must be an integer, got True"),
            ({"count": 1.0}, "count must be an integer, got 1.0"),
            ({"count": "1"}, "count must be an integer, got '1'"),
            ({"count": None}, "count must be an integer, got None"),
            ({"count": np.bool_(True)}, "count must be an integer, got"),
            ({"count": 10**310}, "count must be at most 9,223,372,036,854,775,807, got 1000"),
            ({"count": 10**5000}, "count must be at most 9,223,372,036,854,775,807, got <int>"),
            ({"share": math.nan}, "share must be a number at least 0 and at most 1, got nan"),
            ({"share": np.float32("nan")}, "share must be a number"),
            ({"share": 10**310}, "share must be at most 1, got 1000"),
            ({"share": 1.5}, "share must be at most 1, got 1.5"),
            ({"share": True}, "share must be a number"),
            ({"share": "0.5"}, "share must be a number"),
            ({"flag": 1}, "flag must be true or false, got 1"),
            ({"text": b"ab"}, "text must be a string or a list, got b'ab'"),
            ({"text": [1, "x"]}, "text[1] must be an integer, got 'x'"),
            ({"text": [1, True]}, "text[1] must be an integer, got True"),
            ({"text": [2**70]}, "text[0] must be at most"),
            ({"text": {1, 2}}, "text must be a string or a list"),
            ({"text": {1: 2}}, "text must be a string or a list"),
            ({"text": torch.tensor(3)}, "text must be a string or a list"),
            ({"text": iter([1, 2.5])}, "text[1] must be an integer, got 2.5"),
            ({"pairs": "ab"}, "pairs must be a list, got 'ab'"),
            ({"pairs": ["ab"]}, "pairs[0] must be a tuple of 2, got 'ab'"),
            ({"pairs": [("a", 1), ("b",)]}, "pairs[1] must be a tuple of 2, got ('b',)"),
            ({"pairs": [("a", "b")]}, "pairs[0][1] must be an integer, got 'b'"),
            ({"by_name": {"a": 1}, "named": object()}, "named must be a Named with act, name"),
            ({"named": Score}, "named must be a Named"),
            ({"by_name": {1: 2.0}}, "by_name[1] must be a string, got 1"),
            ({"by_name": [1]}, "by_name must be a mapping, got [1]"),
            ({"work": 3}, "work must be a function, got 3"),
            ({"other": 1.5}, "other must be an integer, got 1.5"),
        ],
    )  # fmt: skip
    def test_a_wrong_value_is_named_with_its_place(self, given: dict[str, Any], words: str) -> None:
        with pytest.raises(RemaskError) as refused:
            example(**{"count": 1, **given})
        assert words in str(refused.value)

    def test_missing_and_unknown_arguments_are_input_errors(self) -> None:
        with pytest.raises(InputError, match="example: missing a required argument: 'count'"):
            example()  # type: ignore[call-arg]
        with pytest.raises(InputError, match="0 must be a string"):
            example(1, 0.5, 3)  # type: ignore[arg-type]

    def test_the_signature_and_the_docstring_stay(self) -> None:
        import inspect

        assert [*inspect.signature(example).parameters][:2] == ["count", "share"]
        assert example.__doc__ == "Return the arguments."

    def test_a_class_is_validated_when_it_is_made_and_when_it_is_replaced(self) -> None:
        @checked
        @dataclass(frozen=True)
        class Settings:
            count: int = 1

        made = Settings(np.int64(2))  # type: ignore[arg-type]
        assert (made.count, type(made.count)) == (2, int)
        with pytest.raises(SettingsError, match=r"count must be an integer, got 1\.5"):
            replace(made, count=1.5)  # type: ignore[arg-type]

    def test_a_text_stands_for_a_number_in_a_file_alone(self) -> None:
        @dataclass(frozen=True)
        class Settings:
            share: Share = 0.5

        assert validate(Settings, {"share": "1e-6"}).share == 1e-6
        with pytest.raises(SettingsError, match="share must be"):
            validate(Settings, {"share": "nan"})

    def test_any_object_can_be_shown(self) -> None:
        class Prickly:
            def __repr__(self) -> str:
                raise ValueError

        assert shown(Prickly()).startswith("<Prickly")
        assert len(shown("x" * 10_000)) < 100
        assert len(shown([["x"] * 1000] * 1000)) < 100


class TestPublicFunctions:
    """The known cases; `benchmarks/fault_arguments.py` draws others."""

    def test_a_numpy_seed_and_budget_are_those_numbers(self, model: NativeDenoiser) -> None:
        def solved(seed: Any, budget: Any) -> remask.Decision:
            return api.solve(
                model, "x", sampler=WRITER, settings=SHORT, metrics="core", threshold=0.9,
                seed=seed, budget=budget,
            )  # fmt: skip

        assert solved(np.int64(1), np.int64(2)) == solved(1, 2)
        assert api.sample(model, "x", settings=WRITER, seed=np.int32(3)) == api.sample(
            model, "x", settings=WRITER, seed=3
        )

    def test_lazy_lists_are_read_whole_and_once(self, model: NativeDenoiser) -> None:
        prompts, answers = ["a", "b"], ["It is 1.", "It is 2."]
        pairs = zip(iter(prompts), iter(answers), strict=True)
        assert api.score_many(model, pairs, scorer="length") == api.score_many(  # type: ignore[arg-type]
            model, [*zip(prompts, answers, strict=True)], scorer="length"
        )
        found = api.solve_many(
            model, (p for p in prompts), scorer="length", sampler=WRITER, threshold=-99, budget=1  # type: ignore[arg-type]
        )  # fmt: skip
        assert [one.item for one in found] == [api.item_of(p) for p in prompts]
        assert len(api.sample_many(model, iter(prompts), settings=WRITER)) == 2  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "call",
        [
            lambda m: api.solve_many(m, "2+2?"),
            lambda m: api.score_many(m, ["ab"]),
            lambda m: api.score_many(m, [("a", "b", "c")]),
            lambda m: api.score(m, "x", None),
            lambda m: api.score(m, "x", "5", metrics=[]),
            lambda m: api.score(m, "x", "5", settings={"a": 1}),
            lambda m: api.score(m, "x", "5", seed=None),
            lambda m: api.score(m, "x", "5", seed=1.0),
            lambda m: api.score("tiny", "x", "5"),
            lambda m: api.sample(m, b"ab"),
            lambda m: api.sample(m, [10**9]),
            lambda m: api.sample(m, [-1]),
            lambda m: api.sample(m, [m.tokenizer.mask_id]),
            lambda m: api.sample_many(m, ["a", "b"], items=["a"]),
            lambda m: api.solve(m, "x", threshold=math.nan),
            lambda m: api.solve(m, "x", budget=10**310),
            lambda m: api.solve(m, "x", watch=lambda: None, sampler=WRITER, threshold=1),
            lambda m: ConsistencySettings(mask_ratio=None),  # type: ignore[arg-type]
            lambda m: ConsistencySettings(mask_ratio=math.nan),
            lambda m: remask.log_likelihood(m, [], draws=0),
            lambda m: remask.auroc([1, 2], [True]),
            lambda m: remask.auroc(["a"], [True]),
            lambda m: remask.auroc([math.nan], [True]),
            lambda m: remask.auroc([0.5], ["yes"]),
            lambda m: remask.sampler_settings(m, length=0),
            lambda m: remask.best_of(lambda i, n: [], api.find_scorer("length", m, []), ["a"], 1),
            lambda m: remask.majority_vote(lambda items, number: 3, str, ["a"], 1),
            lambda m: Sample(item="a", prompt=(1,), canvas=(1,), num_response=2, text=""),
            lambda m: Sample(item="a", prompt=(1,), canvas=(1.0,), num_response=1, text=""),  # type: ignore[arg-type]
            lambda m: Score(value=math.nan),
            lambda m: Score(value=0.5).exceeds("0.5"),  # type: ignore[arg-type]
            lambda m: TASKS["wordmath"].judge("x", "y"),  # type: ignore[arg-type]
            lambda m: TASKS["wordmath"].problem(1.5),  # type: ignore[arg-type]
            lambda m: extract_number(None),  # type: ignore[arg-type]
            lambda m: numbers(b"3"),  # type: ignore[arg-type]
            lambda m: remask.SelfConsistency(pools={"a": [SAID]}, key=lambda s: []).score([SAID]),  # type: ignore[arg-type,return-value]
            lambda m: extract_choice("(B)", ""),
            lambda m: remask.load(3),  # type: ignore[arg-type]
            lambda m: remask.load("\ud800"),
            lambda m: scores_of("length", []),  # type: ignore[arg-type]
            lambda m: api.score(m, "x", "5", seed=Unreadable()),  # type: ignore[arg-type]
            lambda m: api.reader(Unspeakable("no such kind")),
            lambda m: api.Verifier(denoiser=m, extract=str, critical=str, budget="x"),  # type: ignore[arg-type]
            lambda m: api.ScoreThreshold(value="0.5"),  # type: ignore[arg-type]
            lambda m: api.ScoreThreshold(value=0.5).verdict(0.5),  # type: ignore[arg-type]
            lambda m: find_threshold(ScoreContext(kind="number"), {}, given=math.nan),
            lambda m: best_f1([0.5], ["yes"]),
            lambda m: best_f1("abc", [True]),  # type: ignore[arg-type]
            lambda m: best_f1([0.5, [1]], [True, False]),  # type: ignore[list-item]
            lambda m: accepts_all([0.5], None),  # type: ignore[arg-type]
            lambda m: combine({"a": [0.5]}, {"a": math.nan}),
            lambda m: fewest_answers(0.1, 1.5),
            lambda m: spearman([1, 2], [1]),
            lambda m: answer_key(None, None, None),  # type: ignore[arg-type]
            lambda m: TASKS["pycode"].key(None, "x"),  # type: ignore[attr-defined]
            lambda m: read_records(None),  # type: ignore[arg-type]
            lambda m: read_records(Path("nowhere.jsonl")),
            lambda m: read_records(Path("a" * 300)),
            lambda m: answers_in([1]),  # type: ignore[list-item]
            lambda m: fit("nowhere.jsonl", columns="x"),  # type: ignore[arg-type]
            lambda m: study("cost", "nowhere"),  # type: ignore[arg-type]
            lambda m: study(object(), [Path("x")]),  # type: ignore[arg-type]
            lambda m: check_denoiser("tiny"),  # type: ignore[arg-type]
            lambda m: check_scorer("length", []),  # type: ignore[arg-type]
            lambda m: ScriptedDenoiser(script=3),  # type: ignore[arg-type]
            lambda m: ScriptedDenoiser.from_table(torch.zeros(3)),
            lambda m: ScriptedDenoiser.reciting([999]),
            lambda m: write_checkpoint(Path("x"), length=1.5),  # type: ignore[arg-type]
        ],
    )  # fmt: skip
    def test_a_wrong_argument_is_an_error_of_remask(
        self, model: NativeDenoiser, call: Callable[[Any], Any]
    ) -> None:
        with pytest.raises(RemaskError):
            call(model)

    def test_a_prompt_of_ids_may_be_an_array(self, model: NativeDenoiser) -> None:
        ids = model.tokenizer.encode("ab")
        assert api.sample(model, np.array(ids), settings=WRITER) == api.sample(  # type: ignore[arg-type]
            model, ids, settings=WRITER
        )


class Shouting:
    name = "shouting"

    def __init__(self, returns: Callable[[Sequence[Sample]], Any]) -> None:
        self.returns = returns

    def score(self, samples: Sequence[Sample]) -> Any:
        return self.returns(samples)


def broken(*_: Any, **__: Any) -> Any:
    return len(3)  # type: ignore[arg-type]


class TestUsersCode:
    """An exception in it is shown with its type, its message and the line."""

    @pytest.mark.parametrize(
        "extension",
        [
            {"scorer": Shouting(broken)},
            {"scorer": broken},
            {"metrics": [remask.Metric(name="mine", compute=broken)], "settings": SHORT},
        ],
    )
    def test_an_exception_is_shown_with_its_cause(
        self, model: NativeDenoiser, extension: dict[str, Any]
    ) -> None:
        cause = r"TypeError: .*len.*test_arguments\.py, line"
        with pytest.raises(ExtensionError, match=cause) as caught:
            api.score(model, "x", "It is 5.", **extension)
        assert isinstance(caught.value.__cause__, TypeError)

    @pytest.mark.parametrize(
        ("returns", "words"),
        [
            (lambda samples: None, "must return a list of Scores, got None"),
            (lambda samples: [0.5], r"must return a list of Scores, got \[0.5\]"),
            (lambda samples: [], r"one Score per sample \(1\), got 0"),
            (lambda samples: [Score(value=1.0)] * 2, r"one Score per sample \(1\), got 2"),
        ],
    )
    def test_a_scorer_must_return_scores(
        self, model: NativeDenoiser, returns: Callable[[Any], Any], words: str
    ) -> None:
        with pytest.raises(ExtensionError, match=words):
            api.score(model, "x", "It is 5.", scorer=Shouting(returns))

    def test_a_task_of_ones_own_fails_with_its_cause(self, model: NativeDenoiser) -> None:
        class Mine(type(TASKS["wordmath"])):  # type: ignore[misc]
            name = "mine"

            def judge(self, problem: Any, text: str) -> Any:
                return broken()

        problem = TASKS["wordmath"].problem(0)
        with pytest.raises(ExtensionError, match=r"task 'mine' failed with TypeError"):
            Mine().grade(problem, "x")


class Misshapen(ScriptedDenoiser):
    """Its name says what is wrong."""

    def head(self, rows: torch.Tensor) -> torch.Tensor:
        logits = super().head(rows)
        changes: dict[str, Callable[[], Any]] = {
            "narrow": lambda: logits[:, :-1],
            "short": lambda: logits[:-1],
            "double": logits.double,
            "numpy": logits.numpy,
            "nan": lambda: logits * math.nan,
            "infinite": lambda: logits.index_fill(1, torch.tensor(7), math.inf),
        }
        return changes.get(self.name, lambda: logits)()  # type: ignore[no-any-return]

    def hidden(self, canvas: Any, cache: Any = None) -> torch.Tensor:
        states = super().hidden(canvas, cache)
        return states[:, :-1] if self.name == "cut" else states


@pytest.fixture(params=["sample", "roundtrips", "probe", "perplexity", "editor", "dise"])
def reading(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Every way to read logits."""
    if request.param == "sample":
        return lambda model: api.sample(model, "x", settings=WRITER)
    metrics = {"metrics": "core", "settings": SHORT} if request.param == "roundtrips" else {}
    return lambda model: api.score(model, "x", "5", scorer=request.param, **metrics)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("narrow", r"must return shape \(\d+, 262\), got \(\d+, 261\)"),
        ("short", r"must return shape \(\d+, 262\), got \(\d+, 262\)"),
        ("double", r"must return torch.float32, got torch.float64"),
        ("numpy", r"must return torch.float32, got ndarray"),
        ("nan", r"must be finite, got NaN"),
        ("infinite", r"must be finite, got infinite"),
        ("cut", r"hidden of cut must return shape \(\d+, \d+\) and a width, got \(\d+, \d+, 262\)"),
    ],
)
def test_what_is_wrong_with_logits_is_said_with_both_numbers(
    reading: Callable[[Any], Any], name: str, words: str
) -> None:
    def script(tokens: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*tokens.shape, 262)

    with pytest.raises(DenoiserError, match=words):
        reading(Misshapen(script=script, name=name))


EMPTY = ["", " \n\t", "\u200b\u00ad", "\x00", "\u3164\u2800", "\u0301\ufe0f"]


@pytest.mark.parametrize("text", EMPTY)
@pytest.mark.parametrize("scorer", [*api.SCORERS, Shouting(lambda samples: [Score(value=1.0)])])
def test_an_answer_without_content_has_no_score(
    model: NativeDenoiser, scorer: Any, text: str
) -> None:
    empty = replace(api.sample_from_text(model, "x", "a"), text=text)
    metrics: dict[str, Any] = {"metrics": "core"} if scorer == "roundtrips" else {}
    score = api.score(model, "x", empty, scorer=scorer, **metrics)
    assert (score.value, score.reason, score.forwards) == (None, "the answer is empty", 0)


@pytest.mark.parametrize("kind", ["number", "choice", "code", "text"])
def test_an_empty_answer_is_never_accepted(model: NativeDenoiser, kind: str) -> None:
    ends = ScriptedDenoiser(
        script=lambda tokens: 9.0 * torch.eye(262)[0].expand(*tokens.shape, 262),
        preset=model.preset,
    )
    decision = api.solve(ends, "x", sampler=WRITER, settings=SHORT, metrics="core", kind=kind,
                         threshold=-1.0, budget=2)  # fmt: skip
    assert decision.sample.text == ""
    assert (decision.action, decision.score.value) == ("fallback", None)
    assert "no answer has a score" in decision.reason


def test_an_answer_with_a_score_is_better_than_one_without() -> None:
    """Below every score, even a negative one: in best-of, in the AUROC and in the vote."""
    samples = [
        Sample(item="a", number=n, prompt=(), canvas=(5,), num_response=1, text=text)
        for n, text in enumerate(["", "b", ""])
    ]
    scorer = Shouting(lambda given: [Score(value=-5.0) for _ in given])
    best = remask.best_of(lambda items, n: [samples[n]], scorer, ["a"], 3)[0]
    assert (best.sample.number, best.score.value) == (1, -5.0)
    vote = remask.majority_vote(lambda items, n: [samples[n]], lambda s: s.text, ["a"], 3)[0]
    assert vote.sample.number == 1
    assert remask.auroc([None, -5.0], [False, True]) == 1.0
    assert remask.auroc([None, -5.0], [True, False]) == 0.0
    assert [s.value for s in scores_of(scorer, samples)] == [None, -5.0, None]


FINITE = st.floats(-1e6, 1e6)


@given(value=FINITE, weights=st.lists(st.floats(1e-6, 10), min_size=1, max_size=8))
def test_a_mean_of_equal_values_is_that_value(value: float, weights: list[float]) -> None:
    assert weighted_mean([value] * len(weights), weights) == value
    assert mean([value] * len(weights)) == value


@given(st.lists(FINITE, min_size=1, max_size=8), st.data())
def test_a_mean_lies_between_its_parts(values: list[float], data: st.DataObject) -> None:
    positive = st.floats(1e-6, 10)
    weights = data.draw(st.lists(positive, min_size=len(values), max_size=len(values)))
    assert min(values) <= weighted_mean(values, weights) <= max(values)


def test_three_of_four_equal_weights_are_exactly_three_quarters() -> None:
    """Summed as floats it is 0.7500000000000001, which is above a threshold of 0.75."""
    from remask.consistency.metrics import composite

    names = ["token_accuracy", "number_retention", "answer_match", "character_similarity", "conf"]
    weights = dict.fromkeys(names, 1 / 5)
    values = {**dict.fromkeys(names, 1.0), "answer_match": 0.0}
    del values["number_retention"]
    assert composite(values, weights) == 0.75


def test_a_denoiser_with_missing_methods_is_refused() -> None:
    class Half:
        name = "half"

    with pytest.raises(InputError, match="model must be a Denoiser with tokenizer, preset, device"):
        api.sample(Half(), "x")  # type: ignore[arg-type]
