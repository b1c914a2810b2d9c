"""`collect`, `train`, `demo`, `models` and `doctor`."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from remask import api
from remask.cli import doctor
from remask.denoisers import catalog

Run = Callable[..., Any]
Fails = Callable[..., str]
Fast = tuple[str, ...]


def test_collect_writes_one_record_per_sample_and_continues(
    run: Run, model: str, tmp_path: Path
) -> None:
    out = tmp_path / "records.jsonl"
    words = (
        "collect", "--model", model, "--task", "wordmath", "-o", out, "--metrics", "core",
        "--trips", "1", "--rebuild-steps", "1", "--steps", "1", "--samples", "2",
    )  # fmt: skip
    assert json.loads(run(*words, "--problems", "1", "--json").out)["rows"] == 2
    shown = run(*words, "--problems", "2")
    assert "2 problems, 4 answers" in shown.out
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"][-1], row["number"]) for row in found] == [
        ("0", 0), ("0", 1), ("1", 0), ("1", 1),
    ]  # fmt: skip
    assert ["stderr" in row for row in found] == [True, False, True, False]


def test_demo_is_handed_its_options_and_gives_its_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    handed: dict[str, Any] = {}

    def pretend(**options: Any) -> int:
        handed.update(options)
        return 3

    fake = ModuleType("remask.cli.demonstration")
    fake.run = pretend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "remask.cli.demonstration", fake)
    assert run("demo", "-o", tmp_path, "--problems", "8", "--json").code == 3
    assert handed == {
        "out": tmp_path, "problems": 8, "samples": 3, "seed": 0, "device": "auto",
        "split": "replicas", "as_json": True,
    }  # fmt: skip


def test_models_lists_what_loads_by_name(run: Run) -> None:
    found = {row["model"]: row for row in json.loads(run("models", "--json").out)}
    assert list(found) == ["tiny", *(checkpoint.id for checkpoint in catalog.CHECKPOINTS)]
    assert found["GSAI-ML/LLaDA-1.5"]["bfloat16_gb"] == 16.0
    shown = run("models").out
    assert all(f"\n{name} " in shown for name in found)
    assert re.search(r" LLaDA {12}8,015.6 M    16.0 GB   19.8 GB        6\n", shown)


def test_models_with_an_id_shows_the_presets_of_its_authors(run: Run, fails: Fails) -> None:
    found = json.loads(run("models", "GSAI-ML/LLaDA-1.5", "--json").out)
    assert [preset["task"] for preset in found["presets"]][:2] == ["GSM8K", "MATH"]
    assert found["presets"][0]["settings"]["block"] == 16
    shown = run("models", "GSAI-ML/LLaDA-1.5").out
    assert "\nfrom ML-GSAI/LLaDA, EVAL.md (OpenCompass)\n" in shown
    assert "  GSM8K                                 83.6 %  4 worked examples" in shown
    assert "ends_last=True" in shown
    none = run("models", "inclusionAI/LLaDA-MoE-7B-A1B-Base").out
    assert none.endswith("its authors publish no settings that we know of\n")
    told = fails(1, "models", "someone/else")
    assert told == ("Unknown model 'someone/else'. remask models lists them.")


def test_doctor_with_a_model_says_whether_it_fits(
    run: Run, fails: Fails, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(doctor, "free_memory", lambda device: 24_000_000_000)
    result = run("doctor", model, "--json")
    assert result.code == 0
    assert json.loads(result.out)["fits"] == "yes"
    assert run("doctor", model).out.endswith("\nit fits\n")
    too_large = run("doctor", "GSAI-ML/LLaDA-8B-Instruct")
    assert too_large.code == 0, "a diagnosis is no failure"
    assert "  weights in float32              32.1 GB\n" in too_large.out
    assert "  free on cpu                     24.0 GB\n" in too_large.out
    assert "  in all, to verify one answer    32.9 GB\n" in too_large.out
    assert "\nit fits in 24.0 GB with --dtype bfloat16 (17.0 GB), " in too_large.out
    assert fails(1, "doctor", "nowhere").startswith(
        "model 'nowhere' is neither 'tiny', nor a folder"
    )


def test_doctor_says_what_is_there_and_what_to_install(run: Run) -> None:
    result = run("doctor", "--json")
    found = json.loads(result.out)
    assert result.code == 0
    assert found["packages"]["torch"]
    assert found["dtype"] in {"float32", "bfloat16"}
    for extra, state in found["extras"].items():
        line = f"pip install 'remask[{extra}]'" if state["missing"] else None
        assert state["install"] == line
    shown = run("doctor").out
    assert f"torch                   {found['packages']['torch']}" in shown
    assert f"device auto is {found['device']}, dtype auto is {found['dtype']}" in shown


@pytest.mark.parametrize(
    "words", [["models"], ["models", "GSAI-ML/LLaDA-1.5"], ["doctor", "--no-device"]]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_needs_no_device_loads_no_torch(words: list[str], as_json: bool) -> None:
    """In a process of its own: here torch is loaded already."""
    words = ["remask", *words, *(["--json"] if as_json else [])]
    script = (
        f"import sys\nfrom remask.cli import main\nsys.argv = {words!r}\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code\n"
        "heavy = {'torch', 'transformers', 'scipy', 'sklearn', 'tokenizers'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_whether_a_model_fits_is_asked_of_a_device(fails: Fails) -> None:
    assert "leave --no-device out" in fails(2, "doctor", "tiny", "--no-device")


def test_nothing_but_json_is_printed_beside_progress(
    run: Run, fast: Fast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A terminal gets spinners and bars; they belong on standard error."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    source = tmp_path / "in.jsonl"
    source.write_text('{"prompt": "a", "answer": "1"}\n')
    result = run("score", source, "-o", tmp_path / "out.jsonl", *fast, "--json")
    assert json.loads(result.out)["rows"] == 1
    assert "scoring" in result.err
    assert api.item_of("a").startswith("prompt/")
