"""The threshold slider of the server's page: its numbers are those of Python."""

import json
from pathlib import Path
from typing import Any

import pytest
from person import click, put, text, texts, write_study

pytestmark = pytest.mark.browser


def test_the_slider_tells_what_a_threshold_accepts(page: Any, tmp_path: Path) -> None:
    """The same numbers as `certify`, `best_f1` and counting; second samples are left out."""
    from remask.decide.provenance import Provenance
    from remask.decide.threshold import best_f1, certify

    rows = write_study(tmp_path / "study.jsonl")
    with (tmp_path / "study.jsonl").open("a") as file:
        file.write('{"id": "q/0", "number": 0, "kind": "omission", "text": null}\n')
    page.choose_files("#study-file", [tmp_path / "study.jsonl"])
    page.wait("!document.getElementById('slider').hidden")
    scores = [row["scores"]["roundtrips"] for row in rows]
    right = [row["right"] for row in rows]
    for threshold in (0.5, 0.75, 0.9):
        put(page, "#slider input[type=range]", threshold)
        accepted = [r for s, r in zip(scores, right, strict=True) if s > threshold]
        told = texts(page, ".tiles dd:not(.note)")
        assert told[0] == f"{100 * sum(accepted) / len(accepted):.1f} %"
        assert told[1] == f"{100 * len(accepted) / len(rows):.1f} %"
        assert f"{len(accepted) - sum(accepted)} wrong of {len(accepted)} accepted" in texts(
            page, ".tiles .note"
        )
    kept = Provenance(
        metric_set="core",
        metrics=(),
        task="t",
        model="m",
        split="test",
        seed=0,
        version="",
        date="",
    )  # fmt: skip
    found = certify(scores, right, kept, risk=0.1, confidence=0.95)
    assert texts(page, ".jumps button") == [
        f"best F1, {best_f1(scores, right):.2f}", f"certified, {found.threshold:.2f}",
    ]  # fmt: skip
    click(page, ".jumps button:last-child")
    assert text(page, ".promise").startswith("Certified: at most 10 %")
    put(page, "#slider input[type=range]", 0.4)
    assert text(page, ".promise").startswith("Not certified")
    put(page, "#slider input[type=number]", 0.01)
    assert text(page, ".promise").startswith("No threshold can be certified here.")


def test_certificates_are_those_of_python(page: Any) -> None:
    """Random studies of up to 3,000 answers: the same thresholds proved, the same tails."""
    import numpy as np

    from remask.decide.threshold import (
        STARTS,
        _proved,
        _shares,
        best_f1,
        binomial_tail,
        fewest_answers,
        outcomes,
    )

    rng = np.random.default_rng(0)
    module = "import('/static/threshold.js')"
    for n, risk, confidence in ((40, 0.2, 0.9), (300, 0.1, 0.95), (3000, 0.05, 0.99)):
        scores = np.round(rng.beta(4, 2, n), 2)  # many on the very thresholds
        right = rng.random(n) < 0.3 + 0.7 * scores
        accepted, wrong = outcomes(scores, right)
        tails = binomial_tail(wrong, accepted, risk)
        proved = _proved(tails, _shares(STARTS, 1 - confidence))
        answers = json.dumps(
            [{"score": s, "right": bool(r)} for s, r in zip(scores.tolist(), right, strict=True)]
        )
        found = page.run(
            f"{module}.then((t) => {{ const a = {answers};"
            f" const c = t.certify(a, {risk}, {confidence});"
            " return { proved: c.proved, best: t.bestF1(a),"
            " tails: t.GRID.map((x) => t.outcome(a, x))"
            f".map((o) => t.binomialTail(o.wrong, o.accepted, {risk})),"
            f" fewest: t.fewestAnswers({risk}, {confidence}) }}; }})"
        )
        assert found["proved"] == proved.tolist()
        assert found["best"] == best_f1(scores, right)
        assert found["fewest"] == fewest_answers(risk, confidence)
        np.testing.assert_allclose(found["tails"], tails, rtol=1e-9, atol=1e-13)


def test_a_saved_report_is_a_study_too(page: Any, tmp_path: Path) -> None:
    from remask.report.answer_list import FIELDS, encode

    values = dict.fromkeys(FIELDS, 0) | {"confidence": None}
    answers = [
        list((values | {"id": f"q{k}", "right": k % 2, "score": k / 10}).values())
        for k in range(10)
    ]
    data = {"fields": FIELDS, "files": ["a <b>"], "answers": answers, "whole": True}
    holds = f'<script type="application/json" id="data">{encode(data)}</script>'
    (tmp_path / "report.html").write_text(f"<p>x</p>{holds}<script>1</script>")
    page.choose_files("#study-file", [tmp_path / "report.html"])
    page.wait("!document.getElementById('slider').hidden")
    assert texts(page, "#slider select option") == ["a <b>", "round trips"]
    put(page, "#slider input[type=range]", 0.5)
    assert texts(page, ".tiles dd:not(.note)")[:2] == ["50.0 %", "40.0 %"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Line 1 of bad.jsonl is no JSON"),
        ('{"id": "a"}', "Line 1 of bad.jsonl has no right"),
        ("", "bad.jsonl holds no records"),
        ('{"id": "a", "right": true, "scores": {}}', "No answer there has a score"),
    ],
)
def test_a_file_that_is_no_study_is_refused_in_a_sentence(
    page: Any, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "bad.jsonl").write_text(content)
    page.choose_files("#study-file", [tmp_path / "bad.jsonl"])
    page.wait("document.getElementById('study-says').textContent !== ''")
    assert text(page, "#study-says").startswith(message)
    assert page.run("document.getElementById('slider').hidden")
