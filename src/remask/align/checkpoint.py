"""The folder of a training: checkpoints and models.

    OUT/checkpoint-000100/   weights, optimizer and progress; the last three and the best are kept
    OUT/best/                the model with the best validation, for `remask.load`
    OUT/final/               the model after the last update

Rollouts are not saved: checkpoints are written between them.
"""

import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remask.align import lora
from remask.align.policy import Policy
from remask.align.sharding import whole_tensors
from remask.denoisers.base import Preset
from remask.denoisers.load import find_family, find_folder, outline, read_config
from remask.denoisers.native import stacked
from remask.denoisers.preset import has_chosen_settings
from remask.denoisers.save import save
from remask.denoisers.tokenizer import read_json
from remask.errors import CheckpointError, SettingsError
from remask.records.run_folder import RunFolder, step_of

if TYPE_CHECKING:
    from remask.align.settings import AlignSettings

BEST, FINAL, ADAPTER = "best", "final", "adapter"
LOG, COMPLETIONS = "log.jsonl", "completions.jsonl"
SETTINGS = "settings.yaml"
# Files of the initial model that hold for the trained one too; `save` writes the others.
_CARRIED = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.json",
    "chat_template.jinja",
)


def folder_of(out: Path) -> RunFolder:
    """Return the folder of a training."""
    return RunFolder(
        out=out,
        command="align",
        logs=(LOG, COMPLETIONS),
        models=(BEST, FINAL),
        num_kept=3,
        may_grow=frozenset({"updates"}),
    )


def inputs_of(settings: "AlignSettings") -> list[Path | None]:
    """Return the inputs of a training, which it must not overwrite."""
    return [Path(settings.model), settings.data]


def find_checkpoint(folder: RunFolder, wanted: str) -> Path:
    """Return the checkpoint of the best validation ("best"), or of an update by its number."""
    found, last = None, folder.last()
    if wanted == BEST and last is not None:
        best = folder.read(last, verify=False)["place"]["best_update"]
        found = folder.checkpoint(best)
    elif wanted.isdecimal():
        found = folder.checkpoint(int(wanted))
    if found in folder.checkpoints():
        return found
    known = ", ".join(str(step_of(one)) for one in folder.checkpoints()) or "none"
    raise SettingsError(
        f"resume_from must be the update of a checkpoint in {folder.out} ({known}), or best if a "
        f"validation after the first update was the best, got {wanted!r:.40}."
    )


def update_of_model(folder: RunFolder, name: str) -> int | None:
    """Return the update after which a model was written, or None if it is absent or damaged."""
    with suppress(CheckpointError):
        return int(folder.read(folder.out / name)["update"])
    return None


def save_model(
    policy: Policy, settings: "AlignSettings", name: str, *, update: int, writes: bool = True
) -> None:
    """Write the policy as a model folder in the hub's layout, with LoRA also the adapter.

    Args:
        policy: the policy.
        settings: of the run.
        name: of the folder in `settings.out`.
        update: number of the last update.
        writes: whether this rank writes; all ranks must call.
    """
    weights = whole_tensors(policy.model.state_dict(), here=writes)
    if not writes:
        return
    source = find_folder(settings.model)

    def write(part: Path) -> None:
        for carried in _CARRIED:
            if (source / carried).is_file():
                shutil.copyfile(source / carried, part / carried)
        network = outline(read_config(source), source)
        network.load_state_dict(lora.merged(policy.model, weights), assign=True)
        config = read_config(source)
        family = find_family(config, source)
        save(
            part,
            config,
            _generation(source, policy.preset),
            policy.tokenizer.backend,
            stacked(network, family.tensor_map(network)),
            dtype=policy.model.embedding.weight.dtype,
        )
        if settings.tuning == "lora":
            lora.save_adapter(policy.model, weights, settings, part / ADAPTER)

    folder = folder_of(settings.out)
    folder.write(settings.out / name, write, {"update": update})


def _generation(source: Path, preset: Preset) -> dict[str, Any]:
    """Return generation_config.json with the preset of the initial model.

    Presets are found by the name of a model, and the trained model has a different name.
    """
    path = source / "generation_config.json"
    generation = read_json(path) if path.exists() else {}
    if has_chosen_settings(generation):
        return generation
    known = {k: v for k, v in asdict(preset).items() if v is not None and k != "named"}
    return {**generation, **known}
