"""The server's page for everyone: any width, light and dark, keyboard, names; and a real model."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from person import FAULTS, check_outline, click, copied, put, reach, solve, text, texts, write_study

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_what_is_behind_it(page: Any, dark: bool) -> None:
    """At least 4.5 to 1, as WCAG asks for text of this size."""
    page.look(1280, 900, dark=dark)
    solve(page)
    page.settle()  # colours of bars move into place
    selectors = [
        "body", ".lead", ".brand", ".served", ".note", "#go", ".example", ".lane .badge",
        ".lane.won .badge", ".result", ".told", ".facts dt", ".legend", "#answer-legend .d1",
        "#answer-legend .d4", ".says", ".metrics thead th", "footer", "input:checked + span",
    ]  # fmt: skip
    low = {s: round(c, 2) for s in selectors if (c := page.contrast(s)) < 4.5}
    click(page, "input[value=confidence]")
    levels = [f"#answer-legend .c{k}" for k in (1, 2, 3, 4)]
    low |= {s: round(c, 2) for s in levels if (c := page.contrast(s)) < 4.5}
    assert low == {}
    light = page.run("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(246, 245, 241)") != dark


@pytest.mark.parametrize("width", [360, 768, 1280, 1920])
def test_the_page_never_scrolls_sideways(page: Any, width: int, tmp_path: Path) -> None:
    page.look(width, 900)
    solve(page)
    write_study(tmp_path / "s.jsonl")
    page.choose_files("#study-file", [tmp_path / "s.jsonl"])
    page.wait("!document.getElementById('slider').hidden")
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.run("document.documentElement.scrollWidth") <= width


def test_the_keyboard_is_enough(page: Any) -> None:
    """Skip link, an example, Enter; then a candidate, a cell, a step, all without a mouse."""
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    page.press("Enter")
    page.wait("document.activeElement.id === 'main'")
    reach(page, ".example")
    page.press("Enter")
    assert page.run("document.activeElement.id") == "prompt"
    page.press("Enter", control=True)
    page.wait("!!document.querySelector('.lane.won')")
    reach(page, ".lane:first-child .pick")
    page.press("Enter")
    page.wait("document.getElementById('answer-title').textContent === 'Candidate 1'")
    reach(page, "input[name=by]")
    page.press("ArrowRight")
    page.wait("document.querySelector('input[value=confidence]').checked")
    reach(page, ".heat")
    page.press("ArrowDown")
    assert text(page, ".says").startswith("Trip 2, token 1 ")
    reach(page, "#player-play")
    page.press(" ")
    assert text(page, "#player-play") == "Pause"
    reach(page, "#player-scrub")
    page.press("End")
    assert text(page, "#player-says").startswith("Rebuilt:")
    reach(page, "#study-file")


def test_everything_has_a_name_for_those_who_do_not_see_it(page: Any, tmp_path: Path) -> None:
    solve(page)
    write_study(tmp_path / "s.jsonl")
    page.choose_files("#study-file", [tmp_path / "s.jsonl"])
    page.wait("!document.getElementById('slider').hidden")
    unnamed = (
        "[...document.querySelectorAll('input, select, textarea')]"
        ".filter((e) => !e.labels.length && !e.getAttribute('aria-labelledby')).map((e) => e.id)"
    )
    assert page.run(unnamed) == []
    bare = "[...document.querySelectorAll('button')].filter((e) => !e.textContent.trim()).length"
    assert page.run(bare) == 0
    check_outline(page)
    assert page.run("document.getElementById('race-says').getAttribute('aria-live')") == "polite"
    assert page.run("document.getElementById('fault').getAttribute('role')") == "alert"


def test_the_embedded_model_verifies_and_solves_on_the_page(browser: Any, embedded: str) -> None:
    """The whole house: the server's own headers, its events, its numbers."""
    browser.look(1280, 900)
    browser.open(f"{embedded}/")
    browser.wait("document.querySelectorAll('.example').length === 4")
    assert text(browser, "#model") == "tiny"
    put(browser, "input[name=trips]", 2)
    put(browser, "input[name=rebuild_steps]", 4)
    put(browser, "input[name=budget]", 1)
    click(browser, "input[value=verify]")
    click(browser, ".example")
    answer = browser.run("document.getElementById('own').value")
    click(browser, "#go")
    browser.wait("!document.getElementById('answer').hidden")
    found = json.loads(copied(browser, "#copy-json"))
    assert found["text"] == answer
    assert text(browser, "#verdict .score strong") == f"{found['score']:.3f}"
    assert "right" in texts(browser, "#verdict .facts dd")
    assert texts(browser, "#player-trip option")[1].startswith("trip 2: ")
    click(browser, "input[value=solve]")
    put(browser, "input[name=threshold]", 0.5)  # none is known for two trips
    click(browser, "#go")
    browser.wait("!!document.querySelector('.lane.won')")
    assert text(browser, "#answer-title") == "Candidate 1"
    assert not browser.run("document.querySelector('input[value=confidence]').disabled")
    assert [event for event in browser.events if event["method"] in FAULTS] == []


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_the_verifier_is_seen_on_the_page(
    browser: Any, embedded_verifier: str, width: int, dark: bool, tmp_path: Path
) -> None:
    """17 passes of a right answer; with SCREENSHOTS=FOLDER a picture is left there."""
    browser.look(width, 900, dark=dark)
    browser.open(f"{embedded_verifier}/")
    browser.wait("document.querySelectorAll('.example').length === 4")
    assert text(browser, "h1") == "See an answer probed"
    click(browser, "input[value=verify]")
    click(browser, ".example")
    click(browser, "#go")
    browser.wait("!document.getElementById('answer').hidden")
    found = json.loads(copied(browser, "#copy-json"))
    assert found["scorer"] == "verifier_at_hand"
    assert "verifier, of an answer at hand" in texts(browser, "#verdict .facts dd")
    assert any(told == "17 forward passes" for told in texts(browser, "#verdict .facts dd"))
    adds = [float(part) for part in texts(browser, "#metrics tbody td:nth-child(5)")]
    assert sum(adds) == pytest.approx(found["score"], abs=0.002)
    assert texts(browser, "#metrics thead th")[2] == "value"
    legend = [f"#answer-legend .d{k}" for k in (1, 2, 3, 4)]
    assert min(browser.contrast(selector) for selector in legend) >= 4.5
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.getElementById('answer').scrollIntoView({behavior: 'instant'})")
    browser.settle()
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    path = browser.screenshot(folder / f"verifier-{width}-{'dark' if dark else 'light'}.png")
    assert path.stat().st_size > 10_000  # an empty window is a file of a few thousand bytes
    assert [event for event in browser.events if event["method"] in FAULTS] == []
