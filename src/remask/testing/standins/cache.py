"""The hub's cache on disk, as huggingface_hub lays it out, written without the hub.

A repository is a folder `models--ORG--NAME` with three parts: `blobs` holds each file once, under a
hash of its content; `snapshots/COMMIT` holds links to them under the files' names; `refs/main` says
which commit a plain id means. With HF_HUB_CACHE pointing at the folder above and HF_HUB_OFFLINE=1,
the id is then resolved by the hub's own code.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

_LARGE = (".safetensors", "tokenizer.json")  # what git keeps as large files, under another hash


def write_repository(cache: Path, repository: str, files: Mapping[str, bytes]) -> Path:
    """Write a model's files into the cache and return the folder of their snapshot."""
    root = cache / f"models--{repository.replace('/', '--')}"
    blobs = {name: _blob(name, content) for name, content in files.items()}
    listing = "\n".join(f"{blob} {name}" for name, blob in sorted(blobs.items()))
    commit = hashlib.sha1(listing.encode()).hexdigest()
    snapshot = root / "snapshots" / commit
    for folder in (root / "blobs", snapshot, root / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (root / "blobs" / blobs[name]).write_bytes(content)
        link = snapshot / name
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.join("..", "..", "blobs", blobs[name]))
    (root / "refs" / "main").write_text(commit)
    return snapshot


def _blob(name: str, content: bytes) -> str:
    """Return the name of a blob: SHA-256 of a large file, git's hash of any other."""
    if name.endswith(_LARGE):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
