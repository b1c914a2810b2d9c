"""What a fitted verifier gains over the label-free mean, and what its stages lose.

    python benchmarks/fitting.py                    simulated: two tables, some minutes
    python benchmarks/fitting.py --draws 40
    python benchmarks/fitting.py --records OUT      validation records of the frontier: one table

Fits on few labels are compared on other answers, 5,000 of a simulated world or what is left of the
validation records of a set. A world says by how many standard deviations each feature is higher for
right answers, and which features share noise; the first four are the base. Stages are those of the
trial: what the writing left, one pass, 8, 16 and 60 more.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from remask.analysis.frontier_fits import (
    RECIPES,
    Recipe,
    base_columns,
    feature_columns,
    features_of,
    label_draws,
)
from remask.analysis.pool import pools
from remask.decide.auroc import auroc, expected_auroc
from remask.decide.logistic import fit_regression
from remask.decide.ridge import choose_ridge, fit_ridge, log_loss, predict, sigmoid
from remask.decide.stages import GRID, LOSS, OPEN, choose_limits, settled_at
from remask.records.record import answers_in, read_records

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
LABELS = (100, 200, 400)
OTHERS = 5000
RATE = 0.75  # of right answers
FEWEST = 5  # labels of either kind, under which nothing is fitted
NUM_BASE = 4
WORLDS = {  # gains of the features, how many share noise
    "all alike": ((1.0,) * 14, 8),
    "a few tell": ((1.2, 0.4, 1.0, 0.4, 0.6, 0, 0, 0.5, 0, 0, 0.8, 0, 0, -0.5), 8),
    "noise beside the base": ((1.0,) * 4 + (0.0,) * 10, 4),
    "the base is weak": ((0.2, 0.1, 0.2, 0.1, 1.0, -1.0, 0.8) + (0.0,) * 7, 8),
}
STAGES = ((0, (0.6, 0.5, 0.3)), (1, (1.0, 0.6)), (8, (0.9, 0.9, 0.5)), (16, (0.3, 0.25)),
          (60, (0.5, 0.4, 0.2)))  # fmt: skip
PRICES = np.cumsum([forwards for forwards, _ in STAGES]).astype(np.float64)
STRENGTHS = {"weak": 1.0, "strong": 1.8}  # times the gains


class Answers(NamedTuple):
    """Answers with the label-free value, features and labels."""

    mean: Floats  # (n,)
    features: Floats  # (n, J)
    right: Flags  # (n,)

    def scaled_by(self, other: "Answers") -> "Answers":
        """Return them standardised by the mean and spread of others."""
        mean = (self.mean - other.mean.mean()) / other.mean.std()
        features = (self.features - other.features.mean(0)) / other.features.std(0)
        return Answers(mean, features, self.right)


def draw(world: str, n: int, generator: np.random.Generator) -> Answers:
    """Return n answers of a world."""
    gains, num_shared = WORLDS[world]
    right = generator.random(n) < RATE
    shared = generator.normal(size=n)[:, None] * (np.arange(len(gains)) < num_shared)
    noise = generator.standard_t(5, size=(n, len(gains)))
    features = right[:, None] * np.array(gains) + 0.7 * shared + 0.8 * noise
    return Answers(sigmoid(features[:, :NUM_BASE]).mean(1), features, right)


def compare(seen: Answers, other: Answers) -> dict[str, Floats]:
    """Return the logits of other answers by each way of fitting; 'label-free' is no logit."""
    out = {"label-free": other.mean}
    other, seen = other.scaled_by(seen), seen.scaled_by(seen)
    for name, nonnegative in (("non-negative", True), ("fitted", False)):
        ridge, unseen = choose_ridge(*seen, 0, nonnegative=nonnegative)
        theta = fit_ridge(*seen, ridge, nonnegative=nonnegative)
        out[name] = predict(theta, other.mean, other.features)
    nothing = np.zeros((len(unseen), 0))
    intercept, slope = fit_ridge(unseen, nothing, seen.right, math.inf)
    return out | {"then Platt": intercept + slope * out["fitted"], "boosting": boost(seen, other)}


def read_answers(path: Path, recipe: Recipe) -> Answers:
    """Return the first samples of recorded pools as a recipe sees them.

    What is absent is as high as the mean of its column, as a fit takes it.
    """
    pooled = pools(answers_in(read_records(path)))
    features = feature_columns(features_of(recipe, pooled), pooled)
    base = base_columns(recipe.base, pooled)
    tables = [
        np.array(list(columns.values()), np.float64).T  # (n, J) NaN where absent
        for columns in (features, base)
    ]
    known = [table[:, ~np.isnan(table).all(0)] for table in tables]  # a choice has no halves
    filled = np.where(np.isnan(known[0]), np.nanmean(known[0], 0), known[0])
    spread = filled[:, filled.std(0) > 0]
    right = np.array([pool[0].right for pool in pooled])
    return Answers(np.nanmean(known[1], 1), spread, right)


def take(answers: Answers, rows: list[int]) -> Answers:
    """Return some of the answers."""
    return Answers(answers.mean[rows], answers.features[rows], answers.right[rows])


def is_fittable(seen: Answers) -> bool:
    """Say whether there are labels of both kinds, and no feature is the same for all."""
    enough = min(seen.right.sum(), (~seen.right).sum()) >= FEWEST
    return bool(enough and (seen.features.std(0) > 0).all() and seen.mean.std() > 0)


def print_records(out: Path, draws: int) -> None:
    """Print AUROC by each way of fitting on the validation records of every set."""
    paths = sorted(out.glob("validation-*.jsonl"))
    for recipe in RECIPES[:2]:
        for n in LABELS:
            means = [judge_set(path, recipe, n, draws) for path in paths]
            known = [mean for mean in means if mean]
            parts = [f"{name} {np.mean([m[name] for m in known]):.3f}" for name in known[0]]
            print(f"{recipe.name:9s} {n:4d} labels, {len(known)} sets: {'  '.join(parts)}")


def judge_set(path: Path, recipe: Recipe, n: int, draws: int) -> dict[str, float]:
    """Return the mean AUROC of each way on the answers of a set that were not labelled."""
    answers = read_answers(path, recipe)
    rows: dict[str, list[float]] = {}
    for chosen in label_draws(len(answers.right), path.stem, n, draws):
        others = sorted(set(range(len(answers.right))) - set(chosen))
        seen, other = take(answers, chosen), take(answers, others)
        if is_fittable(seen) and 0 < other.right.sum() < len(other.right):
            for name, logits in compare(seen, other).items():
                value = auroc(logits, other.right)
                assert value is not None
                rows.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in rows.items()}


def boost(seen: Answers, other: Answers) -> Floats:
    """Return logits by gradient boosting of shallow trees, with settings for few answers."""
    from sklearn.ensemble import GradientBoostingClassifier

    trees = GradientBoostingClassifier(
        n_estimators=60, max_depth=2, learning_rate=0.1, subsample=0.7, random_state=0
    )
    trees.fit(np.column_stack([seen.mean, seen.features]), seen.right)
    return np.asarray(trees.decision_function(np.column_stack([other.mean, other.features])))


class Staged(NamedTuple):
    """The same answers at every stage."""

    seen: Floats  # (S, n) probabilities of the answers fitted on, by fits that have not seen them
    right: Flags  # (n,)
    other: Floats  # (S, OTHERS) probabilities of other answers
    other_right: Flags


def draw_stages(n: int, strength: float, generator: np.random.Generator) -> Staged:
    """Return n answers with labels, a fit of them, and others."""
    columns: dict[str, list[float]] = {}
    right = generator.random(n + OTHERS) < RATE
    shared, values, fits = generator.normal(size=n + OTHERS), [], []
    for _, gains in STAGES:
        for gain in gains:
            noise = generator.standard_t(5, size=n + OTHERS)
            values.append(strength * gain * right + 0.6 * shared + 0.8 * noise)
        columns = {f"x{k}": value.tolist() for k, value in enumerate(values)}
        base = {"mean": sigmoid(np.array(values)).mean(0).tolist()}
        fit = fit_regression(*({k: v[:n] for k, v in part.items()} for part in (columns, base)),
                             right[:n], 0)  # fmt: skip
        later = {k: v[n:] for k, v in (columns | base).items()}
        fits.append((fit.probability, fit.regression.probability(later)))
    seen, other = (np.array(part) for part in zip(*fits, strict=True))
    return Staged(seen, right[:n], other, right[n:])


def one_pair(probability: Floats, chances: Floats) -> list[tuple[float, float]]:
    """Return the cheapest limits that are the same for all stages."""
    full = expected_auroc(probability[-1], chances)
    best, limits = PRICES[-1], [OPEN] * len(PRICES)
    for i, low in enumerate(GRID):
        for high in GRID[i:]:
            at = settled_at(probability, [(low, high)] * len(PRICES))
            reached = expected_auroc(probability[at, np.arange(len(at))], chances)
            if PRICES[at].mean() < best and reached >= full - LOSS:
                best, limits = PRICES[at].mean(), [(low, high)] * len(PRICES)
    return limits


def judge_stages(staged: Staged) -> Iterator[tuple[str, float, float]]:
    """Yield ways to choose limits, with what they lose on other answers and their share of cost."""
    last = staged.seen[-1]
    full = auroc(staged.other[-1], staged.other_right)
    for name, limits in {
        "by probability": choose_limits(staged.seen, last, PRICES),
        "by label": choose_limits(staged.seen, staged.right.astype(np.float64), PRICES),
        "one pair": one_pair(staged.seen, last),
    }.items():
        at = settled_at(staged.other, limits)
        reached = auroc(staged.other[at, np.arange(len(at))], staged.other_right)
        assert full is not None
        assert reached is not None
        yield name, full - reached, float(PRICES[at].mean() / PRICES[-1])


def repeat(draws: int, *key: int) -> Iterator[np.random.Generator]:
    """Yield a generator for each draw of a row of a table."""
    for number in range(draws):
        yield np.random.default_rng([*key, number])


def print_fits(draws: int) -> None:
    """Print AUROC, and the mean loss of the labels in nats where there is a probability."""
    print("AUROC / log loss on other answers")
    for w, world in enumerate(WORLDS):
        for n in LABELS:
            rows: dict[str, list[tuple[float, float]]] = {}
            for generator in repeat(draws, w, n):
                seen, other = (draw(world, size, generator) for size in (n, OTHERS))
                for name, logits in compare(seen, other).items():
                    value = auroc(logits, other.right)
                    assert value is not None
                    rows.setdefault(name, []).append((value, log_loss(logits, other.right)))
            means = {name: np.mean(row, 0) for name, row in rows.items()}
            parts = [f"{name} {value:.3f} / {loss:.3f}" for name, (value, loss) in means.items()]
            parts[0] = parts[0].split(" /")[0]  # the label-free value is no logit
            print(f"{world:22s} {n:4d} labels: {'  '.join(parts)}", flush=True)


def print_stages(draws: int) -> None:
    """Print what stages lose and cost."""
    print("\nStages: AUROC lost on other answers, mean (9th of 10), and share of the full cost")
    for s, (name, strength) in enumerate(STRENGTHS.items()):
        for n in LABELS:
            rows: dict[str, list[tuple[float, float]]] = {}
            for generator in repeat(draws, 100 + s, n):
                for way, loss, cost in judge_stages(draw_stages(n, strength, generator)):
                    rows.setdefault(way, []).append((loss, cost))
            parts = []
            for way, row in rows.items():
                losses, costs = np.array(row).T
                worst = np.quantile(losses, 0.9)
                parts.append(f"{way} {losses.mean():.4f} ({worst:.4f}) {costs.mean():.2f}")
            print(f"{name:6s} {n:4d} labels: {'  '.join(parts)}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--records", type=Path, metavar="OUT", help="of the frontier's benchmark")
    arguments = parser.parse_args()
    if arguments.records:
        print_records(arguments.records, arguments.draws)
        return
    print_fits(arguments.draws)
    print_stages(arguments.draws)


if __name__ == "__main__":
    main()
