"""docs/figures.json, the figures that README and docs quote: how scripts read it and write to it.

{"version": 2, "commands": {key: text}, "figures": {name: {"value": ..., "command": key}}}
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.records.jsonl import write_text

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures.json"
VERSION = 2
Row = dict[str, Any]
MARKER = re.compile(r"<!--fig:(.*?)-->")  # behind a number on a page
# What stays whether a page quotes it or not: names that somebody was promised.
NAMED = re.compile(
    "|".join((
        r"accuracy/[^/]+",
        r"diagnosis/[^/]+/[^/.]+/(auroc|aupr|ece|aurc)",
        r"correction/[^/]+/[^/]+/(accuracy|n_avg|eff|forwards)",
        r"ablation/.+",
        r"geometry/(spearman|spearman_null|spearman_confidence|r2|density_ratio|chi2|contraction)",
        r"process/wordmath/auroc",
        r"frontier/[^/]+/[^/]+/(auroc|auroc_equal_length|extra_forwards)",
        r"frontier/mgrs/[^/]+/(accuracy|forwards)",
        r"spurious/(auroc|precision|recall)",
        r"certificate/violations",
        r"grading/(gsm8k|svamp|mawps|math500|arc|mbpp)/(gold|control)",
        r"reading/(gsm8k|math500|arc|mbpp|countdown)/(right|wrong)",
        r"parity/[^/]+/(fp32|bf16)",
        r"adapt/finite_gradients",
        r"standins/(ids|steps_ok)",
        r"align/((second|third|long)/)?(start|sft|outcome|geometric|stable|placebo|oracle)/.+",
        r"align/((second|third|long)/)?(\w+_minus_\w+/\w+|seeds)|align/fsdp_gradient_difference",
        r"cpu/(verify_seconds|verify_rss_gb|probe_seconds|verifier_seconds)",
        r"h200/\w+/(verify_seconds|verify_ratio|generate_tokens_per_s|peak_share|memory_gb)",
        r"h200/\w+/(probe|verifier|roundtrips)_seconds",
        r"h200/llada8b/(int8|nf4|fp8)/(verify_seconds|memory_gb)",
        r"quant/(int8|nf4|fp8)/(auroc_loss|megabytes|roundtrips/auroc_loss)",
        r"h200/llada8b/(stable/)?(step_seconds/(rollout|score|update)|step_memory_gb)",
        r"serve/((throughput_ratio|p50_ms|p95_ms)/\d+|memory_growth|mixed/\w+|fairness/\w+)",
        r"clients/ok",
        r"page/first_paint_ms",
        r"embedded/megabytes",
        r"real/.+",
        r"docs/pages",
        r"faults/(two_writers|edits|kills|arguments|overload/(answered|refused|failed))",
        r"adapt/finite_gradients",
        r"house/(lines|files)",
    ))
)  # fmt: skip


def figure_of(
    value: float, unit: str, n: int | None = None, *, low: float | None = None,
    high: float | None = None,
) -> Row:  # fmt: skip
    """Return a figure without its origin; most have no interval."""
    return {"value": value, "low": low, "high": high, "n": n, "unit": unit}


def read(path: Path) -> tuple[dict[str, str], dict[str, Row]]:
    """Return the commands and the figures of a file, none where it does not exist."""
    if not path.exists():
        return {}, {}
    document = json.loads(path.read_text(encoding="utf-8"))
    if document.get("version") != VERSION:
        raise RecordError(
            f"{path} has version {document.get('version')}, not {VERSION}; write it again."
        )
    return document["commands"], document["figures"]


def merge(
    path: Path,
    new: Mapping[str, Mapping[str, Any]],
    commands: Mapping[str, str],
    owned: tuple[str, ...] = (),
) -> None:
    """Write figures over those of the same names, and leave the others.

    Older ones whose names begin with `owned` go: a script that measures all of them would otherwise
    leave behind what it does not measure any more. `commands` has the texts of the keys that the
    new figures name; keys that no figure names any more go too.
    """
    known, before = read(path)
    others = {name: row for name, row in before.items() if not name.startswith(owned)}
    others = {name: row for name, row in others.items() if name not in new}
    keys = {row["command"] for row in others.values()}
    changed = [key for key in keys if commands.get(key, known[key]) != known[key]]
    if changed:
        raise RecordError(
            f"{path}: other figures come from another command {changed[0]!r}: {known[changed[0]]}"
        )
    texts = {**{key: known[key] for key in keys}, **commands}
    document = {
        "version": VERSION,
        "commands": dict(sorted(texts.items())),
        "figures": dict(sorted({**others, **new}.items())),
    }
    write_text(path, json.dumps(document, indent=2) + "\n")


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Return the command line of a script that can write figures, with the flags for that.

    Whoever quotes a figure wants to know what was measured, and on what.
    """
    parser.add_argument("--figures", type=Path, help="figures.json to merge the results into")
    parser.add_argument("--commit", help="commit that was measured")
    parser.add_argument("--hardware", help="what it was measured on")
    arguments = parser.parse_args(words)
    if arguments.figures and not (arguments.commit and arguments.hardware):
        parser.error("--figures needs --commit and --hardware.")
    return arguments


def save(
    arguments: argparse.Namespace, figures: Mapping[str, Mapping[str, Any]], key: str, command: str
) -> None:
    """Merge figures into the file that the command line names, if it names one.

    A script may measure more than has a name; what is in the file is what somebody looks for.
    """
    if arguments.figures:
        origin = {"command": key, "hardware": arguments.hardware, "commit": arguments.commit}
        named = {name: row for name, row in figures.items() if NAMED.fullmatch(name)}
        new = {name: {**row, **origin} for name, row in named.items()}
        merge(arguments.figures, new, {key: command})
