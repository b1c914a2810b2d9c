"""What probes read: by hand, pattern by pattern, and at what price."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from wrapped import Twice

from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.wrap import Counted, Wrapped
from remask.errors import DenoiserError, InputError, SettingsError
from remask.probes.marks import mark_critical
from remask.probes.patterns import ProbeBatch, ProbePass, masks
from remask.probes.readings import Critical, CriticalTokens, Reading, read
from remask.probes.settings import Probe
from remask.testing import tiny_tokenizer
from remask.values import Sample

Answer = Callable[..., Sample]
Knowing = Callable[[Sample, Callable[[int, int], float]], Denoiser]


@pytest.fixture
def probed(digits: Critical) -> Callable[..., dict[str, Reading]]:
    """Read one answer, its digits critical."""

    def one(model: Denoiser, sample: Sample, *names: str) -> dict[str, Reading]:
        return read(model, [sample], [Probe.named(name) for name in names], critical=digits)[0]

    return one


Probed = Callable[..., dict[str, Reading]]


def chances(reading: Reading) -> list[float | None]:
    return [None if logp is None else math.exp(logp) for logp in reading.logp]


def reading(logp: Sequence[float | None], critical: str = "") -> Reading:
    marks = tuple(letter == "x" for letter in critical.ljust(len(logp)))
    return Reading(logp=tuple(logp), critical=marks, forwards=1)


def test_a_reading_is_a_mean_or_a_minimum_of_what_was_read() -> None:
    """Critical are -1 and -3, and one that was never read; the response has -0.5 beside them."""
    one = reading([-1.0, None, -0.5, -3.0], "xx-x")
    assert one.value("critical_mean") == -2.0
    assert one.value("critical_min") == -3.0
    assert one.value("response_mean") == -1.5
    assert one.value("response_min") == -3.0


def test_where_no_critical_token_was_read_the_response_stands_in() -> None:
    for one in (reading([-1.0, -2.0, None]), reading([-1.0, -2.0, None], "--x")):
        assert one.value("critical_mean") == -1.5
        assert one.value("critical_min") == -2.0


def test_another_reading_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"critical_sum'\. Did you mean 'critical_m"):
        reading([-1.0]).value("critical_sum")  # type: ignore[arg-type]


def test_critical_tokens_are_masked_together_and_halves_apart(
    knowing: Knowing, answer: Answer, probed: Probed
) -> None:
    """Digits have .8 and .4 where one of them is masked, half of it where both are."""
    sample = answer("a12.")
    model = knowing(sample, lambda i, n: (0.5, 0.8, 0.4, 0.5)[i] / n)
    readings = probed(model, sample, "critical", "halves4")
    together, apart = readings["critical"], readings["halves4"]
    assert together.critical == apart.critical == (False, True, True, False)
    assert chances(together) == [None, pytest.approx(0.4), pytest.approx(0.2), None]
    assert chances(apart) == [None, pytest.approx(0.8), pytest.approx(0.4), None]
    assert together.value("critical_mean") == pytest.approx(math.log(0.08) / 2)
    assert together.value("critical_mean") == together.value("response_mean")
    assert (together.forwards, apart.forwards) == (1, 4)


def test_a_single_critical_token_has_no_halves(
    knowing: Knowing, answer: Answer, probed: Probed
) -> None:
    sample = answer("ab7.")
    model = Counted(knowing(sample, lambda i, n: 0.9 / n))
    both = probed(model, sample, "halves8", "critical")
    assert chances(both["critical"]) == [None, None, pytest.approx(0.9), None]
    assert chances(both["halves8"]) == [None] * 4
    assert both["halves8"].value("critical_min") is None
    assert (both["critical"].forwards, both["halves8"].forwards, model.forwards) == (1, 0, 1)


def test_tokens_that_give_one_another_away_are_not_halved(
    knowing: Knowing, answer: Answer, digits: Critical
) -> None:
    """Those of a choice: where half of an option's words is seen, the rest can be read off."""
    sample = answer("a12.")
    model = knowing(sample, lambda i, n: 0.9 / n)
    probes = [Probe.named("critical"), Probe.named("halves4")]
    offered = CriticalTokens(mark=digits, is_halved=False)
    [readings] = read(model, [sample], probes, critical=offered)
    assert readings["halves4"].forwards == 0
    assert chances(readings["critical"]) == [None, *[pytest.approx(0.45)] * 2, None]
    tokens = mark_critical(tiny_tokenizer(), {}, extract=lambda text: None, kind="choice")
    assert not tokens.is_halved
    assert mark_critical(tiny_tokenizer(), {}, extract=lambda text: None).is_halved


def test_an_answer_without_critical_tokens_is_read_whole(
    knowing: Knowing, answer: Answer, probed: Probed
) -> None:
    """`ab.`: three tokens masked, the tail in sight. Token i has (i + 1) / 4 over the masks.

    All at once: 1/12, 2/12, 3/12. In halves of two and one: over 2 where it stands with another.
    """
    sample = answer("ab...")
    model = knowing(sample, lambda i, n: (i + 1) / 4 / n)
    readings = probed(model, sample, "critical", "halves2")
    assert readings["critical"].critical == (False, False, False)
    assert chances(readings["critical"]) == pytest.approx([1 / 12, 2 / 12, 3 / 12])
    value = readings["critical"].value("critical_mean")
    assert value == pytest.approx(math.log(6 / 12**3) / 3)
    assert value == readings["critical"].value("response_mean")
    shares = [(i + 1) / 4 / c for i, c in enumerate(chances(readings["halves2"])) if c is not None]
    assert sorted(shares) == pytest.approx([1, 2, 2])


def test_visible_tokens_are_read_as_they_stand(
    knowing: Knowing, answer: Answer, probed: Probed
) -> None:
    sample = answer("a1...")
    model = Counted(knowing(sample, lambda i, n: (0.9, 0.6, 0.3, 0.2, 0.2)[i] / (1 + n)))
    seen = probed(model, sample, "visible")["visible"]
    assert chances(seen) == pytest.approx([0.9, 0.6, 0.3])
    assert seen.value("critical_mean") == pytest.approx(math.log(0.6))
    assert (seen.forwards, model.forwards) == (1, 1)


def test_readings_are_averaged_over_the_passes_that_masked_a_token(
    knowing: Knowing, answer: Answer, probed: Probed
) -> None:
    """A token's log p is -n under n masks, so the mean shows in which passes it was read."""
    sample = answer("abc1d.....")
    model = knowing(sample, lambda i, n: math.exp(-n))
    probe = Probe.named("stratified60x5")
    rows = [ProbePass(sample, probe, number, (False,) * 6, 0) for number in range(5)]
    masked = masks(ProbeBatch.of(model, rows))[:, 1:]  # (5, 10)
    counts = masked.sum(1, keepdim=True)  # (5, 1)
    means = -(masked * counts).sum(0) / masked.sum(0)  # (10,) 0 / 0: no pass masked it
    drawn = probed(model, sample, probe.name)[probe.name]
    logp = [math.nan if x is None else x for x in drawn.logp]
    assert logp == pytest.approx(means[:6].tolist(), abs=1e-4, nan_ok=True)
    assert drawn.forwards == 5


@dataclass(frozen=True, eq=False)
class HeadRows(Wrapped):
    """Keeps how many rows the head was asked for."""

    asked: list[int] = field(default_factory=list)

    def head(self, rows: Tensor) -> Tensor:
        self.asked.append(len(rows))
        return self.inner.head(rows)


def test_the_head_runs_where_a_token_is_read(
    llada: NativeDenoiser, answer: Answer, probed: Probed
) -> None:
    """Two digits; seven tokens of the response."""
    sample = answer("ab12cd......")
    for name, rows in (("critical", [2]), ("visible", [7])):
        model = HeadRows(llada)
        probed(model, sample, name)
        assert model.asked == rows


def test_two_passes_per_call_double_the_price(
    llada: NativeDenoiser, answer: Answer, probed: Probed
) -> None:
    names = ("critical", "halves2", "stratified50x4", "visible")
    model = Counted(Twice(llada))
    readings = probed(model, answer("ab12cd......"), *names)
    prices = [readings[name].forwards for name in names]
    assert prices == [2, 4, 8, 2]
    assert sum(prices) == model.forwards


@pytest.mark.parametrize("name", ["critical", "stratified50x1", "visible"])
def test_nan_logits_are_an_error_and_not_a_reading(
    scripted: Callable[..., Denoiser], answer: Answer, probed: Probed, name: str
) -> None:
    model = scripted(lambda canvas: torch.full((*canvas.tokens.shape, 259), torch.nan))
    with pytest.raises(DenoiserError, match="finite, got NaN"):
        probed(model, answer("a1.."), name)


def test_a_row_beyond_the_context_is_refused(
    block_causal: NativeDenoiser, answer: Answer, probed: Probed
) -> None:
    with pytest.raises(InputError, match="more than the 64"):
        probed(block_causal, answer("a" * 64), "critical")


def test_marks_must_fit_the_response(llada: NativeDenoiser, answer: Answer) -> None:
    with pytest.raises(SettingsError, match="3 response tokens, got 2"):
        read(llada, [answer("ab..")], [Probe.named("critical")], critical=lambda s: [True] * 2)
