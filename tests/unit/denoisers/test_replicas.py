"""Replicas: the same results however many there are, and the same errors."""

import threading
import time
from pathlib import Path

import pytest
import torch

from remask import api
from remask.consistency.roundtrips import round_trips
from remask.consistency.settings import ConsistencySettings
from remask.denoisers import devices
from remask.denoisers import load as loading
from remask.denoisers.base import Denoiser
from remask.denoisers.devices import choose_devices
from remask.denoisers.load import load
from remask.denoisers.wrap import Counted, Replicas
from remask.errors import DenoiserError, SettingsError
from remask.sampling.batches import batches, spread
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.testing import check_denoiser, write_checkpoint
from remask.values import Sample

SETTINGS = SamplerSettings(length=8, steps=4, block=8, temperature=1.0)
LIMIT = 300.0  # seconds that only a defect takes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replicas")
    return write_checkpoint(path, layers=1, width=16, heads=2, inner=16, dtype=torch.float32)


@pytest.fixture(scope="module")
def twins(folder: Path) -> Replicas:
    found = load(folder, device="cpu,cpu")
    assert isinstance(found, Replicas)
    return found


def write(denoiser: Denoiser, batches: list[list[str]]) -> list[Sample]:
    """Return an answer to every prompt, batch by batch."""

    def work(replica: Denoiser, batch: list[str]) -> list[Sample]:
        ids = [replica.tokenizer.render(prompt) for prompt in batch]
        return sample(replica, ids, SETTINGS, items=batch)

    return [answer for _, found in spread(denoiser, batches, work) for answer in found]


def test_results_do_not_depend_on_the_number_of_replicas(folder: Path, twins: Replicas) -> None:
    batches = [["One.", "Two?"], ["And a third, longer one."], ["Four"], ["5", "6", "7"]]
    one = write(load(folder, device="cpu"), batches)
    assert write(twins, batches) == one
    assert write(load(folder, device="cpu,cpu,cpu"), batches) == one
    assert len({answer.canvas for answer in one}) == 7, "the model does not look at the prompt"


def test_two_replicas_write_and_verify_what_one_does(folder: Path, twins: Replicas) -> None:
    """Prompts of 200 bytes and more: 9 answers are 3 batches of 1,024 tokens or so, 18 trips 5.

    A replica that is done goes to the end of the line, so that both are used even if one is fast.
    """
    prompts = [[60 + i] * (200 + 5 * i) for i in range(9)]
    items = [str(i) for i in range(9)]
    rows = [len(prompt) + SETTINGS.length for prompt in prompts]
    assert len(list(batches(rows, twins))) == 3
    one, pair = Counted(load(folder, device="cpu")), [Counted(twin) for twin in twins.all]
    both = Replicas(pair[0], others=(pair[1],))
    answers = sample(one, prompts, SETTINGS, items=items)
    assert sample(both, prompts, SETTINGS, items=items) == answers
    assert [a.item for a in answers] == items
    assert all(replica.forwards > 0 for replica in pair)
    trips = ConsistencySettings(trips=2, rebuild_steps=2, rebuild_temperature=0.7)
    alone, shared = (round_trips(model, answers, trips) for model in (one, both))
    for ours, theirs in zip(alone, shared, strict=True):
        assert ours.sample == theirs.sample
        for name in ("masked", "rebuilt", "logp"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
        assert (ours.texts, ours.confidence, ours.displacement, ours.forwards) == (
            theirs.texts, theirs.confidence, theirs.displacement, theirs.forwards,
        )  # fmt: skip
    assert sum(replica.forwards for replica in pair) == one.forwards


def test_replicas_have_weights_of_their_own_and_equal_ones(twins: Replicas) -> None:
    first, second = (replica.embed(torch.arange(262)) for replica in twins.all)
    assert torch.equal(first, second)
    assert first.data_ptr() != second.data_ptr()


def test_replicas_are_a_denoiser_like_any_other(twins: Replicas) -> None:
    check_denoiser(twins)
    assert api.sample(twins, "One.", settings=SETTINGS).num_response >= 1


def test_each_replica_has_a_thread_and_both_are_used(twins: Replicas) -> None:
    """Two batches that wait for each other can only end side by side."""
    meeting = threading.Barrier(2, timeout=LIMIT)
    used = []

    def work(replica: Denoiser, batch: int) -> int:
        used.append(replica)
        meeting.wait()
        return -batch

    assert list(spread(twins, [1, 2], work)) == [(1, -1), (2, -2)]
    assert {id(replica) for replica in used} == {id(replica) for replica in twins.all}


def test_results_come_in_the_order_of_the_batches(twins: Replicas) -> None:
    """The first batch ends after the last one, where it can."""
    last = threading.Event()

    def work(replica: Denoiser, batch: int) -> int:
        if batch == 0:
            assert last.wait(LIMIT)
        if batch == 5:
            last.set()
        return batch * batch

    expected = [(i, i * i) for i in range(6)]
    assert list(spread(twins, range(6), work)) == expected
    assert list(spread(twins.inner, range(6), work)) == expected


def test_the_first_error_in_order_is_raised_as_it_is_and_the_rest_is_left(
    twins: Replicas,
) -> None:
    """All 5,000 batches would take the two threads 50 s: the error is heard long before."""
    begun = []

    def work(replica: Denoiser, batch: int) -> int:
        begun.append(batch)
        time.sleep(0.02)
        if batch in (1, 2):
            raise DenoiserError(f"batch {batch} gave NaN logits; load it with dtype float32.")
        return batch

    for denoiser in (twins, twins.inner):
        begun.clear()
        with pytest.raises(DenoiserError, match=r"^batch 1 gave NaN logits; load it with"):
            list(spread(denoiser, range(5_000), work))
        assert len(begun) < 5_000


def test_too_little_memory_for_two_on_one_device_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Embedding and head 2 x 262 x 16, a layer 4 x 16 x 16 + 3 x 16 x 16 + 2 x 16, norm 16.

    10,224 numbers, 40,896 bytes in float32: two need 81,792.
    """
    monkeypatch.setattr(devices, "free_memory", lambda device: 81_791)
    assert load(folder, device="cpu", dtype="float32").vocab_size == 262
    with pytest.raises(SettingsError, match=r"GB for the weights of 2 replicas in float32 and cpu"):
        load(folder, device="cpu,cpu", dtype="float32")
    monkeypatch.setattr(devices, "free_memory", lambda device: 81_792)
    assert isinstance(load(folder, device="cpu,cpu", dtype="float32"), Replicas)


def test_memory_is_checked_on_each_device_before_any_is_filled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(loading, "fill", lambda *_: pytest.fail("weights were placed"))
    monkeypatch.setattr(devices, "free_memory", lambda device: 10**12 if device.index == 0 else 5)
    with pytest.raises(SettingsError, match=r"in bfloat16 and cuda:1 has 0\.0 GB"):
        load(folder, device="all")


def test_devices_are_listed_with_commas_or_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = [torch.device("cuda:0"), torch.device("cuda:1")]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_devices("all") == choose_devices("cuda:0, cuda:1") == cuda
    assert choose_devices("cpu") == [torch.device("cpu")]


@pytest.mark.parametrize(
    ("devices", "told"),
    [
        ("cpu,tpu", "Unknown device 'tpu'"),
        ("cpu,", "Unknown device ''"),
        ("cuda:0,cuda:2", "device 'cuda:2' is not available here"),
        ("cpu,cuda:0", "device 'cpu,cuda:0' mixes kinds; several must all be of one"),
    ],
)
def test_a_list_with_a_wrong_device_is_refused(
    devices: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(SettingsError, match=told):
        choose_devices(devices)


def test_all_is_refused_where_there_is_no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="device 'all' requires a CUDA device"):
        choose_devices("all")
