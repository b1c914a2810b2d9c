"""Models whose certainty depends on how much they are not shown, and digits as critical tokens."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.values import Canvas, Sample

MASK_ID, RIVAL = 1, 5  # RIVAL: a token that no answer of these tests holds


@pytest.fixture(scope="session")
def digits() -> Callable[[Sample], list[bool]]:
    """Say of an answer in single letters that its digits are critical; its end token is not."""

    def marks(sample: Sample) -> list[bool]:
        text = sample.text.ljust(sample.num_response)
        return [letter.isdigit() for letter in text[: sample.num_response]]

    return marks


@pytest.fixture(scope="session")
def knowing(
    scripted: Callable[..., Denoiser],
) -> Callable[[Sample, Callable[[int, int], float]], Denoiser]:
    """Return a model that knows one answer: token i has a chance that depends on the masks.

    `chance(i, n)` is that of canvas token i while n tokens of the row are masked.
    """

    def build(sample: Sample, chance: Callable[[int, int], float]) -> Denoiser:
        def script(canvas: Canvas) -> Tensor:
            out = torch.full((*canvas.tokens.shape, 259), -torch.inf)
            for row, tokens in enumerate(canvas.tokens):
                num_masked = int((tokens == MASK_ID).sum())
                for i, token in enumerate(sample.canvas):
                    odds = torch.tensor([chance(i, num_masked), 1 - chance(i, num_masked)])
                    out[row, len(sample.prompt) + i, [token, RIVAL]] = odds.log()
            return out

        return scripted(script)

    return build
