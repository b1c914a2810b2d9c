"""Objects from outside: as themselves, by a name of the package, or as `module:name`."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from remask.errors import SettingsError
from remask.extension import resolve

TABLE: dict[str, object] = {"confidence": 1, "roundtrips": 2}


def test_an_object_is_itself_and_a_name_is_its_entry() -> None:
    own = SimpleNamespace(score=3)
    assert resolve("scorer", own, TABLE, ["score"]) is own
    assert resolve("scorer", "roundtrips", TABLE, ["score"]) == 2


def test_a_module_of_the_current_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "brought_along.py").write_text("class Own:\n    score = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve("scorer", "brought_along:Own", TABLE, ["score"]).score == 7


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("roundtrip", "Unknown scorer 'roundtrip'. Did you mean 'roundtrips'?"),
        ("x", "Unknown scorer 'x'. Known: confidence, roundtrips, or module:name."),
        (
            "no_module:x",
            "scorer 'no_module:x' cannot be imported (ModuleNotFoundError: No module named "
            "'no_module'); write module:name.",
        ),
        ("math:nosuch", "scorer 'math:nosuch' cannot be imported (AttributeError: "),
        (":", "scorer ':' cannot be imported (ValueError: Empty module name); write module:name."),
        ("math:pi", "scorer 'math:pi' has no name, score; see docs/extending.md."),
        (3, "scorer 'int' has no name, score; see docs/extending.md."),
    ],
)
def test_what_is_not_there_is_refused_in_one_sentence(given: object, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        resolve("scorer", given, TABLE, ["name", "score"])
    assert str(refused.value).startswith(sentence)
