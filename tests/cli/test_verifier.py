"""`--scorer verifier`: fitted to records, label-free with a certificate, and within a budget."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from remask import api
from remask.analysis import fitting
from remask.decide.stages import StagedVerifier
from remask.decide.threshold import Certificate
from remask.denoisers.load import load
from remask.errors import SettingsError
from remask.records.manifest import FileState, read_manifest
from remask.sampling.settings import sampler_settings
from remask.verifier.columns import LABEL_FREE, LABEL_FREE_PROBES, readings_of
from remask.verifier.threshold import NO_THRESHOLD

Run = Callable[..., Any]
Fails = Callable[..., str]
PROMPT, ANSWER = "What is 2 + 2?", "2+2=4"


def row(number: int, value: float, right: bool, *, sample: int = 0, trips: bool = False) -> Any:
    """Return a record of which every probe reads log `value`, and the generation log .5."""
    features = {"length": 8, "critical_count": 3, "generation.response_min": math.log(0.5)}
    for name in LABEL_FREE_PROBES:
        features[f"{name}.{readings_of(name)[0]}"] = math.log(value)
        features[f"{name}.forwards"] = 1 if name == "critical" else 8
    made = {"by_trip": {"answer_match": [value] * 2}, "verify_forwards": 64} if trips else {}
    return {
        "id": f"wordmath/hard/validation/0/{number}", "task": "wordmath", "level": "hard",
        "number": sample, "prompt": "1 or 2?", "gold": "1", "text": "1", "answer": "1",
        "right": right, "process_ok": right, "forwards": 1, "scores": {"confidence": 0.5},
        "features": features, **made,
    }  # fmt: skip


def answers(num_right: int, num_wrong: int, **others: Any) -> list[Any]:
    """Right answers have values of about .9, wrong ones of about .3."""
    rights = [row(k, 0.9 + k / 1000, True, **others) for k in range(num_right)]
    wrongs = [row(num_right + k, 0.3 + k / 1000, False, **others) for k in range(num_wrong)]
    return rights + wrongs


def write(path: Path, rows: list[Any], model: str = "tiny", **changes: Any) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    sampler = {
        "steps": 2, "length": 16, "block": 16, "order": "low_confidence", "temperature": 0.0,
    }  # fmt: skip
    about = {
        "task": "wordmath", "model": model, "level": "hard", "split": "validation", "seed": 0,
        "metrics": "core", "sampler": sampler, "consistency": {"trips": 2, "rebuild_steps": 2},
    }  # fmt: skip
    manifest = {"asked": about | changes, "model": {"name": model, "dtype": "float32"}, "runs": []}
    Path(f"{path}.manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.fixture
def fitted(run: Run, tmp_path: Path, model: str) -> Path:
    """A verifier that was fitted to answers of the random model."""
    out = tmp_path / "verifier.json"
    source = write(tmp_path / "fit.jsonl", answers(20, 20), model)
    assert run("fit", source, "-o", out, "--scorer", "verifier").code == 0
    return out


def test_a_verifier_is_fitted_in_stages(run: Run, tmp_path: Path) -> None:
    source, out = write(tmp_path / "fit.jsonl", answers(20, 20)), tmp_path / "verifier.json"
    words = ("fit", source, "-o", out, "--scorer", "verifier")
    shown = " ".join(run(*words).out.split())
    assert "40 answers, 20 right, 20 wrong; stages critical, stratified90x8+halves8" in shown
    assert "cross-validated AUROC 1.000 in stages, 1.000 in full" in shown
    assert "--threshold 0." in shown
    staged = StagedVerifier.read(out)
    assert [stage.forwards for stage in staged.stages] == [1, 16]
    about = staged.provenance
    assert (about.scorer, about.model, about.task) == ("verifier", "tiny", "wordmath")
    assert about.settings["dtype"] == "float32"
    told = json.loads(run(*words, "--force", "--json").out)
    assert (told["n"], told["num_right"], told["threshold"]) == (40, 20, staged.threshold)
    assert told["reason"] is None


def test_round_trips_are_the_last_stage_where_there_are_some(run: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "fit.jsonl", answers(20, 20, trips=True))
    run("fit", source, "-o", tmp_path / "verifier.json", "--scorer", "verifier")
    last = StagedVerifier.read(tmp_path / "verifier.json").stages[-1]
    assert (last.name, last.forwards) == ("roundtrips", 64)
    assert "roundtrips.answer_match" in last.regression.terms


def test_too_few_labels_are_told(run: Run, tmp_path: Path) -> None:
    source, out = write(tmp_path / "fit.jsonl", answers(20, 4)), tmp_path / "verifier.json"
    shown = run("fit", source, "-o", out, "--scorer", "verifier", "--json")
    assert json.loads(shown.out)["reason"].startswith("20 right and 4 wrong answers are too few")
    shown = run("fit", source, "-o", out, "--scorer", "verifier", "--force")
    assert "the label-free mean is used" in " ".join(shown.out.split())


def test_records_without_features_name_the_flag_that_is_missing(
    fails: Fails, tmp_path: Path
) -> None:
    rows = [{**each, "features": {}} for each in answers(5, 5)]
    source, out = write(tmp_path / "fit.jsonl", rows), tmp_path / "out.json"
    remedy = "collect it with --probes critical,stratified90x8,halves8."
    assert fails(1, "fit", source, "-o", out, "--scorer", "verifier").endswith(
        f"holds no features; {remedy}"
    )
    for words in (("fit", "--columns", "verifier"), ("certify", "--scorer", "verifier")):
        assert fails(1, words[0], source, "-o", out, *words[1:]).endswith(
            f"holds no verifier; {remedy}"
        )
    said = fails(2, "fit", source, "-o", out, "--scorer", "verifier", "--metrics", "core")
    assert said.startswith("--metrics is of weights, which --scorer verifier has none of")
    assert not out.exists()


@pytest.mark.parametrize("scorer", ["probe", "verifier"])
def test_a_label_free_score_is_certified_from_features(
    run: Run, fails: Fails, tmp_path: Path, scorer: str
) -> None:
    """Values of right answers begin at .9, and four equal ones have them for their mean."""
    source, out = write(tmp_path / "in.jsonl", answers(60, 20)), tmp_path / "certificate.json"
    shown = run("certify", source, "-o", out, "--scorer", scorer)
    assert shown.out.startswith("Among answers accepted above 0.")
    made = Certificate.read(out)
    assert (made.provenance.scorer, made.provenance.metrics) == (scorer, (scorer,))
    assert (made.n, made.wrong) == (80, 0)
    assert run("calibrate", source, "-o", tmp_path / "curve.json", "--scorer", scorer).code == 0
    shown = run("fit", source, "-o", tmp_path / "weights.json", "--columns", scorer)
    threshold = fitting.threshold_of(source, scorer)
    assert threshold is not None
    assert 0.31 < threshold < 0.9
    assert f"; --threshold {threshold:g} by F1: " in " ".join(shown.out.split())
    words = ("certify", source, "-o", out, "--force")
    said = fails(1, *words, "--weights", tmp_path / "weights.json", "--scorer", scorer)
    assert said == f"scorer '{scorer}' has no weights; leave one of them out."
    assert "Unknown scorer 'luck'. Known: roundtrips, confidence," in fails(
        1, *words, "--scorer", "luck"
    )


def test_a_certificate_of_more_samples_needs_their_features(
    run: Run, fails: Fails, tmp_path: Path
) -> None:
    firsts, out = answers(60, 20), tmp_path / "certificate.json"
    seconds = [{**each, "number": 1} for each in firsts]
    source = write(tmp_path / "in.jsonl", firsts + seconds)
    words = ("certify", source, "-o", out, "--scorer", "verifier", "--budget", "2")
    assert run(*words).code == 0
    write(source, firsts + [{**each, "features": {}} for each in seconds])
    assert fails(1, *words, "--force").endswith(
        "collect it with --samples 2 --scored 2 --probes critical,stratified90x8,halves8."
    )
    words = tuple("probe" if word == "verifier" else word for word in words)
    assert fails(1, *words, "--force").endswith("--samples 2 --scored 2 --probes critical.")


def test_an_answer_at_hand_has_the_score_of_the_library(run: Run, fitted: Path, model: str) -> None:
    """Read as a word problem, on the canvas of 16 that it was fitted to."""
    staged, denoiser = StagedVerifier.read(fitted), load(model)
    sample = api.sample_from_text(denoiser, PROMPT, ANSWER, length=16)
    words = ("verify", PROMPT, ANSWER, "--model", model, "--scorer", "verifier", "--json")
    for budget in (None, 9):
        scorer = api.verifier(
            denoiser, {sample.item: PROMPT}, kind="wordmath", fitted=staged, budget=budget
        )
        (score,) = scorer.score([sample])
        flags = () if budget is None else ("--max-forwards", budget)
        told = json.loads(run(*words, "--fitted", fitted, *flags).out)
        assert told["score"] == pytest.approx(score.value, abs=1e-6)
        assert (told["stage"], told["forwards"]) == (score.stage, score.forwards)
        assert told["forwards"] <= (budget or 17)
        assert (told["threshold"], told["verdict"]) == (None, "unknown"), "fitted on own answers"
        own = json.loads(run(*words, "--own", "--fitted", fitted, *flags).out)
        assert (own["threshold"], own["threshold_source"]) == (staged.threshold, "fit")
        assert told["settings"]["kind"] == "wordmath"
        assert told["settings"]["fitted"] == str(fitted)
    bare = json.loads(run(*words, "--max-forwards", "9").out)
    assert (set(bare["metrics"]), bare["forwards"]) == ({"critical", "stratified90x8"}, 9)
    assert "stage" not in bare


def test_solve_takes_the_threshold_that_labels_chose(
    run: Run, fails: Fails, fitted: Path, model: str
) -> None:
    words = ("solve", "--model", model, "--task", "wordmath", "--length", "16", "--steps", "2")
    words += ("--budget", "2", "--scorer", "verifier")
    told = json.loads(run(*words, "--fitted", fitted, "--json").out)
    assert told["threshold"] == StagedVerifier.read(fitted).threshold
    assert {attempt["stage"] for attempt in told["attempts"]} <= {"generation", *LABEL_FREE_PROBES}
    assert fails(1, *words).startswith(NO_THRESHOLD)


def test_answers_are_written_as_those_that_it_was_fitted_to_or_refused(
    run: Run, fails: Fails, fitted: Path, model: str
) -> None:
    """A canvas of 16 in 2 steps at temperature 0; of a prompt of one's own that is the default."""
    fit = ("--model", model, "--scorer", "verifier", "--fitted", fitted)
    words = ("solve", "--task", "wordmath", "--budget", "1", *fit)
    error = fails(1, *words, "--length", "32", "--steps", "4")
    assert error.startswith(
        "The verifier was fitted on answers written with length 16, got 32; steps 2, got 4; block "
        "16, got 32. "
    )
    error = fails(1, *words, "--length", "16", "--steps", "2", "--temperature", "1")
    assert "with temperature 0, got 1. " in error
    told = json.loads(run("solve", PROMPT, "--budget", "1", *fit, "--json").out)
    assert [told["sampler"][name] for name in ("length", "steps")] == [16, 2]
    denoiser, staged = load(model), StagedVerifier.read(fitted)
    scorer = api.verifier(denoiser, kind="wordmath", fitted=staged)
    solve = partial(api.solve, denoiser, PROMPT, kind="wordmath", scorer=scorer, budget=1)
    decision = solve()
    assert len(decision.sample.canvas) == 16
    assert decision.sample.text == told["answer"]
    with pytest.raises(SettingsError, match="answers written with length 16, got 32; steps 2"):
        solve(sampler=sampler_settings(denoiser, length=32))


def test_an_answer_too_long_for_the_canvas_of_a_fit_is_told_whose_it_is(
    fails: Fails, fitted: Path, model: str
) -> None:
    words = ("--model", model, "--scorer", "verifier", "--fitted", fitted)
    assert fails(1, "verify", PROMPT, "2+2=4 " * 9, *words).endswith(
        "room for 16; shorten it, or, where no fit or certificate sets the length, choose a "
        "greater one."
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("sampler", {"length": -5}), ("sampler", {"length": True}), ("consistency", {"trips": 0})],
)
def test_a_fit_with_settings_that_cannot_be_is_damaged(
    fails: Fails, fitted: Path, model: str, name: str, value: dict[str, Any]
) -> None:
    document = json.loads(fitted.read_text())
    document["provenance"]["settings"][name] = value
    fitted.write_text(json.dumps(document))
    words = ("verify", PROMPT, ANSWER, "--model", model, "--scorer", "verifier")
    error = fails(1, *words, "--fitted", fitted)
    assert error.startswith(f"{fitted} is damaged: the fitted verifier says {name} {value!r}, whi")


def test_a_fit_to_a_probe_that_nobody_knows_is_damaged(
    fails: Fails, fitted: Path, model: str
) -> None:
    fitted.write_text(fitted.read_text().replace("stratified90x8", "strat90x8"))
    words = ("verify", PROMPT, ANSWER, "--model", model, "--scorer", "verifier")
    error = fails(1, *words, "--fitted", fitted)
    assert error.startswith(f"{fitted} is damaged: Unknown probe 'strat90x8'. Known: critical, ")


def test_a_probe_that_cannot_be_is_named_with_its_flag(fails: Fails, tmp_path: Path) -> None:
    words = ("collect", "-m", "tiny", "--task", "wordmath", "-o", tmp_path / "out.jsonl")
    for probe in ("halves7", "halve8"):
        error = fails(1, *words, "--probes", f"critical,{probe}")
        assert repr(probe) in error


def test_a_file_is_scored_and_never_written_over_the_fit(
    run: Run, fails: Fails, fitted: Path, model: str, tmp_path: Path
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "scored.jsonl"
    source.write_text(json.dumps({"prompt": PROMPT, "answer": ANSWER}) + "\n")
    words = ("--model", model, "--scorer", "verifier", "--fitted", fitted)
    assert run("score", source, "-o", out, *words).code == 0
    (scored,) = map(json.loads, out.read_text().splitlines())
    told = json.loads(run("verify", PROMPT, ANSWER, *words, "--json").out)
    assert scored["remask_score"] == pytest.approx(told["score"], abs=1e-5)
    assert (scored["remask_scorer"], scored["remask_forwards"]) == ("verifier", told["forwards"])
    said = fails(1, "score", source, "-o", fitted, *words, "--force")
    assert "verifier.json" in said
    assert StagedVerifier.read(fitted).n == 40


@pytest.mark.parametrize("command", ["verify", "score"])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": "another"}, "fitted on model another, got "),
        ({"settings": {"dtype": "bfloat16"}}, "dtype bfloat16, got float32"),
        ({"settings": {"revision": "0" * 40}}, ""),
        ({"scorer_version": 9}, "scorer_version 9, got 1"),
    ],
)
def test_a_verifier_of_another_origin_is_refused(
    run: Run, fitted: Path, model: str, tmp_path: Path, command: str,
    change: dict[str, Any], sentence: str,
) -> None:  # fmt: skip
    """The revision of a folder is not known, so that of the file is not compared."""
    staged = StagedVerifier.read(fitted)
    replace(staged, provenance=replace(staged.provenance, **change)).save(fitted)
    source, out = tmp_path / "in.jsonl", tmp_path / "scored.jsonl"
    source.write_text(json.dumps({"prompt": PROMPT, "answer": ANSWER}) + "\n")
    what = (PROMPT, ANSWER) if command == "verify" else (source, "-o", out)
    shown = run(command, *what, "--model", model, "--scorer", "verifier", "--fitted", fitted)
    assert shown.code == int(bool(sentence))
    assert sentence in shown.err
    assert "Traceback" not in shown.err


def test_another_task_and_flags_of_another_scorer_are_refused(
    run: Run, fails: Fails, fitted: Path, model: str, tmp_path: Path
) -> None:
    words = ("verify", PROMPT, ANSWER, "--model", model)
    mine = (*words, "--scorer", "verifier", "--fitted", fitted)
    said = fails(1, *mine, "--kind", "choice")
    assert said.startswith("The verifier was fitted on kind wordmath, got choice. ")
    assert run(*mine, "--kind", "number").code == 0
    said = fails(2, *words, "--fitted", fitted)
    assert said.startswith("--fitted belongs to --scorer verifier, not to roundtrips")
    said = fails(2, *words, "--scorer", "probe", "--max-forwards", "3")
    assert said.startswith("--max-forwards belongs to --scorer verifier, not to probe")
    said = fails(2, *mine, "--certificate", fitted)
    assert said.startswith("--certificate is of the whole label-free verifier: leave --fitted out")
    said = fails(2, *words, "--scorer", "verifier", "--max-forwards", "0")
    assert said.startswith("--max-forwards must be at least 1, got 0")
    said = fails(2, *words, "--scorer", "verifier", "--trips", "2")
    assert said.startswith("--trips belongs to round trips, not to --scorer verifier")
    source = write(tmp_path / "records.jsonl", answers(5, 5))
    run("fit", source, "-o", tmp_path / "weights.json", "--columns", "verifier")
    said = fails(1, *words, "--scorer", "verifier", "--fitted", tmp_path / "weights.json")
    assert "is a file of kind 'weights', not 'staged verifier'" in said


def test_a_certificate_made_of_collected_probes_decides_for_the_verifier(
    run: Run, tmp_path: Path, model: str
) -> None:
    """The whole way: collect, certify, solve; labels and values are written over in between."""
    source, out = tmp_path / "records.jsonl", tmp_path / "certificate.json"
    drawn = ("--model", model, "--task", "wordmath", "--level", "easy", "--length", "16")
    drawn += ("--steps", "2", "--temperature", "1")
    collected = run(
        "collect", *drawn, "-o", source, "--problems", "2", "--scored", "0", "--metrics", "core",
        "--probes", ",".join(LABEL_FREE_PROBES), "--split", "validation",
    )  # fmt: skip
    assert collected.code == 0
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    many = [
        {**rows[k % 2], "id": f"{rows[k % 2]['id']}{k}", "right": True} for k in range(60)
    ]  # fmt: skip
    for each in many:
        changed = {n: -0.01 for n in each["features"] if n.endswith(("_mean", "_min"))}
        each["features"] = {**each["features"], **changed}
    source.write_text("".join(json.dumps(each) + "\n" for each in many))
    manifest = read_manifest(source)  # as if these records had been collected
    settings = {**manifest.settings, "problems": 60}
    replace(manifest, settings=settings, file=FileState.of(source, 60)).write(source)
    assert run("certify", source, "-o", out, "--scorer", "verifier").code == 0
    words = ("solve", *drawn, "--budget", "1", "--scorer", "verifier", "--certificate", out)
    told = json.loads(run(*words, "--json").out)
    assert told["threshold"] == Certificate.read(out).threshold
    assert (told["scorer"], told["accepted"]) == ("verifier", False)
    assert told["promise"].startswith("Among answers accepted above 0.9")
    assert {"generation", "critical", "stratified90x8"} <= set(told["metrics"]) <= set(LABEL_FREE)


def test_a_certificate_of_answers_written_here_is_void_for_one_at_hand(
    run: Run, fails: Fails, tmp_path: Path, model: str
) -> None:
    """Without the chances of its tokens an answer has another score, with certificates of its own.

    Of 60 right answers every probe says .9 and the generation .5: .8 as written, .9 at hand.
    """
    source = write(tmp_path / "records.jsonl", [row(k, 0.9, True) for k in range(60)], model)
    files = {name: tmp_path / f"{name}.json" for name in ("verifier", "verifier_at_hand")}
    for name, path in files.items():
        assert run("certify", source, "-o", path, "--scorer", name).code == 0
    assert Certificate.read(files["verifier"]).threshold < 0.8
    assert 0.8 <= Certificate.read(files["verifier_at_hand"]).threshold < 0.9
    words = ("verify", PROMPT, ANSWER, "--model", model, "--scorer", "verifier")
    told = json.loads(run(*words, "--certificate", files["verifier_at_hand"], "--json").out)
    assert (told["scorer"], told["accepted"]) == ("verifier_at_hand", False)
    for scored in (words, ("score", source, "-o", tmp_path / "out.jsonl", *words[3:])):
        error = fails(1, *scored, "--certificate", files["verifier"])
        assert "was fitted to scores of 'verifier', not of 'verifier_at_hand';" in error
    drawn = ("solve", PROMPT, "--model", model, "--scorer", "verifier", "--budget", "1")
    error = fails(1, *drawn, "--certificate", files["verifier_at_hand"])
    assert "was fitted to scores of 'verifier_at_hand', not of 'verifier';" in error


def test_a_fit_for_answers_at_hand_looks_at_nothing_that_only_the_writer_knows(
    run: Run, tmp_path: Path, model: str
) -> None:
    source, out = write(tmp_path / "fit.jsonl", answers(20, 20), model), tmp_path / "verifier.json"
    assert run("fit", source, "-o", out, "--scorer", "verifier_at_hand").code == 0
    staged = StagedVerifier.read(out)
    names = {name for stage in staged.stages for name in stage.regression.names}
    assert names
    assert not any(name.startswith("generation") for name in names)
    words = ("verify", PROMPT, ANSWER, "--model", model, "--scorer", "verifier", "--fitted", out)
    assert json.loads(run(*words, "--json").out)["threshold"] == staged.threshold


def test_no_threshold_of_the_preset_serves_for_fewer_probes_or_a_fit_without_one(
    run: Run, fails: Fails, fitted: Path, tmp_path: Path
) -> None:
    """The embedded model's are of the whole label-free verifier."""
    document = json.loads(fitted.read_text()) | {"threshold": None}
    document["provenance"]["model"] = "tiny"
    open_fit = tmp_path / "open.json"
    open_fit.write_text(json.dumps(document))
    words = ("--model", "tiny", "--scorer", "verifier")
    few = write(tmp_path / "few.jsonl", answers(20, 4))
    assert run("fit", few, "-o", tmp_path / "few.json", "--scorer", "verifier").code == 0
    for flags, cause in (
        (("--max-forwards", "1"), "max_forwards all, got 1"),
        (("--fitted", open_fit), "the fitted verifier has none: the best one by F1 accepts every"),
        (("--fitted", tmp_path / "few.json"), "has none: 20 right and 4 wrong answers "),
    ):
        told = json.loads(run("verify", PROMPT, ANSWER, *words, *flags, "--json").out)
        assert (told["threshold"], told["trusted"], told["verdict"]) == (None, None, "unknown")
        error = fails(1, "solve", PROMPT, *words, *flags)
        assert cause in error
        assert error.startswith(NO_THRESHOLD)
        assert "--columns" not in error, "which is of the whole label-free verifier"
