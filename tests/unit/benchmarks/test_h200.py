"""The driver: one failure does not stop the rest, and figures come from the right rows."""

import json
from pathlib import Path
from typing import Any

import h200
import pytest

ABOUT = {"command": "python benchmarks/verify.py", "hardware": "one H200", "matmul_tflops": 788.0}
FIELDS = {"value", "n", "unit", "run"}


def verified(answers: int, seconds: list[float], **more: Any) -> dict[str, Any]:
    each = sum(seconds) / len(seconds) / answers
    return {
        "loop": "ours", "compiled": True, "answers": answers, "seconds": seconds,
        "seconds_per_answer": each, "ratio": 0.9 / each, "peak_share": 0.7,
        "peak_memory_gb": 40.0, **more,
    }  # fmt: skip


def written(rows: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "loop": "ours", "compiled": True, "rows": rows, "seconds": seconds, "timed_steps": 64,
        "canvas": 456, "tokens_per_second": rows * 64 * len(seconds) / sum(seconds),
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    public = verified(1, [0.9], loop="public")
    reports = {
        "verify-llada8b": [public, verified(1, [0.5]), verified(8, [6.0, 5.6]), verified(32, [22])],
        "generate-llada8b": [written(1, [1.0]), written(8, [4.0, 5.0, 4.4])],
        "verify-dream7b": [public, verified(1, [0.5])],
    }
    for name, rows in reports.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(ABOUT | {"results": rows}))
    return tmp_path


def test_figures_are_those_of_the_fastest_batch_of_eight_or_more(folder: Path) -> None:
    """22 s / 32 = 0.6875 s beats 5.8 s / 8; the single answer, faster still, does not count."""
    found = dict(h200.figures(folder, "llada8b"))
    seconds = found["h200/llada8b/verify_seconds"]
    assert seconds["value"] == 22 / 32
    assert (seconds["low"], seconds["high"], seconds["n"]) == (None, None, 32)
    assert seconds["unit"] == "s per answer, 32 answers at once, compiled"
    assert found["h200/llada8b/verify_ratio"]["value"] == pytest.approx(0.9 / 0.6875)
    assert found["h200/llada8b/peak_share"]["value"] == 0.7
    assert "788 TFLOP/s" in found["h200/llada8b/peak_share"]["unit"]
    assert found["h200/llada8b/memory_gb"]["value"] == 40.0


def test_probes_have_figures_where_they_were_measured(folder: Path) -> None:
    """Of 8 answers at once, 0.16 s and 2.4 s; the single answer does not count."""
    rows = [verified(8, [6.0]), verified(1, [0.01], loop="probe")]
    rows += [verified(8, [0.16], loop="probe"), verified(8, [2.4], loop="verifier")]
    (folder / "probe-lladamoe.json").write_text(json.dumps(ABOUT | {"results": rows}))
    found = dict(h200.figures(folder, "lladamoe"))
    assert found["h200/lladamoe/probe_seconds"]["value"] == 0.02
    assert found["h200/lladamoe/verifier_seconds"]["value"] == pytest.approx(0.3)
    assert found["h200/lladamoe/roundtrips_seconds"]["value"] == 0.75, "in the same run"
    assert not [name for name, _ in h200.figures(folder, "llada8b") if "probe" in name]


def test_repetitions_give_the_middle_the_least_and_the_most(folder: Path) -> None:
    """8 rows x 64 steps in 4, 5 and 4.4 s: 128, 102.4 and 116.4 tokens/s."""
    figure = dict(h200.figures(folder, "llada8b"))["h200/llada8b/generate_tokens_per_s"]
    assert figure["value"] == pytest.approx(512 / 4.4)
    assert (figure["low"], figure["high"], figure["n"]) == (pytest.approx(102.4), 128.0, 8)


def test_what_was_not_measured_gives_no_figure(folder: Path) -> None:
    assert list(h200.figures(folder, "dream7b")) == []
    assert list(h200.figures(folder, "lladamoe")) == []


def test_figures_are_merged_complete_into_those_of_others(folder: Path) -> None:
    path = folder / "figures.json"
    other = {"value": 1, "unit": "x", "run": "c"}
    run = {"command": "do", "commit": "0", "hardware": "none"}
    old = {"version": 3, "runs": {"c": run}, "figures": {"a/b": other}}
    path.write_text(json.dumps(old))
    words = ["figures", str(folder), "--commit", "0123abc", "--figures", str(path)]
    assert h200.main(words) == 0
    document = json.loads(path.read_text())
    found = document["figures"]
    assert found.pop("a/b") == other
    assert len(found) == 5
    for figure in found.values():
        assert set(figure) >= FIELDS
        about = document["runs"][figure["run"]]
        assert (about["commit"], about["hardware"]) == ("0123abc", "one H200")
    keys = {"c", "verify-llada8b", "generate-llada8b"}
    assert set(document["runs"]) == {f["run"] for f in found.values()} | {"c"} == keys


def test_an_empty_folder_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    words = ["figures", str(tmp_path), "--commit", "0123abc", "--figures", str(path)]
    assert h200.main(words) == 1
    assert not path.exists()


def test_a_failure_does_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unknown shape is refused, the toy after it is measured."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    quick = ["--eager", "--answers", "1", "--repetitions", "1"]
    monkeypatch.setitem(h200.WORDS["verify"], "toy", quick)
    words = ["run", str(tmp_path / "out"), "--shapes", "none", "toy", "--scripts", "verify"]
    assert h200.main([*words, "--device", "cpu"]) == 1
    said = capfd.readouterr().out
    assert "=== verify none: FAILED (2)" in said
    assert "=== verify toy: done" in said
    assert said.endswith("failed: verify none\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["verify-toy.json"]


def test_a_script_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    words = ["run", str(tmp_path), "--shapes", "toy", "--scripts", "generate", "--seconds", "0.1"]
    assert h200.main([*words, "--device", "cpu"]) == 1


def test_every_shape_with_figures_is_one_that_the_scripts_know() -> None:
    from lib.shapes import SHAPES

    assert set(h200.SHAPES) == {"llada8b", "dream7b", "lladamoe", "llada21mini"}
    for words in h200.WORDS.values():
        assert set(words) == set(h200.SHAPES) <= set(SHAPES)
