"""`remask collect` on public benchmarks, and `solve` and `verify` on their problems."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remask.collect.collect import collect, prepare
from remask.collect.settings import CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.load import load
from remask.sampling.settings import sampler_settings

Run = Callable[..., Any]
Fails = Callable[..., str]
GSM8K = [
    {"question": "Two and two?", "answer": "It is 2 + 2 = <<2+2=4>>4.\n#### 4"},
    {"question": "A thousand and one?", "answer": "Simple.\n#### 1,001"},
    {"question": "Ten less one?", "answer": "10 - 1 = 9\n#### 9"},
]
MBPP = [
    {"task_id": number, "text": "Write a function to add one.", "test_setup_code": "",
     "code": "def inc(x):\n    return x + 1", "test_list": ["assert inc(1) == 2"]}
    for number in (11, 12)
]  # fmt: skip


@pytest.fixture
def short(model: str) -> tuple[str, ...]:
    """The random model, two steps to write 16 tokens and short round trips."""
    return (
        "--model", model, "--metrics", "core", "--trips", "1", "--rebuild-steps", "1",
        "--steps", "2", "--length", "16",
    )  # fmt: skip


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_fewer_problems_than_there_are_change_nothing_and_all_are_counted(
    run: Run, short: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    words = ("collect", "-o", out, "--task", "wordmath", *short, "--samples", "2", "--json")
    run(*words, "--problems", "3")
    before = out.read_bytes()
    shown = run(*words, "--problems", "1")
    assert json.loads(shown.out) == {"out": str(out), "problems": 3, "rows": 6, "errors": 0}
    assert out.read_bytes() == before
    assert "6/2" not in shown.err


def test_the_command_writes_the_records_and_the_manifest_of_the_api(
    run: Run, short: tuple[str, ...], model: str, tmp_path: Path
) -> None:
    data = write_rows(tmp_path / "test.jsonl", GSM8K)
    words = ("--task", "gsm8k", "--data", data, "--wording", "dream", "--problems", "3")
    out, own = tmp_path / "out.jsonl", tmp_path / "own.jsonl"
    shown = run("collect", "-o", out, *words, *short, "--samples", "2", "--json")
    assert json.loads(shown.out) == {"out": str(out), "problems": 3, "rows": 6, "errors": 0}
    asked = CollectSettings(
        task="gsm8k", data=data, wording="dream", problems=3, samples=2, metrics="core",
        tokens=1024, consistency=ConsistencySettings(trips=1, rebuild_steps=1),
    )  # fmt: skip
    denoiser = load(model)
    usual = sampler_settings(
        denoiser, kind=asked.task, canvas=prepare(asked).task.canvas_length("all")
    )
    assert usual.length == 256, "of the official evaluation"
    asked = replace(asked, sampler=replace(usual, length=16, steps=2, block=16))
    collect(denoiser, asked, own)
    assert out.read_bytes() == own.read_bytes()
    ours, theirs = (json.loads(Path(f"{path}.manifest.json").read_text()) for path in (out, own))
    for name in ("asked", "dataset", "model"):
        assert ours[name] == theirs[name]
    row = json.loads(out.read_text().splitlines()[0])
    assert row["prompt"] == "Q: Two and two?\nA:"
    assert row["process_ok"] is None


def test_code_is_run_where_that_is_allowed(
    run: Run, short: tuple[str, ...], tmp_path: Path
) -> None:
    data = write_rows(tmp_path / "mbpp.jsonl", MBPP)
    out = tmp_path / "out.jsonl"
    words = ("--task", "mbpp", "--data", data, "--problems", "1", "--allow-execution")
    assert run("collect", "-o", out, *words, *short).code == 0
    (row,) = map(json.loads, out.read_text().splitlines())
    assert (row["right"], row["method"]) == (False, "tests")
    assert json.loads(Path(f"{out}.manifest.json").read_text())["asked"]["allow_execution"] is True


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("gsm8k", "--data", "missing.jsonl"), 1, "missing.jsonl does not exist; give a file"),
        (("gsm8k", "--data", "gsm8k.jsonl", "--problems", "4"), 1, "gsm8k has 3 problems of split"),
        (("gsm8k", "--data", "broken.jsonl", "--problems", "2"), 1, "broken.jsonl line 2 lacks"),
        (("gsm8k", "--data", "broken.jsonl", "--split", "train"), 1, "holds the split 'test'"),
        (("mbpp", "--data", "mbpp.jsonl", "--problems", "1"), 1, "--allow-execution"),
        (("wordmath", "--data", "gsm8k.jsonl"), 1, "task 'wordmath' is generated and reads no"),
        (("gsm8k", "--wording", "qwen"), 1, "Unknown wording of gsm8k 'qwen'"),
        (("chess",), 1, "Unknown task 'chess'. Known: wordmath"),
    ],
)
def test_what_cannot_work_is_said_before_a_model_is_loaded(
    fails: Fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], code: int, sentence: str,
) -> None:  # fmt: skip
    """There is no such model, and still it is the other mistake that is told."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "gsm8k.jsonl", GSM8K)
    write_rows(tmp_path / "broken.jsonl", [GSM8K[0], {"question": "Why?"}])
    write_rows(tmp_path / "mbpp.jsonl", MBPP)
    before = sorted(tmp_path.iterdir())
    assert sentence in fails(code, "collect", "-o", "new/out.jsonl", "-m", "nope", "--task", *words)
    assert sorted(tmp_path.iterdir()) == before


def test_other_rows_do_not_continue_a_file(
    run: Run, fails: Fails, short: tuple[str, ...], tmp_path: Path
) -> None:
    data, out = write_rows(tmp_path / "test.jsonl", GSM8K), tmp_path / "out.jsonl"
    words = ("collect", "-o", out, "--task", "gsm8k", "--data", data, *short, "--problems")
    assert run(*words, "1").code == 0
    before = out.read_bytes()
    write_rows(data, GSM8K[:2])
    assert "sha256 of the data was " in fails(1, *words, "2")
    assert out.read_bytes() == before


def test_a_problem_of_a_benchmark_is_solved_and_verified(
    run: Run, fails: Fails, model: str, tmp_path: Path
) -> None:
    data = write_rows(tmp_path / "rows.jsonl", GSM8K)
    trips = ("--metrics", "core", "--trips", "1", "--rebuild-steps", "1", "--model", model)
    words = ("--task", "gsm8k", "--data", data, "--seed", "2", *trips)
    shown = run("verify", *words, "--answer", "10 - 1 = 9. The answer is 9.", "--json")
    found = json.loads(shown.out)
    assert (found["id"], found["gold"]) == ("gsm8k/all/test/0/2", "9")
    assert (found["right"], found["process_ok"]) == (True, None)
    assert found["settings"]["kind"] == "gsm8k"
    shown = run("verify", *words, "--answer", "It is 9").out
    assert "(right)" in shown, "nothing is known of its steps"
    shown = run("solve", *words, "--budget", "1", "--length", "16", "--threshold", "0.75", "--json")
    assert json.loads(shown.out)["gold"] == "9"
    assert "index 7 is not one of 0 to 2" in fails(
        1, "verify", *words, "--seed", "7", "--answer", "9"
    )


def test_answers_of_ones_own_are_read_as_a_benchmark_reads_them(run: Run, model: str) -> None:
    words = ("--metrics", "core", "--trips", "1", "--rebuild-steps", "1", "--model", model)
    shown = run("verify", "Half?", r"So \boxed{\frac{1}{2}}.", "--kind", "math", *words, "--json")
    assert json.loads(shown.out)["extracted"] is not None


def test_a_problem_that_cannot_be_asked_is_told_counted_and_tried_again(
    run: Run, short: tuple[str, ...], tmp_path: Path
) -> None:
    long = {"question": "Why? " * 9000, "answer": "So.\n#### 1"}
    data, out = (
        write_rows(tmp_path / "test.jsonl", [GSM8K[0], long, GSM8K[2]]),
        tmp_path / "o.jsonl",
    )
    words = ("collect", "-o", out, "--task", "gsm8k", "--data", data, "--problems", "3", *short)
    shown = run(*words)
    assert shown.code == 0
    assert "3 problems, 2 answers, 1 error (--retry-errors asks again)" in shown.out
    assert "gsm8k/all/test/0/1 cannot be asked: the prompt has" in shown.err
    before = out.read_bytes()
    shown = run(*words, "--retry-errors", "--json")
    assert json.loads(shown.out) == {"out": str(out), "problems": 3, "rows": 3, "errors": 1}
    assert out.read_bytes() == before
    shown = run("study", "diagnosis", out)
    assert "2, 1 error" in shown.out
    assert run("report", out, "-o", tmp_path / "page.html").code == 0


def test_every_baseline_goes_through_records_study_report_and_fit(
    run: Run, short: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    names = "confidence,agreement,vote,self_evaluation,editor"
    words = ("--task", "wordmath", "--problems", "4", "--samples", "2", "--baselines", names)
    shown = run("collect", "-o", out, *words, *short, "--temperature", "1")
    assert shown.code == 0
    assert "was not trained to edit; editor may tell of copying alone." in shown.err
    assert set(json.loads(out.read_text().splitlines()[0])["baselines"]) == {
        "self_evaluation", "editor",
    }  # fmt: skip
    told = json.loads(run("study", "diagnosis", out, "--json").out)
    (ranking,) = (table for table in told["tables"] if table["name"].startswith("ranking"))
    assert {"self-evaluation", "editor's agreement"} <= {row[0] for row in ranking["rows"]}
    page = tmp_path / "page.html"
    assert run("report", out, "-o", page).code == 0
    assert "self_evaluation" in page.read_text()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--scored", "5"), 1, "scored must be at most the number of samples (1), got 5"),
        (("--baselines", "confidence,votes"), 1, "Unknown baseline 'votes'"),
        (("--baselines", "vote"), 2, "--baselines vote compares samples; add --samples"),
    ],
)
def test_flags_that_would_do_nothing_are_refused(
    fails: Fails, tmp_path: Path, words: tuple[str, ...], code: int, sentence: str
) -> None:
    out = tmp_path / "out.jsonl"
    assert sentence in fails(code, "collect", "-o", out, "-m", "nope", "--task", "wordmath", *words)
    assert not out.exists()


def test_another_run_is_replaced_only_by_force(
    run: Run, fails: Fails, short: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    words = ("collect", "-o", out, "--task", "wordmath", "--problems", "1", *short)
    assert run(*words).code == 0
    assert "seed was 0, got 1" in fails(1, *words, "--seed", "1")
    assert run(*words, "--seed", "1", "--force").code == 0
    assert json.loads(out.read_text())["id"].split("/")[3] == "1"
