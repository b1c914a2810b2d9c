"""`--weights` and `--certificate`: an answer judged by what was fitted before."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from remask import api
from remask.analysis.fitting import read_evidence
from remask.consistency.settings import ConsistencySettings
from remask.decide.threshold import Certificate
from remask.decide.weights import Weights
from remask.denoisers.load import load
from remask.records.parquet import read_table
from remask.tasks import TASKS

Run = Callable[..., Any]
Fails = Callable[..., str]
CORE = tuple(name for name in TASKS["wordmath"].metrics if name != "semantic_similarity")
ALONE = dict.fromkeys(CORE, 0.0) | {"token_accuracy": 1.0}


PROMPT, ANSWER = "Two and two?", "2+2=4. #### 4"  # 13 bytes: a canvas of 16 holds them
PROMISE = (
    "Among answers accepted above 0.25 at most 10 % are wrong, with 95 % confidence, from n = 50 "
    "validation answers: 44 accepted (coverage 88.0 %), 0 of them wrong. It holds for questions "
    "and answers drawn like these: wordmath, level easy."
)


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
    assert found["accepted"] is (found["score"] > 0.25)
    assert found["promise"] == PROMISE
    words = ("--weights", files.weights, "--threshold", "0.5", "--json")
    shown = run("solve", *files.words, "--budget", "1", *words)
    assert json.loads(shown.out)["score"] == pytest.approx(found["score"])
    assert json.loads(shown.out)["threshold"] != 0.25


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("--budget", "2", "--temperature", "1"), "budget 1, got 2; temperature 0, got 1"),
        (("--trips", "3"), "trips 2, got 3"),
        (("--steps", "4"), "steps 2, got 4"),
        (("--level", "medium"), "level easy, got medium"),
        (("--wording", "dream"), "wording llada, got dream"),
    ],
)
def test_a_certificate_for_another_way_of_asking_is_void(
    fails: Fails, files: Files, change: tuple[str, ...], sentence: str
) -> None:
    words = ("solve", *files.words, "--budget", "1", "--certificate", files.certificate, *change)
    assert sentence in fails(1, *words)


@pytest.mark.parametrize(
    ("collected", "forgotten", "budget", "void"),
    [("2", False, 2, False), ("2", False, 1, False), ("2", True, 2, True), ("1", True, 1, False)],
)
def test_a_second_temperature_is_part_of_a_promise_about_several_samples(
    run: Run, fast: tuple[str, ...], tmp_path: Path,
    collected: str, forgotten: bool, budget: int, void: bool,
) -> None:  # fmt: skip
    """A file of before there was one (`forgotten`) is about copies, or about single answers."""
    words = (*fast, "--task", "wordmath", "--level", "easy", "--length", "16", "--steps", "2")
    out, file = tmp_path / "records.jsonl", tmp_path / "certificate.json"
    assert run("collect", "-o", out, *words, "--problems", "1", "--samples", collected).code == 0
    about = replace(read_evidence(out).provenance("core", CORE), weights=ALONE)
    if forgotten:
        settings = json.loads(json.dumps(dict(about.settings)))
        del settings["sampler"]["resample_temperature"]
        about = replace(about, settings=settings)
    Certificate(
        threshold=0.25, risk=0.1, confidence=0.95, n=50, accepted=44, wrong=0, budget=budget,
        provenance=about,
    ).save(file)  # fmt: skip
    shown = run("solve", *words, "--budget", budget, "--certificate", file, "--json")
    assert shown.code == int(void)
    assert ("resample_temperature None, got 0.9" in shown.err) == void


def test_files_for_other_metrics_and_doubled_wishes_are_refused(fails: Fails, files: Files) -> None:
    words = ("solve", *files.words, "--budget", "1")
    said = fails(2, *words, "--certificate", files.certificate, "--threshold", "0.5")
    assert "--certificate has a threshold of its own" in said
    said = fails(2, *words, "--certificate", files.certificate, "--kind", "number")
    assert "--certificate says how to read an answer" in said
    said = fails(1, *words, "--weights", files.weights, "--metrics", "paper")
    assert "was fitted to metric set 'core'" in said
    assert "is a file of kind 'certificate', not 'weights'" in fails(
        1, *words, "--weights", files.certificate
    )


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


def certify(files: Files, **changes: Any) -> None:
    """Write the certificate again with other fields, or fields of its provenance."""
    found = Certificate.load(files.certificate, "core", CORE)
    own = {name: value for name, value in changes.items() if hasattr(found, name)}
    about = {name: value for name, value in changes.items() if name not in own}
    replace(found, **own, provenance=replace(found.provenance, **about)).save(files.certificate)


def score_of(model: str, weights: dict[str, float] | None = None) -> float:
    """Return what the API says of the answer, on the canvas of 16 that was certified."""
    denoiser, settings = load(model), ConsistencySettings(trips=2, rebuild_steps=2)
    answer = api.sample_from_text(denoiser, PROMPT, ANSWER, length=16)
    score = api.score(
        denoiser, PROMPT, answer, kind="wordmath", settings=settings, metrics="core",
        weights=weights,
    )  # fmt: skip
    assert score.value is not None
    return score.value


def test_an_answer_at_hand_is_accepted_above_the_certified_threshold_alone(
    run: Run, files: Files, fast: tuple[str, ...], model: str
) -> None:
    value = score_of(model, ALONE)
    words = ("verify", PROMPT, ANSWER, "--own", *fast, "--certificate", files.certificate)
    for threshold, accepted in ((value, False), (value - 1e-3, True)):
        certify(files, threshold=threshold)
        found = json.loads(run(*words, "--json").out)
        assert found["score"] == pytest.approx(value, abs=1e-6)
        assert (found["threshold"], found["accepted"]) == (threshold, accepted)
        assert (found["trusted"], found["threshold_source"]) == (accepted, "certificate")
        assert found["verdict"] == ("trust" if accepted else "doubt"), "a promise is not undecided"
        assert found["weights"] == ALONE
        shown = " ".join(run(*words).out.split())
        start = "accepted. Among answers" if accepted else "not accepted. Among answers"
        assert start in shown
        assert shown.endswith("drawn like these: wordmath, level easy.")


def test_a_certificate_of_one_task_is_void_for_another(
    fails: Fails, files: Files, fast: tuple[str, ...]
) -> None:
    certify(files, threshold=0.5)
    words = ("--task", "countdown", "--own", *fast, "--certificate", files.certificate)
    said = fails(1, "verify", "--answer", ANSWER, *words)
    assert "was certified for task wordmath, got countdown" in said


def test_an_answer_at_hand_is_scored_with_weights(
    run: Run, files: Files, fast: tuple[str, ...], model: str
) -> None:
    found = json.loads(
        run("verify", PROMPT, ANSWER, *fast, "--weights", files.weights, "--json").out
    )
    assert found["score"] == pytest.approx(score_of(model, ALONE), abs=1e-6)
    assert "promise" not in found
    assert found["weights"] == ALONE


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_is_decided_by_a_certificate(
    run: Run, files: Files, fast: tuple[str, ...], model: str, tmp_path: Path, suffix: str
) -> None:
    """The second answer does not fit the canvas of 16 that was certified: no score, no promise."""
    value = score_of(model, ALONE)
    certify(files, threshold=value - 1e-3)
    source, out = tmp_path / "in.jsonl", tmp_path / f"scored.{suffix}"
    rows = [{"prompt": PROMPT, "answer": text} for text in (ANSWER, ANSWER * 2)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("score", source, "-o", out, "--own", *fast, "--certificate", files.certificate)
    told = json.loads(run(*words, "--json").out)
    assert (told["rows"], told["failed"], told["accepted"]) == (2, 1, 1)
    assert told["promise"].startswith(f"Among answers accepted above {value - 1e-3:g} at most")
    first, second = read_table(out).rows
    assert first["remask_score"] == pytest.approx(value, abs=1e-6)
    assert (first["remask_accepted"], second["remask_accepted"]) == (True, False)
    assert second["remask_error"].startswith("the answer takes 27 tokens with its end, and the")
    certify(files, threshold=value)
    out.unlink()
    assert " 0 accepted, 1 failed," in " ".join(run(*words).out.split())


@pytest.mark.parametrize("command", ["verify", "score"])
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "another"}, "certified for model another, got "),
        ({"budget": 4}, "budget 4, got 1"),
        ({"settings": {"consistency": {"trips": 4}}}, "trips 4, got 2"),
        ({"settings": {"dtype": "bfloat16"}}, "dtype bfloat16, got float32"),
        ({"settings": {"revision": "0" * 40}}, "revision 000000"),
        ({"weights": None}, "certified with other weights than those in"),
    ],
)
def test_a_promise_for_another_score_is_void(
    fails: Fails, files: Files, fast: tuple[str, ...], tmp_path: Path, command: str,
    changes: dict[str, Any], sentence: str,
) -> None:  # fmt: skip
    certify(files, **changes)
    source, out = tmp_path / "in.jsonl", tmp_path / "scored.jsonl"
    source.write_text(json.dumps({"prompt": PROMPT, "answer": ANSWER}) + "\n")
    what = (PROMPT, ANSWER) if command == "verify" else (source, "-o", out)
    fitted = ("--own", "--certificate", files.certificate, "--weights", files.weights)
    assert sentence in fails(1, command, *what, *fast, *fitted)
    assert not out.exists()


@pytest.mark.parametrize("command", ["verify", "score"])
def test_a_promise_about_the_model_s_answers_is_void_for_external_ones(
    fails: Fails, files: Files, fast: tuple[str, ...], tmp_path: Path, command: str
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "scored.jsonl"
    source.write_text(json.dumps({"prompt": PROMPT, "answer": ANSWER}) + "\n")
    what = (PROMPT, ANSWER) if command == "verify" else (source, "-o", out)
    error = fails(1, command, *what, *fast, "--certificate", files.certificate)
    assert "certified for source model, got external. Pass --own if" in error


def test_weights_beside_a_certificate_may_be_its_own(
    run: Run, files: Files, fast: tuple[str, ...]
) -> None:
    fitted = ("--own", "--certificate", files.certificate, "--weights", files.weights)
    found = json.loads(run("verify", PROMPT, ANSWER, *fast, *fitted, "--json").out)
    assert (found["weights"], found["threshold"]) == (ALONE, 0.25)


@pytest.fixture
def confident(files: Files, tmp_path: Path) -> Path:
    """A certificate of the same answers above a confidence of -1."""
    path = tmp_path / "confident.json"
    about = read_evidence(tmp_path / "records.jsonl").provenance("columns", ("confidence",))
    made = Certificate.read(files.certificate)
    replace(made, threshold=-1.0, provenance=replace(about, weights={"confidence": 1.0})).save(path)
    return path


def test_a_certificate_belongs_to_one_scorer(
    run: Run, fails: Fails, files: Files, confident: Path, model: str
) -> None:
    """Another sampler than was certified voids it under its own scorer too."""
    words = (
        "solve", "--model", model, "--task", "wordmath", "--level", "easy", "--length", "16",
        "--budget", "1",
    )  # fmt: skip
    drawn = (*words, "--steps", "2")
    mine = ("--scorer", "confidence", "--certificate", confident)
    found = json.loads(run(*drawn, *mine, "--json").out)
    assert (found["scorer"], found["threshold"], found["accepted"]) == ("confidence", -1.0, True)
    assert found["promise"].startswith("Among answers accepted above -1 at most 10 % are wrong")
    assert "steps 2, got 4" in fails(1, *words, *mine, "--steps", "4")
    assert fails(1, *drawn, "--certificate", confident).endswith(
        "was fitted to scores of 'confidence', not of 'roundtrips'; fit it again, or score with "
        "'confidence'."
    )
    assert fails(1, *drawn, "--scorer", "confidence", "--certificate", files.certificate).endswith(
        "was fitted to scores of 'roundtrips', not of 'confidence'; fit it again, or score with "
        "'roundtrips'."
    )


def test_a_certificate_of_another_version_of_its_scorer_is_refused(
    fails: Fails, files: Files
) -> None:
    made = Certificate.read(files.certificate)
    replace(made, provenance=replace(made.provenance, scorer_version=2)).save(files.certificate)
    words = (*files.words, "--budget", "1", "--certificate", files.certificate)
    assert fails(1, "solve", *words).endswith(
        "was fitted to version 2 of the scorer 'roundtrips', not to version 1; fit it again."
    )
