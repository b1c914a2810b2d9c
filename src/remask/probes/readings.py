"""Probes of finished answers: mask tokens and read their log-probabilities.

    readings = read(model, samples, [Probe.named("critical"), Probe.named("halves8")], critical=...)
    readings[0]["critical"].value("critical_mean")

A pass is one forward pass. The head runs only on tokens that are read. The log-probability of a
token is the mean over the passes that masked it. Answers are compared by means and minima, because
a sum depends on the length.

Answers, probes and passes are flattened into one batch of rows, and no row depends on the others.
Replicas of a model share the batches.

A block-causal model reads each block after the clean blocks before it. One pass over the noisy row
and its clean copy does this for all blocks; it counts as two forward passes. `visible` needs no
clean copy. Passes over one answer share its clean copy but are charged separately.

`visible` is DiSE (arXiv:2603.02760): the probability of an answer that the model sees unmasked.

`halves` reads nothing and costs nothing if an answer has only one critical token, or if its
critical tokens reveal one another (`CriticalTokens.is_halved`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, Protocol, get_args

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.probes.patterns import ProbeBatch, ProbePass, masks, reads
from remask.probes.settings import Probe, Which
from remask.sampling.batches import check_sample, spread, whole_canvas, whole_rows
from remask.sampling.likelihood import log_likelihood
from remask.settings import unknown_name
from remask.values import Sample

Critical = Callable[[Sample], Sequence[bool]]  # of each response token


@dataclass(frozen=True, kw_only=True)
class CriticalTokens:
    """Marks the response tokens that decide the answer.

    `is_halved` is false if the critical tokens reveal one another, like the words of an option
    that the answer repeats.
    """

    mark: Critical
    is_halved: bool = True

    def __call__(self, sample: Sample) -> Sequence[bool]:
        """Return which tokens are critical, (num_response,)."""
        return self.mark(sample)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Log-probabilities that one probe read of one answer."""

    logp: tuple[float | None, ...]  # per response token, natural; None: no pass masked it
    critical: tuple[bool, ...]  # per response token
    forwards: int

    def value(self, which: Which) -> float | None:
        """Return the mean or minimum of log p over the critical tokens or the response.

        Falls back to all tokens read if no critical token was read; None if no token was.
        """
        if which not in get_args(Which):
            raise unknown_name("reading", which, get_args(Which))
        every = [logp for logp in self.logp if logp is not None]
        pairs = zip(self.logp, self.critical, strict=True)
        critical = [logp for logp, is_critical in pairs if is_critical and logp is not None]
        values = critical if critical and which.startswith("critical") else every
        if not values:
            return None
        return fmean(values) if which.endswith("mean") else min(values)


class PassOutput(NamedTuple):
    """One row of the flat batch, on the CPU."""

    logp: Tensor  # (num_response,) 0 where not read
    read: Tensor  # (num_response,) bool


def read(
    denoiser: Denoiser,
    samples: Sequence[Sample],
    probes: Sequence[Probe],
    *,
    critical: Critical,
    seed: int = 0,
) -> list[dict[str, Reading]]:
    """Return the readings of each answer by the name of the probe.

    Args:
        denoiser: model that reads the answers; it need not have written them.
        samples: finished answers.
        probes: mask patterns.
        critical: marks the response tokens that decide the answer.
        seed: of the random masks.
    """
    marks = [_marks(denoiser, sample, critical) for sample in samples]
    is_halved = not isinstance(critical, CriticalTokens) or critical.is_halved
    rows: list[ProbePass] = []
    owners: list[tuple[int, str]] = []  # the answer and the probe of each row
    for i, (sample, marked) in enumerate(zip(samples, marks, strict=True)):
        targets = marked if any(marked) else (True,) * len(marked)
        for probe in dict.fromkeys(probes):
            if probe.pattern == "halves" and not (is_halved and sum(targets) > 1):
                continue
            numbers = range(probe.passes)
            rows += [ProbePass(sample, probe, number, targets, seed) for number in numbers]
            owners += [(i, probe.name)] * probe.passes

    def run(replica: Denoiser, batch: list[int]) -> list[PassOutput]:
        return _run_passes(replica, [rows[k] for k in batch])

    outputs: dict[tuple[int, str], dict[int, PassOutput]] = {}
    for batch, made in spread(denoiser, _batches(denoiser, rows), run):
        for k, output in zip(batch, made, strict=True):
            outputs.setdefault(owners[k], {})[k] = output
    out = []
    for i, marked in enumerate(marks):
        by_row = {probe: outputs.get((i, probe.name), {}) for probe in probes}
        out.append(
            {
                probe.name: _reading(denoiser, probe, [made[k] for k in sorted(made)], marked)
                for probe, made in by_row.items()
            }
        )
    return out


def _marks(denoiser: Denoiser, sample: Sample, critical: Critical) -> tuple[bool, ...]:
    check_sample(denoiser, sample)
    marked = tuple(map(bool, critical(sample)))
    if len(marked) != sample.num_response:
        raise SettingsError(
            f"critical must return one value for each of {sample.num_response} response tokens, "
            f"got {len(marked)}."
        )
    return marked


def _reading(
    denoiser: Denoiser, probe: Probe, outputs: Sequence[PassOutput], critical: tuple[bool, ...]
) -> Reading:
    if not outputs:
        return Reading(logp=(None,) * len(critical), critical=critical, forwards=0)
    times = torch.stack([output.read for output in outputs]).sum(0).tolist()  # (num_response,)
    total = torch.stack([output.logp for output in outputs]).double().sum(0).tolist()
    return Reading(
        logp=tuple(x / n if n else None for x, n in zip(total, times, strict=True)),
        critical=critical,
        forwards=price(denoiser, probe),
    )


def _batches(denoiser: Denoiser, rows: Sequence[ProbePass]) -> Iterator[list[int]]:
    """Yield the indices of rows that go through the model together."""
    groups: dict[bool, list[int]] = {}
    for k, row in enumerate(rows):
        groups.setdefault(_needs_clean_copy(denoiser, row.probe), []).append(k)
    for has_copy, group in groups.items():
        samples = [rows[k].sample for k in group]
        lengths = [len(s.prompt) + len(whole_canvas(denoiser, s)) for s in samples]
        columns = [2 * length if has_copy else length for length in lengths]
        for batch in whole_rows(columns, denoiser.device):
            yield [group[k] for k in batch]


class Priced(Protocol):
    """The attributes of a model that determine the price of a probe."""

    @property
    def block_size(self) -> int | None:
        """Block size of a block-causal model; None for others."""
        ...

    @property
    def forwards_per_call(self) -> int:
        """Forward passes of one call of `hidden`."""
        ...


def price(model: Priced, probe: Probe) -> int:
    """Return the maximum number of forward passes of a probe per answer."""
    return probe.passes * model.forwards_per_call * (2 if _needs_clean_copy(model, probe) else 1)


def _needs_clean_copy(model: Priced, probe: Probe) -> bool:
    return model.block_size is not None and probe.pattern != "visible"


@torch.no_grad()
def _run_passes(denoiser: Denoiser, rows: Sequence[ProbePass]) -> list[PassOutput]:
    batch = ProbeBatch.of(denoiser, rows)
    masked = masks(batch)
    is_read = reads(batch, masked)
    is_shown = denoiser.block_size is not None and rows[0].probe.pattern == "visible"
    logp = log_likelihood(denoiser, batch.canvas, None if is_shown else masked, is_read).cpu()
    is_read = is_read.cpu()
    outputs = []
    for i, row in enumerate(rows):
        start = len(row.sample.prompt)
        response = slice(start, start + row.sample.num_response)
        outputs.append(PassOutput(logp[i, response], is_read[i, response]))
    return outputs
