"""How pools were drawn: what a manifest says, what it may be continued with, what pages show."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.collect.collect import collect, prepare
from remask.collect.settings import CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import RecordError, SettingsError
from remask.records import jsonl
from remask.records.manifest import manifest_path, parse_manifest, read_manifest
from remask.report.page import write_page
from remask.report.studies import study
from remask.sampling.settings import SamplerSettings
from remask.testing import write_checkpoint

Make = Callable[..., dict[str, Any]]
GREEDY = SamplerSettings(length=16, steps=4, block=16)
POOL = replace(GREEDY, resample_temperature=0.7)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Denoiser:
    torch.set_num_threads(1)
    folder = write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model", layers=1, width=16, heads=2, inner=16,
        length=16, max_length=1024, dtype=torch.float32,
    )  # fmt: skip
    return load(folder, device="cpu")


@pytest.fixture
def settings() -> CollectSettings:
    trips = ConsistencySettings(trips=1, rebuild_steps=1)
    return CollectSettings(
        task="wordmath", problems=1, samples=2, scored=0, sampler=POOL, consistency=trips,
        metrics="core", chunk=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"samples": 10, "sampler": {"temperature": 0.0, "resample_temperature": 0.7}},
         "greedy + 9 at 0.7"),
        ({"samples": 10, "sampler": {"temperature": 1.6, "resample_temperature": None}},
         "10 at 1.6"),
        ({"samples": 10, "sampler": {"temperature": 1.6}}, "10 at 1.6"),
        ({"samples": 1, "sampler": {"temperature": 0.0, "resample_temperature": None}}, "greedy"),
        ({"samples": 1, "sampler": {"temperature": 0}}, "greedy"),
        ({"samples": 4, "sampler": {"temperature": 0}}, "4 greedy copies"),
        ({"samples": 4, "sampler": {"steps": 3}}, ""),
        ({"sampler": {"temperature": 1.0}}, ""),
        ({"samples": 4, "sampler": None}, ""),
    ],
)  # fmt: skip
def test_a_pool_in_words(asked: dict[str, Any], told: str) -> None:
    assert parse_manifest({"asked": asked}, Path("a")).drawn == told


def test_copies_are_never_collected(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    copies = replace(settings, sampler=GREEDY, samples=3)
    with pytest.raises(SettingsError, match="every time, and samples is 3; set"):
        prepare(copies)  # and so before a model is loaded
    with pytest.raises(SettingsError, match="and samples is 3"):
        collect(model, copies, out)
    assert not list(tmp_path.iterdir())
    rows = list(jsonl.read(collect(model, replace(copies, sampler=None), out)))
    assert len({row["text"] for row in rows}) == 3


def test_both_temperatures_stand_in_the_manifest(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, settings, tmp_path / "out.jsonl")
    manifest = read_manifest(out)
    asked = manifest.settings
    assert asked["sampler"]["temperature"] == 0.0
    assert asked["sampler"]["resample_temperature"] == 0.7
    assert manifest.drawn == "greedy + 1 at 0.7"


def forget(out: Path) -> None:
    """Make a manifest one of before there was a second temperature."""
    document = json.loads(manifest_path(out).read_text())
    del document["asked"]["sampler"]["resample_temperature"], document["checksum"], document["file"]
    manifest_path(out).write_text(json.dumps({**document, "version": 2}))


@pytest.mark.parametrize(
    ("sampler", "samples"), [(replace(GREEDY, temperature=1.0), 2), (GREEDY, 1), (POOL, 1)]
)
def test_an_older_manifest_goes_on_where_nothing_is_drawn_otherwise(
    model: Denoiser, settings: CollectSettings, tmp_path: Path, sampler: SamplerSettings,
    samples: int,
) -> None:  # fmt: skip
    """Of a single sample the second temperature says nothing."""
    settings = replace(settings, sampler=sampler, samples=samples)
    out = collect(model, settings, tmp_path / "out.jsonl")
    forget(out)
    whole = collect(model, replace(settings, problems=2), tmp_path / "whole.jsonl")
    assert collect(model, replace(settings, problems=2), out).read_bytes() == whole.read_bytes()


def test_an_older_manifest_of_copies_is_not_added_to(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, settings, tmp_path / "out.jsonl")
    forget(out)
    with pytest.raises(RecordError, match=r"sampler.resample_temperature was not set, got 0.7"):
        collect(model, replace(settings, problems=2), out)


def test_another_second_temperature_is_another_collection(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, settings, tmp_path / "out.jsonl")
    other = replace(POOL, resample_temperature=0.8)
    with pytest.raises(RecordError, match=r"sampler.resample_temperature was 0.7, got 0.8"):
        collect(model, replace(settings, problems=2, sampler=other), out)


@pytest.mark.usefixtures("few_resamples")
def test_tables_and_pages_say_how_the_pool_was_drawn(make_row: Make, tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    right = [(k, n, (k + n) % 3 > 0) for k in range(6) for n in range(2)]
    jsonl.append(
        path, [make_row(f"test/0/{k}", n, right=ok, score=0.4 + ok / 3) for k, n, ok in right]
    )
    asked = {"samples": 2, "sampler": {"temperature": 0.0, "resample_temperature": 0.9, "steps": 4}}
    asked["consistency"] = {"rebuild_steps": 4, "trips": 2}
    bare = write_page(path, tmp_path / "bare.html").read_text()
    assert "greedy +" not in bare
    manifest_path(path).write_text(json.dumps({"asked": asked}))
    for name in ("diagnosis", "correction"):
        (table,) = [t for t in study(name, [path]).tables if t.name == "drawn"]
        assert table.rows == [["pool", "greedy + 1 at 0.9"]]
    assert "greedy + 1 at 0.9" in write_page(path, tmp_path / "page.html").read_text()
