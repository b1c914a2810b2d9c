"""The report: one file that shows whatever models write, and nothing but as text."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from few_draws import few_draws
from hypothesis import given
from hypothesis import strategies as st

from remask.errors import RecordError
from remask.records import jsonl
from remask.report import page, script
from remask.report.drift_spans import shown
from remask.report.html import html_table
from remask.report.page import write_page
from remask.report.table import Table

Make = Callable[..., dict[str, Any]]
Row = dict[str, Any]
HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<!-- <script> \u2028 ]]> &lt;b&gt; {{data}} {{script}}",
    "a\x00b\u202ec\ud800 \x1b[31m",
)


class Seen(HTMLParser):
    """What a browser would make of a page: its elements, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.inside = ""
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append("")
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag != "span" else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.scripts[-1] += data
        if self.inside in ("td", "th", "span") and self.cells:
            self.cells[-1] += data

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]


def a_pool(make: Make, problems: int = 6, samples: int = 3) -> list[Row]:
    """Return pools in which every third problem is answered wrong, and scored lower."""
    return [
        make(
            f"{k}", number, right=k % 3 > 0, answer="1" if k % 3 else "2",
            score=0.9 - 0.2 * (k % 3 == 0) - 0.01 * number, confidence=0.5 + 0.02 * k,
        )
        for k in range(problems)
        for number in range(samples)
    ]  # fmt: skip


def hostile_rows(make: Make) -> list[Row]:
    rows = a_pool(make)
    for row, text in zip(rows, HOSTILE, strict=False):
        row |= {"text": text, "prompt": text, "gold": text, "reason": text}
    rows[0]["by_trip"] |= {HOSTILE[1]: [0.5, 0.5]}
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    """Intervals are not what these tests look at."""
    with few_draws():
        yield


@pytest.fixture(scope="module")
def hostile(make_row: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a report of hostile answers in a file of a hostile name, and its text."""
    folder = tmp_path_factory.mktemp("records")
    path = write_rows(folder / "a<b>&\u202e.jsonl", hostile_rows(make_row))
    manifest = path.with_name(path.name + ".manifest.json")
    manifest.write_text(json.dumps({"asked": {"model": HOSTILE[0]}}))
    out = write_page(folder, folder / "out" / "report.html", title=HOSTILE[1], with_plots=True)
    return out, out.read_text(encoding="ascii")


def test_a_page_of_hostile_answers_has_only_the_elements_of_its_own(
    hostile: tuple[Path, str],
) -> None:
    """Two scripts, its data and its code; no image, no frame, no handler, no address outside."""
    seen = Seen(hostile[1])
    assert len(seen.scripts) == 2
    assert not set(seen.tags()) & {"img", "iframe", "object", "embed", "link", "base", "b"}
    for tag, attributes in seen.elements:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("src", "href", "xlink:href", "action"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"|http-equiv', "", hostile[1])


def test_the_policy_lets_nothing_run_but_the_page_s_own_script(hostile: tuple[Path, str]) -> None:
    seen = Seen(hostile[1])
    policy = next(a["content"] for _, a in seen.elements if a.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(seen.scripts[1].encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}';" in policy


def test_the_data_hold_every_answer_as_it_is_to_be_read(hostile: tuple[Path, str]) -> None:
    data = json.loads(Seen(hostile[1]).scripts[0])
    answers = [dict(zip(data["fields"], values, strict=True)) for values in data["answers"]]
    assert len(answers) == 18
    for text, answer in zip(HOSTILE, answers, strict=False):
        seen = shown(text.replace("\ud800", "?"))  # half a character is none
        assert answer["runs"][0] == data["prompts"][answer["prompt"]] == seen
    assert data["files"] == ["a<b>&\\u202e"]
    assert data["metrics"] == ["token_accuracy", HOSTILE[1]]


def test_the_page_has_every_part(hostile: tuple[Path, str]) -> None:
    out, text = hostile
    seen = Seen(text)
    ids = [a["id"] for _, a in seen.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {"summary", "studies", "answers", "labels", "fails", "files"} <= set(ids)
    assert seen.tags().count("svg") == 4
    assert HOSTILE[1] in seen.cells, "a metric's own name"
    assert "graded wrong, but the gold answer stands at the end of the text" in seen.cells
    name = escape(shown("a<b>&\u202e"))
    for title in ("AUROC, AUPR and cost", "every method", "calibration and selection"):
        assert f"<caption>{name}: {title}" in text
    assert "<!--fig:" not in text
    names = {path.name for path in (out.parent / "report-plots").iterdir()}
    assert len(names) == 8
    assert {Path(name).suffix for name in names} == {".svg", ".csv"}


def test_the_same_records_make_the_same_page(make_row: Make, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", a_pool(make_row))
    one, other = (write_page(path, tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert one == other
    assert b"r.jsonl" in one
    assert b"has no manifest" in one
    assert not list(tmp_path.glob("*.tmp"))


def test_several_files_are_several_studies(make_row: Make, tmp_path: Path) -> None:
    """The second holds single answers that nobody scored: it has no plots and no AUROC."""
    row = make_row(score=None, by_trip={})
    for name in ("verify_forwards", "drift", "stderr"):
        del row[name]
    paths = [write_rows(tmp_path / "pool.jsonl", a_pool(make_row))]
    paths.append(write_rows(tmp_path / "bare.jsonl", [row]))
    text = write_page(paths, tmp_path / "p.html").read_text()
    assert "<h3>pool</h3>" in text
    assert "<h3>bare</h3>" in text
    assert "AUROC of round trips 1.000" in text
    assert "No wrong answers: nothing to tell apart" in text, "of the one that is right"
    assert text.count("<svg") == 4


@pytest.mark.parametrize(("right", "missing"), [(True, "wrong"), (False, "right")])
def test_answers_of_one_kind_have_sentences_in_place_of_plots(
    make_row: Make, tmp_path: Path, right: bool, missing: str
) -> None:
    rows = [make_row(f"{k}", right=right, score=0.5 + k / 30) for k in range(12)]
    text = write_page(write_rows(tmp_path / "r.jsonl", rows), tmp_path / "p.html").read_text()
    kind = "right" if right else "wrong"
    assert (
        f'<p class="result">No {missing} answers: nothing to tell apart. All 12 questions are '
        f"answered {kind}.</p>"
    ) in text
    assert text.count("nothing to tell apart") == 1, "it is said once"
    assert f'<span class="aside">no {missing} answers</span>' in text
    assert text.count("<svg") == 1, "how the scores are spread"
    assert "AUROC" not in Seen(text).cells
    assert text.count("<caption>") == 1, "the table of files"
    assert "n_avg" not in text.replace(script.script(), "")


def test_one_is_one_in_words(make_row: Make, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "r.jsonl", a_pool(make_row))
    asked = {
        "task": "wordmath", "shots": 1, "sampler": {"length": 1, "steps": 1},
        "consistency": {"trips": 1, "mask_ratio": 0.9, "rebuild_steps": 1},
    }  # fmt: skip
    path.with_name("r.jsonl.manifest.json").write_text(json.dumps({"asked": asked}))
    text = write_page(path, tmp_path / "p.html").read_text()
    assert "<dd>1 round trip, 90% masked, 1 step each</dd>" in text
    assert "1 token at most, 1 step</dd>" in text
    assert "1 worked example</dd>" in text


def test_the_page_says_what_was_measured_and_how(make_row: Make, tmp_path: Path) -> None:
    """Words for people: of methods and of measures, and of the settings."""
    path = write_rows(tmp_path / "r.jsonl", a_pool(make_row))
    manifest = {
        "asked": {
            "model": "tiny", "task": "wordmath", "level": "hard", "split": "test", "samples": 3,
            "metrics": "core", "sampler": {"temperature": 1.6, "length": 96, "steps": 48},
            "consistency": {"trips": 4, "mask_ratio": 0.9, "rebuild_steps": 16},
        },
        "thresholds": {"roundtrips": 0.82},
        "model": {"name": "tiny", "dtype": "float32", "revision": "0123456789abcdef"},
        "runs": [{"started": "2026-11-16T08:00:00Z", "device": "cpu", "versions": {"remask": "9"}}],
    }  # fmt: skip
    path.with_name("r.jsonl.manifest.json").write_text(json.dumps(manifest))
    seen = Seen(text := write_page(path, tmp_path / "p.html").read_text())
    for fact in (
        "tiny, float32, 0123456789ab", "wordmath, hard, test",
        "3 at temperature 1.6 of each question, 96 tokens at most, 48 steps",
        "4 round trips, 90% masked, 16 steps each, metrics core",
        "0.82, from the model&#x27;s preset", "2026-11-16 on cpu by remask 9",
    ):  # fmt: skip
        assert f"<dd>{fact}</dd>" in text
    assert {"samples per problem", "rejection sampling", "first answer", "vote of 3"} <= set(
        seen.cells
    )
    assert "The verdict is unknown: no threshold is known for these settings" in text
    assert "the preset&#x27;s is for metrics paper, got core" in text
    assert "<caption>r: round trips above 0.82, the threshold that answers are judged" in text
    assert "<caption>r: coverage, and the paper&#x27;s threshold 0.75</caption>" in text
    assert "ECE: how far they are from the share of right answers" in text
    plain = re.sub(r"<script>.*?</script>|<pre>.*?</pre>", "", text, flags=re.S)
    for name in ("n_avg", "mgrs", "best_of_", "roundtrips.", "vote3"):
        assert name not in plain, name


def test_one_answer_of_each_question_is_no_choice_among_answers(
    make_row: Make, tmp_path: Path
) -> None:
    rows = a_pool(make_row, samples=1)
    text = write_page(write_rows(tmp_path / "r.jsonl", rows), tmp_path / "p.html").read_text()
    for words in ("vote of 1", "best of 1", "rejection sampling at other thresholds"):
        assert words not in text, words
    assert "AUROC of every score" in text


def test_files_that_differ_are_told_apart_in_a_table(make_row: Make, tmp_path: Path) -> None:
    for name, model in (("one", "a"), ("two", "b")):
        path = write_rows(tmp_path / f"{name}.jsonl", a_pool(make_row))
        asked = {"model": model, "task": "wordmath"}
        path.with_name(f"{name}.jsonl.manifest.json").write_text(json.dumps({"asked": asked}))
    text = write_page(tmp_path, tmp_path / "p.html").read_text()
    assert "<caption>What differs</caption>" in text
    assert "<dt>questions</dt><dd>wordmath</dd>" in text
    assert "<dt>model</dt>" not in text


def test_a_folder_of_the_full_study_has_its_curves_and_chosen_thresholds(
    make_row: Make, tmp_path: Path
) -> None:
    """Of validation scores .9 right and .4 wrong the best threshold is .4, the lowest that does."""
    write_rows(tmp_path / "pool-wordmath-hard.jsonl", a_pool(make_row))
    first = [row for row in a_pool(make_row) if row["number"] == 0]
    write_rows(tmp_path / "ratio-0.5.jsonl", first)
    chosen = [make_row("a", score=0.9), make_row("b", right=False, answer="2", score=0.4)]
    write_rows(tmp_path / "threshold-wordmath.jsonl", chosen)
    text = write_page(tmp_path, tmp_path / "p.html").read_text()
    assert "<caption>wordmath-hard: mask_ratio" in text
    assert "The verdict is unknown: no threshold is known" in text, "there are no manifests"
    for path in tmp_path.glob("*.jsonl"):
        asked = {"asked": {"model": "m", "metrics": "core", "consistency": {}}}
        path.with_name(f"{path.name}.manifest.json").write_text(json.dumps(asked))
    text = write_page(tmp_path, tmp_path / "p.html").read_text()
    assert "by the threshold of the task (wordmath 0.4)" in text
    assert "Threshold 0.4, the best F1 on answers of another split." in text
    given = write_page(tmp_path, tmp_path / "q.html", thresholds={"wordmath": 0.8}).read_text()
    assert "by the threshold of the task (wordmath 0.8)" in given


def test_a_large_study_stays_under_the_limit_and_says_what_is_left_out(
    make_row: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "LIMIT", 600_000)
    rows = [row | {"text": "<" * 20_000} for row in a_pool(make_row, problems=20)]
    out = write_page(write_rows(tmp_path / "r.jsonl", rows), tmp_path / "p.html")
    assert 400_000 < out.stat().st_size < 600_000
    found = re.search(r"(\d+) of the 60 recorded answers are here", out.read_text())
    assert found is not None
    assert 1 < int(found[1]) < 60
    few = write_page(tmp_path / "r.jsonl", tmp_path / "q.html", most=2).read_text()
    assert "2 of the 60 recorded answers are here" in few


def test_an_answer_of_a_megabyte_is_no_page_of_a_megabyte(make_row: Make, tmp_path: Path) -> None:
    rows = a_pool(make_row)
    rows[0]["text"] = "x" * 1_000_000
    out = write_page(write_rows(tmp_path / "r.jsonl", rows), tmp_path / "p.html")
    assert out.stat().st_size < 300_000
    assert "[... 980,000 more characters]" in out.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no records; collect some with remask collect."),
        ('{"id": NaN}', "line 1 is not valid JSON (NaN is not valid in JSON)"),
        ('{"id": "a"}', "line 1 has no 'task'"),
        ("{", "line 1 is not valid JSON"),
    ],
)
def test_records_that_cannot_be_used_are_refused_in_a_sentence(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(RecordError) as raised:
        write_page(tmp_path, tmp_path / "p.html")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "p.html").exists()


def test_no_folder_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nowhere does not exist; name a folder or file"):
        write_page(tmp_path / "nowhere", tmp_path / "p.html")
    with pytest.raises(RecordError, match=r"holds no records; collect some"):
        write_page(tmp_path, tmp_path / "p.html")


def test_a_failed_report_leaves_the_one_before(
    make_row: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "p.html"
    out.write_text("before")
    write_rows(tmp_path / "r.jsonl", a_pool(make_row))
    monkeypatch.setattr(page, "_template", lambda: (_ for _ in ()).throw(OSError("gone")))
    with pytest.raises(OSError, match="gone"):
        write_page(tmp_path, out)
    assert out.read_text() == "before"


@given(st.lists(st.text(st.characters(exclude_characters="\r")), min_size=2, max_size=4))
def test_a_table_shows_its_cells_as_text(cells: list[str]) -> None:
    """Whatever stands in them."""
    seen = Seen(html_table(Table(name="t", title="t", heads=cells, rows=[cells])))
    assert seen.cells == [*map(shown, cells), *map(shown, cells)]


def test_records_are_read_as_they_were_written(make_row: Make, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    jsonl.append(path, a_pool(make_row))
    [file] = page.read_files(path)
    assert (file.name, file.manifest) == ("r", None)
    assert [row.to_json() for row in file.rows] == a_pool(make_row)


def test_solutions_with_injected_flaws_are_no_answers_to_browse(
    make_row: Make, tmp_path: Path
) -> None:
    jsonl.append(tmp_path / "r.jsonl", a_pool(make_row))
    absent = {"id": "wordmath/hard/a", "task": "wordmath", "level": "hard", "number": 1}
    absent |= {"kind": "fabrication", "text": None}
    jsonl.append(tmp_path / "injected-wordmath-hard.jsonl", [absent])
    assert [file.name for file in page.read_files(tmp_path)] == ["r"]
