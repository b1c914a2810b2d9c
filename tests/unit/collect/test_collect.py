"""Collecting: the same records however often it was interrupted, and a manifest that says all."""

import contextlib
import copy
import json
import os
import pickle
import platform
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import pytest
import torch

from remask.analysis.folder_figures import process
from remask.collect import manifest
from remask.collect.collect import Collection, collect, prepare
from remask.collect.settings import CollectSettings
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.load import load
from remask.denoisers.native import NativeDenoiser
from remask.errors import InputError, RecordError, TaskError
from remask.records import jsonl
from remask.records.manifest import manifest_path, part_path
from remask.records.manifest import read_manifest as parsed
from remask.records.record import Record
from remask.sampling.settings import SamplerSettings, sampler_settings
from remask.tasks import task
from remask.tasks.base import Problem
from remask.testing import ScriptedDenoiser, write_checkpoint

GSM8K = [
    {"question": f"What is {k} and {k + 1}?", "answer": f"Add.\n#### {2 * k + 1}"} for k in range(9)
]
SAMPLER = SamplerSettings(length=16, steps=4, block=16, temperature=1.0)
TRIPS = ConsistencySettings(trips=2, rebuild_steps=2)
CALLS = 250_000  # of functions: enough for a few chunks
LONG = {"question": "Why? " * 400, "answer": "So.\n#### 1"}  # more than the model can hold
WORK = 1_200  # tokens times passes: every problem is a chunk of its own

# A process that loads the model once, and is then forked: a whole run costs no start of Python.
# A child kills itself with -9 at a call of its code that is given by number, not by the clock.
FORKER = """
import os, pickle, signal, sys, torch
from itertools import count
torch.set_num_threads(1)
from pathlib import Path
from remask.denoisers.load import load
from remask.baselines import judge
import remask.collect.collect as collecting
from remask.collect.collect import collect
from remask.records.manifest import Manifest
from remask.records.validation import adapter_of
collecting.work_budget = lambda denoiser: int(sys.argv[3])
judge.REPLY = 4
adapter_of(Manifest)  # what a process builds once, when it first reads a manifest
model = load(sys.argv[1])
def die_at(last):
    calls = count(1)
    def called(*_):
        if next(calls) == last:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(called)
for line in sys.stdin:
    last, settings = line.split()
    child = os.fork()
    if child == 0:
        die_at(int(last))
        collect(model, pickle.loads(bytes.fromhex(settings)), Path(sys.argv[2]))
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_checkpoint(
        tmp_path_factory.mktemp("checkpoint") / "model", layers=1, width=16, heads=2, inner=16,
        length=16, max_length=1024, dtype=torch.float32,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(folder: Path) -> Denoiser:
    return load(folder, device="cpu")


@pytest.fixture
def settings(tmp_path: Path) -> CollectSettings:
    return CollectSettings(
        task="gsm8k", data=write_rows(tmp_path / "rows.jsonl", GSM8K), problems=6, samples=2,
        sampler=SAMPLER, consistency=TRIPS, metrics="core", chunk=2,
    )  # fmt: skip


def read_manifest(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{out}.manifest.json").read_text())
    return found


def rounded(value: Any) -> Any:
    """Return a record with its floats as approximations: other batches add in another order."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return pytest.approx(value, abs=2e-6) if isinstance(value, float) else value


def run_and_kill(forker: "subprocess.Popen[str]", settings: CollectSettings, last: int) -> bool:
    """Start a run that is killed with -9 at its call number `last`; say whether it came to that."""
    assert forker.stdin is not None
    assert forker.stdout is not None
    talk: IO[str] = forker.stdin
    talk.write(f"{last} {pickle.dumps(settings).hex()}\n")
    talk.flush()
    return os.WIFSIGNALED(int(forker.stdout.readline()))


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CollectSettings:
    """Every baseline, several samples, one problem that cannot be asked, a chunk per problem."""
    monkeypatch.setattr("remask.collect.collect.work_budget", lambda denoiser: WORK)
    monkeypatch.setattr("remask.baselines.judge.REPLY", 4)  # as long as an answer
    rows = [*GSM8K[:3], LONG, *GSM8K[3:], *GSM8K]
    return CollectSettings(
        task="gsm8k", data=write_rows(tmp_path / "rows.jsonl", rows), problems=12, samples=3,
        scored=2, baselines=("self_evaluation", "editor"), sampler=SAMPLER, consistency=TRIPS,
        metrics="core",
    )  # fmt: skip


def test_a_collection_killed_20_times_has_the_records_of_an_uninterrupted_one(
    model: Denoiser, folder: Path, complete: CollectSettings, tmp_path: Path
) -> None:
    whole = collect(model, complete, tmp_path / "whole.jsonl")
    assert ["error" in row for row in jsonl.read(whole)] == [False] * 9 + [True] + [False] * 24
    out, moments = tmp_path / "out.jsonl", random.Random(0)
    with subprocess.Popen(
        [sys.executable, "-c", FORKER, folder, out, str(WORK)], stdin=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as forker:  # fmt: skip
        killed = [run_and_kill(forker, complete, moments.randrange(1, CALLS)) for _ in range(20)]
        assert forker.stdin is not None
        forker.stdin.close()
    assert all(killed)
    collect(model, complete, out)
    assert out.read_bytes() == whole.read_bytes()
    runs = read_manifest(out)["runs"]
    assert runs[-1]["finished"]
    assert sum(run["finished"] is not None for run in runs) == 1
    starts = [run["from"] for run in runs]
    assert starts == sorted(starts)
    assert starts[-1] > 0


class Stopped(Exception):
    """Raised in place of a kill."""


@pytest.mark.parametrize("last", range(11))
def test_a_collection_that_stops_at_any_write_is_continued_to_the_same_bytes(
    model: Denoiser,
    complete: CollectSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: int,
) -> None:
    """Each write, of rows or of the manifest, is the last of one run; half of its rows arrive."""
    complete = replace(complete, problems=5, baselines=("editor",))
    whole = collect(model, complete, tmp_path / "whole.jsonl").read_bytes()
    out = tmp_path / "out.jsonl"
    append, write, left = jsonl.append, jsonl.write_text, iter(range(last, -1, -1))

    def half(path: Path, rows: Iterable[dict[str, Any]]) -> bytes:
        content = append(path, rows)
        if next(left, None) == 0:
            os.truncate(path, path.stat().st_size - len(content) // 2)
            raise Stopped
        return content

    def stop(path: Path, text: str) -> None:
        if next(left, None) == 0:
            raise Stopped
        write(path, text)

    with monkeypatch.context() as patch, contextlib.suppress(Stopped):
        patch.setattr(jsonl, "append", half)
        patch.setattr(jsonl, "write_text", stop)
        collect(model, complete, out)
    collect(model, complete, out)
    assert out.read_bytes() == whole


class Interrupt:
    """Progress that stops a run once so many answers are there."""

    def __init__(self, answers: int) -> None:
        self.answers = answers

    def __call__(self, done: int, forwards: int) -> None:
        if done >= self.answers:
            raise Stopped


def interrupted(model: Denoiser, settings: CollectSettings, out: Path, answers: int = 4) -> Path:
    """Collect until so many answers are there, and return the journal."""
    with pytest.raises(Stopped):
        collect(model, settings, out, Interrupt(answers))
    assert not out.exists()
    return part_path(out)


def test_a_journal_names_its_rows_and_bytes_that_were_not_committed_are_computed_again(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    whole = collect(model, settings, tmp_path / "whole.jsonl").read_bytes()
    out = tmp_path / "out.jsonl"
    part = interrupted(model, settings, out)
    assert [(row["row"], len(row["lines"])) for row in jsonl.read(part)] == [(0, 2), (1, 2)]
    committed = part.read_bytes()
    for more in (b'{"row": 2, "li', committed):
        part.write_bytes(committed + more)
        interrupted(model, settings, out)
        assert part.read_bytes() == committed
    collect(model, settings, out)
    assert out.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.glob("out*")) == [
        out.name,
        f"{out.name}.manifest.json",
    ]


@pytest.mark.parametrize("finished", [False, True])
def test_every_edit_of_a_line_is_refused_and_loses_nothing(
    model: Denoiser, settings: CollectSettings, tmp_path: Path, finished: bool
) -> None:
    out = tmp_path / "out.jsonl"
    path = collect(model, settings, out) if finished else interrupted(model, settings, out)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    first, *rest = lines
    edits = {
        "removed": [first, *rest[1:]],
        "last removed": lines[:-1],
        "doubled": [first, first, *rest],
        "swapped": [rest[0], first, *rest[1:]],
        "byte": [first.replace(b"right", b"wrong", 1), *rest],
        "empty": [],
    }
    for name, edited in edits.items():
        path.write_bytes(b"".join(edited))
        with pytest.raises(RecordError, match="was edited after remask wrote it"):
            collect(model, settings, out)
        assert path.read_bytes() == b"".join(edited), name
    path.write_bytes(content)
    collect(model, settings, out)
    assert out.read_bytes() == collect(model, settings, tmp_path / "whole.jsonl").read_bytes()


def test_an_edited_manifest_is_refused(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    interrupted(model, settings, out)
    text = manifest_path(out).read_text()
    for old, new in (
        ('"chunk": 2', '"chunk": 1'),
        ('"rows": 2', '"rows": 3'),
        ('"version": 3', '"version": 2'),
    ):
        assert old in text
        manifest_path(out).write_text(text.replace(old, new, 1))
        with pytest.raises(RecordError, match="was edited after remask wrote it"):
            collect(model, settings, out)


def test_a_problem_that_is_different_now_is_refused(
    model: Denoiser, settings: CollectSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of a generated task has no digest: ids and prompts are compared."""
    settings = replace(settings, task="wordmath", data=None)
    out = tmp_path / "out.jsonl"
    interrupted(model, settings, out)
    real = Collection.problem

    def other(self: Collection, number: int) -> Problem:
        return replace(real(self, number), prompt=f"Problem {number}?")

    monkeypatch.setattr(Collection, "problem", other)
    with pytest.raises(RecordError, match=r"the prompt of problem 0 was '.*, got 'Problem 0\?'"):
        collect(model, settings, out)


def test_a_file_that_another_program_wrote_meanwhile_is_not_overwritten(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    interrupted(model, settings, out)
    out.write_text("mine\n")
    with pytest.raises(RecordError, match=r"out.jsonl was not written by this run"):
        collect(model, settings, out)
    assert out.read_text() == "mine\n"
    out.unlink()
    collect(model, settings, out)


@pytest.mark.parametrize("finished", [None, "2026-11-15T00:00:01Z"])
def test_a_finished_file_of_0_2_0_is_continued_and_an_unfinished_one_refused(
    model: Denoiser, settings: CollectSettings, tmp_path: Path, finished: str | None
) -> None:
    less = replace(settings, problems=2)
    out = collect(model, less, tmp_path / "out.jsonl")
    document = read_manifest(out)
    for name in ("checksum", "file"):
        del document[name]
    document["version"] = 2
    document["runs"][0]["finished"] = finished
    manifest_path(out).write_text(json.dumps(document))
    if finished is None:
        with pytest.raises(RecordError, match=r"is an unfinished run of remask 0.2.0"):
            collect(model, settings, out)
        collect(model, settings, out, force=True)
    else:
        collect(model, settings, out)
    whole = collect(model, settings, tmp_path / "whole.jsonl")
    assert out.read_bytes() == whole.read_bytes()


def test_neither_the_chunk_nor_a_later_wish_for_more_changes_a_record(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    whole = collect(model, replace(settings, chunk=100), tmp_path / "whole.jsonl")
    out = tmp_path / "out.jsonl"
    collect(model, replace(settings, chunk=1, problems=2), out)
    moved = write_rows(tmp_path / "elsewhere.jsonl", GSM8K)
    collect(model, replace(settings, chunk=5, data=moved), out)
    found, expected = list(jsonl.read(out)), list(jsonl.read(whole))
    assert found == [rounded(row) for row in expected]
    assert [(run["from"], run["to"]) for run in read_manifest(out)["runs"]] == [(0, 2), (2, 6)]
    before = read_manifest(out)
    collect(model, settings, out)
    assert read_manifest(out) == before, "a run without work leaves no trace"


def test_the_manifest_says_what_the_numbers_rest_on(
    model: Denoiser, folder: Path, settings: CollectSettings, tmp_path: Path
) -> None:
    """6 problems x 2 samples x 4 steps = 48 forwards to write, 6 x 2 trips x 2 steps to verify."""
    out = collect(model, settings, tmp_path / "new" / "out.jsonl")
    found = read_manifest(out)
    asked = found["asked"]
    assert (asked["task"], asked["wording"], asked["seed"]) == ("gsm8k", "llada", 0)
    assert (asked["allow_execution"], asked["data"]) == (False, str(settings.data))
    assert (asked["level"], asked["sampler"]["steps"]) == ("all", 4)
    task = prepare(settings).task
    assert found["dataset"] == task.provenance()  # type: ignore[attr-defined]
    assert len(found["dataset"]["sha256"]) == 64
    weights = manifest.identify(model).weights
    assert weights is not None
    assert found["model"] == {
        "name": str(folder), "revision": None, "dtype": "float32", "weights": weights,
    }  # fmt: skip
    (run,) = found["runs"]
    assert run["versions"]["python"] == platform.python_version()
    assert all(run["versions"][name] == metadata.version(name) for name in ("remask", "tokenizers"))
    assert (run["device"], run["from"], run["to"]) == ("cpu", 0, 6)
    assert run["forwards"] == 48 + 24
    assert run["seconds"] > 0
    assert run["started"] <= run["finished"]
    assert not list(out.parent.glob("*.tmp"))


def test_records_of_a_benchmark_say_how_they_were_graded_and_nothing_of_steps(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    rows = list(jsonl.read(collect(model, settings, tmp_path / "out.jsonl")))
    assert [row["id"] for row in rows[::2]] == [f"gsm8k/all/test/0/{k}" for k in range(6)]
    for row in rows:
        assert row["process_ok"] is None
        assert row["tier"] in {"markup", "statement", "fallback", "none"}
        assert (row["method"], row["gold"]) == ("number", str(2 * int(row["id"][-1]) + 1))
        assert row["reason"] == ("no answer" if row["answer"] is None else row["reason"])
    own = replace(settings, task="wordmath", data=None, problems=2)
    rows = list(jsonl.read(collect(model, own, tmp_path / "own.jsonl")))
    assert all(row["process_ok"] is False and row["tier"] and row["reason"] for row in rows)


def test_steps_without_labels_are_unknown_and_never_wrong(
    make_record: Callable[..., Record],
) -> None:
    known = [make_record("a", score=0.9), make_record("b", process_ok=False, score=0.2)]
    unknown = [replace(make_record(f"c{k}", score=0.9), process_ok=None) for k in range(5)]
    assert process(unknown) is None
    assert process([*known, *unknown], resamples=10) == process(known, resamples=10)


def test_other_rows_under_the_same_name_are_refused(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, problems=2), tmp_path / "out.jsonl")
    before = out.read_bytes(), read_manifest(out)
    write_rows(tmp_path / "rows.jsonl", [*GSM8K[1:], GSM8K[0]])
    with pytest.raises(RecordError, match=r"sha256 of the data was [0-9a-f]{64}, got"):
        collect(model, settings, out)
    assert (out.read_bytes(), read_manifest(out)) == before


@pytest.mark.parametrize("change", [{"wording": "dream"}, {"seed": 1}, {"samples": 1}])
def test_other_settings_are_refused_by_name(
    model: Denoiser, settings: CollectSettings, tmp_path: Path, change: dict[str, Any]
) -> None:
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    with pytest.raises(RecordError, match=f"{next(iter(change))} was "):
        collect(model, replace(settings, **change), out)


def test_a_manifest_without_records_stands_in_nobodys_way(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    out.unlink()
    collect(model, replace(settings, problems=1, seed=1), out)
    assert read_manifest(out)["asked"]["seed"] == 1


def test_a_manifest_of_before_benchmarks_is_continued(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    settings = replace(settings, task="wordmath", data=None, problems=2, chunk=1)
    whole = collect(model, settings, tmp_path / "whole.jsonl").read_bytes()
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    old = read_manifest(out)
    for name in ("data", "wording", "allow_execution"):
        del old["asked"][name]
    manifest_path(out).write_text(json.dumps({"asked": old["asked"], "torch": "2"}))
    assert collect(model, settings, out).read_bytes() == whole
    assert len(read_manifest(out)["runs"]) == 1


def test_records_that_lost_their_manifest_are_not_added_to(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    manifest_path(out).write_text("{")
    with pytest.raises(RecordError, match="is damaged"):
        collect(model, settings, out)
    manifest_path(out).unlink()
    with pytest.raises(RecordError, match="has no manifest"):
        collect(model, settings, out)


def test_the_dtype_and_the_revision_may_not_change_on_the_way(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    found = parsed(out)
    assert found.model is not None
    replace(found, model=replace(found.model, dtype="bfloat16")).write(out)
    with pytest.raises(RecordError, match="dtype of the model was bfloat16, got float32"):
        collect(model, settings, out)


def test_scores_of_two_versions_of_a_scorer_are_not_mixed(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    """A manifest without versions means version 1."""
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    found = parsed(out)
    assert found.scorers == dict.fromkeys(("roundtrips", "confidence", "agreement", "vote"), 1)
    replace(found, scorers={}).write(out)
    collect(model, replace(settings, problems=2), out)
    replace(parsed(out), scorers={"roundtrips": 2}).write(out)
    with pytest.raises(RecordError, match="version of roundtrips was 2, got 1"):
        collect(model, settings, out)


def test_the_manifest_tells_the_threshold_by_which_the_server_judges(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    """Also one that is written anew when a collection of before there were any goes on."""
    first = replace(settings, problems=1)
    out = collect(model, first, tmp_path / "out.jsonl")
    usual = {"roundtrips": 0.75}
    found = parsed(out)
    assert found.thresholds == usual
    replace(found, thresholds={}).write(out)
    collect(model, replace(settings, problems=2), out)
    assert read_manifest(out)["thresholds"] == usual
    tasks = {first.task: {"threshold": {"roundtrips": 0.8, "probe": 0.4}}}
    assert isinstance(model, NativeDenoiser)
    own = replace(model, preset=replace(model.preset, tasks=tasks))
    out = collect(own, first, tmp_path / "own.jsonl")
    assert read_manifest(out)["thresholds"] == tasks[first.task]["threshold"]


def test_what_probes_read_has_a_version_too(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    probed = replace(settings, problems=1, probes=("critical",))
    out = collect(model, probed, tmp_path / "out.jsonl")
    found = parsed(out)
    assert found.scorers["probe"] == 1
    replace(found, scorers={**found.scorers, "probe": 2}).write(out)
    with pytest.raises(RecordError, match="version of probe was 2, got 1"):
        collect(model, replace(probed, problems=2), out)


def test_other_weights_under_the_same_name_are_another_model(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    out = collect(model, replace(settings, problems=1), tmp_path / "out.jsonl")
    assert isinstance(model, NativeDenoiser)
    other = replace(model, model=copy.deepcopy(model.model))
    with torch.no_grad():
        next(iter(other.model.parameters())).flatten()[-3].add_(1)
    with pytest.raises(RecordError, match=r"weights of the model was [0-9a-f]{32}, got"):
        collect(other, settings, out)
    collect(replace(model, model=copy.deepcopy(model.model)), settings, out)


def test_a_revision_is_read_off_the_cache_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789" * 4
    place = f"/cache/models--a--b/snapshots/{commit}"
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache", lambda name, file: f"{place}/{file}"
    )
    assert manifest.revision_of("a/b") == commit
    assert manifest.revision_of(place) == commit
    assert manifest.revision_of("tiny") is None
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda name, file: None)
    assert manifest.revision_of("a/b") is None


def test_a_model_of_somebody_elses_has_no_dtype_that_we_know() -> None:
    other = ScriptedDenoiser.from_table(torch.zeros(4, 262))
    assert manifest.dtype_of(other) is None


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"problems": 10}, TaskError, "gsm8k has 9 problems of split 'test', level 'all', and 10 "),
        ({"data": Path("nowhere.jsonl")}, InputError, "nowhere.jsonl does not exist"),
        ({"split": "validation"}, TaskError, "gsm8k has no split 'validation'"),
        ({"task": "mbpp"}, TaskError, r"requires allow_execution=True \(--allow-execution\)"),
        ({"task": "wordmath"}, TaskError, "is generated and reads no file"),
        ({"wording": "qwen"}, TaskError, "Unknown wording of gsm8k 'qwen'"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_sampled(
    model: Denoiser,
    settings: CollectSettings,
    tmp_path: Path,
    change: dict[str, Any],
    error: type[Exception],
    sentence: str,
) -> None:
    with pytest.raises(error, match=sentence):
        collect(model, replace(settings, **change), tmp_path / "new" / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_wrong_row_is_found_before_the_first_is_asked(
    model: Denoiser, settings: CollectSettings, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows.jsonl", [*GSM8K[:5], {"question": "Why?", "answer": "So."}])
    with pytest.raises(InputError, match=r"rows.jsonl line 6: the field 'answer' does not end"):
        collect(model, settings, tmp_path / "new" / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = metadata.version

    def version(name: str) -> str:
        if name == "remask":
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "version", version)
    assert manifest.versions()["remask"] is None
    assert manifest.versions()["tokenizers"] == installed("tokenizers")


@pytest.mark.parametrize("length", [4, 64, 128])
def test_a_model_with_blocks_of_its_own_gets_a_canvas_of_whole_ones(
    block_causal: NativeDenoiser, length: int
) -> None:
    """Its preset may be one block long: that is no wish to write a longer canvas in one."""
    preset = Preset(length=length, steps=length, block=4)
    denoiser = replace(block_causal, preset=preset)
    for level in ("easy", "medium", "hard"):
        told = sampler_settings(
            denoiser, kind="wordmath", canvas=task("wordmath").canvas_length(level)
        )
        assert (told.block, told.length % 4, told.steps) == (4, 0, told.length)
        assert 0 <= told.length - task("wordmath").canvas_length(level) < 4
