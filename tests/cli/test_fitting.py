"""`fit`, `certify` and `calibrate`, on records written by hand."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.decide.calibration import Calibrator
from remask.decide.threshold import Certificate
from remask.decide.weights import Weights
from remask.records.lock import locked
from remask.records.manifest import FileState, read_manifest
from remask.tasks import TASKS

Run = Callable[..., Any]
Fails = Callable[..., str]
CORE = tuple(name for name in TASKS["wordmath"].metrics if name != "semantic_similarity")


def row(number: int, sample: int, score: float, right: bool, *, scored: bool = True) -> Any:
    """Return a record whose metrics are all .9 but answer_match, which is `score`."""
    trips = {name: [score if name == "answer_match" else 0.9] * 2 for name in CORE}
    return {
        "id": f"wordmath/hard/validation/0/{number}", "task": "wordmath", "level": "hard",
        "number": sample, "prompt": "1 or 2?", "gold": "1", "text": "1" if right else "2",
        "answer": "1" if right else "2", "right": right, "process_ok": right, "forwards": 1,
        "scores": {"confidence": score},
    } | ({"by_trip": trips, "verify_forwards": 1} if scored else {})  # fmt: skip


def write(path: Path, rows: list[Any], scorers: dict[str, int] | None = None, **asked: Any) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    about = {
        "task": "wordmath", "model": "tiny", "level": "hard", "split": "validation", "seed": 0,
        "metrics": "core", "sampler": {"steps": 4},
    }  # fmt: skip
    runs = [{"versions": {"remask": "0.1.0"}, "started": "2026-11-15T00:00:00Z"}]
    manifest = {"asked": about | asked, "scorers": scorers, "runs": runs}
    Path(f"{path}.manifest.json").write_text(json.dumps(manifest))
    return path


def answers(num_right: int, num_wrong: int) -> list[Any]:
    """Right answers score .96 in answer_match, wrong ones .1."""
    rights = [row(k, 0, 0.96, True) for k in range(num_right)]
    return rights + [row(num_right + k, 0, 0.1, False) for k in range(num_wrong)]


def test_weights_go_to_the_metric_that_tells(run: Run, tmp_path: Path) -> None:
    """Only answer_match varies, so all weight is its own; it separates, so the AUROC is 1."""
    source = write(tmp_path / "fit.jsonl", answers(20, 20))
    out = tmp_path / "new" / "weights.json"
    shown = run("fit", source, "-o", out)
    assert shown.code == 0
    assert "answer_match 1," in shown.out
    assert "AUROC 1.000, uniform 1.000" in shown.out
    found = Weights.load(out, "core", CORE)
    assert found.values == dict.fromkeys(CORE, 0) | {"answer_match": 1}
    about = found.provenance
    assert (about.task, about.split, about.seed, about.model) == (
        "wordmath", "validation", 0, "tiny",
    )  # fmt: skip
    assert (about.version, about.date) == ("0.1.0", "2026-11-15T00:00:00Z")
    assert (about.settings["level"], about.settings["sampler"]) == ("hard", {"steps": 4})
    told = json.loads(run("fit", source, "-o", out, "--force", "--json").out)
    assert told["values"] == found.values


def test_baselines_are_combined_by_name(run: Run, tmp_path: Path) -> None:
    rows = [row(k, n, 0.9 if k % 2 else 0.3, bool(k % 2)) for k in range(20) for n in range(2)]
    source, out = write(tmp_path / "fit.jsonl", rows), tmp_path / "weights.json"
    assert run("fit", source, "-o", out, "--columns", "confidence, vote,agreement").code == 0
    columns = ("confidence", "vote", "agreement")
    found = Weights.load(out, "columns", columns, scorer="confidence+vote+agreement")
    assert found.values == {"confidence": 1, "vote": 0, "agreement": 0}


def test_what_is_fitted_to_one_column_belongs_to_the_scorer_of_that_name(
    run: Run, fails: Fails, tmp_path: Path
) -> None:
    """Right answers have a confidence of .96: .9 is the strictest start that accepts them."""
    source = write(tmp_path / "in.jsonl", answers(50, 20), scorers={"confidence": 3})
    weights, out = tmp_path / "weights.json", tmp_path / "certificate.json"
    assert run("fit", source, "-o", weights, "--columns", "confidence").code == 0
    write(source, answers(50, 20), scorers={"confidence": 3}, seed=1)
    assert run("certify", source, "-o", out, "--weights", weights).code == 0
    found = Certificate.read(out)
    assert (found.provenance.scorer, found.provenance.scorer_version) == ("confidence", 3)
    assert found.threshold == 0.9
    write(source, answers(50, 20), seed=1)
    assert fails(1, "certify", source, "-o", out, "--weights", weights, "--force").endswith(
        "was fitted to version 3 of the scorer 'confidence', not to version 1; fit it again."
    )


def test_columns_of_a_file_that_names_no_scorer_are_certified(run: Run, tmp_path: Path) -> None:
    """As 0.2.0 wrote it."""
    source = write(tmp_path / "in.jsonl", answers(50, 20))
    weights, out = tmp_path / "weights.json", tmp_path / "certificate.json"
    run("fit", source, "-o", weights, "--columns", "confidence")
    document = json.loads(weights.read_text())
    del document["provenance"]["scorer"], document["provenance"]["scorer_version"]
    weights.write_text(json.dumps(document))
    write(source, answers(50, 20), seed=1)
    assert run("certify", source, "-o", out, "--weights", weights).code == 0
    assert Certificate.read(out).provenance.scorer == "confidence"


def test_44_answers_without_error_certify_10_per_cent_and_43_do_not(
    run: Run, fails: Fails, tmp_path: Path
) -> None:
    """.9^44 = .0097 <= .05 / 5 < .9^43; four metrics of .9 and one of .96 score .912 > .9."""
    source, out = write(tmp_path / "in.jsonl", answers(44, 6)), tmp_path / "certificate.json"
    shown = run("certify", source, "-o", out)
    assert shown.out.replace("\n", " ").startswith("Among answers accepted above 0.")
    found = Certificate.load(out, "core", CORE)
    assert (found.n, found.accepted, found.wrong, found.budget) == (50, 44, 0, 1)
    assert found.threshold == 0.9
    told = json.loads(run("certify", source, "-o", out, "--force", "--json").out)
    assert (told["threshold"], told["coverage"]) == (found.threshold, 0.88)
    write(source, answers(43, 0))
    refused = tmp_path / "refused.json"
    said = fails(1, "certify", source, "-o", refused)
    assert said.startswith("no threshold is certified: 43 of 43 answers are accepted at most, and")
    assert "at least 44 without a wrong one are needed for risk 0.1" in said
    assert not refused.exists()
    assert run("certify", source, "-o", refused, "--risk", "0.2").code == 0


def test_weights_are_certified_on_other_questions_only(
    run: Run, fails: Fails, tmp_path: Path
) -> None:
    """With all weight on answer_match right answers score .96."""
    source = write(tmp_path / "fit.jsonl", answers(50, 20))
    weights, out = tmp_path / "weights.json", tmp_path / "certificate.json"
    run("fit", source, "-o", weights)
    words = ("certify", source, "-o", out, "--weights", weights)
    said = fails(1, *words)
    assert said.endswith(
        "holds the questions that the weights were fitted on (wordmath, level hard, split "
        "validation, seed 0); certify on another seed or split."
    )
    for other in ({"seed": 1}, {"split": "test"}, {"level": "medium"}):
        write(source, answers(50, 20), **other)
        assert run(*words, "--force").code == 0
    found = Certificate.load(out, "core", CORE)
    assert found.threshold == 0.9
    assert found.provenance.weights == dict.fromkeys(CORE, 0) | {"answer_match": 1}


def test_another_seed_asks_the_same_questions_of_a_benchmark(
    run: Run, fails: Fails, tmp_path: Path
) -> None:
    place = {"task": "gsm8k", "level": "all", "split": "test"}
    rows = [{**each, "task": "gsm8k"} for each in answers(50, 20)]
    source = write(tmp_path / "fit.jsonl", rows, **place)
    weights, out = tmp_path / "weights.json", tmp_path / "certificate.json"
    run("fit", source, "-o", weights)
    write(source, rows, **place, seed=1)
    words = ("certify", source, "-o", out, "--weights", weights)
    assert fails(1, *words).endswith("certify on another split.")
    write(source, rows, **place | {"split": "train"})
    assert run(*words).code == 0


def test_rejection_sampling_has_a_certificate_of_its_own(
    run: Run, fails: Fails, tmp_path: Path
) -> None:
    """Every first sample scores .74 and is wrong, every second scores .912 and is right."""
    rows = [row(k, n, 0.96 if n else 0.1, bool(n)) for k in range(100) for n in range(2)]
    source, out = write(tmp_path / "in.jsonl", rows), tmp_path / "certificate.json"
    assert "no threshold is certified" in fails(1, "certify", source, "-o", out)
    assert run("certify", source, "-o", out, "--budget", "2").code == 0
    found = Certificate.load(out, "core", CORE)
    assert (found.n, found.accepted, found.budget) == (100, 100, 2)
    write(source, [row(k, n, 0.9, True, scored=not n) for k in range(9) for n in range(2)])
    said = fails(1, "certify", source, "-o", out, "--budget", "2", "--force")
    assert said.endswith("collect it with --samples 2 --scored 2.")


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_a_calibrator_gives_chances(run: Run, tmp_path: Path, method: str) -> None:
    source, out = write(tmp_path / "in.jsonl", answers(30, 30)), tmp_path / "calibrator.json"
    weights = tmp_path / "weights.json"
    run("fit", source, "-o", weights)
    write(source, answers(30, 30), seed=1)
    words = ("calibrate", source, "-o", out, "--weights", weights, "--method", method)
    told = json.loads(run(*words, "--json").out)
    assert (told["method"], told["n"]) == (method, 60)
    low, high = Calibrator.load(out, "core", CORE).probabilities([0.1, 0.96])
    assert low is not None
    assert high is not None
    assert low < 0.1 < 0.9 < high
    assert f"{method} curve of 60 answers: a score of 0.5 is right in" in run(*words, "--force").out


def test_a_calibrator_is_fitted_on_other_questions_than_its_weights(
    fails: Fails, run: Run, tmp_path: Path
) -> None:
    """The same refusal as of a certificate; uniform weights were fitted on nothing."""
    source, weights = write(tmp_path / "in.jsonl", answers(30, 30)), tmp_path / "weights.json"
    run("fit", source, "-o", weights)
    out = tmp_path / "calibrator.json"
    said = fails(1, "calibrate", source, "-o", out, "--weights", weights)
    assert said.endswith("split validation, seed 0); calibrate on another seed or split.")
    assert not out.exists()
    assert run("calibrate", source, "-o", out).code == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("fit", "missing.jsonl"), 1, "cannot use missing.jsonl: No such file"),
        (("fit", "alone.jsonl"), 1, "alone.jsonl has no manifest alone.jsonl.manifest.json"),
        (("fit", "empty.jsonl"), 1, "empty.jsonl holds no records"),
        (
            ("fit", "other.jsonl"),
            1,
            "other.jsonl line 1 has no 'id': give what remask collect wrote",
        ),
        (("fit", "in.jsonl", "--columns", "voat"), 1, "Did you mean 'vote'?"),
        (("calibrate", "in.jsonl", "--scorer", "verifer"), 1, "Did you mean 'verifier'?"),
        (("fit", "in.jsonl", "--columns", "luck"), 1, "Unknown column 'luck'. Known: confidence,"),
        (("fit", "in.jsonl", "--metrics", "paper"), 1, "does not hold semantic_similarity of the"),
        (("fit", "in.jsonl", "--metrics", "best"), 2, "--metrics"),
        (("fit", "one.jsonl"), 1, "all 3 answers are right; weights need both kinds"),
        (("certify", "in.jsonl", "--risk", "2"), 2, "--risk must be below 1, got 2;"),
        (("certify", "in.jsonl", "--budget", "0"), 2, "--budget must be at least 1, got 0"),
        (("certify", "in.jsonl", "--weights", "in.jsonl"), 1, "in.jsonl is damaged"),
        (("calibrate", "plain.jsonl"), 1, "holds no round trips; collect it with --scored 1"),
        (("calibrate", "in.jsonl", "--method", "spline"), 2, "--method"),
    ],
)
def test_what_cannot_be_fitted_is_one_sentence_and_no_file(
    fails: Fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], code: int, sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.jsonl", answers(5, 5))
    write(tmp_path / "one.jsonl", answers(3, 0))
    write(tmp_path / "empty.jsonl", [])
    write(tmp_path / "other.jsonl", [{"prompt": "a"}])
    write(tmp_path / "plain.jsonl", [row(0, 0, 0.5, True, scored=False)])
    (tmp_path / "alone.jsonl").write_text((tmp_path / "in.jsonl").read_text())
    before = sorted(tmp_path.iterdir())
    assert sentence in fails(code, *words, "-o", "new/out.json")
    assert sorted(tmp_path.iterdir()) == before


def test_certified_answers_to_the_test_split_are_named(run: Run, tmp_path: Path) -> None:
    for split in ("validation", "test"):
        source = write(tmp_path / f"{split}.jsonl", answers(60, 0), split=split)
        shown = run("certify", source, "-o", tmp_path / f"{split}.json", "--json")
        assert shown.code == 0, shown.err
        assert json.loads(shown.out)["split"] == split
        assert ("holds answers to the test split" in shown.err) is (split == "test")


@pytest.mark.parametrize("command", ["fit", "certify", "calibrate", "report"])
def test_a_scored_file_is_named_as_one(fails: Fails, tmp_path: Path, command: str) -> None:
    source = tmp_path / "scored.jsonl"
    source.write_text(json.dumps({"id": 0, "prompt": "q", "answer": "1", "remask_score": 0.5}))
    said = fails(1, command, source, "-o", tmp_path / "out")
    assert "holds scores of remask score, not records of remask collect" in said


@pytest.mark.parametrize("command", ["fit", "certify", "calibrate", "report"])
def test_a_file_that_misses_a_sample_or_holds_a_wrong_value_is_refused(
    fails: Fails, tmp_path: Path, command: str
) -> None:
    rows = [row(k, number, 0.9, k % 2 == 0) for k in range(20) for number in range(2)]
    for changed, sentence in (
        (rows[:-1], "is missing"),
        (rows[2:], "must hold 20 problems, got 19"),
        (
            [*rows[:-1], {**rows[-1], "scores": {"confidence": 7}}],
            "confidence must be at most 1, got 7",
        ),
        ([*rows[:-1], {**rows[-1], "task": "choice"}], "must be 'wordmath', got 'choice'"),
        ([*rows[:-1], {**rows[-1], "forwards": -5}], "forwards must be at least 0, got -5"),
    ):
        source = write(tmp_path / "a.jsonl", changed, samples=2, problems=20)
        assert sentence in fails(1, command, source, "-o", tmp_path / "out")


def test_what_is_fitted_to_edited_records_belongs_to_no_model(run: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", answers(20, 20), problems=40, samples=1)
    manifest = replace(read_manifest(source), version=3)
    replace(manifest, file=FileState.of(source, 40)).write(source)
    out = tmp_path / "weights.json"
    assert run("fit", source, "-o", out).code == 0
    assert Weights.load(out, "core", CORE).provenance.model == "tiny"
    source.write_text(source.read_text().replace('"right": true', '"right":  true', 1))
    assert run("fit", source, "-o", out, "--force").code == 0
    about = Weights.load(out, "core", CORE).provenance
    assert (about.model, about.split) == ("external", "external")
    assert not any(value for name, value in about.settings.items() if name != "level")


@pytest.mark.parametrize("command", ["fit", "certify", "calibrate", "report", "study", "join"])
def test_a_second_process_is_refused_with_the_name_of_the_first(
    fails: Fails, tmp_path: Path, command: str
) -> None:
    """A thread holds the lock, as another process would."""
    source, out = write(tmp_path / "a.jsonl", answers(20, 20)), tmp_path / "out"
    words = [command, "diagnosis", source] if command == "study" else [command, source]
    with ThreadPoolExecutor(1) as other:
        lock = locked(out)
        other.submit(lock.__enter__).result()
        assert "out is in use by process" in fails(1, *words, "-o", out)
        other.submit(lock.__exit__, None, None, None).result()
    assert not out.exists()


@pytest.mark.parametrize("command", ["fit", "certify", "calibrate", "report", "study"])
def test_records_that_are_not_finished_are_named_as_such(
    fails: Fails, tmp_path: Path, command: str
) -> None:
    source = tmp_path / "a.jsonl"
    (tmp_path / "a.jsonl.part").touch()
    words = [command, "diagnosis", source] if command == "study" else [command, source]
    assert "a.jsonl is not finished" in fails(1, *words, "-o", tmp_path / "out")
