"""The curves of a training, read from its log: one picture that says whether to trust the run."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from remask.errors import RecordError
from remask.records.lock import locked
from remask.report import render

LOGS, PICTURE = ("log.jsonl", "adapt.jsonl"), "curves.png"  # of align, of adapt
# The panels, each with its lines: a name in the log, and what it is called.
PANELS: Mapping[str, Mapping[str, str]] = {
    "Reward": {"reward": "mean", "reward_std": "spread in a group"},
    "Validation accuracy, greedy": {"eval/accuracy": "accuracy"},
    "Score": {"bmc/score": "of what was scored"},
    "Bounds, nats a token": {
        "spg/elbo_pos": "below, of answers above the mean",
        "spg/eubo_neg": "above, of answers below the mean",
    },
    "Divergence from the start": {"kl": "of a token"},
    "Entropy, nats a token": {"entropy": "of a token when revealed"},
    "Tokens of a completion": {"completions/mean_length": "mean"},
    "Causal loss": {"causal_loss": "from left to right"},
    "Loss": {"loss": "loss", "valid_loss": "held out"},
    "Learning rate": {"lr": "of AdamW", "learning_rate": "of AdamW"},
    "Norm of the gradient, before the clip": {"grad_norm": "norm"},
}


def draw_training(out: Path) -> Path | None:
    """Draw the curves of the run in `out` as PNG and SVG; return None if there is nothing to draw.

    Another process that uses the folder draws them when it ends.
    """
    with suppress(RecordError), locked(out):
        return _draw(out)
    return None


def _draw(out: Path) -> Path | None:
    rows = [row for name in LOGS for row in _rows(out / name)]
    drawn = {
        title: lines
        for title, named in PANELS.items()
        if (lines := {label: line for name, label in named.items() if (line := _line(rows, name))})
    }
    if not drawn:
        return None
    return render.panels(drawn, out / PICTURE, x="updates")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log; the last line of a killed run may be half of one."""
    if not path.is_file():
        return
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            yield row


def _line(rows: list[dict[str, Any]], name: str) -> tuple[list[float], list[float]] | None:
    """Return the updates that have a value, and the values; None where no two have one."""
    points = [(row["step"], row[name]) for row in rows if isinstance(row.get(name), int | float)]
    if len(points) < 2:
        return None
    steps, values = zip(*points, strict=True)
    return list(steps), list(values)
