"""A setting is shown in the reference with its type and its help text, each once."""

from pathlib import Path

import pytest

griffe = pytest.importorskip("griffe")  # of the extra docs

SOURCE = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar

from remask.settings import Setting

Share = Annotated[float, Setting("How much of it.", least=0, most=1)]


@dataclass(kw_only=True)
class Wish:
    """What is wished for."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    size: Annotated[int | None, Setting("How many.", least=1)] = None
    share: Share = 0.5
    name: str  # of whoever wishes
'''


def test_a_setting_has_its_type_and_its_help_text(tmp_path: Path) -> None:
    import comments  # type: ignore[import-not-found]

    (tmp_path / "wishes.py").write_text(SOURCE)
    extensions = griffe.load_extensions(comments.Comments)
    wish = griffe.load("wishes", search_paths=[tmp_path], extensions=extensions)["Wish"]
    shown = {
        name: (str(field.annotation), field.docstring.value)
        for name, field in wish.attributes.items()
    }
    assert shown == {
        "size": ("int | None", "How many."),
        "share": ("Share", "How much of it."),
        "name": ("str", "Of whoever wishes"),
    }
    taken = {p.name: str(p.annotation) for p in wish.parameters if p.name != "self"}
    assert taken == {"size": "int | None", "share": "Share", "name": "str"}
