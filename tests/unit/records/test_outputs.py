"""What may be written over: never an input, whatever name leads to it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from remask.errors import InputError, RecordError
from remask.records import outputs


def itself(source: Path) -> Path:
    return source


def through_the_parent(source: Path) -> Path:
    return source.parent / "deeper" / ".." / source.name


def relative(source: Path) -> Path:
    return Path(os.path.relpath(source))


def symbolic(source: Path) -> Path:
    link = source.with_name("link")
    link.symlink_to(source)
    return link


def hard(source: Path) -> Path:
    link = source.with_name("twin")
    os.link(source, link)
    return link


def linked_folder(source: Path) -> Path:
    folder = source.parent / "elsewhere"
    folder.symlink_to(source.parent, target_is_directory=True)
    return folder / source.name


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("{}\n")
    (tmp_path / "deeper").mkdir()
    return path


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "name", [itself, through_the_parent, relative, symbolic, hard, linked_folder]
)
def test_an_input_is_never_an_output(
    source: Path, name: Callable[[Path], Path], force: bool
) -> None:
    with pytest.raises(InputError, match="is read by this command"):
        outputs.claim(name(source), [None, source], force=force)


def test_neither_is_what_an_output_is_before_it_is_whole(tmp_path: Path) -> None:
    source = tmp_path / "out.json.tmp"
    source.write_text("{}\n")
    with pytest.raises(InputError, match=r"out\.json\.tmp is read by this command"):
        outputs.claim(tmp_path / "out.json", [source], force=True)


def test_what_exists_needs_force(source: Path, tmp_path: Path) -> None:
    outputs.claim(tmp_path / "new" / "out.json", [source])
    with pytest.raises(RecordError, match=r"exists already; .* add --force"):
        outputs.claim(source)
    outputs.claim(source, force=True)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RecordError, match="exists already"):
        outputs.claim(dangling)


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("deeper", "deeper is a folder; name a file"),
        ("in.jsonl/out.json", "in.jsonl is not a folder"),
        ("/dev/null", "/dev/null is not a regular file"),
    ],
)
def test_what_can_be_no_file_is_refused_whatever_is_given_up(
    source: Path, out: str, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        outputs.claim(source.parent / out, force=True)


def test_files_of_some_names_in_a_folder_need_force(tmp_path: Path) -> None:
    outputs.claim_in_folder(tmp_path / "none", ["*.md"])
    (tmp_path / "cost.md").touch()
    outputs.claim_in_folder(tmp_path, ["geometry.md", "geometry-*"])
    with pytest.raises(RecordError, match=r"cost\.md exists already"):
        outputs.claim_in_folder(tmp_path, ["cost.md", "cost-*"])
    outputs.claim_in_folder(tmp_path, ["cost.md"], force=True)
    with pytest.raises(InputError, match=r"cost\.md is a file; name a folder"):
        outputs.claim_in_folder(tmp_path / "cost.md", ["*"], force=True)


def test_a_run_takes_a_folder_that_is_new_empty_or_its_own(tmp_path: Path) -> None:
    outputs.claim_folder(tmp_path / "new", is_ours=False)
    outputs.claim_folder(tmp_path, is_ours=False)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(RecordError, match=r"holds thesis\.txt, which is not of this run"):
        outputs.claim_folder(tmp_path, is_ours=False)
    outputs.claim_folder(tmp_path, is_ours=True)
    outputs.claim_folder(tmp_path, is_ours=False, force=True)


def test_a_run_never_takes_the_folder_that_it_starts_from(tmp_path: Path) -> None:
    model = tmp_path / "run" / "model"
    model.mkdir(parents=True)
    for out in (model, tmp_path / "run"):
        with pytest.raises(InputError, match="is read by this command"):
            outputs.claim_folder(out, [model], is_ours=True, force=True)


def test_records_are_read_with_their_manifests(tmp_path: Path) -> None:
    deep = tmp_path / "seed-1" / "a.jsonl"
    deep.parent.mkdir()
    deep.touch()
    read = outputs.of_records([tmp_path, tmp_path / "b.jsonl"])
    assert [path.name for path in read] == [
        "a.jsonl", "a.jsonl.manifest.json", "b.jsonl", "b.jsonl.manifest.json",
    ]  # fmt: skip
