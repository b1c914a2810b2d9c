"""Which weights were studied: OUT/model.json says it, and other ones are refused."""

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open

from remask.errors import InputError
from remask.records.jsonl import write_text
from remask.records.text_file import read_object
from studies.language.parcel import digest

NOTE = "model.json"
Weights = dict[str, Any]


def describe(model: Path) -> Weights:
    """Return the number of parameters, the sha256 of each file, and how the model was made."""
    files = sorted(model.glob("*.safetensors"))
    if not files or not (model / "config.json").is_file():
        raise InputError(f"model {model} has no config.json with safetensors; train it first.")
    config = read_object(model / "config.json", "train it again")
    return {
        "parameters": sum(map(_parameters, files)),
        "sha256": {path.name: digest(path) for path in files},
        "shifted": config.get("shifted"),
        "adapted": config.get("adapted"),
    }


def note_weights(model: Path, out: Path) -> Weights:
    """Write down which weights a study is of, or raise where it is of others."""
    now, path = describe(model), out / NOTE
    if path.exists():
        earlier = read_weights(out)
        if earlier["sha256"] != now["sha256"]:
            raise InputError(f"{out} is a study of other weights than {model}; name another.")
        return earlier
    out.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(now, indent=1) + "\n")
    return now


def read_weights(out: Path) -> Weights:
    """Return what was noted."""
    path = out / NOTE
    if not path.exists():
        raise InputError(f"{out} has no {NOTE}; collect first: studies.language collect.")
    return read_object(path, "collect again")


def _parameters(path: Path) -> int:
    total = 0
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118  (it is no mapping)
            size = 1
            for length in file.get_slice(name).get_shape():
                size *= length
            total += size
    return total
