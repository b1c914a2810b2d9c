"""`adapt`: what it says, what it leaves, and that it is the function it calls."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "pretrain"))

import ancestors

from remask.pretrain.adapt import adapt
from remask.pretrain.adapt_settings import AdaptSettings

Run = Callable[..., Any]
Fails = Callable[..., str]
SMALL = (
    "--canvas", "16", "--least-canvas", "8", "--longest", "96", "--tokens", "384", "--epochs", "2",
    "--eval-every", "2", "--log-every", "1", "--device", "cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a GGUF file and rows, one of them too long."""
    folder = tmp_path_factory.mktemp("adapt")
    ancestors.write_gguf(folder / "model.gguf", "llama")
    ancestors.write_rows(folder / "rows.jsonl")
    ancestors.write_rows(folder / "valid.jsonl", 6)
    with (folder / "rows.jsonl").open("a") as file:
        file.write(json.dumps({"prompt": "Go on.", "response": "and on " * 9}) + "\n")
    return folder


def test_a_run_is_told_line_by_line_and_in_json(run: Run, place: Path, tmp_path: Path) -> None:
    words = (place / "model.gguf", place / "rows.jsonl", "--valid", place / "valid.jsonl", *SMALL)
    shown = run("adapt", *words, "-o", tmp_path / "run", "--shard-megabytes", "0.02")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0] == f"24 rows of {place / 'rows.jsonl'}"
    assert lines[2].startswith("step 0/")
    assert "held-out loss" in lines[2]
    assert lines[3].startswith("step 1/")
    assert "tokens/s  pass 1  " in lines[3]
    assert lines[-1].endswith(f"written to {tmp_path / 'run' / 'model'}")
    assert "1 rows of " in shown.err
    assert "do not fit into a canvas of 16 or a row of 96" in shown.err
    assert "a tensor is larger than a shard of 0.02 MB" in shown.err
    assert (tmp_path / "run" / "curves.png").is_file()
    again = run("adapt", *words, "-o", tmp_path / "run", "--json").out.splitlines()
    rows = [json.loads(line) for line in again]
    assert rows[0]["dropped"] == 1
    assert "resumed" in rows[2]
    assert rows[-1]["model"] == str(tmp_path / "run" / "model")


def test_the_command_is_the_function(run: Run, place: Path, tmp_path: Path) -> None:
    words = (place / "model.gguf", place / "rows.jsonl", *SMALL, "--no-shifted", "--seed", "3")
    assert run("adapt", *words, "-o", tmp_path / "one", "--dtype", "float32").code == 0
    adapt(
        AdaptSettings(
            source=str(place / "model.gguf"), rows=(place / "rows.jsonl",), out=tmp_path / "two",
            canvas=16, least_canvas=8, longest=96, tokens=384, epochs=2, shifted=False, seed=3,
            dtype="float32", device="cpu",
        ),
        lambda row: None,
    )  # fmt: skip
    one, two = (tmp_path / name / "model" for name in ("one", "two"))
    for name in ("model.safetensors", "config.json", "generation_config.json", "tokenizer.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("rows.jsonl", "rows.jsonl"), "model 'rows.jsonl' is a file; name the folder"),
        (("nothing.gguf", "rows.jsonl"), "source nothing.gguf is no file"),
        (("model.gguf", "nothing.jsonl"), "rows nothing.jsonl is no file"),
        (("model.gguf", "empty.jsonl"), "rows empty.jsonl holds no rows"),
        (("model.gguf", "rows.jsonl", "--mask-token", "<eos>"), "mask_token '<eos>' is no special"),
        (("model.gguf", "rows.jsonl", "--canvas", "2", "--least-canvas", "1"), "rows are left out"),
        (("model.gguf", "rows.jsonl", "--out", "rows.jsonl"), "rows.jsonl is a file; name a folde"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    fails: Fails,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(place)
    (place / "empty.jsonl").write_text("\n")
    before = sorted(place.iterdir())
    out = () if "--out" in words else ("--out", "new")
    assert sentence in fails(1, "adapt", *words, *out, "--device", "cpu")
    assert sorted(place.iterdir()) == before


def test_a_number_beyond_its_bounds_is_a_mistake_in_usage(fails: Fails) -> None:
    words = ("adapt", "model.gguf", "rows.jsonl", "-o", "out")
    assert "--epochs must be at least 1, got 0" in fails(2, *words, "--epochs", "0")
    assert "--lr must be above 0, got 0" in fails(2, *words, "--lr", "0")
