"""The report in a real browser: what a person sees, clicks and types.

With SCREENSHOTS=FOLDER the last test leaves its pictures there, to be looked at.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from few_draws import few_draws
from person import check_outline
from serving.live import soon

from remask.report.answer_list import KINDS, TRUSTED
from remask.report.page import write_page

pytestmark = pytest.mark.browser

Row = dict[str, Any]
HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'><svg onload='window.hacked = 1'>",
    "a\x00b \u202egnp.exe \ud800 <!--",
    "javascript:window.hacked=1 {{data}} &lt;i&gt; \u2028",
)


def a_row(problem: int, number: int, rng: random.Random) -> Row:
    """Return an answer of which some tokens drifted; every fourth problem is answered wrong."""
    right = problem % 4 > 0
    pieces = ["Ann", " has", " ", "2", "+", "3", "=", "5" if right else "6", ". ####", " "]
    pieces += ["5" if right else "6", "<eos>"]
    score = round(rng.uniform(0.6, 1.0) - 0.2 * (not right), 4)
    return {
        "id": f"wordmath/hard/test/0/{problem}", "task": "wordmath", "level": "hard",
        "number": number, "prompt": f"Problem {problem}: 2 apples and 3 apples?", "gold": "5",
        "text": "".join(pieces[:-1]), "answer": pieces[-2], "right": right,
        "process_ok": right and problem % 7 > 0, "forwards": 12,
        "scores": {"confidence": round(rng.uniform(0.5, 1), 4), "roundtrips": score},
        "stderr": 0.01, "verify_forwards": 64, "pieces": pieces,
        "by_trip": {"token_accuracy": [score] * 4, "answer_match": [1.0, 0.0, None, 1.0]},
        "drift": [rng.choice([0.0, 0.0, 0.25, 0.5, 0.75, 1.0, None]) for _ in pieces],
    }  # fmt: skip


def rows_of(problems: int, samples: int) -> list[Row]:
    rng = random.Random(0)
    rows = [a_row(k, number, rng) for k in range(problems) for number in range(samples)]
    for row, text in zip(rows, HOSTILE, strict=False):
        row |= {"text": text, "prompt": text, "gold": text, "answer": text}
        del row["pieces"]
    rows[5] |= {"answer": None, "text": "no number"}
    return rows


def write_records(folder: Path, problems: int, samples: int) -> list[Row]:
    rows = rows_of(problems, samples)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "apples.jsonl").write_text(text)
    (folder / "apples.jsonl.manifest.json").write_text('{"asked": {"model": "</pre><b>m"}}')
    return rows


@pytest.fixture(scope="session", autouse=True)
def few_resamples() -> Iterator[None]:
    with few_draws():
        yield


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    write_records(folder, problems=40, samples=3)
    out = folder / "report.html"
    return write_page(folder, out, title="Apples <script>", thresholds={"wordmath": 0.75})


@pytest.fixture
def page(browser: Any, report: Path) -> Any:
    """The report, opened anew from disk in a window of 1280 x 900."""
    browser.look(1280, 900)
    browser.open(report.as_uri())
    return browser


def count(page: Any) -> int:
    """Return how many answers the list holds, as the page says it."""
    said = page.run("document.getElementById('count').textContent")
    return int(said.removeprefix("One answer. ").split()[0].replace(",", ""))


def texts(page: Any, selector: str) -> list[str]:
    found: list[str] = page.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
    )
    return found


def choose(page: Any, name: str) -> None:
    """Click the filter of this name."""
    page.run(
        "[...document.querySelectorAll('#kinds label')]"
        f".find((e) => e.textContent.startsWith({json.dumps(name + ' (')})).click()"
    )


def search(page: Any, text: str) -> None:
    page.run("document.getElementById('search').select()")
    page.run("document.getElementById('search').focus()")
    page.type(text)
    page.idle(300)  # the page waits for the next letter


def test_the_page_asks_for_nothing_and_complains_of_nothing(page: Any) -> None:
    asked = [
        event["params"]["request"]["url"]
        for event in page.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.startswith(("file:", "about:"))] == []
    faults = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
    assert [event for event in page.events if event["method"] in faults] == []
    assert page.run("document.title") == "Apples <script> - remask report"


def test_what_models_write_is_text(page: Any) -> None:
    choose(page, "all")
    shown = "\n".join(texts(page, "#list .answer"))
    for text in (HOSTILE[0], HOSTILE[1], "a\\x00b \\u202egnp.exe ? <!--", HOSTILE[3][:-2]):
        assert text in shown
    assert page.run("typeof window.hacked") == "undefined"
    assert page.run("document.querySelectorAll('#list :is(img, script, svg, iframe)').length") == 0
    assert "</pre><b>m" in texts(page, "#files pre")[0]


def test_the_policy_blocks_scripts_that_are_not_the_page_s_own(page: Any) -> None:
    page.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.foreign = 1';"
        " document.body.append(s); const i = document.createElement('img');"
        " i.src = 'https://example.org/x.png'; document.body.append(i); })()"
    )
    page.idle(200)
    assert page.run("typeof window.foreign") == "undefined"

    def blocked() -> int:
        page.run("true")  # what was reported meanwhile comes before the answer
        return sum(event["method"] == "Log.entryAdded" for event in page.events)

    assert soon(lambda: blocked() >= 2)
    assert blocked() == 2


def test_filters_keep_what_they_say(page: Any) -> None:
    assert count(page) == 120
    choose(page, "wrong")
    assert count(page) == 30
    assert set(texts(page, ".answer .badge:nth-of-type(1)")) == {"wrong"}
    for name in KINDS:
        choose(page, name)
        number = count(page)
        assert 0 < number < 120
        badges = texts(page, "#list .answer header")
        assert len(badges) == min(20, number)
        assert all(name in text for text in badges)
        assert page.run("document.getElementById('meaning').textContent") == KINDS[name]


def test_search_finds_a_problem_by_words_of_its_prompt(page: Any) -> None:
    search(page, "PROBLEM 17:")
    assert count(page) == 3
    search(page, "nothing like that")
    assert count(page) == 0
    page.run("document.querySelector('#count button').click()")
    assert count(page) == 120


def test_an_order_puts_the_lowest_score_first(page: Any) -> None:
    page.run(
        "(() => { const o = document.getElementById('order'); o.value = 'low';"
        " o.dispatchEvent(new Event('change')); })()"
    )
    scores = [float(t.split()[0]) for t in texts(page, ".facts div:nth-child(3) dd")]
    assert scores == sorted(scores)
    lowest = min(row["scores"]["roundtrips"] for row in rows_of(40, 3))
    assert scores[0] == pytest.approx(lowest, abs=1e-3)


def test_pages_turn(page: Any) -> None:
    def go(where: str) -> str:
        page.run(f"document.querySelector('[data-go={where}]').click()")
        return str(page.run("document.getElementById('place').textContent"))

    first = texts(page, ".answer h3")
    assert go("after") == "page 2 of 6"
    assert not set(texts(page, ".answer h3")) & set(first)
    assert go("last") == "page 6 of 6"
    assert page.run("document.querySelector('[data-go=after]').disabled")
    assert go("first") == "page 1 of 6"
    assert texts(page, ".answer h3") == first


def test_tokens_are_painted_by_their_drift(page: Any) -> None:
    """The same share is the same class; what drifted nowhere is plain text."""
    search(page, "Problem 20:")
    row = next(r for r in rows_of(40, 3) if r["id"].endswith("/20") and r["number"] == 0)
    runs = page.run(
        "[...document.querySelector('.answer .code').childNodes]"
        ".map((n) => [n.textContent, n.className ?? '', n.title ?? ''])"
    )
    assert "".join(text for text, _, _ in runs) == row["text"] + "<eos>"
    classes = {0.0: "", 0.25: "d1", 0.5: "d2", 0.75: "d3", 1.0: "d4", None: "du"}
    place = 0
    spelled = [(text, name) for text, name, _ in runs]
    for piece, lost in zip(row["pieces"], row["drift"], strict=True):
        text, name = spelled[place]
        assert (text[: len(piece)], name) == (piece, classes[lost])
        rest = text[len(piece) :]
        spelled[place] = (rest, name)
        place += rest == ""
    assert any("% of the trips that masked it" in title for _, _, title in runs)


def test_round_trips_unfold(page: Any) -> None:
    search(page, "Problem 20:")
    assert page.run("document.querySelectorAll('.answer table').length") == 0
    page.run("document.querySelector('.answer details').open = true")
    page.wait("document.querySelectorAll('.answer table').length === 1")
    assert texts(page, ".answer thead th") == ["metric", "trip 1", "trip 2", "trip 3", "trip 4"]
    assert texts(page, ".answer tbody tr:nth-child(2) :is(th, td)") == [
        "answer match", "1.000", "0.000", "none", "1.000",
    ]  # fmt: skip


def test_the_threshold_slides_over_the_first_answers(page: Any) -> None:
    """The same slider as on the server's page; 40 problems, of which one sample each counts."""
    rows = [row for row in rows_of(40, 3) if row["number"] == 0]
    accepted = [row["right"] for row in rows if round(row["scores"]["roundtrips"], 3) > 0.8]
    page.run(
        "(() => { const e = document.querySelector('#slider input[type=range]'); e.value = '0.8';"
        " e.dispatchEvent(new Event('input')); })()"
    )
    told = texts(page, ".tiles dd:not(.note)")
    assert told[0] == f"{100 * sum(accepted) / len(accepted):.1f} %"
    assert told[1] == f"{100 * len(accepted) / 40:.1f} %"


def test_a_report_of_some_of_its_answers_judges_no_threshold(browser: Any, tmp_path: Path) -> None:
    """Rare kinds are listed first, so shares among them would mislead."""
    write_records(tmp_path, problems=40, samples=3)
    out = write_page(tmp_path, tmp_path / "report.html", most=50)
    browser.open(out.as_uri())
    assert texts(browser, "#slider")[0].startswith("This report lists only some of its answers")


def one_kind(browser: Any, folder: Path, right: bool) -> None:
    """Open the report of 12 answers that are all right, or all wrong."""
    rows = [row | {"number": 0} for row in rows_of(40, 1)[8:] if row["right"] == right][:12]
    for k, row in enumerate(rows):
        row["id"] = f"wordmath/hard/test/0/{k}"
    (folder / "alike.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    browser.look(1280, 900)
    browser.open(write_page(folder, folder / "report.html").as_uri())


@pytest.mark.parametrize(("right", "missing"), [(True, "wrong"), (False, "right")])
def test_answers_of_one_kind_are_told_so_and_choose_no_threshold(
    browser: Any, tmp_path: Path, right: bool, missing: str
) -> None:
    one_kind(browser, tmp_path, right)
    assert texts(browser, ".result")[0].startswith(f"No {missing} answers: nothing to tell apart.")
    assert texts(browser, ".jumps") == [f"No {missing} answers: nothing to choose a threshold by."]
    assert browser.run("document.querySelectorAll('.plot svg').length") == 1
    closed = "[...document.querySelectorAll('#kinds input:disabled')].length"
    assert browser.run(closed) >= 2, "what holds nothing cannot be chosen"
    path = browser.screenshot(Path(os.environ.get("SCREENSHOTS", tmp_path)) / f"{missing}.png")
    assert path.stat().st_size > 10_000


def test_the_slider_begins_where_the_report_judges(browser: Any, tmp_path: Path) -> None:
    """At the model's own threshold, which the manifest tells."""
    write_records(tmp_path, problems=40, samples=1)
    told = {"asked": {"model": "m"}, "thresholds": {"roundtrips": 0.83}}
    (tmp_path / "apples.jsonl.manifest.json").write_text(json.dumps(told))
    browser.open(write_page(tmp_path, tmp_path / "report.html").as_uri())
    assert texts(browser, "#slider .value") == ["0.83"]
    assert texts(browser, ".jumps button")[0] == "judged by, 0.83"
    assert "0.83, from the model's preset" in texts(browser, ".setup dd")


def test_an_answer_has_its_verdict(page: Any) -> None:
    """Scores have a standard error of .01 here; the threshold is .75."""
    page.run("document.querySelectorAll('#kinds input')[0].click()")
    for k, row in enumerate(rows_of(40, 3)[:20]):
        score = row["scores"]["roundtrips"]
        near = abs(score - 0.75) <= 0.01
        verdict = "undecided" if near else "trust" if score > 0.75 else "doubt"
        assert texts(page, f".answer:nth-child({k + 1}) .facts div:nth-child(4) dd") == [verdict]


def test_the_report_opens_with_its_result_and_how_it_was_measured(page: Any) -> None:
    assert texts(page, ".result")[0].startswith(
        (
            "Round trips tell right answers from wrong ones with an AUROC of ",
            "Round trips cannot be told ",
        )
    )
    assert "</pre><b>m" in texts(page, ".setup dd"), "the model, as text"
    order = page.run(
        "[...document.querySelectorAll('h1, .result, .setup, .sections')].map((e) => e.className)"
    )
    assert order == ["", "result", "setup", "sections"]


def test_the_label_audit_leads_to_its_answers(page: Any) -> None:
    page.run("document.querySelector('button[data-doubt=\"0\"]').click()")
    assert count(page) == 1
    assert texts(page, ".doubts") == ["Doubtful label: no final answer could be read."]
    assert "none could be read" in texts(page, ".facts dd")


def test_an_answer_has_an_address_of_its_own(page: Any, report: Path) -> None:
    page.open(report.as_uri() + "#answer-61")
    assert texts(page, ".answer h3") == ["wordmath/hard/test/0/20, sample 1"]
    page.run("document.querySelector('.answer .more button').click()")
    assert texts(page, ".answer h3") == [f"wordmath/hard/test/0/20, sample {k}" for k in range(3)]


def test_the_keyboard_is_enough(page: Any) -> None:
    """Tab reaches the skip link first; Enter follows it; arrows move between the filters."""
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    page.press("Enter")
    page.wait("document.activeElement.id === 'main'")
    page.run("document.querySelector('#kinds input').focus()")
    page.press("ArrowRight")
    page.wait("document.querySelectorAll('#kinds input')[1].checked")
    assert count(page) == 90
    ring = "getComputedStyle(document.querySelectorAll('#kinds span')[1]).outlineStyle"
    assert page.run(ring) == "solid"


def test_everything_has_a_name_for_those_who_do_not_see_it(page: Any) -> None:
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.wait("document.querySelectorAll('.answer table').length > 0")
    unnamed = (
        "[...document.querySelectorAll('input, select')].filter((e) => !e.labels.length).length"
    )
    assert page.run(unnamed) == 0
    check_outline(page)


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_what_is_behind_it(page: Any, dark: bool) -> None:
    """At least 4.5 to 1, as WCAG asks for text of this size."""
    page.look(1280, 900, dark=dark)
    selectors = [
        "body", ".note", ".brand", ".result", ".setup dt", ".setup dd", ".sections a", "thead th",
        ".interval", ".badge.right", ".badge.wrong", ".doubts", ".facts dt", ".d1", ".d2", ".d3",
        ".d4", ".du", ".answer h3 a", ".chips input:checked + span",
    ]  # fmt: skip
    low = {s: round(c, 2) for s in selectors if (c := page.contrast(s)) < 4.5}
    assert low == {}
    background = page.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") != dark


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(page: Any, width: int) -> None:
    page.look(width, 900)
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.run("document.documentElement.scrollWidth") <= width


def test_ten_thousand_answers_can_be_filtered_and_searched(browser: Any, tmp_path: Path) -> None:
    write_records(tmp_path, problems=200, samples=50)
    out = write_page(tmp_path, tmp_path / "report.html", thresholds={"wordmath": 0.75})
    assert out.stat().st_size < 10_000_000
    browser.open(out.as_uri())
    assert count(browser) == 10_000
    shown = "document.querySelectorAll('#list .answer').length"
    assert browser.run(shown) == 20, "a page of them, however many there are"
    browser.run("document.querySelectorAll('#kinds input')[5].click()")
    assert 0 < count(browser) < 10_000
    search(browser, "Problem 177:")
    assert count(browser) <= 50


def test_the_page_can_be_looked_at(page: Any, tmp_path: Path) -> None:
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for name, width, dark in (("light", 1280, False), ("dark", 1280, True), ("narrow", 390, False)):
        page.look(width, 900, dark=dark)
        for place in ("summary", "studies", "answers"):
            choose(page, TRUSTED)
            page.run(f"document.getElementById('{place}').scrollIntoView({{behavior: 'instant'}})")
            page.settle()
            path = page.screenshot(folder / f"{name}-{place}.png")
            sizes[path.name] = path.stat().st_size
    assert min(sizes.values()) > 10_000, sizes  # an empty window is a file of a few thousand bytes
