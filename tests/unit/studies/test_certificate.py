"""The simulated worlds: their true risks are true, and certificates keep their promise in them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from remask.decide.columns import labelled
from remask.decide.threshold import outcomes
from studies.checks import certificate
from studies.checks.certificate import GRID, RISK, SCORES, Kind, World, main, simulate, worlds

FIELDS = {"value", "low", "high", "n", "unit", "run"}
WORLDS = {world.name: world for world in worlds()}


def test_a_world_of_two_scores_is_worked_out_by_hand() -> None:
    """Scores .2505 and .7505, half each; wrong .4 and .1. Above .25 both: .25; above .5: .1."""
    mass = np.zeros(1000)
    mass[[250, 750]] = 0.5
    world = World(name="two", kinds=(Kind(mass=mass, wrong=np.where(SCORES > 0.5, 0.1, 0.4)),))
    risks = dict(zip(GRID, world.risks(), strict=True))
    assert (risks[0.25], risks[0.5], risks[0.8]) == pytest.approx((0.25, 0.1, 0.0))


@pytest.mark.parametrize("name", WORLDS)
def test_the_true_risks_are_those_of_a_large_draw(name: str) -> None:
    """200,000 questions; where 2,000 are accepted the standard error is .011 at most."""
    drawn = WORLDS[name].draw(200_000, np.random.default_rng(1))
    accepted, wrong = outcomes(*labelled(*drawn))
    enough = accepted > 2000
    assert enough.sum() > 10
    share = wrong[enough] / accepted[enough]
    assert share == pytest.approx(WORLDS[name].risks()[enough], abs=0.04)


def test_no_threshold_is_safe_where_the_score_is_useless() -> None:
    assert (WORLDS["useless"].risks() > RISK).all()
    creeping = dict(zip(GRID, WORLDS["creeping"].risks(), strict=True))
    assert creeping[0.95] < RISK < creeping[0.8] < 1.01 * RISK


@pytest.mark.parametrize("name", WORLDS)
def test_the_promise_is_broken_no_more_often_than_it_says(name: str) -> None:
    told = simulate(WORLDS[name], 300, 1000)
    assert told.violations.value <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1000)
    assert told.violations.value <= told.issued


def test_figures_are_merged_with_all_their_fields(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    other = {"value": 1, "unit": "x", "run": "c"}
    run = {"command": "do", "commit": "0", "hardware": "none"}
    old = {"version": 3, "runs": {"c": run}, "figures": {"other": other}}
    path.write_text(json.dumps(old))
    words = ["--n", "100", "--repetitions", "20", "--figures", str(path), "--commit", "abc"]
    assert main([*words, "--hardware", "2 cores"]) == 0
    document = json.loads(path.read_text())
    found = document["figures"]
    assert found.pop("other") == other
    assert list(found) == ["certificate/violations"]
    [figure] = found.values()
    assert set(figure) == FIELDS
    worst = max(simulate(world, 100, 20).violations.value for world in WORLDS.values())
    assert (figure["value"], figure["n"]) == (worst, 20)
    told = "python -m studies.checks.certificate --n 100 --repetitions 20"
    about = {"command": told, "commit": "abc", "hardware": "2 cores"}
    assert document["runs"] == {"c": run, figure["run"]: about}


def test_figures_say_who_measured_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        certificate.read_arguments(["--figures", "x.json"])
    assert "--figures needs --commit and --hardware" in capsys.readouterr().err
