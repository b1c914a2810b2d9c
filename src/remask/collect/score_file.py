"""Score the answers in a file: the same rows come out with columns added.

The results are computed by `runner`, which an interrupted run can resume; the output appears in one
move when every row has its result. A row's draws are keyed by its `id`, or by its prompt if it has
none, so that a score depends neither on batches nor on interruptions.

A shard is a part of the rows, cut between chunks of the whole file, so that its batches are those
of a single job. `join` makes one file of all shards.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from remask import api
from remask.collect import runner
from remask.collect.chunks import Chunk, RowSize, cut, work_budget
from remask.collect.engine import ChunkedWork, Engine, Lines, Local
from remask.collect.job_shard import JobShard
from remask.collect.manifest import identify, new_entry
from remask.collect.settings import ScoreSettings
from remask.decide.stages import StagedVerifier
from remask.denoisers.base import Denoiser
from remask.errors import DenoiserError, InputError
from remask.extension import resolve
from remask.probes.settings import Probe
from remask.records import outputs
from remask.records.jsonl import Row
from remask.records.manifest import Manifest, ShardRange, manifest_path, part_path
from remask.records.parquet import (
    ACCEPTED,
    ADDED,
    REASON,
    SCORER,
    STAGE,
    RowTable,
    file_format,
    read_table,
)
from remask.sampling.batches import check_length, token_budget
from remask.sampling.settings import sampler_settings
from remask.scoring.registry import baseline_forwards
from remask.values import ROUNDTRIPS, Sample, Score, Scorer, scores_of
from remask.verifier.columns import LABEL_FREE_PROBES, score_name


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreJob:
    """A file to be scored."""

    table: RowTable
    out: Path
    settings: ScoreSettings
    document: Row  # the settings, for the manifest
    fitted: StagedVerifier | None = None  # of the scorer `verifier`; None: label-free
    shard: JobShard | None = None  # None: all rows are scored here
    shard_range: ShardRange | None = None  # its rows; None before `divided`
    force: bool = False

    @property
    def rows(self) -> range:
        """The rows that are scored here, by number."""
        part = self.shard_range
        return range(len(self.table)) if part is None else range(part.start, part.stop)

    @property
    def texts(self) -> list[Row]:
        """What a score depends on, of every row of the file; other columns may hold anything."""
        return self.table.select((self.settings.prompt_column, self.settings.answer_column, "id"))

    def manifest(self) -> Manifest:
        """Return the manifest of a new run, without the model."""
        shard = self.shard_range
        if shard is None and self.shard is not None:
            shard = ShardRange(number=self.shard.number, of=self.shard.of, start=0, stop=0)
        return Manifest(
            settings={**self.document, "problems": len(self.table)},
            scorers={self.settings.scorer: api.scorer_version(self.settings.scorer)},
            shard=shard,
        )


@dataclass(frozen=True, kw_only=True)
class ScoreSummary:
    """Counts of a finished job."""

    rows: int
    failed: int
    forwards: int  # of all rows, including those of earlier runs
    resumed: int  # rows that an earlier run scored
    accepted: int | None = None  # rows above the certified threshold; None without one
    first_error: str = ""


def prepare(
    source: Path,
    out: Path,
    settings: ScoreSettings,
    *,
    fitted: StagedVerifier | None = None,
    inputs: Sequence[Path | None] = (),
    force: bool = False,
    shard: JobShard | None = None,
) -> ScoreJob:
    """Return the job, and refuse bad files before a model is loaded.

    Args:
        source: the rows.
        out: where they are written with their scores; see `outputs`.
        settings: of the scores.
        fitted: verifier, if it is the scorer; None: label-free.
        inputs: other files that are read, and must not be overwritten.
        force: replace `out`, and an unfinished run with other settings.
        shard: the part of the rows to score, into JSON lines; None: all rows.
    """
    api.reader(settings.kind)
    if settings.scorer != ROUNDTRIPS:
        resolve("scorer", settings.scorer, api.SCORERS)
    for path in (out, part_path(out), manifest_path(out)):
        outputs.refuse_inputs(path, (source, *inputs))
    if shard is not None and file_format(out) == "parquet":
        raise InputError(f"{out} is Parquet, and shards are joined as lines; name a .jsonl output.")
    outputs.claim(out, force=force or manifest_path(out).exists())
    table = read_table(source)
    _check_columns(table, source, settings)
    table.check(out)
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    fit = None
    if fitted is not None:
        fit = hashlib.sha256(json.dumps(asdict(fitted)).encode()).hexdigest()[:16]
    document = json.loads(json.dumps({"input": digest, **asdict(settings), "fitted": fit}))
    job = ScoreJob(
        table=table, out=out, settings=settings, document=document, fitted=fitted, shard=shard,
        force=force,
    )  # fmt: skip
    if not force:
        runner.check(out, job.manifest())
    return job


def divided(denoiser: Denoiser, job: ScoreJob, batch: int) -> ScoreJob:
    """Return a job that knows the rows of its shard.

    They depend on the speed of the model's device: resume a shard on the same kind of device.
    """
    if job.shard is None or job.shard_range is not None:
        return job
    chunks = _chunks(denoiser, job, range(len(job.table)), batch)
    return replace(job, shard_range=job.shard.range_in([0, *(chunk.stop for chunk in chunks)]))


def score_file(
    denoiser: Denoiser,
    job: ScoreJob,
    *,
    batch: int = 32,
    progress: Callable[[int, int], None] = lambda done, forwards: None,
    engine: Engine | None = None,
) -> ScoreSummary:
    """Score the remaining rows, write the output file and return the counts.

    A chunk has `batch` rows, or fewer if their tokens fill a pass or a minute. `progress` is called
    with the number of finished rows and the forward passes of this run. The `engine`
    (default: this process) does not affect the results.
    """
    job = divided(denoiser, job, batch)
    texts, engine = job.texts, engine or Local(denoiser)
    new = job.manifest()
    new = replace(new, settings={**new.settings, "batch": batch}, model=identify(denoiser))
    with runner.open_results(job.out, new, force=job.force) as results:
        missing = results.missing
        resumed = done = len(job.rows) - len(missing)
        work = ChunkedWork(
            _chunks(denoiser, job, missing, batch),
            lambda chunk: texts[chunk.start : chunk.stop],
            partial(scored_rows, job.settings, job.fitted),
        )
        entry = new_entry(denoiser, engine.name, missing, job.rows.stop, most=batch)
        progress(done, 0)
        if missing:
            for chunk, _ in results.run(engine, work, entry):
                done += chunk.stop - chunk.start
                progress(done, entry.forwards)
        write = job.table.only(job.rows).write
        results.finish(partial(write, form=file_format(job.out)))
    return _summary(job, resumed)


def _summary(job: ScoreJob, resumed: int) -> ScoreSummary:
    """Return the counts of a finished output."""
    results = read_table(job.out).select(("remask_error", "remask_forwards", ACCEPTED))
    errors = [row["remask_error"] for row in results if row["remask_error"] is not None]
    decides = job.settings.threshold is not None
    return ScoreSummary(
        rows=len(results),
        failed=len(errors),
        forwards=sum(row["remask_forwards"] for row in results),
        resumed=resumed,
        accepted=sum(row[ACCEPTED] for row in results) if decides else None,
        first_error=errors[0] if errors else "",
    )


def _check_columns(table: RowTable, source: Path, settings: ScoreSettings) -> None:
    added = (*ADDED, SCORER, STAGE, REASON, ACCEPTED)
    taken = [name for name in added if name in table.columns]
    if taken:
        raise InputError(f"{source} has a column {taken[0]} already; rename or drop it.")
    for name in (settings.prompt_column, settings.answer_column):
        if len(table) and name not in table.columns:
            listed = ", ".join(table.columns)
            raise InputError(f"{source} has no column {name!r}; it has {listed}.")


def _chunks(denoiser: Denoiser, job: ScoreJob, rows: Sequence[int], batch: int) -> list[Chunk]:
    """Return rows in chunks of about a minute; a row that cannot be scored has no tokens."""
    texts, settings = job.texts, job.settings
    samples = (_sample_of(denoiser, texts[row], settings) for row in rows)
    sizes = (
        RowSize(len(s.prompt) + len(s.canvas)) if isinstance(s, Sample) else RowSize(0)
        for s in samples
    )
    most, work = token_budget(denoiser.device), work_budget(denoiser)
    if work is not None:
        passes = settings.consistency.trips * settings.consistency.rebuild_steps
        if settings.scorer != ROUNDTRIPS:
            passes = _passes(settings.scorer, denoiser)
        most = min(most, work // passes)
    return cut(zip(rows, sizes, strict=True), batch, tokens=most)


def _passes(scorer: str, denoiser: Denoiser) -> int:
    """Return about how many passes a scorer takes of an answer."""
    if scorer == "verifier":
        return sum(Probe.named(name).passes for name in LABEL_FREE_PROBES)
    return baseline_forwards([scorer], denoiser, sampler_settings(denoiser)) or 1


def scored_rows(
    settings: ScoreSettings,
    fitted: StagedVerifier | None,
    denoiser: Denoiser,
    rows: Sequence[Row],
) -> Lines:
    """Return the added columns of each row, as the one line that a row has."""
    return [[row] for row in score_rows(settings, fitted, denoiser, rows)]


def score_rows(
    settings: ScoreSettings,
    fitted: StagedVerifier | None,
    denoiser: Denoiser,
    rows: Sequence[Row],
) -> list[Row]:
    """Return the added columns of each row; one that cannot be scored says why."""
    scorer = _scorer(settings, fitted, denoiser, rows)
    samples = [_sample_of(denoiser, row, settings) for row in rows]
    scored = iter(_scores(scorer, [s for s in samples if isinstance(s, Sample)]))
    scores = [next(scored) if isinstance(s, Sample) else s for s in samples]
    results = [_result(score) for score in scores]
    if settings.scorer != ROUNDTRIPS:
        is_fitted = fitted is not None and not fitted.reason
        name = score_name(scorer.name, at_hand=True, is_fitted=is_fitted)  # where nothing is scored
        names = [name if isinstance(s, str) else s.signed(name).scorer for s in scores]
        results = [{**row, SCORER: own} for row, own in zip(results, names, strict=True)]
    if fitted is not None:
        results = [{**row, **_fit(s)} for row, s in zip(results, scores, strict=True)]
    pairs = zip(results, scores, strict=True)
    return [_decided(row, score, settings.threshold) for row, score in pairs]


def _scorer(
    settings: ScoreSettings,
    fitted: StagedVerifier | None,
    denoiser: Denoiser,
    rows: Sequence[Row],
) -> Scorer:
    s = settings
    if s.scorer == ROUNDTRIPS:
        return api.consistency(
            denoiser, kind=s.kind, settings=s.consistency, metrics=s.metrics, weights=s.weights,
            seed=s.seed,
        )  # fmt: skip
    prompts = [p for row in rows if isinstance(p := row.get(s.prompt_column), str)]
    given: api.AnyScorer = s.scorer
    if s.scorer == "verifier":
        given = partial(api.verifier, fitted=fitted, budget=s.max_forwards)
    return api.find_scorer(given, denoiser, prompts, kind=s.kind, seed=s.seed)


def _sample_of(denoiser: Denoiser, row: Row, settings: ScoreSettings) -> Sample | str:
    """Return the row's answer, or the sentence that says why it cannot be scored."""
    prompt, answer = row.get(settings.prompt_column), row.get(settings.answer_column)
    for name, value in ((settings.prompt_column, prompt), (settings.answer_column, answer)):
        if not isinstance(value, str):
            return f"{name} is {'missing' if value is None else type(value).__name__}, not text."
    named = row.get("id") is not None and settings.scorer == ROUNDTRIPS
    item = str(row["id"]) if named else None
    try:
        sample = api.sample_from_text(
            denoiser, str(prompt), str(answer), item=item, length=settings.length
        )
        check_length(denoiser, len(sample.prompt), len(sample.canvas))
    except InputError as error:
        return str(error)
    return sample


def _scores(scorer: Scorer, samples: Sequence[Sample]) -> list[Score | str]:
    """Return the scores; where the model breaks on a batch, only the answers that break it fail."""
    if not samples:
        return []
    try:
        return [*scores_of(scorer, samples)]
    except (DenoiserError, InputError) as error:
        if len(samples) == 1:
            return [str(error)]
        return [score for sample in samples for score in _scores(scorer, [sample])]


def _result(score: Score | str) -> Row:
    """Return the added columns of one row, rounded; in another batch the last digit may differ."""
    if isinstance(score, str):
        return dict(zip(ADDED, (None, None, None, None, 0, score), strict=True))
    metrics = {name: round(value, 6) for name, value in score.by_metric.items()}
    drift = [_rounded(d) for d in score.drift]
    values = (_rounded(score.value), _rounded(score.stderr), metrics, drift, score.forwards)
    error = score.reason or None if score.value is None else None
    return dict(zip(ADDED, (*values, error), strict=True))


def _fit(score: Score | str) -> Row:
    """Return the columns that tell a probability from a label-free mean."""
    if isinstance(score, str):
        return {STAGE: None, REASON: None}
    reason = None if score.value is None else score.reason
    return {STAGE: score.stage or None, REASON: reason or None}


def _decided(row: Row, score: Score | str, threshold: float | None) -> Row:
    """Return the added columns with the decision of a certified threshold.

    Both the score and its rounded value must exceed the threshold.
    """
    if threshold is None:
        return row
    shown = Score(value=row["remask_score"])
    accepted = isinstance(score, Score) and score.exceeds(threshold) and shown.exceeds(threshold)
    return {**row, ACCEPTED: accepted}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
