"""The folder of a whole study: the names of its files, as the full-size study writes them.

`pool-TASK-LEVEL` and `greedy-TASK-LEVEL` for each task and level, `threshold-TASK` and
`validation-TASK-...` to choose on, `injected-TASK-LEVEL` with flaws, and one file for each setting
of the curves. Folders seed-1, seed-2 and so on hold the same of further seeds.
"""

from pathlib import Path

from remask.records.record import Record, read_records, records_in
from remask.tasks import TASKS

LEVELS = {"medium": "", "hard": "-hard"}  # of a study, and how its name ends
STEPPED = ("pool-wordmath-medium", "hurried-24", "hurried-12")  # the least hurried first
CURVES = {  # files with one setting changed -> that setting and its value
    **{f"ratio-{x}": ("mask_ratio", f"{x:g}") for x in (0.0, 0.3, 0.5, 0.7, 0.95, 1.0)},
    **{f"steps-{x}": ("rebuild_steps", f"{x}") for x in (1, 4, 64, 128)},
    "stratified": ("mask_design", "stratified"),
    "tail-visible": ("tail", "visible"),
    "temperature-1": ("rebuild_temperature", "1"),
}
DEFAULTS = {
    "mask_ratio": "0.9",
    "rebuild_steps": "16",
    "mask_design": "independent",
    "tail": "masked",
    "rebuild_temperature": "0",
    "trips": "4",
}
TRIPS = (1, 2, 4, 8)  # read from one file with the most, whose first ones are those of fewer
MANY_TRIPS = f"trips-{max(TRIPS)}"


def read(folder: Path, name: str) -> list[Record]:
    """Return the answers in a file of records, none where it does not exist."""
    path = folder / f"{name}.jsonl"
    return records_in(read_records(path)) if path.exists() else []


def seed_folders(path: Path) -> list[Path]:
    """Return a folder and those of its further seeds."""
    return [path, *sorted(folder for folder in path.glob("seed-*") if folder.is_dir())]


def pool_files() -> dict[str, tuple[str, str]]:
    """Return the files of the pools with the study and task of each."""
    return {
        f"pool-{task}-{level}": (f"{task}{ending}", task)
        for task in TASKS
        for level, ending in LEVELS.items()
    }


def labelled_files() -> dict[str, str]:
    """Return the files whose answers have graded steps, and the task of each."""
    pools = {file: task for file, (_, task) in pool_files().items()}
    return pools | dict.fromkeys(STEPPED, "wordmath")


def curves_pool(path: Path) -> str:
    """Return the file of the pools that the curves are of; empty where there are no curves."""
    for folder in seed_folders(path):
        for name in (*CURVES, MANY_TRIPS):
            if rows := read(folder, name):
                return f"pool-{rows[0].task}-{rows[0].level}"
    return ""
