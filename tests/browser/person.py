"""What a person does on the server's page, for the tests that watch it."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from serving.playback import Playback

FAULTS = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
TEXT = "Ben has 12 apples. Zoe has 5 more, so she has 12 + 5 = 17 apples.\nThe answer is 17."


def visit(browser: Any, stage: Playback, address: str = "/") -> None:
    """Open the page, without a history, and wait until it is ready."""
    browser.open(f"{stage.url}/static/icon.svg")
    browser.run("localStorage.clear()")
    come_again(browser, stage, address)


def come_again(browser: Any, stage: Playback, address: str = "/") -> None:
    """Open the page as someone who was there before."""
    browser.open(f"{stage.url}{address}")
    browser.wait("document.querySelectorAll('.example').length === 4")
    browser.wait("document.getElementById('prompt').value !== ''")


def check_outline(page: Any) -> None:
    """Make sure that heads, pictures, ids and headings are such that a screen reader can follow."""
    assert page.run("document.querySelectorAll('th:not([scope])').length") == 0
    assert page.run("document.querySelectorAll('svg:not([aria-label])').length") == 0
    ids = "[...document.querySelectorAll('[id]')].map((e) => e.id)"
    assert page.run(f"{ids}.length") == page.run(f"new Set({ids}).size")
    tags = page.run("[...document.querySelectorAll('h1,h2,h3,h4')].map((e) => e.tagName[1])")
    levels = [int(tag) for tag in tags]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def texts(page: Any, selector: str) -> list[str]:
    """Return what the elements read."""
    found: list[str] = page.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
    )
    return found


def text(page: Any, selector: str) -> str:
    """Return what the one element reads."""
    [found] = texts(page, selector)
    return found


def click(page: Any, selector: str) -> None:
    page.run(f"document.querySelector({json.dumps(selector)}).click()")


def put(page: Any, selector: str, value: object, event: str = "input") -> None:
    """Set the value of a field as a person would."""
    page.run(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
        f" e.value = {json.dumps(str(value))}; e.dispatchEvent(new Event('{event}')); }})()"
    )


def solve(page: Any) -> None:
    """Ask a question and wait until the race is over."""
    put(page, "#prompt", "How many has Zoe?")
    click(page, "#go")
    page.wait("!!document.querySelector('.lane.won')")


def check_own(page: Any, answer: str = "17") -> None:
    """Ask about an answer of one's own and wait until it is shown."""
    click(page, "input[value=verify]")
    put(page, "#prompt", "How many has Zoe?")
    put(page, "#own", answer)
    click(page, "#go")
    page.wait("!document.getElementById('answer').hidden")


def copied(page: Any, selector: str) -> str:
    """Return what a button copies."""
    page.run(
        "window.taken = null;"
        "navigator.clipboard.writeText = async (text) => { window.taken = text; }; true"
    )
    click(page, selector)
    page.wait("window.taken !== null")
    assert text(page, "#copied") == "Copied."
    return str(page.run("window.taken"))


def reach(page: Any, selector: str, most: int = 60) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(most):
        page.press("Tab")
        if page.run(f"document.activeElement.matches({json.dumps(selector)})"):
            return
    raise AssertionError(f"Tab does not lead to {selector}")


def write_study(path: Path, n: int = 240) -> list[dict[str, Any]]:
    """Write labelled answers, two samples of each question; low scores are mostly wrong ones."""
    rows = []
    for k in range(n):
        score = round(0.35 + 0.65 * ((k * 37) % n) / n, 4)
        for number in (1, 0):
            rows.append({
                "id": f"q/{k}", "number": number, "right": score > 0.7 or k % 3 == 0,
                "scores": {"confidence": None if k % 5 else 0.9, "roundtrips": score - number},
            })  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [row for row in rows if row["number"] == 0]
