"""Names and values for trackers (TensorBoard, Weights & Biases), which accelerate writes."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from remask.errors import SettingsError
from remask.settings import unknown_name

AUTO, NONE, TENSORBOARD = "auto", "none", "tensorboard"
TRACKERS = (TENSORBOARD, "wandb")
PROJECT = "remask"
_PLACE = ("step", "max_steps", "eta_s")  # columns of the log that are not metrics


def check_track(names: Sequence[str]) -> None:
    """Raise if a name is unknown, or if auto or none is combined with another name."""
    unknown = [name for name in names if name not in (AUTO, NONE, *TRACKERS)]
    if unknown:
        raise unknown_name("tracker", unknown[0], (*TRACKERS, AUTO, NONE))
    if len(names) > 1 and {AUTO, NONE} & set(names):
        raise SettingsError(
            f"track must not combine auto or none with other trackers, got {','.join(names)}."
        )


def find_trackers(names: Sequence[str]) -> list[str]:
    """Return the trackers to write, or raise if one is not installed."""
    if tuple(names) == (NONE,):
        return []
    if tuple(names) == (AUTO,):
        return [TENSORBOARD] if find_spec(TENSORBOARD) else []
    for name in names:
        if find_spec(name) is None:
            raise SettingsError(
                f"track {name} requires the package {name}; install it with pip install {name}, "
                "or set track none."
            )
    return list(dict.fromkeys(names))


def measures(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a row of the log."""
    return {
        name: value
        for name, value in row.items()
        if isinstance(value, int | float) and name not in _PLACE
    }


def plain(settings: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Return settings as the strings and numbers that trackers accept."""
    return {
        name: value if isinstance(value, str | int | float) else str(value)
        for name, value in settings.items()
    }


def folder_of(out: Path) -> Path:
    """Return the folder of TensorBoard's files."""
    return out / TENSORBOARD
