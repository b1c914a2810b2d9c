"""Does a certificate keep its promise? Simulated where the true risk of every threshold is known.

    python -m studies.checks.certificate
    python -m studies.checks.certificate --figures docs/figures.json --commit SHA --hardware CPU

A world says how scores are spread and how often an answer of each score is wrong, so the share of
wrong answers among the accepted is known for every threshold. Validation answers are drawn from it
again and again; the promise is broken where the certified threshold's true risk exceeds what was
promised. A refusal breaks no promise. `certificate/violations` is the world that does worst.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from remask.analysis.bootstrap import Interval
from remask.analysis.statistics import interval_text, proportion
from remask.decide.provenance import Provenance
from remask.decide.threshold import GRID, Certificate, certify
from studies.shared.figures import parse, save

Floats = NDArray[np.float64]
RISK, CONFIDENCE = 0.1, 0.95
SCORES = (np.arange(1000) + 0.5) / 1000  # those that an answer can have
ABOVE = np.greater.outer(SCORES, GRID).T  # (100, 1000)
SIMULATED = Provenance(
    metric_set="simulated", metrics=("score",), task="simulated", model="none",
    split="validation", seed=0, version="", date="",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """Questions of one difficulty."""

    share: float = 1.0  # of all questions
    mass: Floats  # (1000,) the chance of each score
    wrong: Floats  # (1000,) the chance that an answer of that score is wrong


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Questions of some kinds, each answered until a sample is accepted or the budget is spent."""

    name: str
    kinds: tuple[Kind, ...]
    budget: int = 1

    def risks(self) -> Floats:
        """Return the true share of wrong answers among the accepted, per threshold of the grid."""
        accepted, failed = np.full(len(GRID), 1e-300), np.zeros(len(GRID))
        for kind in self.kinds:
            passing, failing = ABOVE @ kind.mass, ABOVE @ (kind.mass * kind.wrong)  # per sample
            ending = 1 - (1 - passing) ** self.budget
            accepted += kind.share * ending
            failed += kind.share * ending * failing / np.maximum(passing, 1e-300)
        return np.asarray(failed / accepted)

    def draw(self, n: int, generator: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """Return scores and labels of n questions, (n, budget)."""
        shares = [kind.share for kind in self.kinds]
        kinds = generator.choice(len(shares), n, p=shares)
        drawn = generator.random((n, self.budget))
        places = np.zeros(drawn.shape, np.intp)
        for k, kind in enumerate(self.kinds):
            own = kinds == k
            places[own] = np.searchsorted(np.cumsum(kind.mass)[:-1], drawn[own], "right")
        chances = np.stack([kind.wrong for kind in self.kinds])[kinds[:, None], places]
        return SCORES[places], generator.random(places.shape) >= chances


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of the certificates of one world."""

    violations: Interval  # share of the repetitions in which the promise is broken
    issued: float  # share in which there is a certificate
    coverage: float  # its mean, among these


def spread(rise: float, fall: float) -> Floats:
    """Return a beta-shaped distribution of scores."""
    mass = SCORES ** (rise - 1) * (1 - SCORES) ** (fall - 1)
    return np.asarray(mass / mass.sum())


def votes() -> Floats:
    """Return scores that are tenths, as shares of ten samples are."""
    mass = np.zeros(1000)
    mass[[*range(100, 1000, 100), 999]] = [1, 2, 3, 4, 5, 6, 7, 9, 13, 50]
    return np.asarray(mass / mass.sum())


def sinking(low: float, high: float, middle: float, width: float) -> Floats:
    """Return a chance of being wrong that falls from `high` to `low` around `middle`."""
    return np.asarray(low + (high - low) / (1 + np.exp((SCORES - middle) / width)))


def with_risk_above(mass: Floats, risks: Floats) -> Floats:
    """Return the chances of being wrong that give answers from each score up these risks."""
    downwards = slice(None, None, -1)
    wrong = np.diff(np.cumsum(mass[downwards]) * risks[downwards], prepend=0) / mass[downwards]
    return np.asarray(wrong[downwards].clip(0, 1))


def worlds() -> list[World]:
    """Return score distributions that are kind, and some that set traps."""
    usual, high = spread(5, 1.5), spread(30, 1.2)
    creeping = np.interp(SCORES, [0, 0.85, 1], [1.002 * RISK, 1.002 * RISK, 0.3 * RISK])
    overconfident = np.where(SCORES > 0.95, 0.3, sinking(0.01, 0.5, 0.5, 0.05))
    easy = Kind(share=0.7, mass=spread(8, 1.5), wrong=sinking(0.005, 0.3, 0.5, 0.1))
    hard = Kind(share=0.3, mass=spread(3, 2), wrong=sinking(0.05, 0.95, 0.8, 0.05))
    single = {
        "steady": Kind(mass=usual, wrong=sinking(0.01, 0.7, 0.6, 0.1)),
        "crowded": Kind(mass=high, wrong=sinking(0.02, 0.9, 0.93, 0.02)),
        "cliff": Kind(mass=usual, wrong=np.where(SCORES > 0.8, 0.03, 0.95)),
        "votes": Kind(mass=votes(), wrong=sinking(0.02, 0.8, 0.6, 0.1)),
        "useless": Kind(mass=usual, wrong=np.full(1000, 1.0001 * RISK)),
        "creeping": Kind(mass=usual, wrong=with_risk_above(usual, creeping)),
        "overconfident": Kind(mass=usual, wrong=overconfident),
    }
    found = [World(name=name, kinds=(kind,)) for name, kind in single.items()]
    return [*found, World(name="rejection", kinds=(easy, hard), budget=4)]


def simulate(world: World, n: int, repetitions: int, seed: int = 0) -> Outcome:
    """Return how certificates from n answers did, over many draws of these."""
    generator = np.random.default_rng([seed, n])
    unsafe = {t: risk > RISK for t, risk in zip(GRID, world.risks(), strict=True)}
    broken, coverages = [], []
    for _ in range(repetitions):
        drawn = world.draw(n, generator)
        found = certify(*drawn, SIMULATED, risk=RISK, confidence=CONFIDENCE)
        broken.append(isinstance(found, Certificate) and unsafe[found.threshold])
        coverages += [found.coverage] if isinstance(found, Certificate) else []
    violations = proportion(broken)
    assert violations is not None, "at least one repetition"
    return Outcome(
        violations=violations,
        issued=len(coverages) / repetitions,
        coverage=float(np.mean(coverages)) if coverages else 0.0,
    )


def largest_coverage(world: World) -> float:
    """Return the coverage of the best safe threshold, which only who knows the truth can choose."""
    passing = sum(
        kind.share * (1 - (1 - ABOVE @ kind.mass) ** world.budget) for kind in world.kinds
    )
    return float(np.where(world.risks() <= RISK, passing, 0).max())


def write_figures(arguments: argparse.Namespace, found: dict[str, Outcome]) -> None:
    """Merge the violations into the figures.json that is named, if one is."""
    worst = max(found.values(), key=lambda outcome: outcome.violations.value)
    said = f"--n {arguments.n} --repetitions {arguments.repetitions}"
    unit = f"share of certificates broken, {1 - CONFIDENCE:.2g} promised"
    figures = {"certificate/violations": {**asdict(worst.violations), "unit": unit}}
    save(arguments, figures, "certificate", f"python -m studies.checks.certificate {said}")


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Simulated certificates: are promises kept?")
    parser.add_argument("--n", type=int, default=500, help="validation answers")
    parser.add_argument("--repetitions", type=int, default=10_000)
    return parse(parser, arguments)


def main(command: Sequence[str]) -> int:
    """Simulate every world, print the table, and return 1 where a promise is broken too often."""
    arguments = read_arguments(command)
    allowed = 1 - CONFIDENCE
    allowed += 2 * math.sqrt(allowed * CONFIDENCE / arguments.repetitions)
    found = {}
    print(f"{'world':14} {'violations':24} {'issued':>7} {'coverage':>9} {'of at most':>11}")
    for world in worlds():
        told = found[world.name] = simulate(world, arguments.n, arguments.repetitions)
        print(
            f"{world.name:14} {interval_text(told.violations, 4):24} {told.issued:7.3f} "
            f"{told.coverage:9.3f} {largest_coverage(world):11.3f}",
            flush=True,
        )
    write_figures(arguments, found)
    return int(any(outcome.violations.value > allowed for outcome in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
