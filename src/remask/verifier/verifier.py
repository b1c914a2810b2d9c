"""The verifier: a score of an answer from probes, with as few forward passes as needed.

Without labels the score is the mean of the values `LABEL_FREE`: of probes and, if known, of the
token probabilities during generation. Without the generation the score has its own name,
`AT_HAND`. A budget limits the probes, in order of price.

Fitted to labelled answers (`remask fit`) the score is the probability that the answer is right. An
answer exits at the first stage whose probability is beyond the limits of the fit: `Score.stage`
names the stage, `Score.forwards` is the cost. If there were too few labels to fit, the score is the
label-free mean, it has no stage, and `Score.reason` says why.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from statistics import fmean

from remask.consistency.roundtrips import Consistency
from remask.decide.stages import FittedStage, StagedVerifier
from remask.denoisers.base import Denoiser
from remask.errors import InputError, SettingsError
from remask.probes.readings import Critical, Reading, price, read
from remask.probes.settings import Probe
from remask.settings import Seed, checked
from remask.values import ROUNDTRIPS, Sample, Score, skips_empty
from remask.verifier.columns import (
    GENERATION,
    LABEL_FREE_PROBES,
    VERIFIER,
    VERSION,
    Features,
    lookup,
    needs_round_trips,
    probes_in,
    score_name,
    value_of,
)
from remask.verifier.features import generation_features, probe_features, round_trip_features
from remask.verifier.origin import canvas_length


@dataclass(kw_only=True)
class Examination:
    """One answer and its features so far."""

    sample: Sample
    features: Features
    readings: dict[str, Reading] = field(default_factory=dict)
    forwards: int = 0

    def take(self, readings: Mapping[str, Reading]) -> None:
        """Add the readings of probes and their cost."""
        self.readings |= readings
        self.features |= probe_features(readings)
        self.forwards += sum(reading.forwards for reading in readings.values())

    @property
    def logp(self) -> tuple[float | None, ...]:
        """Mean log p of every response token over the probes that read it."""
        return tuple(map(_mean, zip(*(r.logp for r in self.readings.values()), strict=True)))

    @property
    def values(self) -> dict[str, float]:
        """The value of the generation, where it is known, and of each probe, in 0..1."""
        made = {name: value_of(name, self.features) for name in (GENERATION, *self.readings)}
        return {name: value for name, value in made.items() if value is not None}


@checked
@dataclass(frozen=True, kw_only=True, eq=False)
class Verifier:
    """Label-free or fitted verifier as a `Scorer`."""

    denoiser: Denoiser
    extract: Callable[[str], str | None]
    critical: Critical  # marks the response tokens that decide the answer
    fitted: StagedVerifier | None = None  # None: label-free
    roundtrips: Consistency | None = None  # required if the fit uses round trips
    budget: int | None = None  # maximum forward passes per answer
    seed: Seed = 0
    name: str = VERIFIER

    def __post_init__(self) -> None:
        """Raise if the budget is below the first stage, or if round trips are missing."""
        if self.fitted is None:
            self._affordable()
            return
        least = self.length or 1  # of a canvas
        num = self._num_stages(self.fitted, 0, least)
        if num == 0:
            raise SettingsError(self._no_room(self.fitted, 0, least))
        stages = self.fitted.stages[:num]
        needed = {name for stage in stages for name in stage.regression.needed}
        if self.roundtrips is None and needs_round_trips(needed):
            raise SettingsError(
                "the verifier was fitted to round trips too; give it their scorer, or a budget "
                "without them."
            )

    @property
    def threshold(self) -> float | None:
        """The threshold of the fit; None if label-free."""
        return None if self.fitted is None else self.fitted.threshold

    @property
    def length(self) -> int | None:
        """The canvas length of the answers of the fit; None if label-free."""
        return canvas_length(self.fitted)

    @skips_empty
    def score(self, samples: Sequence[Sample]) -> list[Score]:
        """Return one score per sample."""
        other = [len(s.canvas) for s in samples if len(s.canvas) != (self.length or len(s.canvas))]
        if other:
            raise InputError(
                f"an answer stands on a canvas of {other[0]} tokens, and the verifier was fitted "
                f"to ones of {self.length}; put it on such a one, or use the label-free verifier."
            )
        decode = self.denoiser.tokenizer.decode
        cases = [
            Examination(
                sample=sample,
                features=generation_features(sample, self.critical, decode, self.extract),
            )
            for sample in samples
        ]
        if self.fitted is not None:
            return self._in_stages(cases, self.fitted)
        self._probe(cases, self._affordable())
        return [
            self._label_free(case, fmean(case.values.values()), tuple(case.values))
            for case in cases
        ]

    def _label_free(
        self, case: Examination, mean: float, names: Sequence[str], reason: str = ""
    ) -> Score:
        """Return the label-free score, the mean of the values with these names."""
        scorer = score_name(self.name, at_hand=GENERATION not in names)
        share = 1 / max(1, len(names))
        weights = {name: share if name in names else 0.0 for name in case.values} if names else {}
        return replace(self._score(case, mean), scorer=scorer, weights=weights, reason=reason)

    def _in_stages(self, cases: Sequence[Examination], fitted: StagedVerifier) -> list[Score]:
        """Run the fitted stages; decided answers leave the batch."""
        scores: dict[int, Score] = {}
        rows = [(len(case.sample.prompt), len(case.sample.canvas)) for case in cases]
        last = [self._num_stages(fitted, *row) - 1 for row in rows]
        if -1 in last:
            raise InputError(self._no_room(fitted, *rows[last.index(-1)]))
        left = list(range(len(cases)))
        for number, stage in enumerate(fitted.stages):
            if not left:
                break
            here = [cases[i] for i in left]
            self._measure(here, stage.regression.needed)
            columns = {
                name: [lookup(name, case.features) for case in here]
                for name in stage.regression.names
            }
            probabilities, settled = fitted.decide(number, columns)
            for i, probability, is_settled in zip(left, probabilities, settled, strict=True):
                if is_settled or number == last[i]:
                    scores[i] = self._settled(cases[i], probability, stage)
            left = [i for i in left if i not in scores]
        return [scores[i] for i in range(len(cases))]

    def _settled(self, case: Examination, value: float, stage: FittedStage) -> Score:
        """Return the score of an answer that is decided at this stage."""
        fit = stage.regression
        if not fit.reason:
            return self._score(case, value, stage.name)
        names = tuple(name for name in fit.base if name in case.values)
        return self._label_free(case, value, names, fit.reason)

    def _measure(self, cases: Sequence[Examination], names: Sequence[str]) -> None:
        """Compute the features that these columns need."""
        known = cases[0].readings
        self._probe(cases, [name for name in probes_in(names) if name not in known])
        is_missing = needs_round_trips(names) and not needs_round_trips(cases[0].features)
        if self.roundtrips is None or not is_missing:
            return
        scores = self.roundtrips.score([case.sample for case in cases])
        for case, score in zip(cases, scores, strict=True):
            case.features |= round_trip_features(score)
            case.forwards += score.forwards

    def _probe(self, cases: Sequence[Examination], names: Sequence[str]) -> None:
        if not names:
            return
        probes, samples = list(map(Probe.named, names)), [case.sample for case in cases]
        readings = read(self.denoiser, samples, probes, critical=self.critical, seed=self.seed)
        for case, by_name in zip(cases, readings, strict=True):
            case.take(by_name)

    def _num_stages(self, fitted: StagedVerifier, num_prompt: int, length: int) -> int:
        """Return the number of stages within the budget for any answer on such a canvas."""
        if self.budget is None:
            return len(fitted.stages)
        return sum(most <= self.budget for most in self._most(fitted, num_prompt, length))

    def _most(self, fitted: StagedVerifier, num_prompt: int, length: int) -> Iterator[float]:
        """Yield the maximum cost of an answer up to each stage.

        The prices in the fit are means over its answers, and may be lower.
        """
        spent, made = 0.0, set[str]()
        for stage in fitted.stages:
            needed = stage.regression.needed
            new = {*probes_in(needed), *([ROUNDTRIPS] if needs_round_trips(needed) else [])} - made
            made |= new
            if ROUNDTRIPS in new:
                trips = self.roundtrips  # without them the verifier is refused
                spent += stage.forwards if trips is None else trips.price(num_prompt, length)
            probes = map(Probe.named, new - {ROUNDTRIPS})
            spent += sum(price(self.denoiser, probe) for probe in probes)
            yield spent

    def _no_room(self, fitted: StagedVerifier, num_prompt: int, length: int) -> str:
        least = next(self._most(fitted, num_prompt, length))
        return (
            f"a budget of {self.budget} forwards has no room for stage {fitted.stages[0].name}; "
            f"give at least {least:g} with --max-forwards (budget= in Python)."
        )

    def _affordable(self) -> list[str]:
        """Return the label-free probes within the budget."""
        probes = LABEL_FREE_PROBES
        if self.budget is None:
            return list(probes)
        prices = [price(self.denoiser, Probe.named(name)) for name in probes]
        room = [
            name
            for name, spent in zip(probes, accumulate(prices), strict=True)
            if spent <= self.budget
        ]
        if not room:
            raise SettingsError(
                f"a budget of {self.budget} forwards has no room for the probe {probes[0]}; "
                f"give at least {prices[0]} with --max-forwards (budget= in Python)."
            )
        return room

    def _score(self, case: Examination, value: float, stage: str = "") -> Score:
        return Score(
            value=value,
            by_metric=case.values,
            logp=case.logp,
            forwards=case.forwards,
            stage=stage,
            scorer=self.name,
            version=VERSION,
        )


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return fmean(present) if present else None
