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
    """On a CPU a batch, padded to its longest row, has at most 1,024 tokens, or one row.

    Two rows of 350 fit, three do not; the third takes one of 15 with it, padded to 350.
    """
    lengths = [350, 15, 1500, 350, 15, 350, 5]
    assert list(batches(lengths, model("cpu"))) == [[2], [0, 3], [5, 1], [4, 6]]


def test_the_nearest_in_length_keep_the_first_row_company() -> None:
    """200 with 195 and 225: 3 x 225 fits; 350 would make it 4 x 350, more than 1,024.

    A block-causal model counts each of these rows as 512 columns: 8 x 512 is the budget.
    """
    lengths = [200, 350, 225, 195, 5]
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
    """On a CPU 4 x 1,024 columns: 8 rows of up to 512, 4 of up to 1,024, longest first."""
    blocky = model("cpu", block_size=32)
    assert [len(b) for b in batches([3] * 10, blocky)] == [8, 2]
    assert [len(b) for b in batches([512] * 10, blocky)] == [8, 2]
    assert [len(b) for b in batches([513] * 10, blocky)] == [4, 4, 2]
    assert list(batches([40, 9_000, 60, 50], blocky)) == [[1], [2, 3, 0]]


def test_whole_rows_have_one_budget_for_all_models(block_causal: NativeDenoiser) -> None:
    """The editor's pass computes all columns: 5 rows of 200 on a CPU, where a walk may take 8."""
    assert [len(b) for b in whole_rows([200] * 12, torch.device("cpu"))] == [5, 5, 2]
    counted = Long(block_causal)
    answer = Sample(item="a", prompt=(40,) * 192, canvas=(50,) * 8, num_response=8, text="a")
    EditorAgreement(denoiser=counted).score([answer] * 12)
    assert counted.by_call == [5, 5, 2]


def test_no_rows_are_no_batches() -> None:
    assert list(batches([], model("cpu"))) == list(batches([], model("cpu", block_size=4))) == []
