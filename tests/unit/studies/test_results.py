"""The results page: made from records alone, the same each time, and quoted rightly."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_figures
from few_draws import few_draws

from remask.analysis.folder import CURVES
from remask.errors import RecordError
from remask.records import jsonl
from studies.paper import measure as results
from studies.shared.figures import read

Row = dict[str, Any]
Make = Callable[..., Row]


@pytest.fixture(scope="module", autouse=True)
def few_resamples() -> Iterator[None]:
    """Intervals are not what these tests look at."""
    with few_draws():
        yield


def draw(make_row: Make, problems: int, samples: int, split: str, level: str) -> list[Row]:
    rng = random.Random(f"{split} {level} {samples}")
    rows = []
    for k in range(problems):
        for number in range(samples):
            right = rng.random() < 0.6
            score = min(1.0, rng.gauss(0.7 if right else 0.5, 0.1))
            row = make_row(
                f"{split}/0/{k}", number, right=right, answer="1" if right else "2", score=score,
                confidence=rng.random(), process_ok=right and rng.random() < 0.7, level=level,
                by_trip={"token_accuracy": [score] * 8, "answer_match": [rng.random()] * 8},
            )  # fmt: skip
            rows.append(row)
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_row: Make) -> Path:
    out = tmp_path_factory.mktemp("records")
    asked = {"sampler": {"steps": 12}, "consistency": {"rebuild_steps": 16, "trips": 4}}
    for level in ("medium", "hard"):
        name = f"pool-wordmath-{level}"
        jsonl.append(out / f"{name}.jsonl", draw(make_row, 16, 10, "test", level))
        (out / f"{name}.jsonl.manifest.json").write_text(json.dumps({"asked": asked}))
        greedy = draw(make_row, 16, 1, "test", level)
        jsonl.append(out / f"greedy-wordmath-{level}.jsonl", greedy)
    validation = draw(make_row, 30, 1, "validation", "hard")
    jsonl.append(out / "threshold-wordmath.jsonl", validation)
    for name in (*CURVES, "trips-8"):
        jsonl.append(out / f"{name}.jsonl", draw(make_row, 16, 1, "test", "hard"))
    extra = {"value": 0.2, "low": 0.1, "high": 0.3, "n": 9, "unit": "median rate",
             "hardware": "two cores"}  # fmt: skip
    (out / "extra.json").write_text(json.dumps({"geometry/contraction": extra}))
    return out


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page and the two files of figures; one of them held others, and older ones, before."""
    out = tmp_path_factory.mktemp("made")
    old = {
        "cpu/verify_seconds": {"value": 1.2, "unit": "s", "run": "c"},
        "accuracy/gone": {"value": 0, "unit": "share", "run": "g"},
    }
    run = {"command": "do", "commit": "0", "hardware": "two cores"}
    document = {"version": 3, "runs": {"c": run, "g": run}, "figures": old}
    (out / "f.json").write_text(json.dumps(document))
    assert results.main(words(folder, out, "--commit", "abc", "--hardware", "one GPU")) == 0
    return out


def words(folder: Path, out: Path, *more: str) -> list[str]:
    asked = [str(folder), "--page", str(out / "r.md"), "--figures", str(out / "f.json")]
    return [*asked, "--demo", str(out / "demo.json"), "--notes", str(out / "notes.json"), *more]


def test_every_number_on_the_page_is_the_documented_figure(made: Path) -> None:
    figures = json.loads((made / "f.json").read_text())["figures"]
    text = (made / "r.md").read_text()
    assert test_figures.disagreements(text, figures) == []
    assert text.count("<!--fig:") > 100
    assert [
        fault for name, figure in figures.items() for fault in test_figures.faults(name, figure)
    ] == []


def test_the_page_has_every_study_every_claim_and_the_papers_numbers(made: Path) -> None:
    text = (made / "r.md").read_text()
    for study in ("diagnosis", "correction", "ablation", "geometry", "spurious", "cost"):
        assert f"`remask study {study} records" in text
    assert "Collected on one GPU at commit abc." in text
    assert "| 0.893 0.820 0.777 0.678 | 0.898 0.825 0.804 0.605 |" in text, "Table 1"
    assert "| 0.889 |" in text, "Table 7 at mask_ratio 0.9"
    assert "| paper: GSM8K |" in text
    assert "| ablation | mask_ratio: best at 0.9 among the paper's values. | Table 7, F" in text
    assert "0.200<!--fig:geometry/contraction-->" in text


def test_the_page_is_made_from_the_figures_alone(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.md"
    words = ["page", "--page", again, "--figures", made / "f.json", "--notes", made / "notes.json"]
    assert results.main([str(word) for word in words]) == 0
    assert again.read_bytes() == (made / "r.md").read_bytes()


def test_the_report_lies_beside_the_records(folder: Path, made: Path) -> None:
    assert "results.html" in (made / "r.md").read_text()
    assert "round trips" in (folder / "results.html").read_text()


def test_figures_have_their_origin_others_stay_and_older_ones_go(made: Path) -> None:
    document = json.loads((made / "f.json").read_text())
    assert document["figures"]["cpu/verify_seconds"] == {"value": 1.2, "unit": "s", "run": "c"}
    assert set(document["runs"]) == {"c", "study", "study#2"}, "of figures that are there"
    written = read(made / "f.json")
    assert "accuracy/gone" not in written
    told = written["accuracy/wordmath"]
    assert (told["n"], told["commit"], told["hardware"]) == (16, "abc", "one GPU")
    assert "studies.paper.plan collect" in told["command"]
    apart = written["geometry/contraction"]
    assert (apart["hardware"], apart["commit"]) == ("two cores", "abc")
    for name in (
        "diagnosis/wordmath-hard/baselines/auroc",
        "diagnosis/wordmath-hard/roundtrips_minus_consistency/auroc",
        "correction/wordmath/mgrs/eff", "ablation/wordmath-hard/mask_ratio/0.3/above_default",
        "geometry/spearman_null", "spurious/recall",
        "process/wordmath/auroc", "cost/wordmath/diagnosis_share/counted",
    ):  # fmt: skip
        assert name in written
    assert "diagnosis/wordmath/roundtrips/prr" not in written, "told, but not to be quoted"
    copied = json.loads((made / "demo.json").read_text())["figures"]
    own = written["diagnosis/wordmath-hard/vote/auroc"]
    assert copied["diagnosis/wordmath-hard/vote/auroc"] == {
        key: own[key] for key in ("value", "low", "high", "n", "unit", "hardware")
    }
    assert not any(name.startswith(("geometry", "cost")) for name in copied)


def test_the_same_records_make_the_same_page_and_remember_their_origin(
    folder: Path, made: Path, tmp_path: Path
) -> None:
    (tmp_path / "f.json").write_text((made / "f.json").read_text())
    assert results.main(words(folder, tmp_path)) == 0
    for name in ("r.md", "f.json", "demo.json"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()


def test_a_folder_without_records_names_the_command_that_collects_them(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"studies\.paper\.plan collect tiny .*none"):
        results.main(words(tmp_path / "none", tmp_path))


def test_records_of_unknown_origin_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pool-wordmath-hard.jsonl").write_text("")
    with pytest.raises(RecordError, match="say --commit and --hardware"):
        results.main(words(tmp_path, tmp_path))


def test_rows_that_follow_the_old_rule_of_votes_are_named_on_the_page(
    folder: Path, make_row: Make, tmp_path: Path
) -> None:
    """As records of before have them: pools of countdown without keys."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    rows = draw(make_row, 8, 3, "test", "hard")
    old = [{**row, "task": "countdown", "id": f"countdown{row['id'][8:]}"} for row in rows]
    jsonl.append(tmp_path / "pool-countdown-hard.jsonl", old)
    (tmp_path / "pool-countdown-hard.jsonl.manifest.json").write_bytes(
        (folder / "pool-wordmath-hard.jsonl.manifest.json").read_bytes()
    )
    out = tmp_path / "made"
    out.mkdir()
    assert results.main(words(tmp_path, out, "--commit", "abc", "--hardware", "one GPU")) == 0
    page = (out / "r.md").read_text()
    said = " ".join(page.split())
    assert said.count("follows the old rule on countdown-hard: there, answers are one") == 1


def test_problems_that_could_not_be_asked_stand_beside_n_on_the_page(
    folder: Path, tmp_path: Path
) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    error = {
        "id": "e",
        "task": "wordmath",
        "level": "hard",
        "number": 0,
        "prompt": "e",
        "gold": "1",
    }
    error |= {"gold": "1", "error": "e is long."}
    jsonl.append(tmp_path / "pool-wordmath-hard.jsonl", [error])
    out = tmp_path / "made"
    out.mkdir()
    assert results.main(words(tmp_path, out, "--commit", "abc", "--hardware", "one GPU")) == 0
    page = (out / "r.md").read_text()
    assert "| problems | 16 | 16, 1<!--fig:errors/wordmath-hard--> error |" in page
