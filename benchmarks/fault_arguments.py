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
from remask.errors import RemaskError
from remask.probes.settings import Probe
from remask.tasks import TASKS
from remask.testing import ScriptedDenoiser
from remask.values import RoundTrips, Trace


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


def _wrong() -> Any:
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
    positional: int = 0  # how many parameters are passed by position

    def run(self, arguments: Mapping[str, Any]) -> Any:
        names = [name for name in [*self.works][: self.positional] if name in arguments]
        named = {name: value for name, value in arguments.items() if name not in names}
        return self.call(*(arguments[name] for name in names), **named)


INT, SEED, POSITIVE = number(int, 0), number(int), number(int, 1)
FLOAT = number(float)
LENGTH, COUNT = number(int, 1, 2**20), number(int, 1, 1000)
PROMPT = either(text, items(SEED))
model = either(instance(ScriptedDenoiser))
task = either(
    text, lambda v: v if all(hasattr(v, n) for n in ("judge", "levels", "extract")) else _wrong()
)
metric = either(text, instance(remask.Metric))
metrics = either(
    word("paper", "core"), lambda v: items(metric)(v) if isinstance(v, list | tuple) else _wrong()
)


def _is_scorer(value: Any) -> Any:
    try:
        return value if hasattr(value, "name") and hasattr(value, "score") else _wrong()
    except RuntimeError:
        raise Wrong from None


scorer = either(text, _is_scorer, function)
WEIGHTS = maybe(mapping(text, FLOAT))
settings, sampler = (
    maybe(instance(remask.ConsistencySettings)),
    maybe(instance(remask.SamplerSettings)),
)
samples = items(instance(remask.Sample))
ROUND = {
    "kind": task, "settings": settings, "metrics": metrics, "weights": WEIGHTS,
    "scorer": maybe(scorer), "seed": SEED,
}  # fmt: skip
ANSWER = either(text, instance(remask.Sample))
PAIRS = items(pair(PROMPT, ANSWER))
TURNS = items(pair(text, text))


def scored(made: Any) -> Any:
    """Return what a scorer says of answers, in place of the object."""
    return [made.name, made.score([SAMPLE, EMPTY])]


def solved(*given: Any, **named: Any) -> Any:
    return api.solve(*given, **{"sampler": SAMPLER, "threshold": 0.5, "budget": 2, **named})


def _methods() -> list[Target]:
    score = remask.Score(value=0.5, stderr=0.1)
    task_ = TASKS["wordmath"]
    targets = [
        Target("Score.exceeds", score.exceeds, {"threshold": 0.5}, {"threshold": FLOAT}, 1),
        Target(
            "SamplerSettings.at",
            SAMPLER.at,
            {"temperature": 0.5},
            {"temperature": number(float, 0, 100)},
            1,
        ),
        Target("SamplerSettings.for_sample", SAMPLER.for_sample, {"number": 1}, {"number": INT}, 1),
        Target("SamplerSettings.for_pool", SAMPLER.for_pool, {"size": 2}, {"size": INT}, 1),
        Target("Consistency.score", CORE.score, {"samples": [SAMPLE]}, {"samples": samples}, 1),
        Target(
            "Consistency.measure",
            CORE.measure,
            {"trips": []},
            {"trips": items(instance(RoundTrips))},
            1,
        ),
        Target(
            "ModelConfidence.score",
            remask.ModelConfidence().score,
            {"samples": DRAWN},
            {"samples": samples},
            1,
        ),
        Target(
            "EditorAgreement.score",
            remask.EditorAgreement(denoiser=MODEL).score,
            {"samples": DRAWN},
            {"samples": samples},
            1,
        ),
        Target(
            "task.problem",
            task_.problem,
            {"index": 1, "split": "test", "level": "easy", "seed": 0},
            {"index": SEED, "split": text, "level": text, "seed": SEED},
            1,
        ),
        Target(
            "task.judge",
            task_.judge,
            {"problem": PROBLEM, "text": "It is 4."},
            {"problem": instance(type(PROBLEM)), "text": text},
            2,
        ),
        Target(
            "task.grade",
            task_.grade,
            {"problem": PROBLEM, "text": "It is 4."},
            {"problem": instance(type(PROBLEM)), "text": text},
            2,
        ),
        Target("task.extract", task_.extract, {"text": "It is 4."}, {"text": text}, 1),
        Target("task.canvas_length", task_.canvas_length, {"level": "easy"}, {"level": text}, 1),
    ]
    return targets


TARGETS: list[Target] = [
    Target(
        "sample",
        api.sample,
        {
            "model": MODEL,
            "prompt": "2+2?",
            "settings": SAMPLER,
            "number": 0,
            "seed": 0,
            "trace": False,
        },
        {
            "model": model,
            "prompt": PROMPT,
            "settings": sampler,
            "number": INT,
            "seed": SEED,
            "trace": boolean,
        },
        2,
    ),
    Target(
        "sample_many",
        api.sample_many,
        {
            "model": MODEL,
            "prompts": ["2+2?", "3?"],
            "settings": SAMPLER,
            "items": None,
            "number": 0,
            "seed": 0,
            "trace": False,
        },
        {
            "model": model,
            "prompts": items(PROMPT),
            "settings": sampler,
            "items": maybe(items(text)),
            "number": INT,
            "seed": SEED,
            "trace": boolean,
        },
        2,
    ),
    Target(
        "sample_from_text",
        api.sample_from_text,
        {
            "model": MODEL,
            "prompt": "2+2?",
            "answer": "It is 4.",
            "item": None,
            "length": None,
            "examples": (),
            "system": "",
        },
        {
            "model": model,
            "prompt": PROMPT,
            "answer": text,
            "item": maybe(text),
            "length": maybe(LENGTH),
            "examples": TURNS,
            "system": text,
        },
        3,
    ),
    Target(
        "score",
        api.score,
        {
            "model": MODEL,
            "prompt": "2+2?",
            "answer": "It is 4.",
            "kind": "number",
            "settings": TRIPS,
            "metrics": "core",
            "weights": None,
            "scorer": None,
            "seed": 0,
        },
        {"model": model, "prompt": PROMPT, "answer": ANSWER, **ROUND},
        3,
    ),
    Target(
        "score_many",
        api.score_many,
        {
            "model": MODEL,
            "pairs": [("2+2?", "It is 4.")],
            "scorer": "probe",
            "kind": "number",
            "seed": 0,
        },
        {"model": model, "pairs": PAIRS, "scorer": maybe(scorer), "kind": task, "seed": SEED},
        2,
    ),
    Target(
        "solve",
        solved,
        {
            "model": MODEL,
            "prompt": "2+2?",
            "sampler": SAMPLER,
            "settings": TRIPS,
            "metrics": "core",
            "kind": "number",
            "weights": None,
            "scorer": None,
            "threshold": 0.5,
            "budget": 2,
            "seed": 0,
            "examples": (),
        },
        {
            "model": model,
            "prompt": text,
            "sampler": sampler,
            **ROUND,
            "threshold": maybe(FLOAT),
            "budget": COUNT,
            "examples": TURNS,
        },
        2,
    ),
    Target(
        "solve_many",
        api.solve_many,
        {
            "model": MODEL,
            "prompts": ["2+2?"],
            "scorer": "length",
            "kind": "number",
            "sampler": SAMPLER,
            "examples": (),
            "threshold": -1.0,
            "budget": 2,
            "seed": 0,
            "watch": lambda sample, score: None,
        },
        {
            "model": model,
            "prompts": items(text),
            "scorer": maybe(scorer),
            "kind": task,
            "sampler": sampler,
            "examples": TURNS,
            "threshold": maybe(FLOAT),
            "budget": COUNT,
            "seed": SEED,
            "watch": function,
        },
        2,
    ),
    Target(
        "log_likelihood",
        remask.log_likelihood,
        {"model": MODEL, "samples": [SAMPLE], "draws": 2, "seed": 0, "greedy": False},
        {
            "model": model,
            "samples": samples,
            "draws": number(int, 1, 100_000),
            "seed": SEED,
            "greedy": boolean,
        },
        2,
    ),
    Target(
        "auroc",
        remask.auroc,
        {"scores": [0.1, 0.9, None], "right": [False, True, False]},
        {
            "scores": items(
                maybe(
                    either(
                        FLOAT,
                        boolean,
                        word("never"),
                        lambda v: v if v in (math.inf, -math.inf) else _wrong(),
                    )
                )
            ),
            "right": items(either(boolean, number(float, 0, 1))),
        },
        2,
    ),
    Target(
        "sampler_settings",
        remask.sampler_settings,
        {
            "model": MODEL,
            "kind": "",
            "canvas": None,
            "length": 16,
            "steps": None,
            "block": None,
            "temperature": None,
            "order": None,
            "reveal_threshold": None,
            "commit_gap": None,
            "edit_threshold": None,
        },
        {
            "model": lambda v: v if hasattr(v, "preset") else _wrong(),
            "kind": text,
            "canvas": maybe(LENGTH),
            "length": maybe(LENGTH),
            "steps": maybe(number(int, 1, 2**16)),
            "block": maybe(LENGTH),
            "temperature": maybe(number(float, 0, 100)),
            "order": maybe(
                word("low_confidence", "random", "origin", "maskgit_plus", "topk_margin", "entropy")
            ),
            "reveal_threshold": maybe(number(float, 0, 1, open_=True)),
            "commit_gap": maybe(number(float, 0, open_=True)),
            "edit_threshold": maybe(number(float, 0, 1)),
        },
        1,
    ),
    Target(
        "reject",
        remask.reject,
        {
            "draw": draw,
            "scorer": Lengths(),
            "items": ["a", "b"],
            "threshold": 0.5,
            "budget": 2,
            "watch": lambda sample, score: None,
        },
        {
            "draw": function,
            "scorer": _is_scorer,
            "items": items(text),
            "threshold": FLOAT,
            "budget": COUNT,
            "watch": function,
        },
        3,
    ),
    Target(
        "best_of",
        remask.best_of,
        {"draw": draw, "scorer": Lengths(), "items": ["a", "b"], "n": 2},
        {"draw": function, "scorer": _is_scorer, "items": items(text), "n": COUNT},
        4,
    ),
    Target(
        "majority_vote",
        remask.majority_vote,
        {"draw": draw, "key": lambda sample: sample.text, "items": ["a"], "n": 2},
        {"draw": function, "key": function, "items": items(text), "n": COUNT},
        4,
    ),
    Target(
        "task",
        remask.task,
        {
            "given": "wordmath",
            "path": None,
            "allow_execution": False,
            "wording": "llada",
            "shots": 0,
        },
        {
            "given": task,
            "path": maybe(text),
            "allow_execution": boolean,
            "wording": text,
            "shots": number(int, 0, 100),
        },
        1,
    ),
    Target("reader", api.reader, {"kind": "number"}, {"kind": task}, 1),
    Target("item_of", api.item_of, {"prompt": "x"}, {"prompt": PROMPT}, 1),
    Target("scorer_version", api.scorer_version, {"name": "probe"}, {"name": text}, 1),
    Target(
        "consistency",
        lambda *a, **k: scored(api.consistency(*a, **k)),
        {
            "model": MODEL,
            "kind": "number",
            "settings": TRIPS,
            "metrics": "core",
            "weights": None,
            "seed": 0,
        },
        {"model": model, **{name: kind for name, kind in ROUND.items() if name != "scorer"}},
        1,
    ),
    Target(
        "verifier",
        lambda *a, **k: scored(api.verifier(*a, **k)),
        {
            "model": MODEL,
            "questions": {},
            "kind": "number",
            "fitted": None,
            "budget": None,
            "seed": 0,
        },
        {
            "model": model,
            "questions": mapping(text, text),
            "kind": task,
            "fitted": maybe(instance(type(None))),
            "budget": maybe(SEED),
            "seed": SEED,
        },
        2,
    ),
    Target(
        "find_scorer",
        lambda *a, **k: scored(api.find_scorer(*a, **k)),
        {"given": "perplexity", "model": MODEL, "prompts": ["2+2?"], "kind": "number", "seed": 0},
        {
            "given": scorer,
            "model": model,
            "prompts": either(mapping(text, text), items(text)),
            "kind": task,
            "seed": SEED,
        },
        3,
    ),
    Target(
        "ConsistencySettings",
        remask.ConsistencySettings,
        {
            "mask_ratio": 0.9,
            "mask_design": "independent",
            "tail": "masked",
            "trips": 4,
            "rebuild_steps": 16,
            "rebuild_temperature": 0.0,
        },
        {
            "mask_ratio": either(number(float, 0, 1), word("uniform")),
            "mask_design": word("independent", "stratified"),
            "tail": word("masked", "visible"),
            "trips": number(int, 1, 10_000),
            "rebuild_steps": number(int, 1, 2**16),
            "rebuild_temperature": number(float, 0, 100),
        },
    ),
    Target(
        "SamplerSettings",
        remask.SamplerSettings,
        {
            "length": 16,
            "steps": 16,
            "block": 16,
            "temperature": 0.0,
            "top_p": None,
            "top_k": None,
            "ends_last": False,
            "suppress_eos": False,
            "sub_block": None,
        },
        {
            "length": LENGTH,
            "steps": number(int, 1, 2**16),
            "block": LENGTH,
            "temperature": number(float, 0, 100),
            "top_p": maybe(number(float, 0, 1, open_=True)),
            "top_k": maybe(POSITIVE),
            "ends_last": boolean,
            "suppress_eos": boolean,
            "sub_block": maybe(SEED),
        },
    ),
    Target(
        "Probe",
        Probe,
        {"pattern": "halves", "passes": 8},
        {
            "pattern": word(
                "critical", "halves", "random", "stratified", "forced", "visible", "suffix"
            ),
            "passes": number(int, 1, 10_000),
        },
    ),
    Target("Probe.named", Probe.named, {"name": "halves8"}, {"name": text}, 1),
    Target(
        "Consistency",
        lambda **k: scored(remask.Consistency(**k)),
        {
            "denoiser": MODEL,
            "extract": answers.extract_number,
            "settings": TRIPS,
            "metric_set": "core",
            "task_metrics": None,
            "extra_metrics": (),
            "weights": None,
            "seed": 0,
            "name": "roundtrips",
        },
        {
            "denoiser": model,
            "extract": function,
            "settings": instance(remask.ConsistencySettings),
            "metric_set": word("paper", "core"),
            "task_metrics": maybe(items(metric)),
            "extra_metrics": items(metric),
            "weights": WEIGHTS,
            "seed": SEED,
            "name": text,
        },
    ),
    Target(
        "Perplexity",
        lambda **k: scored(Perplexity(**k)),
        {"denoiser": MODEL, "draws": 2, "seed": 0, "name": "perplexity"},
        {"denoiser": model, "draws": number(int, 1, 100_000), "seed": SEED, "name": text},
    ),
    Target(
        "EditorAgreement",
        lambda **k: scored(remask.EditorAgreement(**k)),
        {"denoiser": MODEL, "name": "editor"},
        {"denoiser": model, "name": text},
    ),
    Target(
        "ModelConfidence",
        lambda **k: scored(remask.ModelConfidence(**k)),
        {"scope": "response"},
        {"scope": word("response", "canvas")},
    ),
    Target(
        "SelfConsistency",
        lambda **k: scored(remask.SelfConsistency(**k)),
        {"pools": {SAMPLE.item: [SAMPLE]}, "key": lambda sample: sample.text, "kind": "vote"},
        {"pools": mapping(text, samples), "key": function, "kind": word("vote", "agreement")},
    ),
    Target(
        "SelfEvaluation",
        lambda **k: scored(remask.SelfEvaluation(**k)),
        {"denoiser": MODEL, "questions": {}, "settings": SAMPLER, "seed": 0, "name": "judge"},
        {
            "denoiser": model,
            "questions": mapping(text, text),
            "settings": instance(remask.SamplerSettings),
            "seed": SEED,
            "name": text,
        },
    ),
    Target(
        "Metric",
        remask.Metric,
        {"name": "one", "compute": _metric, "equation": "", "needs_encoder": False},
        {"name": text, "compute": function, "equation": text, "needs_encoder": boolean},
    ),
    Target(
        "Score",
        remask.Score,
        {
            "value": 0.5,
            "by_metric": {},
            "by_trip": {},
            "drift": (),
            "logp": (),
            "stderr": None,
            "forwards": 0,
            "reason": "",
        },
        {
            "value": maybe(FLOAT),
            "by_metric": mapping(text, FLOAT),
            "by_trip": mapping(text, items(maybe(FLOAT))),
            "drift": items(maybe(FLOAT)),
            "logp": items(maybe(FLOAT)),
            "stderr": maybe(FLOAT),
            "forwards": INT,
            "reason": text,
        },
    ),
    Target(
        "Sample",
        remask.Sample,
        {
            "item": "a",
            "number": 0,
            "prompt": (40,),
            "canvas": (40, 0),
            "num_response": 2,
            "text": "a",
            "probs": None,
            "steps": None,
            "forwards": 0,
        },
        {
            "item": text,
            "number": INT,
            "prompt": items(SEED),
            "canvas": items(SEED),
            "num_response": SEED,
            "text": text,
            "probs": maybe(items(FLOAT)),
            "steps": maybe(items(SEED)),
            "forwards": INT,
            "trace": maybe(instance(Trace)),
        },
    ),
    Target(
        "Decision",
        remask.Decision,
        {
            "item": "a",
            "action": "accept",
            "sample": SAMPLE,
            "score": remask.Score(value=0.5),
            "attempts": (),
            "forwards": 1,
            "reason": "",
        },
        {
            "item": text,
            "action": word("accept", "fallback"),
            "sample": instance(remask.Sample),
            "score": instance(remask.Score),
            "attempts": items(pair(instance(remask.Sample), instance(remask.Score))),
            "forwards": INT,
            "reason": text,
        },
    ),
    *(
        Target(f"answers.{name}", getattr(answers, name), {"text": "It is 4."}, {"text": text}, 1)
        for name in ("extract_number", "extract_choice", "find_number", "numbers")
    ),
    *_methods(),
]


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
