"""The paper's claims against figures: each holds here, does not, or cannot be told.

A claim about one study holds where its interval is beyond the bound on the claimed side, and fails
where it is beyond it on the other. Two numbers that were not measured in pairs are compared by
their intervals: where these overlap, nothing is told, which is on the careful side. A claim about
all studies holds where it holds on each, and fails where it fails on one. Nothing here is typed by
hand: the numbers in a paragraph are the figures, written by the function that is given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from remask.analysis.curves import CLAIMS, Point, verdict
from remask.analysis.figures import MAIN, Figure
from remask.analysis.published import SPEARMAN
from remask.analysis.statistics import Interval
from remask.report.results_tables import names_under

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"
WORDS = {HOLDS: "Holds here.", FAILS: "Does not hold here.", OPEN: "Cannot be told."}
LOW = max(SPEARMAN)  # the paper calls its correlations with confidence uniformly low
FIFTH = 0.2 + 1e-9  # of the forwards of ten samples; a fifth itself is at most a fifth

Figures = Mapping[str, Figure]
Write = Callable[[str], str]  # the name of a figure -> how the page shows it


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is to be said of one claim."""

    study: str  # of STUDIES: under which heading it stands
    claim: str
    source: str  # of the paper
    word: str  # HOLDS, FAILS or OPEN
    details: str
    tally: str = ""  # on how many studies it holds, fails and is open

    @property
    def paragraph(self) -> str:
        """What a page says of it."""
        return f"**{self.claim}** ({self.source}) *{WORDS[self.word]}* {self.details}"


@dataclass(frozen=True, kw_only=True)
class Told:
    """One comparison."""

    where: str
    holds: bool | None
    shown: str


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A claim that one figure of every study is beyond a bound."""

    study: str
    claim: str
    source: str
    under: str  # the figures are UNDER/{study}/END
    end: str
    bound: float = 0.0
    is_above: bool = True


@dataclass(frozen=True, kw_only=True)
class Order:
    """A claim that one figure of every study is above another."""

    study: str
    claim: str
    source: str
    under: str
    higher: str
    lower: str


ALL: Sequence[Bound | Order] = (
    Bound(study="diagnosis", under="diagnosis", end="roundtrips_minus_consistency/auroc",
          claim="Round trips tell right from wrong better than self-consistency does.",
          source="Table 1, Table 8"),
    Bound(study="diagnosis", under="diagnosis",
          end="roundtrips_minus_agreement_same_cost/auroc",
          claim="They tell it better than self-consistency at the same cost.",
          source="beyond the paper, which compares with ten samples"),
    Bound(study="diagnosis", under="diagnosis", end="roundtrips_minus_confidence/auroc",
          claim="Round trips tell right from wrong better than the model's confidence does.",
          source="Table 1, Table 8"),
    Bound(study="diagnosis", under="diagnosis", end="roundtrips_minus_self_evaluation/auroc",
          claim="Round trips tell right from wrong better than the model's own judgement does.",
          source="Table 1, Table 8"),
    Order(study="diagnosis", under="diagnosis",
          higher="roundtrips_minus_consistency/hard/auroc",
          lower="roundtrips_minus_consistency/easy/auroc",
          claim="The advantage over self-consistency widens as problems become harder.",
          source="Section 5.2"),
    Bound(study="diagnosis", under="diagnosis", end="optimized_minus_baselines/auroc",
          claim="Fitted weights make the round trips better than baselines that are fitted too.",
          source="beyond the paper, whose Table 4 fits the round trips alone"),
    Order(study="diagnosis", under="", higher="carried/{}/precision",
          lower="diagnosis/{}/base_rate",
          claim="One threshold serves all families: what it accepts is right more often.",
          source="tau = 0.75 throughout"),
    Bound(study="correction", under="correction", end="mgrs_minus_standard/accuracy",
          claim="Rejection sampling by round trips is right more often than one sample.",
          source="Table 2"),
    Bound(study="correction", under="correction", end="mgrs_minus_vote3/accuracy",
          claim="It is right more often than a vote over three samples.", source="Table 2"),
    Bound(study="correction", under="correction", end="mgrs_minus_best_of_3/accuracy",
          claim="It is right more often than the best of three samples by round trips.",
          source="Table 2"),
    Bound(study="correction", under="correction", end="mgrs_minus_vote10/accuracy", bound=-0.01,
          claim="It is as often right as a vote over ten samples, or within a point of it.",
          source="Table 5"),
    Order(study="correction", under="correction", higher="mgrs/eff", lower="vote10/eff",
          claim="Each further sample gains it more than it gains the vote over ten.",
          source="Table 5"),
    Order(study="correction", under="correction", higher="mgrs/hard/n_avg",
          lower="mgrs/easy/n_avg", claim="It draws more samples where problems are harder.",
          source="Table 6"),
    Bound(study="ablation", under="ablation", end="composite/optimized/above_uniform",
          claim="Optimized weights tell more than uniform ones.", source="Table 4"),
    Bound(study="ablation", under="ablation", end="composite/with_cross_entropy/above_uniform",
          is_above=False, claim="Adding cross-entropy makes the composite worse.",
          source="Table 4"),
    Order(study="ablation", under="ablation", higher="alone/answer_match/auroc",
          lower="alone/token_accuracy/auroc",
          claim="The final answer alone tells more than token accuracy alone.",
          source="Table 4"),
    Bound(study="ablation", under="ablation", end="without/answer_match/above_uniform",
          is_above=False, claim="Leaving the final answer out makes the composite worse.",
          source="Appendix B.3"),
    Order(study="geometry", under="geometry", higher="spearman", lower="spearman_null",
          claim="Density rises with quality, more than shuffled metrics would make it.",
          source="Figure 5; the paper has no such control"),
    Bound(study="geometry", under="geometry", end="density_ratio", bound=1.0,
          claim="Right answers lie where answers are denser.", source="Figure 5"),
    Order(study="geometry", under="geometry", higher="hallucination_zone_expected",
          lower="hallucination_zone",
          claim="Dense answers of low quality are fewer than independence would make them.",
          source="Figure 5"),
    Bound(study="geometry", under="geometry", end="spearman_confidence", bound=LOW,
          is_above=False,
          claim="Round trips say something else than confidence: their correlation is low "
          f"(the paper's are {LOW:g} and less).", source="Table 10"),
    Bound(study="geometry", under="geometry", end="contraction", bound=1.0, is_above=False,
          claim="One step of denoising brings answers closer together.",
          source="Proposition 4, assumed there"),
    Bound(study="spurious", under="spurious", end="auroc", bound=0.5,
          claim="Low scores find right answers with a wrong step.", source="Figure 7"),
    Bound(study="spurious", under="spurious", end="above_confidence",
          claim="They find them better than confidence does.", source="Appendix E.2"),
    Bound(study="spurious", under="spurious/injected", end="auroc", bound=0.5,
          claim="Low scores find flaws that were written into right solutions.",
          source="Figure 7"),
    Bound(study="cost", under="cost", end="diagnosis_share/counted", bound=FIFTH,
          is_above=False,
          claim="One verified answer costs at most a fifth of ten samples.",
          source='Appendix C: "a fraction of the cost"'),
)  # fmt: skip


def verdicts(found: Figures, write: Write) -> list[Verdict]:
    """Return what is to be said of every claim that the figures speak of."""
    listed = [_judged(claim, found, write) for claim in ALL]
    listed += [_curve(setting, found, write) for setting in CLAIMS]
    kept = [told for told in listed if told is not None]
    order = list(dict.fromkeys(claim.study for claim in ALL))
    return sorted(kept, key=lambda told: order.index(told.study))


def side(low: float, high: float, bound: float, *, is_above: bool) -> bool | None:
    """Say whether an interval is on the claimed side of a bound; None where it holds the bound."""
    if low > bound:
        return is_above
    return not is_above if high < bound else None


def together(told: Sequence[bool | None]) -> str:
    """Return the word for several comparisons."""
    if False in told:
        return FAILS
    return OPEN if None in told else HOLDS


def _judged(claim: Bound | Order, found: Figures, write: Write) -> Verdict | None:
    if isinstance(claim, Bound):
        told = _bounded(claim, found, write)
    else:
        told = _ordered(claim, found, write)
    if not told:
        return None
    return Verdict(
        study=claim.study,
        claim=claim.claim,
        source=claim.source,
        word=together([each.holds for each in told]),
        details=_listed(told),
        tally=_tally(told),
    )


def _bounded(claim: Bound, found: Figures, write: Write) -> list[Told]:
    told = []
    for where, name in _places(claim.under, claim.end, found).items():
        low, high = _ends(found[name])
        holds = side(low, high, claim.bound, is_above=claim.is_above)
        told.append(Told(where=where, holds=holds, shown=write(name)))
    return told


def _ordered(claim: Order, found: Figures, write: Write) -> list[Told]:
    higher, lower = (_places(claim.under, end, found) for end in (claim.higher, claim.lower))
    told = []
    for where in higher:
        if where in lower:
            (low_a, high_a), (low_b, high_b) = (
                _ends(found[higher[where]]),
                _ends(found[lower[where]]),
            )
            holds = True if low_a > high_b else False if high_a < low_b else None
            shown = f"{write(higher[where])} against {write(lower[where])}"
            told.append(Told(where=where, holds=holds, shown=shown))
    return told


def _places(under: str, end: str, found: Figures) -> dict[str, str]:
    """Return the figure of every study, by the study."""
    if not under:
        start, _, rest = end.partition("{}")
        return _places(start.removesuffix("/"), rest.removeprefix("/"), found)
    if under == "spurious/injected":
        places = [f"{s}/{k}" for s in names_under(found, under)
                  for k in names_under(found, f"{under}/{s}")]  # fmt: skip
    else:
        places = names_under(found, under)
    named = {place: f"{under}/{place}/{end}" for place in places}
    if under == "geometry":  # its main study has no place in the names
        named = {MAIN: f"{under}/{end}"} | named
    return {place: name for place, name in named.items() if name in found}


def _ends(figure: Figure) -> tuple[float, float]:
    low = figure.value if figure.low is None else figure.low
    return low, figure.value if figure.high is None else figure.high


def _tally(told: Sequence[Told]) -> str:
    """Return "5 of 8 hold, 1 fails": what a single word for all of them hides."""
    held, failed = (sum(each.holds is holds for each in told) for holds in (True, False))
    return f"{held} of {len(told)} hold, {failed} fail" if len(told) > 1 else ""


def _listed(told: Sequence[Told]) -> str:
    """Return where the claim holds, where it does not, and where that is open."""
    parts = []
    for word, holds in (("Holds on", True), ("Does not on", False), ("Open on", None)):
        own = [f"{each.where} {each.shown}" for each in told if each.holds is holds]
        if own:
            parts.append(f"{word} {'; '.join(own)}.")
    return " ".join(parts)


def _curve(setting: str, found: Figures, write: Write) -> Verdict | None:
    """Return what is to be said of one of the three curves."""
    under = f"ablation/{MAIN}/{setting}"
    names = {x: f"{under}/{x}/above_default" for x in names_under(found, under)}
    gaps = {x: found[name] for x, name in names.items() if name in found}
    points = [_point(f"{setting}/{x}", figure) for x, figure in gaps.items()]
    word = verdict(points, setting)
    if word is None:
        return None
    shown = [f"{x}: {write(names[x])}" for x in sorted(gaps, key=float)]
    return Verdict(
        study="ablation",
        claim=f"{setting}: {CLAIMS[setting].text}.",
        source="Table 7, Figures 3 and 4",
        word=word,
        details=f"AUROC above the default, on {MAIN}: {'; '.join(shown)}.",
    )


def _point(setting: str, figure: Figure) -> Point:
    low, high = _ends(figure)
    return Point(
        setting=setting,
        auroc=None,
        aupr=None,
        above_default=Interval(figure.value, low, high, figure.n or 0),
        forwards=0.0,
        verify_forwards=0.0,
        seeds=0,
    )
