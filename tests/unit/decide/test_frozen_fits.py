"""Fits of simulated answers equal those in frozen_fits.json, computed by release 0.2.0's code.

The optimiser may change, the coefficients may not: committed fits and thresholds rest on them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remask.decide.calibration import Platt, fit_calibrator
from remask.decide.logistic import fit_regression
from remask.decide.provenance import Provenance
from remask.decide.weights import fit_weights

FROZEN = json.loads(Path(__file__).with_name("frozen_fits.json").read_text())
CASES = {name: case["case"] for name, case in FROZEN.items()}


def simulate(n: int, num_features: int, share: float, gain: float, absent: float, seed: int) -> Any:
    """Return feature columns, two base columns in 0..1, and labels."""
    generator = np.random.default_rng(seed)
    right = generator.random(n) < share

    def column(values: Any, chance: float) -> list[float | None]:
        missing = generator.random(n) < chance
        return [None if gone else float(v) for v, gone in zip(values, missing, strict=True)]

    base = {
        name: column(1 / (1 + np.exp(-gain * right - generator.normal(size=n))), absent * k)
        for k, name in enumerate(("critical", "halves8"))
    }
    features = {
        f"x{k}": column(gain * (k < 3) * right + generator.normal(size=n), absent * (k % 2))
        for k in range(num_features)
    }
    return features, base, right.tolist()


def fits(made_of: Callable[..., Provenance], case: dict[str, Any]) -> dict[str, Any]:
    """Return the coefficients of every kind of fit of one simulated set of answers."""
    features, base, right = simulate(**case)
    fitted = fit_regression(features, base, right, 0)
    regression = fitted.regression
    platt = fit_calibrator(base["critical"], right, made_of("critical"), "platt")
    assert isinstance(platt, Platt)
    weights = fit_weights(base, right, made_of(*base))
    return {
        "intercept": regression.intercept,
        "mean": regression.mean.weight,
        "terms": [term.weight for term in regression.terms.values()],
        "ridge": regression.ridge,
        "probability": fitted.probability[:5].tolist(),
        "platt": [platt.slope, platt.intercept],
        "weights": list(weights.values.values()),
    }


@pytest.mark.parametrize("name", CASES)
def test_a_fit_has_the_frozen_coefficients(name: str, made_of: Callable[..., Provenance]) -> None:
    found, frozen = fits(made_of, CASES[name]), FROZEN[name]
    for exact in ("intercept", "mean", "ridge", "terms", "weights"):
        assert found[exact] == frozen[exact], exact
    assert found["probability"] == pytest.approx(frozen["probability"], abs=1e-6)
    assert found["platt"] == pytest.approx(frozen["platt"], rel=1e-6, abs=1e-6)
