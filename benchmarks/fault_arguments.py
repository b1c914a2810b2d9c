"""Wrong and odd arguments for public functions: each call must raise a RemaskError or be right.

    python benchmarks/fault_arguments.py --n 1000 --seed 0

A call replaces one or two arguments of a call that works, drops one, or adds one. What each
parameter takes is written down here, not read from the hints: if an argument has a canonical form
(an int for a numpy integer, a list for a generator), the result must equal that of the canonical
call; if it has none, the call must raise a RemaskError. Everything else is a failure. The model is
a scripted one, so that a call takes milliseconds.
"""

import argparse
import math
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch

import remask
from remask import answers, api
from remask.baselines.likelihood import Perplexity
from remask.decide.calibration import fit_calibrator
from remask.decide.provenance import Provenance
from remask.decide.threshold import accepts_all, best_f1, certify
from remask.decide.weights import combine
from remask.errors import RemaskError
from remask.probes.settings import Probe
from remask.records.record import read_records
from remask.tasks import TASKS, steps_ok
from remask.tasks.base import answer_key
from remask.testing import ScriptedDenoiser
from remask.values import RoundTrips, Trace
from remask.verifier.threshold import ScoreContext, find_threshold


class Wrong(Exception):
    """An argument has no canonical form."""


Canonical = Callable[[Any], Any]  # an argument -> the plain form of it; raises Wrong


def number(
    kind: type, low: float = -math.inf, high: float = math.inf, *, open_: bool = False
) -> Canonical:
    """Return what an integer or a finite number is; `open_` excludes the lower bound."""

    def canonical(value: Any) -> Any:
        types = (
            (int, np.integer) if kind is int else (int, float, np.integer, np.floating, Fraction)
        )
        if isinstance(value, bool | np.bool_) or not isinstance(value, types):
            raise Wrong
        try:
            plain = int(value) if kind is int else float(value)
        except (ValueError, OverflowError):
            raise Wrong from None
        if not math.isfinite(plain) if kind is float else not -(2**63) <= plain < 2**63:
            raise Wrong
        if not low <= plain <= high or (open_ and plain == low):
            raise Wrong
        return plain

    return canonical


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise Wrong
    return bool(value)


def either(*kinds: Canonical) -> Canonical:
    def canonical(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind(value)
            except Wrong:
                continue
        raise Wrong

    return canonical


def maybe(kind: Canonical) -> Canonical:
    return lambda value: None if value is None else kind(value)


def word(*words: str) -> Canonical:
    return lambda value: value if isinstance(value, str) and value in words else _wrong()


def _wrong(*_: Any) -> Any:
    raise Wrong


def items(kind: Canonical) -> Canonical:
    """Return what a list is: any iterable but strings, bytes, mappings and sets."""

    def canonical(value: Any) -> list[Any]:
        no_list = str | bytes | bytearray | memoryview | Mapping | set | frozenset | type
        if isinstance(value, no_list):
            raise Wrong
        try:
            plain = value.tolist() if isinstance(value, np.ndarray | torch.Tensor) else list(value)
        except Exception:
            raise Wrong from None
        if not isinstance(plain, list):
            raise Wrong
        return [kind(one) for one in plain]

    return canonical


def pair(*kinds: Canonical) -> Canonical:
    def canonical(value: Any) -> tuple[Any, ...]:
        plain = items(lambda one: one)(value)
        if len(plain) != len(kinds):
            raise Wrong
        return tuple(kind(one) for kind, one in zip(kinds, plain, strict=True))

    return canonical


def mapping(key: Canonical, of: Canonical) -> Canonical:
    def canonical(value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise Wrong
        return {key(k): of(v) for k, v in value.items()}

    return canonical


def instance(kind: type) -> Canonical:
    return lambda value: value if isinstance(value, kind) else _wrong()


def function(value: Any) -> Any:
    return value if callable(value) else _wrong()


def anything(value: Any) -> Any:
    return value


class Lengths:
    """A scorer of one's own."""

    name = "lengths"

    def score(self, samples: Sequence[remask.Sample]) -> list[remask.Score]:
        return [remask.Score(value=1.0 / len(s.text)) for s in samples]


class Faulty:
    """A scorer whose `score` returns or raises something."""

    name = "faulty"

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def score(self, samples: Sequence[remask.Sample]) -> Any:
        return self.returned(samples)


class Prickly:
    """An object that raises wherever it is touched."""

    def __repr__(self) -> str:
        raise ZeroDivisionError("repr")

    def __len__(self) -> int:
        raise KeyError("len")

    def __iter__(self) -> Iterator[Any]:
        raise IndexError("iter")

    def __eq__(self, other: object) -> bool:
        raise AttributeError("eq")

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Odd(ScriptedDenoiser):
    """A denoiser whose output is wrong in one way."""

    def head(self, rows: torch.Tensor) -> torch.Tensor:
        logits = super().head(rows)
        return {
            "narrow": lambda: logits[:, :-1], "short": lambda: logits[:-1],
            "double": logits.double, "nan": lambda: logits * math.nan,
            "infinite": lambda: logits.fill_(math.inf), "none": lambda: logits.fill_(-math.inf),
            "list": logits.tolist, "nothing": lambda: None,
        }.get(self.name, lambda: logits)()  # fmt: skip

    def hidden(self, canvas: Any, cache: Any = None) -> torch.Tensor:
        states = super().hidden(canvas, cache)
        return {
            "cut": lambda: states[:, :-1], "rows": lambda: states[:1, :3], "flat": states.flatten,
            "absent": lambda: None,
        }.get(self.name, lambda: states)()  # fmt: skip


torch.manual_seed(0)
_TABLE = torch.randn(512, 262)
_TABLE[:, [1, 2, 3, 4]] = -20.0
_SCRIPT = lambda tokens: _TABLE[: tokens.shape[1]].expand(len(tokens), -1, -1)  # noqa: E731
MODEL = ScriptedDenoiser(script=_SCRIPT, max_length=512)
SAMPLER = remask.SamplerSettings(length=8, steps=4, block=8, temperature=0.7)
TRIPS = remask.ConsistencySettings(trips=2, rebuild_steps=2)
SAMPLE = api.sample_from_text(MODEL, "2+2?", "It is 4.")
DRAWN = api.sample_many(MODEL, ["2+2?", "3+3?"], settings=SAMPLER, trace=True)
PROBLEM = TASKS["wordmath"].problem(0)


def draw(items: Sequence[str], number: int) -> list[remask.Sample]:
    return [replace(SAMPLE, item=item, number=number) for item in items]


def _metric(trips: Any, context: Any) -> list[float]:
    return [1.0] * len(trips.texts)


METRIC = remask.Metric(name="one", compute=_metric)
CORE = api.consistency(MODEL, settings=TRIPS, metrics="core")
EMPTY = replace(SAMPLE, text="")


def _raises(*given: Any, **named: Any) -> Any:
    return {}["missing"]


ODD: list[Callable[[], Any]] = [
    *(lambda v=v: v for v in (
        None, True, False, np.bool_(True), 0, 1, 2, 3, -1, 2**31, 2**63, 2**64, 10**310, 10**5000,
        np.int64(1), np.uint8(3), np.int32(2), np.int64(-5), 0.5, 0.0, 1.0, -0.1, 1.5, math.nan,
        math.inf, -math.inf, np.float32(0.5), np.float64("nan"), np.float16(0.25), 1e300,
        Decimal("0.5"), Fraction(1, 2), 1j, "", "x", "1", "0.5", "nan", " \n", "\ud800", "a\0b",
        "<|mdm_mask|>", "number", "core", "paper", "probe", "length", "perplexity", "no:such",
        "math:pi", ":", "uniform", "tiny", b"", b"ab", bytearray(b"ab"), memoryview(b"ab"), (), [],
        {}, set(), frozenset({"a"}), [None], ["x", 3], ["x", "y"], [[]], {"a": 1}, {1: 2},
        {"a": "b"}, [("p", "a")], [("p",)], [("p", "a", "b")], ["pa"], [["2+2?", "4"]], [3, 4],
        [3.0], [True], [2**70], [-1], [10**6], [1], ("a", "b"), [0.5, None], [math.nan], [0.1, 0.9],
        [True, False], range(3), slice(3), ..., NotImplemented, object(), int, Lengths, Lengths(),
        remask.RemaskError("x"), math, len, print, _raises, MODEL, SAMPLE, EMPTY, DRAWN, [SAMPLE],
        [SAMPLE, 3], DRAWN[0], [("2+2?", SAMPLE)], [("2+2?", EMPTY)], remask.Score(value=0.5), CORE,
        METRIC, [METRIC], ["answer_match"], ["answer_match", "answer_match"], TASKS["choice"],
        PROBLEM, TRIPS, SAMPLER, {"confidence": 1.0}, {"confidence": math.nan}, Prickly(),
        [Prickly()], np.array([1, 2]), np.array([1.5]), np.array("x"), np.array(3), np.array(None),
        np.zeros((2, 2), int), np.array([True, False]), np.array(["a", "b"]), torch.tensor([1, 2]),
        torch.tensor(3), torch.tensor([[1.5]]), torch.tensor(math.nan),
        Faulty(lambda s: None), Faulty(lambda s: [0.5] * len(s)), Faulty(lambda s: []),
        Faulty(_raises), Faulty(lambda s: [remask.Score(value=math.nan)] * len(s)),
        Faulty(lambda: None), lambda: None, lambda *a, **k: None, lambda *a, **k: 3,
        lambda *a, **k: "", lambda *a, **k: [], lambda *a, **k: 1 / 0, lambda a, b: [SAMPLE],
        remask.Metric(name="bad", compute=lambda t, c: [1.0]),
        [remask.Metric(name="bad", compute=_raises)],
        [remask.Metric(name="bad", compute=lambda t, c: 3)],
        [remask.Metric(name="bad", compute=lambda t, c: [math.nan] * len(t.texts))],
        *(Odd(script=_SCRIPT, max_length=512, name=name) for name in (
            "narrow", "short", "double", "nan", "infinite", "none", "list", "nothing", "cut",
            "rows", "flat", "absent",
        )),
    )),
    lambda: iter(["x", "y"]), lambda: (p for p in ["2+2?", "3+3?"]), lambda: iter([]),
    lambda: zip(["2+2?"], ["It is 4."], strict=True), lambda: map(str, [1, 2]),
    lambda: (i for i in [40, 41]), lambda: {"a": 1}.keys(), lambda: iter([0.2, 0.7]),
    lambda: iter([True, False]), lambda: enumerate("ab"), lambda: iter([SAMPLE]),
]  # fmt: skip


@dataclass
class Target:
    """A public function, a call that works, and what each parameter takes."""

    name: str
    call: Callable[..., Any]
    works: dict[str, Any]
    takes: dict[str, Canonical]
    positional: int  # how many parameters are passed by position

    def run(self, arguments: Mapping[str, Any]) -> Any:
        names = [name for name in [*self.works][: self.positional] if name in arguments]
        named = {name: value for name, value in arguments.items() if name not in names}
        return self.call(*(arguments[name] for name in names), **named)


def target(
    name: str, call: Callable[..., Any], positional: int = 0, /, **parameters: tuple[Any, Canonical]
) -> Target:
    """Return a target of the value that works and the values that are taken, by parameter."""
    works = {name: value for name, (value, _) in parameters.items()}
    return Target(name, call, works, {n: kind for n, (_, kind) in parameters.items()}, positional)


INT, SEED, POSITIVE = number(int, 0), number(int), number(int, 1)
FLOAT, HEAT, STEPS = number(float), number(float, 0, 100), number(int, 1, 2**16)
LENGTH, COUNT = number(int, 1, 2**20), number(int, 1, 1000)
PROMPT = either(text, items(SEED))
model = either(instance(ScriptedDenoiser))


def _has(*names: str) -> Canonical:
    def canonical(value: Any) -> Any:
        try:
            return value if all(hasattr(value, name) for name in names) else _wrong()
        except RuntimeError:
            raise Wrong from None

    return canonical


task = either(text, _has("judge", "levels", "extract"))
metric = either(text, instance(remask.Metric))
metrics = either(
    word("paper", "core"), lambda v: items(metric)(v) if isinstance(v, list | tuple) else _wrong()
)
scores = _has("name", "score")
scorer = either(text, scores, function)
settings = maybe(instance(remask.ConsistencySettings))
sampler = maybe(instance(remask.SamplerSettings))
sample, samples = instance(remask.Sample), items(instance(remask.Sample))
score = instance(remask.Score)
problem = instance(type(PROBLEM))
WEIGHTS = maybe(mapping(text, FLOAT))
QUESTIONS = mapping(text, text)
TURNS = items(pair(text, text))
VALUE = maybe(either(FLOAT, boolean, lambda v: float(v) if isinstance(v, float) else _wrong()))
COLUMN = either(items(VALUE), items(items(VALUE)))  # None and NaN are no score
RANKED = items(maybe(either(boolean, FLOAT, lambda v: v if str(v)[-3:] == "inf" else _wrong())))
LABELS = items(either(boolean, number(float, 0, 1)))
REDRAWN = maybe(number(float, 0, 1, open_=True))
ROUND: dict[str, tuple[Any, Canonical]] = {
    "kind": ("number", task), "settings": (TRIPS, settings), "metrics": ("core", metrics),
    "weights": (None, WEIGHTS), "seed": (0, SEED),
}  # fmt: skip
BY = {**ROUND, "scorer": (None, maybe(scorer))}
ONE = {"model": (MODEL, model), "prompt": ("2+2?", PROMPT)}
SOLVED = {
    "sampler": (SAMPLER, sampler), "threshold": (0.5, maybe(FLOAT)), "budget": (2, COUNT),
    "examples": ((), TURNS), "watch": (lambda sample, score: None, function),
}  # fmt: skip
DRAW = {"draw": (draw, function), "scorer": (Lengths(), scores), "items": (["a", "b"], items(text))}
LABELLED = {"scores": ([0.1, 0.9, 0.4], COLUMN), "right": ([False, True, True], LABELS)}
PROVED = Provenance(
    metric_set="core", metrics=("a",), task="wordmath", model="m", split="test", seed=0,
    version="1", date="2026-01-01",
)  # fmt: skip
FITTED = {**LABELLED, "provenance": (PROVED, instance(Provenance))}
TEXT = {"text": ("It is 4.", text)}
GRADED = {"problem": (PROBLEM, problem), **TEXT}
SCORE = remask.Score(value=0.5, stderr=0.1)
TASK = TASKS["wordmath"]


def scored(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maker of scorers as a function that returns the scores of two answers."""

    def call(*given: Any, **named: Any) -> Any:
        made = make(*given, **named)
        return [made.name, api.scores_of(made, [SAMPLE, EMPTY])]

    return call


# fmt: off
TARGETS: list[Target] = [
    target("sample", api.sample, 2, **ONE, settings=(SAMPLER, sampler), number=(0, INT),
           seed=(0, SEED), trace=(False, boolean)),
    target("sample_many", api.sample_many, 2, model=(MODEL, model),
           prompts=(["2+2?", "3?"], items(PROMPT)), settings=(SAMPLER, sampler),
           items=(None, maybe(items(text))), number=(0, INT), seed=(0, SEED),
           trace=(False, boolean)),
    target("sample_from_text", api.sample_from_text, 3, **ONE, answer=("It is 4.", text),
           item=(None, maybe(text)), length=(None, maybe(LENGTH)), examples=((), TURNS),
           system=("", text)),
    target("score", api.score, 3, **ONE, answer=("It is 4.", either(text, sample)), **BY),
    target("score_many", api.score_many, 2, model=(MODEL, model),
           pairs=([("2+2?", "It is 4.")], items(pair(PROMPT, either(text, sample)))),
           scorer=("probe", maybe(scorer)), kind=("number", task), seed=(0, SEED)),
    target("solve", api.solve, 2, model=(MODEL, model), prompt=("2+2?", text), **BY, **SOLVED),
    target("solve_many", api.solve_many, 2, model=(MODEL, model), prompts=(["2+2?"], items(text)),
           kind=("number", task), seed=(0, SEED),
           **{**SOLVED, "scorer": ("length", maybe(scorer))}),
    target("log_likelihood", remask.log_likelihood, 2, model=(MODEL, model),
           samples=([SAMPLE], samples), draws=(2, number(int, 1, 100_000)), seed=(0, SEED),
           greedy=(False, boolean)),
    target("auroc", remask.auroc, 2, scores=([0.1, 0.9, None], RANKED),
           right=([False, True, False], LABELS)),
    target("sampler_settings", remask.sampler_settings, 1, model=(MODEL, _has("preset")),
           kind=("", text), canvas=(None, maybe(LENGTH)), length=(16, maybe(LENGTH)),
           steps=(None, maybe(STEPS)), block=(None, maybe(LENGTH)),
           temperature=(None, maybe(HEAT)), reveal_threshold=(None, REDRAWN),
           commit_gap=(None, maybe(number(float, 0, open_=True))),
           edit_threshold=(None, maybe(number(float, 0, 1))),
           order=(None, maybe(word("low_confidence", "random", "origin", "maskgit_plus",
                                   "topk_margin", "entropy")))),
    target("reject", remask.reject, 3, **DRAW, threshold=(0.5, FLOAT), budget=(2, COUNT),
           watch=(lambda sample, score: None, function)),
    target("best_of", remask.best_of, 4, **DRAW, n=(2, COUNT)),
    target("majority_vote", remask.majority_vote, 4, draw=(draw, function),
           key=(lambda sample: sample.text, function), items=(["a"], items(text)), n=(2, COUNT)),
    target("task", remask.task, 1, given=("wordmath", task), path=(None, maybe(text)),
           allow_execution=(False, boolean), wording=("llada", text),
           shots=(0, number(int, 0, 100))),
    target("load", remask.load, 1, model=("no/where", text), device=("cpu", text),
           dtype=("auto", text), compiled=(False, boolean), preset=("", text),
           split=("replicas", text), weights=("full", text)),
    target("reader", api.reader, 1, kind=("number", task)),
    target("item_of", api.item_of, 1, prompt=("x", PROMPT)),
    target("scorer_version", api.scorer_version, 1, name=("probe", text)),
    target("consistency", scored(api.consistency), 1, model=(MODEL, model), **ROUND),
    target("verifier", scored(api.verifier), 2, model=(MODEL, model), questions=({}, QUESTIONS),
           kind=("number", task), fitted=(None, maybe(_wrong)), budget=(None, maybe(SEED)),
           seed=(0, SEED)),
    target("find_scorer", scored(api.find_scorer), 3, given=("perplexity", scorer),
           model=(MODEL, model), prompts=(["2+2?"], either(QUESTIONS, items(text))),
           kind=("number", task), seed=(0, SEED)),
    target("scores_of", api.scores_of, 2, scorer=(Lengths(), scores), samples=([SAMPLE], samples)),
    target("ScoreThreshold", api.ScoreThreshold, value=(0.5, maybe(FLOAT)),
           source=("given", maybe(text)), reason=("", text)),
    target("ScoreThreshold.verdict", api.ScoreThreshold(value=0.5).verdict, 1,
           score=(SCORE, score)),
    target("find_threshold", find_threshold, 2,
           context=(ScoreContext(kind="number"), instance(ScoreContext)),
           thresholds=({}, mapping(text, FLOAT)), given=(None, maybe(FLOAT)),
           fitted=(None, maybe(_wrong)), own=(None, maybe(FLOAT)), stops=(False, boolean)),
    target("ConsistencySettings", remask.ConsistencySettings,
           mask_ratio=(0.9, either(number(float, 0, 1), word("uniform"))),
           mask_design=("independent", word("independent", "stratified")),
           tail=("masked", word("masked", "visible")), trips=(4, number(int, 1, 10_000)),
           rebuild_steps=(16, STEPS), rebuild_temperature=(0.0, HEAT)),
    target("SamplerSettings", remask.SamplerSettings, length=(16, LENGTH), steps=(16, STEPS),
           block=(16, LENGTH), temperature=(0.0, HEAT), top_p=(None, REDRAWN),
           top_k=(None, maybe(POSITIVE)), ends_last=(False, boolean),
           suppress_eos=(False, boolean), sub_block=(None, maybe(SEED))),
    target("Probe", Probe, passes=(8, number(int, 1, 10_000)),
           pattern=("halves", word("critical", "halves", "stratified", "visible"))),
    target("Probe.named", Probe.named, 1, name=("halves8", text)),
    target("Consistency", scored(remask.Consistency), denoiser=(MODEL, model),
           extract=(answers.extract_number, function),
           settings=(TRIPS, instance(remask.ConsistencySettings)),
           metric_set=("core", word("paper", "core")), task_metrics=(None, maybe(items(metric))),
           extra_metrics=((), items(metric)), weights=(None, WEIGHTS), seed=(0, SEED),
           name=("roundtrips", text)),
    target("Perplexity", scored(Perplexity), denoiser=(MODEL, model),
           draws=(2, number(int, 1, 100_000)), seed=(0, SEED), name=("perplexity", text)),
    target("EditorAgreement", scored(remask.EditorAgreement), denoiser=(MODEL, model),
           name=("editor", text)),
    target("ModelConfidence", scored(remask.ModelConfidence),
           scope=("response", word("response", "canvas"))),
    target("SelfConsistency", scored(remask.SelfConsistency),
           pools=({SAMPLE.item: [SAMPLE]}, mapping(text, samples)),
           key=(lambda sample: sample.text, function), kind=("vote", word("vote", "agreement"))),
    target("SelfEvaluation", scored(remask.SelfEvaluation), denoiser=(MODEL, model),
           questions=({}, QUESTIONS), settings=(SAMPLER, instance(remask.SamplerSettings)),
           seed=(0, SEED), name=("judge", text)),
    target("Metric", remask.Metric, name=("one", text), compute=(_metric, function),
           equation=("", text), needs_encoder=(False, boolean)),
    target("Score", remask.Score, value=(0.5, maybe(FLOAT)), by_metric=({}, mapping(text, FLOAT)),
           by_trip=({}, mapping(text, items(maybe(FLOAT)))), drift=((), items(maybe(FLOAT))),
           logp=((), items(maybe(FLOAT))), stderr=(None, maybe(FLOAT)), forwards=(0, INT),
           reason=("", text)),
    target("Sample", remask.Sample, item=("a", text), number=(0, INT), prompt=((40,), items(SEED)),
           canvas=((40, 0), items(SEED)), num_response=(2, SEED), text=("a", text),
           probs=(None, maybe(items(FLOAT))), steps=(None, maybe(items(SEED))), forwards=(0, INT),
           trace=(None, maybe(instance(Trace)))),
    target("Decision", remask.Decision, item=("a", text),
           action=("accept", word("accept", "fallback")), sample=(SAMPLE, sample),
           score=(SCORE, score), attempts=((), items(pair(sample, score))), forwards=(1, INT),
           reason=("", text)),
    *(target(name, getattr(answers, name), 1, **TEXT)
      for name in ("extract_number", "extract_choice", "find_number", "numbers")),
    target("best_f1", best_f1, 2, **LABELLED),
    target("accepts_all", accepts_all, 2, scores=([0.1, None], COLUMN), threshold=(0.5, FLOAT)),
    target("certify", certify, 3, **FITTED, risk=(0.5, number(float, 0, 1)),
           confidence=(0.5, number(float, 0, 1)), starts=((0.4,), items(FLOAT))),
    target("fit_calibrator", fit_calibrator, 3, **FITTED,
           method=("platt", word("platt", "isotonic"))),
    target("combine", combine, 2, columns=({"a": [0.5, None]}, mapping(text, COLUMN)),
           weights=({"a": 1.0}, mapping(text, FLOAT))),
    target("ScriptedDenoiser.reciting", lambda *a, **k: ScriptedDenoiser.reciting(*a, **k).name, 1,
           ids=([40], items(INT)), margin=(1.0, FLOAT)),
    target("read_records", read_records, 1, path=("no/where.jsonl", text)),
    target("Score.exceeds", SCORE.exceeds, 1, threshold=(0.5, FLOAT)),
    target("SamplerSettings.at", SAMPLER.at, 1, temperature=(0.5, HEAT)),
    target("SamplerSettings.for_sample", SAMPLER.for_sample, 1, number=(1, INT)),
    target("SamplerSettings.for_pool", SAMPLER.for_pool, 1, size=(2, INT)),
    target("Consistency.score", CORE.score, 1, samples=([SAMPLE], samples)),
    target("Consistency.measure", CORE.measure, 1, trips=([], items(instance(RoundTrips)))),
    target("ModelConfidence.score", remask.ModelConfidence().score, 1, samples=(DRAWN, samples)),
    target("EditorAgreement.score", remask.EditorAgreement(denoiser=MODEL).score, 1,
           samples=(DRAWN, samples)),
    target("task.problem", TASK.problem, 1, index=(0, SEED), split=("test", text),
           level=("easy", text), seed=(0, SEED)),
    target("task.judge", TASK.judge, 2, **GRADED),
    target("task.grade", TASK.grade, 2, **GRADED),
    target("task.extract", TASK.extract, 1, **TEXT),
    target("task.canvas_length", TASK.canvas_length, 1, level=("easy", text)),
    target("answer_key", answer_key, 3, reader=(TASK, _has("extract")), **GRADED),
    target("steps_ok", steps_ok, 4, task=(TASK, task), **GRADED, right=(True, boolean)),
]
# fmt: on


def drawn_call(rng: random.Random) -> tuple[Target, dict[str, Callable[[], Any]], str]:
    """Return a target, the arguments that are replaced, and the name of one to drop or to add."""
    target = rng.choice(TARGETS)
    if rng.random() < 0.04:
        return target, {}, rng.choice([*target.works, "no_such_parameter"])
    names = rng.sample([*target.takes], k=min(len(target.takes), rng.choice([1, 1, 1, 2])))
    return target, {name: rng.choice(ODD) for name in names}, ""


def outcome(target: Target, arguments: Mapping[str, Any]) -> Any:
    """Return the result, or the RemaskError; anything else is raised."""
    try:
        return target.run(arguments)
    except RemaskError as error:
        return error


def failure(target: Target, changed: Mapping[str, Callable[[], Any]], other: str) -> str:
    """Return what is wrong with a call; "" if nothing is."""
    given = {**target.works, **{name: make() for name, make in changed.items()}}
    if other in given:
        del given[other]
    elif other:
        given[other] = 1
    try:
        found = outcome(target, given)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"raises {type(error).__name__}: {brief(error)} ({frame.filename}:{frame.lineno})"
    if isinstance(found, RemaskError):
        return "" if str(found).strip() else "has an error without a message"
    if other:
        return "" if other in target.works else "takes an unknown parameter"
    try:
        plain = {name: target.takes[name](make()) for name, make in changed.items()}
    except Wrong:
        return f"takes a wrong argument and returns {brief(found)}"
    expected = outcome(target, {**target.works, **plain})
    return "" if same(found, expected) else f"returns {brief(found)}, not {brief(expected)}"


def same(one: Any, other: Any) -> bool:
    """Return whether two results are equal; objects of one type, field by field."""
    if type(one) is not type(other):
        return bool(isinstance(one, int | float) and one == other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return one is other or bool(one == other)


def brief(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:150]
    except Exception:
        return f"<{type(value).__name__}>"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(asked.seed)
    failures = 0
    for number_ in range(asked.n):
        target, changed, other = drawn_call(rng)
        wrong = failure(target, changed, other)
        if wrong:
            failures += 1
            values = ", ".join(f"{name}={brief(make())}" for name, make in changed.items())
            print(f"{number_}: {target.name}({values or other}) {wrong}", flush=True)
    print(f"{failures} of {asked.n} calls failed (seed {asked.seed})")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
