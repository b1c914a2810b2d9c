"""The folder of a training: whose it is, what it goes on from, what it said on the way.

OUT/settings.json   all that decides the outcome: another run may not go on here
OUT/training.pt     the state after a step, whole or not there
OUT/*.jsonl         the log, a row for each report
"""

import errno
import json
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from remask.errors import CheckpointError, SettingsError
from remask.records import outputs
from remask.records.jsonl import whole, write_text
from remask.records.text_file import read_text

CHECKPOINT, SETTINGS = "training.pt", "settings.json"
State = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Where one training keeps its state and its log."""

    out: Path
    identity: str  # all that decides the outcome of the run; where and how fast it runs does not
    log_name: str = "log.jsonl"

    def open(self) -> None:
        """Make the folder ready, or refuse one of another run."""
        note = self.out / SETTINGS
        if note.exists() and read_text(note) != self.identity + "\n":
            raise self._other_settings()
        self.out.mkdir(parents=True, exist_ok=True)
        if not _is_begun(self.out):
            write_text(note, self.identity + "\n")

    def save(self, state: State) -> None:
        """Write the state of the run; a failure leaves the one before it."""
        with whole(self.out / CHECKPOINT) as part:
            try:
                torch.save({**state, "run": self.identity}, part)
            except RuntimeError as error:  # how torch tells of a full disk
                raise OSError(errno.ENOSPC, str(error)) from None

    def resume(self, names: Iterable[str], device: torch.device) -> State | None:
        """Return the state that was saved, which has these names; None where there is none yet.

        The log loses what came after it, which will be written again.
        """
        path = self.out / CHECKPOINT
        if not path.exists():
            self._rewind(-1)
            return None
        state = _read(path, device)
        if not state.keys() >= {"run", "step", *names}:
            raise CheckpointError(f"{path} is damaged; remove it to train again from the start.")
        if state["run"] != self.identity:
            raise self._other_settings()
        self._rewind(state["step"])
        return state

    def log(self, row: dict[str, Any]) -> None:
        """Append a row to the log."""
        with (self.out / self.log_name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def _rewind(self, step: int) -> None:
        """Remove the rows of the log that come after a step."""
        path = self.out / self.log_name
        if path.exists():
            lines = path.read_text("utf-8", errors="replace").splitlines()
            write_text(path, "".join(f"{line}\n" for line in lines if _is_until(line, step)))

    def _other_settings(self) -> SettingsError:
        return SettingsError(
            f"out {self.out} holds a run with other settings; repeat its command or "
            "choose another folder."
        )


def claim(out: Path, inputs: Iterable[Path | None]) -> None:
    """Raise, before any work, where a folder holds anything but a run, or is one of the inputs."""
    outputs.claim_folder(out, inputs, is_ours=_is_begun(out))


def _is_begun(out: Path) -> bool:
    return (out / CHECKPOINT).exists() or (out / SETTINGS).exists()


def _read(path: Path, device: torch.device) -> State:
    """Return what a file of a run holds; nothing where it is damaged."""
    try:
        return dict(torch.load(path, map_location=device, weights_only=True))
    except (OSError, RuntimeError, EOFError, ValueError, TypeError, pickle.UnpicklingError):
        return {}


def _is_until(line: str, step: int) -> bool:
    try:
        return int(json.loads(line)["step"]) <= step
    except (ValueError, KeyError, TypeError):  # the last line of a killed run
        return False
