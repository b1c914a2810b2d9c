"""Flawed solutions scored by a small random model: what is recorded, and that it resumes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.analysis.spurious import detection
from remask.collect.injection import (
    HIDDEN_EVERY,
    VARIANTS,
    cases,
    collect_injected,
    read_confidence,
    recorded_pairs,
    reference_pairs,
)
from remask.collect.settings import InjectionSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import RecordError
from remask.records import jsonl
from remask.records.manifest import part_path
from remask.records.record import Record, read_records, records_in
from remask.tasks import TASKS
from remask.testing import ScriptedDenoiser, write_checkpoint
from remask.values import Sample

Row = dict[str, Any]
SETTINGS = InjectionSettings(
    consistency=ConsistencySettings(trips=1, rebuild_steps=2), metrics="core", chunk=2
)
PAIRS = reference_pairs("wordmath", level="easy", problems=3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Denoiser:
    folder = write_checkpoint(tmp_path_factory.mktemp("model"), layers=1, width=16, inner=16)
    return load(str(folder), dtype="float32")


@pytest.fixture(scope="module")
def collected(model: Denoiser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("records") / "injected-wordmath-easy.jsonl"
    return collect_injected(model, PAIRS, SETTINGS, out)


def test_a_problem_has_a_row_for_itself_and_for_every_kind(collected: Path) -> None:
    rows = list(jsonl.read(collected))
    assert [(row["id"], row["number"], row["kind"]) for row in rows] == [
        (problem.id, number, kind) for problem, _ in PAIRS for number, kind in enumerate(VARIANTS)
    ]
    expected = {(case.problem.id, case.kind): case.text for case in cases(PAIRS)}
    assert {(row["id"], row["kind"]): row["text"] for row in rows} == expected


def test_originals_are_sound_and_the_others_right_and_flawed(collected: Path) -> None:
    for row in jsonl.read(collected):
        if row["text"] is not None:
            assert row["right"]
            assert row["process_ok"] is (row["kind"] == "original")
            assert 0 <= row["scores"]["read_confidence"] <= 1
            assert row["scores"]["roundtrips"] is not None
            assert row["verify_forwards"] > 0
            assert len(row["pieces"]) == len(row["drift"])


def test_what_was_collected_can_be_judged(collected: Path) -> None:
    detected = detection("s", records_in(read_records(collected)), 0.75, resamples=5)
    found = {f.method: f.n for f in detected if f.measure == "recall"}
    absent = [row["kind"] for row in jsonl.read(collected) if row["text"] is None]
    assert found == {
        kind: 3 - absent.count(kind) for kind in VARIANTS[1:] if absent.count(kind) < 3
    }


def test_an_interrupted_file_ends_like_an_uninterrupted_one(
    model: Denoiser, collected: Path, tmp_path: Path
) -> None:
    out = tmp_path / "again.jsonl"

    def stop(done: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_injected(model, PAIRS, SETTINGS, out, stop)
    with part_path(out).open("a") as file:
        file.write('{"row": 2, "li')
    seen: list[int] = []
    collect_injected(model, PAIRS, SETTINGS, out, seen.append)
    assert seen == [2, 3]
    assert out.read_bytes() == collected.read_bytes()
    runs = json.loads((tmp_path / "again.jsonl.manifest.json").read_text())["runs"]
    assert [(run["from"], run["to"]) for run in runs] == [(0, 2), (2, 3)]


def test_other_solutions_or_settings_are_not_mixed_in(
    model: Denoiser, collected: Path, tmp_path: Path
) -> None:
    out = tmp_path / collected.name
    for path in (collected, collected.with_name(collected.name + ".manifest.json")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    others = [*reference_pairs("wordmath", level="easy", problems=4, seed=1)]
    with pytest.raises(RecordError, match="has another solution"):
        collect_injected(model, others, SETTINGS, out)
    changed = InjectionSettings(consistency=ConsistencySettings(trips=2), metrics="core")
    with pytest.raises(RecordError, match=r"consistency.trips was 1, got 2"):
        collect_injected(model, PAIRS, changed, out)


def test_recorded_answers_are_spoiled_where_every_step_is_right(
    make_record: Callable[..., Record],
) -> None:
    problem = TASKS["wordmath"].problem(5, level="hard")
    row = replace(make_record(), id=problem.id, prompt=problem.prompt, text=problem.solution)
    flawed, further = replace(row, process_ok=False), replace(row, number=1)
    assert recorded_pairs([row, flawed, further]) == [(problem, problem.solution)]
    with pytest.raises(RecordError, match="is another problem in these records"):
        recorded_pairs([replace(row, prompt="How many?")])


def test_the_read_confidence_of_a_reciting_model_is_worked_out() -> None:
    """Two of four tokens are what the model recites, with p = e^2 / (e^2 + 260): the mask token
    has no chance. The other two have p / e^2.
    """
    recited = (10, 20, 30, 0)
    model = ScriptedDenoiser.reciting([7, *recited], margin=2.0)
    sample = Sample(item="a", prompt=(7,), canvas=(10, 21, 31, 0), num_response=4, text="")
    e2 = torch.tensor(2.0).exp().item()
    expected = (2 * e2 + 2) / 4 / (e2 + 260)
    assert read_confidence(model, [sample, sample]) == pytest.approx([expected] * 2)


def test_every_token_is_hidden_once_and_the_tail_never() -> None:
    hidden = []

    def script(tokens: torch.Tensor) -> torch.Tensor:
        hidden.extend((tokens == 1).nonzero().tolist())
        return torch.zeros(*tokens.shape, 262)

    num = 2 * HIDDEN_EVERY + 1
    canvas = (*[10] * (num - 1), *[0] * 8)
    sample = Sample(item="a", prompt=(7, 8), canvas=canvas, num_response=num, text="")
    read_confidence(ScriptedDenoiser(script=script), [sample])
    assert sorted(place for _, place in hidden) == [2 + k for k in range(num)]
