"""Checkpoints of a training, and the model folders that come out of it.

    OUT/checkpoint-000100/   all that a run needs to go on; the last three and the best are there
    OUT/best/                the model with the best validation, as `remask.load` reads it, and
                             the number of its update
    OUT/final/               the model after the last update

Each is written under another name and then renamed, so a full disk or a kill leaves what was there
before. A folder that was left half written is removed by the next run. Rollouts are not saved:
checkpoints are made between them, and draws are keyed by identity.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

import torch

from remask.align import lora
from remask.align.policy import Policy
from remask.align.shards import whole_state
from remask.denoisers.base import Preset
from remask.denoisers.load import find_family, find_folder, outline, read_config
from remask.denoisers.native import stacked
from remask.denoisers.preset import chosen
from remask.denoisers.save import save
from remask.denoisers.tokenizer import read_json
from remask.errors import CheckpointError, SettingsError, brief
from remask.records import outputs

if TYPE_CHECKING:
    from remask.align.settings import AlignSettings

NUM_LAST = 3  # checkpoints to go back to, beside the best
_PREFIX, _STATE = "checkpoint-", "state.pt"
_FIELDS = {"settings", "place", "monitor", "weights", "optimizer"}
_PART, _OLD = ".part", ".old"
BEST, FINAL, ADAPTER = "best", "final", "adapter"
SETTINGS = "settings.yaml"
_UPDATE = "align.json"  # of a model folder: after which update
# Of a model's files what is true of a trained one too; `save` writes the others anew.
_CARRIED = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "chat_template.json", "chat_template.jinja",
)  # fmt: skip
State = dict[str, Any]


def claim(settings: "AlignSettings") -> None:
    """Raise, before a model is loaded, where a run would write over anything but itself."""
    out = settings.out
    read = [Path(settings.model), settings.data]
    outputs.claim_folder(out, read, is_ours=(out / SETTINGS).is_file())


def save_state(out: Path, update: int, state: State, best_update: int) -> Path:
    """Write the checkpoint of an update, then remove old ones but the best; return its folder."""
    folder = checkpoint_of(out, update)
    _whole(folder, lambda part: torch.save(state, part / _STATE))
    for old in _checkpoints(out)[:-NUM_LAST]:
        if old != checkpoint_of(out, best_update):
            shutil.rmtree(old, ignore_errors=True)
    return folder


def checkpoint_of(out: Path, update: int) -> Path:
    """Return the folder of an update's checkpoint, whether it is there or not."""
    return out / f"{_PREFIX}{update:06d}"


def last_checkpoint(out: Path) -> Path | None:
    """Return the last checkpoint of a run; None where there is none."""
    checkpoints = _checkpoints(out)
    return checkpoints[-1] if checkpoints else None


def find_checkpoint(out: Path, wanted: str) -> Path:
    """Return the checkpoint of the best validation ("best"), or of an update by its number."""
    folder = None
    if wanted == BEST and (last := last_checkpoint(out)):
        update = load_state(last, torch.device("cpu"), in_parts=True)["place"].get("best_update")
        folder = checkpoint_of(out, update) if isinstance(update, int) else None
    elif wanted.isdecimal():
        folder = checkpoint_of(out, int(wanted))
    if folder in _checkpoints(out):
        return folder
    there = ", ".join(str(_update_of(one)) for one in _checkpoints(out)) or "none"
    raise SettingsError(
        f"resume_from {wanted!r:.40} is no checkpoint of {out}; give the update of one ({there}), "
        "or best where a validation after the first update was the best."
    )


def drop_later(folder: Path) -> None:
    """Remove the checkpoints of a run that come after one of them."""
    for later in _checkpoints(folder.parent):
        if _update_of(later) > _update_of(folder):
            shutil.rmtree(later)


def update_of_model(folder: Path) -> int | None:
    """Return the update after which a model was written; None where nothing says so."""
    try:
        update = json.loads((folder / _UPDATE).read_text("utf-8"))["update"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return update if isinstance(update, int) else None


def drop_model(folder: Path) -> None:
    """Remove a model of a run that has gone back behind it, or goes on after it."""
    if folder.exists():
        shutil.rmtree(folder)


def load_state(folder: Path, device: torch.device, *, in_parts: bool = False) -> State:
    """Return what a checkpoint holds; `in_parts`: the file is read where a tensor is looked at."""
    try:
        path = folder / _STATE
        mmap = in_parts and is_zipfile(path)  # of others torch says what is wrong when it reads
        state = dict(torch.load(path, map_location=device, weights_only=True, mmap=mmap))
        absent = {name for name in _FIELDS if not isinstance(state.get(name), dict)}
        if absent:
            raise ValueError(f"it has no {min(absent)}")
        return state
    except Exception as error:  # whatever a damaged archive, or pickle, makes torch raise
        raise damaged(folder, error) from None


def damaged(folder: Path, reason: Exception | str) -> CheckpointError:
    """Return the one sentence about a checkpoint from which no run can go on."""
    text = brief(reason) or "it ends too early"
    text = f"it has no {text}" if isinstance(reason, KeyError) else text
    others = [one for one in _checkpoints(folder.parent) if one != folder]
    remedy = f"resume: {others[-1].name} is there too" if others else "start again"
    return CheckpointError(
        f"{folder / _STATE} cannot be read ({text}); remove {folder} and {remedy}."
    )


def tidy(out: Path) -> None:
    """Remove what a stopped run left half written, and bring back what it was about to replace."""
    for part in out.glob(f"*{_PART}"):
        if part.is_dir():
            shutil.rmtree(part)
    for old in out.glob(f"*{_OLD}"):
        whole = old.with_name(old.name.removesuffix(_OLD))
        if whole.exists():
            shutil.rmtree(old)
        else:
            os.rename(old, whole)


def save_model(
    policy: Policy, settings: "AlignSettings", folder: Path, *, update: int, writes: bool = True
) -> Path:
    """Write the policy as a model folder in the hub's layout; under LoRA the adapter beside it.

    Args:
        policy: as it is after an update.
        settings: of the run.
        folder: to be written, or replaced.
        update: the number of that update.
        writes: whether this process does; all come here, and one of them writes.
    """
    weights = whole_state(policy.model, here=writes)
    if not writes:
        return folder
    source = find_folder(settings.model)

    def write(part: Path) -> None:
        for name in _CARRIED:
            if (source / name).is_file():
                shutil.copyfile(source / name, part / name)
        network = outline(read_config(source), source)
        network.load_state_dict(lora.merged(policy.model, weights), assign=True)
        config = read_config(source)  # under another name nothing else would tell it
        family = find_family(config, source)
        save(
            part, config, _generation(source, policy.preset),
            policy.tokenizer.backend, stacked(network, family.tensor_map(network)),
            dtype=policy.model.embedding.weight.dtype,
        )  # fmt: skip
        (part / _UPDATE).write_text(json.dumps({"update": update}) + "\n", "utf-8")
        if settings.tuning == "lora":
            lora.save_adapter(policy.model, weights, settings, part / ADAPTER)

    _whole(folder, write)
    return folder


def _generation(source: Path, preset: Preset) -> dict[str, Any]:
    """Return the generation_config.json; a preset that came with the model's name is written out.

    Under another name nothing else would tell it.
    """
    path = source / "generation_config.json"
    generation = read_json(path) if path.exists() else {}
    if chosen(generation):
        return generation
    known = {k: v for k, v in asdict(preset).items() if v is not None and k != "named"}
    return {**generation, **known}


def _whole(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder whole or not at all."""
    from safetensors import SafetensorError

    part, old = (folder.with_name(folder.name + end) for end in (_PART, _OLD))
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        write(part)
        _flush(part)
        if folder.exists():
            os.rename(folder, old)
        os.rename(part, folder)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, RuntimeError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        last = last_checkpoint(folder.parent)
        remedy = f"free some space and resume: {last.name} is intact" if last else "free some space"
        raise CheckpointError(
            f"{folder} could not be written ({brief(error)}); {remedy}."
        ) from error


def _flush(folder: Path) -> None:
    """Wait until the files of a folder are on the disk, so that the rename is not before them."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _checkpoints(out: Path) -> list[Path]:
    """Return the whole checkpoints of a run, the last update last."""
    named = (p for p in out.glob(f"{_PREFIX}*") if p.is_dir())
    return sorted((p for p in named if p.name.removeprefix(_PREFIX).isdecimal()), key=_update_of)


def _update_of(folder: Path) -> int:
    return int(folder.name.removeprefix(_PREFIX))
