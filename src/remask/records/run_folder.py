"""The output folder of `align`, `adapt` and `train`: one run, which continues after a kill.

    OUT/run.json             the command and the settings of the run
    OUT/log.jsonl            a row per update; other logs stand beside it
    OUT/checkpoint-000100/   everything that the run needs to continue
    OUT/best/                a model folder

Checkpoints and models are written under another name and then renamed, so a kill or a full disk
leaves the previous one. `seal.json` in each holds the SHA-256 of its files, of the logs so far and
of itself: a run never continues from an edited file. No torch here.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remask.errors import CheckpointError, SettingsError, WriteError, brief
from remask.records.jsonl import unfinished, write_text
from remask.records.lock import check_held, locked
from remask.records.outputs import claim_folder

STATE = "state.pt"
_RUN, _SEAL = "run.json", "seal.json"
_PREFIX, _PART, _OLD = "checkpoint-", ".part", ".old"
_INPUTS = (".safetensors", ".json", ".txt", ".jinja")  # files of a model folder that decide a run
Facts = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """The folder of one run."""

    out: Path
    command: str
    logs: tuple[str, ...]
    models: tuple[str, ...]  # folders that the run writes beside its checkpoints
    num_kept: int = 1  # checkpoints that stay
    may_grow: frozenset[str] = frozenset()  # settings that a continued run may raise

    @contextmanager
    def hold(self, inputs: Iterable[Path | None]) -> Iterator[None]:
        """Lock the folder, refuse one that holds anything else, and clear what a kill left."""
        with locked(self.out):
            self.claim(inputs)
            for path in self.out.glob("*") if self.has_run else ():
                if path.suffix == _PART and path.is_dir():
                    shutil.rmtree(path)
                elif path.suffix == _OLD and path.is_dir():
                    whole = path.with_suffix("")
                    shutil.rmtree(path) if whole.exists() else os.rename(path, whole)
            yield

    def claim(self, inputs: Iterable[Path | None]) -> None:
        """Raise if the folder is an input, or holds anything but a run of this command."""
        names = {path.name for path in self.out.iterdir()} if self.out.is_dir() else set()
        is_empty = names <= {unfinished(self.out / _RUN).name}  # killed before its first file
        claim_folder(self.out, inputs, is_ours=self.has_run or is_empty)

    @property
    def has_run(self) -> bool:
        """Whether this command has begun a run here."""
        try:
            note = json.loads((self.out / _RUN).read_text("utf-8"))
            return bool(note["command"] == self.command)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def checkpoint(self, step: int) -> Path:
        """Return the folder of a step's checkpoint, whether it exists or not."""
        return self.out / f"{_PREFIX}{step:06d}"

    def checkpoints(self) -> list[Path]:
        """Return the checkpoints, the last step last."""
        found = (path for path in self.out.glob(f"{_PREFIX}*") if path.is_dir())
        return sorted((p for p in found if _number(p).isdecimal()), key=step_of)

    def last(self) -> Path | None:
        """Return the last checkpoint."""
        return next(reversed(self.checkpoints()), None)

    def resume(self, run: Mapping[str, Any]) -> Path | None:
        """Return the last checkpoint, or raise if its run had other settings or inputs."""
        start = self.last()
        if start is not None:
            self.compare(self.read(start)["run"], run)
        return start

    def begin(self, settings: Mapping[str, Any], start: Path | None) -> None:
        """Return to a checkpoint, or to an empty folder: later checkpoints and rows are removed."""
        facts = {} if start is None else self.read(start, verify=False)
        self.out.mkdir(parents=True, exist_ok=True)
        note = {"command": self.command, "settings": settings}
        write_text(self.out / _RUN, json.dumps(note, default=str) + "\n")
        for folder in self.checkpoints():
            if start is None or step_of(folder) > step_of(start):
                self.remove(folder)
        for name in self.models if start is None else ():
            self.remove(self.out / name)
        for name in self.logs:
            size, _ = facts["logs"][name] if facts else (0, "")
            if size:
                os.truncate(self.out / name, size)
            else:
                (self.out / name).unlink(missing_ok=True)

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Append a row to a log."""
        check_held(self.out)
        with (self.out / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def save(
        self, step: int, write: Callable[[Path], object], facts: Facts, best: int | None = None
    ) -> None:
        """Write the checkpoint of a step, then remove old ones, but not that of step `best`."""
        _flush(path for name in self.logs if (path := self.out / name).exists())
        logs = {name: _log_digest(self.out / name) for name in self.logs}
        self.write(self.checkpoint(step), write, {**facts, "logs": logs})
        for old in self.checkpoints()[: -self.num_kept]:
            if step_of(old) != best:
                self.remove(old)

    def write(self, folder: Path, write: Callable[[Path], object], facts: Facts) -> None:
        """Write a folder and its seal, all of it or nothing."""
        from safetensors import SafetensorError

        check_held(self.out)
        part, old = (folder.with_name(folder.name + end) for end in (_PART, _OLD))
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            write(part)
            paths = sorted(path for path in part.rglob("*") if path.is_file())
            _flush(paths)
            files = {path.relative_to(part).as_posix(): _file_digest(path) for path in paths}
            write_text(part / _SEAL, _sealed(folder.name, facts, files))
            if folder.exists():
                os.rename(folder, old)
            os.rename(part, folder)
            shutil.rmtree(old, ignore_errors=True)
        except (OSError, RuntimeError, SafetensorError) as error:  # torch.save: RuntimeError
            shutil.rmtree(part, ignore_errors=True)
            last = self.last()
            remedy = f"Free some space and resume: {last.name} is intact." if last else ""
            raise WriteError(f"Cannot write {folder}: {brief(error)}. {remedy}".strip()) from error

    def read(self, folder: Path, *, verify: bool = True) -> Facts:
        """Return the facts of a checkpoint or model, or raise if a file of it was changed.

        With `verify=False` only the seal is checked: another rank has read the files.
        """
        try:
            text = (folder / _SEAL).read_text("utf-8")
            seal = json.loads(text)
            facts, files = seal["facts"], seal["files"]
            if text != _sealed(folder.name, facts, files):
                raise ValueError(f"{_SEAL} was changed")
            for name, digest in files.items() if verify else ():
                if _file_digest(folder / name) != digest:
                    raise ValueError(f"{name} was changed")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            others = [one for one in self.checkpoints() if one != folder]
            remedy = f"resume from {others[-1].name}" if others else "start again"
            raise CheckpointError(
                f"{folder} is damaged ({brief(error)}). Remove it to {remedy}."
            ) from None
        for name, (size, digest) in facts.get("logs", {}).items() if verify else ():
            if _log_digest(self.out / name, size) != [size, digest]:
                raise CheckpointError(
                    f"{self.out / name} was changed after {folder.name} was written. Restore it, "
                    "or choose another folder."
                )
        return dict(facts)

    def compare(self, saved: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
        """Raise if a run would continue with other settings or inputs than it began with."""
        changed = []
        for name, value in json.loads(json.dumps(ours, default=str)).items():
            was = saved.get(name)
            grows = name in self.may_grow and type(was) is int and was < value
            if was != value and not grows:
                changed.append(f"{name} was {was!r:.80}, got {value!r:.80}")
        if changed:
            raise SettingsError(
                f"Cannot resume {self.out}: {'; '.join(changed)}. Choose another folder."
            )

    def remove(self, folder: Path) -> None:
        """Remove a folder; a kill leaves nothing of it under its name."""
        if folder.exists():
            part = folder.with_name(folder.name + _PART)
            shutil.rmtree(part, ignore_errors=True)
            os.rename(folder, part)
            shutil.rmtree(part)


def step_of(checkpoint: Path) -> int:
    """Return the step of a checkpoint."""
    return int(_number(checkpoint))


def source_digest(source: Path) -> str:
    """Return the SHA-256 of a model: a file, or the files of a folder."""
    if source.is_file():
        return _file_digest(source)
    files = sorted(p for p in source.iterdir() if p.suffix in _INPUTS and p.is_file())
    listing = "".join(f"{path.name} {_file_digest(path)}\n" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def _number(checkpoint: Path) -> str:
    return checkpoint.name.removeprefix(_PREFIX)


def _sealed(name: str, facts: Facts, files: Mapping[str, str]) -> str:
    """Return the text of a seal; a folder under another name has another seal."""
    body = {"name": name, "facts": facts, "files": files}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({**body, "sha256": digest}) + "\n"


def _flush(paths: Iterable[Path]) -> None:
    """Wait until files are on the disk, so that no rename is there before them."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _log_digest(path: Path, size: int | None = None) -> list[Any]:
    """Return the size and the SHA-256 of a log, or of its first `size` bytes."""
    content = path.read_bytes() if path.exists() else b""
    content = content if size is None else content[:size]
    return [len(content), hashlib.sha256(content).hexdigest()]
