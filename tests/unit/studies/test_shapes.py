"""Shapes of an answer, what their names say and that they fit; and how problems are shared out."""

from pathlib import Path

import pytest

from remask.errors import InputError
from studies.language.jobs import SHAPES, Job, Shape
from studies.language.problems import ProblemSet


def test_a_shape_is_what_its_name_says() -> None:
    assert (Shape(96, 2, 8).steps, str(Shape.parse("96x2x8"))) == (48, "96x2x8")
    for text in ("96", "96x2", "96x2x0", "96x2x8x1"):
        with pytest.raises(InputError, match="write 96x2x8"):
            Shape.parse(text)


def test_shapes_to_choose_from_fit() -> None:
    """A canvas is whole blocks, and a block takes whole steps."""
    for shapes in SHAPES.values():
        assert len(set(shapes)) == len(shapes)
        assert all(s.canvas % s.block == 0 == s.block % s.rate for s in shapes)


@pytest.mark.parametrize(
    ("problems", "samples", "chunk", "shards"),
    [
        (384, 1, 48, 8),  # one chunk each
        (498, 1, 63, 8),  # one a little larger, not two in some and one in the others
        (1319, 1, 83, 8),  # two chunks each
        (500, 10, 32, 8),
        (102, 1, 48, 3),  # not worth more
        (2, 1, 48, 1),
    ],
)
def test_shards_are_as_large_as_one_another(
    problems: int, samples: int, chunk: int, shards: int
) -> None:
    source = ProblemSet("gsm8k", Path("unread"), "test")
    job = Job(name="job", source=source, problems=problems, shape=Shape(32, 1, 4), samples=samples)
    assert (job.chunk, job.shards) == (chunk, shards)
