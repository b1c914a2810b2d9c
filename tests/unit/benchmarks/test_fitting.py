"""Ways of fitting: simulated worlds hold what their names say, and records are read as they are."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fitting import LOSS, OPEN, WORLDS, compare, draw, draw_stages, judge_set, one_pair
from scipy.special import logit

from remask.analysis.frontier_fits import RECIPES
from remask.decide.auroc import auroc, expected_auroc
from remask.decide.stages import settled_at
from remask.records.record import Record


@pytest.mark.parametrize("world", WORLDS)
def test_right_answers_are_higher_by_the_gains(world: str) -> None:
    """Noise of variance .49 + .64 x 5/3, 15,000 right and 5,000 wrong: a standard error of .02."""
    answers = draw(world, 20_000, np.random.default_rng(0))
    gaps = answers.features[answers.right].mean(0) - answers.features[~answers.right].mean(0)
    assert gaps == pytest.approx(WORLDS[world][0], abs=0.1)
    assert answers.right.mean() == pytest.approx(0.75, abs=0.02)


def test_a_curve_after_the_fit_changes_no_order_and_non_negative_weights_cost_some() -> None:
    generator = np.random.default_rng(1)
    seen, other = (draw("the base is weak", n, generator) for n in (200, 2000))
    logits = compare(seen, other)
    reached = {name: auroc(values, other.right) for name, values in logits.items()}
    assert reached["then Platt"] == pytest.approx(reached["fitted"])
    assert reached["fitted"] > reached["non-negative"] > reached["label-free"]


def test_one_pair_keeps_what_may_be_lost_and_spares_something() -> None:
    staged = draw_stages(200, 1.8, np.random.default_rng(2))
    last = staged.seen[-1]
    limits = one_pair(staged.seen, last)
    assert len(set(limits)) == 1
    assert limits[0] != OPEN
    at = settled_at(staged.seen, limits)
    taken = staged.seen[at, np.arange(200)]
    assert expected_auroc(last, last) - expected_auroc(taken, last) <= LOSS


def test_unseen_answers_are_judged_as_well_as_others() -> None:
    """Cross-validated and fresh probabilities agree in AUROC to about .05 and in their mean."""
    staged = draw_stages(400, 1.8, np.random.default_rng(3))
    for seen, other in zip(staged.seen, staged.other, strict=True):
        assert auroc(seen, staged.right) == pytest.approx(
            auroc(other, staged.other_right), abs=0.06
        )
        assert logit(seen.mean()) == pytest.approx(logit(other.mean()), abs=0.3)


def test_recorded_answers_are_fitted_on_some_and_judged_on_the_others(
    tmp_path: Path, draw_features: Callable[..., list[Record]]
) -> None:
    """What tells right from wrong is used; absent halves and a constant are passed over."""
    rows = [
        replace(
            row,
            features={
                **row.features, "length": 10.0 if row.right else 20.0 + row.number,
                "critical_count": 3.0, "halves8.critical_min": None, "halves8.critical_mean": None,
            },
        )
        for row in draw_features(160, task="choice", level="medium", split="validation")
    ]  # fmt: skip
    path = tmp_path / "validation-choice.jsonl"
    path.write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows))
    reached = judge_set(path, RECIPES[0], 100, 2)
    assert reached["fitted"] == 1
    assert reached["boosting"] == 1
    assert reached["label-free"] < 1
