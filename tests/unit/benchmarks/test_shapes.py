"""Shapes are those of the published checkpoints, and what stands in for text never ends."""

import pytest
import torch
from lib.shapes import SHAPES, build, random_answers, random_tokens, windows


@pytest.mark.parametrize(
    ("name", "num_parameters"),
    [
        ("llada8b", 8_015_581_184),
        ("dream7b", 7_615_616_512),
        ("lladamoe", 7_356_880_896),
        ("llada21mini", 16_255_638_528),
    ],
)
def test_a_shape_has_the_parameters_of_the_checkpoint(name: str, num_parameters: int) -> None:
    """Two bytes each are the sizes of the published files."""
    with torch.device("meta"):
        network = SHAPES[name].family.build(SHAPES[name].config)
    assert sum(parameter.numel() for parameter in network.parameters()) == num_parameters


@pytest.mark.parametrize("name", SHAPES)
def test_the_timed_part_lies_within_the_context(name: str) -> None:
    shape = SHAPES[name]
    with torch.device("meta"):
        network = shape.family.build(shape.config)
    writing = shape.writing
    assert writing.num_given + writing.settings.length <= network.max_length
    assert writing.settings.steps <= writing.steps
    assert shape.num_prompt + shape.num_response <= network.max_length


def test_weights_are_drawn_and_scales_are_one() -> None:
    network = build(SHAPES["toyblocks"], torch.device("cpu")).model
    for name, parameter in network.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == 1).all(), name
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.2), name
    assert all((buffer == 0).all() for buffer in network.buffers())


def test_random_text_holds_no_special_token() -> None:
    shape = SHAPES["toy"]
    rows = random_tokens(shape, 40, 30)
    assert max(max(row) for row in rows) < shape.eos_id < shape.mask_id
    answers = random_answers(shape, 3)
    assert {(len(a.prompt), len(a.canvas), a.num_response) for a in answers} == {(12, 16, 16)}
    assert len({a.canvas for a in answers}) == 3


def test_an_answer_of_a_block_causal_model_goes_on_to_the_end_of_a_block() -> None:
    """12 + 16 tokens in blocks of 8 end with the 32nd: a tail of 4, which is no response."""
    shape = SHAPES["toyblocks"]
    for answer in random_answers(shape, 2):
        assert answer.num_response == 16
        assert answer.canvas[16:] == (shape.eos_id,) * 4
        assert max(answer.canvas[:16]) < shape.eos_id


def test_blocks_begin_with_the_row_and_end_whole() -> None:
    assert windows(12, 28, None) == [slice(12, 28)]
    assert windows(12, 28, 8) == [slice(12, 16), slice(16, 24), slice(24, 32)]
    assert windows(16, 32, 8) == [slice(16, 24), slice(24, 32)]
