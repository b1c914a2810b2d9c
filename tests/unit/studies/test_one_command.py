"""Everything by one command: each step is a program, and what is done is not done again."""

import subprocess
from pathlib import Path

import pytest

from remask.errors import InputError
from studies.language import __main__ as real_study
from studies.language import training


class _Steps:
    """Stands for the programs that are run: notes their words, and says how they end."""

    def __init__(self, ends: dict[str, int]) -> None:
        self.ends, self.begun = ends, list[list[str]]()

    def __call__(self, words: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        self.begun.append(words[2:])
        return subprocess.CompletedProcess(words, self.ends.get(words[3], 0))

    @property
    def names(self) -> list[str]:
        known = ("build", "train", "choose", "collect", "overlap", "near", "measure")
        return [next(word for word in line if word in known) for line in self.begun]


ALL = ["--parallel", "2", "--tokens", "512", "--minutes", "3.0", "--device", "cpu"]


def test_one_command_does_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a program of its own; the first that fails or leaves something is the last."""
    words = [
        "all",
        "llama.gguf",
        "data",
        str(tmp_path),
        *ALL,
        "--figures",
        "f.json",
        "--page",
        "p.md",
    ]
    words += ["--commit", "abc", "--hardware", "two cores"]
    rows, model = str(tmp_path / "rows"), str(tmp_path / "final" / "model")
    figures = ["--figures", "f.json", "--commit", "abc", "--hardware", "two cores"]
    steps = _Steps({})
    monkeypatch.setattr(real_study.subprocess, "run", steps)
    assert real_study.main(words) == 0
    assert steps.begun == [
        ["studies.language.text", *figures, "build", "data", rows],
        ["studies.language", "train", "llama.gguf", rows, str(tmp_path), *ALL[2:]],
        ["studies.language", "choose", model, "data", rows, str(tmp_path), "--parallel", "2"],
        ["studies.language", "collect", model, "data", str(tmp_path), "--parallel", "2", "--part",
         *real_study.PARTS],
        ["studies.language.text", *figures, "overlap", "data", f"{rows}/train.jsonl"],
        ["studies.language.text", "near", "data", f"{rows}/train.jsonl",
         str(tmp_path / "near.json")],
        ["studies.language", "measure", str(tmp_path), *figures, "--page", "p.md"],
    ]  # fmt: skip
    steps = _Steps({"train": real_study.LEFT})
    monkeypatch.setattr(real_study.subprocess, "run", steps)
    assert real_study.main(words) == real_study.LEFT
    assert steps.names == ["build", "train"]


def test_one_command_skips_what_is_done_and_nothing_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without a card are those of a build that was killed; commit and hardware are found."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "train.jsonl").write_text("")
    (tmp_path / "rows" / "valid.jsonl").write_text("")
    (tmp_path / "train.json").write_text('{"trials": {}}')
    words = ["all", "llama.gguf", "data", str(tmp_path)]
    monkeypatch.setattr(real_study, "commit", lambda: "1234567")
    monkeypatch.setattr(real_study, "hardware", lambda: "a machine")
    steps = _Steps({})
    monkeypatch.setattr(real_study.subprocess, "run", steps)
    assert real_study.main(words) == 0
    assert steps.names == ["build", "train", "choose", "collect", "overlap", "near", "measure"]
    assert {"1234567", "a machine"} <= set(steps.begun[-1])
    (tmp_path / "rows" / "card.md").write_text("")
    (tmp_path / "train.json").write_text('{"trials": {}, "final": {}}')
    (tmp_path / "choice.json").write_text("{}")
    steps.begun.clear()
    assert real_study.main(words) == 0
    assert steps.names == ["collect", "overlap", "near", "measure"]
    monkeypatch.setattr(real_study, "commit", lambda: "unknown")
    with pytest.raises(InputError, match="commit is not known outside a repository"):
        real_study.main(words)


def test_one_command_shares_its_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 seconds the build takes 40 and the training all but 5: too little for anything."""
    now = iter([40.0, 40.0, 95.0, 95.0])
    monkeypatch.setattr(training, "RESERVE", 10.0)
    monkeypatch.setattr(real_study.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(real_study, "STARTED", 0.0)
    steps = _Steps({})
    monkeypatch.setattr(real_study.subprocess, "run", steps)
    words = ["all", "llama.gguf", "data", str(tmp_path), "--commit", "a", "--hardware", "b"]
    assert real_study.main([*words, "--stop-after", "100"]) == real_study.LEFT
    assert steps.names == ["build", "train"]
    assert steps.begun[1][-2:] == ["--stop-after", "60.0"]
