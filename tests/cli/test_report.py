"""`report`, on records written by hand: the page it makes is `write_page`'s."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from remask.report.page import write_page

Run = Callable[..., Any]
Fails = Callable[..., str]


def records(path: Path) -> Path:
    """Write one right and one wrong answer."""
    rows = [
        {
            "id": f"wordmath/easy/test/0/{k}", "task": "wordmath", "level": "easy", "number": 0,
            "prompt": "Ben has 12 pens.", "gold": "12", "text": f"#### {12 + k}",
            "answer": str(12 + k), "right": k == 0, "process_ok": k == 0, "forwards": 4,
            "scores": {"confidence": 0.9, "roundtrips": 0.8 - k / 2},
        }
        for k in (0, 1)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_page_is_the_one_that_the_library_writes(run: Run, tmp_path: Path) -> None:
    source, out = records(tmp_path / "few.jsonl"), tmp_path / "page.html"
    told = json.loads(run("report", source, "-o", out, "--title", "Few", "--json").out)
    same = write_page(source, tmp_path / "same.html", title="Few")
    assert out.read_bytes() == same.read_bytes()
    assert told == {"out": str(out), "bytes": out.stat().st_size}


def test_plots_come_beside_the_page_when_asked(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    run("report", records(tmp_path / "few.jsonl"), "-o", out, "--plots")
    written = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert {".svg", ".csv", ".html"} <= written


def test_no_records_are_one_sentence_and_no_page(fails: Fails, tmp_path: Path) -> None:
    sentence = fails(1, "report", tmp_path / "none", "-o", tmp_path / "page.html")
    assert "does not exist; name a folder or file of records" in sentence
    assert not list(tmp_path.iterdir())
