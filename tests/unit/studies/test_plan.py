"""The full-size study: its jobs as data, and its figures from records written by hand."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import test_figures

from remask.analysis.diagnosis import GAP
from remask.analysis.figure import Figures
from remask.analysis.folder import CURVES
from remask.analysis.load_records import read_source
from remask.consistency.settings import ConsistencySettings
from remask.errors import RecordError
from remask.records import jsonl
from remask.report import page
from remask.report.table import markdown, text
from remask.tasks import TASKS
from remask.testing import write_checkpoint
from studies.paper import plan as core

pytestmark = pytest.mark.usefixtures("few_resamples")
ROOT = Path(__file__).resolve().parents[3]
THRESHOLDS = dict.fromkeys(TASKS, 0.75)
Row = dict[str, Any]
Make = Callable[..., Row]


def write(folder: Path, name: str, rows: list[Row]) -> None:
    jsonl.append(folder / f"{name}.jsonl", rows)


def draw_rows(make_row: Make, problems: int, samples: int, **place: str) -> list[Row]:
    """Return pools in which right samples score higher, on the whole."""
    rng = random.Random(str(place))
    rows = []
    for k in range(problems):
        for number in range(samples):
            right = rng.random() < 0.6
            score = min(1.0, max(0.0, rng.gauss(0.8 if right else 0.6, 0.1)))
            answer = "1" if right else rng.choice(["2", "3", None])
            kept = right and rng.random() < 0.8
            rows.append(
                make_row(
                    str(k), number, right=right, answer=answer, score=score, process_ok=kept,
                    confidence=rng.random(), by_trip={"token_accuracy": [score] * 8}, **place,
                )
            )  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_row: Make) -> Path:
    """Everything that a whole collection of word problems, and of one other task, leaves."""
    out = tmp_path_factory.mktemp("records")
    for task in ("wordmath", "choice"):
        for level in ("medium", "hard"):
            place = {"task": task, "level": level}
            write(out, f"pool-{task}-{level}", draw_rows(make_row, 12, 10, **place))
            write(out, f"greedy-{task}-{level}", draw_rows(make_row, 12, 1, **place))
    for name in (*CURVES, "trips-8", "hurried-12", "hurried-24"):
        write(out, name, draw_rows(make_row, 12, 1))
    again = draw_rows(make_row, 12, 10, task="wordmath", level="hard")
    write(out, "rebatched", [row for row in again if row["number"] == 0][:8])
    return out


def figures(folder: Path, thresholds: Mapping[str, float]) -> Figures:
    return page.report_figures(read_source(folder, thresholds), folder)


@pytest.fixture(scope="module")
def found(folder: Path) -> Figures:
    return figures(folder, THRESHOLDS)


def test_the_figures_have_the_names_that_pages_quote(found: Figures) -> None:
    wanted = {"process/wordmath/auroc", "carried/threshold"}
    told = ("auroc", "aupr", "ece", "brier", "aurc", "prr", "mean_right", "mean_wrong")
    told += ("precision_at_0.75", "recall_at_0.75", "accuracy_at_coverage_80")
    shape = ("spearman", "spearman_null", "r2", "density_ratio", "chi2", "spearman_confidence")
    for study in ("wordmath", "wordmath-hard", "choice", "choice-hard"):
        wanted.add(f"accuracy/{study}")
        wanted.add(f"diagnosis/{study}/roundtrips_minus_consistency/auroc")
        for method in ("roundtrips", "confidence", "vote", "agreement"):
            wanted |= {f"diagnosis/{study}/{method}/{m}" for m in told}
        single = f"diagnosis/{study}/roundtrips.token_accuracy"
        wanted |= {f"{single}/{m}" for m in ("auroc", "aupr", "forwards")}
        wanted |= {f"carried/{study}/{m}" for m in ("coverage", "precision", "recall")}
        place = "geometry" if study == "wordmath-hard" else f"geometry/{study}"
        wanted |= {f"{place}/{m}" for m in shape}
        for method in ("vote10", "best_of_3", "best_of_10", "mgrs"):
            columns = ("accuracy", "n_avg", "eff", "forwards")
            wanted |= {f"correction/{study}/{method}/{column}" for column in columns}
        wanted |= {f"correction/{study}/standard/{c}" for c in ("accuracy", "n_avg", "forwards")}
    for setting, values in {
        "mask_ratio": ("0", "0.3", "0.5", "0.7", "0.9", "0.95", "1"),
        "rebuild_steps": ("1", "4", "16", "64"),
        "trips": ("1", "2", "4", "8"),
    }.items():
        wanted |= {f"ablation/wordmath-hard/{setting}/{value}/auroc" for value in values}
    assert wanted <= found.keys()
    assert "correction/wordmath/standard/eff" not in found
    assert not any("countdown" in name for name in found), "no records, no figures"
    assert "diagnosis/wordmath/roundtrips.token_accuracy/prr" not in found


def test_the_carried_threshold_is_that_of_word_problems(make_row: Make, tmp_path: Path) -> None:
    """Of .6 and .9 one is above word problems' .8, though both are above choice's own .5."""
    rows = [make_row(str(k), score=x, task="choice") for k, x in enumerate((0.6, 0.9))]
    write(tmp_path, "pool-choice-hard", rows)
    write(tmp_path, "ratio-0.5", [make_row()])  # the curves are of word problems
    found = figures(tmp_path, dict.fromkeys(TASKS, 0.5) | {"wordmath": 0.8})
    assert found["carried/threshold"].value == 0.8
    assert found["carried/choice-hard/coverage"].value == 0.5
    assert found["carried/choice-hard/precision"].value == 1.0


def test_the_gap_says_which_problems_it_is_of(found: Figures) -> None:
    parts = [figure for figure in found.values() if figure.method == GAP and figure.part]
    assert {figure.part for figure in parts} <= {"hard", "middle", "easy"}
    assert parts
    assert all(figure.entry()["unit"].endswith("of others right") for figure in parts)


def test_pages_may_quote_the_tables_as_they_are(found: Figures) -> None:
    """The test of the documentation reads every marker of the tables, and finds it borne out."""
    values = {name: {"value": figure.value} for name, figure in found.items()}
    listed = page.report_tables(found, [])
    quoted = "\n".join(
        markdown(table, lambda figure: text(figure, f"<!--fig:{figure.name}-->"))
        for table in listed
    )
    assert test_figures.disagreements(quoted, values) == []
    assert quoted.count("<!--fig:") > 200
    for title in (
        "AUROC of every score", "choice-hard: AUROC, AUPR and cost", "wordmath: every method",
        "wordmath-hard: mask_ratio", "choice: rejection sampling at other thresh", "Right answers",
    ):  # fmt: skip
        assert any(table.title.startswith(title) for table in listed)
    assert page.report_tables(Figures(), []) == []


def test_answers_that_another_batching_changed_are_counted(make_row: Make, tmp_path: Path) -> None:
    """Of 4: one text differs, and two scores by more than 1e-5, one of them by appearing."""
    once = [make_row(str(k), score=score) for k, score in enumerate((0.5, 0.5, 0.5, None, 0.5))]
    again = [make_row(str(k), score=s) for k, s in enumerate((0.5, 0.50002, 0.500009, 0.5))]
    again[0]["text"] = "another"
    write(tmp_path, "pool-wordmath-hard", once)
    write(tmp_path, "rebatched", again)
    found = figures(tmp_path, THRESHOLDS)
    assert found["rebatched/text_disagreement"].value == 1 / 4
    assert found["rebatched/score_disagreement"].value == 2 / 4
    assert found["rebatched/score_disagreement"].n == 4


@pytest.mark.parametrize(
    ("wrong_steps", "chosen"),
    [
        ((3, 100, 120), "hurried-24"),
        ((100, 200, 300), "pool-wordmath-medium"),
        ((1, 9, 5), "hurried-24"),
    ],
)
def test_wrong_steps_are_sought_in_the_least_hurried_answers_that_have_enough(
    make_row: Make, tmp_path: Path, wrong_steps: tuple[int, ...], chosen: str
) -> None:
    for name, wrong in zip(
        ("pool-wordmath-medium", "hurried-24", "hurried-12"), wrong_steps, strict=True
    ):
        rows = [
            make_row(str(k), process_ok=k >= wrong, score=0.5 + k / 1e4) for k in range(wrong + 5)
        ]
        write(tmp_path, name, rows)
    figure = figures(tmp_path, THRESHOLDS)["process/wordmath/auroc"]
    assert figure.unit.endswith(chosen)
    assert figure.value == 1.0


def every_job() -> list[Any]:
    """Return the jobs of the whole study, but for those that choose a temperature."""
    own = [job for task in TASKS for job in core.task_jobs(task, 1.0)]
    return own + [job for _, jobs in core.parts(1.0).values() for job in jobs]


def test_every_file_that_figures_read_is_collected() -> None:
    first = [job.name for job in every_job() if job.seed == 0]
    assert len(first) == len(set(first))
    for task in TASKS:
        assert {
            f"{kind}-{task}-{level}" for kind in ("pool", "greedy") for level in ("medium", "hard")
        } <= set(first)
        assert {f"threshold-{task}", f"greedy-{task}-easy"} <= set(first)
    assert {*CURVES, "trips-8", "hurried-12", "hurried-24", "rebatched"} <= set(first)


def test_further_seeds_have_the_curves_and_what_these_are_compared_to() -> None:
    for seed in (1, 2):
        named = {job.name for job in every_job() if job.seed == seed}
        assert named == {*CURVES, "trips-8", "pool-wordmath-hard"}
    assert "pool-wordmath-hard" not in {job.name for job in core.curve_jobs(0, 1.0)}


def test_the_jobs_are_as_large_as_the_claims_need() -> None:
    jobs = {job.name: job for job in every_job() if job.seed == 0}
    hard = jobs["pool-wordmath-hard"]
    assert (hard.problems, hard.samples, hard.scored, hard.temperature) == (1000, 10, 10, None)
    for task in ("countdown", "choice", "pycode"):
        assert jobs[f"pool-{task}-medium"].problems + jobs[f"pool-{task}-hard"].problems == 1000
    assert jobs["greedy-pycode-hard"].temperature == 0.0
    assert jobs["ratio-0.95"].consistency == ConsistencySettings(mask_ratio=0.95)
    assert jobs["steps-128"].consistency == ConsistencySettings(rebuild_steps=128)
    assert jobs["stratified"].consistency == ConsistencySettings(mask_design="stratified")
    assert jobs["temperature-1"].consistency == ConsistencySettings(rebuild_temperature=1.0)
    assert jobs["tail-visible"].consistency == ConsistencySettings(tail="visible")
    assert jobs["trips-8"].consistency == ConsistencySettings(trips=8)
    hurried = jobs["hurried-12"]
    assert (hurried.level, hurried.steps, hurried.problems) == ("medium", 12, 600)
    assert jobs["rebatched"].chunk == 7
    tried = core.validation_jobs("choice", 1.0)
    assert [(job.temperature, job.split, job.scored) for job in tried] == [
        (0.4, "validation", 0), (0.7, "validation", 0), (1.0, "validation", 0),
        (1.3, "validation", 0), (1.6, "validation", 0),
    ]  # fmt: skip
    assert core.count(150, 0.001) == 4


@pytest.fixture
def asked(make_row: Make, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, str], Any]:
    """What `collect` is called with, by seed and file; agreement tells at temperature 0.7 alone."""
    calls: dict[tuple[int, str], Any] = {}

    def collect(model: object, settings: Any, out: Path) -> None:
        calls[settings.seed, out.stem] = settings
        telling = settings.sampler.temperature == 0.7
        rows = [
            make_row(
                str(k), number, right=k < 2, answer="1" if k < 2 or not telling else str(number)
            )
            for k in range(4)
            for number in range(2)
        ]
        jsonl.append(out, rows)

    def inject(model: object, pairs: Any, settings: Any, out: Path) -> None:
        calls[0, out.stem] = len(pairs)

    monkeypatch.setattr(core, "collect", collect)
    monkeypatch.setattr(core, "collect_injected", inject)
    return calls


def test_a_task_is_collected_at_the_temperature_that_validation_chose(
    asked: dict[tuple[int, str], Any], tmp_path: Path
) -> None:
    """Agreement tells right from wrong at 0.7 alone: there wrong answers stand alone."""
    model = str(write_checkpoint(tmp_path / "model"))
    for part in ("wordmath", "wordmath-hard", "curves-0", "curves-2", "hurried"):
        core.collect_part(model, part, tmp_path, 0.0)
    chosen = ("pool-wordmath-medium", "pool-wordmath-hard", "ratio-0.3", "threshold-wordmath")
    assert {asked[0, name].sampler.temperature for name in chosen} == {0.7}
    assert asked[2, "pool-wordmath-hard"].sampler.temperature == 0.7
    assert asked[0, "greedy-wordmath-hard"].sampler.temperature == 0
    assert asked[0, "hurried-24"].sampler.steps == 24
    hard = asked[0, "pool-wordmath-hard"]
    assert hard.sampler.steps == hard.sampler.length == TASKS["wordmath"].canvas_length("hard")
    assert (hard.samples, hard.scored, hard.problems, hard.metrics) == (10, 10, 4, "paper")
    assert asked[0, "injected-wordmath-medium"] == asked[0, "injected-wordmath-hard"] == 4
    assert (tmp_path / "seed-2" / "ratio-0.3.jsonl").exists()
    assert (tmp_path / "wordmath.temperature").read_text() == "0.7\n"


def test_a_part_that_waits_in_vain_says_what_to_collect_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "PATIENCE", 0)
    with pytest.raises(RecordError, match="collect with --only choice first"):
        core.collect_jobs(None, "choice", core.hard_jobs("choice", 0.0), tmp_path)


def test_parts_that_fail_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each part runs in a process of its own, called with its name; here choice ends badly."""
    child = [sys.executable, "-c", "import sys; sys.exit(sys.argv[-1] == 'choice')"]
    monkeypatch.setattr(core, "COMMAND", child)
    assert core.main(["collect", "tiny", str(tmp_path / "new")]) == 1
    assert capsys.readouterr().err == "choice failed; the same command again continues.\n"


def test_the_preset_is_what_validation_chose(
    make_row: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores .5 and .9, wrong and right: the lowest threshold that parts them is .5.

    Of pycode the right one scores .5, so that accepting both has the best F1: it would reject none.
    """
    for task in TASKS:
        best = 0.5 if task == "pycode" else 0.9
        answers = (("a", 0.5), ("b", 0.9))
        rows = [make_row(x, score=s, right=s == best, task=task) for x, s in answers]
        write(tmp_path, f"threshold-{task}", rows)
        beside = tmp_path / f"threshold-{task}.jsonl.manifest.json"
        beside.write_text(json.dumps({"asked": {"sampler": {"temperature": 0.7}}}))
    preset = tmp_path / "g.json"
    preset.write_text('{"length": 64, "tasks": {"choice": {"steps": 8}}}')
    assert core.main(["preset", str(tmp_path), "--preset", str(preset)]) == 0
    told = json.loads(preset.read_text())
    assert told["length"] == 64
    assert told["temperature"] == 0.7
    assert told["tasks"]["choice"] == {"steps": 8, "temperature": 0.7, "threshold": 0.5}
    assert told["tasks"]["pycode"]["threshold"] == 0.75
    said = capsys.readouterr().err
    assert said == (
        "pycode: accepting every answer has the best F1; the threshold is the usual 0.75\n"
    )


# The machine with the GPU has few packages: None makes the import of the others fail.
CHILD = """
import runpy, sys
absent = ("typer", "pydantic", "sklearn", "scipy", "pyarrow", "matplotlib", "rich")
sys.modules.update(dict.fromkeys(absent))
sys.argv = ["plan", "collect", "--help"]
runpy.run_module("studies.paper.plan", run_name="__main__")
"""


def test_collecting_needs_few_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=600, check=True
    )
    assert "--scale" in done.stdout
