"""The manifest of a collection: begun, checked against earlier runs, and noted in as work goes on.

What stands in it is told in `records.manifest`. A run that would add answers of another kind to the
records is refused.
"""

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from remask.collect.chunks import Chunk, cut
from remask.collect.engine import RemoteModel, Shards
from remask.collect.settings import FREE_BASELINES
from remask.denoisers.base import Denoiser
from remask.denoisers.identity import fingerprint
from remask.denoisers.native import dtype_of, native_of
from remask.errors import RecordError
from remask.records import outputs
from remask.records.jsonl import Row
from remask.records.manifest import (
    REMEDY,
    Manifest,
    ModelIdentity,
    RunEntry,
    ShardRange,
    manifest_path,
    read_manifest,
)
from remask.tasks.base import SPELLING
from remask.tasks.public.source import split_named

# May differ between runs: they change what is there, or how it is reached, and no record.
FREE = ("problems", "chunk", "tokens", "data", "allow_execution")
# What a manifest written before these settings existed stands for.
UNSAID = {"wording": "llada", "shots": 0, "baselines": list(FREE_BASELINES), "probes": []}


def claim(out: Path, data: Path | None, *, force: bool = False) -> None:
    """Raise, before a model is loaded, where records would be written over anything else."""
    rows = [] if data is None else [data]
    if data is not None and data.is_dir():
        rows = [path for path in data.iterdir() if split_named(path)]
    for path in (out, manifest_path(out)):
        outputs.refuse_inputs(path, rows)
    if out.is_dir():
        raise RecordError(f"{out} is a folder; name a file.")
    if out.exists() and out.stat().st_size and not force:
        read_manifest(out)  # one without a manifest is no collection


@dataclass(kw_only=True)
class Run:
    """One call of `collect`, noted in the manifest as it goes."""

    out: Path
    manifest: Manifest
    entry: RunEntry
    begun: float

    def note(self, done: int, rows: Iterable[Row], finished: bool) -> None:
        """Write how far the run is, and what these further rows cost."""
        rows = list(rows)
        self.entry.stop = done
        self.entry.forwards += sum(map(_spent_on, rows))
        self.entry.errors += sum("error" in row for row in rows)
        self.entry.seconds = round(time.monotonic() - self.begun, 3)
        if finished:
            self.entry.finished = _now()
        self.manifest.write(self.out)


def _spent_on(row: Row) -> int:
    """Return the forward passes that a row cost: to write, to verify and to compare."""
    baselines = sum(cost["forwards"] for cost in row.get("baselines", {}).values())
    features = row.get("features", {})
    probes = sum(value for name, value in features.items() if name.endswith(".forwards"))
    return int(row.get("forwards", 0) + row.get("verify_forwards", 0) + baselines + probes)


def begin(
    denoiser: Denoiser,
    settings: Mapping[str, Any],
    dataset: Mapping[str, str] | None,
    out: Path,
    *,
    notes: Mapping[str, Any] | None = None,
    scorers: Mapping[str, int] | None = None,
    task: str = "",
    shard: ShardRange | None = None,
) -> Manifest:
    """Return the manifest of these records, new or continued, or refuse to mix two collections.

    `task` is that of the problems, by which a preset has its thresholds.

    One without any record is no obstacle, as nothing would be mixed. Nothing is written here.
    """
    now = Manifest(
        settings=json.loads(json.dumps({"model": denoiser.name, **settings}, default=str)),
        notes=None if notes is None else dict(notes),
        dataset=None if dataset is None else dict(dataset),
        model=identify(denoiser),
        scorers=dict(scorers or {}),
        thresholds=dict(denoiser.preset.for_task(task).thresholds),
        shard=shard,
    )
    if not out.exists() or not out.stat().st_size:
        return now
    earlier = read_manifest(out)
    _check(earlier, now, out)
    return replace(earlier, settings=now.settings, thresholds=now.thresholds)


def discard(out: Path) -> None:
    """Empty a file of records, and remove what stands beside it; the file itself stays held."""
    if out.exists():
        os.truncate(out, 0)
    manifest_path(out).unlink(missing_ok=True)
    Shards.beside(out).clear()


def common_settings(manifest: Manifest) -> dict[str, Any]:
    """Return what records must have in common to stand in one file."""
    fixed = {name: value for name, value in manifest.settings.items() if name not in FREE}
    model = manifest.model or ModelIdentity()
    sha256 = (manifest.dataset or {}).get("sha256")
    return {**fixed, "sha256": sha256, "revision": model.revision, "dtype": model.dtype}


def _in_chunks(run: RunEntry) -> list[Chunk]:
    return cut(run.start, run.problems, run.chunk)


def resume_at(
    manifest: Manifest,
    done: int,
    chunks_of: Callable[[RunEntry], list[Chunk]] = _in_chunks,
    per: int = 1,
) -> int:
    """Return where to go on once `done` are whole: the first place of an unfinished chunk.

    A kill in the middle of a write leaves part of a chunk. It is worked again, because its answers
    share batches, and other batches may change the last digit of a number. A problem has `per`
    places.
    """
    for run in reversed(manifest.runs):
        if run.start * per + (run.from_sample or 0) <= done < run.problems * per:
            return max(chunk.start for chunk in chunks_of(run) if chunk.start <= done)
    return done


def start(
    denoiser: Denoiser,
    manifest: Manifest,
    done: int,
    out: Path,
    engine: str = "local",
    *,
    from_sample: int | None = None,
    retried: int | None = None,
    budget: int | None = None,
) -> Run:
    """Return a run that begins at problem `done`, once the manifest says so."""
    entry = RunEntry(
        started=_now(),
        versions=versions(),
        device=str(denoiser.device),
        engine=engine,
        problems=manifest.problems.stop,
        chunk=manifest.settings["chunk"],
        tokens=manifest.settings.get("tokens"),
        start=done,
        stop=done,
        from_sample=from_sample,
        retried=retried,
        budget=budget,
    )
    manifest = replace(manifest, runs=[*manifest.runs, entry])
    out.parent.mkdir(parents=True, exist_ok=True)
    manifest.write(out)
    return Run(out=out, manifest=manifest, entry=entry, begun=time.monotonic())


def versions() -> dict[str, str | None]:
    """Return the versions that decide about the numbers."""
    packages = {name: _version(name) for name in ("remask", "torch", "tokenizers")}
    return {"python": platform.python_version(), **packages}


def _version(package: str) -> str | None:
    """Return the installed version; None for a checkout that runs without being installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def identify(denoiser: Denoiser) -> ModelIdentity:
    """Return which model this is; what cannot be known of a model of somebody else's is None."""
    folder, weights = denoiser.name, None
    if isinstance(denoiser, RemoteModel):
        folder, weights = denoiser.folder, denoiser.weights
    elif native := native_of(denoiser):
        weights = fingerprint(native.model)
    return ModelIdentity(
        name=denoiser.name,
        revision=revision_of(folder),
        dtype=dtype_of(denoiser),
        weights=weights,
    )


def revision_of(name: str) -> str | None:
    """Return the commit that the hub's cache holds of a model; None where there is none."""
    place = name
    if name.count("/") == 1 and not Path(name).exists():
        from huggingface_hub import try_to_load_from_cache

        place = str(try_to_load_from_cache(name, "config.json"))
    match = re.search(r"snapshots/([0-9a-f]{40})(?:/|$)", place)
    return match[1] if match else None


def _check(earlier: Manifest, now: Manifest, out: Path) -> None:
    """Raise where the records that are there are of another kind."""
    if not all(run.problems and run.chunk for run in earlier.runs):
        raise RecordError(f"{manifest_path(out)} is damaged: a run has no chunk; {REMEDY}.")
    before = {**UNSAID, **earlier.settings, "sampler": earlier.sampler}
    other = [
        name
        for name, value in now.settings.items()
        if name not in FREE and before.get(name) != value
    ]
    if other:
        raise RecordError(
            f"{out} was collected with another {' and '.join(other)}; repeat the earlier command "
            "to continue it, choose another file, or replace it with --force."
        )
    _check_shard(earlier, now, out)
    _check_dataset(earlier.dataset or {}, now.dataset, out)
    _check_model(earlier.model or ModelIdentity(), now.model or ModelIdentity(), out)
    _check_votes(earlier.notes or {}, now.notes or {}, out)
    _check_scorers(earlier, now, out)


def _check_shard(earlier: Manifest, now: Manifest, out: Path) -> None:
    """Raise where the problems that are there are those of another shard."""
    before, after = (
        f"shard {one.shard} of {one.settings['problems']} problems" if one.shard else "all problems"
        for one in (earlier, now)
    )
    if before != after:
        raise RecordError(
            f"{out} is there for {before}, and {after} would be added; repeat the earlier command "
            "to continue it, choose another file for each shard, or replace it with --force."
        )


def _check_dataset(earlier: Mapping[str, Any], now: Mapping[str, Any] | None, out: Path) -> None:
    if now and earlier.get("sha256") != now["sha256"]:
        raise RecordError(
            f"{out} was collected from other rows (sha256 {str(earlier.get('sha256'))[:12]}, and "
            f"{now['sha256'][:12]} now); give the earlier data, or choose another file."
        )
    if now and earlier.get("examples") != now.get("examples"):
        raise RecordError(
            f"{out} was collected with other worked examples; give the earlier data, or choose "
            "another file."
        )


def _check_model(earlier: ModelIdentity, now: ModelIdentity, out: Path) -> None:
    for name in ("revision", "dtype", "weights"):
        before, after = getattr(earlier, name), getattr(now, name)
        is_known = before is not None and (name != "weights" or after is not None)
        if is_known and before != after:
            raise RecordError(
                f"{out} was collected with {name} {before} of the model, and this one has {after}; "
                "load the earlier one, or choose another file."
            )


def _check_votes(earlier: Mapping[str, Any], now: Mapping[str, Any], out: Path) -> None:
    """Raise where the answers that are there are compared by something else."""
    before, after = (notes.get("compared_by", SPELLING) for notes in (earlier, now))
    if before != after:
        raise RecordError(
            f"votes on the answers in {out} compare their {before}, and now their {after}; finish "
            "it with the version of remask that began it, choose another file, or replace it with "
            "--force."
        )


def _check_scorers(earlier: Manifest, now: Manifest, out: Path) -> None:
    """Raise where the scores that are there are of another version of their scorer."""
    for name, version in now.scorers.items():
        before = earlier.scorer_version(name)
        if before != version:
            raise RecordError(
                f"{out} holds scores of version {before} of {name}, and this remask gives those of "
                f"version {version}; finish it with the version of remask that began it, choose "
                "another file, or replace it with --force."
            )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
