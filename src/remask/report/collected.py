"""How answers were collected, in words: the model, the questions, the sampler, the round trips.

What all files share is a list of facts; what differs between them is a table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from remask.analysis.limits import Limits
from remask.analysis.load_records import RecordFile
from remask.records.manifest import Manifest
from remask.report.html import html_table, html_text
from remask.report.table import Cell, filled

Facts = dict[str, str]


def collected(files: Sequence[RecordFile], limits: Limits) -> str:
    """Return the facts of the files as HTML."""
    by_file = [facts_of(file, limits) for file in files]
    names = list(dict.fromkeys(name for facts in by_file for name in facts))
    shared = [name for name in names if len({facts.get(name) for facts in by_file}) == 1]
    listed = "".join(
        f"<div><dt>{html_text(name)}</dt><dd>{html_text(by_file[0][name])}</dd></div>"
        for name in shared
    )
    head = f'<dl class="setup">{listed}</dl>\n' if listed else ""
    other = [name for name in names if name not in shared]
    if not other:
        return head
    rows: list[list[Cell]] = [
        [file.name, *(facts.get(name, "") for name in other)]
        for file, facts in zip(files, by_file, strict=True)
    ]
    return head + html_table(filled("collected", "What differs", (["file", *other], rows)))


def facts_of(file: RecordFile, limits: Limits) -> Facts:
    """Return what is known of how a file was collected, by name."""
    manifest = file.manifest
    threshold = {"threshold": str(file.limit(limits))}
    if manifest is None:
        return {"model": "not known: there is no manifest", **threshold}
    facts = {
        "model": _model(manifest),
        "questions": _questions(manifest.settings),
        "answers": _answers(manifest),
        "verified by": _trips(manifest),
        **threshold,
        "collected": _runs(manifest),
    }
    return {name: words for name, words in facts.items() if words}


def _model(manifest: Manifest) -> str:
    identity = manifest.model
    name = str(manifest.settings.get("model") or (identity.name if identity else "")) or "not known"
    revision = identity.revision[:12] if identity and identity.revision else None
    return ", ".join(filter(None, [name, identity.dtype if identity else None, revision]))


def _questions(settings: Mapping[str, Any]) -> str:
    words = [settings.get("task"), settings.get("level"), settings.get("split")]
    shots = settings.get("shots")
    return ", ".join([*(str(word) for word in words if word), *_counted(shots, "worked example")])


def _answers(manifest: Manifest) -> str:
    sampler = manifest.sampler
    drawn = manifest.drawn.replace(" at ", " at temperature ")
    parts = [
        f"{drawn} of each question" if drawn else "",
        *_counted(sampler.get("length"), "token", " at most"),
        *_counted(sampler.get("steps"), "step"),
    ]
    return ", ".join(filter(None, parts))


def _trips(manifest: Manifest) -> str:
    trips = manifest.consistency
    if not trips:
        return ""
    ratio = trips.get("mask_ratio")
    masked = f"{ratio:.0%} masked" if isinstance(ratio, float | int) else f"{ratio} shares masked"
    parts = [
        *_counted(trips.get("trips"), "round trip"),
        masked if ratio is not None else "",
        *_counted(trips.get("rebuild_steps"), "step", " each"),
        f"metrics {manifest.settings['metrics']}" if manifest.settings.get("metrics") else "",
    ]
    return ", ".join(filter(None, parts))


def _runs(manifest: Manifest) -> str:
    if not manifest.runs:
        return ""
    last = manifest.runs[-1]
    day = (last.finished or last.started or "")[:10]
    version = last.versions.get("remask")
    words = [
        day,
        f"on {last.device}" if last.device else "",
        f"by remask {version}" if version else "",
    ]
    return " ".join(filter(None, words))


def _counted(number: Any, thing: str, rest: str = "") -> list[str]:
    """Return how many of a thing there are, in words; nothing where there are none."""
    if not isinstance(number, int) or not number:
        return []
    return [f"{number:,} {thing}{'' if number == 1 else 's'}{rest}"]
