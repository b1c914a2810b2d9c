"""What can be kept of an answer on the server's page: a link, a file, the history, a comparison."""

import base64
import json
from typing import Any

import pytest
from person import (
    FAULTS,
    TEXT,
    check_own,
    click,
    come_again,
    copied,
    put,
    solve,
    text,
    texts,
    visit,
)
from serving.playback import Playback

pytestmark = pytest.mark.browser

FORM = """
(() => {
  const { elements } = document.getElementById("ask");
  const names = [
    "threshold", "budget", "temperature", "max_tokens", "trips", "rebuild_steps", "mask_ratio",
    "seed",
  ];
  const ids = ["prompt", "own", "kind", "scorer"];
  return [elements.mode.value, ...names.map((name) => elements[name].value),
    ...ids.map((id) => document.getElementById(id).value)];
})()
"""
HOSTILE = "\u202e</textarea><script>window.hacked = 1</script> \U0001f600 #&?="


def saved(page: Any, selector: str) -> list[str]:
    """Return the name and the content of the file that a button saves."""
    page.run(
        "window.files = []; URL.createObjectURL = (blob) => { window.blob = blob; return '#'; };"
        "HTMLAnchorElement.prototype.click = function () { window.files.push(this.download); }; 1"
    )
    click(page, selector)
    assert text(page, "#copied") == "Saved."
    found: list[str] = page.run("window.blob.text().then((text) => [...window.files, text])")
    return found


def test_a_link_brings_the_question_and_asks_nothing(page: Any, stage: Playback) -> None:
    put(page, "input[name=threshold]", 0.6)
    put(page, "input[name=trips]", 8)
    put(page, "input[name=seed]", 7)
    click(page, "input[value=verify]")
    put(page, "#prompt", HOSTILE)
    put(page, "#own", f"{HOSTILE}\n17")
    put(page, "#kind", "text")
    click(page, "#go")
    page.wait("!document.getElementById('answer').hidden")
    link = copied(page, "#copy-link")
    assert link.startswith(f"{stage.url}/#ask=")
    assert link.isascii()
    form, first = page.run(FORM), stage.bodies[-1]
    stage.bodies.clear()
    visit(page, stage, link.removeprefix(stage.url))
    page.wait("document.getElementById('own').value !== ''")
    assert page.run(FORM) == form
    assert stage.bodies == []
    click(page, "#go")
    page.wait("!document.getElementById('answer').hidden")
    assert stage.bodies == [first]
    assert page.run("typeof window.hacked") == "undefined"


def test_a_link_to_an_example_brings_its_task(page: Any, stage: Playback) -> None:
    click(page, "li:nth-child(3) > .example")
    put(page, "input[name=temperature]", 0.5)
    put(page, "#scorer", "verifier", "change")
    click(page, "#go")
    page.wait("!!document.querySelector('.lane.won')")
    link, first = copied(page, "#copy-link"), stage.bodies[-1]
    visit(page, stage, link.removeprefix(stage.url))
    page.wait("document.getElementById('prompt').value.startsWith('wordmath easy 2:')")
    click(page, "#go")
    page.wait("!!document.querySelector('.lane.won')")
    assert stage.bodies[-1] == first
    assert (first["task"], first["seed"], first["temperature"]) == ("wordmath", 2, 0.5)


def coded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "link",
    [
        "%%%", "", coded("x"), coded(["solve", None]), coded(["solve", {"prompt": "a"}]),
        coded(["steal", {"prompt": "a", "remask": {}}]),
        coded(["solve", {"prompt": {"toString": 1}, "remask": {}}]),
        coded(["solve", {"prompt": "a", "seed": "7", "remask": {}}]),
        coded(["solve", {"remask": {}}]),
        coded(["solve", {"prompt": "a", "remask": None}]),
        coded(["solve", {"prompt": "a", "remask": {"scorer": "oracle"}}]),
        coded(["verify", {"prompt": "a", "answer": "b", "kind": "haiku", "remask": {}}]),
        coded(["solve", {"task": "chess", "seed": 0, "remask": {}}]),
    ],
)  # fmt: skip
def test_a_link_that_cannot_be_read_is_told(page: Any, stage: Playback, link: str) -> None:
    come_again(page, stage, f"/#ask={link}")
    page.wait("!document.getElementById('fault').hidden")
    assert text(page, "#fault-says").startswith("This link cannot be read")
    assert page.run("document.getElementById('prompt').value").startswith("wordmath easy 0:")
    assert [event for event in page.events if event["method"] in FAULTS] == []


def test_a_link_may_come_while_the_page_is_open(page: Any) -> None:
    body = {"prompt": "And this?", "kind": "number", "seed": 3, "answer": "9", "remask": {}}
    page.run(f"location.hash = '#ask={coded(['verify', body])}'")
    page.wait("document.getElementById('own').value === '9'")
    assert page.run("document.getElementById('prompt').value") == "And this?"


def test_an_answer_is_saved_as_it_came(page: Any, stage: Playback) -> None:
    check_own(page)
    name, content = saved(page, "#save-json")
    assert name == "remask-ver-0.json"
    assert json.loads(content) == stage.answers[0] | {"text": "17"}


def test_an_answer_is_saved_to_be_read(page: Any, stage: Playback) -> None:
    """In Markdown that nothing in it can break out of."""
    bad = "````\n# no head | <b>"
    stage.answers[0] |= {"extracted": "a | b", "settings": {"trips": 4, "tail": "masked"}}
    stage.answers[0]["tokens"][0] |= {"text": "Be|n\n", "drift": 1.0}
    check_own(page, bad)
    name, content = saved(page, "#save-markdown")
    assert name == "remask-ver-0.md"
    assert f"`````text\n{bad}\n`````" in content
    assert "```text\nHow many has Zoe?\n```" in content
    lines = content.splitlines()
    assert "| verdict | doubt |" in lines
    assert "| result | a \\| b |" in lines
    assert "| trips | 4 |" in lines
    assert '| "Be\\|n\\\\n" | 100 % |' in lines
    assert [line for line in lines if line.startswith("# ")] == [
        "# An answer, verified by remask", "# no head | <b>",
    ]  # fmt: skip


def test_earlier_answers_are_shown_again_without_asking(page: Any, stage: Playback) -> None:
    """Also by a page that was opened anew; the form is as it was."""
    put(page, "input[name=trips]", 2)
    solve(page)
    check_own(page, TEXT)
    assert [entry.split("?")[0] for entry in texts(page, ".again")] == ["How many has Zoe"] * 2
    assert "checked: " in texts(page, ".again")[0], "the latest first"
    assert "solved, 3 candidates: " in texts(page, ".again")[1]
    come_again(page, stage)
    stage.bodies.clear()
    click(page, "li:last-child > .again")
    page.wait("!!document.querySelector('.lane.won')")
    assert text(page, "#answer-title") == "Candidate 3"
    assert texts(page, ".lane .badge") == ["doubt", "doubt", "\u2713 accepted"]
    assert page.run("document.querySelector('input[name=trips]').value") == "2"
    page.wait("document.activeElement.id === 'race-title'")
    click(page, "li:first-child > .again")
    page.wait("document.getElementById('answer-title').textContent === 'Your answer'")
    assert page.run("document.getElementById('own').value") == TEXT
    assert page.run("document.getElementById('race').hidden")
    assert stage.bodies == []
    click(page, "#go")
    page.wait("document.querySelectorAll('.again').length === 3")
    assert stage.bodies[-1]["answer"] == TEXT


def test_the_history_can_be_forgotten(page: Any, stage: Playback) -> None:
    check_own(page)
    assert text(page, "#past-says") == "1 question, kept in this browser and nowhere else."
    click(page, "#forget")
    assert page.run("document.getElementById('past').hidden")
    assert page.run("localStorage.length") == 0
    come_again(page, stage)
    assert texts(page, ".again") == []


@pytest.mark.parametrize("kept", ["{", "3", "[null, {}, 7]", '[{"answers": 3, "asked": 1}]'])
def test_a_storage_with_something_else_in_it_is_no_history(
    page: Any, stage: Playback, kept: str
) -> None:
    page.run(f"localStorage.setItem('remask.history', {json.dumps(kept)})")
    come_again(page, stage)
    assert page.run("document.getElementById('past').hidden")
    check_own(page)
    assert len(texts(page, ".again")) == 1
    assert [event for event in page.events if event["method"] in FAULTS] == []


def test_a_storage_that_is_full_keeps_the_latest(page: Any, stage: Playback) -> None:
    """It takes 100,000 characters here, an answer 60,000: the page itself still remembers both."""
    page.run(
        "(() => { const set = Storage.prototype.setItem;"
        " Storage.prototype.setItem = function (k, v) {"
        " if (v.length > 100000) throw new Error('full'); set.call(this, k, v); }; })()"
    )
    stage.answers[0]["reason"] = "x" * 50_000
    check_own(page)
    click(page, "#go")
    page.wait("document.querySelectorAll('.again').length === 2")
    assert len(json.loads(page.run("localStorage.getItem('remask.history')"))) == 1
    come_again(page, stage)
    assert len(texts(page, ".again")) == 1


def test_only_the_latest_twenty_are_kept(page: Any) -> None:
    check_own(page)
    page.run(
        "(() => { const [one] = JSON.parse(localStorage.getItem('remask.history'));"
        " localStorage.setItem('remask.history', JSON.stringify(Array(20).fill(one))); })()"
    )
    page.run("location.reload()")
    page.wait("document.querySelectorAll('.again').length === 20")
    page.wait("document.getElementById('prompt').value !== ''")
    check_own(page)
    page.wait("!document.getElementById('go').disabled")
    assert len(texts(page, ".again")) == 20


def test_two_answers_stand_side_by_side(page: Any, stage: Playback) -> None:
    """The two latest at first; then any two that a person chooses, and they stay."""
    assert page.run("document.getElementById('compare').hidden")
    check_own(page, TEXT)
    assert page.run("document.getElementById('compare').hidden"), "one is no pair"
    click(page, "input[value=solve]")
    solve(page)
    assert texts(page, ".side h3") == ["Candidate 2", "Candidate 3"]
    assert texts(page, ".side .told") == ["Doubt", "Trust"]
    two, three = stage.answers[1:]
    assert texts(page, ".side .text") == [two["text"], three["text"]]
    assert texts(page, "#compare-metrics tbody tr:last-child :is(th, td)") == [
        "score", f"{two['score']:.3f}", f"{three['score']:.3f}",
        f"+{three['score'] - two['score']:.3f}",
    ]  # fmt: skip
    assert len(texts(page, "#compare-left option")) == 4
    put(page, "#compare-left", 3, "change")
    put(page, "#compare-right", 0, "change")
    assert texts(page, ".side h3") == ["Candidate 3", "Your answer"]
    own = stage.answers[0]["score"] - three["score"]
    assert texts(page, "#compare-metrics tbody td:last-child")[-1] == f"\u2212{abs(own):.3f}"
    click(page, "#go")
    page.wait("document.querySelectorAll('#compare-left option').length === 7")
    assert texts(page, ".side h3") == ["Candidate 3", "Your answer"]
    click(page, "#forget")
    assert page.run("document.getElementById('compare').hidden")


def test_scores_of_two_scorers_are_not_subtracted(page: Any, stage: Playback) -> None:
    """They are on two scales; the stage that settled an answer stands beside its scorer."""
    check_own(page, TEXT)
    stage.answers[0] |= {"scorer": "verifier", "stage": "critical+halves8", "trips": []}
    click(page, "#go")
    page.wait("document.querySelectorAll('.side').length === 2")
    changes = texts(page, "#compare-metrics tbody td:last-child")
    assert changes[-1] == ""
    assert all(changes[:-1])
    facts = texts(page, ".side:last-child .facts dd")
    assert {"verifier", "stage critical tokens and critical tokens by halves, 8 passes"} <= set(
        facts
    )


def test_why_a_score_is_no_probability_stands_beside_it(page: Any, stage: Playback) -> None:
    stage.answers[0] |= {"scorer": "verifier", "reason": "4 labels are too few", "trips": []}
    check_own(page, TEXT)
    facts = dict(zip(*(texts(page, f"#verdict .facts {tag}") for tag in ("dt", "dd")), strict=True))
    assert facts["no probability"] == "4 labels are too few"
    assert "settled at" not in facts


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_all_of_it_can_be_read_at_any_width(page: Any, width: int, dark: bool) -> None:
    """At least 4.5 to 1, as WCAG asks for text of this size, and never sideways."""
    solve(page)
    page.look(width, 900, dark=dark)
    page.settle()
    selectors = [
        ".side .told", ".side.doubt .told", ".side h3", ".side .note", "#past-says", ".again",
        ".again .note", "#forget", "#copy-link", "#compare-left", "#compare-metrics td",
    ]  # fmt: skip
    assert {s: c for s in selectors if (c := page.contrast(s)) < 4.5} == {}
    assert page.run("document.documentElement.scrollWidth") <= width
