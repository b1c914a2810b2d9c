"""The tokens that each pass masks and reads."""

from collections.abc import Callable, Sequence

import pytest
import torch

from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.probes.patterns import ProbeBatch, ProbePass, masks, reads
from remask.probes.settings import Probe
from remask.values import Sample

Answer = Callable[..., Sample]


def rows_of(sample: Sample, name: str, marked: str) -> list[ProbePass]:
    """Return the passes of a probe; `x` marks a target token."""
    targets, probe = tuple(letter == "x" for letter in marked), Probe.named(name)
    return [ProbePass(sample, probe, number, targets, 0) for number in range(probe.passes)]


def made(denoiser: Denoiser, rows: Sequence[ProbePass]) -> tuple[list[str], list[str]]:
    """Return what is masked and what is read on the canvas of each row, `x` where it is."""
    batch = ProbeBatch.of(denoiser, rows)
    masked = masks(batch)
    both = masked, reads(batch, masked)
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
    rows = rows_of(answer("a1b23.."), "critical", "-x-xx-")
    assert made(llada, rows) == (["-x-xx--"], ["-x-xx--"])


def test_visible_masks_nothing_and_reads_the_response(
    llada: NativeDenoiser, answer: Answer
) -> None:
    rows = rows_of(answer("ab..."), "visible", "-x-")
    assert made(llada, rows) == (["-----"], ["xxx--"])


def test_halves_are_complements_of_each_other(llada: NativeDenoiser, answer: Answer) -> None:
    """Of five tokens one half has three, the other two; in eight passes each is read four times."""
    rows = rows_of(answer("12345a.."), "halves8", "xxxxx--")
    masked, read = made(llada, rows)
    assert masked == read
    for first, second in zip(masked[::2], masked[1::2], strict=True):
        assert (first.count("x"), second.count("x")) == (3, 2)
        assert [{a, b} for a, b in zip(first[:5], second[:5], strict=True)] == [{"x", "-"}] * 5
        assert first[5:] == second[5:] == "---"
    assert len(set(masked[::2])) > 1  # pairs are drawn anew
    assert [sum(line[i] == "x" for line in masked) for i in range(5)] == [4] * 5


def test_stratified_masks_cover_the_tail_and_read_the_response(
    llada: NativeDenoiser, answer: Answer
) -> None:
    rows = rows_of(answer("a" * 29 + "." * 6), "stratified30x60", "-" * 30)
    masked, read = made(llada, rows)
    shares = torch.tensor([[letter == "x" for letter in line] for line in masked]).float().mean(0)
    assert (shares - 0.3).abs().max() < 1e-6, "every token is masked in exactly 18 of 60 passes"
    for mask, seen in zip(masked, read, strict=True):
        assert seen == mask[:30] + "-----"
        assert "x" in seen


@pytest.mark.parametrize("name", ["halves4", "stratified50x3"])
def test_a_mask_does_not_depend_on_its_company(
    llada: NativeDenoiser, answer: Answer, name: str
) -> None:
    """Nor on padding, on the order, or on the prompt's length; on the identity it does."""
    sample = answer("abcdefgh....", item="one")
    own = rows_of(sample, name, "xxxx-xx--")
    other = rows_of(answer("abc" * 9, prompt="longer", item="two"), name, "x" * 27)
    alone, together = made(llada, own)[0], made(llada, [*other, *own[::-1]])[0]
    assert together[len(other) :] == alone[::-1]
    longer = answer("abcdefgh....", prompt="longer", item="one")
    assert made(llada, rows_of(longer, name, "xxxx-xx--"))[0] == alone
    for stranger in (
        answer("abcdefgh....", item="two"),
        answer("abcdefgh....", item="one", number=1),
    ):
        assert made(llada, rows_of(stranger, name, "xxxx-xx--"))[0] != alone
    reseeded = [row._replace(seed=1) for row in own]
    assert made(llada, reseeded)[0] != alone
