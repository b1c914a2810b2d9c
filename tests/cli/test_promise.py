"""`--weights` and `--certificate`: an answer judged by what was fitted before."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from remask.decide.threshold import Certificate
from remask.decide.weights import Weights
from remask.studies.fitting import read_evidence
from remask.tasks import TASKS

Run = Callable[..., Any]
Fails = Callable[..., str]
CORE = tuple(name for name in TASKS["wordmath"].metrics if name != "semantic_similarity")
ALONE = dict.fromkeys(CORE, 0.0) | {"token_accuracy": 1.0}


class Files(NamedTuple):
    weights: Path
    certificate: Path
    words: tuple[str, ...]  # that answers were drawn and scored with


@pytest.fixture
def files(run: Run, fast: tuple[str, ...], tmp_path: Path) -> Files:
    """Weights on token accuracy alone, and a certificate above .25 with them."""
    words = (*fast, "--task", "wordmath", "--level", "easy", "--length", "16", "--steps", "2")
    out = tmp_path / "records.jsonl"
    assert run("collect", "-o", out, *words, "--problems", "1").code == 0
    about = read_evidence(out).provenance("core", CORE)
    found = Files(tmp_path / "weights.json", tmp_path / "certificate.json", words)
    weights = Weights(values=ALONE, n=50, auroc=0.9, auroc_uniform=0.8, provenance=about)
    weights.save(found.weights)
    Certificate(
        threshold=0.25, risk=0.1, confidence=0.95, n=50, accepted=44, wrong=0,
        provenance=replace(about, weights=ALONE),
    ).save(found.certificate)  # fmt: skip
    return found


def test_an_answer_is_judged_by_the_weights_and_threshold_of_a_certificate(
    run: Run, files: Files
) -> None:
    shown = run(
        "solve", *files.words, "--budget", "1", "--certificate", files.certificate, "--json"
    )
    found = json.loads(shown.out)
    assert found["threshold"] == 0.25
    assert found["score"] == pytest.approx(found["metrics"]["token_accuracy"])
    assert found["weights"] == ALONE
    shown = run("solve", *files.words, "--budget", "1", "--weights", files.weights, "--json")
    assert json.loads(shown.out)["score"] == pytest.approx(found["score"])
    assert json.loads(shown.out)["threshold"] != 0.25


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("--budget", "2", "--temperature", "1"), "another sampler and budget (budget 1, its file"),
        (("--trips", "3"), "another consistency (its file tells the consistency)"),
        (("--steps", "4"), "another sampler (its file tells the sampler)"),
        (("--level", "medium"), "another level (level easy)"),
    ],
)
def test_a_certificate_for_another_way_of_asking_is_void(
    fails: Fails, files: Files, change: tuple[str, ...], sentence: str
) -> None:
    words = ("solve", *files.words, "--budget", "1", "--certificate", files.certificate, *change)
    assert sentence in fails(1, *words)


def test_files_for_other_metrics_and_doubled_wishes_are_refused(fails: Fails, files: Files) -> None:
    words = ("solve", *files.words, "--budget", "1")
    said = fails(2, *words, "--certificate", files.certificate, "--threshold", "0.5")
    assert "--certificate has weights and a threshold of its own" in said
    said = fails(1, *words, "--weights", files.weights, "--metrics", "paper")
    assert "was fitted to metric set 'core'" in said
    assert "holds a certificate, not a weights" in fails(1, *words, "--weights", files.certificate)


def test_a_file_is_scored_with_weights(
    run: Run, files: Files, fast: tuple[str, ...], tmp_path: Path
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "scored.jsonl"
    source.write_text('{"prompt": "Two and two?", "answer": "2+2=4. Answer: 4"}\n')
    assert run("score", source, "-o", out, *fast, "--weights", files.weights).code == 0
    (row,) = map(json.loads, out.read_text().splitlines())
    assert row["remask_score"] == pytest.approx(row["remask_metrics"]["token_accuracy"])
    other = tmp_path / "other.jsonl"
    assert run("score", source, "-o", other, *fast).code == 0
    assert json.loads(other.read_text())["remask_score"] != row["remask_score"]
