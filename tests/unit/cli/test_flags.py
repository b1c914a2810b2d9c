"""A command's flags are the fields of its settings: names, types, defaults, help and bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import pytest
import typer

from remask import api
from remask.cli.flags import FlagsOf, UsageError, with_flags
from remask.cli.settings import JudgeSettings
from remask.settings import Setting


@dataclass(frozen=True, kw_only=True)
class Example:
    """Settings of every kind."""

    out: Annotated[Path, Setting("Where to.", short="-o")]
    num_trips: Annotated[int, Setting("How many.", least=1, most=10)] = 4
    ratio: Annotated[float | Literal["uniform"], Setting("Share.")] = 0.9
    kind: Annotated[Literal["plain", "fancy"], Setting("Which.")] = "plain"
    names: Annotated[tuple[str, ...], Setting("Names.")] = ("a",)
    mix: Annotated[Mapping[str, float], Setting("Shares.")] = field(default_factory=dict)
    quick: Annotated[bool, Setting("Hurry.")] = False
    inner: int = 3  # no help line, no flag


def call(function: Any, *words: str) -> Any:
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command()(with_flags(function))
    return typer.main.get_command(single).main([*words], standalone_mode=False)


def whole(*, settings: Example, seed: Annotated[int, Setting("Seed.")] = 0) -> Any:
    return settings, seed


def test_flags_become_the_settings() -> None:
    made, seed = call(whole, "-o", "x", "--num-trips", "2", "--ratio", "uniform", "--seed", "7",
                      "--names", "b, c", "--mix", "u=0.5,v=1", "--quick")  # fmt: skip
    assert made == Example(
        out=Path("x"), num_trips=2, ratio="uniform", names=("b", "c"), mix={"u": 0.5, "v": 1.0},
        quick=True,
    )  # fmt: skip
    assert seed == 7


def test_what_is_left_out_is_the_default_of_the_class() -> None:
    assert call(whole, "--out", "x") == (Example(out=Path("x")), 0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--num-trips", "11"), "--num-trips must be at most 10, got 11"),
        (("--num-trips", "0"), "--num-trips must be at least 1, got 0"),
        (("--ratio", "most"), "--ratio must be a number or uniform, got 'most'"),
        (("--mix", "u"), "--mix must be shares such as wordmath=0.4,choice=0.6, got 'u'"),
        (("--kind", "odd"), "--kind"),
        (("--inner", "4"), "No such option: --inner"),
    ],
)
def test_a_mistake_names_the_flag(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(whole, "--out", "x", *words)
    assert sentence in caught.value.format_message()


def test_overrides_hold_what_was_given_and_say_what_decides_otherwise() -> None:
    def command(
        *, given: Annotated[dict[str, Any], FlagsOf(kind=Example, overrides="the preset")]
    ) -> Any:
        return given

    assert call(command) == {}
    assert call(command, "--num-trips", "2") == {"num_trips": 2}
    single = typer.Typer(add_completion=False)
    single.command()(with_flags(command))
    flags: Any = typer.main.get_command(single)
    assert {p.name: p.help for p in flags.params}["num_trips"] == "How many; the preset by default."


def test_a_command_may_have_some_of_the_flags_and_other_defaults() -> None:
    def command(
        *,
        some: Annotated[
            dict[str, Any], FlagsOf(kind=Example, only=("num_trips",), defaults={"num_trips": 5})
        ],
    ) -> Any:
        return some

    assert call(command) == {"num_trips": 5}


def test_the_help_of_the_scorer_names_every_one() -> None:
    kind = get_type_hints(JudgeSettings, include_extras=True)["scorer"]
    named = kind.__metadata__[0].help
    assert [name for name in api.SCORERS if f"{name}," not in named] == []
