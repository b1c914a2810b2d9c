"""The command line, called in this process, on a random model of one layer."""

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from remask import cli
from remask.testing import write_checkpoint


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a random LLaDA: bytes for tokens, canvas 16, context 1,024."""
    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    write_checkpoint(
        folder, layers=1, width=16, heads=2, inner=16, length=16, max_length=1024,
        dtype=torch.float32,
    )  # fmt: skip
    return str(folder)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call `remask` with these words; what comes back is its exit code and its two streams."""

    def call(*words: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["remask", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        shown = capsys.readouterr()
        return Result(int(left.value.code or 0), shown.out, shown.err)

    return call


@pytest.fixture
def fast(model: str) -> tuple[str, ...]:
    """Options that every scoring command shares here: the random model and short round trips."""
    return ("--model", model, "--metrics", "core", "--trips", "2", "--rebuild-steps", "2")


@pytest.fixture
def fails(run: Run) -> Callable[..., str]:
    """Call `remask`, make sure that it fails as a user's mistake should; return the sentence."""

    def call(code: int, *words: object, stdin: bytes = b"") -> str:
        result = run(*words, stdin=stdin)
        assert (result.code, result.out) == (code, ""), result
        (line,) = [line for line in result.err.splitlines() if line.startswith("remask: ")]
        assert result.err.endswith(line + "\n")
        assert "Traceback" not in result.err
        assert line.endswith((".", "?"))
        return line.removeprefix("remask: ")

    return call
