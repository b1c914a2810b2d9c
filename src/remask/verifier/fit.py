"""Features of answers with labels -> a verifier in stages. No torch.

Stages are in order of price: what is known for nothing with the cheapest probes, then those of the
next price together, round trips at last. A stage of its own for what is known for nothing settled
answers that one more pass would have told apart (docs/LOG.md). Each is drawn towards the plain mean
of the label-free values so far.
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

FREE = (GENERATION, "length", "critical_count")  # no trace: an answer at hand has none
_PRICE = ".forwards"  # how the name of what a probe cost ends
Answers = Sequence[Mapping[str, float | None]]  # the features of each


def fit_verifier(answers: Answers, right: ArrayLike, provenance: Provenance) -> StagedVerifier:
    """Return the verifier in stages that answers with labels give.

    Args:
        answers: the features of each, by the names of `columns`.
        right: the labels.
        provenance: of the answers; its metrics become the columns that are looked at.
    """
    stages = stages_of(answers)
    names = dict.fromkeys(name for stage in stages for name in (*stage.columns, *stage.base))
    return fit_stages(stages, right, replace(provenance, metrics=tuple(names)))


def stages_of(answers: Answers) -> list[Stage]:
    """Return what each stage adds; one whose label-free value no answer has is left out."""
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
    """Return what features of these names are of, a stage after another.

    `prices` are the most that probes cost an answer, where that is more than their names say.
    """
    dotted = [name for name in sorted(names) if "." in name]
    ranks = {name: _rank(name, prices.get(name, 0)) for name in probes_in(dotted)}
    ranked = sorted(ranks, key=lambda name: ranks[name])
    probes = [tuple(group) for _, group in groupby(ranked, key=lambda name: ranks[name][0])]
    first, rest = (probes[0], probes[1:]) if probes else ((), [])
    trips = [(ROUNDTRIPS,)] if needs_round_trips(dotted) else []
    return [(*FREE, *first), *rest, *trips]


def _rank(probe: str, spent: float) -> tuple[float, int]:
    """Return the price of a probe, and its place among those of one price.

    One that answers may do without, or with less of, has the price of those that need it all.
    """
    place = LABEL_FREE.index(probe) if probe in LABEL_FREE else len(LABEL_FREE)
    return max(spent, Probe.named(probe).passes), place


def _price(features: Mapping[str, float | None], source: str) -> float:
    """Return what a source cost: as recorded, or as the name of the probe says."""
    spent = features.get(f"{source}{_PRICE}")
    if spent is not None:
        return spent
    return float(sum(Probe.named(name).passes for name in probes_in([source])))


def _column(answers: Answers, name: str) -> Column:
    return [lookup(name, features) for features in answers]
