"""How rows are cut into batches, by hand."""

from types import SimpleNamespace
from typing import Any

import torch

from remask.baselines.editor import EditorAgreement
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted
from remask.sampling.batches import batch_around_first, batches, token_budget, whole_rows
from remask.values import Sample


class Long(Counted):
    """A context of 512 tokens."""

    max_length = 512


def model(kind: str, block_size: int | None = None) -> Denoiser:
    """Return as much of a denoiser as a batch depends on."""
    found: Any = SimpleNamespace(device=torch.device(kind), block_size=block_size)
    denoiser: Denoiser = found
    return denoiser


def test_batches_hold_every_row_once_and_stay_within_the_budget() -> None:
    """On a CPU a batch, padded to its longest row, has at most 2,048 tokens, or one row.

    Two rows of 700 fit, three do not; the third takes one of 30 with it, padded to 700.
    """
    lengths = [700, 30, 3000, 700, 30, 700, 5]
    assert list(batches(lengths, model("cpu"))) == [[2], [0, 3], [5, 1], [4, 6]]


def test_the_nearest_in_length_keep_the_first_row_company() -> None:
    """400 with 390 and 450: 3 x 450 fits; 700 would make it 4 x 700, more than 2,048.

    A block-causal model counts each of these rows as 512 columns or 1,024: 8 x 1,024 is the budget.
    """
    lengths = [400, 700, 450, 390, 5]
    assert batch_around_first(lengths, model("cpu")) == [0, 3, 2]
    assert batch_around_first(lengths, model("cpu", 32)) == [0, 3, 2, 1, 4]
    assert batch_around_first([9_000, 5], model("cpu")) == [0]


def test_a_gpu_takes_more_tokens_at_once() -> None:
    """65,536 / 480 = 136.5 rows; a block-causal model: 4 x 65,536 / 512 = 512 rows."""
    assert token_budget(torch.device("cuda")) == token_budget(torch.device("xpu")) == 65_536
    assert token_budget(torch.device("mps")) == 8_192
    assert [len(b) for b in batches([480] * 600, model("cuda"))] == [136, 136, 136, 136, 56]
    assert [len(b) for b in batches([480] * 600, model("cuda", block_size=32))] == [512, 88]


def test_rows_of_a_block_causal_model_count_with_their_room() -> None:
    """On a CPU 4 x 2,048 columns: 16 rows of up to 512, 8 of up to 1,024, longest first."""
    blocky = model("cpu", block_size=32)
    assert [len(b) for b in batches([3] * 20, blocky)] == [16, 4]
    assert [len(b) for b in batches([512] * 20, blocky)] == [16, 4]
    assert [len(b) for b in batches([513] * 20, blocky)] == [8, 8, 4]
    assert list(batches([40, 9_000, 60, 50], blocky)) == [[1], [2, 3, 0]]


def test_whole_rows_have_one_budget_for_all_models(block_causal: NativeDenoiser) -> None:
    """The editor's pass computes all columns: 5 rows of 400 on a CPU, where a walk may take 16."""
    assert [len(b) for b in whole_rows([400] * 12, torch.device("cpu"))] == [5, 5, 2]
    counted = Long(block_causal)
    answer = Sample(item="a", prompt=(40,) * 392, canvas=(50,) * 8, num_response=8, text="")
    EditorAgreement(denoiser=counted).score([answer] * 12)
    assert counted.by_call == [5, 5, 2]


def test_no_rows_are_no_batches() -> None:
    assert list(batches([], model("cpu"))) == list(batches([], model("cpu", block_size=4))) == []
