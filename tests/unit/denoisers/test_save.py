"""Checkpoints written: names, shards, and never half a file."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from remask.denoisers.load import load
from remask.denoisers.save import save
from remask.testing import tiny_tokenizer, write_checkpoint

TENSORS = {name: torch.full((256,), float(i)) for i, name in enumerate("abcde")}  # 1 KiB each


def write(folder: Path, max_shard_bytes: int, dtype: torch.dtype = torch.float32) -> None:
    backend = tiny_tokenizer().backend
    save(folder, {"c": 1}, {"g": 2}, backend, TENSORS, dtype=dtype, max_shard_bytes=max_shard_bytes)


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    return found.keys() == expected.keys() and all(
        torch.equal(found[n], expected[n]) for n in found
    )


def test_a_small_checkpoint_is_one_file_without_index(tmp_path: Path) -> None:
    write(tmp_path / "new" / "folder", max_shard_bytes=10_000)
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert same(load_file(tmp_path / "new" / "folder" / "model.safetensors"), TENSORS)


def test_a_large_checkpoint_is_split_and_indexed(tmp_path: Path) -> None:
    """Five tensors of 1,024 bytes, at most 2,048 a file: a b | c d | e."""
    write(tmp_path, max_shard_bytes=2048)
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    places = dict(zip("abcde", [names[0]] * 2 + [names[1]] * 2 + [names[2]], strict=True))
    assert index["weight_map"] == places
    for name in names:
        inside = {tensor: TENSORS[tensor] for tensor, place in places.items() if place == name}
        assert same(load_file(tmp_path / name), inside)


def test_a_tensor_larger_than_a_shard_gets_a_file_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, max_shard_bytes=10)
    assert len(list(tmp_path.glob("model-*-of-00005.safetensors"))) == 5


def test_shards_are_measured_in_the_dtype_written(tmp_path: Path) -> None:
    """In bfloat16 the five tensors weigh 2,560 bytes together."""
    write(tmp_path, max_shard_bytes=2560, dtype=torch.bfloat16)
    assert load_file(tmp_path / "model.safetensors")["b"].dtype == torch.bfloat16


def test_configurations_and_tokenizer_are_written_as_given(tmp_path: Path) -> None:
    write(tmp_path, max_shard_bytes=10_000)
    assert json.loads((tmp_path / "config.json").read_text()) == {"c": 1}
    assert json.loads((tmp_path / "generation_config.json").read_text()) == {"g": 2}
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]["type"] == "BPE"


def test_slices_of_a_larger_matrix_are_saved_alone(tmp_path: Path) -> None:
    fused = torch.arange(12.0).view(6, 2)
    save(
        tmp_path,
        {},
        {},
        tiny_tokenizer().backend,
        {"top": fused[:2], "turned": fused.T},
        dtype=torch.float32,
    )
    found = load_file(tmp_path / "model.safetensors")
    assert same(found, {"top": fused[:2], "turned": fused.T})
    assert (tmp_path / "model.safetensors").stat().st_size < 1000


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    write(tmp_path, max_shard_bytes=2048)
    assert not list(tmp_path.glob("*.tmp"))


def test_interrupted_weights_leave_the_old_ones_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, max_shard_bytes=10_000)

    def crash(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        Path(path).write_bytes(b"half a fi")
        raise OSError("No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", crash)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, max_shard_bytes=10_000)
    assert same(load_file(tmp_path / "model.safetensors"), TENSORS)


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3), (5, 2)])
def test_a_checkpoint_written_over_another_replaces_it(
    tmp_path: Path, before: int, after: int
) -> None:
    """Neither an old index nor an old file may lead back to the old weights."""
    fresh = write_checkpoint(tmp_path / "fresh", shards=after, seed=2)
    for shards, seed in ((before, 1), (after, 2)):
        write_checkpoint(tmp_path / "again", shards=shards, seed=seed)
    names = sorted(path.name for path in (tmp_path / "again").iterdir())
    assert names == sorted(path.name for path in fresh.iterdir())
    tokens = torch.arange(262)
    one, other = (load(tmp_path / n, device="cpu").embed(tokens) for n in ("fresh", "again"))
    assert torch.equal(one, other)
