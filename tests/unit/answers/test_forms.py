"""Every form of the table is read as expected."""

import sys
from pathlib import Path

import pytest

from remask.answers import extract_choice, extract_number
from remask.tasks.public.equivalence import exactly
from remask.tasks.public.formula import find_expression

sys.path.append(str(Path(__file__).parent))
from forms import FORMS


@pytest.mark.parametrize(
    ("kind", "text", "expected"), FORMS, ids=[f"{kind}: {text[:60]}" for kind, text, _ in FORMS]
)
def test_forms_are_read_as_the_table_says(kind: str, text: str, expected: str | None) -> None:
    if kind == "formula":
        found = find_expression(text).answer
        if expected is not None and found is not None:
            assert exactly(expected, found), found
            return
    else:
        found = extract_choice(text, "ABCD") if kind == "letter" else extract_number(text)
    assert found == expected
