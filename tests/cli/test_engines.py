"""Who does the work of a command: what is told, what is refused, and a clean standard output."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remask.cli.engines import backend
from remask.cli.settings import EngineSettings, ModelSettings

Run = Callable[..., Any]


class Noisy:
    """A cluster that prints, as Ray does when a worker dies."""

    workers, precision, deaths = 2, "float32", 1

    def __init__(self, held: object, **_: object) -> None:
        pass

    def __enter__(self) -> "Noisy":
        sys.stdout.write("(raylet) a worker died")
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.write("(raylet) stopped")


def test_nothing_but_results_reaches_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("remask.collect.cluster.Cluster", Noisy)
    model = ModelSettings(model="tiny", device="cpu")
    with backend(EngineSettings(engine="ray", workers=2), model) as where:
        sys.stdout.write("(raylet) and another")
    sys.stdout.write("results\n")
    shown = capsys.readouterr()
    assert shown.out == "results\n"
    assert "remask: workers died and were replaced, 1 in all.\n" in shown.err
    assert where.precision == "float32"


@pytest.mark.parametrize("flags", [("--workers", "2"), ("--address", "127.0.0.1:1")])
def test_a_cluster_described_but_not_asked_for_is_a_usage_error(
    run: Run, model: str, tmp_path: Path, flags: tuple[str, str]
) -> None:
    found = run("collect", "-m", model, "--task", "choice", "-o", tmp_path / "o.jsonl", *flags)
    assert found.code == 2
    assert f"{flags[0]} says where a Ray cluster is or how large; add --engine ray" in found.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["collect", "score"])
def test_a_missing_ray_is_one_sentence_that_names_the_extra(
    run: Run, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "in.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
    what = ["--task", "choice"] if command == "collect" else [tmp_path / "in.jsonl"]
    out = tmp_path / "out.jsonl"
    found = run(command, "-m", model, *what, "-o", out, "--metrics", "core", "--engine", "ray")
    assert (found.code, found.out) == (1, "")
    sentence = "remask: ray is not installed; pip install 'remask[ray]', or use --engine local.\n"
    assert found.err.endswith(sentence)
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
