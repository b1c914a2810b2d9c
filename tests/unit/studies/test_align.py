"""The study of alignment on a model that knows nothing, and its figures on runs made by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.testing import write_checkpoint
from studies.align import __main__ as script
from studies.align import run_figures
from studies.align.arms import ARMS, DRAWN, PLAN, SETTINGS, SHARED, Job, planned
from studies.shared.figures import read

COMMIT = ("--commit", "0123abc")
SMALL = {
    "task": "countdown", "updates": 4, "prompts_per_update": 1, "num_generations": 2,
    "copies": 2, "eval_problems": 2, "eval_every": 2,
}  # fmt: skip


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    model = write_checkpoint(
        tmp_path / "model", layers=1, width=16, heads=2, inner=16, length=16, max_length=512,
        dtype=torch.float32,
    )  # fmt: skip
    flags = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    return [str(model), str(tmp_path / "out"), "--device", "cpu", "--problems", "2", *flags]


def one(words: list[str], job: Job, *more: str) -> int:
    code: int = script.main(["one", *words, "--job", json.dumps(vars(job)), *more])
    return code


def test_a_run_stops_goes_on_and_leaves_its_numbers_alone(words: list[str], tmp_path: Path) -> None:
    """The time is over at once: two updates of four. The study then goes on with it."""
    out, job = tmp_path / "out", Job(setting="main", arm="outcome", seed=0)
    assert one(words, job, "--until", "1") == 0
    assert [p.name for p in (out / job.name / "run").glob("checkpoint*")] == ["checkpoint-000002"]
    for arm in ("outcome", "start"):
        assert one(words, Job(setting="main", arm=arm, seed=0)) == 0
    assert not (out / job.name / "run").exists(), "no weights are kept"
    chosen = ["--setting", "main", "--only", "outcome:0", "start:0"]
    assert script.main(["study", *words, *chosen]) == 0
    rows = run_figures.read_results([out / "results.jsonl"])
    assert [row["arm"] for row in rows] == ["outcome", "start"]
    trained = rows[0]
    assert trained["curves"]["step"] == [1, 2, 3, 4]
    assert [step for step, _, _ in trained["validations"]] == [0, 2, 4]
    assert trained["canvases"]["short"]["forwards"] == 64 // 16 * 3
    assert trained["paces"].keys() == {"1", "2", "4", "16"}
    assert "auroc" in trained["canvases"]["short"]
    before = (out / "results.jsonl").read_text()
    assert script.main(["study", *words, *chosen, "--stop-after", "1"]) == 0
    assert (out / "results.jsonl").read_text() == before


def test_a_run_that_was_asked_something_else_stands_for_no_other(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--setting", "main", "--only", "start:0"]
    assert one(words, Job(setting="main", arm="start", seed=0, split="validation")) == 0
    assert one(words, Job(setting="main", arm="start", seed=0)) == 0
    assert script.main(["study", *words, *chosen]) == 0
    rows = run_figures.read_results([tmp_path / "out" / "results.jsonl"])
    assert [row["split"] for row in rows] == ["test", "validation"], "two runs, two names"
    for more, sentence in (
        (("--problems", "3"), "problems was 2, and is 3 now"),
        (("--set", "learning_rate=1e-3"), "learning_rate was 0.0001, and is 0.001 now"),
    ):
        capsys.readouterr()
        assert script.main(["study", *words, *chosen, *more]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"main-start-0 has a result for which {sentence}; choose another f")
        assert said.count("\n") == 1
    path, figures = tmp_path / "out" / "results.jsonl", tmp_path / "figures.json"
    told = ["figures", str(path), *COMMIT, "--figures", str(figures)]
    assert script.main(told) == 1
    assert "74 planned runs have no result, main-stable-0 first" in capsys.readouterr().err
    assert script.main([*told, "--partial"]) == 1, "a run to try the script is none of the study"
    assert "main-start-0 has a result for which " in capsys.readouterr().err
    assert not figures.exists()


def test_what_is_planned_is_what_was_asked_for() -> None:
    assert PLAN["main"]["stable"] == PLAN["main"]["outcome"] == 12
    assert [job.name for job in planned("long")] == [f"long-stable-{k}" for k in range(3)]
    assert SETTINGS["main"]["updates"] // SHARED["eval_every"] >= 5
    same = ("method", "negative", "schedule", "warmup", "temperature", "copies")
    for arm in ("outcome", "placebo", "oracle"):
        assert [ARMS[arm][k] for k in same] == [ARMS["stable"][k] for k in same]
    own = {name: ARMS["geometric"][name] for name in ARMS["geometric"].keys() - DRAWN.keys()}
    assert own == {
        "method": "spg", "reward": "consistency", "metrics": "core", "learning_rate": 3e-5,
    }  # fmt: skip
    assert ARMS["outcome"]["right_reward"] == 1, "what a trusted answer is paid"


def test_jobs_are_chosen_and_varied() -> None:
    words = ["study", "tiny", "OUT", "--setting", "main", "--only", "stable:100", "outcome:100"]
    jobs = script.jobs_of(script.read_arguments([*words, "--try", "beta=2,learning_rate=1e-5"]))
    assert [job.name for job in jobs] == [
        "main-stable-100-beta_2_learning_rate_1e-5", "main-outcome-100-beta_2_learning_rate_1e-5",
    ]  # fmt: skip
    assert jobs[0].changes == {"beta": 2, "learning_rate": "1e-5"}
    every = script.jobs_of(script.read_arguments(["study", "tiny", "OUT"]))
    assert len(every) == len({job.name for job in every}) == 36 + 12 + 2 * 12 + 3


def test_variations_are_settings_of_a_training(tmp_path: Path) -> None:
    arguments = script.read_arguments(["study", "tiny", str(tmp_path)])
    for setting in SETTINGS:
        for arm in ARMS:
            s = script.settings_of(Job(setting=setting, arm=arm, seed=3), arguments)
            assert (s.seed, s.updates) == (3, SETTINGS[setting]["updates"])
    job = Job(
        setting="main", arm="stable", seed=0, variation="probe=halves8,reading=critical_min,trust=1"
    )
    varied = script.settings_of(job, arguments)
    assert (varied.probe, varied.trust, varied.steps) == ("halves8", 1.0, 12)


def run(arm: str, seed: int, accuracy: float, steps: float, **changes: Any) -> dict[str, Any]:
    """A run of 99 answers a canvas; two validations, eleven updates."""
    canvas = {
        "num": 99, "accuracy": accuracy, "right_steps": steps, "process_ok": steps / accuracy,
        "forwards": 6.0, "tokens": 30.0,
    }  # fmt: skip
    paces = {str(k): {"accuracy": a, "forwards": f} for k, a, f in ((2, 0.4, 4.0), (16, 0.9, 32.0))}
    job = Job(setting="main", arm=arm, seed=seed)
    return {
        **vars(job), "model": "tiny", "hardware": "a slide rule",
        "asked": script.asked_of(job, script.read_arguments(["study", "tiny", "OUT"])),
        "canvases": {name: dict(canvas) for name in ("short", "medium", "long")}, "paces": paces,
        "validations": [[0, 0.5, 20.0], [150, 0.6, 20.0]], "seconds": {"train": 60.0, "ask": 1.0},
        "curves": {"elbo_pos": [-1.0] * 10 + [-1.2]}, **changes,
    }  # fmt: skip


def test_figures_are_means_over_runs_and_differences_by_seed(tmp_path: Path) -> None:
    """Accuracy .8 and .7 against .6 and .6: +.2 and +.1; t with one degree is 12.706.

    Right steps 49.5 of 99 against 9.4 of 99: log-odds 0 against log(9.9 / 90.1) in both seeds.
    """
    results = [
        run("stable", 0, 0.8, 0.5), run("stable", 1, 0.7, 0.5),
        run("outcome", 0, 0.6, 9.4 / 99), run("outcome", 1, 0.6, 9.4 / 99),
        run("start", 0, 0.5, 0.1), run("start", 1, 0.4, 0.1),
    ]  # fmt: skip
    fell = run_figures.figures_of(results)
    assert fell["align/stable/likelihood_fall"]["value"] == pytest.approx(0.2)
    assert fell["align/stable/likelihood_fall_of_ten"]["value"] == pytest.approx(0.02), "of ten"
    path, figures = tmp_path / "results.jsonl", tmp_path / "figures.json"
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    told = ["figures", str(path), *COMMIT, "--figures", str(figures), "--partial"]
    assert script.main(told) == 0
    found = read(figures)
    assert found["align/seeds"]["hardware"] == "a slide rule"
    gap = found["align/stable_minus_outcome/accuracy"]
    half = 12.706 * math.sqrt(0.005) / math.sqrt(2)
    assert [gap["value"], gap["low"], gap["high"]] == pytest.approx(
        [0.15, 0.15 - half, 0.15 + half], abs=1e-4
    )
    assert gap["n"] == 2
    odds = found["align/stable_minus_outcome/right_steps"]
    assert odds["value"] == pytest.approx(-math.log(9.9 / 90.1))
    assert found["align/outcome_minus_start/accuracy"]["value"] == pytest.approx(0.15), "by seed"
    assert found["align/start/accuracy/short"]["n"] == 2
    assert found["align/seeds"]["value"] == 2
    held = found["align/stable/held"]
    assert (held["value"], held["low"], held["n"]) == (1.0, None, 2), "a count has no t"
    share = found["align/outcome/right_steps/short"]
    assert share["low"] >= 0, "a share ends at 0"
    lines = list(run_figures.statements(results))
    assert lines[0].endswith(
        "stable minus outcome, accuracy: 0.150 [-0.485, 0.785], 2 seeds: cannot be told "
        "(not below -0.02: no)"
    )
    assert any("right_steps" in line and line.endswith("2 seeds: above") for line in lines)
    assert "| main | stable | test |  | 2 | 0.750 | 0.500 |" in run_figures.table(results)
    assert "| main | stable | test |  | 1 | 1 | 0.700 | 0.500 |" in run_figures.table(
        results, by_run=True
    )


def test_splits_are_not_mixed() -> None:
    """The same arms on validation, the other way round: a difference each."""
    results = [run(arm, seed, a, 0.5) for arm, a in (("stable", 0.8), ("outcome", 0.6))
               for seed in (0, 1)]  # fmt: skip
    swapped = {"stable": "outcome", "outcome": "stable"}
    results += [{**one, "arm": swapped[one["arm"]], "split": "validation"} for one in results]
    lines = [line for line in run_figures.statements(results) if "outcome, accuracy: " in line]
    assert [line.split(" [")[0] for line in lines] == [
        "main: stable minus outcome, accuracy: 0.200",
        "main, validation: stable minus outcome, accuracy: -0.200",
    ]
    assert run_figures.table(results).count("\n") == 1 + 4


def test_accuracy_at_equal_forwards_lies_between_the_paces() -> None:
    """Points (4, .4), (6, .8), (32, .9): at 5 passes .6, at 6 .8, beyond the ends nothing."""
    one = run("stable", 0, 0.8, 0.5)
    found = [run_figures.accuracy_at(one, forwards) for forwards in (5.0, 6.0)]
    assert found == pytest.approx([0.6, 0.8])
    assert [run_figures.accuracy_at(one, forwards) for forwards in (2.0, 99.0)] == [None, None]


def test_what_was_not_measured_at_equal_forwards_cannot_be_told() -> None:
    """One of two seeds has an outcome that took 99 passes, more than any pace of the other arm."""
    results = [run(arm, seed, 0.8, 0.5) for arm in ("stable", "outcome") for seed in (0, 1)]
    name = "stable_minus_outcome/accuracy_equal_forwards"
    assert run_figures.figures_of(results)[f"align/{name}"]["value"] == 0
    results[3]["canvases"]["short"]["forwards"] = 99.0
    assert f"align/{name}" not in run_figures.figures_of(results)
    (line,) = [one for one in run_figures.statements(results) if "equal_forwards" in one]
    assert line.endswith("cannot be told, forward passes lie outside the paces measured")


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({}, True),
        ({"curves": {"elbo_pos": [-1.0] * 10 + [-1.51, -0.9]}}, False),
        ({"validations": [[0, 0.5, 2.0], [75, 0.64, 2.0], [150, 0.6, 2.0]]}, False),
    ],
)
def test_a_run_has_held_where_neither_likelihood_nor_accuracy_fell(
    changes: dict[str, Any], held: bool
) -> None:
    assert run_figures.has_held(run("stable", 0, 0.8, 0.5, **changes)) is held
