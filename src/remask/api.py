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

from collections.abc import Mapping, Sequence
from dataclasses import replace

from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import Watch, reject
from remask.decide.settings import Budget
from remask.denoisers.base import Denoiser
from remask.errors import InputError, SettingsError
from remask.sampling.sampler import sample as sample_ids
from remask.sampling.settings import Length, SamplerSettings, sampler_settings
from remask.scoring.context import score_context, threshold_for
from remask.scoring.registry import (
    READERS,
    SCORERS,
    AnyScorer,
    Kind,
    Metrics,
    Prompt,
    Reader,
    ScorerMaker,
    consistency,
    critical_tokens,
    find_scorer,
    item_of,
    kinds_like,
    probe_scorer,
    reader,
    scorer_version,
    verifier,
)
from remask.settings import Number, Seed, Threshold, checked
from remask.values import ROUNDTRIPS, Decision, Sample, Score, scores_of
from remask.verifier.origin import check_sampler, fitted_sampler
from remask.verifier.threshold import ScoreThreshold, Source
from remask.verifier.verifier import Verifier

__all__ = [
    "READERS", "SCORERS", "AnyScorer", "Examples", "Kind", "Metrics", "Prompt", "Reader",
    "ScoreThreshold", "ScorerMaker", "Source", "Verifier", "consistency", "critical_tokens",
    "find_scorer", "item_of", "kinds_like", "probe_scorer", "reader", "sample",
    "sample_from_text", "sample_many", "score", "score_context", "score_many", "scorer_version",
    "scores_of", "solve", "solve_many", "threshold_for", "verifier",
]  # fmt: skip
Examples = Sequence[tuple[str, str]]  # earlier turns: the prompt and the reply
_USUAL = ConsistencySettings()


@checked
def sample(
    model: Denoiser,
    prompt: Prompt,
    *,
    settings: SamplerSettings | None = None,
    number: Number = 0,
    seed: Seed = 0,
    trace: bool = False,
) -> Sample:
    """Return the model's answer to one prompt; each `number` is another sample.

    With `trace` the sample also holds how it was written: see `values.Trace`.
    """
    return sample_many(model, [prompt], settings=settings, number=number, seed=seed, trace=trace)[0]


@checked
def sample_many(
    model: Denoiser,
    prompts: Sequence[Prompt],
    *,
    settings: SamplerSettings | None = None,
    items: Sequence[str] | None = None,
    number: Number = 0,
    seed: Seed = 0,
    trace: bool = False,
) -> list[Sample]:
    """Return the model's answer to each prompt; `items` name them, their texts do by default."""
    if items is not None and len(items) != len(prompts):
        raise InputError(f"items must have one name per prompt ({len(prompts)}), got {len(items)}.")
    samples = sample_ids(
        model,
        [model.tokenizer.render(prompt) for prompt in prompts],
        settings or sampler_settings(model),
        items=[item_of(prompt) for prompt in prompts] if items is None else items,
        number=number,
        seed=seed,
        trace=trace,
    )
    return [_asked(sample, prompt) for sample, prompt in zip(samples, prompts, strict=True)]


def _asked(sample: Sample, prompt: Prompt) -> Sample:
    """Return a sample that knows its prompt as text."""
    return replace(sample, question=prompt) if isinstance(prompt, str) else sample


@checked
def sample_from_text(
    model: Denoiser,
    prompt: Prompt,
    answer: str,
    *,
    item: str | None = None,
    length: Length | None = None,
    examples: Examples = (),
    system: str = "",
) -> Sample:
    """Return an answer you already have as a `Sample`, on a canvas with an EOS tail.

    The tail hides the length of the answer: the canvas is the model's usual one, or the next
    multiple of 32 tokens that holds the answer and its end. With a `length` it is that long, and an
    answer that does not fit is refused. `examples` are turns before the prompt, `system` a system
    turn before all of them.
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
    brought = Sample(
        item=item_of(prompt) if item is None else item,
        prompt=tuple(tokenizer.render(prompt, examples, system)),
        canvas=(*ids, *[tokenizer.eos_id] * (length - len(ids))),
        num_response=len(ids) + 1,
        text=answer,
    )
    return _asked(brought, prompt)


@checked
def score(
    model: Denoiser,
    prompt: Prompt,
    answer: str | Sample,
    *,
    kind: Kind = "number",
    settings: ConsistencySettings | None = None,
    metrics: Metrics = "paper",
    weights: Mapping[str, float] | None = None,
    scorer: AnyScorer | None = None,
    seed: Seed = 0,
) -> Score:
    """Return the score of one answer: a text, or a `Sample`.

    The scorer is the round trips with these settings, unless another one is given.
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
    if scorer is None or (isinstance(scorer, str) and scorer == ROUNDTRIPS):
        return consistency(
            model, kind=kind, settings=settings, metrics=metrics, weights=weights, seed=seed
        )
    given = {"settings": settings not in (None, _USUAL), "metrics": metrics != "paper",
             "weights": weights is not None}  # fmt: skip
    for name in (name for name, is_given in given.items() if is_given):
        raise SettingsError(f"{name} belongs to the round trips; leave it out beside a scorer.")
    return scorer


@checked
def score_many(
    model: Denoiser,
    pairs: Sequence[tuple[Prompt, str | Sample]],
    *,
    scorer: AnyScorer | None = None,
    kind: Kind = "number",
    seed: Seed = 0,
) -> list[Score]:
    """Return the score of each (prompt, answer); round trips score it unless a scorer is given.

    `kind` of the answers and `seed` of the draws are for a scorer that has to be made.
    """
    items = [a.item if isinstance(a, Sample) else item_of(p) for p, a in pairs]
    asked = zip(items, (prompt for prompt, _ in pairs), strict=True)
    questions = {item: prompt for item, prompt in asked if isinstance(prompt, str)}
    scorer = ROUNDTRIPS if scorer is None else scorer
    judge = find_scorer(scorer, model, questions, kind=kind, seed=seed)
    length = judge.length if isinstance(judge, Verifier) else None  # of the canvas of the fit
    samples = [
        _asked(a, p) if isinstance(a, Sample) else sample_from_text(model, p, a, length=length)
        for p, a in pairs
    ]
    return scores_of(judge, samples)


@checked
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
    threshold: Threshold | None = None,
    budget: Budget = 10,
    seed: Seed = 0,
    examples: Examples = (),
    watch: Watch = lambda sample, score: None,
) -> Decision:
    """Return the first answer whose score exceeds the threshold, or the best within the budget.

    The scorer is the round trips with these settings, unless another one is given. See `solve_many`
    for the other arguments.
    """
    scorer = _chosen(scorer, model, kind, settings, metrics, weights, seed)
    return solve_many(
        model, [prompt], scorer=scorer, kind=kind, sampler=sampler, threshold=threshold,
        budget=budget, seed=seed, examples=examples, watch=watch,
    )[0]  # fmt: skip


@checked
def solve_many(
    model: Denoiser,
    prompts: Sequence[str],
    *,
    scorer: AnyScorer | None = None,
    kind: Kind = "number",
    sampler: SamplerSettings | None = None,
    examples: Examples = (),
    threshold: Threshold | None = None,
    budget: Budget = 10,
    seed: Seed = 0,
    watch: Watch = lambda sample, score: None,
) -> list[Decision]:
    """Return a decision per prompt; prompts that have their answer leave the batch.

    Args:
        model: writes the answers.
        prompts: user turns; a repeated prompt is answered once.
        scorer: of the answers, as in `find_scorer`; round trips with their defaults if None.
        kind: of the answers: how they are read, and which departures of the preset apply.
        sampler: how answers are written; by default the settings of preset and task, or of a fit.
        examples: turns before each prompt.
        threshold: a score above it is accepted. By default the threshold of a fit, or of the preset
            for these settings; default round trips fall back to the paper's 0.75, which is not
            validated. Any finite number, because log-likelihoods are scores too.
        budget: maximum answers per prompt.
        seed: of every draw.
        watch: is called with every attempt.
    """
    how = reader(kind)
    scorer = ROUNDTRIPS if scorer is None else scorer
    judge = find_scorer(scorer, model, prompts, kind=kind, seed=seed, sampler=sampler)
    fitted = judge.fitted if isinstance(judge, Verifier) else None
    usual = sampler or fitted_sampler(fitted, model, how.name)
    writer = (usual or sampler_settings(model, kind=how.name, canvas=how.canvas)).for_pool(budget)
    check_sampler(fitted, writer)
    texts = {item_of(prompt): prompt for prompt in prompts}
    ids = {item: model.tokenizer.render(prompt, examples) for item, prompt in texts.items()}

    def draw(items: Sequence[str], number: int) -> list[Sample]:
        rows = [ids[item] for item in items]
        drawn = sample_ids(model, rows, writer, items=items, number=number, seed=seed)
        return [_asked(sample, texts[sample.item]) for sample in drawn]

    limit = threshold_for(model, judge, kind=kind, source="model", given=threshold, stops=True)
    assert limit.value is not None
    decisions = reject(draw, judge, list(ids), threshold=limit.value, budget=budget, watch=watch)
    by_item = {d.item: replace(d, threshold_source=limit.source or "") for d in decisions}
    return [by_item[item_of(prompt)] for prompt in prompts]
