"""Command lines with a wrong value, drawn from a grammar: every command, option and bad value.

Each ends in one short line on standard error that quotes the value, with exit code 2. What a
command does with values that an option accepts is tested elsewhere.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from remask.cli.app import COMMANDS, LazyCommands

Fails = Callable[..., str]
BAD = {
    "int": ("", "abc", "1.5", "1e3", "nan", "1,2", "0x10", "9" * 310, "9" * 5000, "-" + "9" * 310),
    "float": ("", "abc", "1,2", "0x10", "1.2.3"),
    "path": ("",),
    "": ("", "abc", "0", "9" * 310),  # a choice
}
MAKE = LazyCommands.__getitem__
LONGEST = 420  # characters of a line, with a value cut after 80


@cache
def command(name: str) -> Any:
    return MAKE(LazyCommands(), name)


def lines(name: str) -> Iterator[tuple[str, str]]:
    """Yield every option of a command that is read as a number, a choice or a path."""
    for option in command(name).params:
        kind = str(option.metavar or "").strip("<>")
        kind = "" if "|" in kind else kind
        for value in BAD.get(kind, ()) if option.metavar and not option.multiple else ():
            yield option.opts[0], value


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_value_is_quoted_in_one_short_line(
    name: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LazyCommands, "__getitem__", lambda _, name: command(name))
    wrong = []
    for option, value in lines(name):
        said = fails(2, name, option, value)
        quoted = f"got {value[:60] or repr('')}" in said.replace("'", "") or "got ''" in said
        if not (said.startswith(f"{option} must be ") and quoted and len(said) < LONGEST):
            wrong.append((option, value[:20], said[:200]))
    assert wrong == []


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_is_quoted(
    name: str, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LazyCommands, "__getitem__", lambda _, name: command(name))
    for option in ("--nonsense", "--" + "x" * 1000, "--no-such=1"):
        said = fails(2, name, option)
        assert f"Unknown option {option.partition('=')[0][:80]}" in said
    for option in [option for option in command(name).params if option.opts[0] == "--model"]:
        assert "Did you mean --model?" in fails(2, name, f"{option.opts[0][:-1]}e1", "tiny")


def test_the_grammar_has_many_lines() -> None:
    assert sum(1 for name in COMMANDS for _ in lines(name)) > 900
