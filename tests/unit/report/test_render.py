"""Pictures are there, are images, and say what they show."""

import struct
from pathlib import Path

import numpy as np
import pytest

from remask.report import render

RIGHT = [True] * 6 + [False] * 4
SCORES = [0.9, 0.8, 0.85, 0.95, 0.7, 0.9, 0.3, 0.75, 0.5, 0.4]


def png_size(path: Path) -> tuple[int, int]:
    """Return width and height from the header, after checking that it is one."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def shown_text(path: Path) -> str:
    """Return the texts of a picture: its SVG names every text in a comment."""
    return path.with_suffix(".svg").read_text()


def a_drift_map(num_tokens: int) -> render.DriftMap:
    pieces = [" word", "1", "\n", "$x_1$", "é"] * (num_tokens // 5) + ["<|eot_id|>"]
    rebuilt = [[*pieces[:-1], " 7"], pieces]
    masked = [[True] * len(pieces), [False] * len(pieces)]
    lost = [0.0] * (len(pieces) - 1) + [None]
    return render.DriftMap(
        pieces=pieces, rebuilt=rebuilt, masked=masked, drift=lost, title="A wrong answer: 7"
    )


def test_separation_counts_both_kinds_and_gives_the_auroc(tmp_path: Path) -> None:
    """Only the pair .7 < .75 of 6 x 4 is the wrong way round: 23 / 24 = 0.958."""
    path = render.separation(SCORES, RIGHT, tmp_path / "new" / "s.png", of="round-trip")
    width, height = png_size(path)
    assert (900 < width < 1400, 500 < height < 900) == (True, True)
    text = shown_text(path)
    assert "n = 10, AUROC 0.958 [" in text
    assert "right (n = 6)" in text
    assert "wrong (n = 4)" in text


@pytest.mark.parametrize(("right", "count"), [([True] * 10, 10), ([False] * 10, 10), ([], 0)])
def test_a_picture_of_one_kind_says_that_there_is_no_auroc(
    tmp_path: Path, right: list[bool], count: int
) -> None:
    path = render.separation(SCORES[:count], right, tmp_path / "s.png", of="round-trip")
    assert f"n = {count}, all of one kind" in shown_text(path)
    curves = {"roundtrips": (SCORES[:count], right)}
    assert "roundtrips" not in shown_text(render.roc(curves, tmp_path / "r.png"))


def test_roc_names_every_method_with_its_interval(tmp_path: Path) -> None:
    other = [float(x) for x in np.round(SCORES, 1)]
    curves = {"roundtrips": (SCORES, RIGHT), "vote": (other, RIGHT)}
    path = render.roc(curves, tmp_path / "roc.png")
    width, height = png_size(path)
    assert 0.8 < width / height < 1.25
    text = shown_text(path)
    assert "roundtrips, 0.958 [" in text
    assert "vote, 0." in text
    assert "ROC on 10 answers" in text


def test_a_longer_answer_makes_a_taller_drift_map(tmp_path: Path) -> None:
    short = png_size(render.drift(a_drift_map(10), tmp_path / "a.png"))
    long = png_size(render.drift(a_drift_map(100), tmp_path / "b.png"))
    assert short[1] < long[1] < 2500
    assert short[0] <= long[0] < 2500


def test_a_drift_map_shows_the_answer_and_what_came_back_instead(tmp_path: Path) -> None:
    """Dollar signs are text, not mathematics; an end token is one sign wide."""
    text = shown_text(render.drift(a_drift_map(5), tmp_path / "a.png"))
    for shown in ("A wrong answer: 7", " word", "$x_1$", "trip 2", render.END, "7"):
        assert f"<!-- {shown} -->" in text


def test_characters_that_no_font_draws_are_dots(tmp_path: Path) -> None:
    odd = render.DriftMap(
        pieces=["a\x02", "漢字"], rebuilt=[["b", "漢字"]], masked=[[True, True]], drift=[1.0, 0.0],
        title="odd",
    )  # fmt: skip
    text = shown_text(render.drift(odd, tmp_path / "a.png"))
    assert "<!-- a· -->" in text
    assert "<!-- ·· -->" in text


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    one, other = (render.drift(a_drift_map(10), tmp_path / f"{n}.png") for n in "ab")
    assert one.read_bytes() == other.read_bytes()
    assert shown_text(one) == shown_text(other)


def test_reliability_gives_the_error_of_every_method(tmp_path: Path) -> None:
    """Scores of 1 that come true in 6 of 10 cases are 0.4 off; scores above 1 are left out."""
    curves = {"sure": ([1.0] * 10, RIGHT), "no_share": ([2.0] * 10, RIGHT)}
    text = shown_text(render.reliability(curves, tmp_path / "r.png"))
    assert "sure, ECE 0.400" in text
    assert "no_share" not in text


def test_coverage_draws_every_method_that_scored_anything(tmp_path: Path) -> None:
    curves = {"roundtrips": (SCORES, RIGHT), "silent": ([], [])}
    text = shown_text(render.coverage(curves, tmp_path / "c.png"))
    assert "roundtrips" in text
    assert "silent" not in text


def test_an_svg_path_writes_the_svg_alone(tmp_path: Path) -> None:
    path = render.coverage({"roundtrips": (SCORES, RIGHT)}, tmp_path / "c.svg")
    assert [found.name for found in tmp_path.iterdir()] == ["c.svg"]
    assert ">roundtrips</text>" in path.read_text()


def test_names_of_points_of_about_the_same_cost_stand_apart() -> None:
    """0.70 and 0.705 cost about the same: the upper name moves up; one far away stays."""
    heights = render.label_heights({"a": (16, 0.70), "b": (17, 0.705), "c": (660, 0.70)})
    assert heights == pytest.approx({"a": 0.70, "b": 0.70 + render.LINE, "c": 0.70})
