"""The scripts of benchmarks/ find one another beside themselves; so do their tests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "benchmarks"
sys.path.insert(0, str(SCRIPTS))

# Where a GPU is there may be few packages: None makes the import of the others fail.
CHILD = f"""
import runpy, sys
absent = "rapidfuzz sentence_transformers typer sklearn scipy pyarrow rich pydantic".split()
sys.modules.update(dict.fromkeys(absent))
sys.path.insert(0, {str(SCRIPTS)!r})
runpy.run_path({str(SCRIPTS)!r} + "/" + sys.argv.pop(1), run_name="__main__")
"""

Run = Callable[[str, Sequence[str]], dict[str, Any]]


@pytest.fixture(scope="session")
def run_script(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that runs a script as it would run beside a GPU, without one."""

    def run(script: str, words: Sequence[str]) -> dict[str, Any]:
        out = tmp_path_factory.mktemp("bench") / "new" / "toy.json"
        done = subprocess.run(
            [sys.executable, "-c", CHILD, script, *words, "--out", str(out)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # threads of a busy machine wait
            capture_output=True, text=True, timeout=600, check=True,
        )  # fmt: skip
        assert "seconds_per_answer" in done.stdout
        assert [path.name for path in out.parent.iterdir()] == ["toy.json"], "nothing is left over"
        found: dict[str, Any] = json.loads(out.read_text())
        return found | {"said": done.stderr}

    return run
