"""The server's page when things go wrong: hostile answers, long ones, servers that die."""

import json
from typing import Any

import pytest
from person import FAULTS, TEXT, click, put, solve, text, texts, visit
from serving.live import soon
from serving.playback import Playback, pieces, verification

pytestmark = pytest.mark.browser

HOSTILE = [
    "</script><script>window.hacked = 1</script>", "<img src=x onerror='window.hacked = 1'>",
    "\u202egnp.exe", "zero\u200bwidth\ufeff", "\x00\x1b[31m", "{{data}}", "&lt;b&gt;", "\ud800",
    "javascript:window.hacked=1", "' onmouseover='window.hacked=1",
]  # fmt: skip


def test_examples_that_come_late_do_not_replace_those_chosen_since(
    page: Any, stage: Playback
) -> None:
    stage.listed.clear()
    stage.pause = 0.5
    put(page, "#task", "countdown", "change")
    put(page, "#task", "wordmath", "change")
    put(page, "#level", "hard", "change")
    page.wait("document.querySelector('.example').textContent.startsWith('wordmath hard')")
    late = {"countdown easy", "wordmath easy", "wordmath hard"}
    assert soon(lambda: late <= set(stage.listed)), stage.listed
    page.settle()
    assert texts(page, ".example")[0].startswith("wordmath hard")


def test_what_a_model_writes_is_text_even_five_thousand_tokens_of_it(
    page: Any, stage: Playback
) -> None:
    long = (HOSTILE * 500)[:5000]
    bad = HOSTILE[0]
    hostile = verification(long, lost=0.2, seed=3)
    hostile |= {"extracted": bad, "reason": bad}
    hostile["metrics"][bad] = hostile["metrics"].pop("answer_match")
    for trip in hostile["trips"]:
        trip["rebuilt"] = [bad if k % 7 == 0 else back for k, back in enumerate(trip["rebuilt"])]
    stage.answers = [hostile]
    solve(page)
    page.wait("document.querySelectorAll('#player-text span').length === 5000")
    page.run("document.querySelector('.heat').focus()")
    page.press("End")
    put(page, "#player-scrub", 17)
    assert "token 5000" in text(page, "#heatmap .says")
    shown = text(page, "#answer-text")
    for part in ("</script><script>", "\\u202egnp.exe", "zero\\u200bwidth\\ufeff", "\\x00\\x1b["):
        assert part in shown
    assert page.run("typeof window.hacked") == "undefined"
    inside = "document.querySelectorAll('main :is(img, iframe, script, b b)').length"
    assert page.run(inside) == 0
    assert page.run("document.documentElement.scrollWidth") <= 1280
    assert [event for event in page.events if event["method"] in FAULTS] == []


def test_the_same_signs_are_written_out_as_in_reports(page: Any) -> None:
    from remask.report.drift_spans import shown

    signs = [
        chr(code) for code in [*range(0x3200), *range(0xD700, 0x10000), *range(0xE0000, 0xE1001)]
    ]
    found = page.run(
        f"import('/static/tokens.js').then(({{ shown }}) => {json.dumps(signs)}.map(shown))"
    )
    theirs = [shown(sign) for sign in signs]
    assert [(sign, a, b) for sign, a, b in zip(signs, found, theirs, strict=True) if a != b] == []


@pytest.mark.parametrize("polite", [False, True])
def test_a_server_that_dies_in_the_middle_is_told_and_can_be_asked_again(
    page: Any, stage: Playback, polite: bool
) -> None:
    stage.polite = polite
    stage.die_after = 6  # two candidates begun, one of them verified
    stage.pause = 0.05
    put(page, "#prompt", "How many has Zoe?")
    click(page, "#go")
    page.wait("!document.getElementById('fault').hidden")
    assert "stopped in the middle of its answer" in text(page, "#fault-says")
    assert texts(page, ".lane .badge") == ["doubt", "cut off"]
    assert text(page, "#answer-title") == "Candidate 1"
    assert not page.run("document.getElementById('go').disabled")
    stage.die_after = None
    click(page, "#retry")
    page.wait("!!document.querySelector('.lane.won')")
    assert page.run("document.getElementById('fault').hidden")


def test_a_server_that_is_gone_is_told(browser: Any) -> None:
    with Playback() as own:
        visit(browser, own)
    put(browser, "#prompt", "anyone?")
    click(browser, "#go")
    browser.wait("!document.getElementById('fault').hidden")
    assert text(browser, "#fault-says").startswith("The server does not answer.")


def test_examples_that_cannot_be_had_are_told(browser: Any) -> None:
    with Playback() as own:
        visit(browser, own)
    put(browser, "#level", "hard", "change")
    browser.wait("!document.getElementById('fault').hidden")
    assert text(browser, "#fault-says").startswith("The server does not answer.")


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("remask.trips is 65; give a whole number from 1 to 64. <b>",
         "\u201cRound trips\u201d is 65; give a whole number from 1 to 64. <b>"),
        ("temperature 0 draws one answer, and remask.budget is 10; give remask.budget 1.",
         "Temperature 0 draws one answer, and \u201cCandidates at most\u201d is 10; give "
         "\u201cCandidates at most\u201d 1."),
        ("max_tokens is 300; remask.item is x.",
         "\u201cTokens of an answer at most\u201d is 300; remask.item is x."),
    ],
)  # fmt: skip
def test_a_refusal_is_shown_with_the_words_of_the_page(
    page: Any, stage: Playback, sentence: str, told: str
) -> None:
    """Fields have their labels here; what the page has no field for keeps its name."""
    stage.refusal = (400, sentence)
    put(page, "#prompt", "How many?")
    click(page, "#go")
    page.wait("!document.getElementById('fault').hidden")
    assert text(page, "#fault-says") == told


def test_an_error_in_a_stream_is_told(page: Any, stage: Playback) -> None:
    stage.fail_after = 5  # the first candidate is verified
    put(page, "#prompt", "How many?")
    click(page, "#go")
    page.wait("!document.getElementById('fault').hidden")
    assert text(page, "#fault-says") == "The model gave no numbers."
    assert texts(page, ".lane .badge")[0] == "doubt"


def test_the_candidate_that_a_person_chose_stays_in_sight(page: Any, stage: Playback) -> None:
    stage.pause = 0.1
    put(page, "#prompt", "How many?")
    click(page, "#go")
    page.wait("!!document.querySelector('.lane.below')")
    click(page, ".lane .pick")
    page.wait("!!document.querySelector('.lane.won')")
    assert text(page, "#answer-title") == "Candidate 1"


def test_a_race_can_be_stopped(page: Any, stage: Playback) -> None:
    stage.hold_after = 1
    put(page, "#prompt", "How many?")
    click(page, "#go")
    page.wait("document.querySelectorAll('.lane').length === 1")
    click(page, "#stop")
    page.wait("!document.getElementById('go').disabled")
    assert text(page, "#race-says").startswith("Stopped.")
    assert texts(page, ".lane .badge") == ["cut off"]
    stage.go_on.set()


def test_a_heat_map_of_eight_trips_and_five_hundred_tokens_is_scrubbed_token_by_token(
    page: Any, stage: Playback
) -> None:
    """How long a frame takes is measured by benchmarks/page.py."""
    stage.answers = [verification((pieces(TEXT) * 20)[:500], lost=0.1, trips=8, seed=1)]
    solve(page)
    page.run(
        "(async () => { const heat = document.querySelector('.heat'); heat.focus();"
        " const key = new KeyboardEvent('keydown', { key: 'ArrowRight' });"
        " for (let k = 0; k < 60; k += 1) { heat.dispatchEvent(key);"
        " heat.scrollLeft += 12; await new Promise(requestAnimationFrame); } })()"
    )
    assert text(page, "#heatmap .says").startswith("Trip 1, token 61 ")
