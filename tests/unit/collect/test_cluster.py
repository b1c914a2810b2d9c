"""What is refused before a worker starts, and how a cluster is shared out; without Ray's help."""

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from remask.collect import cluster
from remask.collect.cluster import Cluster, ModelSpec
from remask.collect.manifest import identify
from remask.denoisers.native import dtype_of
from remask.errors import EngineError, MissingExtra, SettingsError
from remask.testing import write_checkpoint


def stub(monkeypatch: pytest.MonkeyPatch, **resources: float) -> list[str]:
    """Put a cluster with these resources in the place of ray; return the calls it gets."""
    calls: list[str] = []
    monkeypatch.setenv("RAY_AUTH_TOKEN", "known here alone")
    monkeypatch.setattr(
        cluster,
        "_ray",
        lambda: SimpleNamespace(
            init=lambda **named: calls.append(f"init {named['address']}"),
            cluster_resources=lambda: resources,
            shutdown=lambda: calls.append("shutdown"),
        ),
    )
    return calls


@pytest.mark.parametrize(
    ("device", "workers", "resources", "expected"),
    [
        ("auto", None, {"CPU": 8.0}, ("cpu", 2, "float32", 0, 4)),
        ("auto", None, {"CPU": 9.0, "GPU": 4.0}, ("cuda", 4, "bfloat16", 1, 2)),
        ("auto", 2, {"CPU": 8.0, "GPU": 4.0}, ("cuda", 2, "bfloat16", 1, 4)),
        ("cpu", 3, {"CPU": 8.0, "GPU": 4.0}, ("cpu", 3, "float32", 0, 2)),
    ],
)
def test_workers_get_a_gpu_each_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, device: str, workers: int | None, resources: Any, expected: Any
) -> None:
    calls = stub(monkeypatch, **resources)
    with Cluster(ModelSpec(model="tiny", device=device), workers=workers) as found:
        needs = found._needs["num_gpus"], found._needs["num_cpus"]
        assert (found.spec.device, found.workers, found.precision, *needs) == expected
    assert calls == ["init local", "shutdown"]


def test_a_packed_model_keeps_its_precision_on_the_way_to_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = ModelSpec(model=str(write_checkpoint(tmp_path)), device="cpu", weights="nf4")
    worker = cluster.Worker(spec)
    described = worker.describe()
    assert dtype_of(described) == dtype_of(worker._model()) == "nf4/float32"
    assert described.weights == identify(worker._model()).weights
    stub(monkeypatch, CPU=8.0)
    with Cluster(spec, workers=2) as made:
        assert made.precision == "nf4/float32"


def test_a_worker_compiles_its_model_where_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda block, **_: compiled.append(block))
    folder = str(write_checkpoint(tmp_path))
    cluster.Worker(ModelSpec(model=folder, device="cpu")).describe()
    assert compiled == []
    cluster.Worker(ModelSpec(model=folder, device="cpu", compiled=True)).describe()
    assert compiled


@pytest.mark.parametrize(
    ("device", "resources", "sentence"),
    [
        ("cpu", {"CPU": 2.0}, "3 workers need a CPU each and the cluster has 2; ask for fewer"),
        ("cuda", {"CPU": 8.0}, "3 workers need a GPU each and the cluster has 0; ask for fewer"),
    ],
)
def test_more_workers_than_the_cluster_has_room_for_are_refused_and_it_is_left(
    monkeypatch: pytest.MonkeyPatch, device: str, resources: Any, sentence: str
) -> None:
    calls = stub(monkeypatch, **resources)
    with pytest.raises(SettingsError, match=sentence):
        Cluster(ModelSpec(model="tiny", device=device), workers=3).__enter__()
    assert calls == ["init local", "shutdown"]


def test_a_device_of_ones_own_choice_is_refused() -> None:
    with pytest.raises(SettingsError, match="device 'cuda:1' cannot be given to workers"):
        Cluster(ModelSpec(model="tiny", device="cuda:1"))


def test_a_missing_ray_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        MissingExtra, match=r"ray is not installed; pip install 'remask\[ray\]', or"
    ):
        Cluster(ModelSpec(model="tiny")).__enter__()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_where_nobody_listens_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    calls = stub(monkeypatch)
    with pytest.raises(EngineError, match=f"no Ray cluster answers at address '{address}' "):
        Cluster(ModelSpec(model="tiny"), address=address).__enter__()
    assert not calls


@pytest.mark.parametrize("address", ["auto", "ray://127.0.0.1:1", "here", ":1", "127.0.0.1:"])
def test_an_address_of_another_form_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Ray would look for minutes for a cluster that was once here, or ask for another package."""
    calls = stub(monkeypatch)
    with pytest.raises(SettingsError, match=f"address '{address}' is not of the form HOST:PORT"):
        Cluster(ModelSpec(model="tiny"), address=address).__enter__()
    assert not calls


def test_a_missing_extra_comes_back_whole_from_another_process() -> None:
    error = MissingExtra("ray", "ray", "use --engine local")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
