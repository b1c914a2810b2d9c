"""The conformance kit: does a denoiser, or a scorer, keep its contract?

`check_denoiser` and `check_scorer` raise AssertionError with a sentence that names what is
violated, under any test runner. `ScriptedDenoiser` has logits written by hand and
`write_checkpoint` writes a small random LLaDA, so that every loop runs without trained weights.

Not here: whether a model is any good. Nor can logits that are shifted by one place always be told
from good ones without trained weights: the padding checks catch a shift that wraps around or looks
ahead, `check_alignment` catches every shift, given a text that the model knows.
"""

from remask.testing.checkpoint import write_checkpoint
from remask.testing.denoiser import check_alignment, check_denoiser
from remask.testing.scorer import check_scorer
from remask.testing.scripted import ScriptedDenoiser, tiny_tokenizer

__all__ = [
    "ScriptedDenoiser",
    "check_alignment",
    "check_denoiser",
    "check_scorer",
    "tiny_tokenizer",
    "write_checkpoint",
]
