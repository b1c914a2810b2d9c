"""Clients that others wrote, unmodified, against a real server: what docs/server.md promises.

Each runs in a process of its own, where it may patch, log and import as it likes.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving.client_runs import (  # type: ignore[import-not-found]
    CLIENTS,
    MARK,
    failures,
    row,
    run_client,
    share_ok,
    table,
    write_table,
)
from serving.live import live  # type: ignore[import-not-found]

from remask.denoisers.base import Denoiser
from remask.serve.settings import ServeSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server.md"
TOLD: dict[str, Any] = {
    "one": {"version": "1.0", "calls": {"chat": "ok", "stop": "ok"}},
    "other": {"version": "2.0", "calls": {"chat": "ValueError: no"}},
}


@pytest.fixture(scope="module")
def server(denoiser: Denoiser, settings: ServeSettings) -> Iterator[str]:
    with live(denoiser, replace(settings, model="small")) as (_, url):
        yield url


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_served_as_the_page_says(server: str, client: str) -> None:
    told = run_client(sys.executable, server, "small", client)
    assert failures({client: told}) == []
    assert row(client, told) in PAGE.read_text(encoding="utf-8")


def test_a_failure_is_shown_and_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{MARK}\nold\n{MARK}\n\nafter\n")
    write_table(page, TOLD)
    write_table(page, TOLD)
    text = page.read_text()
    assert text == f"before\n\n{MARK}\n\n{table(TOLD)}\n\n{MARK}\n\nafter\n"
    assert "| other 2.0 |" in text
    assert text.count("**fails**") == 1
    assert share_ok(TOLD) == (pytest.approx(2 / 3), 3)
    assert failures(TOLD) == ["other, chat: ValueError: no"]
