import pytest
import torch
from torch import nn

from remask.denoisers.identity import fingerprint


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))


@pytest.mark.parametrize("place", [0, 6, 17, 34])
def test_any_changed_weight_changes_the_fingerprint(place: int) -> None:
    other = model()
    weight = other[0].weight  # type: ignore[index]
    with torch.no_grad():
        weight.view(-1)[place] += 1e-3
    assert fingerprint(other) != fingerprint(model()) == fingerprint(model())


def test_swapped_weights_and_another_precision_change_the_fingerprint() -> None:
    swapped = model()
    with torch.no_grad():
        weight = swapped[0].weight.view(-1)  # type: ignore[index,operator]
        weight[[3, 20]] = weight[[20, 3]].clone()
    assert len({fingerprint(m) for m in (model(), swapped, model().half())}) == 3


def test_the_fingerprint_of_a_large_tensor_reads_every_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = fingerprint(model())
    monkeypatch.setattr("remask.denoisers.identity._CHUNK", 4)
    assert fingerprint(model()) == whole
