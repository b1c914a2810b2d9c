"""The paper's claims against the figures: each holds here, does not, or cannot be told.

A claim about one study holds where its interval is beyond the bound on the claimed side, and fails
where it is beyond it on the other. Two numbers that were not measured in pairs are compared by
their intervals: where these overlap, nothing is told, which is on the careful side. A claim about
all studies holds where it holds on each, and fails where it fails on one.

Of trainings the unit is a run: an interval that resamples problems and takes a few runs as given
tells nothing of the next one, so no claim holds or fails by it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from remask.analysis.figure import Figure
from studies.paper import published

MAIN = "wordmath-hard"  # the study of the curves, and of figures that are named without one
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
GIVEN = "the interval takes the runs as given"
LOW = max(published.SPEARMAN)  # the paper calls its correlations with confidence uniformly low
FIFTH = 0.2 + 1e-9  # of the forwards of ten samples; a fifth itself is at most a fifth
# The paper calls its 0.002 and 0.006 of AUROC from 16 steps to 64 and 128 saturated.
MARGIN = 0.01
Figures = Mapping[str, Figure]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A claim that one figure of every study is beyond a bound."""

    study: str
    claim: str
    source: str
    name: str  # of the figure, with {} for the study
    bound: float = 0.0
    is_above: bool = True

    def judge(self, figures: Figures) -> dict[str, bool | None]:
        """Return by study whether it holds; None where the interval does not tell."""
        found = by_study(self.name, figures)
        return {
            study: side(*figure.ends, self.bound, is_above=self.is_above)
            for study, figure in found.items()
        }


@dataclass(frozen=True, kw_only=True)
class Trained(Bound):
    """A claim about trainings: the interval has to be one over runs."""

    study: str = "alignment"

    def judge(self, figures: Figures) -> dict[str, bool | None]:
        """Return whether it holds; None where the runs do not tell."""
        found = by_study(self.name, figures)
        judged = super().judge(figures)
        return {study: judged[study] if is_over_runs(found[study]) else None for study in found}

    def note(self, figures: Figures) -> str:
        """Return why an interval that is there does not tell."""
        found = by_study(self.name, figures).values()
        return "" if all(map(is_over_runs, found)) else GIVEN


@dataclass(frozen=True, kw_only=True)
class Every:
    """A claim about each of so many trainings: it fails where one of them fails."""

    claim: str
    name: str  # of the figure, the share of runs of which it is true
    num: int
    study: str = "alignment"
    source: str = "not in the paper"

    def judge(self, figures: Figures) -> dict[str, bool | None]:
        """Return whether it holds; None where there are fewer runs than it speaks of."""
        return {
            study: False if figure.value < 1 else True if (figure.n or 0) >= self.num else None
            for study, figure in by_study(self.name, figures).items()
        }


@dataclass(frozen=True, kw_only=True)
class Order:
    """A claim that one figure of every study is above another."""

    study: str
    claim: str
    source: str
    higher: str
    lower: str

    def judge(self, figures: Figures) -> dict[str, bool | None]:
        """Return by study whether it holds; None where the intervals overlap."""
        higher, lower = by_study(self.higher, figures), by_study(self.lower, figures)
        judged: dict[str, bool | None] = {}
        for study in [study for study in higher if study in lower]:
            (low_a, high_a), (low_b, high_b) = higher[study].ends, lower[study].ends
            judged[study] = True if low_a > high_b else False if high_a < low_b else None
        return judged


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A claim on the curve of one setting, in terms of differences from the default."""

    claim: str
    setting: str
    below: tuple[str, ...] = ()  # values that are worse than the default
    level: tuple[str, ...] = ()  # hardly better
    above: tuple[str, ...] = ()  # better
    study: str = "ablation"
    source: str = "Table 7, Figures 3 and 4"

    def names(self) -> list[str]:
        """Return the names of the figures it looks at, with {} for the study."""
        return [self._name(x) for x in (*self.below, *self.level, *self.above)]

    def judge(self, figures: Figures) -> dict[str, bool | None]:
        """Return by study with such a curve whether it holds: in every comparison that it makes."""
        sides: dict[str, list[bool | None]] = {}
        for values, is_above, bound in (
            (self.below, False, 0.0), (self.level, False, MARGIN), (self.above, True, 0.0),
        ):  # fmt: skip
            for value in values:
                for study, figure in by_study(self._name(value), figures).items():
                    told = side(*figure.ends, bound, is_above=is_above)
                    sides.setdefault(study, []).append(told)
        return {
            study: False if False in told else None if None in told else True
            for study, told in sides.items()
        }

    def _name(self, value: str) -> str:
        return f"ablation/{{}}/{self.setting}/{value}/above_default"


Claim = Bound | Trained | Every | Order | Curve
CLAIMS: Sequence[Claim] = (
    Bound(study="diagnosis", name="diagnosis/{}/roundtrips_minus_consistency/auroc",
          claim="Round trips separate right from wrong better than self-consistency.",
          source="Tables 1 and 8"),
    Bound(study="diagnosis", name="diagnosis/{}/roundtrips_minus_agreement_same_cost/auroc",
          claim="They do so better than self-consistency at the same cost.",
          source="not in the paper"),
    Bound(study="diagnosis", name="diagnosis/{}/roundtrips_minus_confidence/auroc",
          claim="Round trips separate right from wrong better than the model's confidence.",
          source="Tables 1 and 8"),
    Bound(study="diagnosis", name="diagnosis/{}/roundtrips_minus_self_evaluation/auroc",
          claim="Round trips separate right from wrong better than the model's own judgement.",
          source="Tables 1 and 8"),
    Order(study="diagnosis", higher="diagnosis/{}/roundtrips_minus_consistency/hard/auroc",
          lower="diagnosis/{}/roundtrips_minus_consistency/easy/auroc",
          claim="The advantage over self-consistency widens as problems become harder.",
          source="Section 5.2"),
    Bound(study="diagnosis", name="diagnosis/{}/optimized_minus_baselines/auroc",
          claim="Fitted weights make the round trips better than baselines fitted likewise.",
          source="not in the paper"),
    Order(study="diagnosis", higher="carried/{}/precision", lower="diagnosis/{}/base_rate",
          claim="One threshold serves all families: what it accepts is right more often.",
          source="tau = 0.75 throughout"),
    Bound(study="correction", name="correction/{}/mgrs_minus_standard/accuracy",
          claim="Rejection sampling by round trips is right more often than one sample.",
          source="Table 2"),
    Bound(study="correction", name="correction/{}/mgrs_minus_vote3/accuracy",
          claim="It is right more often than a vote over three samples.", source="Table 2"),
    Bound(study="correction", name="correction/{}/mgrs_minus_best_of_3/accuracy",
          claim="It is right more often than the best of three samples by round trips.",
          source="Table 2"),
    Bound(study="correction", name="correction/{}/mgrs_minus_vote10/accuracy", bound=-0.01,
          claim="It is as often right as a vote over ten samples, or within a point of it.",
          source="Table 5"),
    Order(study="correction", higher="correction/{}/mgrs/eff", lower="correction/{}/vote10/eff",
          claim="Each further sample gains it more than it gains the vote over ten.",
          source="Table 5"),
    Order(study="correction", higher="correction/{}/mgrs/hard/n_avg",
          lower="correction/{}/mgrs/easy/n_avg",
          claim="It draws more samples where problems are harder.", source="Table 6"),
    Bound(study="ablation", name="ablation/{}/composite/optimized/above_uniform",
          claim="Optimized weights beat uniform ones.", source="Table 4"),
    Bound(study="ablation", name="ablation/{}/composite/with_cross_entropy/above_uniform",
          is_above=False, claim="Adding cross-entropy makes the composite worse.",
          source="Table 4"),
    Order(study="ablation", higher="ablation/{}/alone/answer_match/auroc",
          lower="ablation/{}/alone/token_accuracy/auroc",
          claim="The final answer alone beats token accuracy alone.", source="Table 4"),
    Bound(study="ablation", name="ablation/{}/without/answer_match/above_uniform",
          is_above=False, claim="Leaving the final answer out makes the composite worse.",
          source="Appendix B.3"),
    Curve(claim="mask_ratio: best at 0.9 among the paper's values.", setting="mask_ratio",
          below=("0", "0.3", "0.5", "0.7", "1")),
    Curve(claim="rebuild_steps: better up to 16 steps, beyond by less than 0.01.",
          setting="rebuild_steps", below=("4",), level=("64", "128")),
    Curve(claim="trips: better with every doubling.", setting="trips", below=("1", "2"),
          above=("8",)),
    Order(study="geometry", higher="geometry/{}/spearman", lower="geometry/{}/spearman_null",
          claim="Density rises with quality, more than shuffled metrics would make it.",
          source="Figure 5; no such control"),
    Bound(study="geometry", name="geometry/{}/density_ratio", bound=1.0,
          claim="Right answers lie where answers are denser.", source="Figure 5"),
    Order(study="geometry", higher="geometry/{}/hallucination_zone_expected",
          lower="geometry/{}/hallucination_zone",
          claim="Dense answers of low quality are fewer than under independence.",
          source="Figure 5"),
    Bound(study="geometry", name="geometry/{}/spearman_confidence", bound=LOW, is_above=False,
          claim=f"Round trips correlate weakly with confidence, at most {LOW:g} as in the paper.",
          source="Table 10"),
    Bound(study="geometry", name="geometry/{}/contraction", bound=1.0, is_above=False,
          claim="One step of denoising brings answers closer together.",
          source="Proposition 4, assumed"),
    Bound(study="spurious", name="spurious/{}/auroc", bound=0.5,
          claim="Low scores find right answers with a wrong step.", source="Figure 7"),
    Bound(study="spurious", name="spurious/{}/above_confidence",
          claim="They find them better than confidence does.", source="Appendix E.2"),
    Bound(study="spurious", name="spurious/injected/{}/{}/auroc", bound=0.5,
          claim="Low scores find flaws that were written into right solutions.",
          source="Figure 7"),
    Bound(study="cost", name="cost/{}/diagnosis_share/counted", bound=FIFTH, is_above=False,
          claim="One verified answer costs at most a fifth of ten samples.",
          source="Appendix C"),
    Trained(name="align/outcome_minus_start/accuracy",
            claim="Reinforcement by the outcome makes a model right more often.",
            source="not in the paper"),
    Trained(name="align/outcome_minus_sft/accuracy",
            claim="It does so more than fine-tuning on solutions does.", source="Table 3"),
    Trained(name="align/stable_minus_outcome/accuracy",
            claim="With the score in the reward it is right more often than by the outcome alone.",
            source="Table 3"),
    Trained(name="align/stable_minus_outcome/accuracy", bound=-0.02,
            claim="It is not less often right by two points.", source="not in the paper"),
    Trained(name="align/stable_minus_outcome/accuracy_equal_forwards", bound=-0.02,
            claim="Nor is it at equal forward passes per answer.", source="not in the paper"),
    Trained(name="align/stable_minus_outcome/right_steps",
            claim="It is then right with right steps more often.", source="Section 5.4"),
    Trained(name="align/stable_minus_placebo/right_steps",
            claim="Part of it is the score's doing: as many to each problem by lot do less.",
            source="not in the paper"),
    Trained(name="align/stable_minus_start/right_steps",
            claim="It is so more often than before training.", source="not in the paper"),
    Every(name="align/stable/held", num=12,
          claim="In 150 updates no run of twelve loses likelihood or accuracy on the way."),
    Every(name="align/long/stable/held", num=3, claim="Nor does one of three in 300 updates."),
    Trained(name="align/geometric_minus_outcome/accuracy",
            claim="The paper's reward and objective are right more often than the outcome alone.",
            source="Table 3"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is to be said of one claim, and on which studies."""

    study: str  # the section in which it stands
    claim: str
    source: str  # in the paper
    held: tuple[str, ...]
    failed: tuple[str, ...]
    undecided: tuple[str, ...]
    note: str = ""  # why it is so

    @property
    def word(self) -> str:
        """The word for all studies together."""
        return FAILS if self.failed else OPEN if self.undecided else HOLDS

    @property
    def tally(self) -> str:
        """On how many studies it holds and fails: what a single word for all of them hides."""
        held, failed, undecided = map(len, (self.held, self.failed, self.undecided))
        several = held + failed + undecided
        return f"{held} of {several} hold, {failed} fail" if several > 1 else self.note


def verdicts(figures: Figures) -> list[Verdict]:
    """Return what is to be said of every claim that the figures speak of."""
    judged = [(claim, claim.judge(figures)) for claim in CLAIMS]
    return [
        Verdict(
            study=claim.study,
            claim=claim.claim,
            source=claim.source,
            held=_where(sides, True),
            failed=_where(sides, False),
            undecided=_where(sides, None),
            note=claim.note(figures) if isinstance(claim, Trained) else "",
        )
        for claim, sides in judged
        if sides
    ]


def side(low: float, high: float, bound: float, *, is_above: bool) -> bool | None:
    """Say whether an interval is on the claimed side of a bound; None where it holds the bound."""
    if low > bound:
        return is_above
    return not is_above if high < bound else None


def is_over_runs(figure: Figure) -> bool:
    """Say whether the interval of a figure is one over trainings."""
    return figure.low is not None and "t over" in f"{figure.unit} {figure.detail}"


def by_study(name: str, figures: Figures) -> dict[str, Figure]:
    """Return the figures of a name with {} for the study, by the study."""
    pattern = re.compile(re.escape(name).replace(r"\{\}", "([^/]+)"))
    matches = {key: pattern.fullmatch(key) for key in figures}
    found = {"/".join(match.groups()): figures[key] for key, match in matches.items() if match}
    main = name.replace("geometry/{}/", "geometry/")  # its main study has no place in the names
    return found if main == name or main not in figures else {MAIN: figures[main]} | found


def _where(sides: Mapping[str, bool | None], wanted: bool | None) -> tuple[str, ...]:
    return tuple(study for study, holds in sides.items() if holds is wanted)
