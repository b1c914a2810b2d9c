"""Shapes of an answer: what their names say, and that they fit."""

import pytest
from realstudy.jobs import SHAPES, Shape

from remask.errors import InputError


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
