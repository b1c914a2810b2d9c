"""Modules, functions and files that a page names are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "remask"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "LOG.md"),  # history
]
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SRC.rglob("*.py")
}
SPAN = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"(?<![\w./-])(?:remask\.)?([a-z_]+(?:\.[A-Za-z_]\w*)+)(?![\w/])")
FILE = re.compile(r"(?<![\w/])((?:src|tests|unit|benchmarks|studies)/[\w/.-]+\.py)")
SUFFIXES = (".json", ".jsonl", ".yaml", ".py", ".md")


def words_in(path: Path) -> set[str]:
    """Return every name that a module binds, imports or asks for."""
    return set(re.findall(r"\w+", ast.unparse(ast.parse(path.read_text()))))


def is_there(dotted: str) -> bool:
    """Say whether a module has what follows its name."""
    parts = dotted.split(".")
    known = next(k for k in range(len(parts), 0, -1) if ".".join(parts[:k]) in MODULES)
    return known == len(parts) or parts[known] in words_in(MODULES[".".join(parts[:known])])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    spans = SPAN.findall(page.read_text())
    names = {name for span in spans for name in DOTTED.findall(span)}
    ours = [n for n in names if n.split(".")[0] in MODULES and not n.endswith(SUFFIXES)]
    assert [name for name in sorted(ours) if not is_there(name)] == []
    files = {name for span in spans for name in FILE.findall(span)}
    places = (ROOT, ROOT / "tests")
    assert [f for f in sorted(files) if not any((place / f).exists() for place in places)] == []
