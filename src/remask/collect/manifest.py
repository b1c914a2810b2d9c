"""What the manifest of a run says of the model, the device and the versions."""

import platform
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from remask.collect.engine import RemoteModel
from remask.collect.runner import now
from remask.denoisers.base import Denoiser
from remask.denoisers.identity import fingerprint
from remask.denoisers.native import dtype_of, native_of
from remask.records.manifest import ModelIdentity, RunEntry


def new_entry(
    denoiser: Denoiser,
    engine: str,
    missing: Sequence[int],
    stop: int,
    *,
    most: int,
    tokens: int | None = None,
    budget: int | None = None,
    retried: int | None = None,
) -> RunEntry:
    """Return the entry of a run that begins now.

    Args:
        denoiser: the model.
        engine: name of the engine.
        missing: the rows to compute.
        stop: the row after the last one of the file.
        most: maximum rows of a chunk.
        tokens: its maximum tokens.
        budget: its maximum tokens times forward passes.
        retried: number of rows that are computed again.
    """
    start = missing[0] if missing and retried is None else stop
    return RunEntry(
        started=now(),
        versions=versions(),
        device=str(denoiser.device),
        engine=engine,
        problems=stop,
        chunk=most,
        tokens=tokens,
        start=start,
        stop=start,
        retried=retried,
        budget=budget,
    )


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
    """Return the identity of a model; a model from outside the package has no digest."""
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
