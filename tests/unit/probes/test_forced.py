"""The forced path, step by step and block by block, by hand."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.probes.forced import forced_path, pick_in_blocks
from remask.sampling.loop import pick
from remask.testing import ScriptedDenoiser
from remask.values import Canvas

CPU = torch.device("cpu")
MASK = 1


def logits_of(odds: Mapping[int, float]) -> Tensor:
    """Return the logits of one place, (V,), of probabilities by token."""
    row = torch.full((262,), -torch.inf)
    for token, probability in odds.items():
        row[token] = math.log(probability)
    return row


def test_the_most_confident_place_goes_first_with_its_own_token() -> None:
    """Tokens 10, 11, 12, two steps: after the first 3 x 1 // 2 = 1 stays masked.

    Blank, the model is surest of place 2 (20 with .9, though 12 is there, with .1), then of place 0
    (10 with .8); place 1 waits. Its 11 has .3 while place 2 is blank, and .6 once 12 stands there:
    20, which the model would have written, would give it .2.
    """

    def script(tokens: Tensor) -> Tensor:
        out = torch.zeros(*tokens.shape, 262)
        for i, row in enumerate(tokens.tolist()):
            middle = {MASK: 0.3, 12: 0.6, 20: 0.2}[row[2]]
            out[i, 0] = logits_of({10: 0.8, 20: 0.2})
            out[i, 1] = logits_of({11: middle, 20: (1 - middle) / 2, 21: (1 - middle) / 2})
            out[i, 2] = logits_of({12: 0.1, 20: 0.9})
        return out

    counted = Counted(ScriptedDenoiser(script=script))
    canvas = Canvas.of([[]], [[10, 11, 12]], 0, CPU)
    path = forced_path(counted, canvas, 2)
    assert path.logp[0].exp().tolist() == pytest.approx([0.8, 0.6, 0.1])
    assert path.steps.tolist() == [2]
    assert counted.by_call == [1, 1]


def test_a_row_leaves_when_it_is_revealed(llada: NativeDenoiser) -> None:
    """Two tokens in five steps go in the first and the third; five go one by one."""
    canvas = Canvas.of([[40], [40]], [[50, 51], [60, 61, 62, 63, 64]], 0, CPU)
    assert forced_path(llada, canvas, 5).steps.tolist() == [3, 5]


def test_one_step_reads_a_blank_canvas(llada: NativeDenoiser) -> None:
    canvas = Canvas.of([[40, 41]], [[50, 51, 52]], 0, CPU)
    blank = replace(canvas, tokens=canvas.tokens.masked_fill(canvas.canvas, MASK))
    logits = llada.head(llada.hidden(blank)[0, 2:])
    logits[:, MASK] = -torch.inf
    expected = logits.log_softmax(1).gather(1, canvas.tokens[0, 2:, None])[:, 0]
    path = forced_path(llada, canvas, 1)
    assert torch.allclose(path.logp[0, 2:], expected, atol=1e-5)
    assert (path.logp[0, :2] == 0).all()


def test_a_path_does_not_depend_on_company_or_padding(llada: NativeDenoiser) -> None:
    prompts, texts = [[40, 41], [45]], [[50, 51, 52, 53, 54], list(range(60, 72))]
    together = forced_path(llada, Canvas.of(prompts, texts, 0, CPU), 4)
    alone = forced_path(llada, Canvas.of(prompts[:1], texts[:1], 0, CPU), 4)
    assert torch.allclose(together.logp[0, :7], alone.logp[0], atol=1e-5)
    assert (together.logp[0, 7:] == 0).all()


def test_blocks_are_ranked_each_for_itself() -> None:
    """Two of the first block, one of the second; a place that is not masked does not count."""
    confidence = torch.tensor([[0.1, 0.9, 0.5, 0.9, 0.3, 0.2, 0.3, 0.8]])
    masked = torch.tensor([[True, True, True, False, True, True, True, False]])
    blocks = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])
    revealed = pick_in_blocks(confidence, masked, blocks, torch.tensor([[2, 1]]))
    assert revealed[0].nonzero()[:, 0].tolist() == [1, 2, 4]


def test_one_block_is_picked_from_as_by_the_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    confidence = torch.randint(0, 4, (6, 9), generator=generator).float()  # with ties
    masked = torch.rand(6, 9, generator=generator) < 0.6
    due = torch.tensor([0, 1, 2, 3, 4, 9])
    blocks = torch.zeros(6, 9, dtype=torch.long)
    expected = pick(confidence, masked, due)
    assert torch.equal(pick_in_blocks(confidence, masked, blocks, due[:, None]), expected)


def one_block_at_a_time(model: NativeDenoiser, canvas: Canvas, steps: int) -> Tensor:
    """Return the path of each block alone, the row cut off behind it and clean before it."""
    out = torch.zeros(canvas.tokens.shape)
    for start in range(0, canvas.tokens.shape[1], 4):
        here = slice(0, start + 4)
        cut = Canvas(tokens=canvas.tokens[:, here], canvas=canvas.canvas[:, here], attend=None)
        own = cut.canvas & (torch.arange(start + 4) >= start)
        if own.any():
            out[:, here] += plain_path(model, replace(cut, canvas=own), steps)
    return out


def plain_path(model: NativeDenoiser, canvas: Canvas, steps: int) -> Tensor:
    """Return the path of one row, all that its canvas holds together; ordinary passes."""
    masked, out = canvas.canvas.clone(), torch.zeros(canvas.tokens.shape)
    total = int(masked.sum())
    for k in range(steps):
        noisy = replace(canvas, tokens=canvas.tokens.masked_fill(masked, MASK))
        logits = model.head(model.hidden(noisy)[0])
        logits[:, MASK] = -torch.inf
        logp = logits.log_softmax(1)
        due = int(masked.sum()) - total * (steps - k - 1) // steps
        top = logp.max(1).values.masked_fill(~masked[0], -torch.inf)
        for place in top.argsort(descending=True, stable=True)[:due].tolist():
            out[0, place] = logp[place, canvas.tokens[0, place]]
            masked[0, place] = False
    return out


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_a_model_with_blocks_reveals_them_side_by_side(
    block_causal: NativeDenoiser, steps: int
) -> None:
    """A prompt of 6 shares the second block with two tokens; three more blocks have 4, 4 and 4."""
    canvas = Canvas.of([range(40, 46)], [range(70, 84)], 0, CPU)
    counted = Counted(block_causal)
    path = forced_path(counted, canvas, steps)
    expected = one_block_at_a_time(block_causal, canvas, steps)
    assert torch.allclose(path.logp, expected, atol=1e-4)
    assert counted.by_call == [1] * steps == [1] * int(path.steps)


def test_a_block_takes_no_more_steps_than_it_has_positions(block_causal: NativeDenoiser) -> None:
    canvas = Canvas.of([range(40, 46)], [range(70, 80)], 0, CPU)
    few, many = (forced_path(block_causal, canvas, steps) for steps in (4, 9))
    assert torch.equal(few.logp, many.logp)
    assert many.steps.tolist() == [4]
