"""What stands beside records: what was asked, where the problems are from, who answered, the cost.

    asked      the settings, by name, and the model
    about      what votes compare answers by; with the baseline `editor`, whether the model edits
    dataset    origin, sha256 and wording of a public benchmark's rows; null for a generated task
    model      name, revision where the hub gave one, dtype, a digest of some weights
    runs       one entry per call that had something to do: versions, device, the problems it worked
               `from` (and `from_sample`) and `to`, of how many, in portions of what size (`chunk`
               problems, `tokens`, `work`, see `pace`), by which engine, seconds, forwards, errors,
               and when it finished; a killed run has no such time

The file is replaced whole, so a kill leaves the one before. Entries are added and never removed. A
run that would add answers of another kind to the records is refused.
"""

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from remask.collect.chunks import Portion, cut
from remask.collect.cluster import Elsewhere
from remask.collect.settings import FREE_BASELINES
from remask.collect.shards import Shards
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser, fingerprint
from remask.errors import RecordError
from remask.records import jsonl, outputs
from remask.records.manifest import COUNTED, REMEDY
from remask.records.manifest import path_of as path_of
from remask.records.manifest import read as read
from remask.tasks.base import SPELLING
from remask.tasks.public.source import split_named

# May differ between runs: they change what is there, or how it is reached, and no record.
FREE = ("problems", "chunk", "tokens", "data", "allow_execution")
# What a manifest written before these settings existed stands for.
UNSAID = {"wording": "llada", "shots": 0, "baselines": list(FREE_BASELINES)}
UNSAID_OF_SAMPLER = {"resample_temperature": None, "sub_block": None}
Document = dict[str, Any]


def sampler_in(asked: Mapping[str, Any]) -> Document:
    """Return the settings of the sampler, with what an older manifest does not say."""
    return {**UNSAID_OF_SAMPLER, **(asked.get("sampler") or {})}


def drawn_as(asked: Mapping[str, Any]) -> str:
    """Return how each pool was drawn: "10 at 1.6", "greedy + 9 at 0.7"; empty where unsaid."""
    sampler, size = sampler_in(asked), asked.get("samples")
    temperature, warmer = sampler.get("temperature"), sampler["resample_temperature"]
    if temperature is None or size is None:
        return ""
    if temperature > 0:
        return f"{size} at {temperature:g}"
    if size == 1:
        return "greedy"
    # Before there was a temperature for them, further samples of a greedy pool were copies.
    return f"{size} greedy copies" if warmer is None else f"greedy + {size - 1} at {warmer:g}"


def drawn_in(text: str) -> str:
    """Return the same of a manifest as it stands on disk; a damaged one tells nothing."""
    try:
        return drawn_as(json.loads(text)["asked"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""


def claim(out: Path, data: Path | None, *, force: bool = False) -> None:
    """Raise, before a model is loaded, where records would be written over anything else."""
    rows = [] if data is None else [data]
    if data is not None and data.is_dir():
        rows = [path for path in data.iterdir() if split_named(path)]
    for path in (out, path_of(out)):
        outputs.refuse_inputs(path, rows)
    if out.is_dir():
        raise RecordError(f"{out} is a folder; name a file.")
    if out.exists() and out.stat().st_size and not force:
        read(out)  # one without a manifest is no collection


@dataclass(kw_only=True)
class Run:
    """One call of `collect`, noted in the manifest as it goes."""

    path: Path
    document: Document
    entry: Document
    begun: float

    def note(self, done: int, rows: Iterable[Mapping[str, Any]], finished: bool) -> None:
        """Write how far the run is, and what these further rows cost."""
        rows = list(rows)
        self.entry["to"] = done
        self.entry["forwards"] += sum(map(spent_on, rows))
        self.entry["errors"] += sum("error" in row for row in rows)
        self.entry["seconds"] = round(time.monotonic() - self.begun, 3)
        if finished:
            self.entry["finished"] = _now()
        write(self.path, self.document)


def spent_on(row: Mapping[str, Any]) -> int:
    """Return the forward passes that a row cost: to write, to verify and to compare."""
    baselines = sum(one["forwards"] for one in row.get("baselines", {}).values())
    return int(row.get("forwards", 0) + row.get("verify_forwards", 0) + baselines)


def begin(
    denoiser: Denoiser,
    asked: Mapping[str, Any],
    dataset: Mapping[str, str] | None,
    out: Path,
    *,
    about: Mapping[str, Any] | None = None,
) -> Document:
    """Return the manifest of these records, new or found, or refuse to mix two different runs.

    One without any record is no obstacle, as nothing would be mixed. Nothing is written here.
    """
    told = json.loads(json.dumps({"model": denoiser.name, **asked}, default=str))
    model = {
        "name": denoiser.name,
        "revision": revision_of(
            denoiser.folder if isinstance(denoiser, Elsewhere) else denoiser.name
        ),
        "dtype": dtype_of(denoiser),
        "weights": weights_of(denoiser),
    }
    if out.exists() and out.stat().st_size:
        found = read(out)
        _check(found, told, dataset, model, out)
        _check_about(found, about, out)
        return {**found, "asked": told, "runs": found.get("runs", [])}
    noted = {} if about is None else {"about": dict(about)}
    return {"asked": told, **noted, "dataset": dataset, "model": model, "runs": []}


def discard(out: Path) -> None:
    """Empty a file of records, and remove what stands beside it; the file itself stays held."""
    if out.exists():
        os.truncate(out, 0)
    path_of(out).unlink(missing_ok=True)
    Shards.beside(out).clear()


def kind_of(document: Document) -> Document:
    """Return what records must have in common to stand in one file."""
    asked = {name: value for name, value in document["asked"].items() if name not in FREE}
    rows, model = document.get("dataset") or {}, document.get("model") or {}
    return {**asked, "sha256": rows.get("sha256")} | {
        k: model.get(k) for k in ("revision", "dtype")
    }


def _in_chunks(run: Document) -> list[Portion]:
    return cut(run["from"], run["problems"], run["chunk"])


def resume_at(
    document: Document,
    done: int,
    portions_of: Callable[[Document], list[Portion]] = _in_chunks,
    per: int = 1,
) -> int:
    """Return where to go on once `done` are whole: the first place of an unfinished portion.

    A kill in the middle of a write leaves part of a portion. It is worked again, because its
    answers share batches, and other batches may change the last digit of a number. A problem has
    `per` places.
    """
    for run in reversed(document["runs"]):
        if run["from"] * per + run.get("from_sample", 0) <= done < run["problems"] * per:
            return max(part.start for part in portions_of(run) if part.start <= done)
    return done


def start(
    denoiser: Denoiser,
    document: Document,
    done: int,
    out: Path,
    engine: str = "local",
    *,
    further: Mapping[str, Any] | None = None,
) -> Run:
    """Return a run that begins at problem `done`, once the manifest says so, and `further`."""
    entry = {
        "started": _now(),
        "versions": versions(),
        "device": str(denoiser.device),
        "engine": engine,
        "problems": document["asked"]["problems"],
        "chunk": document["asked"]["chunk"],
        "tokens": document["asked"].get("tokens"),
        "from": done,
        "to": done,
        "seconds": 0.0,
        "forwards": 0,
        "errors": 0,
        "finished": None,
        **(further or {}),
    }
    document = {**document, "runs": [*document["runs"], entry]}
    out.parent.mkdir(parents=True, exist_ok=True)
    write(path_of(out), document)
    return Run(path=path_of(out), document=document, entry=entry, begun=time.monotonic())


def write(path: Path, document: Document) -> None:
    """Replace the file, whole or not at all."""
    jsonl.write_text(path, json.dumps(document, indent=2) + "\n")


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


def dtype_of(denoiser: Denoiser) -> str | None:
    """Return the number format of the weights; None for a model that is not ours."""
    while hasattr(denoiser, "inner"):
        denoiser = denoiser.inner
    if not isinstance(denoiser, NativeDenoiser):
        return None
    return str(denoiser.model.embedding.weight.dtype).removeprefix("torch.")


def weights_of(denoiser: Denoiser) -> str | None:
    """Return what tells the weights from others of the same shape; None for a model not ours."""
    if isinstance(denoiser, Elsewhere):
        return denoiser.weights
    while hasattr(denoiser, "inner"):
        denoiser = denoiser.inner
    return fingerprint(denoiser.model) if isinstance(denoiser, NativeDenoiser) else None


def revision_of(name: str) -> str | None:
    """Return the commit that the hub's cache holds of a model; None where there is none."""
    place = name
    if name.count("/") == 1 and not Path(name).exists():
        from huggingface_hub import try_to_load_from_cache

        place = str(try_to_load_from_cache(name, "config.json"))
    found = re.search(r"snapshots/([0-9a-f]{40})(?:/|$)", place)
    return found[1] if found else None


def _check(
    found: Document,
    asked: Document,
    dataset: Mapping[str, str] | None,
    model: Mapping[str, Any],
    out: Path,
) -> None:
    """Raise where the records that are there are of another kind."""
    if not all(run.keys() >= set(COUNTED) for run in found.get("runs") or ()):
        raise RecordError(f"{path_of(out)} is damaged: a run has no {COUNTED[0]}; {REMEDY}.")
    old = {**UNSAID, **found["asked"], "sampler": sampler_in(found["asked"])}
    other = [name for name in asked if name not in FREE and old.get(name) != asked[name]]
    if other:
        raise RecordError(
            f"{out} was collected with another {' and '.join(other)}; repeat the earlier command "
            "to continue it, choose another file, or replace it with --force."
        )
    known = found.get("dataset") or {}
    if dataset and known.get("sha256") != dataset["sha256"]:
        raise RecordError(
            f"{out} was collected from other rows (sha256 {str(known.get('sha256'))[:12]}, and "
            f"{dataset['sha256'][:12]} now); give the earlier data, or choose another file."
        )
    if dataset and known.get("examples") != dataset.get("examples"):
        raise RecordError(
            f"{out} was collected with other worked examples; give the earlier data, or choose "
            "another file."
        )
    for name in ("revision", "dtype", "weights"):
        before = (found.get("model") or {}).get(name)
        is_known = before is not None and (name != "weights" or model[name] is not None)
        if is_known and before != model[name]:
            raise RecordError(
                f"{out} was collected with {name} {before} of the model, and this one has "
                f"{model[name]}; load the earlier one, or choose another file."
            )


def _check_about(found: Document, about: Mapping[str, Any] | None, out: Path) -> None:
    """Raise where the answers that are there are compared by something else."""
    before = (found.get("about") or {}).get("compared_by", SPELLING)
    now = (about or {}).get("compared_by", SPELLING)
    if before != now:
        raise RecordError(
            f"votes on the answers in {out} compare their {before}, and now their {now}; finish it "
            "with the version of remask that began it, choose another file, or replace it with "
            "--force."
        )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
