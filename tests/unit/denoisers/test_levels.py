"""Rows over the same text share its clean copy, and texts what they begin with: by hand."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from remask.denoisers import a2d, fast_dllm, llada2
from remask.denoisers.levels import Level, levels_of
from remask.denoisers.native import Family, Network

MASK = 1
ROWS = torch.tensor([
    [40, 41, 42, 43, 50, 51, 52, 53],
    [40, 41, 42, 43, 60, 61, 62, 63],
    [40, 41, 42, 43, 50, 51, 52, 53],
])  # fmt: skip
BLOCKS = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 3]])


def noisy(rows: Tensor, *places: tuple[int, int]) -> Tensor:
    out = rows.clone()
    for row, column in places:
        out[row, column] = MASK
    return out


def shown(level: Level, row: int, column: int) -> list[int]:
    """Return what a column sees: those of the levels before, then its own."""
    here: list[int] = level.seen[min(row, len(level.seen) - 1), 0, column].nonzero()[:, 0].tolist()
    return here


def test_two_texts_under_three_masks_are_two_clean_rows_and_one_beginning() -> None:
    """The first mask is in column 5: blocks 0 and 1 have none, in any row."""
    begun, texts, above = levels_of(noisy(ROWS, (0, 5), (1, 7), (2, 6)), ROWS, None, BLOCKS).each
    assert begun.tokens.tolist() == [[40, 41, 42, 43]]
    assert texts.tokens.tolist() == [[50, 51, 52, 53], [60, 61, 62, 63]]
    assert above.tokens.tolist() == [[50, 1, 52, 53], [60, 61, 62, 1], [50, 51, 1, 53]]
    assert [level.start for level in (begun, texts, above)] == [0, 4, 4]
    assert texts.parents is not None
    assert texts.parents.tolist() == [0, 0]
    assert above.parents is not None
    assert above.parents.tolist() == [0, 1, 0]
    # Column 6 is in the last block: it sees clean blocks 0 to 2 and its own, noisy at 8 + 2 and 3.
    assert shown(texts, 0, 2) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert shown(above, 0, 2) == [0, 1, 2, 3, 4, 5, 10, 11]
    assert shown(begun, 0, 1) == [0, 1]


def test_a_mask_in_the_first_block_leaves_no_beginning() -> None:
    texts, above = levels_of(noisy(ROWS, (1, 1)), ROWS, None, BLOCKS).each
    assert (texts.tokens.shape, above.tokens.shape) == ((2, 8), (3, 8))
    assert texts.parents is None


def test_a_row_that_ends_earlier_is_another_text() -> None:
    """Equal tokens, the last of them padding in the first row: nobody sees it, at 7 or at 9."""
    attend = torch.ones(3, 8, dtype=torch.bool)
    attend[0, 7] = False
    _, texts, above = levels_of(noisy(ROWS, (0, 6)), ROWS, attend, BLOCKS).each
    assert len(texts.tokens) == 3
    assert above.start == 6
    assert shown(above, 0, 0) == [0, 1, 2, 3, 4, 5, 8]
    assert shown(above, 2, 0) == [0, 1, 2, 3, 4, 5, 8, 9]


def test_rows_are_cut_where_a_block_of_each_begins() -> None:
    """Blocks of the second row begin a column earlier: nowhere but at the start with the others."""
    blocks = torch.tensor(
        [[0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 1, 2, 2, 3, 3, 4], [0, 0, 1, 1, 2, 2, 3, 3]]
    )
    texts, _ = levels_of(noisy(ROWS, (0, 6)), ROWS, None, blocks).each
    assert texts.start == 0
    assert len(texts.tokens) == 2


SIZES = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 4, "intermediate_size": 24, "vocab_size": 80, "max_position_embeddings": 64,
    "rope_theta": 100.0, "rms_norm_eps": 1e-6,
}  # fmt: skip
EXPERTS = {
    "first_k_dense_replace": 1, "num_experts": 8, "num_experts_per_tok": 2,
    "num_shared_experts": 1, "moe_intermediate_size": 8, "n_group": 4, "topk_group": 2,
    "use_bias": False,
}  # fmt: skip


@pytest.fixture
def network() -> Callable[[Family], Network]:
    """Build a network of a family with random weights, blocks of 4."""

    def build(family: Family) -> Network:
        blocks = {"bd_size" if family is fast_dllm.FAMILY else "block_size": 4}
        made = family.build(SIZES | blocks | (EXPERTS if family is llada2.FAMILY else {}))
        generator = torch.Generator().manual_seed(0)
        for parameter in made.requires_grad_(False).parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3, generator=generator)
        return made

    return build


@pytest.mark.parametrize("family", [llada2.FAMILY, fast_dllm.FAMILY, a2d.FAMILY])
@pytest.mark.parametrize("first", [2, 9])
def test_shared_rows_equal_a_pass_for_every_block_of_each(
    network: Callable[[Family], Network], family: Family, first: int
) -> None:
    """Shifted or not, wherever blocks begin: three masks over two texts, of 20 and 17 tokens."""
    model, generator = network(family), torch.Generator().manual_seed(1)
    clean = torch.randint(40, 80, (2, 20), generator=generator)[[0, 1, 0]]
    clean[:, :8] = clean[0, :8]
    attend = torch.ones(3, 20, dtype=torch.bool)
    attend[1, 17:] = False
    masked = attend & (torch.rand(3, 20, generator=generator) < 0.5)
    masked[:, :first] = False
    rows = clean.masked_fill(masked, MASK)
    lacking = torch.tensor([2, 3, 2]) if model.answer_apart else None
    together = model.hidden_noisy_given_clean(rows, clean, attend, lacking)
    blocks = (torch.arange(20) + (0 if lacking is None else lacking[:, None])) // 4
    blocks = blocks.expand(3, -1)
    for number in range(int(blocks.max()) + 1):
        apart = model.states(torch.where(blocks < number, clean, rows), attend, lacking)
        here = attend & (blocks == number)
        assert (apart - together)[here].abs().max() <= 1e-5
