"""What a run of the alignment study was asked, so that one stands for no other.

A result keeps the settings it was trained with, the model, and how many problems of which split it
was asked. Where the study now asks for anything else, the two may not be taken for one another.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from remask.align.settings import AlignSettings, check_settings, record
from remask.tasks import task
from studies.align.arms import ARMS, BLOCK, SETTINGS, SHARED, TRUST, Job, planned

RUN = "run"  # the folder of a training
PROBLEMS = 256  # unseen ones of each seed, per canvas
CONTROLS = ("placebo", "oracle")  # arms whose reward is in `rewards.py`
PLACES = ("out", "device", "data")  # settings that say where, not what
Row = dict[str, Any]


def settings_of(job: Job, arguments: argparse.Namespace) -> AlignSettings:
    """Return the settings of one training of the study."""
    setting = dict(SETTINGS[job.setting])
    steps = setting.pop("steps_per_block")
    length = task(setting["task"]).canvas_length(setting["level"])
    given = {**SHARED, **setting, **ARMS[job.arm], **job.changes, **arguments.set}
    updates = int(given["updates"])
    return check_settings({
        **given, "model": arguments.model, "seed": job.seed, "out": folder_of(job, arguments) / RUN,
        "steps": length // BLOCK * steps, "checkpoint_every": max(1, updates // 5),
        "device": arguments.device, "warmup": min(int(given.get("warmup", 0)), updates // 10),
    })  # fmt: skip


def folder_of(job: Job, arguments: argparse.Namespace) -> Path:
    """Return where one training of the study lies."""
    return Path(arguments.out) / job.name


def asked_of(job: Job, arguments: argparse.Namespace) -> Row:
    """Return what is asked of one run, flat, as a result keeps it."""
    told = record(settings_of(job, arguments))
    kept = {name: value for name, value in told.items() if name not in PLACES}
    if job.arm in CONTROLS:  # as in the results of version 0.2.0, where they were built in
        kept |= {"reward": [job.arm], "trust": TRUST}
    return {**kept, "split": job.split, "problems": arguments.problems}


def job_of(result: Row) -> Job:
    """Return the job whose result this is."""
    names = ("setting", "arm", "seed", "variation", "split")
    return Job(**{name: result[name] for name in names})


def unlike(results: Iterable[Row], arguments: argparse.Namespace) -> str:
    """Return a sentence about the first result that was asked something else; none: empty."""
    for result in results:
        job, theirs = job_of(result), result.get("asked", {})
        ours = asked_of(job, arguments)
        name = next((n for n in ours if n not in theirs or theirs[n] != ours[n]), None)
        if name is not None:
            was = repr(theirs[name]) if name in theirs else "not kept"
            return (
                f"{job.name} has a result for which {name} was {was}, and is {ours[name]!r} now; "
                "choose another folder, or remove its line and its folder to do it again."
            )
    return ""


def missing(results: Iterable[Row]) -> list[str]:
    """Return the names of planned runs that have no result."""
    there = {job_of(result).name for result in results}
    return [job.name for setting in SETTINGS for job in planned(setting) if job.name not in there]
