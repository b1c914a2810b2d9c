"""Calls of clients, each client in a process of its own, and the table of what became of them."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.client_calls import CALLS

SCRIPT = Path(__file__).resolve().parent / "client_calls.py"
CLIENTS = tuple(dict.fromkeys(call.client for call in CALLS))
NAMES = tuple(dict.fromkeys(call.name for call in CALLS))
MARK = "<!--clients-->"  # before and after the table on a page
Outcomes = Mapping[str, Mapping[str, Any]]  # by client: its version, and of each call "ok" or why
_SHOWN = {"ok": "ok", None: ""}


def run_client(python: str, url: str, model: str, client: str) -> dict[str, Any]:
    """Return what becomes of the calls of a client that an interpreter has."""
    done = subprocess.run(
        [python, str(SCRIPT), url, model, client], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{client} did not run:\n{done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def failures(outcomes: Outcomes) -> list[str]:
    """Return a line for each call that failed."""
    return [
        f"{client}, {name}: {end}"
        for client, told in outcomes.items()
        for name, end in told["calls"].items()
        if end != "ok"
    ]


def share_ok(outcomes: Outcomes) -> tuple[float, int]:
    """Return the share of the calls that went well, and how many there are."""
    num_calls = sum(len(told["calls"]) for told in outcomes.values())
    return 1 - len(failures(outcomes)) / num_calls, num_calls


def row(client: str, told: Mapping[str, Any]) -> str:
    """Return a line of the table: empty where a client is not used for a call."""
    cells = [_SHOWN.get(told["calls"].get(name), "**fails**") for name in NAMES]
    return _line([f"{client} {told['version']}", *cells])


def table(outcomes: Outcomes) -> str:
    """Return the table in Markdown."""
    head = [_line(["client", *NAMES]), _line(["---"] * (len(NAMES) + 1))]
    return "\n".join([*head, *(row(client, told) for client, told in outcomes.items())])


def write_table(page: Path, outcomes: Outcomes) -> None:
    """Write the table on a page, between its two marks."""
    before, _, after = page.read_text(encoding="utf-8").split(MARK)
    page.write_text(f"{before}{MARK}\n\n{table(outcomes)}\n\n{MARK}{after}", encoding="utf-8")


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
