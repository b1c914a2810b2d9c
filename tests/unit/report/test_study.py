"""Studies by name: from a whole study's folder and from what `collect` writes, told as tables."""

import csv
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from few_draws import few_draws

from remask.analysis.figure import Figure, Figures
from remask.analysis.folder import CURVES, DEFAULTS
from remask.analysis.load_records import Source, read_source
from remask.analysis.pool import pools
from remask.consistency.settings import ConsistencySettings
from remask.decide.auroc import auroc
from remask.errors import RecordError, SettingsError
from remask.records import jsonl
from remask.records.record import read_records, records_in
from remask.report.studies import NAMES, STUDIES, study
from remask.report.studies.base import Study, StudyResult
from remask.report.table import Table, columns, document, markdown, text

Row = dict[str, Any]
Make = Callable[..., Row]
Tell = Callable[[str], StudyResult]


def draw(make_row: Make, problems: int, samples: int = 1, **place: Any) -> list[Row]:
    """Return pools in which right samples score higher, on the whole."""
    rng = random.Random(str(place))
    rows = []
    for k in range(problems):
        for number in range(samples):
            right = rng.random() < 0.6
            score, other = (min(1.0, rng.gauss(0.7 if right else 0.5, 0.1)) for _ in range(2))
            trips = {"token_accuracy": [score] * 8, "answer_match": [other] * 8}
            rows.append(
                make_row(
                    f"test/0/{k}" if "split" not in place else f"{place['split']}/0/{k}",
                    number, right=right, answer="1" if right else rng.choice(["2", "3", None]),
                    score=(score + other) / 2, process_ok=right and rng.random() < 0.7,
                    confidence=rng.random(), by_trip=trips,
                    task=place.get("task", "wordmath"), level=place.get("level", "hard"),
                )
            )  # fmt: skip
    return rows


def write(path: Path, rows: list[Row], **consistency: Any) -> None:
    """Write records and the manifest that `collect` leaves beside them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    jsonl.append(path, rows)
    asked = {
        "model": "m", "task": rows[0]["task"], "level": rows[0]["level"], "seed": 0,
        "sampler": {"steps": 12, "temperature": 0.7},
        "consistency": asdict(ConsistencySettings(**consistency)),
    }  # fmt: skip
    Path(f"{path}.manifest.json").write_text(json.dumps({"asked": asked}))


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    """Intervals are not what these tests look at."""
    with few_draws():
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, make_row: Make) -> Path:
    """The folder of a whole study: one task, two levels, curves of two seeds."""
    out = tmp_path_factory.mktemp("whole")
    for level in ("medium", "hard"):
        write(out / f"pool-wordmath-{level}.jsonl", draw(make_row, 24, 10, level=level))
    write(out / "threshold-wordmath.jsonl", draw(make_row, 30, split="validation"))
    pool = draw(make_row, 30, 6, split="validation")
    write(out / "validation-wordmath-hard-t0.7.jsonl", pool)
    for name in (*CURVES, "trips-8"):
        write(out / f"{name}.jsonl", draw(make_row, 24))
        write(out / "seed-1" / f"{name}.jsonl", draw(make_row, 24, seed=1))
    write(out / "seed-1" / "pool-wordmath-hard.jsonl", draw(make_row, 24, seed=1))
    return out


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory, make_row: Make) -> Path:
    """A folder that `remask collect` filled: a benchmark, and one file with another setting."""
    out = tmp_path_factory.mktemp("collected")
    place = {"task": "gsm8k", "level": "all"}
    write(out / "gsm.jsonl", draw(make_row, 24, 4, **place))
    write(out / "gsm-low.jsonl", draw(make_row, 24, **place), mask_ratio=0.3)
    write(out / "gsm-train.jsonl", draw(make_row, 30, 4, split="train", **place))
    return out


@pytest.fixture(scope="module")
def told_of(whole: Path) -> Callable[[str], StudyResult]:
    """Return a study of the whole folder, measured once."""
    return cache(lambda name: study(name, [whole]))


def table(told: StudyResult, name: str) -> Table:
    return next(table for table in told.tables if table.name == name)


def test_the_usual_settings_are_those_of_the_round_trips() -> None:
    shown = {
        name: f"{value:g}" if isinstance(value, int | float) else value
        for name, value in asdict(ConsistencySettings()).items()
    }
    assert shown == DEFAULTS


def test_a_whole_study_is_read_by_the_names_of_its_files(whole: Path) -> None:
    source = read_source(whole)
    medium, hard = source.studies
    assert (medium.name, hard.name) == ("wordmath", "wordmath-hard")
    assert len(hard.rows) == 240
    assert [len(rows) for rows in hard.further] == [24]
    assert len(hard.validation) == 30
    assert len(hard.validation_pools) == 180, "at the temperature of the study"
    assert [len(seed.changed) for seed in source.curves["wordmath-hard"]] == [len(CURVES)] * 2
    assert 0 <= hard.threshold < 1
    assert source.chooser == hard.threshold


def test_collected_files_are_studies_but_for_what_weights_are_fitted_on(collected: Path) -> None:
    source = read_source(collected)
    low, plain = source.studies
    assert (low.name, low.is_changed, plain.name, plain.is_changed) == (
        "gsm-low", True, "gsm", False,
    )  # fmt: skip
    assert len(plain.validation) == 120
    (seed,) = source.curves["gsm"]
    assert list(seed.changed) == [("mask_ratio", "0.3")]
    alone = read_source(collected / "gsm.jsonl")
    assert [each.name for each in alone.studies] == ["gsm"]
    assert alone.studies[0].threshold == 0.75, "the paper's, where no other split chose one"


@pytest.mark.parametrize(("best", "threshold"), [(0.9, 0.5), (0.5, 0.75)])
def test_a_threshold_that_would_reject_nothing_is_replaced_by_the_papers(
    make_row: Make, tmp_path: Path, best: float, threshold: float
) -> None:
    """Of .5 and .9 one is right: .9 is parted from the other at .5, .5 only by accepting both."""
    write(tmp_path / "pool-wordmath-hard.jsonl", draw(make_row, 4, 2))
    answers = (("a", 0.5), ("b", 0.9))
    rows = [make_row(name, score=score, right=score == best) for name, score in answers]
    write(tmp_path / "threshold-wordmath.jsonl", rows)
    assert read_source(tmp_path).studies[0].threshold == threshold


def test_answers_of_another_split_alone_are_a_study(collected: Path) -> None:
    (only,) = read_source(collected / "gsm-train.jsonl").studies
    assert (only.name, only.validation) == ("gsm-train", ())


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_of_a_whole_folder_has_tables(told_of: Tell, name: str) -> None:
    told = told_of(name)
    assert told.tables
    for each in told.tables:
        assert all(len(row) == len(each.heads) for row in each.rows)
        cells = [cell for row in each.rows for cell in row if isinstance(cell, Figure)]
        assert {cell.name for cell in cells} <= set(told.figures)
    assert len({each.name for each in told.tables}) == len(told.tables)


def test_diagnosis_tells_fitted_weights_and_baselines_in_rows_of_their_own(told_of: Tell) -> None:
    told = told_of("diagnosis")
    methods = [row[0] for row in table(told, "ranking-wordmath-hard").rows]
    assert methods[0] == "round trips, uniform"
    assert {"round trips, optimized", "baselines, combined", "vote", "agreement"} <= set(methods)
    assert methods.count("round trips, optimized") == 1
    wanted = {"ECE", "Brier", "AURC", "PRR"}
    assert wanted <= set(table(told, "calibration-wordmath-hard").heads)
    selected = table(told, "threshold-wordmath-hard").heads
    assert {"mean, right", "precision at 0.75", "right at 80 % coverage"} <= set(selected)
    assert "base rate" in table(told, "auroc").heads
    assert table(told, "auroc").rows[1][:2] == ["wordmath-hard", "24"]
    gap = told.figures["diagnosis/wordmath-hard/optimized_minus_baselines/auroc"]
    single = [
        told.figures[f"diagnosis/wordmath-hard/{m}/auroc"] for m in ("optimized", "baselines")
    ]
    assert gap.value == pytest.approx(single[0].value - single[1].value)
    assert gap.low is not None
    assert told.notes == []


def test_a_study_is_judged_by_its_own_threshold_beside_the_paper_s(told_of: Tell) -> None:
    told = told_of("diagnosis")
    own = told.figures["diagnosis/wordmath-hard/roundtrips/threshold"].value
    limited = table(told, "limit-wordmath-hard")
    assert f"above {own:g}, the threshold that answers are judged by here" in limited.title
    assert limited.heads == ["score", "n", "accepted", "precision", "recall"]
    assert "the paper's threshold 0.75" in table(told, "threshold-wordmath-hard").title


def test_the_combination_of_baselines_pays_for_the_samples_it_looks_at(told_of: Tell) -> None:
    """A sample costs 10 forwards, its verification 8; agreement has weight here, so ten count."""
    told = told_of("diagnosis").figures
    under = "diagnosis/wordmath-hard"
    assert told[f"{under}/optimized/forwards"].value == 18
    assert told[f"{under}/baselines/forwards"].value == 100


def test_agreement_at_the_cost_of_round_trips_looks_at_two_samples(
    whole: Path, told_of: Tell
) -> None:
    """Written and verified, an answer costs 18 forwards: two samples are the first to cost more.

    Two that say the same agree wholly, two that differ by half, and no answer agrees with none.
    """
    told, under = told_of("diagnosis").figures, "diagnosis/wordmath-hard"
    assert told[f"{under}/agreement_same_cost/forwards"].value == 20
    found = pools(records_in(read_records(whole / "pool-wordmath-hard.jsonl")))
    said = [(pool[0].answer, pool[1].answer) for pool in found]
    agreed = [0 if a is None else 1 if a == b else 0.5 for a, b in said]
    value = auroc(agreed, [pool[0].right for pool in found])
    assert told[f"{under}/agreement_same_cost/auroc"].value == value
    gap = told[f"{under}/roundtrips_minus_agreement_same_cost/auroc"].value
    assert gap == pytest.approx(told[f"{under}/roundtrips/auroc"].value - (value or 0))


def test_correction_counts_samples_by_difficulty_and_compares_in_pairs(told_of: Tell) -> None:
    told = told_of("correction")
    under = "correction/wordmath-hard"
    gain = told.figures[f"{under}/mgrs_minus_standard/accuracy"]
    single = [told.figures[f"{under}/{m}/accuracy"].value for m in ("mgrs", "standard")]
    assert gain.value == pytest.approx(single[0] - single[1])
    drawn = [told.figures[f"{under}/mgrs/{x}/n_avg"] for x in ("hard", "middle", "easy")]
    mean = sum(f.value * (f.n or 0) for f in drawn) / 24
    assert told.figures[f"{under}/mgrs/n_avg"].value == pytest.approx(mean)
    methods = [row[0] for row in table(told, "methods-wordmath-hard").rows]
    assert {"vote3", "vote10", "best_of_3_confidence", "best_of_10", "mgrs"} <= set(methods)


def test_rivals_that_need_more_samples_than_there_are_are_left_out(collected: Path) -> None:
    told = study("correction", [collected / "gsm.jsonl"]).figures
    assert "correction/gsm/mgrs_minus_vote3/accuracy" in told
    assert "correction/gsm/mgrs_minus_vote10/accuracy" not in told


def test_ablation_has_the_curves_of_all_seeds_with_their_cost(told_of: Tell) -> None:
    told = told_of("ablation")
    ratios = table(told, "mask_ratio-wordmath-hard")
    assert [row[0] for row in ratios.rows] == ["0", "0.3", "0.5", "0.7", "0.9", "0.95", "1"]
    point = "ablation/wordmath-hard/mask_ratio/0.3"
    assert told.figures[f"{point}/seeds"].value == 2
    assert told.figures[f"{point}/auroc"].n == 48
    assert told.figures[f"{point}/forwards"].value == 18
    metrics = [row[0] for row in table(told, "metrics").rows]
    wanted = {"alone/answer_match", "composite/surface", "composite/optimized", "composite/uniform"}
    assert wanted | {"without/answer_match"} <= set(metrics)


def test_collected_files_that_differ_in_one_setting_are_a_curve(collected: Path) -> None:
    told = study("ablation", [collected])
    assert [row[0] for row in table(told, "mask_ratio-gsm").rows] == ["0.3", "0.9"]
    assert "ablation/gsm/composite/optimized/auroc" in told.figures
    assert not any(name.startswith("ablation/gsm-low/") for name in told.figures)


def test_flaws_of_the_model_come_with_examples(told_of: Tell) -> None:
    told = told_of("spurious")
    assert "spurious/pool-wordmath-hard/auroc" in told.figures
    shown = table(told, "examples")
    assert shown.heads[:3] == ["records", "question", "answer"]
    assert len(shown.rows) <= 8


def test_injected_flaws_are_told_by_kind(make_row: Make, tmp_path: Path) -> None:
    """Every flawed copy scores .2 below its original: AUROC and lowered are 1."""
    from remask.tasks.flaws import KINDS

    rows = []
    for k in range(4):
        for number, kind in enumerate(("original", *KINDS)):
            row = make_row(f"test/0/{k}", number, score=0.9 if kind == "original" else 0.7)
            row["scores"]["read_confidence"] = 0.5
            rows.append(row | {"kind": kind})
    absent = {"id": rows[0]["id"], "task": "wordmath", "level": "hard", "number": 9}
    rows.append(absent | {"kind": KINDS[0], "text": None, "forwards": 0})
    jsonl.append(tmp_path / "flaws.jsonl", rows[:-1])
    jsonl.append(tmp_path / "flaws.jsonl", rows[-1:])
    told = study("spurious", [tmp_path])
    assert told.figures[f"spurious/injected/flaws/{KINDS[1]}/auroc"].value == 1.0
    assert [row[0] for row in table(told, "injected").rows][-1] == f"flaws/{KINDS[-1]}"


def test_geometry_has_rows_for_studies_without_a_correlation(
    make_row: Make, tmp_path: Path
) -> None:
    """Two distinct points have one density: no Spearman, yet the confidence has one."""
    rows = [
        make_row(f"test/0/{k}", score=0.5 + (k % 2) / 10, confidence=k / 10, right=k > 2)
        for k in range(6)
    ]
    write(tmp_path / "few.jsonl", rows)
    told = study("geometry", [tmp_path])
    assert "geometry/few/spearman" not in told.figures
    assert [row[0] for row in table(told, "plane").rows] == ["few"]


def test_cost_sets_formulas_beside_counts(told_of: Tell) -> None:
    """T 12, N K = 4 x 16: T + N K is 76 where 10 + 8 were counted."""
    told = told_of("cost").figures
    assert told["cost/wordmath-hard/diagnosis/formula"].value == 76
    assert told["cost/wordmath-hard/diagnosis/counted"].value == 18


def test_scaling_names_models_after_their_folders(whole: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in whole.glob("pool-wordmath-hard*"):
        (other / path.name).write_bytes(path.read_bytes())
    told = study("scaling", [whole, other])
    models = [row[0] for row in table(told, "wordmath-hard").rows]
    assert models == [whole.name, "other"]
    quoted = table(told, "published")
    assert ("LLaDA2.1-mini", "GSM8K", "auroc 0.853", "Table 9") in quoted.rows
    assert any(row[0] == "Qwen2.5-7B" for row in quoted.rows)
    with pytest.raises(RecordError, match="named twice"):
        study("scaling", [whole, whole])


def test_what_records_lack_is_said_with_the_command_that_collects_it(
    make_row: Make, tmp_path: Path
) -> None:
    write(tmp_path / "few.jsonl", draw(make_row, 12))
    one = study("diagnosis", [tmp_path]).notes
    assert [note.split(":")[0] for note in one] == ["No optimized weights", "No self-consistency"]
    assert all("remask collect" in note for note in one)
    assert "No curves" in study("ablation", [tmp_path]).notes[1]
    assert "No injected flaws" in study("spurious", [tmp_path]).notes[0]


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("diagnosis", "--scored 1"), ("correction", "--samples 10 --scored 10"),
        ("ablation", "--scored 1"), ("geometry", "--scored 1"), ("cost", "--scored 1"),
        ("spurious", "--task wordmath --scored 1"),
    ],
)  # fmt: skip
def test_records_without_round_trips_name_the_flags_to_collect_them(
    make_row: Make, tmp_path: Path, name: str, flags: str
) -> None:
    rows = draw(make_row, 6)
    for row in rows:
        del row["by_trip"], row["verify_forwards"], row["scores"]["roundtrips"]
    write(tmp_path / "plain.jsonl", rows)
    with pytest.raises(RecordError, match=r"holds no .*remask collect") as caught:
        study(name, [tmp_path])
    assert flags in str(caught.value)


@pytest.mark.parametrize("name", ["ablation", "geometry"])
def test_answers_that_are_all_alike_are_not_taken_for_missing_ones(
    make_row: Make, tmp_path: Path, name: str
) -> None:
    rows = [make_row(f"test/0/{k}", right=True, score=0.5) for k in range(4)]
    write(tmp_path / "alike.jsonl", rows)
    with pytest.raises(RecordError, match="too few or all alike; collect others"):
        study(name, [tmp_path])


def test_no_records_a_damaged_manifest_and_a_foreign_row_are_refused(
    make_row: Make, tmp_path: Path
) -> None:
    with pytest.raises(RecordError, match="does not exist; name a folder or file"):
        study("cost", [tmp_path / "none"])
    with pytest.raises(RecordError, match="holds no records; collect some"):
        study("cost", [tmp_path])
    (tmp_path / "a.jsonl").write_text('{"id": "x"}\n')
    with pytest.raises(RecordError, match="line 1 has no 'task'"):
        study("cost", [tmp_path])
    (tmp_path / "a.jsonl").unlink()
    jsonl.append(tmp_path / "b.jsonl", [make_row()])
    (tmp_path / "b.jsonl.manifest.json").write_text("{")
    with pytest.raises(
        RecordError, match=r"is damaged: it is not valid JSON .*; collect the records again"
    ):
        study("cost", [tmp_path])
    with pytest.raises(RecordError, match="reads one folder or file, not 2"):
        study("cost", [tmp_path, tmp_path])


def test_files_are_markdown_csv_and_pictures_with_their_points(
    told_of: Tell, tmp_path: Path
) -> None:
    told = told_of("correction")
    written = told.write(tmp_path / "out")
    assert {path.suffix for path in written} == {".md", ".csv", ".svg"}
    assert all(path.stat().st_size for path in written)
    with (tmp_path / "out" / "correction-accuracy.csv").open() as file:
        heads, first, *_ = csv.reader(file)
    assert heads[:5] == ["study", "n", "standard", "standard low", "standard high"]
    assert float(first[2]) == told.figures["correction/wordmath/standard/accuracy"].value
    assert "## Accuracy" in (tmp_path / "out" / "correction.md").read_text()


@pytest.mark.parametrize("name", ["ablation", "geometry"])
def test_curves_and_planes_are_drawn(told_of: Tell, tmp_path: Path, name: str) -> None:
    told_of(name).write(tmp_path)
    wanted = {
        "ablation": "ablation-wordmath-hard-mask_ratio",
        "geometry": "geometry-wordmath-plane",
    }
    assert (tmp_path / f"{wanted[name]}.svg").read_text().startswith("<?xml")
    assert len((tmp_path / f"{wanted[name]}.csv").read_text().splitlines()) > 5


SHARE = Figure(section="s", measure="", value=0.5, low=0.25, high=0.75, n=8, unit="share")
PLAIN = Figure(section="p", measure="", value=64, unit="forwards")
SMALL = Table(
    name="small", title="Small", heads=["a|b", "right", "cost"], note="A note.",
    rows=[["x|y", SHARE, ""], ["<b>", "", PLAIN]],
)  # fmt: skip


def test_one_table_is_written_four_ways() -> None:
    assert text(SHARE) == "50.0 % [25.0, 75.0]"
    assert text(PLAIN) == "64"
    page = markdown(SMALL)
    assert "| x\\|y | 50.0 % [25.0, 75.0] |  |" in page
    assert "| &lt;b> |  | 64 |" in page
    assert page.endswith("\n\nA note.\n")
    marked = markdown(SMALL, lambda f: text(f, "<!--fig:s-->") if f is SHARE else text(f))
    assert "| 50.0 %<!--fig:s--> [25.0, 75.0] |" in marked
    assert "| &lt;b> |  | 64 |" in marked
    heads, one, two = columns(SMALL)
    assert heads == ["a|b", "right", "right low", "right high", "cost", "cost low", "cost high"]
    assert one == ["x|y", 0.5, 0.25, 0.75, "", "", ""]
    assert two == ["<b>", "", "", "", 64, None, None]
    told = document(SMALL)
    assert told["rows"][0][1] == {
        "figure": "s", "value": 0.5, "low": 0.25, "high": 0.75, "n": 8, "unit": "share",
    }  # fmt: skip
    assert told["rows"][1] == ["<b>", "", {"figure": "p", **PLAIN.entry()}]


def test_a_study_of_ones_own_is_an_object_or_named_by_its_module(whole: Path) -> None:
    def count(source: Source) -> Figures:
        return Figures(
            Figure(section="counting", study=s.name, measure="rows", value=len(s.rows), unit="")
            for s in source.studies
        )

    def tables(figures: Figures) -> list[Table]:
        rows = [[figure.study, figure] for figure in figures.values()]
        return [Table(name="rows", title="Rows", heads=["study", "rows"], rows=rows)]

    counting = Study(name="counting", figures=count, tables=tables)
    told = study(counting, [whole])
    assert told.figures["counting/wordmath-hard/rows"].value == 240
    assert [each.name for each in told.tables] == ["rows"]
    named = study("remask.report.studies.cost:COST", [whole])
    assert named == study("cost", [whole])
    with pytest.raises(SettingsError, match=r"Unknown study 'none'. Known: diagnosis, "):
        study("none", [whole])


def test_there_is_a_study_for_every_name() -> None:
    assert NAMES == (
        "diagnosis", "correction", "ablation", "geometry", "spurious", "cost", "scaling",
    )  # fmt: skip
