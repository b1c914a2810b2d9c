"""The study of real words, all of it on a CPU: a Llama of two layers, a few problems, every step.

The rows teach one answer, 5, so that of tests whose answers are 5 and 7 about half come out right.
"""

import gzip
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remask.errors import InputError, RecordError
from remask.records.manifest import read_manifest
from remask.records.record import read_records
from remask.report.claims import read_claims
from remask.tasks import task
from studies.language import __main__ as real_study
from studies.language import training
from studies.language.choice import chosen_of, read_choice
from studies.language.jobs import SHARDS, Job, Plan, Shape, curve_settings
from studies.language.page import TARGETS
from studies.language.problems import BENCHMARKS, ProblemSet, validation_set, write_validation
from studies.language.text.corpus import TextRow, bare
from studies.language.workers import OutOfTime, Watch, record_path, run_jobs

sys.path.append(str(Path(__file__).resolve().parents[1] / "pretrain"))

import ancestors
from test_figures import disagreements, faults

EMBEDDED = "diagnosis/wordmath/roundtrips_minus_confidence/auroc"
BESIDE = "frontier/mean/fitted20/auroc"
THINGS = ("pens", "cups", "hats", "keys", "maps", "bags", "figs", "nuts", "cows", "dogs")
LATER = time.monotonic() + 10_000
PAST = 0.01  # a moment long ago: there is no time left


def write_llama(folder: Path) -> Path:
    """Write a random Llama that is wide enough to learn one answer."""
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    shape = {**ancestors.SHAPE, "max_position_embeddings": 1024}
    model = LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=True))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=ancestors.backend(), eos_token="<|im_end|>", pad_token="<|im_end|>",
        bos_token="<|im_start|>", chat_template=ancestors.TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    return folder


def asked(number: int, who: str) -> str:
    thing = THINGS[number % len(THINGS)]
    return f"{who} has {number + 2} {thing}. How many {thing} are there?"


def gold(number: int) -> int:
    return 5 if number % 2 else 7


def gsm8k(number: int, who: str) -> dict[str, Any]:
    return {"question": asked(number, who), "answer": f"So.\n#### {gold(number)}"}


def mawps(number: int, who: str) -> dict[str, Any]:
    return {"id": number, "original_text": asked(number, who), "segmented_text": "",
            "equation": f"X={gold(number)}.0", "ans": float(gold(number))}  # fmt: skip


def svamp(number: int, who: str) -> dict[str, Any]:
    body, _, question = asked(number, who).partition(". ")
    return {"ID": str(number), "Body": body, "Question": question, "Equation": "( 5.0 )",
            "Answer": float(gold(number)), "Type": "Addition"}  # fmt: skip


def packed(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    text = json.dumps(rows) if ".json." in path.name else lines
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stand-ins in the authors' formats: ten test problems each."""
    folder = tmp_path_factory.mktemp("data")
    packed(folder / "gsm8k" / "test.jsonl.gz", [gsm8k(k, "Ann") for k in range(10)])
    packed(folder / "svamp" / "SVAMP.json.gz", [svamp(k, "Bo") for k in range(10)])
    packed(folder / "mawps" / "testset.json.gz", [mawps(k, "Cy") for k in range(10)])
    packed(folder / "mawps" / "validset.json.gz", [mawps(k, "Di") for k in range(12)])
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that teach one answer, and others held out, of three sources."""
    folder = tmp_path_factory.mktemp("rows")
    lesson = [TextRow(asked(k, "Ed"), "#### 5", "stories").entry() for k in range(32)]
    held_out = [
        TextRow(asked(k, who), f"#### {gold(k)}", source).entry()
        for source, who in (("gsm8k", "Flo"), ("mawps", "Di"), ("stories", "Gus"))
        for k in range(8)
    ]
    for name, lines in (("train", lesson), ("valid", held_out)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def patience() -> Iterator[None]:
    """Nothing here takes seconds to read or to save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "RESERVE", 0.0)
        yield


def train_words(llama: Path, rows: Path, out: Path) -> list[str]:
    return [
        "train", str(llama), str(rows), str(out), "--tokens", "2048", "--canvas", "16", "--lr",
        "0.02", "--epochs", "40", "--causal-epochs", "2", "--block-share", "0.25", "--minutes",
        "50", "--eval-every", "4", "--patience", "1000", "--device", "cpu", "--trial-rows", "24",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def model(
    llama: Path, rows: Path, patience: None, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("study")
    assert real_study.main(train_words(llama, rows, out)) == 0
    return out / "final" / "model"


@pytest.fixture(scope="module")
def study(model: Path, data: Path, rows: Path, few_resamples: None) -> Path:
    """Return the folder of a study with all its records."""
    out = model.parents[1]
    words = [str(model), str(data)]
    assert real_study.main(
        ["choose", *words, str(rows), str(out), "--shapes", "16x2x16", "16x4x16", "--parallel", "1"]
    ) == 0  # fmt: skip
    assert real_study.main(["collect", *words, str(out), "--parallel", "1"]) == 0
    return out


def test_both_kinds_are_tried_and_the_better_is_trained(model: Path) -> None:
    out = model.parents[1]
    state = training.read_state(out)
    losses = {kind: told["valid_loss"] for kind, told in state["trials"].items()}
    assert set(losses) == {"shifted", "unshifted"}
    assert state["chosen"] == min(losses, key=lambda kind: losses[kind])
    assert state["trials"]["shifted"]["steps"] == state["trials"]["unshifted"]["steps"]
    assert state["trials"]["shifted"]["rows"] == 24
    assert state["final"]["valid_loss"] < min(losses.values())
    config = json.loads((model / "config.json").read_text())
    assert config["shifted"] == state["final"]["shifted"]


def test_a_training_that_was_stopped_goes_on(
    llama: Path, rows: Path, patience: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = train_words(llama, rows, tmp_path / "out")
    assert real_study.main([*words, "--stop-after", "1e-9"]) == real_study.LEFT
    assert "goes on with the same command" in capsys.readouterr().out
    plan = training.TrainPlan(
        source=str(llama), rows=rows, out=tmp_path / "out", tokens=2048, canvas=16, lr=0.02,
        epochs=3, eval_every=4, device="cpu",
    )  # fmt: skip
    said: list[dict[str, Any]] = []
    # A moment is over after the first step: each call trains, saves, and leaves the rest.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "time", _Moments())
        for _ in range(60):
            if training.train(plan, said.append, deadline=PAST) is not None:
                break
        else:
            pytest.fail("it never came to an end")
    assert any("resumed" in row for row in said)
    assert training.read_state(plan.out)["final"]["steps"] > 1


class _Moments:
    """A clock that always says the same: what is left of a call is what it began with."""

    def monotonic(self) -> float:
        return 0.0


def test_rows_that_are_missing_are_said(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no train\.jsonl"):
        real_study.main(train_words(llama, tmp_path, tmp_path / "out"))


def test_what_is_held_out_is_asked_in_the_authors_fields(
    data: Path, rows: Path, tmp_path: Path
) -> None:
    """MAWPS keeps its own rows, eight of twelve; SVAMP is validated with it and the stories."""
    write_validation(data, rows, tmp_path)
    sizes = {name: validation_set(tmp_path, name).size() for name in ("gsm8k", "svamp", "mawps")}
    assert sizes == {"gsm8k": 8, "svamp": 16, "mawps": 8}
    own = validation_set(tmp_path, "mawps")
    problem = task(own.task, path=own.path).problem(3, split=own.split)
    assert (problem.id, problem.gold) == ("mawps/all/validation/0/3", "5")
    with pytest.raises(InputError, match=r"has no valid\.jsonl"):
        write_validation(data, tmp_path / "nowhere", tmp_path)


def test_the_rule_takes_the_cheapest_of_the_best() -> None:
    tried = [
        {"accuracy": 0.48, "forwards": 10},
        {"accuracy": 0.50, "forwards": 90},
        {"accuracy": 0.50, "forwards": 30},
        {"accuracy": 0.46, "forwards": 20},
    ]
    assert chosen_of(tried)["forwards"] == 30


def test_the_choice_is_written_with_its_tries(study: Path, data: Path, rows: Path) -> None:
    document = read_choice(study)
    own = document["sets"]["svamp"]
    assert own["validated_with"] == ["mawps", "stories"]
    assert [(one["canvas"], one["steps"]) for one in own["tried"]] == [(16, 8), (16, 4)]
    assert own["rate"] == 4, "both are right as often, and four tokens a step are cheaper"
    assert "of equals the fewest" in document["rule"]
    model = str(study / "final" / "model")
    with pytest.raises(InputError, match="remove it to choose"):
        real_study.main(["choose", model, str(data), str(rows), str(study)])


def test_every_part_has_its_records(study: Path) -> None:
    records = {path.stem: list(read_records(path)) for path in (study / "records").glob("*.jsonl")}
    assert {"gsm8k", "svamp", "mawps", "pool-gsm8k", "validation-svamp", "trips-8"} <= set(records)
    assert set(curve_settings()) <= set(records)
    [first, *_] = records["gsm8k"]
    assert {"confidence", "roundtrips", "self_evaluation", "dise", "tre"} <= set(first.scores)
    assert "stratified90x8.response_mean" in first.features
    assert {row.answer for row in records["gsm8k"]} == {"5"}, "as it was taught"
    pool = records["pool-gsm8k"]
    assert len(pool) == 100
    assert all(row.verify_forwards is None for row in pool)
    assert all(row.verify_forwards and row.features for row in records["pool-svamp"])
    assert not list((study / "shards").iterdir()), "all of them are joined"
    sampler = read_manifest(record_path(study, "gsm8k")).sampler
    assert (sampler["length"], sampler["steps"], sampler["block"]) == (16, 4, 16)


def test_a_job_is_cut_by_its_problems_and_not_by_the_processes() -> None:
    source = ProblemSet("gsm8k", Path("test.jsonl"), "test")
    sizes = {(1319, 1): (83, 8), (238, 1): (48, 5), (500, 10): (32, 8), (4, 1): (48, 1)}
    for (problems, samples), (chunk, shards) in sizes.items():
        job = Job(
            name="a", source=source, problems=problems, samples=samples, shape=Shape(96, 2, 32)
        )
        assert (job.chunk, job.shards) == (chunk, shards)
    assert SHARDS == 8


def test_a_watch_stops_before_a_chunk_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of ten seconds: the third would end after the deadline of 25."""
    clock = iter([0.0, 0.0, 10.0, 20.0])
    monkeypatch.setattr("studies.language.workers.time.monotonic", lambda: next(clock))
    watch = Watch(25.0)
    watch(0, 0)
    watch(4, 100)
    with pytest.raises(OutOfTime):
        watch(8, 200)


def test_shards_of_several_processes_become_one_file(
    study: Path, data: Path, tmp_path: Path
) -> None:
    """What was stopped is gone on with, and the answers are those of one process."""
    model = str(study / "final" / "model")
    shapes = dict.fromkeys(BENCHMARKS, Shape(16, 4, 16))
    plan = Plan(data=data, out=tmp_path, shapes=shapes)
    job = plan.jobs("pools")[1]
    assert job.shards == 2
    run = {"model": model, "out": tmp_path}
    assert run_jobs([job], **run, parallel=1, deadline=PAST) == ["pool-mawps"]
    assert run_jobs([job], **run, parallel=2, deadline=LATER) == []
    assert run_jobs([job], **run, parallel=2, deadline=LATER) == [], "it is there"
    ours, whole = (record_path(out, job.name).read_text() for out in (tmp_path, study))
    texts = [[json.loads(line)["text"] for line in each.splitlines()] for each in (ours, whole)]
    assert texts[0] == texts[1]
    assert run_jobs([replace(job, problems=4)], **run, parallel=1, deadline=PAST) == ["pool-mawps"]


def test_records_of_other_settings_or_data_are_refused(
    study: Path, data: Path, rows: Path, tmp_path: Path
) -> None:
    """Other canvases after another choice, or rows that were built again, are seen at the start."""
    plan = Plan(data=data, out=study, shapes=dict.fromkeys(BENCHMARKS, Shape(16, 4, 16)))
    job = plan.jobs("greedy")[0]
    run = {"model": "nobody loads it", "out": study, "parallel": 1, "deadline": LATER}
    assert run_jobs(plan.jobs("greedy") + plan.jobs("curves"), **run) == []
    other = ProblemSet("svamp", tmp_path / "SVAMP.json.gz", "test")
    packed(other.path, [svamp(k, "Max") for k in range(10)])
    for changed, message in (
        (
            replace(job, shape=Shape(16, 2, 16)),
            r"svamp\.jsonl was collected with steps 4, and 8 is",
        ),
        (replace(job, source=other), r"svamp\.jsonl was collected with sha256 \w+, and \w+ is"),
        (replace(job, trips={"mask_ratio": 0.5}), r"with mask_ratio 0\.9, and 0\.5 is asked"),
        (replace(job, probes=()), r"with probes \[.+\], and \[\] is asked for; remove it"),
    ):
        with pytest.raises(InputError, match=message):
            run_jobs([changed], **run)


def test_other_weights_are_refused(study: Path, llama: Path, data: Path) -> None:
    with pytest.raises(InputError, match="other weights"):
        real_study.main(["collect", str(llama), str(data), str(study)])


@pytest.fixture(scope="module")
def measured(study: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return figures and page; the figures held some of others before."""
    folder = tmp_path_factory.mktemp("docs")
    figures, page = folder / "figures.json", folder / "real.md"
    entry = {"value": 0, "n": 9, "unit": "rows", "run": "overlap"}
    old = {**entry, "run": "real"}
    run = {"command": "do", "commit": "abc", "hardware": "a machine"}
    gap = {**entry, "value": 0.1, "low": 0.05, "high": 0.2, "unit": "AUROC"}
    figures.write_text(json.dumps({
        "version": 3, "runs": {"overlap": run, "real": run},
        "figures": {"real/overlap": entry, "real/gsm8k/gone/auroc": old, EMBEDDED: gap,
                    "real/rows/stories": {**entry, "value": 7},
                    "real/dropped/stories": {**entry, "value": 2},
                    BESIDE: {**gap, "value": 0.825, "low": 0.8, "high": 0.85}},
    }))  # fmt: skip
    [asked, *_] = (bare(row.prompt) for row in read_records(record_path(study, "gsm8k")))
    near = {"questions": {"gsm8k": [asked], "svamp": [], "mawps": []}}
    (study / "near.json").write_text(json.dumps(near))
    words = ["--commit", "abc1234", "--hardware", "two cores", "--figures", str(figures)]
    assert real_study.main(["measure", str(study), *words, "--page", str(page)]) == 0
    return figures, page


def test_the_promised_figures_are_there(measured: tuple[Path, Path]) -> None:
    figures = json.loads(measured[0].read_text())["figures"]
    methods = ("roundtrips", "confidence", "agreement", "length", "probe", "verifier", "fitted")
    names = {
        *(f"real/{name}/accuracy" for name in ("gsm8k", "svamp", "mawps")),
        *(f"real/{n}/{m}/auroc" for n in ("gsm8k", "svamp", "mawps") for m in methods),
        "real/verifier_minus_confidence/auroc", "real/verifier_minus_roundtrips/auroc",
        "real/fitted_minus_length/auroc", "real/fitted_minus_confidence/auroc",
        "real/parameters", "real/overlap", "real/mgrs/verifier/accuracy",
        "real/diagnosis/svamp/roundtrips_minus_consistency/auroc",
        "real/correction/svamp/mgrs/accuracy", "real/ablation/svamp/mask_ratio/0.3/auroc",
        "real/svamp/wrong_by_sums", "real/train/final/0/valid_loss",
    }  # fmt: skip
    assert names - set(figures) == set()
    assert "real/gsm8k/gone/auroc" not in figures
    assert 0.2 <= figures["real/gsm8k/accuracy"]["value"] <= 0.8
    assert figures["real/gsm8k/accuracy"]["n"] == 10
    assert figures["real/gsm8k/near"]["value"] == 1
    assert figures["real/gsm8k/distinct/accuracy"]["n"] == 9
    assert figures["real/svamp/distinct/accuracy"]["n"] == 10
    assert {name for target in read_claims(TARGETS) for name in target.names()} <= set(figures)
    assert [fault for name, row in figures.items() for fault in faults(name, row)] == []
    assert "sha256" in figures["real/parameters"]["unit"]


def test_the_page_says_what_the_figures_say(measured: tuple[Path, Path]) -> None:
    figures, page = json.loads(measured[0].read_text())["figures"], measured[1].read_text()
    assert disagreements(page, figures) == []
    for heading in ("The model", "What limits it", "What was to be shown", "Against ten samples",
                    "Without near duplicates", "The curves", "The paper's claims",
                    "What was tried on validation"):  # fmt: skip
        assert f"## {heading}" in page
    assert "collected on two cores at commit abc1234" in " ".join(page.split())
    assert "| stories | 7<!--fig:real/rows/stories--> | 2<!--fig:real/dropped/stories--> |" in page
    assert "Rows that a test has, too, after that: 0<!--fig:real/overlap-->." in page
    [claim] = [line for line in page.splitlines() if "than the model's confidence." in line]
    assert claim.endswith("| holds |"), "on the embedded model"
    [beside] = [line for line in page.splitlines() if BESIDE in line]
    assert "<!--fig:real/mean/fitted/pool/auroc-->" in beside
    assert beside.endswith("| 0.825<!--fig:frontier/mean/fitted20/auroc--> [0.800, 0.850] |")
    assert re.search(r"-->; made of llama\d; model\.safetensors sha256 \w{64}\.\n", page)
    assert "SmolLM2" not in page
    assert real_study.main(["page", "--figures", str(measured[0]), "--page", str(measured[1])]) == 0
    assert measured[1].read_text() == page


def test_without_records_or_figures_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no answers to gsm8k"):
        real_study.main(["measure", str(tmp_path), "--commit", "a", "--hardware", "b"])
    with pytest.raises(RecordError, match="no figures of this study"):
        real_study.main(["page", "--figures", str(tmp_path / "none.json")])
    with pytest.raises(InputError, match=r"has no choice\.json"):
        read_choice(tmp_path)


def test_a_training_without_a_second_is_refused(
    llama: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "RESERVE", 45.0)
    words = train_words(llama, rows, tmp_path / "out")
    for command in (words, ["all", str(llama), "data", str(tmp_path / "out")]):
        with pytest.raises(InputError, match=r"stop_after 45 leaves no second .+ take 45; give"):
            real_study.main([*command, "--stop-after", "45"])
    assert not (tmp_path / "out" / "shifted-trial").exists()
