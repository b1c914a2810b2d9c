"""Every Python and shell snippet of README.md and docs/, read from the pages, runs.

The text is run as it stands: Python blocks of a page one after another in one namespace, lines of
shell blocks that call `remask` in this process. Each block has a folder of its own, with the files
that it reads (PREPARED). What is cut, so that it takes minutes: see `standins.in_short` and
`cut_short`, `tiny` to two layers on all pages but the first, and collections to a few problems,
after which the records are multiplied and labelled, so that there is something to fit. A block that
cannot run here has a word after its language, and a reason below.
"""

import contextlib
import gzip
import json
import math
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from few_draws import few_draws
from safetensors.torch import load_file, save_file
from standin_checkpoints import STANDINS
from standin_checkpoints.cache import write_repository

from remask.collect.settings import CollectSettings
from remask.denoisers import load as loader
from remask.denoisers.catalog import CHECKPOINTS
from remask.records.manifest import FileState, read_manifest
from remask.sampling import settings as sampling_settings
from studies.checks import standins

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\S*)[ ]*([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = ("bash", "sh", "shell", "console")
WORDS = {"no-run", "illustration"}  # what may follow the language of a block that is not run
FIRST = {c.family: c.id for c in reversed(CHECKPOINTS)}  # the first id of each family
# Blocks that are not run, by page and first line, and why.
UNRUN = {
    ("docs/weights.md", "remask score answers.jsonl -o scored.jsonl -m GSAI-ML/LLaDA-8B-Instruct "
     "--weights fp8 --compile"): "needs a GPU of the Hopper kind",
    ("README.md", "make demo        # Python 3.11, git and make are enough: minutes on two CPU "
     "cores, no GPU"): "sets up an environment, and takes minutes",
    ("docs/adapt.md", "pip install 'remask[gguf]'                     # only to read GGUF files"):
        "installs packages, and trains for minutes on a GPU; tests/unit/pretrain adapts a little",
    ("docs/adapt.md", "from pathlib import Path"): "trains for minutes on a GPU",
    ("docs/alignment.md", "with torch.no_grad():                          # only rows of "
     "needs_preview(advantages, settings)"): "a sketch of a trainer's inner loop",
    ("docs/alignment.md", "remask align --model tiny --task wordmath --tuning full --set "
     "prompt_mask_ratio=0 --out runs/first"): "trains for hours; tests/unit/align trains a little",
    ("docs/alignment.md", "from remask.align.settings import check_settings"):
        "trains for hours; tests/unit/align trains a little",
    ("docs/alignment.md", "python -m studies.align study tiny OUT --stop-after 560   # again "
     "until nothing is left"): "trains for an hour on a GPU",
    ("docs/alignment.md", "accelerate launch --num_processes 8 -m remask.cli align --config "
     "examples/align-llada-8b-gsm8k.yaml"): "trains for days on 8 GPUs",
    ("docs/alignment.md", "accelerate launch --num_processes 8 -m remask.cli align --config "
     "examples/align-llada-8b-gsm8k.yaml --dry-run"): "loads an 8B model on 8 GPUs",
    ("docs/cluster.md", "pip install 'remask[ray]'"): "installs packages, and needs a cluster",
    ("docs/cluster.md", "from pathlib import Path"):
        "starts a cluster; tests/integration/test_cluster.py does",
    ("docs/harnesses.md", "pip install 'remask' 'lm_eval>=0.4.13'"):
        "installs packages, and evaluates for hours; tests/integration/test_harnesses.py does",
    ("docs/harnesses.md", "import lm_eval"):
        "fetches GSM8K; tests/integration/test_harnesses.py has rows of its own",
    ("docs/harnesses.md", "pip install 'remask' 'inspect_ai>=0.3.285'"):
        "installs packages, and evaluates for hours; tests/integration/test_harnesses.py does",
    ("docs/harnesses.md", "from inspect_ai import Task, eval"):
        "Inspect takes over the terminal; tests/integration/test_harnesses.py runs it",
    ("docs/container.md", "docker build -f Containerfile -t remask ."):
        "builds an image; tests/website/test_packaging.py reads its file",
    ("docs/install.md", "pip install remask                     # a GPU on Linux, or a Mac"):
        "installs packages",
    ("docs/install.md", "git clone <this repository> remask && cd remask"):
        "clones, and installs packages",
    ("docs/quickstart.md", "git clone <this repository> remask && cd remask"):
        "clones, sets up an environment, and takes minutes",
    ("docs/quickstart.md", "pip install -c constraints.txt -e '.[semantic]'"): "installs packages",
    ("docs/ray.md", "import ray"): "needs a cluster; tests/integration/test_ray.py starts one",
    ("docs/ray.md", "pip install 'remask[semantic,rayserve]'     # semantic is for round trips, "
     "the default scorer"):
        "installs packages, and serves until it is stopped; tests/integration/test_ray.py does",
    ("docs/ray.md", "from ray import serve"):
        "needs a cluster; tests/integration/test_ray.py starts one",
    ("docs/server.md", "pip install 'remask[semantic,serve]'   # or 'remask[serve]' alone, and "
     "--metrics core"):
        "installs packages, and serves until it is stopped; tests/serve does",
    ("docs/server.md", "lm_eval --model local-chat-completions --apply_chat_template --tasks gsm8k "
     "\\"): "needs a server and a benchmark; tests/serve/test_clients.py evaluates a little",
    ("docs/sglang.md", "python3 -m sglang.launch_server --model-path inclusionAI/LLaDA2.0-mini "
     "--dllm-algorithm LowConfidence --port 30000"): "serves with SGLang, on a GPU",
    ("docs/sglang.md", "import json"): "asks the server that is started above",
    ("docs/slurm.md", "#!/bin/bash"): "a job of Slurm; tests/cli/test_join.py collects shards",
    ("docs/slurm.md", "remask join shards/* --out records      # records/gsm8k.jsonl and its "
     "manifest"): "joins what the jobs of Slurm wrote; tests/cli/test_join.py does",
    ("docs/slurm.md", "remask score answers.jsonl -m GSAI-ML/LLaDA-8B-Instruct --device cuda \\"):
        "a job of Slurm, and a GPU; tests/cli/test_join.py scores shards",
    ("docs/slurm.md", "from pathlib import Path"):
        "collects for an hour; tests/unit/collect/test_join.py does in short",
    ("docs/studies.md", "python -m studies.paper.plan collect tiny records      # one GPU; "
     "continues where it was stopped"): "measures for hours on a GPU",
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    word: str  # after the language
    code: str

    @property
    def name(self) -> tuple[str, str]:
        return self.page, self.code.partition("\n")[0]

    @property
    def loads(self) -> bool:
        """Say whether a model is loaded in it."""
        return "remask.load(" in self.code or bool(re.search(r"(-m|--model) ", self.code))


def blocks(page: Path) -> list[Block]:
    name = str(page.relative_to(ROOT))
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(name, *fields) for fields in found if fields[0] in ("python", *SHELLS)]


BLOCKS = {str(page.relative_to(ROOT)): blocks(page) for page in PAGES}


def test_every_block_is_run_or_listed_with_a_reason() -> None:
    marked = {b.name for found in BLOCKS.values() for b in found if b.word}
    assert marked == UNRUN.keys()
    assert {b.word for found in BLOCKS.values() for b in found if b.word} <= WORDS


def test_no_command_hides_outside_the_blocks_that_are_run() -> None:
    """A command in a block without a language, or in an indented one, would never be tried."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        plain = [code for language, _, code in FENCE.findall(text) if not language]
        indented = re.findall(r"^    (?:remask|python|pip|make) .*", FENCE.sub("", text), re.M)
        hidden = [
            line for code in plain for line in code.splitlines() if re.match("remask |pip ", line)
        ]
        assert [*hidden, *indented] == [], page


# --- what the snippets read -------------------------------------------------------------------


def write_answers(folder: Path) -> None:
    rows = [{"prompt": standins.PROMPT, "answer": standins.ANSWER}]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_gsm8k(folder: Path) -> None:
    """Rows of our own in the form of GSM8K, as one file and as a folder with both splits."""
    rows = [
        {"question": f"Ann has {n} eggs and sells 2. How many are left?",
         "answer": f"She has {n} - 2 = {n - 2} left.\n#### {n - 2}"} for n in range(17, 25)
    ]  # fmt: skip
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "test.jsonl.gz").write_bytes(gzip.compress(content))
    (folder / "folder").mkdir()
    for split in ("test", "train"):
        (folder / "folder" / f"{split}.jsonl.gz").write_bytes(gzip.compress(content))


def write_mbpp(folder: Path) -> None:
    row = {
        "task_id": 11, "text": "Write a function to add two numbers.", "test_setup_code": "",
        "code": "def add(a, b):\n    return a + b", "challenge_test_list": [],
        "test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4", "assert add(0, 0) == 0"],
    }  # fmt: skip
    rows = [{**row, "task_id": number} for number in range(1, 30)]
    (folder / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_benchmarks(folder: Path) -> None:
    write_gsm8k(folder)
    write_mbpp(folder)


def collect_for(*names: str) -> Callable[[Path], None]:
    """Return what makes such records: validation of seed 0, 1, ... in the order of the names."""

    def make(folder: Path) -> None:
        for seed, name in enumerate(names):
            shell(f"remask collect -m tiny --task wordmath --level hard --split validation "
                  f"--seed {seed} --problems 2 -o {name}")  # fmt: skip

    return make


EVIDENCE = collect_for("fit.jsonl", "certify.jsonl")


def write_certificate(folder: Path) -> None:
    shutil.copytree(prepared(EVIDENCE), folder, dirs_exist_ok=True)
    shell("remask fit fit.jsonl -o weights.json")
    shell("remask certify certify.jsonl -o certificate.json --weights weights.json")
    write_answers(folder)


def write_verifier(folder: Path) -> None:
    shell("remask collect -m tiny --task wordmath --level easy --split validation --problems 2 "
          "--scored 0 --metrics core --probes critical,halves8 -o labelled.jsonl")  # fmt: skip
    shell("remask fit labelled.jsonl --scorer verifier -o verifier.json")


def write_records(folder: Path) -> None:
    for name in ("records", "records/llada", "records/dream", "records/tiny"):
        (folder / name).mkdir(exist_ok=True)
    shell("remask collect -m tiny --task wordmath --level hard --problems 2 --samples 2 "
          "-o records/hard.jsonl")  # fmt: skip
    for name in ("llada", "dream", "tiny"):
        for file in (folder / "records").glob("hard.jsonl*"):
            shutil.copy(file, folder / "records" / name)


def copy_llada(folder: Path) -> None:
    """Folders with a copy of a published model, of which the pages speak."""
    from huggingface_hub import snapshot_download

    source = snapshot_download("GSAI-ML/LLaDA-8B-Instruct")
    for name in ("copies/llada", "path/to/folder"):
        shutil.copytree(source, folder / name)


def write_extensions(folder: Path) -> None:
    """The Python blocks of docs/extending.md, each in the file that its first line names."""
    (folder / "sums.jsonl").write_text('{"q": "What is 2 + 3?", "a": "5"}\n')
    for block in BLOCKS["docs/extending.md"]:
        if block.language == "python":
            name = block.code.partition("\n")[0].removeprefix("# ")
            (folder / name).write_text(block.code)


PREPARED: dict[tuple[str, str], Callable[[Path], None]] = {}


def needs(page: str, start: str, make: Callable[[Path], None]) -> None:
    """Note that the block of this page whose code has `start` in it reads what `make` writes."""
    (name,) = [b.name for b in BLOCKS[page] if not b.word and start in b.code]
    PREPARED[name] = make


needs("docs/quickstart.md", "remask score  --model tiny answers.jsonl", write_answers)
needs("docs/sglang.md", "remask score --model inclusionAI", write_answers)
needs("docs/benchmarks.md", 'path=Path("test.jsonl.gz")', write_gsm8k)
needs("docs/benchmarks.md", "--data folder/", write_benchmarks)
needs("docs/certificates.md", "fit_weights(", EVIDENCE)
needs("docs/certificates.md", "--certificate certificate.json", write_certificate)
needs("docs/verifier.md", "StagedVerifier.read", write_verifier)
needs("docs/extending.md", "remask solve --model softened:load", write_extensions)
needs("docs/models.md", "remask doctor path/to/folder", copy_llada)
needs("docs/models.md", "--model copies/llada", copy_llada)
needs("docs/studies.md", 'study("diagnosis", [Path("records")])', write_records)
needs("docs/studies.md", "remask study scaling", write_records)


# --- running ----------------------------------------------------------------------------------


def shell(code: str) -> None:
    """Run the lines of a shell block that call `remask`; any other is a fault of the page."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(os.path.expandvars(line), comments=True)
        if not words:
            continue
        assert words[0] == "remask", f"{line!r} is no call of remask; mark its block"
        standins.command(*words[1:])
        if words[1] == "collect":
            multiply(Path(words[words.index("-o") + 1]))


def multiply(path: Path) -> None:
    """Copy the problems of a collection often, three in four right, so that there is evidence."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    out = []
    for number in range(40):
        right, tremble = number % 4 != 0, (number % 7) / 100
        for row in rows:
            row = {**row, "id": f"{row['id']}{number:03d}", "right": right}
            value = (0.9 if right else 0.3) + tremble
            if "by_trip" in row:
                row["by_trip"] = {name: [value] * len(v) for name, v in row["by_trip"].items()}
                row["metrics"] = dict.fromkeys(row["metrics"], value)
                row["scores"] = dict.fromkeys(row["scores"], value)
            if "features" in row:
                read = [n for n in row["features"] if n.endswith(("_mean", "_min"))]
                row["features"] |= dict.fromkeys(read, math.log(value))
            out.append(json.dumps(row) + "\n")
    path.write_text("".join(out))
    manifest = read_manifest(path)  # as if all of these had been collected
    settings = {**manifest.settings, "problems": manifest.settings["problems"] * 40}
    replace(manifest, settings=settings, file=FileState.of(path, len(out))).write(path)


@contextlib.contextmanager
def short_work() -> Iterator[None]:
    """Cut canvases to a few tokens and collections to two problems of two samples."""
    whole = CollectSettings.__init__

    def cut(self: CollectSettings, **given: Any) -> None:
        whole(
            self, **given | {n: min(given.get(n, 1), 2) for n in ("problems", "samples", "scored")}
        )

    with standins.in_short(), mock.patch.object(CollectSettings, "__init__", cut):
        yield


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model with two of its layers: its files, a quarter of its time."""
    folder = tmp_path_factory.mktemp("thin") / "tiny"
    shutil.copytree(loader.EMBEDDED, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layers": 2}))
    tensors = load_file(folder / "model.safetensors")
    later = re.compile(r"blocks\.[2-9]")
    save_file(
        {n: t for n, t in tensors.items() if not later.search(n)}, folder / "model.safetensors"
    )
    return folder


@contextlib.contextmanager
def model_for_all(hub: Path, folder: Path, model: str) -> Iterator[None]:
    """Let `tiny`, and every published id, be the stand-in of `model`: the text stays as it is."""
    from huggingface_hub import constants, snapshot_download

    files = STANDINS[model].files()
    for checkpoint in CHECKPOINTS:
        write_repository(folder, checkpoint.id, files)
    tiny = Path(snapshot_download(model))
    with (
        mock.patch.object(constants, "HF_HUB_CACHE", str(folder)),
        mock.patch.object(loader, "EMBEDDED", tiny),
    ):
        yield


@lru_cache
def prepared(make: Callable[[Path], None]) -> Path:
    """Return a folder with what `make` writes, made once: some of it takes a model."""
    folder = Path(tempfile.mkdtemp(prefix="prepared"))
    before = Path.cwd()
    os.chdir(folder)
    try:
        make(folder)
    finally:
        os.chdir(before)
    return folder


def run_page(
    page: str, folder: Path, patch: pytest.MonkeyPatch, wanted: Callable[[Block], bool]
) -> int:
    """Run the blocks of a page and return how many there were."""
    patch.setenv("PROMPT", standins.PROMPT)
    patch.setenv("ANSWER", standins.ANSWER)
    names: dict[str, Any] = {"__name__": "page"}
    chosen = [block for block in BLOCKS[page] if not block.word and wanted(block)]
    for number, block in enumerate(chosen):
        # Python blocks go on where the one before them stopped; lines of a shell start afresh.
        place = folder / ("python" if block.language == "python" else str(number))
        with short_work():
            if block.name in PREPARED:
                shutil.copytree(prepared(PREPARED[block.name]), place, dirs_exist_ok=True)
            place.mkdir(exist_ok=True)
            patch.chdir(place)
            if block.language == "python":
                exec(compile(block.code, f"{page}, block {number}", "exec"), names)
            else:
                shell(block.code)
    return len(chosen)


@pytest.fixture
def cut_short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Cut what `make test-all` leaves whole: the canvases of tasks, written a token a step (MBPP's
    has 1,024), and the thousand resamples behind each interval of a study."""
    whole = sampling_settings._whole_blocks
    monkeypatch.setattr(
        sampling_settings,
        "_whole_blocks",
        lambda length, block: whole(min(length, standins.CANVAS), block),
    )
    with few_draws(20):
        yield


@pytest.mark.usefixtures("cut_short")
@pytest.mark.parametrize("page", [page for page, found in BLOCKS.items() if found])
def test_the_snippets_of_a_page_run(
    hub: Path, thin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    if page != "README.md":
        monkeypatch.setattr(loader, "EMBEDDED", thin)
    runnable = [block for block in BLOCKS[page] if not block.word]
    assert run_page(page, tmp_path, monkeypatch, lambda block: True) == len(runnable)


@pytest.mark.full
@pytest.mark.parametrize("page", [page for page, found in BLOCKS.items() if found])
def test_the_snippets_of_a_page_run_on_all_of_tiny(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    run_page(page, tmp_path, monkeypatch, lambda block: True)


@pytest.mark.parametrize("model", FIRST.values(), ids=FIRST.keys())
def test_the_first_page_runs_on_every_family(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    with model_for_all(hub, tmp_path / "hub", model):
        assert run_page("README.md", tmp_path, monkeypatch, lambda block: True)


@pytest.mark.full
@pytest.mark.parametrize("model", FIRST.values(), ids=FIRST.keys())
@pytest.mark.parametrize("page", [p for p, found in BLOCKS.items() if any(b.loads for b in found)])
def test_every_page_that_loads_a_model_runs_on_every_family(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, model: str
) -> None:
    with model_for_all(hub, tmp_path / "hub", model):
        run_page(page, tmp_path, monkeypatch, lambda block: True)
