"""The table id x step: what a user does with a published model, on its stand-in, by default.

The steps are those of studies/checks/standins.py, which makes the same table for a page. Here they
are taken in short (`in_short` there says what that is); `make test-all` takes them in full.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from standin_checkpoints import STANDINS

from remask.denoisers.catalog import CHECKPOINTS, Checkpoint
from studies.checks import standins

IDS = tuple(checkpoint.id for checkpoint in CHECKPOINTS)
# The first id of each kind of tokenizer.
KINDS = {STANDINS[model].vocabulary.kind: model for model in reversed(IDS) if model in STANDINS}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[standins.Table]:
    """The table as it fills; it ends up among pytest's temporary files, as Markdown."""
    cells: standins.Table = {model: {} for model in IDS}
    yield cells
    (tmp_path_factory.getbasetemp() / "standins.md").write_text(standins.markdown(cells))


@pytest.mark.parametrize("step", standins.STEPS)
@pytest.mark.parametrize("model", IDS)
def test_every_step_works_on_every_id(
    hub: Path, table: standins.Table, tmp_path: Path, model: str, step: str
) -> None:
    table[model][step] = "failed"
    with standins.in_short():
        standins.STEPS[step](model, tmp_path)
    table[model][step] = "ok"


def test_a_step_that_fails_is_a_cell_and_not_the_end_of_the_table(tmp_path: Path) -> None:
    told = standins.take("load", str(tmp_path), tmp_path)
    assert told.startswith("CheckpointError: ")
    share = standins.figures_of({"a": {"load": "ok", "doctor": told}})
    assert share["standins/steps_ok"]["value"] == 0.5
    assert share["standins/ids"]["value"] == 1


@pytest.mark.full
@pytest.mark.parametrize("model", IDS)
def test_the_first_call_works_at_full_length(hub: Path, tmp_path: Path, model: str) -> None:
    standins.solve(model, tmp_path)


PRESETS = [(c, published.task) for c in CHECKPOINTS for published in c.presets]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::remask.denoisers.catalog.UnsupportedSetting")
@pytest.mark.parametrize(("checkpoint", "task"), PRESETS, ids=lambda v: getattr(v, "id", v))
def test_every_published_preset_can_be_asked_for(
    hub: Path, tmp_path: Path, checkpoint: Checkpoint, task: str
) -> None:
    with standins.in_short():
        words = ("--model", checkpoint.id, "--preset", task, "--json", standins.PROMPT)
        assert standins.command("solve", *words)


@pytest.mark.full
@pytest.mark.parametrize("step", standins.STEPS)
@pytest.mark.parametrize("model", KINDS.values(), ids=KINDS.keys())
def test_every_step_works_with_the_true_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, step: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    STANDINS[model].write(tmp_path / "hub", true_ids=True)
    with standins.in_short():
        standins.STEPS[step](model, tmp_path)
