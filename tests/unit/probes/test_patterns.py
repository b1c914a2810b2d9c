"""Which tokens a pass masks and reads, by hand, and what that does not depend on."""

from collections.abc import Callable, Sequence

import pytest
import torch

from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.probes.patterns import ProbeBatch, ProbePass, masks, passes_of, reads
from remask.probes.settings import Probe
from remask.values import Sample

Answer = Callable[..., Sample]


def rows_of(denoiser: Denoiser, sample: Sample, name: str, marked: str) -> list[ProbePass]:
    """Return the passes of a probe; `x` marks a token that is aimed at."""
    targets = tuple(letter == "x" for letter in marked)
    return passes_of(denoiser, sample, Probe.named(name), targets, 0)


def made(denoiser: Denoiser, rows: Sequence[ProbePass]) -> tuple[list[str], list[str]]:
    """Return what is masked and what is read on the canvas of each row, `x` where it is."""
    batch = ProbeBatch.of(denoiser, rows)
    masked = masks(batch)
    both = masked, reads(batch, masked, denoiser.block_size)
    drawn = [
        [
            "".join(
                "x" if bit else "-"
                for bit in line[len(row.sample.prompt) :][: len(row.sample.canvas)]
            )
            for line, row in zip(bits.tolist(), rows, strict=True)
        ]
        for bits in both
    ]
    return drawn[0], drawn[1]


def test_critical_masks_the_critical_tokens_and_nothing_else(
    llada: NativeDenoiser, answer: Answer
) -> None:
    rows = rows_of(llada, answer("a1b23.."), "critical", "-x-xx-")
    assert made(llada, rows) == (["-x-xx--"], ["-x-xx--"])


def test_visible_masks_nothing_and_reads_the_response(
    llada: NativeDenoiser, answer: Answer
) -> None:
    rows = rows_of(llada, answer("ab..."), "visible", "-x-")
    assert made(llada, rows) == (["-----"], ["xxx--"])


def test_halves_are_complements_of_each_other(llada: NativeDenoiser, answer: Answer) -> None:
    """Of five tokens one half has three, the other two; in eight passes each is read four times."""
    rows = rows_of(llada, answer("12345a.."), "halves8", "xxxxx--")
    masked, read = made(llada, rows)
    assert masked == read
    for first, second in zip(masked[::2], masked[1::2], strict=True):
        assert (first.count("x"), second.count("x")) == (3, 2)
        assert [{a, b} for a, b in zip(first[:5], second[:5], strict=True)] == [{"x", "-"}] * 5
        assert first[5:] == second[5:] == "---"
    assert len(set(masked[::2])) > 1  # pairs are drawn anew
    assert [sum(line[i] == "x" for line in masked) for i in range(5)] == [4] * 5


@pytest.mark.parametrize("name", ["random30x60", "stratified30x60"])
def test_drawn_masks_cover_the_tail_and_read_the_response(
    llada: NativeDenoiser, answer: Answer, name: str
) -> None:
    rows = rows_of(llada, answer("a" * 29 + "." * 6), name, "-" * 30)
    masked, read = made(llada, rows)
    shares = torch.tensor([[letter == "x" for letter in line] for line in masked]).float().mean(0)
    # 60 draws at 0.3 have a standard error of 0.06; stratified ones are exactly 18 of 60.
    assert (shares - 0.3).abs().max() < (0.25 if name.startswith("random") else 1e-6)
    for mask, seen in zip(masked, read, strict=True):
        assert seen == mask[:30] + "-----"
        assert "x" in seen


def test_more_passes_go_on_where_fewer_ended(llada: NativeDenoiser, answer: Answer) -> None:
    sample = answer("abcdefgh....")
    few, many = (
        made(llada, rows_of(llada, sample, name, "-" * 9))[0]
        for name in ("random50x3", "random50x5")
    )
    assert few == many[:3]
    assert len(set(many)) == 5


def test_a_suffix_is_a_block_and_all_behind_it(llada: NativeDenoiser, answer: Answer) -> None:
    """40 letters and their end on a canvas of 80: a block of 32 and 9 tokens of another."""
    rows = rows_of(llada, answer("a" * 40 + "." * 40), "suffix", "-" * 41)
    masked, read = made(llada, rows)
    assert masked == ["x" * 80, "-" * 32 + "x" * 48]
    assert read == ["x" * 32 + "-" * 48, "-" * 32 + "x" * 9 + "-" * 39]


def test_a_model_with_blocks_reads_every_suffix_at_once(
    block_causal: NativeDenoiser, answer: Answer
) -> None:
    rows = rows_of(block_causal, answer("a" * 10 + "..", prompt="pppp"), "suffix", "-" * 11)
    assert made(block_causal, rows) == (["x" * 12], ["x" * 11 + "-"])


@pytest.mark.parametrize("name", ["halves4", "random50x3", "stratified50x3", "suffix"])
def test_a_mask_does_not_depend_on_its_company(
    llada: NativeDenoiser, answer: Answer, name: str
) -> None:
    """Nor on padding, on the order, or on the prompt's length; on the identity it does."""
    sample = answer("abcdefgh....", item="one")
    own = rows_of(llada, sample, name, "xxxx-xx--")
    other = rows_of(llada, answer("abc" * 9, prompt="longer", item="two"), name, "x" * 27)
    alone, together = made(llada, own)[0], made(llada, [*other, *own[::-1]])[0]
    assert together[len(other) :] == alone[::-1]
    longer = answer("abcdefgh....", prompt="longer", item="one")
    assert made(llada, rows_of(llada, longer, name, "xxxx-xx--"))[0] == alone
    if name != "suffix":
        for stranger in (
            answer("abcdefgh....", item="two"),
            answer("abcdefgh....", item="one", number=1),
        ):
            assert made(llada, rows_of(llada, stranger, name, "xxxx-xx--"))[0] != alone
        reseeded = [row._replace(seed=1) for row in own]
        assert made(llada, reseeded)[0] != alone
