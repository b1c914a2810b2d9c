"""What to know of some rows of a study: absent scores, old rules, models that do not edit.

Each remark is made of the records and their manifests, so that it stands on every page made of
these, and goes when they are collected anew.
"""

from collections.abc import Iterable, Iterator

from remask.analysis.load_records import Source, StudyRecords
from remask.analysis.pool import pool_size, pools
from remask.collect.settings import OPTIONAL_BASELINES
from remask.records.manifest import find_manifest
from remask.records.record import NO_KEY, Record
from remask.tasks import KNOWN
from remask.tasks import task as find_task
from remask.tasks.base import SPELLING, compared_by

OLD_RULE = (
    "Self-consistency (vote, agreement, and the votes of correction) follows the old rule on {}: "
    "there, answers are one where they are spelled alike, not where values (countdown) or "
    "behaviour (programs) agree. These rows are to be measured again."
)


def vote_notes(source: Source) -> list[str]:
    """Return which studies have votes by spelling where the task knows better by now."""
    old = [study.name for study in source.studies if _is_spelled(study)]
    return [OLD_RULE.format(", ".join(old))] if old else []


def absence_notes(source: Source) -> list[str]:
    """Return how often baselines gave no number, and where the editor's agreement says little."""
    return [note for study in source.studies for note in (*_absent(study), *_editor(study))]


def _is_spelled(study: StudyRecords) -> bool:
    """Say whether pools of a task with keys of its own have none."""
    whole = pools(study.rows)
    has_keys = all(row.key is not NO_KEY for row in study.rows)
    if study.task not in KNOWN or pool_size(whole) < 2 or has_keys:
        return False
    # Whether code may be run now says nothing of then: such a task can tell by behaviour.
    return compared_by(find_task(study.task, allow_execution=True)) != SPELLING


def _absent(study: StudyRecords) -> Iterator[str]:
    first = [pool[0] for pool in pools(study.rows)]
    for name in OPTIONAL_BASELINES:
        tried = [row for row in first if name in row.baselines]
        absent = [row for row in tried if row.scores.get(name) is None]
        if absent:
            yield (
                f"{study.name}: {name} is absent of {len(absent)} of {len(tried)} answers, as "
                f"in: {_reason(absent, name)}."
            )


def _reason(rows: Iterable[Record], name: str) -> str:
    reasons = (row.baselines[name].reason for row in rows)
    return next(filter(None, reasons), "no reason is recorded").rstrip(".")


def _editor(study: StudyRecords) -> Iterator[str]:
    if any("editor" in row.baselines for row in study.rows):
        manifest = find_manifest(study.path)
        if manifest is None or not (manifest.notes or {}).get("edits", False):
            yield (
                f"{study.name}: the model was not trained to edit what it sees, as LLaDA2.1 was; "
                "editor, the share of tokens that it would write again, may tell of copying."
            )
