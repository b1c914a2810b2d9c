"""The gradient of two processes, by the command that the documentation names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sharding


@pytest.mark.full
def test_two_processes_have_the_gradient_of_one(tmp_path: Path) -> None:
    words = [sys.executable, sharding.__file__, str(tmp_path / "found.json")]
    subprocess.run(words, check=True, timeout=600)
    found = json.loads((tmp_path / "found.json").read_text())
    names = {f"{name}, update {update}" for name in sharding.CASES for update in (1, 2)}
    assert found["cases"].keys() == names
    assert all(case["largest"] > 1e-3 for case in found["cases"].values())
    assert found["largest"] <= 1e-5
