"""The script that tries the graders on real files, here on invented ones in the same layout."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from studies.checks import grading
from studies.shared.figures import read

ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k/test.jsonl.gz": [
        {"question": "a", "answer": "1+2=<<1+2=3>>3\n#### 3"},
        {"question": "b", "answer": "#### 1,200"},
    ],
    "svamp/SVAMP.json.gz": [
        {"ID": "chal-1", "Body": "Ann had 7 pens. She lost 2", "Question": "How many are left?",
         "Equation": "( 7.0 - 2.0 )", "Answer": 5.0, "Type": "Subtraction"},
        {"ID": "chal-2", "Body": "Bo has 7 cups.", "Question": "How many more than 3?",
         "Equation": "( 7.0 - 3.0 )", "Answer": 4.0, "Type": "Subtraction"},
    ],
    "mawps/testset.json.gz": [
        {"id": 1, "original_text": "Half and a third ?", "segmented_text": "", "ans": "2.5",
         "equation": "X=1.0+1.5"},
        {"id": 2, "original_text": "Parts ?", "segmented_text": "", "ans": 0.8333333333333334,
         "equation": "x=0.5+0.3333333333333333"},
    ],
    "math500/test.jsonl.gz": [
        {"problem": "a", "solution": r"$\boxed{\frac12}$ or 0.5", "answer": r"\frac{1}{2}",
         "level": 1, "subject": "Algebra"},
        {"problem": "b", "solution": r"$\boxed{x^2}$", "answer": "x^2", "level": 2,
         "subject": "Algebra"},
    ],
    "arc_challenge/test.jsonl.gz": [
        {"id": "q", "question": "a", "answerKey": "B",
         "choices": {"text": ["x", "y", "z"], "label": ["A", "B", "C"]}},
    ],
    "mbpp/mbpp.jsonl.gz": [
        {"task_id": number, "text": "a", "code": f"def f():\r\n    return {number}",
         "test_setup_code": "", "test_list": [f"assert f() == {number}"]}
        for number in (2, 20, 520)
    ],
}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, rows in ROWS.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True)
        lines = "".join(json.dumps(r) + "\n" for r in rows)
        text = json.dumps(rows) if name.endswith(".json.gz") else lines
        path.write_bytes(gzip.compress(text.encode()))
    return tmp_path / "data"


def test_gold_is_right_and_controls_are_wrong(data: Path, tmp_path: Path) -> None:
    """Controls: 2 x 2 numbers; 1 number + 2 rows; 2 other letters; 3 programs."""
    out, figures = tmp_path / "report.json", tmp_path / "figures.json"
    words = ["--out", str(out), "--figures", str(figures), "--commit", "abc", "--hardware", "here"]
    assert grading.main([str(data), *words]) == 0
    found = read(figures)
    sizes = {name: figure["n"] for name, figure in found.items()}
    assert sizes == {
        "grading/gsm8k/gold": 2, "grading/gsm8k/control": 4, "grading/math500/gold": 2,
        "grading/svamp/gold": 2, "grading/svamp/control": 4, "grading/mawps/gold": 2,
        "grading/mawps/control": 4,
        "grading/math500/control": 3, "grading/arc/gold": 1, "grading/arc/control": 2,
        "grading/mbpp/gold": 3, "grading/mbpp/control": 3,
    }  # fmt: skip
    assert {figure["value"] for figure in found.values()} == {1.0}
    assert {figure["commit"] for figure in found.values()} == {"abc"}
    report = json.loads(out.read_text())
    assert all(part["exceptions"] == [] for part in report["benchmarks"].values())
    assert len(report["benchmarks"]["arc"]["provenance"]["sha256"]) == 64


def test_what_is_not_graded_as_it_should_be_is_listed(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name = "mbpp/mbpp.jsonl.gz"
    rows = [ROWS[name][0] | {"test_list": ["assert f() == 0"]}, *ROWS[name][1:]]
    (data / name).write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    out = tmp_path / "report.json"
    assert grading.main([str(data), "--only", "mbpp", "--out", str(out)]) == 1
    [listed] = json.loads(out.read_text())["benchmarks"]["mbpp"]["exceptions"]
    assert listed["reason"] == "wrong answer in test 1 of 1"
    assert (listed["record"], listed["kind"], listed["crash"]) == ("2", "gold", "")
    assert "grading/mbpp/gold 0.6667" in capsys.readouterr().out


def test_figures_need_a_commit_and_hardware(data: Path) -> None:
    with pytest.raises(SystemExit):
        grading.main([str(data), "--figures", "x.json"])
