"""Answers in a file -> the same file with their scores, in chunks that can be interrupted.

Results are appended to OUT.part, one line per chunk, each on the disk before the next is begun; the
same command continues after the last whole line. OUT itself appears in one move when every row has
its result. A row's draws are keyed by its `id`, or by its prompt where there is none, so a score
depends neither on batches nor on interruptions. Another scorer than the round trips is named in a
column of its own, as its scores are, and finds the question about an answer by the prompt.

A shard is a part of the rows, cut between chunks of the whole file, so that its batches are those
of one job. What it belongs to stands in a manifest beside it, and `join` makes one file of all.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from remask import api
from remask.baselines.makers import baseline_forwards
from remask.collect.chunks import Chunk, cut_by_tokens, work_budget
from remask.collect.engine import ChunkedWork, Engine, Local, Shards, append_results
from remask.collect.job_shard import JobShard
from remask.collect.manifest import identify
from remask.collect.settings import ScoreSettings
from remask.decide.stages import StagedVerifier
from remask.denoisers.base import Denoiser
from remask.errors import DenoiserError, InputError, RecordError, SettingsError
from remask.extension import resolve
from remask.probes.settings import Probe
from remask.records import jsonl, outputs
from remask.records.jsonl import Row
from remask.records.manifest import Manifest, ShardRange, manifest_path, read_manifest
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
from remask.values import ROUNDTRIPS, Sample, Score, Scorer
from remask.verifier.columns import LABEL_FREE_PROBES, score_name

_UNSAID = {"scorer": ROUNDTRIPS, "scorer_version": 1}  # by a run that an older version began
_FIRST = b'{"asked": {'  # what the results of an unfinished run begin with


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreJob:
    """A file to be scored, and how far an earlier run came."""

    table: RowTable
    out: Path
    settings: ScoreSettings
    begun_with: Row  # the settings, a hash of the file, and the shard
    results: list[Row]  # of the first rows
    fitted: StagedVerifier | None = None  # of the scorer `verifier`; None: label-free
    shard: JobShard | None = None  # None: all rows are scored here
    shard_range: ShardRange | None = None  # its rows; None until `divided`

    @property
    def part(self) -> Path:
        """The file that holds the results until all are there."""
        return _part(self.out)

    @property
    def rows(self) -> range:
        """The rows that are scored here, by number."""
        part = self.shard_range
        return range(len(self.table)) if part is None else range(part.start, part.stop)

    @property
    def texts(self) -> list[Row]:
        """What a score depends on, of every row of the file; other columns may hold anything."""
        return self.table.select((self.settings.prompt_column, self.settings.answer_column, "id"))


@dataclass(frozen=True, kw_only=True)
class ScoreSummary:
    """What a finished job amounts to."""

    rows: int
    failed: int
    forwards: int  # of all rows, those of earlier runs included
    resumed: int  # rows that an earlier run had scored
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
    """Return the job, begun or continued; refuse bad files before a model is loaded.

    Args:
        source: the rows.
        out: where they go with their scores; see `outputs`.
        settings: of the scores.
        fitted: verifier, where it is the scorer; None: label-free.
        inputs: what else is read, and must not be overwritten.
        force: replace `out`, and what a run with other settings has left of it.
        shard: the part of the rows that is scored here, into JSON lines; None: all of them.
    """
    api.reader(settings.kind)
    if settings.scorer != ROUNDTRIPS:
        resolve("scorer", settings.scorer, api.SCORERS)
    for path in (out, _part(out), manifest_path(out)):
        outputs.refuse_inputs(path, (source, *inputs))
    if shard is not None and file_format(out) == "parquet":
        raise InputError(f"{out} is Parquet, and shards are joined as lines; name a .jsonl output.")
    outputs.claim(out, force=force)
    table = read_table(source)
    _check_columns(table, source, settings)
    table.check(out)
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    version = api.scorer_version(settings.scorer)
    document = {"input": digest, **asdict(settings), "scorer_version": version}
    document["fitted"] = None if fitted is None else asdict(fitted)
    document["shard"] = None if shard is None else str(shard)
    begun_with = json.loads(json.dumps(document))
    out.parent.mkdir(parents=True, exist_ok=True)
    results = _begin(_part(out), begun_with, force=force)
    return ScoreJob(
        table=table, out=out, settings=settings, begun_with=begun_with, results=results,
        fitted=fitted, shard=shard,
    )  # fmt: skip


def divided(denoiser: Denoiser, job: ScoreJob, batch: int) -> ScoreJob:
    """Return a job that knows which rows are its shard's, and say so beside its output.

    They depend on what the model's device does in a minute: a shard is finished where it was begun.
    """
    if job.shard is None or job.shard_range is not None:
        return job
    chunks = _chunks(denoiser, job.texts, 0, batch, job.settings)
    try:
        part = job.shard.range_in([0, *(chunk.stop for chunk in chunks)])
    except SettingsError:
        if not job.results:
            job.part.unlink()  # it was begun for nothing
        raise
    common = {name: value for name, value in job.begun_with.items() if name != "shard"}
    now = Manifest(settings={**common, "batch": batch}, model=identify(denoiser), shard=part)
    if job.results and read_manifest(job.out) != now:
        raise RecordError(
            f"{job.part} was begun with another batch, other weights or on another kind of device; "
            "repeat the earlier command where it ran, or remove that file to start again."
        )
    now.write(job.out)
    return replace(job, shard_range=part)


def score_file(
    denoiser: Denoiser,
    job: ScoreJob,
    *,
    batch: int = 32,
    progress: Callable[[int, int], None] = lambda done, forwards: None,
    engine: Engine | None = None,
) -> ScoreSummary:
    """Score the rows that are left, write the output file and return what came of it.

    A chunk has `batch` rows, or fewer where their tokens fill a pass or a minute. `progress` is
    called with how many rows are done and the forward passes this run has spent. The engine that
    does the work, this process by default, changes no result.
    """
    job = divided(denoiser, job, batch)
    s, rows, results = job.settings, job.texts[: job.rows.stop], [*job.results]
    shards = Shards.of(job.out, job.begun_with)
    chunks = _chunks(denoiser, rows, job.rows.start + len(results), batch, s)
    work = ChunkedWork(
        chunks,
        lambda chunk: rows[chunk.start : chunk.stop],
        partial(score_rows, s, job.fitted),
        shards,
    )
    engine = engine or Local(denoiser)
    forwards = 0
    progress(len(results), forwards)
    with jsonl.alone(job.part):
        for _, more in append_results(job.part, engine, work, lambda rows: [{"rows": rows}]):
            results += more
            forwards += sum(row["remask_forwards"] for row in more)
            progress(len(results), forwards)
        job.table.only(job.rows).write(job.out, results)
        job.part.unlink()
    shards.clear()
    errors = [row["remask_error"] for row in results if row["remask_error"] is not None]
    return ScoreSummary(
        rows=len(job.rows),
        failed=len(errors),
        forwards=sum(row["remask_forwards"] for row in results),
        resumed=len(job.results),
        accepted=None if s.threshold is None else sum(row[ACCEPTED] for row in results),
        first_error=errors[0] if errors else "",
    )


def _part(out: Path) -> Path:
    return Path(f"{out}.part")


def _check_columns(table: RowTable, source: Path, settings: ScoreSettings) -> None:
    added = (*ADDED, SCORER, STAGE, REASON, ACCEPTED)
    taken = [name for name in added if name in table.columns]
    if taken:
        raise InputError(f"{source} has a column {taken[0]} already; rename or drop it.")
    for name in (settings.prompt_column, settings.answer_column):
        if len(table) and name not in table.columns:
            listed = ", ".join(table.columns)
            raise InputError(f"{source} has no column {name!r}; it has {listed}.")


def _begin(part: Path, begun_with: Row, *, force: bool) -> list[Row]:
    """Return the results an interrupted run left, or begin the file with the settings."""
    if part.exists() and not force:
        with part.open("rb") as file:
            first = file.read(len(_FIRST))
        if first != _FIRST[: len(first)]:
            raise RecordError(
                f"{part} is in the way: score keeps its results there, and that file is not its "
                "own; move it, or add --force to replace it."
            )
    jsonl.recover(part)
    lines = list(jsonl.read(part)) if part.exists() else []
    earlier = lines[0].get("asked") if lines else None
    earlier = {**_UNSAID, **earlier} if isinstance(earlier, dict) else {}
    other = [name for name in begun_with if earlier.get(name) != begun_with[name]]
    if len(lines) < 2 or (other and force):  # nothing was scored, or it is given up
        part.unlink(missing_ok=True)
        jsonl.append(part, [{"asked": begun_with}])
        return []
    if other:
        raise RecordError(
            f"{part} was begun with another {' and '.join(other)}; "
            "repeat the earlier command to continue it, or add --force to start again."
        )
    return [row for line in lines[1:] for row in line["rows"]]


def _chunks(
    denoiser: Denoiser, rows: Sequence[Row], start: int, batch: int, settings: ScoreSettings
) -> list[Chunk]:
    """Return the rows from number `start` on in chunks of about a minute.

    One that cannot be scored is short. A single answer is never cut, however long it takes.
    """
    samples = (_sample_of(denoiser, row, settings) for row in rows[start:])
    lengths = [len(s.prompt) + len(s.canvas) if isinstance(s, Sample) else 0 for s in samples]
    most, work = token_budget(denoiser.device), work_budget(denoiser)
    if work is not None:
        passes = settings.consistency.trips * settings.consistency.rebuild_steps
        if settings.scorer != ROUNDTRIPS:
            passes = _passes(settings.scorer, denoiser)
        most = min(most, work // passes)
    return cut_by_tokens(start, lengths, most, batch)


def _passes(scorer: str, denoiser: Denoiser) -> int:
    """Return about how many passes a scorer takes of an answer."""
    if scorer == "verifier":
        return sum(Probe.named(name).passes for name in LABEL_FREE_PROBES)
    return baseline_forwards([scorer], denoiser, sampler_settings(denoiser)) or 1


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
    return [_decided(row, settings.threshold) for row in results]


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
        return [*scorer.score(samples)]
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


def _decided(row: Row, threshold: float | None) -> Row:
    """Return the added columns with the decision, where there is a threshold to decide by."""
    if threshold is None:
        return row
    return {**row, ACCEPTED: Score(value=row["remask_score"]).exceeds(threshold)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
