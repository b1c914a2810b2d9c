"""The server's page in a real browser: what a person sees, clicks, types and copies.

A server that plays documents back stands in for the model, so that answers are as they need to be.
"""

import json
import math
import subprocess
from typing import Any

import pytest
from person import FAULTS, TEXT, check_own, click, copied, put, solve, text, texts, visit
from serving.playback import MODEL, Playback, pieces, verification

pytestmark = pytest.mark.browser


def test_the_page_asks_its_own_server_alone_and_complains_of_nothing(
    page: Any, stage: Playback
) -> None:
    solve(page)
    asked = [
        event["params"]["request"]["url"]
        for event in page.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith((stage.url, "about:"))] == []
    assert [event for event in page.events if event["method"] in FAULTS] == []


def test_every_task_has_examples_and_a_click_asks_one(page: Any, stage: Playback) -> None:
    assert texts(page, "#task option") == [
        "word problems", "countdown numbers", "multiple choice", "Python functions"
    ]  # fmt: skip
    for task in ("wordmath", "countdown", "choice", "pycode"):
        put(page, "#task", task, "change")
        page.wait(f"document.querySelector('.example').textContent.startsWith('{task}')")
    click(page, "li:nth-child(3) > .example")
    assert page.run("document.getElementById('prompt').value").startswith("pycode easy 2:")
    click(page, "#go")
    page.wait("!!document.querySelector('.lane.won')")
    asked = stage.bodies[-1]
    assert (asked["task"], asked["level"], asked["seed"]) == ("pycode", "easy", 2)
    assert asked["remask"]["trace"] is True
    put(page, "#prompt", "something else")
    click(page, "#go")
    page.wait("!document.getElementById('go').disabled")
    assert stage.bodies[-1]["prompt"] == "something else"
    assert stage.bodies[-1]["kind"] == "pycode"
    assert "task" not in stage.bodies[-1]


def test_settings_travel_with_the_question(page: Any, stage: Playback) -> None:
    values = {"threshold": 0.6, "budget": 3, "trips": 8, "rebuild_steps": 4, "mask_ratio": 0.5}
    for name, value in values.items():
        put(page, f"input[name={name}]", value)
    put(page, "input[name=seed]", 7)
    solve(page)
    assert stage.bodies[-1]["remask"] == values | {"trace": True}
    assert stage.bodies[-1]["seed"] == 7
    put(page, "input[name=trips]", 65)
    click(page, "#go")
    assert len(stage.bodies) == 1, "the form itself refuses what is beyond the limits"


def test_a_threshold_that_nobody_chose_is_left_to_the_server(page: Any, stage: Playback) -> None:
    """Which one the preset has depends on the kind of the question."""
    solve(page)
    assert "threshold" not in stage.bodies[-1]["remask"]
    assert page.run("document.querySelector('input[name=threshold]').placeholder") == "preset"


@pytest.mark.parametrize(("budget", "most"), [("", 10), (1, 1), (3, 3)])
def test_a_race_begins_with_how_many_candidates_there_may_be(
    page: Any, stage: Playback, budget: object, most: int
) -> None:
    stage.pause = 0.5
    put(page, "input[name=budget]", budget)
    put(page, "#prompt", "How many has Zoe?")
    click(page, "#go")
    assert text(page, "#race-says") == f"Writing candidate 1 of at most {most}."
    page.wait("document.querySelectorAll('.lane').length === 1")
    assert page.run("document.querySelectorAll('.lane .bar b').length") == 0, "no threshold yet"


def test_candidates_race_and_the_accepted_one_wins(page: Any, stage: Playback) -> None:
    stage.pause = 0.05
    put(page, "#prompt", "How many has Zoe?")
    click(page, "#go")
    page.wait("document.querySelectorAll('.lane').length === 1")
    assert "writing" in texts(page, ".badge")
    page.wait("!!document.querySelector('.lane.won')")
    assert texts(page, ".lane .badge") == ["doubt", "doubt", "\u2713 accepted"]
    assert texts(page, ".lane .said") == [answer["text"] for answer in stage.answers]
    scores = [float(told.split()[0]) for told in texts(page, ".lane .figure")]
    assert scores == [answer["score"] for answer in stage.answers]
    marks = page.run("[...document.querySelectorAll('.lane .bar b')].map((e) => e.style.left)")
    assert marks == ["75%"] * 3
    assert text(page, "#race-says").startswith("Candidate 3 wins, after 3 candidates")
    assert text(page, "#answer-title") == "Candidate 3"
    click(page, ".lane .pick")
    assert text(page, "#answer-title") == "Candidate 1"
    assert text(page, "#verdict .told") == "Doubt: it drifts"


def test_without_a_winner_the_best_is_shown_and_called_so(page: Any, stage: Playback) -> None:
    del stage.answers[-1]
    solve(page)
    best = max(range(2), key=lambda k: stage.answers[k]["score"])
    assert texts(page, ".lane .badge")[best] == "best of all"
    told = f"None of 2 candidates was confirmed; candidate {best + 1} is the best of them."
    assert text(page, "#race-says") == told
    assert text(page, "#answer-title") == f"Candidate {best + 1}"


def test_the_player_shows_the_original_the_holes_and_every_step(page: Any, stage: Playback) -> None:
    """Frame 0 is the answer, 1 has the holes; step s of the trip is filled from frame s + 2 on."""
    solve(page)
    found = stage.answers[-1]
    put(page, "#player-trip", 1, "change")
    trip = found["trips"][1]
    last = int(page.run("document.getElementById('player-scrub').max"))
    assert last == 2 + max(step for step in trip["steps"] if step is not None)
    for frame in range(last + 1):
        put(page, "#player-scrub", frame)
        expected = []
        for token, hidden, back, step in zip(
            found["tokens"], trip["masked"], trip["rebuilt"], trip["steps"], strict=True
        ):
            filled = frame >= 2 and hidden and step <= frame - 2
            state = "held" if back == token["text"] else "changed"
            state = state if filled else "hole" if hidden and frame else ""
            expected.append([back if filled else token["text"], state])
        spans = "[...document.getElementById('player-text').children]"
        assert page.run(f"{spans}.map((e) => [e.textContent, e.className])") == expected
    lost = sum(back != t["text"] for back, t in zip(trip["rebuilt"], found["tokens"], strict=True))
    assert f", {lost} did not" in text(page, "#player-says")
    assert page.run("document.getElementById('player-scrub').getAttribute('aria-valuetext')")


def test_the_player_plays_and_pauses(page: Any) -> None:
    solve(page)
    click(page, "#player-play")
    assert text(page, "#player-play") == "Pause"
    # Clicked by the page itself, so that the player cannot come to its end before.
    page.run(
        "new Promise((done) => { const look = () => {"
        " if (Number(document.getElementById('player-scrub').value) < 2) setTimeout(look, 10);"
        " else { document.getElementById('player-play').click(); done(true); } }; look(); })"
    )
    assert text(page, "#player-play") == "Play"
    at = page.run("document.getElementById('player-scrub').value")
    page.idle(500)
    assert page.run("document.getElementById('player-scrub').value") == at
    click(page, "#player-on")
    click(page, "#player-back")
    assert page.run("document.getElementById('player-scrub').value") == at


def test_the_heat_map_tells_what_came_back_instead_and_how_often(
    page: Any, stage: Playback
) -> None:
    """Of one token, " 19" came back twice and " more" once; the fourth trip kept it."""
    found = stage.answers[-1]
    column = 7
    own = found["tokens"][column]["text"]
    for trip, back in zip(found["trips"], (" 19", " more", " 19", own), strict=True):
        trip["masked"][column], trip["rebuilt"][column], trip["steps"][column] = True, back, 0
    found["tokens"][column]["drift"] = 0.75
    solve(page)
    page.run("document.querySelector('.heat').focus()")
    for _ in range(column):
        page.press("ArrowRight")
    page.press("ArrowDown")
    told = text(page, "#heatmap .says")
    assert told.startswith(f"Trip 2, token {column + 1} ")
    assert "and \u201c\u2423more\u201d came back" in told
    assert "lost in 75 % of the trips that masked it" in told
    assert texts(page, ".instead li") == [
        "\u201c\u242319\u201d instead, 2 times", "\u201c\u2423more\u201d instead, 1 time",
    ]  # fmt: skip
    assert page.run("document.querySelector('#answer-text .at').dataset.k") == str(column)


def test_the_mouse_finds_the_same_cells(page: Any) -> None:
    solve(page)
    page.run("document.querySelector('.heat').scrollIntoView({block: 'center'})")
    page.settle()  # scrolling is smooth
    box = page.run(
        "(() => { const r = document.querySelector('.heat canvas').getBoundingClientRect();"
        " return [r.left, r.bottom, r.width]; })()"
    )
    tokens = len(pieces(TEXT))
    width = min(24, (box[2] - 62) / tokens)
    page.hover(box[0] + 62 + 4.5 * width, box[1] - 34 - 11)
    page.wait("document.querySelector('.says').textContent.startsWith('Trip 4, token 5 ')")
    assert page.run("document.querySelector('#answer-text .at').dataset.k") == "4"


def test_metric_bars_have_their_weights(page: Any, stage: Playback) -> None:
    """Weights .6, .2 and 0, and .2 of a metric without a value: shares 3/4 and 1/4."""
    stage.answers[0] |= {"score": 0.7, "metrics": {
        "one": {"value": 0.8, "weight": 0.6, "by_trip": []},
        "two": {"value": 0.4, "weight": 0.2, "by_trip": []},
        "aside": {"value": 0.9, "weight": 0.0, "by_trip": []},
        "absent": {"value": None, "weight": 0.2, "by_trip": []},
    }}  # fmt: skip
    check_own(page)
    assert texts(page, "#metrics tbody td:nth-child(4)") == [
        "\u00d7 75 %", "\u00d7 25 %", "not counted", "absent",
    ]  # fmt: skip
    assert texts(page, "#metrics tbody td:nth-child(3)") == ["0.800", "0.400", "0.900", "none"]
    assert texts(page, "#metrics tbody td:nth-child(5)") == ["0.600", "0.100", "", ""]
    assert page.run("document.querySelectorAll('#metrics .strip i').length") == 2


def test_colours_show_drift_or_confidence_and_what_is_confident_but_drifting(
    page: Any, stage: Playback
) -> None:
    found = stage.answers[-1]
    values = [(0.0, 0.99), (0.25, 0.85), (1.0, 0.95), (0.5, 0.6), (None, 0.3), (0.4, 1.0)]
    for token, (drift, sure) in zip(found["tokens"], values, strict=False):
        token |= {"drift": drift, "confidence": sure}
    for token in found["tokens"][len(values) :]:
        token |= {"drift": 0.0, "confidence": 0.5}
    solve(page)
    names = "[...document.getElementById('answer-text').children].map((e) => e.className)"
    assert page.run(names)[:7] == ["", "d1", "d4 sd", "d2", "du", "d2", ""]
    assert text(page, "#sure").startswith("1 token of ")
    click(page, "input[value=confidence]")
    assert page.run(names)[:7] == ["c4", "c3", "c4 sd", "c2", "c1", "c4", "c2"]
    assert "90 % and more" in text(page, "#answer-legend")


def test_levels_are_told_apart_without_colour(page: Any) -> None:
    """Every level has an underline of its own; the confident have a line above."""
    solve(page)
    for levels in (("d1", "d2", "d3", "d4", "du"), ("c1", "c2", "c3", "c4", "du")):
        looks = [
            page.run(
                f"(() => {{ const e = document.createElement('span'); e.className = '{name}';"
                " document.body.append(e); const s = getComputedStyle(e);"
                " const look = s.borderBottomStyle + s.borderBottomWidth; e.remove();"
                " return look; })()"
            )
            for name in levels
        ]
        assert len(set(looks)) == 5


def test_an_answer_of_ones_own_is_verified(page: Any, stage: Playback) -> None:
    stage.answers = [verification(pieces(TEXT), lost=0.05, sure=False, seed=5)]
    check_own(page, TEXT)
    assert stage.bodies[-1]["answer"] == TEXT
    assert "budget" not in stage.bodies[-1]["remask"]
    assert text(page, "#answer-title") == "Your answer"
    assert text(page, "#verdict .told") == "Trust: most of it is reconstructed"
    assert page.run("document.querySelector('input[value=confidence]').disabled")
    assert text(page, "#sure").startswith("How sure the model was is known only of")


def test_an_example_brings_answers_to_check(page: Any, stage: Playback) -> None:
    click(page, "input[value=verify]")
    click(page, ".example")
    assert texts(page, "#ready-made button") == ["a right solution", "a wrong solution"]
    click(page, "#ready-made button:last-child")
    click(page, "#go")
    page.wait("!document.getElementById('answer').hidden")
    assert stage.bodies[-1]["answer"].endswith("The answer is 19.")


def test_the_grade_of_an_example_is_told(page: Any, stage: Playback) -> None:
    grades = {"id": "x", "gold": "29", "right": True, "process_ok": False}
    stage.answers[0]["graded"] = grades
    check_own(page)
    assert "right, by a wrong step" in texts(page, "#verdict .facts dd")
    stage.answers[0]["graded"] = grades | {"right": False}
    click(page, "#go")
    page.wait("document.querySelector('#verdict .facts').textContent.includes('wrong, it is 29')")


def test_an_answer_of_another_scorer_is_shown_without_round_trips(
    page: Any, stage: Playback
) -> None:
    """And without a verdict, where nobody knows a threshold."""
    check_own(page)
    assert "round trips" in texts(page, "#verdict .facts dd")
    answer = stage.answers[0]
    answer |= {"scorer": "editor", "trips": [], "stderr": None, "threshold": None}
    answer |= {"accepted": None, "verdict": "unknown", "threshold_source": None}
    answer |= {"threshold_reason": "no threshold is known"}
    answer["metrics"] = {"editor_agreement": {"value": 0.5, "weight": 0.0, "by_trip": []}}
    click(page, "#go")
    page.wait("document.querySelector('#verdict .facts').textContent.includes('editor')")
    assert text(page, "#verdict .told") == "Unknown: no threshold is known"
    assert "none" in texts(page, "#verdict .facts dd")
    assert page.run("document.getElementById('trips-part').hidden")
    assert page.run("document.querySelectorAll('#answer .bar b, #answer .strip b').length") == 0
    answer |= {"threshold": 0.1, "accepted": True, "verdict": "trust"}
    click(page, "#go")
    page.wait("document.querySelector('#verdict .told').textContent === 'Trust'")


def test_an_answer_of_one_s_own_has_no_confidence_to_tell_of(page: Any, stage: Playback) -> None:
    for token in stage.answers[0]["tokens"]:
        token["confidence"] = None
    check_own(page)
    assert "confident but" not in text(page, "#answer-legend")
    solved = "!!document.querySelector('.lane.won')"
    stage.answers[0]["tokens"][0]["confidence"] = 0.95
    click(page, "input[value=solve]")
    click(page, "#go")
    page.wait(solved)
    click(page, ".lane .pick")
    assert "confident but drifting" in text(page, "#answer-legend")


def test_an_example_is_cut_between_words(page: Any) -> None:
    module = "import('/static/history.js')"
    for line, cut in (("one two three", "one two\u2026"), ("x" * 20, "x" * 11 + "\u2026")):
        assert page.run(f"{module}.then(({{ short }}) => short('{line}', 12))") == cut


def test_tokens_are_painted_by_log_p_where_a_probe_read_them(page: Any, stage: Playback) -> None:
    """Chances of .999, .8, .5, .4, .01: another token has 0, 20, 50, 60 and 99 per cent."""
    answer = stage.answers[0]
    chances = [0.999, 0.8, 0.5, 0.4, 0.01]
    read = [*map(math.log, chances), *[None] * (len(answer["tokens"]) - len(chances))]
    for token, logp in zip(answer["tokens"], read, strict=True):
        token |= {"drift": None, "logp": logp, "confidence": 0.95}
    probes = {
        name: {"value": 0.5, "weight": 0.0, "by_trip": []} for name in ("critical", "halves8")
    }
    answer |= {"scorer": "verifier", "trips": [], "stderr": None, "metrics": probes}
    answer |= {"stage": "critical", "cost": {"forwards": 1, "seconds": 0.1}}
    check_own(page)
    spans = "[...document.getElementById('answer-text').children]"
    names = page.run(f"{spans}.map((e) => e.className)")
    assert names[:6] == ["", "d1", "d2 sd", "d3 sd", "d4 sd", "du"]
    titles = page.run(f"{spans}.map((e) => e.title)")
    assert titles[2] == (
        "log p \u22120.693 while masked, a chance of 50 %, written with a probability of 95 %"
    )
    assert titles[5].startswith("no probe read this")
    assert text(page, "#answer-legend").startswith("Chance of another token, by log p of this one")
    assert text(page, "#sure").endswith("confident but doubted.")
    assert "confident but doubted" in text(page, "#answer-legend")
    assert {"stage critical tokens", "1 forward pass", "0.1 s, waiting included"} <= set(
        texts(page, "#verdict .facts dd")
    )
    assert texts(page, "#metrics tbody th") == [
        "critical tokens",
        "critical tokens by halves, 8 passes",
    ]
    assert texts(page, "#metrics tbody td:nth-child(4)") == ["", ""], "what was fitted is not known"
    shown = "[...document.querySelectorAll('input[name=by]')].filter((e) => e.offsetParent)"
    assert page.run(f"{shown}.map((e) => e.value)") == ["logp", "confidence"]
    click(page, "input[value=confidence]")
    assert page.run(f"{spans}[0].className") == "c4"


def test_settings_of_round_trips_are_closed_where_another_scorer_serves(
    browser: Any, stage: Playback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODEL["remask"], "scorer", "editor")
    visit(browser, stage)
    solve(browser)
    assert stage.bodies[-1]["remask"] == {"trace": True, "budget": 10}
    browser.run("document.querySelector('.settings').open = true")
    seen = "[...document.querySelectorAll('.settings input')].filter((e) => e.offsetParent)"
    assert browser.run(f"{seen}.map((e) => e.name)") == [
        "threshold", "budget", "temperature", "max_tokens", "seed"
    ]  # fmt: skip
    assert browser.run("document.getElementById('how').hidden")


def test_copies_reproduce_what_is_shown(page: Any, stage: Playback) -> None:
    """The copied curl line, run by a shell, asks for the very same thing."""
    nasty = 'it\'s `rm` $(x) \\ "q" \u202e \u00e9\n\x07 \U0001f600 {a..b}'
    check_own(page, nasty)
    assert json.loads(copied(page, "#copy-json")) == stage.answers[0] | {"text": nasty}
    line = copied(page, "#copy-curl")
    assert line.isascii()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=300)
    assert stage.bodies[-1] == stage.bodies[0]
    assert json.loads(done.stdout)["text"] == nasty


def test_where_the_clipboard_is_closed_the_text_can_be_copied_by_hand(page: Any) -> None:
    solve(page)
    page.run("navigator.clipboard.writeText = async () => { throw new Error('no'); }; true")
    click(page, "#copy-json")
    page.wait("document.getElementById('by-hand').open")
    value = page.run("document.querySelector('#by-hand textarea').value")
    assert json.loads(value)["object"] == "remask.verification"
    page.press("Escape")
    page.wait("!document.getElementById('by-hand').open")
