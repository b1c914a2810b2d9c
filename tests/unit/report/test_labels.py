"""Names of methods and measures in words."""

import pytest

from remask.report.html import html_table
from remask.report.labels import worded
from remask.report.table import Table


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n_avg", "samples per problem"),
        ("mgrs", "rejection sampling"),
        ("vote10", "vote of 10"),
        ("best_of_3", "best of 3 by round trips"),
        ("best_of_10_confidence", "best of 10 by confidence"),
        ("above best_of_3", "above best of 3 by round trips"),
        ("roundtrips.token_accuracy", "token accuracy"),
        ("base rate", "base rate"),
        ("my_best_of_3", "my_best_of_3"),
        ("", ""),
    ],
)
def test_a_name_of_ours_is_said_in_words(name: str, words: str) -> None:
    assert worded(name) == words


def test_a_file_is_called_as_it_is_named() -> None:
    """Even where a method has the same name."""
    of_files = Table(name="t", title="t", heads=["study", "n_avg"], rows=[["vote3", "1"]])
    of_methods = Table(name="t", title="t", heads=["method", "n_avg"], rows=[["vote3", "1"]])
    assert ">vote3</th>" in html_table(of_files)
    assert ">vote of 3</th>" in html_table(of_methods)
    assert ">samples per problem</th>" in html_table(of_files)
