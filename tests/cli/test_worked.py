"""`--shots`: worked examples in collecting, solving and verifying are those of the API."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remask import api
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.load import load
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.tasks import task as find_task

Run = Callable[..., Any]
Fails = Callable[..., str]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for split, start in (("train", 10), ("test", 50)):
        rows = [{"question": f"{n}?", "answer": f"So.\n#### {n}"} for n in range(start, start + 3)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{split}.jsonl").write_text(text)
    return tmp_path


@pytest.fixture
def asked(data: Path, fast: tuple[str, ...]) -> tuple[object, ...]:
    return (*fast, "--task", "gsm8k", "--data", data)


def test_verify_shows_the_examples_to_the_model(
    run: Run, asked: tuple[object, ...], data: Path, model: str
) -> None:
    words = ("verify", *asked, "--answer", "So. The answer is 50", "--json")
    denoiser, settings = load(model), ConsistencySettings(trips=2, rebuild_steps=2)
    problem = find_task("gsm8k", path=data, shots=2).problem(0)
    brought = api.sample_from_text(
        denoiser, problem.prompt, "So. The answer is 50", examples=problem.examples
    )
    score = api.score(denoiser, "", brought, kind="gsm8k", settings=settings, metrics="core")
    found = json.loads(run(*words, "--shots", "2").out)
    assert found["score"] == pytest.approx(score.value, abs=1e-6)
    assert json.loads(run(*words).out)["score"] != found["score"]


def test_solve_shows_them_too(run: Run, asked: tuple[object, ...], data: Path, model: str) -> None:
    words = (*asked, "--budget", "1", "--length", "16", "--steps", "2", "--json")
    words += ("--threshold", "0.75")
    shown = json.loads(run("solve", *words, "--shots", "1").out)
    denoiser = load(model)
    problem = find_task("gsm8k", path=data, shots=1).problem(0)
    rows = [denoiser.tokenizer.render(problem.prompt, problem.examples)]
    sampler = SamplerSettings(**shown["sampler"])
    (drawn,) = sample(denoiser, rows, sampler, items=[api.item_of(problem.prompt)], number=0)
    assert shown["answer"] == drawn.text
    assert json.loads(run("solve", *words).out)["answer"] != drawn.text


def test_collecting_records_the_examples_and_resumes_with_the_same_alone(
    run: Run, fails: Fails, asked: tuple[object, ...], data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "records.jsonl"
    words = ("collect", "-o", out, *asked, "--length", "16", "--steps", "2", "--shots", "2")
    assert run(*words, "--problems", "1").code == 0
    told = json.loads(Path(f"{out}.manifest.json").read_text())
    assert told["asked"]["shots"] == 2
    assert told["dataset"]["examples"].startswith("2 rows of the split train, in the order of")
    assert run(*words, "--problems", "2").code == 0
    assert len(out.read_text().splitlines()) == 2
    said = fails(1, *words, "--shots", "1", "--problems", "3")
    assert "shots was 2, got 1" in said
    train = data / "train.jsonl"
    train.write_text(train.read_text().replace("So.", "Then."))
    assert "examples of the data was" in fails(1, *words, "--problems", "3")


def test_examples_that_cannot_be_had_end_in_a_sentence(
    fails: Fails, asked: tuple[object, ...], fast: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "new" / "records.jsonl"
    said = fails(1, "collect", "-o", out, *asked, "--problems", "1", "--shots", "4")
    assert said.startswith("the split 'train' of gsm8k has rows for 3 worked examples, and 4 are")
    said = fails(1, "collect", "-o", out, *fast, "--task", "wordmath", "--shots", "1")
    assert said == "task 'wordmath' is asked without worked examples; leave shots out."
    assert not out.exists()
