"""The embedded model's answers, scores and figures are those of the golden files.

The files were written before the code was rearranged (tests/golden/README.md has the commands).
Texts, grades and counts must be the same; scores may differ in their last digits, where another
processor adds in another order. What was changed on purpose is in `CHANGED`, and in CHANGELOG.md.
"""

import gzip
import json
import math
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]  # see conftest.py
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
QUICK = ("cost", "scaling")
STUDIES = ("diagnosis", "correction", "ablation", "geometry", "spurious", "cost", "scaling")
_SIMPLEX = "five points in four directions are equally dense; their ranks were rounding noise"
CHANGED = {  # figure -> why it is different now
    f"geometry/{study}/{measure}": _SIMPLEX
    for study in (
        "wordmath", "countdown", "countdown-hard", "choice", "choice-hard", "pycode", "pycode-hard",
    )
    for measure in (
        "spearman", "spearman_null", "r2", "boundary", "chi2", "cramers_v", "sparse_zone",
        "sparse_zone_expected",
    )
}  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def assert_alike(ours: Any, golden: Any, where: str) -> None:
    """Compare two JSON values: numbers up to rounding, everything else exactly."""
    if isinstance(golden, dict):
        assert list(ours) == list(golden), where
        for key, value in golden.items():
            assert_alike(ours[key], value, f"{where}/{key}")
    elif isinstance(golden, list):
        assert len(ours) == len(golden), where
        for place, value in enumerate(golden):
            assert_alike(ours[place], value, f"{where}/{place}")
    elif isinstance(golden, float):
        assert math.isclose(ours, golden, rel_tol=1e-4, abs_tol=1e-5), (where, ours, golden)
    else:
        assert ours == golden, where


@pytest.mark.parametrize(
    ("task", "problems"),
    [
        ("wordmath", 4),
        ("choice", 4),
        pytest.param("wordmath", 16, marks=pytest.mark.full),
        pytest.param("choice", 16, marks=pytest.mark.full),
    ],
)
def test_the_same_records_are_collected(run: Run, tmp_path: Path, task: str, problems: int) -> None:
    out = tmp_path / "records.jsonl"
    words = (
        "collect", "-m", "tiny", "--task", task, "--level", "hard", "--problems", problems,
        "--samples", "1", "--scored", "1", "--steps", "24", "--trips", "2", "--metrics", "paper",
        "--seed", "0", "--device", "cpu", "-o", out,
    )  # fmt: skip
    assert run(*words).code == 0
    name = f"{task}-hard{'-4' if problems == 4 else ''}.jsonl"
    assert_alike(rows(out), rows(GOLDEN / "records" / name), name)


@pytest.mark.parametrize("task", ["wordmath", "choice"])
def test_the_same_scores_are_given(run: Run, tmp_path: Path, task: str) -> None:
    out = tmp_path / "scored.jsonl"
    words = (
        "score", GOLDEN / "scores" / f"{task}-input.jsonl", "-o", out, "-m", "tiny", "--kind", task,
        "--trips", "2", "--rebuild-steps", "8", "--metrics", "paper", "--seed", "0",
        "--device", "cpu",
    )  # fmt: skip
    assert run(*words).code == 0
    assert_alike(rows(out), rows(GOLDEN / "scores" / f"{task}-scored.jsonl"), task)


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of the scaled-down study."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / "core" / "records.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    (only,) = [path for path in folder.iterdir() if path.is_dir()]
    return only


def figures(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every figure in the tables of a study."""
    if isinstance(node, dict) and "figure" in node:
        yield node["figure"], {key: node[key] for key in ("value", "low", "high", "n", "unit")}
    elif isinstance(node, dict | list):
        for part in node.values() if isinstance(node, dict) else node:
            yield from figures(part)


@pytest.mark.parametrize(
    "study",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.full) for name in STUDIES if name not in QUICK),
    ],
)
def test_the_same_figures_are_measured(run: Run, records: Path, study: str) -> None:
    with gzip.open(GOLDEN / "core" / "studies" / f"{study}.json.gz", "rt") as file:
        golden = dict(figures(json.load(file)))
    result = run("study", study, records, "--json")
    assert result.code == 0, result.err
    ours = dict(figures(json.loads(result.out)))
    expected = {name: figure for name, figure in golden.items() if name not in CHANGED}
    assert expected.keys() <= ours.keys(), sorted(expected.keys() - ours.keys())
    for name, figure in expected.items():
        assert_alike(ours[name], figure, name)
