"""A setting is declared once; whoever gives another value gets one sentence with a remedy."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ValidationError

from remask.errors import SettingsError
from remask.settings import Setting, check, nearest, setting_fields, validate

Ratio = Annotated[float, Setting("A share.", least=0, below=1)]


@dataclass(frozen=True, kw_only=True)
class Example:
    """Settings of every kind."""

    out: Path
    count: Annotated[int, Setting("How many.", least=1, most=10_000)] = 4
    ratio: Ratio | None = None
    names: tuple[str, ...] = ("a", "b")
    design: Literal["plain", "fancy"] = "plain"
    quick: bool = False
    title: str = ""

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"count": 0}, "count must be at least 1, got 0."),
        ({"count": 10_001}, "count must be at most 10,000, got 10001."),
        ({"count": 1.5}, "count must be an integer at least 1 and at most 10,000, got 1.5."),
        (
            {"count": True},
            "count must be an integer at least 1 and at most 10,000, got True.",
        ),
        ({"ratio": 1.0}, "ratio must be below 1, got 1.0."),
        ({"ratio": float("nan")}, "ratio must be a number at least 0 and below 1, got nan."),
        ({"design": "odd"}, "design must be plain or fancy, got 'odd'."),
    ],
)
def test_python_callers_get_the_bounds(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Example(out=Path("x"), **values)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"cuont": 1}, "Unknown setting 'cuont'. Did you mean 'count'?"),
        (
            {"zzz": 1},
            "Unknown setting 'zzz'. Known: out, count, ratio, names, design, quick, title.",
        ),
        (
            {"count": "4"},
            "count must be an integer at least 1 and at most 10,000, got '4'.",
        ),
        ({"ratio": "half"}, "ratio must be a number at least 0 and below 1, got 'half'."),
        ({"names": [""]}, "names must be a list of names, got ['']."),
        ({"design": 1}, "design must be plain or fancy, got 1."),
        ({"quick": 1}, "quick must be true or false, got 1."),
        ({"title": 1}, "title must be a string, got 1."),
        ({"ratio": True}, "ratio must be a number at least 0 and below 1, got True."),
        ({"ratio": 10**400}, f"ratio must be below 1, got {10**400!r:.80}...."),
        ({"out": "a\0b"}, "out must be a path, got 'a\\x00b'."),
    ],
)
def test_a_mapping_from_outside_is_refused_in_one_sentence(
    values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        validate(Example, {"out": "x", **values})
    assert str(caught.value) == sentence


def test_a_mapping_from_outside_becomes_the_settings() -> None:
    """YAML 1.1 takes 1e-6 for a string; a flag gives names with commas."""
    found = validate(Example, {"out": "x", "ratio": "1e-6", "names": "c, d"})
    assert found == Example(out=Path("x"), ratio=1e-6, names=("c", "d"))
    with pytest.raises(SettingsError, match=r"^out is missing; give --out, or out in run\.yaml\.$"):
        validate(Example, {}, "run.yaml")


def test_a_field_knows_its_type_its_help_and_whether_none_is_a_value() -> None:
    fields = setting_fields(Example)
    assert (fields["count"].kind, fields["count"].setting.help) == (int, "How many.")
    assert (fields["ratio"].kind, fields["ratio"].optional) == (float, True)
    assert [name for name, field in fields.items() if field.required] == ["out"]


def test_a_pydantic_model_may_use_the_same_annotation() -> None:
    class Request(BaseModel):
        ratio: Ratio = 0.5

    assert Request(ratio=0).ratio == 0
    with pytest.raises(ValidationError):
        Request(ratio=1)
    assert Request.model_json_schema()["properties"]["ratio"]["exclusiveMaximum"] == 1


def test_the_nearest_name_is_offered_where_one_is_near() -> None:
    assert nearest("learing_rate", ["learning_rate", "out"]) == "learning_rate"
    assert nearest("nope", ["learning_rate", "out"]) is None


def test_importing_it_imports_neither_torch_nor_pydantic() -> None:
    code = (
        "import sys, remask.settings, remask.sampling.settings, remask.consistency.settings\n"
        "assert not {'torch', 'pydantic'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
