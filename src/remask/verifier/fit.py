"""Fit a verifier with early exit to features of labelled answers. No torch.

Stages are in order of price: free features with the cheapest probes, then all probes of the next
price, and round trips last. A separate stage for free features decided answers too early
(docs/LOG.md). Each stage is shrunk towards the mean of the label-free values so far.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean
from types import MappingProxyType

from numpy.typing import ArrayLike

from remask.decide.columns import Column
from remask.decide.provenance import Provenance
from remask.decide.stages import Stage, StagedVerifier, fit_stages
from remask.errors import InputError
from remask.probes.settings import Probe
from remask.values import ROUNDTRIPS
from remask.verifier.columns import GENERATION, LABEL_FREE, lookup, needs_round_trips, probes_in

FREE = (GENERATION, "length", "critical_count")  # no trace: external answers have none
_PRICE = ".forwards"  # suffix of the price of a probe
Answers = Sequence[Mapping[str, float | None]]  # the features of each


def fit_verifier(answers: Answers, right: ArrayLike, provenance: Provenance) -> StagedVerifier:
    """Return a verifier fitted to labelled answers.

    Args:
        answers: features of each answer, named as in `columns`.
        right: the labels.
        provenance: of the answers; its metrics become the columns of the fit.
    """
    stages = stages_of(answers)
    names = dict.fromkeys(name for stage in stages for name in (*stage.columns, *stage.base))
    return fit_stages(stages, right, replace(provenance, metrics=tuple(names)))


def stages_of(answers: Answers) -> list[Stage]:
    """Return the stages; a stage is left out if no answer has its label-free value."""
    present = {name for one in answers for name, value in one.items() if value is not None}
    names = {name for name in present if not name.endswith(_PRICE)}
    prices = {name: max(_price(one, name) for one in answers) for name in probes_in(names)}
    stages, made = [], list[str]()
    for sources in sources_of(names, prices):
        made += sources
        columns = {name: _column(answers, name) for name in LABEL_FREE if name in made}
        base = {name: column for name, column in columns.items() if set(column) != {None}}
        if not base:
            continue
        own = sorted(name for name in names if name.partition(".")[0] in sources)
        dear = [name for name in sources if name not in FREE]
        stage = Stage(
            name="+".join(dear) or GENERATION,
            forwards=fmean(sum(_price(one, name) for name in dear) for one in answers),
            columns={name: _column(answers, name) for name in own},
            base=base,
        )
        stages.append(stage)
    if not stages:
        raise InputError("no answer has features; let probes read them.")
    return stages


def sources_of(
    names: Iterable[str], prices: Mapping[str, float] = MappingProxyType({})
) -> list[tuple[str, ...]]:
    """Return the sources of the features of each stage.

    `prices` are the maximum forward passes per probe, if above the passes in its name.
    """
    dotted = [name for name in sorted(names) if "." in name]
    ranks = {name: _rank(name, prices.get(name, 0)) for name in probes_in(dotted)}
    ranked = sorted(ranks, key=lambda name: ranks[name])
    probes = [tuple(group) for _, group in groupby(ranked, key=lambda name: ranks[name][0])]
    first, rest = (probes[0], probes[1:]) if probes else ((), [])
    trips = [(ROUNDTRIPS,)] if needs_round_trips(dotted) else []
    return [(*FREE, *first), *rest, *trips]


def _rank(probe: str, spent: float) -> tuple[float, int]:
    """Return the maximum price of a probe, and its rank among probes of the same price."""
    place = LABEL_FREE.index(probe) if probe in LABEL_FREE else len(LABEL_FREE)
    return max(spent, Probe.named(probe).passes), place


def _price(features: Mapping[str, float | None], source: str) -> float:
    """Return the recorded price of a source, or the passes in the name of the probe."""
    spent = features.get(f"{source}{_PRICE}")
    if spent is not None:
        return spent
    return float(sum(Probe.named(name).passes for name in probes_in([source])))


def _column(answers: Answers, name: str) -> Column:
    return [lookup(name, features) for features in answers]
