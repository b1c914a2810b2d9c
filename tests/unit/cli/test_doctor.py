"""The facts that `doctor` and `models` report."""

import json
from pathlib import Path

import pytest
import torch

from remask.cli import doctor, listing
from remask.denoisers import catalog, devices
from remask.errors import CheckpointError, SettingsError
from remask.testing import write_checkpoint

CPU = torch.device("cpu")


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def pretend_cuda(monkeypatch: pytest.MonkeyPatch, free: int | None) -> None:
    monkeypatch.setattr(doctor, "choose_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(doctor, "free_memory", lambda device: free)


def size_of(*, experts_per_token: int = 0, num_kept: int = 0) -> listing.Size:
    return listing.Size(
        num_parameters=0, num_bytes=0, width=4, vocab_size=100,
        experts_per_token=experts_per_token, num_kept=num_kept,
    )  # fmt: skip


def test_models_are_the_embedded_one_and_the_catalogue() -> None:
    rows = {row["model"]: row for row in listing.models()}
    assert list(rows) == ["tiny", *(c.id for c in catalog.CHECKPOINTS)]
    assert len({tuple(row) for row in rows.values()}) == 1, "rows have different columns"
    llada = rows["GSAI-ML/LLaDA-8B-Instruct"]
    assert (llada["parameters"], llada["bfloat16_gb"], llada["presets"]) == (
        8_015_581_184,
        16.0,
        16,
    )
    tiny = rows["tiny"]
    assert tiny["parameters"] == catalog.TINY.num_parameters
    assert tiny["bfloat16_gb"] == round(2 * tiny["parameters"] / 1e9, 3)
    assert all(row["memory_gb"] > row["bfloat16_gb"] for row in rows.values())


def test_one_model_comes_with_the_presets_of_its_authors() -> None:
    found = listing.model("Dream-org/Dream-v0-Instruct-7B")
    preset = next(p for p in found["presets"] if p["task"] == "GSM8K")
    assert preset["accuracy"] == 81.0
    assert preset["settings"]["order"] == "entropy"
    with pytest.raises(SettingsError, match="Unknown model 'someone/else'"):
        listing.model("someone/else")


def test_the_workspace_is_the_logits_and_the_widest_layer() -> None:
    """10 tokens of width 4, vocabulary 100, in two bytes.

    Logits 10 x 100 x (4 + 2) = 6,000; hidden 10 x 4 x 20 x 2 = 1,600; three experts add
    10 x 4 x 24 x 2 = 1,920. In four bytes: 4,000 + 3,200.
    """
    dense, routed = (size_of(experts_per_token=k) for k in (0, 3))
    assert dense.workspace(10, 10, 2) == 7_600
    assert routed.workspace(10, 10, 2) == 9_520
    assert dense.workspace(10, 10, 4) == 7_200
    assert dense.workspace(10, 40, 2) == 7_600, "columns cost nothing unless they are kept"


def test_what_is_kept_of_all_columns_is_part_of_the_workspace() -> None:
    """The same 10 tokens: 7,600 bytes. 40 columns keep 6 numbers of two bytes each: 480 more."""
    assert size_of(num_kept=6).workspace(10, 40, 2) == 8_080


@pytest.mark.usefixtures("on_cpu")
def test_a_folder_is_estimated_from_its_config_alone(tmp_path: Path) -> None:
    """37,408 numbers in float32: 149,632 bytes; no weights are needed."""
    folder = write_checkpoint(tmp_path)
    (folder / "model.safetensors").unlink()
    found = doctor.estimate(str(folder))
    assert (found["parameters"], found["dtype"], found["device"]) == (37_408, "float32", "cpu")
    assert found["weights_gb"] == 0.0
    assert set(found["packed"]) == {"int8", "nf4"}
    assert found["known_from"] == "config.json"
    assert found["fits"] in {"yes", "unknown"}


@pytest.mark.usefixtures("on_cpu")
def test_another_hub_id_is_estimated_without_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path)
    asked = []

    def download(model: str, allow_patterns: list[str]) -> str:
        asked.append((model, allow_patterns))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert doctor.estimate("someone/model")["parameters"] == 37_408
    assert asked == [("someone/model", ["config.json"])]


@pytest.mark.parametrize(
    ("free", "fits", "advice"),
    [
        (40e9, "yes", None),
        (25e9, "small batches", "score few answers at a time (--batch)"),
        (18e9, "fewer bits",
         "fits in 18.0 GB with --weights int8 (12.8 GB) or --weights nf4 (9.8 GB)"),
        (12e9, "fewer bits", "fits in 12.0 GB with --weights nf4 (9.8 GB)"),
        (9.7e9, "no", "choose another device or a smaller model (remask models lists sizes)"),
        (None, "unknown", "this system does not say how much memory is free"),
    ],
)  # fmt: skip
def test_the_verdict_on_a_published_model_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, free: float | None, fits: str, advice: str | None
) -> None:
    """LLaDA-8B takes 16.03 GB, 3.8 GB more for 4,096 tokens and 14.0 GB more for 65,536.

    Logits fill 2^29 places with 6 bytes each, if there are so many: 4,096 x 126,464 x 6 = 3.11 GB
    is less, 2^29 x 6 = 3.22 GB. Hidden: 4,096 tokens x 4,096 x 20 x 2 bytes = 0.67 GB, and 10.7 GB.
    """
    pretend_cuda(monkeypatch, None if free is None else int(free))
    found = doctor.estimate("GSAI-ML/LLaDA-8B-Instruct")
    assert (found["weights_gb"], found["dtype"]) == (16.031, "bfloat16")
    assert (found["one_answer_gb"], found["full_batches_gb"]) == (19.81, 29.99)
    assert (found["fits"], found["advice"]) == (fits, advice)
    assert found["packed"] == {
        "int8": {"weights_gb": 9.052, "one_answer_gb": 12.831},
        "nf4": {"weights_gb": 5.998, "one_answer_gb": 9.777},
    }
    assert found["known_from"] == "the catalogue"


def test_a_full_batch_of_a_block_causal_model_includes_its_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LLaDA2 keeps, of a column, 20 layers x (4 + 4) heads x 128 = 20,480 numbers, 40,960 bytes.

    Logits fill 2^29 x 6 bytes = 3.22 GB. A token takes 2,048 x (20 + 8 x 8) x 2 = 344,064 bytes.
    One answer: 4,096 x 344,064 = 1.41 GB and 4,096 x 40,960 = 0.17 GB: 4.80 GB in all. A full
    batch: 65,536 x 344,064 = 22.55 GB and 262,144 x 40,960 = 10.74 GB: 36.51 GB.
    """
    pretend_cuda(monkeypatch, 139 * 10**9)
    found = doctor.estimate("inclusionAI/LLaDA2.1-mini")
    assert (found["one_answer_gb"], found["full_batches_gb"]) == (37.31, 69.019)
    assert found["fits"] == "yes"
    row = listing.model("inclusionAI/LLaDA2.1-mini")
    assert row["memory_gb"] == 37.3  # 32.51 + 4.80


@pytest.mark.parametrize(
    ("free", "fits", "advice"),
    [
        ((20e9, 9e9), "small batches", "score few answers at a time (--batch)"),
        ((12e9, 12e9, 50e9), "over several devices", "--device cuda:0,cuda:1 --split layers"),
        (
            (11e9, 11e9, 11e9),
            "over several devices",
            "--device cuda:0,cuda:1,cuda:2 --split layers",
        ),
        ((13e9, 13e9), "over several devices",
         "fits with --device cuda:0,cuda:1 --split layers, or in 13.0 GB with --weights int8"),
        ((11e9, 11e9), "fewer bits", "fits in 11.0 GB with --weights nf4 (9.8 GB)"),
        ((3e9, 3e9, 18e9), "no", "choose another device or a smaller model"),
    ],
)  # fmt: skip
def test_a_model_that_fits_over_several_gpus_is_told_how(
    monkeypatch: pytest.MonkeyPatch, free: tuple[float, ...], fits: str, advice: str
) -> None:
    """LLaDA-8B takes 16.03 GB, and 3.78 GB on each device for what is computed.

    Of twice 12 GB that leaves 16.44 GB, of twice 11 GB 14.44 and of three times 21.66. Of 3 GB
    nothing is left, and 18 GB alone leave 14.22.
    """

    def room(device: torch.device) -> int:
        return int(free[device.index or 0])

    pretend_cuda(monkeypatch, int(free[0]))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(free))
    monkeypatch.setattr(devices, "free_memory", room)
    found = doctor.estimate("GSAI-ML/LLaDA-8B-Instruct")
    assert found["fits"] == fits
    assert advice in found["advice"]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("free", "fits", "advice"),
    [
        (24e9, "fewer bits", "fits in 24.0 GB with --dtype bfloat16 (17.0 GB), "
         "--weights int8 (12.0 GB) or --weights nf4 (8.9 GB)"),
        (10e9, "fewer bits", "fits in 10.0 GB with --weights nf4 (8.9 GB)"),
        (8e9, "fewer bits", "fits in 8.0 GB with --dtype bfloat16 --weights nf4 (6.9 GB)"),
        (6e9, "no", "choose another device or a smaller model (remask models lists sizes)"),
    ],
)  # fmt: skip
def test_a_model_too_large_in_float32_is_told_what_fits(
    monkeypatch: pytest.MonkeyPatch, free: float, fits: str, advice: str
) -> None:
    """Two flags are named where none alone is enough; all sizes are those to verify an answer."""
    monkeypatch.setattr(doctor, "free_memory", lambda device: int(free))
    found = doctor.estimate("GSAI-ML/LLaDA-8B-Instruct")
    assert found["weights_gb"] == 32.062
    assert (found["fits"], found["advice"]) == (fits, advice)


def test_a_folder_of_another_architecture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["GPT2LMHeadModel"]}))
    with pytest.raises(CheckpointError, match="'GPT2LMHeadModel'; known are"):
        doctor.estimate(str(tmp_path))


def test_extras_name_what_is_missing_and_the_line_that_installs_it() -> None:
    found = listing.extras(
        [
            "torch>=2.5",
            'rich>=13; extra == "shown"',
            "no-such-package>=1; extra == 'more'",
            'pytest; extra == "more"',
            'remask[shown,more]; extra == "all"',
        ]
    )
    assert found == {
        "shown": {"missing": [], "install": None},
        "more": {"missing": ["no-such-package"], "install": "pip install 'remask[more]'"},
    }


def test_free_memory_is_known_on_this_system() -> None:
    free = doctor.examine()["free_memory_gb"]
    assert free is None or 0 < free < 100_000
