"""The scorers by name: one table for Python, the command line, the server, records and harnesses.

    find_scorer("perplexity", model, {item: prompt}, kind="choice", seed=1)

A maker takes the model and the prompts, as text by the item of their samples, and those of `kind`,
`seed` and `sampler` that it has parameters for; a user's maker is called in the same way. Two
baselines read an answer's trajectory by what is extracted, not by a task's key for votes: a key may
run a program, and there is an answer for every step.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from remask.answers import extract_choice, extract_number
from remask.baselines.confidence import ModelConfidence
from remask.baselines.dcocoa import DCoCoA
from remask.baselines.editor import EditorAgreement
from remask.baselines.entropy import DenoisingEntropy, RevealEntropy
from remask.baselines.judge import SelfEvaluation, reply_settings
from remask.baselines.length import CriticalCount, Length
from remask.baselines.likelihood import DRAWS, Perplexity
from remask.baselines.trajectory import TemporalEntropy, TemporalVote
from remask.consistency import roundtrips
from remask.consistency.metrics import Metric
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings, MetricSet
from remask.decide.stages import StagedVerifier
from remask.denoisers.base import Denoiser
from remask.denoisers.native import dtype_of
from remask.errors import SettingsError
from remask.extension import call, resolve, running, taken
from remask.probes import scorer as probe
from remask.probes.marks import mark_critical
from remask.probes.readings import Critical
from remask.probes.scorer import DiSE, ProbeScorer
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.settings import Seed, checked, shown, unknown_name
from remask.tasks import KNOWN, TASKS
from remask.tasks import task as find_task
from remask.tasks.base import Task
from remask.values import ROUNDTRIPS, Sample, Scorer
from remask.verifier.columns import AT_HAND, PROBE, VERIFIER
from remask.verifier.columns import VERSION as VERIFIER_VERSION
from remask.verifier.origin import trip_settings
from remask.verifier.threshold import ScoreContext, check_fit
from remask.verifier.verifier import Verifier

Prompt = str | Sequence[int]  # a user's turn as text; or token ids, which are used as they are
ScorerMaker = Callable[..., Scorer]
AnyScorer = str | Scorer | ScorerMaker  # a name, `module:name`, an object, or its maker
Kind = str | Task  # number, choice, code, text, the name of a task, `module:name`, or a task
# A set, which takes the metrics that make sense for the kind, or a list of metrics.
Metrics = MetricSet | list[str | Metric] | tuple[str | Metric, ...]
Questions = Mapping[str, str]
NO_QUESTIONS: Questions = MappingProxyType({})
_TEXT = ("token_accuracy", "semantic_similarity", "character_similarity", "confidence")


@checked
def item_of(prompt: Prompt) -> str:
    """Return the identity of a prompt: its text, hashed."""
    prompt = prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
    return "prompt/" + hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=8).hexdigest()


class Reader(NamedTuple):
    """How to read an answer: its final result, and which metrics make sense."""

    name: str  # of the kind or the task; a preset may have departures for it
    extract: Callable[[str], str | None]
    metrics: tuple[str, ...]
    canvas: int | None = None  # tokens that any solution of a task needs; None: not a task
    critical: str = "number"  # what decides an answer: a key of `answers.critical.CRITICAL`


READERS = {
    "number": Reader("number", extract_number, TASKS["wordmath"].metrics),
    "choice": Reader("choice", extract_choice, TASKS["choice"].metrics, critical="choice"),
    "code": Reader("code", TASKS["pycode"].extract, TASKS["pycode"].metrics, critical="code"),
    # no final result: the words alone count
    "text": Reader("text", lambda text: None, _TEXT, critical="text"),
}


@checked
def reader(kind: Kind) -> Reader:
    """Return how to read answers of a kind (number, choice, code, text) or of a task."""
    if isinstance(kind, str):
        if kind in READERS:
            return READERS[kind]
        if kind not in KNOWN and ":" not in kind:
            raise unknown_name("kind", kind, dict.fromkeys([*READERS, *KNOWN]))
    task = find_task(kind)
    with running("task", str(task.name)):
        canvas = max(task.canvas_length(level) for level in task.levels)
    critical = getattr(task, "critical", "number")  # your own task may leave it out
    return Reader(task.name, task.extract, task.metrics, canvas, critical)


@checked
def kinds_like(kind: Kind) -> set[str]:
    """Return the names under which answers of a kind are read: its own, and plain ones like it."""
    own = reader(kind)
    return {own.name} | {name for name, how in READERS.items() if how.critical == own.critical}


@checked
def critical_tokens(model: Denoiser, questions: Questions, *, kind: Kind = "number") -> Critical:
    """Return a function that marks the response tokens of a sample that decide the answer.

    `questions` are the prompts, as text, by item, for samples without a `question`.
    """
    how = reader(kind)
    return mark_critical(model.tokenizer, questions, extract=how.extract, kind=how.critical)


@checked
def probe_scorer(
    model: Denoiser, questions: Questions, *, kind: Kind = "number", seed: Seed = 0
) -> ProbeScorer:
    """Return the scorer of one pass, which masks the critical tokens of answers of a kind."""
    marks = critical_tokens(model, questions, kind=kind)
    return ProbeScorer(denoiser=model, critical=marks, seed=seed)


@checked
def verifier(
    model: Denoiser,
    questions: Questions = NO_QUESTIONS,
    *,
    kind: Kind = "number",
    fitted: StagedVerifier | None = None,
    budget: int | None = None,
    seed: Seed = 0,
) -> Verifier:
    """Return the verifier of answers of a kind: probes, and what was fitted to them.

    Args:
        model: the model that reads the answers.
        questions: the prompts, as text, by item, for samples without a `question`.
        kind: of the answers: how they are read, and which tokens decide them.
        fitted: stages fitted to labelled answers of this model and kind (`remask fit`); None:
            label-free.
        budget: maximum forward passes per answer.
        seed: of the masks that are drawn.
    """
    how, trips = reader(kind), trip_settings(fitted)
    if fitted is not None:
        ours = ScoreContext(kind=how.name, model=model.name, dtype=dtype_of(model))
        check_fit(fitted, ours, kinds_like(fitted.provenance.task))
    return Verifier(
        denoiser=model,
        extract=how.extract,
        critical=critical_tokens(model, questions, kind=kind),
        fitted=fitted,
        roundtrips=consistency(model, kind=kind, settings=trips, metrics="core", seed=seed),
        budget=budget,
        seed=seed,
    )


@checked
def consistency(
    model: Denoiser,
    *,
    kind: Kind = "number",
    settings: ConsistencySettings | None = None,
    metrics: Metrics = "paper",
    weights: Mapping[str, float] | None = None,
    seed: Seed = 0,
) -> Consistency:
    """Return the round-trip scorer for answers of a kind.

    `metrics` is a set, which takes the metrics that make sense for the kind, or a list of metrics.
    """
    how = reader(kind)
    metric_set: MetricSet = metrics if isinstance(metrics, str) else "paper"
    return Consistency(
        denoiser=model,
        extract=how.extract,
        settings=settings or ConsistencySettings(),
        metric_set=metric_set,
        task_metrics=how.metrics if isinstance(metrics, str) else metrics,
        weights=weights,
        seed=seed,
    )


def _self_evaluation(
    model: Denoiser, questions: Questions, seed: int, sampler: SamplerSettings | None
) -> Scorer:
    settings = reply_settings(model, sampler or sampler_settings(model))
    return SelfEvaluation(denoiser=model, questions=questions, settings=settings, seed=seed)


def _critical_count(model: Denoiser, questions: Questions, kind: Kind) -> Scorer:
    return CriticalCount(critical=critical_tokens(model, questions, kind=kind))


def _answers(kind: Kind) -> Callable[[Sample], str | None]:
    extract = reader(kind).extract
    return lambda sample: call("extract", extract, sample.text)


SCORERS: Mapping[str, ScorerMaker] = {
    ROUNDTRIPS: lambda model, questions, kind, seed: consistency(model, kind=kind, seed=seed),
    PROBE: probe_scorer,
    VERIFIER: verifier,
    "confidence": lambda model, questions: ModelConfidence(),
    "self_evaluation": _self_evaluation,
    "editor": lambda model, questions: EditorAgreement(denoiser=model),
    "dise": lambda model, questions: DiSE(denoiser=model),
    "perplexity": lambda model, questions, seed: Perplexity(denoiser=model, seed=seed),
    "length": lambda model, questions: Length(),
    "critical_count": _critical_count,
    # These read the trace of an answer, which `sample(..., trace=True)` makes.
    "dcocoa": lambda model, questions, seed: DCoCoA(denoiser=model, seed=seed),
    "tre": lambda model, questions: RevealEntropy(),
    "denoising_entropy": lambda model, questions: DenoisingEntropy(),
    "temporal_vote": lambda model, questions, kind: TemporalVote(
        tokenizer=model.tokenizer, key=_answers(kind)
    ),
    "temporal_entropy": lambda model, questions, kind: TemporalEntropy(
        tokenizer=model.tokenizer, key=_answers(kind)
    ),
}
# Raised when a scorer would score otherwise; 1 for those that are not named.
_VERSIONS = {ROUNDTRIPS: roundtrips.VERSION, PROBE: probe.VERSION}
_VERSIONS |= dict.fromkeys((VERIFIER, AT_HAND), VERIFIER_VERSION)


@checked
def scorer_version(name: str) -> int:
    """Return the version of the scores that a scorer gives now."""
    return _VERSIONS.get(name, 1)


@checked
def find_scorer(
    scorer: AnyScorer,
    model: Denoiser,
    prompts: Mapping[str, str] | Sequence[str],
    *,
    kind: Kind = "number",
    seed: Seed = 0,
    sampler: SamplerSettings | None = None,
) -> Scorer:
    """Return a scorer of answers to these prompts; a name or a maker is made for the model.

    Args:
        scorer: a name of `SCORERS`, `module:name`, an object with `name` and `score`, or a maker.
        model: for a scorer that has to be made, as are the arguments that follow.
        prompts: as text: a list, or by the item of their samples if it is not the prompt's own.
        kind: of the answers.
        seed: of the draws.
        sampler: how answers are written; the preset's by default.
    """
    made: Any = resolve("scorer", scorer, SCORERS)
    if isinstance(made, type) or not hasattr(made, "score"):
        questions = prompts if isinstance(prompts, Mapping) else {item_of(p): p for p in prompts}
        if not callable(made):
            raise SettingsError(f"scorer must have name and score, or make one, got {shown(made)}.")
        further = taken(made, {"kind": kind, "seed": seed, "sampler": sampler})
        made = call("scorer", made, model, questions, **further)
    made = resolve("scorer", made, {}, ("name", "score"))
    if not callable(made.score):
        raise SettingsError(f"score of scorer {made.name!r} must be a method, got {made.score!r}.")
    return cast(Scorer, made)


def baseline_forwards(names: Sequence[str], denoiser: Denoiser, sampler: SamplerSettings) -> int:
    """Return about how many passes these baselines take of an answer."""
    price = {
        "self_evaluation": reply_settings(denoiser, sampler).steps,
        "editor": 1,
        "dise": 1,
        "perplexity": DRAWS,
        "dcocoa": DRAWS,
    }
    return sum(price.get(name, 0) for name in names)
