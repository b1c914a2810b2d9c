"""What comes of a question on the server's page: the wait for it, the verdict, where it is seen."""

import json
from typing import Any

import pytest
from person import TEXT, check_own, click, put, solve, text, texts, visit
from serving.live import soon
from serving.playback import Playback, pieces, verification

pytestmark = pytest.mark.browser

TOP = "document.querySelector({}).getBoundingClientRect().top"
SPY = """
(() => {
  window.scrolled = [];
  Element.prototype.scrollIntoView = function (how) {
    window.scrolled.push([this.id, how.behavior]);
  };
})()
"""


def in_sight(page: Any, selector: str) -> bool:
    page.settle()
    top = page.run(TOP.format(json.dumps(selector)))
    return bool(0 <= top < page.run("innerHeight"))


def answers(stage: Playback, **changes: Any) -> None:
    """Let the server give one answer, changed."""
    stage.answers = [verification(pieces(TEXT), lost=0.05, seed=5) | changes]


def test_an_answer_of_ones_own_is_in_no_race(page: Any) -> None:
    check_own(page)
    assert page.run("document.getElementById('race').hidden")
    assert text(page, "#answer-title") == "Your answer"
    click(page, "input[value=solve]")
    solve(page)
    assert not page.run("document.getElementById('race').hidden")
    assert text(page, "#race-title") == "The race"
    check_own(page)
    assert page.run("document.getElementById('race').hidden")


@pytest.mark.parametrize(
    ("verdict", "drift", "sentence"),
    [
        ("trust", 0.25, "Trust: most of it is reconstructed"),
        ("trust", 0.0, "Trust: all of it is reconstructed"),
        ("undecided", 0.25, "Undecided: the score is within one standard error of the threshold"),
        ("doubt", 0.25, "Doubt: it drifts"),
        ("doubt", 0.0, "Doubt: nothing drifted, but the score is not above the threshold"),
        ("unknown", 0.0, "Unknown: no threshold is known"),
    ],
)
def test_a_verdict_is_one_of_four_words_and_only_what_drifted_drifts(
    page: Any, stage: Playback, verdict: str, drift: float, sentence: str
) -> None:
    answers(stage, verdict=verdict, threshold_reason="no threshold is known")
    for token in stage.answers[0]["tokens"]:
        token["drift"] = drift
    check_own(page)
    assert text(page, "#verdict .told") == sentence
    assert text(page, "#heat-title") == ("Where it drifts" if drift else "Nothing drifted")
    assert page.run("document.querySelector('#verdict .meter').className") == f"meter {verdict}"


def test_what_did_not_drift_has_no_orange_line(page: Any, stage: Playback) -> None:
    """The foot of a column, one pixel high where nothing is drawn: token 1 drifted, token 0 not."""
    answers(stage)
    for k, token in enumerate(stage.answers[0]["tokens"]):
        token["drift"] = 0.5 if k == 1 else 0.0
    check_own(page)
    page.settle()
    pixels = page.run(
        "(() => { const c = document.querySelector('.heat canvas'); const pen = c.getContext('2d');"
        f" const w = Math.min(24, Math.max(14, (c.clientWidth - 62) / {len(pieces(TEXT))}));"
        " const look = (k) => [...pen.getImageData(62 + k * w + 4, c.height - 34 + 27, 1, 1).data];"
        " return [look(0), look(1)]; })()"
    )
    assert pixels[0][:3] == pytest.approx([0xDD, 0xE1, 0xE6], abs=3), "the ground line"
    assert pixels[1][:3] == pytest.approx([0xA3, 0x44, 0x00], abs=3), "the colour of drift"


def test_an_undecided_candidate_is_told_beside_its_side(page: Any, stage: Playback) -> None:
    for answer in stage.answers:
        answer["verdict"] = "undecided"
    solve(page)
    assert texts(page, ".lane .badge")[:2] == ["undecided"] * 2


@pytest.mark.parametrize("width", [390, 1280])
def test_the_result_comes_into_view_with_the_focus(page: Any, width: int) -> None:
    page.look(width, 700)
    check_own(page)
    page.wait("document.activeElement.id === 'answer-title'")
    assert in_sight(page, "#answer-title")
    assert in_sight(page, "#verdict")


def test_a_race_comes_into_view_with_its_winner(page: Any, stage: Playback) -> None:
    solve(page)
    page.wait("document.activeElement.id === 'race-title'")
    assert in_sight(page, "#race-title")
    assert in_sight(page, "#verdict")
    stage.answers = stage.answers[:1] * 9 + stage.answers[-1:]
    click(page, "#go")
    page.wait("document.activeElement.id === 'answer-title'")
    assert in_sight(page, "#verdict"), "ten lanes leave no room for the answer beside them"


def test_an_error_comes_into_view(page: Any, stage: Playback) -> None:
    page.look(390, 500)
    stage.refusal = (400, "no.")
    click(page, "#go")
    page.wait("document.activeElement.id === 'fault'")
    assert in_sight(page, "#fault-says")
    assert page.run("document.getElementById('race').hidden"), "an empty race says nothing"


@pytest.mark.parametrize(
    ("motion", "behaviour"), [("reduce", "instant"), ("no-preference", "smooth")]
)
def test_who_wants_no_motion_gets_none(page: Any, motion: str, behaviour: str) -> None:
    feature = {"name": "prefers-reduced-motion", "value": motion}
    page.call("Emulation.setEmulatedMedia", features=[feature])
    page.run(SPY)
    check_own(page)
    page.wait("window.scrolled.some(([id]) => id === 'answer')")
    assert {how for _, how in page.run("window.scrolled")} == {behaviour}


def test_who_is_busy_elsewhere_is_not_torn_away(page: Any, stage: Playback) -> None:
    """A button says that the result is there, and leads to it."""
    page.look(390, 600)
    click(page, "input[value=verify]")
    stage.hold_after = 0
    click(page, "#go")
    page.wait("!document.getElementById('waiting').hidden")
    page.settle()
    page.run("scrollTo({ top: 0, behavior: 'instant' }); document.getElementById('prompt').focus()")
    page.press("ArrowLeft")
    stage.go_on.set()
    page.wait("!document.getElementById('there').hidden")
    assert page.run("document.activeElement.id") == "prompt"
    assert page.run("scrollY") == 0
    assert text(page, "#there") == "See the answer"
    click(page, "#there")
    page.wait("document.activeElement.id === 'answer-title'")
    assert in_sight(page, "#verdict")
    assert page.run("document.getElementById('there').hidden")


def test_waiting_shows_the_time_and_the_place(page: Any, stage: Playback) -> None:
    stage.hold_after, stage.queue = 0, {"requests": 4, "ahead": 2}
    click(page, "input[value=verify]")
    click(page, "#go")
    says = "document.getElementById('waiting-says').textContent"
    page.wait(f"{says} === 'Verifying. 2 requests are before yours.'")
    assert stage.places[-1] == f"name={stage.names[-1]}"
    assert len(str(stage.names[-1])) == 32
    first = text(page, "#waiting-clock")
    page.wait(f"document.getElementById('waiting-clock').textContent !== {json.dumps(first)}")
    stage.queue = {"requests": 2, "ahead": 0}
    page.wait(f"{says}.endsWith('The model is at work on it; 1 other request runs or waits.')")
    stage.go_on.set()
    page.wait("document.getElementById('waiting').hidden")
    assert text(page, "#verdict .told")


def test_times_and_places_in_words(page: Any) -> None:
    found = page.run(
        "import('/static/wait.js').then(({ duration, place }) => [duration(9.7), duration(125),"
        " place({ ahead: 1, requests: 2 }), place({ ahead: 0, requests: 1 }),"
        " place({ ahead: 0, requests: 3 }),"
        " place({ ahead: null, requests: 3 })])"
    )
    assert found == [
        "9 s", "2 min 5 s", "1 request is before yours.", "The model is at work on it.",
        "The model is at work on it; 2 other requests run or wait.", "",
    ]  # fmt: skip


def test_a_server_that_tells_no_places_does_not_matter(page: Any, stage: Playback) -> None:
    stage.hold_after, stage.queue = 0, {}
    click(page, "input[value=verify]")
    click(page, "#go")
    assert soon(lambda: bool(stage.places))
    assert text(page, "#waiting-says") == "Verifying."
    stage.go_on.set()
    page.wait("!document.getElementById('answer').hidden")


def test_waiting_can_be_given_up(page: Any, stage: Playback) -> None:
    stage.hold_after = 0
    click(page, "input[value=verify]")
    click(page, "#go")
    page.wait("!document.getElementById('waiting').hidden")
    click(page, "#stop")
    page.wait("document.getElementById('waiting').hidden")
    assert page.run("document.getElementById('fault').hidden"), "that is no fault"
    assert page.run("document.activeElement.id") == "go"
    stage.go_on.set()


def test_trying_again_keeps_what_came(page: Any, stage: Playback) -> None:
    """The first candidate is verified and the second begun when the server dies."""
    stage.die_after, stage.polite = 6, True
    click(page, "#go")
    page.wait("!document.getElementById('fault').hidden")
    before = texts(page, ".lane .said")
    stage.die_after, stage.hold_after = None, 1
    click(page, "#retry")
    page.wait("!document.getElementById('waiting').hidden")
    page.wait("document.getElementById('race-says').textContent.startsWith('Trying again.')")
    assert texts(page, ".lane .badge") == ["doubt", "writing"]
    assert texts(page, ".lane .said") == before
    assert text(page, "#answer-title") == "Candidate 1"
    assert not page.run("document.getElementById('answer').hidden")
    stage.go_on.set()
    page.wait("!!document.querySelector('.lane.won')")
    assert texts(page, ".lane .badge") == ["doubt", "doubt", "\u2713 accepted"]


def test_an_example_is_there_from_the_start(page: Any, stage: Playback) -> None:
    """And asked by its name, so that the server can grade the answer."""
    assert page.run("document.getElementById('prompt').value").startswith("wordmath easy 0:")
    assert page.run("document.activeElement === document.body"), "the focus is not taken"
    click(page, "input[value=verify]")
    assert page.run("document.getElementById('own').value") == "12 + 5 = 17. The answer is 17."
    click(page, "#go")
    page.wait("!document.getElementById('answer').hidden")
    assert (stage.bodies[-1]["task"], stage.bodies[-1]["seed"]) == ("wordmath", 0)


def test_how_answers_are_written_and_scored_can_be_chosen(page: Any, stage: Playback) -> None:
    assert texts(page, "#scorer option")[0] == "round trips: hide and rebuild"
    put(page, "input[name=temperature]", 0.7)
    put(page, "input[name=max_tokens]", 64)
    solve(page)
    assert (stage.bodies[-1]["temperature"], stage.bodies[-1]["max_tokens"]) == (0.7, 64)
    assert "scorer" not in stage.bodies[-1]["remask"], "the server's own"
    put(page, "#scorer", "verifier", "change")
    assert text(page, "h1") == "See an answer probed"
    assert page.run("document.querySelector('input[name=trips]').disabled")
    click(page, "#go")
    page.wait("!document.getElementById('go').disabled")
    assert stage.bodies[-1]["remask"] == {"trace": True, "scorer": "verifier", "budget": 10}
    put(page, "#scorer", "roundtrips", "change")
    assert text(page, "h1") == "See an answer drift"
    check_own(page)
    assert not {"temperature", "max_tokens"} & set(stage.bodies[-1]), "nothing is written then"
    hidden = "document.querySelector('input[name=temperature]').parentElement.hidden"
    assert page.run(hidden)


def test_passes_and_time_are_two_facts(page: Any, stage: Playback) -> None:
    answers(stage, cost={"forwards": 18, "seconds": 64.2})
    check_own(page)
    terms = texts(page, "#verdict .facts dt")
    told = dict(zip(terms, texts(page, "#verdict .facts dd"), strict=True))
    assert told["verifying took"] == "18 forward passes"
    assert told["arrived after"] == "64.2 s, waiting included"


def test_long_answers_have_their_tokens_above_the_columns(browser: Any, stage: Playback) -> None:
    """500 columns of 14 pixels are scrolled; the labels are drawn at either end."""
    browser.look(390, 900)
    visit(browser, stage)
    stage.answers = [verification((pieces(TEXT) * 20)[:500], lost=0.1, seed=1)]
    check_own(browser)
    assert browser.run("document.querySelector('.spacer').offsetWidth") == 62 + 500 * 14
    drawn = (
        "(() => { const c = document.querySelector('.heat canvas');"
        " const data = c.getContext('2d').getImageData(62, 0, c.width - 62, 40).data;"
        " return data.some((value) => value > 0); })()"
    )
    for place in (0, 3000, 7000):
        browser.run(f"document.querySelector('.heat').scrollLeft = {place}")
        browser.settle()
        assert browser.run(drawn)
