"""The calls most people need: text in, values out.

    model = remask.load("tiny")                            # or a hub id, with preset="GSM8K"
    answer = remask.sample(model, "Ben has 12 apples. Zoe has 5 more than Ben. How many has Zoe?")
    score = remask.score(model, prompt, answer)            # or the text of any answer
    decision = remask.solve(model, prompt)                 # resample until one is stable

Each has a `_many` form that takes lists and works in batches; one at a time or many at once, the
results are the same.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from remask.answers import extract_choice, extract_number
from remask.consistency.estimator import Consistency
from remask.consistency.settings import ConsistencySettings
from remask.decide.rejection import Watch, reject
from remask.denoisers.base import Denoiser
from remask.errors import InputError, SettingsError
from remask.sampling.sampler import sample as sample_ids
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import TASKS, public
from remask.tasks import task as find_task
from remask.values import Decision, Sample, Score

Examples = Sequence[tuple[str, str]]  # earlier turns: what was asked, and the reply
_TEXT = ("token_accuracy", "semantic_similarity", "character_similarity", "confidence")


class Reader(NamedTuple):
    """How to read an answer: where its final result stands, and which metrics make sense."""

    extract: Callable[[str], str | None]
    metrics: tuple[str, ...]
    canvas: int | None = None  # tokens that any solution of a task needs; None: the kind is no task


READERS = {
    "number": Reader(extract_number, TASKS["wordmath"].metrics),
    "choice": Reader(extract_choice, TASKS["choice"].metrics),
    "code": Reader(TASKS["pycode"].extract, TASKS["pycode"].metrics),
    "text": Reader(lambda text: None, _TEXT),  # no final result: what the words alone tell
}


def reader(kind: str) -> Reader:
    """Return how to read answers of a kind (number, choice, code, text) or of a task."""
    if kind in READERS:
        return READERS[kind]
    tasks = (*TASKS, *public.NAMES)
    if kind in tasks:
        task = find_task(kind)
        canvas = max(task.canvas_length(level) for level in task.levels)
        return Reader(task.extract, task.metrics, canvas)
    known = ", ".join([*READERS, *(name for name in tasks if name not in READERS)])
    raise SettingsError(f"kind {kind!r} is unknown; use one of {known}.")


def item_of(prompt: str) -> str:
    """Return the identity of a prompt: its text, hashed."""
    return "prompt/" + hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=8).hexdigest()


def sample(
    model: Denoiser,
    prompt: str,
    *,
    settings: SamplerSettings | None = None,
    number: int = 0,
    seed: int = 0,
) -> Sample:
    """Return the model's answer to one prompt; another `number` is another sample."""
    return sample_many(model, [prompt], settings=settings, number=number, seed=seed)[0]


def sample_many(
    model: Denoiser,
    prompts: Sequence[str],
    *,
    settings: SamplerSettings | None = None,
    items: Sequence[str] | None = None,
    number: int = 0,
    seed: int = 0,
) -> list[Sample]:
    """Return the model's answer to each prompt; `items` name them, their texts do by default."""
    return sample_ids(
        model,
        [model.tokenizer.render(prompt) for prompt in prompts],
        settings or sampler_settings(model),
        items=items or [item_of(prompt) for prompt in prompts],
        number=number,
        seed=seed,
    )


def sample_from_text(
    model: Denoiser,
    prompt: str,
    answer: str,
    *,
    item: str | None = None,
    length: int | None = None,
    examples: Examples = (),
) -> Sample:
    """Return an answer you already have as a `Sample`, on a canvas with an EOS tail.

    The tail keeps the length from being given away: the canvas is the model's usual one, or the
    next multiple of 32 tokens that holds the answer and its end. With a `length` it is that long,
    and an answer that does not fit is refused. `examples` are turns before the prompt.
    """
    tokenizer = model.tokenizer
    if not answer.strip():
        raise InputError("the answer is empty; give the text to be verified.")
    ids = tokenizer.encode(answer, "answer")
    if any(end in ids for end in tokenizer.eos_ids):
        raise InputError("the answer contains an end token; remove it and what follows.")
    if length is not None and len(ids) + 1 > length:
        raise InputError(
            f"the answer takes {len(ids) + 1} tokens with its end, and the canvas has {length}; "
            "shorten it, or choose a longer canvas."
        )
    length = length or max(model.preset.length, -(-(len(ids) + 1) // 32) * 32)
    return Sample(
        item=item or item_of(prompt),
        prompt=tuple(tokenizer.render(prompt, examples)),
        canvas=(*ids, *[tokenizer.eos_id] * (length - len(ids))),
        num_response=len(ids) + 1,
        text=answer,
    )


def score(
    model: Denoiser,
    prompt: str,
    answer: str | Sample,
    *,
    kind: str = "number",
    settings: ConsistencySettings | None = None,
    metrics: Literal["paper", "core"] = "paper",
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Score:
    """Return how far to trust one answer: a text, or a `Sample` drawn here."""
    return score_many(
        model,
        [(prompt, answer)],
        kind=kind,
        settings=settings,
        metrics=metrics,
        weights=weights,
        seed=seed,
    )[0]


def score_many(
    model: Denoiser,
    pairs: Sequence[tuple[str, str | Sample]],
    *,
    kind: str = "number",
    settings: ConsistencySettings | None = None,
    metrics: Literal["paper", "core"] = "paper",
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
) -> list[Score]:
    """Return how far to trust each (prompt, answer)."""
    scorer = consistency(
        model, kind=kind, settings=settings, metrics=metrics, weights=weights, seed=seed
    )
    return scorer.score(
        [a if isinstance(a, Sample) else sample_from_text(model, prompt, a) for prompt, a in pairs]
    )


def consistency(
    model: Denoiser,
    *,
    kind: str = "number",
    settings: ConsistencySettings | None = None,
    metrics: Literal["paper", "core"] = "paper",
    weights: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Consistency:
    """Return the round-trip scorer for answers of a kind."""
    how = reader(kind)
    return Consistency(
        denoiser=model,
        extract=how.extract,
        settings=settings or ConsistencySettings(),
        metric_set=metrics,
        task_metrics=how.metrics,
        weights=weights,
        seed=seed,
    )


def solve(
    model: Denoiser,
    prompt: str,
    *,
    kind: str = "number",
    sampler: SamplerSettings | None = None,
    settings: ConsistencySettings | None = None,
    metrics: Literal["paper", "core"] = "paper",
    weights: Mapping[str, float] | None = None,
    threshold: float | None = None,
    budget: int = 10,
    seed: int = 0,
    examples: Examples = (),
    watch: Watch = lambda sample, score: None,
) -> Decision:
    """Return the first answer whose score exceeds the threshold, or the best within the budget."""
    return solve_many(
        model,
        [prompt],
        kind=kind,
        sampler=sampler,
        settings=settings,
        metrics=metrics,
        weights=weights,
        threshold=threshold,
        budget=budget,
        seed=seed,
        examples=examples,
        watch=watch,
    )[0]


def solve_many(
    model: Denoiser,
    prompts: Sequence[str],
    *,
    kind: str = "number",
    sampler: SamplerSettings | None = None,
    settings: ConsistencySettings | None = None,
    metrics: Literal["paper", "core"] = "paper",
    weights: Mapping[str, float] | None = None,
    threshold: float | None = None,
    budget: int = 10,
    seed: int = 0,
    examples: Examples = (),
    watch: Watch = lambda sample, score: None,
) -> list[Decision]:
    """Return a decision per prompt; prompts that have their answer leave the batch.

    `examples` are turns before each prompt; `watch` is told of every attempt as it comes.
    """
    usual = sampler or sampler_settings(model, kind=kind, canvas=reader(kind).canvas)
    writer = usual.for_pool(budget)
    scorer = consistency(
        model, kind=kind, settings=settings, metrics=metrics, weights=weights, seed=seed
    )
    ids_by_item = {item_of(prompt): model.tokenizer.render(prompt, examples) for prompt in prompts}

    def draw(items: Sequence[str], number: int) -> list[Sample]:
        ids = [ids_by_item[item] for item in items]
        return sample_ids(model, ids, writer, items=items, number=number, seed=seed)

    limit = model.preset.for_task(kind).threshold if threshold is None else threshold
    decided = reject(draw, scorer, list(ids_by_item), threshold=limit, budget=budget, watch=watch)
    by_item = {decision.item: decision for decision in decided}
    return [by_item[item_of(prompt)] for prompt in prompts]
