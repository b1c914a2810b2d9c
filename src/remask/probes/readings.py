"""Probes of finished answers: some tokens are masked once, and log p of them is read.

    readings = read(model, samples, [Probe.named("critical"), Probe.named("halves8")], critical=...)
    readings[0]["critical"].value("critical_mean")

Nothing is rebuilt: a pass is one forward pass, and the head runs only where a token is read (with
`forced` it runs wherever one is still masked, because the places are ranked). What is read of a
token is the mean over the passes that masked it. Means and minima, not sums, are what answers are
compared by: a sum measures their length.

Answers, probes and passes are flattened into one batch of rows; the outcome of a row does not
depend on the rows beside it (see `patterns`). Replicas of a model share the batches.

A block-causal model reads each block behind clean earlier ones, as it would have written it, in one
pass over the noisy row and the clean one together, which counts as two. `visible` needs no clean
copy, and `suffix` reads all blocks at once. Passes over one answer share its clean copy, answers to
one prompt what the model keeps of it; each counts as if it were alone. A model that sees both ways
shares nothing: the states of a prompt depend on the answer and on what is masked of it.

`visible` is DiSE (arXiv:2603.02760), a model's probability of an answer that it sees whole.

Where there is nothing to halve, `halves` reads nothing and costs nothing: an answer with one
critical token, or one whose critical tokens give one another away (`CriticalTokens`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, Protocol, get_args

import torch
from torch import Tensor

from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.probes.forced import forced_path
from remask.probes.patterns import SUFFIX_BLOCK, ProbeBatch, ProbePass, masks, passes_of, reads
from remask.probes.settings import Probe, Which
from remask.sampling.batches import check_sample, spread, whole_canvas, whole_rows
from remask.sampling.likelihood import log_likelihood
from remask.settings import unknown_name
from remask.values import Sample

Critical = Callable[[Sample], Sequence[bool]]  # of each response token


@dataclass(frozen=True, kw_only=True)
class CriticalTokens:
    """Says of each response token whether it decides the answer, and whether halves of them tell.

    The words of options recur in an answer: where half of them is seen, the rest can be read off.
    """

    mark: Critical
    is_halved: bool = True  # as it is of a plain function

    def __call__(self, sample: Sample) -> Sequence[bool]:
        """Return which tokens are critical, (num_response,)."""
        return self.mark(sample)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one probe read of one answer."""

    logp: tuple[float | None, ...]  # per response token, natural; None: no pass read it
    critical: tuple[bool, ...]  # per response token
    forwards: int

    def value(self, which: Which) -> float | None:
        """Return the mean or the minimum of log p over critical tokens or over the response.

        Where no critical token was read, because there is none or none was masked, those that were
        read stand in for them; None where none was.
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
    """One row of the flat batch, brought back to the CPU."""

    logp: Tensor  # (num_response,) 0 where not read
    read: Tensor  # (num_response,) bool
    forwards: int


def read(
    denoiser: Denoiser,
    samples: Sequence[Sample],
    probes: Sequence[Probe],
    *,
    critical: Critical,
    seed: int = 0,
) -> list[dict[str, Reading]]:
    """Return what each probe reads of each answer, by the names of the probes.

    Args:
        denoiser: that wrote the answers, or another.
        samples: finished answers.
        probes: what is masked.
        critical: says of each response token whether it decides the answer.
        seed: of the masks that are drawn.
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
            added = passes_of(denoiser, sample, probe, targets, seed)
            rows += added
            owners += [(i, probe.name)] * len(added)

    def go(replica: Denoiser, batch: list[int]) -> list[PassOutput]:
        return make_passes(replica, [rows[k] for k in batch])

    outputs: dict[tuple[int, str], dict[int, PassOutput]] = {}
    for batch, made in spread(denoiser, _batches(denoiser, rows), go):
        for k, output in zip(batch, made, strict=True):
            outputs.setdefault(owners[k], {})[k] = output
    return [_by_probe(i, probes, outputs, marked) for i, marked in enumerate(marks)]


def _marks(denoiser: Denoiser, sample: Sample, critical: Critical) -> tuple[bool, ...]:
    """Return which tokens of an answer that the model can hold are critical, (num_response,)."""
    check_sample(denoiser, sample)
    marked = tuple(map(bool, critical(sample)))
    if len(marked) != sample.num_response:
        raise SettingsError(
            f"critical says of {len(marked)} tokens whether they are, and the response has "
            f"{sample.num_response}; return one for each."
        )
    return marked


def _by_probe(
    number: int,
    probes: Sequence[Probe],
    outputs: dict[tuple[int, str], dict[int, PassOutput]],
    critical: tuple[bool, ...],
) -> dict[str, Reading]:
    """Return the readings of one answer, passes in their order."""
    readings = {}
    for probe in probes:
        rows = outputs.get((number, probe.name), {})
        readings[probe.name] = _reading([rows[k] for k in sorted(rows)], critical)
    return readings


def _reading(outputs: Sequence[PassOutput], critical: tuple[bool, ...]) -> Reading:
    if not outputs:
        return Reading(logp=(None,) * len(critical), critical=critical, forwards=0)
    times = torch.stack([output.read for output in outputs]).sum(0).tolist()  # (num_response,)
    total = torch.stack([output.logp for output in outputs]).double().sum(0).tolist()
    return Reading(
        logp=tuple(x / n if n else None for x, n in zip(total, times, strict=True)),
        critical=critical,
        forwards=sum(output.forwards for output in outputs),
    )


def _batches(denoiser: Denoiser, rows: Sequence[ProbePass]) -> Iterator[list[int]]:
    """Yield indices of rows that go through the model together; those of a path are in step."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for k, row in enumerate(rows):
        steps = row.probe.passes if row.probe.pattern == "forced" else 0
        is_plain = row.probe.pattern == "visible" or denoiser.block_size is None
        groups.setdefault((steps, is_plain), []).append(k)
    for (_, is_plain), group in groups.items():
        samples = [rows[k].sample for k in group]
        lengths = [len(s.prompt) + len(whole_canvas(denoiser, s)) for s in samples]
        columns = [length if is_plain else 2 * length for length in lengths]
        for batch in whole_rows(columns, denoiser.device):
            yield [group[k] for k in batch]


class Priced(Protocol):
    """What decides how many passes a probe takes: a model, or what is known of one."""

    @property
    def block_size(self) -> int | None:
        """Of a block-causal model; None for others."""
        ...

    @property
    def forwards_per_call(self) -> int:
        """What one call of `hidden` counts."""
        ...


def price(model: Priced, probe: Probe, length: int) -> int:
    """Return the most forward passes that a probe takes of an answer on a canvas of `length`."""
    steps = probe.passes
    if probe.pattern == "forced" and model.block_size is not None:
        steps = min(steps, model.block_size)
    elif probe.pattern == "suffix" and model.block_size is None:
        steps = -(-length // SUFFIX_BLOCK)
    return steps * _pass_price(model, probe)


def _pass_price(model: Priced, probe: Probe) -> int:
    """Return what one pass counts: a block-causal model reads the row and its clean copy."""
    twice = model.block_size is not None and probe.pattern != "visible"
    return model.forwards_per_call * (2 if twice else 1)


@torch.no_grad()
def make_passes(denoiser: Denoiser, rows: Sequence[ProbePass]) -> list[PassOutput]:
    """Make the passes of one batch: of `forced` alone, or of other patterns."""
    batch = ProbeBatch.of(denoiser, rows)
    pattern, canvas = rows[0].probe.pattern, batch.canvas
    cost = _pass_price(denoiser, rows[0].probe)
    if pattern == "forced":
        path = forced_path(denoiser, canvas, rows[0].probe.passes)
        logp, is_read, spent = path.logp, batch.response, (path.steps * cost).tolist()
    else:
        masked = masks(batch)
        is_read, spent = reads(batch, masked, denoiser.block_size), [cost] * len(rows)
        is_shown = pattern == "visible" and denoiser.block_size is not None
        logp = log_likelihood(denoiser, canvas, None if is_shown else masked, is_read)
    logp, is_read = logp.cpu(), is_read.cpu()
    outputs = []
    for i, row in enumerate(rows):
        start = len(row.sample.prompt)
        here = slice(start, start + row.sample.num_response)
        outputs.append(PassOutput(logp[i, here], is_read[i, here], spent[i]))
    return outputs
