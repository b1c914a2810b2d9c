"""Answers with a trace written by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from remask.values import Sample, Trace


@pytest.fixture(scope="session")
def drafted(
    answer: Callable[..., Sample], ids: Callable[[str], tuple[int, ...]]
) -> Callable[..., Sample]:
    """Turn a canvas and its drafts, in letters, into a sample; `~` is not predicted yet."""

    def build(canvas: str, *drafts: str, prompt: str = "p") -> Sample:
        rows = tuple(
            tuple(-1 if letter == "~" else ids(letter)[0] for letter in draft) for draft in drafts
        )
        trace = Trace(entropy=(0.0,) * len(canvas), tentative=rows, mean_entropy=(0.0,) * len(rows))
        return replace(answer(canvas, prompt=prompt), trace=trace)

    return build
