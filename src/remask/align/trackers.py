"""Trackers beside the log: TensorBoard, Weights & Biases, through accelerate.

By default TensorBoard is written where it is installed. Trackers show what the log says; nothing is
read back from them.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from remask.errors import SettingsError
from remask.settings import unknown_name

AUTO, NONE, TENSORBOARD = "auto", "none", "tensorboard"
TRACKERS = (TENSORBOARD, "wandb")
PROJECT = "remask"
_PLACE = ("step", "max_steps", "eta_s")  # of a row: what is no measure


def check_track(names: Sequence[str]) -> None:
    """Raise where a name is no tracker, or says with others what cannot be."""
    unknown = [name for name in names if name not in (AUTO, NONE, *TRACKERS)]
    if unknown:
        raise unknown_name("tracker", unknown[0], (*TRACKERS, AUTO, NONE))
    if len(names) > 1 and {AUTO, NONE} & set(names):
        raise SettingsError(
            f"track {','.join(names)} says auto or none beside other trackers; name them alone."
        )


def find_trackers(names: Sequence[str]) -> list[str]:
    """Return the trackers that are to be written, or raise where one is not installed."""
    if tuple(names) == (NONE,):
        return []
    if tuple(names) == (AUTO,):
        return [TENSORBOARD] if find_spec(TENSORBOARD) else []
    for name in names:
        if find_spec(name) is None:
            raise SettingsError(
                f"track {name} needs the package {name}; install it with pip install {name}, or "
                "set track none."
            )
    return list(dict.fromkeys(names))


def measures(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a row of the log that trackers draw."""
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, int | float) and name not in _PLACE
    }


def plain(settings: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Return settings as trackers take them: texts and numbers."""
    return {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in settings.items()
    }


def folder_of(out: Path) -> Path:
    """Return where TensorBoard's files are."""
    return out / TENSORBOARD
