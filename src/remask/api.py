"""The calls most people need: text in, values out.

    model = remask.load("tiny")                            # or a hub id, with preset="GSM8K"
    answer = remask.sample(model, "Ben has 12 apples. Zoe has 5 more than Ben. How many has Zoe?")
    score = remask.score(model, prompt, answer)            # or the text of any answer
    decision = remask.solve(model, prompt)                 # resample until one is stable

Each has a `_many` form that takes lists and works in batches; one at a time or many at once, the
results are the same. There the scorer is handed over, made once:

    scorer = remask.api.consistency(model, kind="choice", metrics="core")
    scores = remask.score_many(model, pairs, scorer=scorer)
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from remask.answers import extract_choice, extract_number
from remask.baselines.confidence import ModelConfidence
from remask.baselines.dise import DiSE
from remask.baselines.editor import EditorAgreement
from remask.baselines.judge import SelfEvaluation, reply_settings
from remask.baselines.length import Length
from remask.baselines.likelihood import Perplexity
from remask.consistency import roundtrips
from remask.consistency.metrics import Metric
from remask.consistency.roundtrips import Consistency
from remask.consistency.settings import ConsistencySettings, MetricSet
from remask.decide.rejection import Watch, reject
from remask.decide.stages import StagedVerifier
from remask.denoisers.base import Denoiser
from remask.denoisers.native import dtype_of
from remask.errors import InputError, SettingsError
from remask.extension import resolve, taken
from remask.probes import scorer as probe
from remask.probes.marks import mark_critical
from remask.probes.readings import Critical
from remask.probes.scorer import ProbeScorer
from remask.sampling.sampler import sample as sample_ids
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import KNOWN, TASKS
from remask.tasks import task as find_task
from remask.tasks.base import Task
from remask.values import ROUNDTRIPS, Decision, Sample, Score, Scorer
from remask.verifier.columns import AT_HAND, PROBE, VERIFIER
from remask.verifier.columns import VERSION as VERIFIER_VERSION
from remask.verifier.origin import check_origin, check_sampler, fitted_sampler, trip_settings
from remask.verifier.threshold import threshold_for as threshold_for
from remask.verifier.verifier import Verifier

Examples = Sequence[tuple[str, str]]  # earlier turns: the prompt and the reply
Prompt = str | Sequence[int]  # what a user says; or ids, which stand for themselves
# Makes a scorer of a model and the prompts, as text, by the item of their samples; and of the kind
# of the answers and the seed of what it draws, where it has parameters `kind` and `seed`.
ScorerMaker = Callable[..., Scorer]
AnyScorer = str | Scorer | ScorerMaker  # confidence, ..., `module:name`, an object, its maker
Kind = str | Task  # number, choice, code, text, the name of a task, `module:name`, or a task
# A set, which takes those that make sense for the kind, or a list of them.
Metrics = MetricSet | list[str | Metric] | tuple[str | Metric, ...]
_USUAL = ConsistencySettings()
_TEXT = ("token_accuracy", "semantic_similarity", "character_similarity", "confidence")


class Reader(NamedTuple):
    """How to read an answer: where its final result stands, and which metrics make sense."""

    name: str  # of the kind or the task; a preset may depart from itself for it
    extract: Callable[[str], str | None]
    metrics: tuple[str, ...]
    canvas: int | None = None  # tokens that any solution of a task needs; None: the kind is no task
    critical: str = "number"  # what decides in it: a key of `answers.critical.CRITICAL`


READERS = {
    "number": Reader("number", extract_number, TASKS["wordmath"].metrics),
    "choice": Reader("choice", extract_choice, TASKS["choice"].metrics, critical="choice"),
    "code": Reader("code", TASKS["pycode"].extract, TASKS["pycode"].metrics, critical="code"),
    # no final result: the words alone count
    "text": Reader("text", lambda text: None, _TEXT, critical="text"),
}


def reader(kind: Kind) -> Reader:
    """Return how to read answers of a kind (number, choice, code, text) or of a task."""
    if isinstance(kind, str):
        if kind in READERS:
            return READERS[kind]
        if kind not in KNOWN and ":" not in kind:
            known = dict.fromkeys([*READERS, *KNOWN])
            raise SettingsError(f"kind {kind!r} is unknown; use one of {', '.join(known)}.")
    task = find_task(kind)
    canvas = max(task.canvas_length(level) for level in task.levels)
    critical = getattr(task, "critical", "number")  # a task of one's own need not say
    return Reader(task.name, task.extract, task.metrics, canvas, critical)


def kinds_like(kind: Kind) -> set[str]:
    """Return the names under which answers of a kind are read: its own, and plain ones like it."""
    own = reader(kind)
    return {own.name} | {name for name, how in READERS.items() if how.critical == own.critical}


def critical_tokens(
    model: Denoiser, questions: Mapping[str, str], *, kind: Kind = "number"
) -> Critical:
    """Return what says of each response token of a sample whether it decides the answer.

    `questions` are the prompts, as text, by the item of their samples, where they are known.
    """
    how = reader(kind)
    return mark_critical(model.tokenizer, questions, extract=how.extract, kind=how.critical)


def probe_scorer(
    model: Denoiser, questions: Mapping[str, str], *, kind: Kind = "number"
) -> ProbeScorer:
    """Return the scorer of one pass, which masks the critical tokens of answers of a kind."""
    return ProbeScorer(denoiser=model, critical=critical_tokens(model, questions, kind=kind))


def verifier(
    model: Denoiser,
    questions: Mapping[str, str] = MappingProxyType({}),
    *,
    kind: Kind = "number",
    fitted: StagedVerifier | None = None,
    budget: int | None = None,
    seed: int = 0,
) -> Verifier:
    """Return the verifier of answers of a kind: probes, and what was fitted to them.

    Args:
        model: that is asked.
        questions: the prompts, as text, by the item of their samples, where they are known.
        kind: of the answers: how they are read, and what decides in them.
        fitted: to answers of this model and kind, with labels (`remask fit`); None: label-free.
        budget: most forward passes per answer.
        seed: of the masks that are drawn.
    """
    how, trips = reader(kind), trip_settings(fitted)
    if fitted is not None:
        ours = {"task": how.name, "model": model.name, "dtype": dtype_of(model)}
        check_origin(fitted, ours, kinds_like(fitted.provenance.task))
    return Verifier(
        denoiser=model,
        extract=how.extract,
        critical=critical_tokens(model, questions, kind=kind),
        fitted=fitted,
        roundtrips=consistency(model, kind=kind, settings=trips, metrics="core", seed=seed),
        budget=budget,
        seed=seed,
    )


SCORERS: Mapping[str, ScorerMaker] = {
    ROUNDTRIPS: lambda model, questions, kind, seed: consistency(model, kind=kind, seed=seed),
    "probe": probe_scorer,
    "verifier": verifier,
    "confidence": lambda model, questions: ModelConfidence(),
    "self_evaluation": lambda model, questions: SelfEvaluation(
        denoiser=model,
        questions=questions,
        settings=reply_settings(model, sampler_settings(model)),
    ),
    "editor": lambda model, questions: EditorAgreement(denoiser=model),
    "dise": lambda model, questions: DiSE(denoiser=model),
    "perplexity": lambda model, questions: Perplexity(denoiser=model),
    "length": lambda model, questions: Length(),
}


# Raised when a scorer would score otherwise; 1 for those that are not named.
_VERSIONS = {ROUNDTRIPS: roundtrips.VERSION, PROBE: probe.VERSION}
_VERSIONS |= dict.fromkeys((VERIFIER, AT_HAND), VERIFIER_VERSION)


def scorer_version(name: str) -> int:
    """Return the version of the scores that a scorer gives now."""
    return _VERSIONS.get(name, 1)


def item_of(prompt: Prompt) -> str:
    """Return the identity of a prompt: its text, hashed."""
    prompt = prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
    return "prompt/" + hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=8).hexdigest()


def sample(
    model: Denoiser,
    prompt: str,
    *,
    settings: SamplerSettings | None = None,
    number: int = 0,
    seed: int = 0,
    trace: bool = False,
) -> Sample:
    """Return the model's answer to one prompt; another `number` is another sample.

    With `trace` it also says how it came about: see `values.Trace`.
    """
    return sample_many(model, [prompt], settings=settings, number=number, seed=seed, trace=trace)[0]


def sample_many(
    model: Denoiser,
    prompts: Sequence[Prompt],
    *,
    settings: SamplerSettings | None = None,
    items: Sequence[str] | None = None,
    number: int = 0,
    seed: int = 0,
    trace: bool = False,
) -> list[Sample]:
    """Return the model's answer to each prompt; `items` name them, their texts do by default."""
    return sample_ids(
        model,
        [model.tokenizer.render(prompt) for prompt in prompts],
        settings or sampler_settings(model),
        items=items or [item_of(prompt) for prompt in prompts],
        number=number,
        seed=seed,
        trace=trace,
    )


def sample_from_text(
    model: Denoiser,
    prompt: Prompt,
    answer: str,
    *,
    item: str | None = None,
    length: int | None = None,
    examples: Examples = (),
    system: str = "",
) -> Sample:
    """Return an answer you already have as a `Sample`, on a canvas with an EOS tail.

    The tail keeps the length from being given away: the canvas is the model's usual one, or the
    next multiple of 32 tokens that holds the answer and its end. With a `length` it is that long,
    and an answer that does not fit is refused. `examples` are turns before the prompt, `system` a
    system turn before all of them.
    """
    tokenizer = model.tokenizer
    if not answer.strip():
        raise InputError("the answer is empty; give the text to be verified.")
    ids = tokenizer.encode(answer, "answer")
    if any(end in ids for end in tokenizer.eos_ids):
        raise InputError("the answer contains an end token; remove it and what follows.")
    if length is not None and len(ids) + 1 > length:
        raise InputError(
            f"the answer takes {len(ids) + 1} tokens with its end, and there is room for {length}; "
            "shorten it, or, where no fit or certificate sets the length, choose a greater one."
        )
    length = length or max(model.preset.length, -(-(len(ids) + 1) // 32) * 32)
    return Sample(
        item=item or item_of(prompt),
        prompt=tuple(tokenizer.render(prompt, examples, system)),
        canvas=(*ids, *[tokenizer.eos_id] * (length - len(ids))),
        num_response=len(ids) + 1,
        text=answer,
    )


def consistency(
    model: Denoiser,
    *,
    kind: Kind = "number",
    settings: ConsistencySettings | None = None,
    metrics: Metrics = "paper",
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Consistency:
    """Return the round-trip scorer for answers of a kind.

    `metrics` is a set, which takes those that make sense for the kind, or a list of them.
    """
    how = reader(kind)
    metric_set: MetricSet = metrics if isinstance(metrics, str) else "paper"
    return Consistency(
        denoiser=model,
        extract=how.extract,
        settings=settings or _USUAL,
        metric_set=metric_set,
        task_metrics=how.metrics if isinstance(metrics, str) else metrics,
        weights=weights,
        seed=seed,
    )


def find_scorer(
    given: AnyScorer,
    model: Denoiser,
    prompts: Sequence[str] | Mapping[str, str],
    *,
    kind: Kind = "number",
    seed: int = 0,
) -> Scorer:
    """Return a scorer of answers to these prompts, made of the model where it has to be made.

    Prompts whose items are not those of their texts come by item.
    """
    if isinstance(given, Consistency):
        return given
    scorer: Any = resolve("scorer", given, SCORERS)
    if isinstance(scorer, type) or not hasattr(scorer, "score"):
        questions = prompts if isinstance(prompts, Mapping) else {item_of(p): p for p in prompts}
        try:
            further = taken(scorer, {"kind": kind, "seed": seed})
            scorer = scorer(model, questions, **further)
        except TypeError as error:
            raise SettingsError(f"scorer {given} cannot be made of the model: {error}.") from None
    made: Scorer = resolve("scorer", scorer, {}, ("name", "score"))
    return made


def score(
    model: Denoiser,
    prompt: str,
    answer: str | Sample,
    *,
    kind: Kind = "number",
    settings: ConsistencySettings | None = None,
    metrics: Metrics = "paper",
    weights: Mapping[str, float] | None = None,
    scorer: AnyScorer | None = None,
    seed: int = 0,
) -> Score:
    """Return how far to trust one answer: a text, or a `Sample` drawn here.

    Round trips score it, with these settings, unless another scorer is given.
    """
    scorer = _chosen(scorer, model, kind, settings, metrics, weights, seed)
    return score_many(model, [(prompt, answer)], scorer=scorer, kind=kind, seed=seed)[0]


def _chosen(
    scorer: AnyScorer | None,
    model: Denoiser,
    kind: Kind,
    settings: ConsistencySettings | None,
    metrics: Metrics,
    weights: Mapping[str, float] | None,
    seed: int,
) -> AnyScorer:
    """Return the scorer given, or round trips with these settings, which no other scorer has."""
    if scorer is None or scorer == ROUNDTRIPS:
        return consistency(
            model, kind=kind, settings=settings, metrics=metrics, weights=weights, seed=seed
        )
    given = {"settings": settings not in (None, _USUAL), "metrics": metrics != "paper",
             "weights": weights is not None}  # fmt: skip
    for name in (name for name, is_given in given.items() if is_given):
        raise SettingsError(f"{name} belongs to the round trips; leave it out beside a scorer.")
    return scorer


def score_many(
    model: Denoiser,
    pairs: Sequence[tuple[str, str | Sample]],
    *,
    scorer: AnyScorer | None = None,
    kind: Kind = "number",
    seed: int = 0,
) -> list[Score]:
    """Return how far to trust each (prompt, answer); by round trips unless a scorer is given.

    `kind` is that of the answers, and `seed` that of the draws, for a scorer that has to be made.
    """
    judge = find_scorer(scorer or ROUNDTRIPS, model, [p for p, _ in pairs], kind=kind, seed=seed)
    length = getattr(judge, "length", None)  # of the canvas that one was fitted on
    samples = [
        a if isinstance(a, Sample) else sample_from_text(model, p, a, length=length)
        for p, a in pairs
    ]
    return [score.signed(judge.name) for score in judge.score(samples)]


def solve(
    model: Denoiser,
    prompt: str,
    *,
    sampler: SamplerSettings | None = None,
    kind: Kind = "number",
    settings: ConsistencySettings | None = None,
    metrics: Metrics = "paper",
    weights: Mapping[str, float] | None = None,
    scorer: AnyScorer | None = None,
    threshold: float | None = None,
    budget: int = 10,
    seed: int = 0,
    examples: Examples = (),
    watch: Watch = lambda sample, score: None,
) -> Decision:
    """Return the first answer whose score exceeds the threshold, or the best within the budget.

    Round trips score it, with these settings, unless another scorer is given. The other arguments
    are those of `solve_many`.
    """
    scorer = _chosen(scorer, model, kind, settings, metrics, weights, seed)
    return solve_many(
        model, [prompt], scorer=scorer, kind=kind, sampler=sampler, threshold=threshold,
        budget=budget, seed=seed, examples=examples, watch=watch,
    )[0]  # fmt: skip


def solve_many(
    model: Denoiser,
    prompts: Sequence[str],
    *,
    scorer: AnyScorer | None = None,
    kind: Kind = "number",
    sampler: SamplerSettings | None = None,
    examples: Examples = (),
    threshold: float | None = None,
    budget: int = 10,
    seed: int = 0,
    watch: Watch = lambda sample, score: None,
) -> list[Decision]:
    """Return a decision per prompt; prompts that have their answer leave the batch.

    Args:
        model: that answers.
        prompts: as a user writes them; a repeated one is answered once.
        scorer: of the answers, as in `find_scorer`; round trips with their defaults if None.
        kind: of the answers: how they are read, and which departures of the preset apply.
        sampler: how answers are written; by default as preset and task, or a fit, have it.
        examples: turns before each prompt.
        threshold: a score above it is accepted; by default the scorer's, or the preset's for it.
        budget: most answers to draw of a prompt.
        seed: of every draw.
        watch: is shown every attempt as it comes.
    """
    how = reader(kind)
    judge = find_scorer(scorer or ROUNDTRIPS, model, prompts, kind=kind, seed=seed)
    fitted = judge.fitted if isinstance(judge, Verifier) else None
    usual = sampler or fitted_sampler(fitted, model, how.name)
    writer = (usual or sampler_settings(model, kind=how.name, canvas=how.canvas)).for_pool(budget)
    check_sampler(fitted, writer)
    ids = {item_of(prompt): model.tokenizer.render(prompt, examples) for prompt in prompts}

    def draw(items: Sequence[str], number: int) -> list[Sample]:
        rows = [ids[item] for item in items]
        return sample_ids(model, rows, writer, items=items, number=number, seed=seed)

    limit = threshold_for(model, how.name, judge) if threshold is None else threshold
    decisions = reject(draw, judge, list(ids), threshold=limit, budget=budget, watch=watch)
    by_item = {decision.item: decision for decision in decisions}
    return [by_item[item_of(prompt)] for prompt in prompts]
