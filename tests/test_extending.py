"""docs/extending.md: every example is a short file that runs, and works as `module:name`."""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from remask import cli
from remask.denoisers import load as loader
from remask.testing import write_checkpoint

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SUM = '{"q": "What is 2 + 3?", "a": "5"}\n'  # what the example of a benchmark writes
COMMANDS = [
    line for block in re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of the page, records, and a small random model in place of the embedded one."""
    place = tmp_path_factory.mktemp("extending")
    write_checkpoint(place / "small", length=16, max_length=1024, dtype=torch.float32)
    for name, code in BLOCKS:
        (place / f"{name}.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "EMBEDDED", place / "small")
        patch.setattr(sys, "path", [*sys.path])
        patch.chdir(place)
        (place / "sums.jsonl").write_text(SUM)
        collect = next(line for line in COMMANDS if line.startswith("remask collect "))
        assert run(collect) == 0
        yield place
    for name, _ in BLOCKS:
        sys.modules.pop(name, None)


def run(line: str) -> int:
    """Call `remask` as the page does and return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as left:
            cli.main()
    return int(left.value.code or 0)


def test_every_kind_of_extension_has_an_example() -> None:
    sections = re.findall(r"^## (An? \w+)$", PAGE, re.MULTILINE)
    assert sections == [
        "A metric", "A task", "A benchmark", "A scorer", "A model", "A reward", "A study",
    ]  # fmt: skip
    assert len(BLOCKS) == len(sections)


@pytest.mark.parametrize(("name", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_an_example_is_short_and_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, code: str
) -> None:
    assert len(code.splitlines()) + 1 <= 25
    runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip(), "an example shows something"


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.usefixtures("folder")
def test_an_example_works_on_the_command_line(line: str) -> None:
    assert run(line) == 0
