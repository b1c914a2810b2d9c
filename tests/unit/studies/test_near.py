"""Near duplicates: similarity by hand, numbers as one word, and the file that names them."""

import json
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.errors import RecordError
from studies.language.answers import read_near
from studies.language.text import __main__ as real_text
from studies.language.text.near import NEAR, nearness

ROW = "Keith placed 22 more scissors in the drawer."


def test_a_word_more_is_near_and_another_question_is_not() -> None:
    """Seven words, all of them among the eight of the row, in its order: 14 of 15."""
    same = "Keith placed 9 scissors in the drawer."
    other = "How many scissors are there in the drawer?"
    assert nearness([same, other, ROW], [ROW]) == pytest.approx([14 / 15, 0, 1])
    assert nearness([same], ["How many?", ROW, "Keith"]) == pytest.approx([14 / 15])
    assert nearness([same], []) == [0.0]


WORDS = st.lists(st.sampled_from(["cat", "dog", "has", "7", "twelve"]), min_size=1, max_size=7)


@given(WORDS, WORDS)
def test_similarity_is_the_longest_run_of_words_in_common(one: list[str], two: list[str]) -> None:
    """Numbers, in digits or spelled, are one word; below the least it is 0."""
    blind = [["#" if w in ("7", "twelve") else w for w in words] for words in (one, two)]
    most = max(
        n for n in range(len(one) + 1)
        if any(_is_in(part, blind[1]) for part in combinations(blind[0], n))
    )  # fmt: skip
    expected = 2 * most / (len(one) + len(two))
    [found] = nearness([" ".join(one)], [" ".join(two)])
    assert found == pytest.approx(expected if expected >= NEAR - 1e-9 else 0.0, abs=1e-6)


def _is_in(part: tuple[str, ...], words: list[str]) -> bool:
    rest = iter(words)
    return all(word in rest for word in part)


def test_the_command_names_the_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "near.json"
    rows.write_text(json.dumps({"prompt": ROW, "response": "#### 22"}) + "\n")
    asked = "Keith placed 9 scissors in the drawer."
    tests = {"gsm8k": ["What is it?"], "svamp": [asked, "Who?"], "mawps": []}
    monkeypatch.setattr(real_text, "test_questions", lambda data: tests)
    arguments = real_text.read_arguments(["near", str(tmp_path), str(rows), str(out)])
    assert arguments.run(arguments) == 0
    assert "svamp: 1 of 2 test questions" in capsys.readouterr().out
    assert read_near(tmp_path) == {"gsm8k": [], "svamp": [asked], "mawps": []}
    out.write_text("{}")
    with pytest.raises(RecordError, match="lacks questions of a benchmark; write it again"):
        read_near(tmp_path)
    out.unlink()
    assert read_near(tmp_path) is None
