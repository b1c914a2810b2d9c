"""What LLaDA2 keeps of earlier columns: blocks behind a cache equal those of the whole row."""

from pathlib import Path
from typing import Any

import pytest
import torch
from llada2_config import CONFIG
from torch import Tensor

import remask
from remask.consistency.roundtrips import round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Preset
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.llada2 import FAMILY
from remask.denoisers.native import NativeDenoiser, Network
from remask.errors import DenoiserError
from remask.testing import tiny_tokenizer, write_checkpoint
from remask.values import Canvas

RAGGED = torch.tensor(
    [
        [5, 126, 7, 126, 9, 99, 0, 1, 126, 3, 2, 64, 11, 12],
        [*range(40, 50), 0, 0, 0, 0],
        [*range(60, 66), *[0] * 8],
    ]
)
REAL = torch.tensor([[i < n for i in range(14)] for n in (14, 10, 6)])


def network(**changes: int) -> Network:
    """Return a LLaDA2 with random weights, norms and biases included, large enough to show."""
    found = FAMILY.build({**CONFIG, **changes}).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for name, tensor in (*found.named_parameters(), *found.named_buffers()):
        tensor.normal_(float("norm" in name), 0.3, generator=generator)
    return found


@pytest.mark.parametrize("changes", [{}, {"num_key_value_heads": 4}, {"num_key_value_heads": 1}])
@pytest.mark.parametrize("widths", [(4, 4, 4, 2), (8, 4, 2), (4, 10), (12, 2), (0, 4, 8, 2)])
def test_columns_behind_a_past_equal_those_of_the_whole_row(
    widths: tuple[int, ...], changes: dict[str, int]
) -> None:
    """Of 14, 10 and 6 tokens in blocks of 4, whichever blocks are computed together."""
    model = network(**changes)
    whole = model(RAGGED, REAL)
    cache, start = None, 0
    for width in widths:
        tokens, real = (t[:, start : start + width] for t in (RAGGED, REAL))
        if cache is not None:
            found = model.finish_last_layer(model.forward_cached(cache, tokens, real))
            apart = (found - whole[:, start : start + width]).abs()
            assert apart[real].max().item() <= 1e-5
        cache = model.extend_cache(cache, tokens, real)
        start += width
        assert cache.lengths.tolist() == [min(start, n) for n in (14, 10, 6)]


def test_rows_go_on_from_different_columns() -> None:
    """Three rows of which 8, 4 and no columns are held are shown their next four."""
    model = network()
    held = torch.tensor([[8], [4], [0]])
    cache = model.extend_cache(None, RAGGED[:, :8], torch.arange(8) < held)
    columns = held + torch.arange(4)
    found = model.forward_cached(cache, RAGGED.gather(1, columns), REAL.gather(1, columns))
    whole = model.states(RAGGED, REAL)
    assert not found.isnan().any()
    for i, start in enumerate((8, 4, 0)):
        assert (found[i] - whole[i, start : start + 4]).abs().max().item() <= 1e-5


def test_a_row_that_has_ended_holds_no_more_and_does_no_harm() -> None:
    model = network()
    cache = model.extend_cache(None, RAGGED[:, :8], REAL[:, :8])
    for _ in range(3):  # the last row ended at column 6: only padding is left of it
        cache = model.extend_cache(cache, RAGGED[:, 8:12], torch.tensor([[False] * 4] * 3))
    assert cache.lengths.tolist() == [8, 8, 6]
    found = model.forward_cached(cache, RAGGED[:, 8:12], REAL[:, 8:12])
    assert (found[0] - model.states(RAGGED, REAL)[0, 8:12]).abs().max().item() <= 1e-5


def test_looking_leaves_the_past_as_it_is() -> None:
    """A step may try many tokens for the next block before they are remembered."""
    model = network()
    cache = model.extend_cache(None, RAGGED[:, :4], None)
    first = model.forward_cached(cache, RAGGED[:, 4:8])
    model.forward_cached(cache, RAGGED[:, 8:12])
    model.forward_cached(cache, RAGGED[:, 4:14])
    assert torch.equal(model.forward_cached(cache, RAGGED[:, 4:8]), first)


def test_rows_leave_with_their_part_of_the_past() -> None:
    model = network()
    cache = model.extend_cache(None, RAGGED[:, :8], REAL[:, :8])
    left = cache.rows(torch.tensor([1]))
    together = model.forward_cached(cache, RAGGED[:, 8:12], REAL[:, 8:12])[1]
    alone = model.forward_cached(left, RAGGED[1:2, 8:10])[0]
    assert (alone - together[:2]).abs().max().item() <= 1e-5


def test_a_column_leaves_keys_and_values_of_all_layers() -> None:
    model = network()
    cache = model.extend_cache(None, RAGGED[:, :4], None)
    kept = sum(layer[0, 0].numel() for layer in cache.layers)
    heads = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    assert model.num_kept == kept == CONFIG["num_hidden_layers"] * 2 * heads


def test_a_past_grows_by_many_columns_at_a_time() -> None:
    """Blocks of 4 fill 512 columns: room for 127 of them and the next, then for twice as many."""
    model = network()
    tokens = torch.arange(1, 5).expand(1, 4)
    cache: KVCache | None = None
    rooms = []
    for _ in range(130):
        cache = model.extend_cache(cache, tokens, None)
        rooms.append(cache.room)
    assert rooms == [512] * 127 + [1024] * 3
    row = tokens.repeat(1, 131)
    assert cache is not None
    found = model.forward_cached(cache, tokens)
    assert (found - model.states(row)[:, -4:]).abs().max().item() <= 1e-5


def test_steps_of_all_blocks_have_the_shapes_of_one() -> None:
    """Compiled layers are compiled anew for every shape: here is one, for eight blocks.

    A prompt of 10 and a canvas of 30 end together with the tenth block of 4; the first two are
    read in one pass, which is not compiled.
    """
    trunk = network(max_position_embeddings=256)
    shapes, block = set(), trunk.blocks[0]

    def compiled(*args: Any) -> Tensor:
        shapes.add((args[0].shape, args[3].shape, args[4].heads.shape))
        return block._call_impl(*args)

    block._compiled_call_impl = compiled
    model = NativeDenoiser(name="llada2", model=trunk, tokenizer=tiny_tokenizer(), preset=Preset())
    text = remask.Sample(
        item="a", prompt=tuple(range(40, 50)), canvas=(9,) * 30, num_response=30, text=""
    )
    round_trips(model, [text], ConsistencySettings(trips=2, rebuild_steps=2))
    assert shapes == {((2, 4, 32), (2, 1, 1, 512), (2, 512, 4, 16))}


def test_a_model_that_sees_everything_has_no_past(tmp_path: Path) -> None:
    model = remask.load(write_checkpoint(tmp_path), device="cpu")
    canvas = Canvas.of([[5]], [[6, 7]], 0, torch.device("cpu"))
    for ask in (
        lambda: model.extend_cache(canvas),
        lambda: model.hidden_noisy_given_clean(canvas, canvas.tokens),
    ):
        with pytest.raises(DenoiserError, match=r"full attention.*hidden\(canvas\)"):
            ask()
