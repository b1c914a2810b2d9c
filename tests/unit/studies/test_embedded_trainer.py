"""Pre-training at toy size: the loss by hand, the rows, and a run that is stopped and resumed."""

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from remask.denoisers.load import load
from remask.errors import (
    CheckpointError,
    DenoiserError,
    RecordError,
    RemaskError,
    SettingsError,
)
from remask.pretrain.noise import low_discrepancy_ratios
from remask.records.lock import locked
from remask.records.run_folder import STATE
from remask.tasks import TASKS, task
from remask.tasks.base import Problem, split_of
from remask.testing import check_denoiser
from studies.embedded import corpus as corpus_module
from studies.embedded.__main__ import main
from studies.embedded.corpus import (
    EOS_ID,
    MASK_ID,
    ROW_LENGTHS,
    SPECIAL_TOKENS,
    Corpus,
    train_tokenizer,
)
from studies.embedded.settings import MIX, TrainSettings
from studies.embedded.trainer import BLOCK, Trainer, folder_of, masked_loss, train

# The loss


def constant(probabilities: list[list[float]]) -> Callable[[Tensor], Tensor]:
    """Return a network that predicts row i of `probabilities` at place i, whatever it reads."""
    logits = torch.tensor(probabilities).log()
    return lambda ids: logits.expand(len(ids), -1, -1)


# Places: prompt, two canvas tokens; vocabulary: EOS, mask, two letters.
HALF_AND_QUARTER = constant([[0.25] * 4, [0.25, 0.25, 0.5, 1e-9], [0.25, 0.25, 0.25, 0.25]])
IDS, NUM_PROMPT = torch.tensor([[3, 2, 3]]), torch.tensor([1])


def loss(ratio: float, draws: list[float]) -> float:
    value = masked_loss(
        HALF_AND_QUARTER, IDS, NUM_PROMPT, torch.tensor([ratio]), torch.tensor([draws])
    )
    return float(value)


def test_the_loss_is_the_weighted_cross_entropy_per_canvas_token() -> None:
    """p(2) = 1/2 at the first canvas place, p(3) = 1/4 at the second.

    t = 1/2, the first masked: (log 2) / (1/2) / 2 tokens = log 2. t = 1, both: (1 + 2) log 2 / 2.
    None: 0. A draw below t at the prompt changes nothing.
    """
    assert loss(0.5, [0.0, 0.2, 0.9]) == pytest.approx(math.log(2))
    assert loss(0.5, [0.9, 0.2, 0.9]) == pytest.approx(math.log(2))
    assert loss(1.0, [0.0, 0.2, 0.9]) == pytest.approx(1.5 * math.log(2))
    assert loss(0.1, [0.0, 0.2, 0.9]) == 0


def test_the_weight_makes_every_ratio_expect_the_same() -> None:
    """Where context does not matter each t gives 1.5 log 2 on average, here within 5 per cent."""
    for ratio in (0.25, 0.75):
        draws = torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0))
        got = masked_loss(
            HALF_AND_QUARTER,
            IDS.expand(20_000, 3),
            NUM_PROMPT.expand(20_000),
            torch.full((20_000,), ratio),
            draws,
        )
        assert float(got) == pytest.approx(1.5 * math.log(2), rel=0.05)


def test_the_network_never_sees_a_masked_prompt() -> None:
    seen: list[Tensor] = []

    def network(ids: Tensor) -> Tensor:
        seen.append(ids)
        return torch.zeros(*ids.shape, 8)

    ids = torch.full((5, 10), 4)
    num_prompt = torch.tensor([1, 3, 5, 7, 9])
    masked_loss(network, ids, num_prompt, torch.ones(5), torch.zeros(5, 10))
    assert (seen[0] == MASK_ID).sum(1).tolist() == (10 - num_prompt).tolist()
    for row, num in zip(seen[0].tolist(), num_prompt.tolist(), strict=True):
        assert row == [4] * num + [MASK_ID] * (10 - num)


def test_ratios_are_evenly_spread() -> None:
    """Four rows shifted by .5: 1/8, 3/8, 5/8, 7/8. The smallest is bounded from below."""
    got = low_discrepancy_ratios(4, torch.tensor(0.5), 0.02)
    assert got.tolist() == [0.125, 0.375, 0.625, 0.875]
    assert low_discrepancy_ratios(4, torch.tensor(0.0), 0.02).tolist() == pytest.approx(
        [0.02, 0.25, 0.5, 0.75]
    )


# The rows


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    tokenizer = train_tokenizer(num_problems=20, size=500, seed=0)
    return Corpus(mix=MIX, batch=4, seed=3, tokenizer=tokenizer.to_str())


def test_a_batch_is_a_function_of_its_number(corpus: Corpus) -> None:
    for step in (0, 7):
        one, again = corpus.rows(step), replace(corpus).rows(step)
        assert np.array_equal(one.ids, again.ids)
        assert np.array_equal(one.num_prompt, again.num_prompt)
    other = replace(corpus, seed=4).rows(0)
    assert not np.array_equal(corpus.rows(0).ids, other.ids)
    assert [corpus.rows(step).ids.shape for step in range(len(ROW_LENGTHS))] == [
        (4, s) for s in ROW_LENGTHS
    ]


def test_rows_are_prompt_solution_and_at_least_one_end(corpus: Corpus) -> None:
    backend = corpus_module._backend(corpus.tokenizer)
    rows = corpus.rows(1)
    for ids, num in zip(rows.ids.tolist(), rows.num_prompt.tolist(), strict=True):
        head = backend.decode(ids[:num], skip_special_tokens=False)
        assert head.startswith("<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n")
        assert head.endswith("<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")
        end = ids.index(EOS_ID)
        assert num < end
        assert set(ids[end:]) == {EOS_ID}
        assert MASK_ID not in ids


def test_worker_processes_give_the_same_batches_in_order(corpus: Corpus) -> None:
    alone = list(corpus.stream(2, 7, workers=0))
    together = list(corpus.stream(2, 7, workers=2))
    assert len(alone) == len(together) == 5
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert np.array_equal(one.num_prompt, other.num_prompt)


def test_a_stream_left_early_ends(corpus: Corpus, tmp_path: Path) -> None:
    """Four batches are made ahead and the fifth waits for a reader who has left: all must end.

    The pause lets it come to that; a reader who left at once would find nobody waiting yet.
    """
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(corpus.tokenizer)
    script = (
        "import pathlib, sys, time\n"
        "from studies.embedded.corpus import Corpus\n"
        "text = pathlib.Path(sys.argv[1]).read_text()\n"
        "corpus = Corpus(mix={'wordmath': 1.0}, batch=1, seed=0, tokenizer=text)\n"
        "for rows in corpus.stream(0, 1000, workers=1):\n"
        "    time.sleep(0.5)\n"
        "    break\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tokenizer)], check=False, timeout=600)
    assert done.returncode == 0


def test_every_training_row_is_of_the_train_split(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its identity says so, and where the problem shows its key, the key's hash does."""
    drawn: list[Problem] = []

    def spy(name: str) -> Any:
        def problem(*args: Any, **kwargs: Any) -> Problem:
            drawn.append(task(name).problem(*args, **kwargs))
            return drawn[-1]

        return SimpleNamespace(problem=problem)

    monkeypatch.setattr(corpus_module, "task", spy)
    rows = replace(corpus, batch=60).rows(3)
    assert {p.id.split("/")[2] for p in drawn} == {"train"}
    assert {p.task for p in drawn} == set(TASKS)
    assert {p.level for p in drawn} == {"easy", "medium"}
    keys = [p.facts["key"] for p in drawn if "key" in p.facts]
    assert len(keys) > 20
    assert {split_of(key) for key in keys} == {"train"}
    rendered = {corpus_module._render(p.prompt) for p in drawn}
    backend = corpus_module._backend(corpus.tokenizer)
    for ids, num in zip(rows.ids.tolist(), rows.num_prompt.tolist(), strict=True):
        assert backend.decode(ids[:num], skip_special_tokens=False) in rendered


# The run


def toy(out: Path, **changes: Any) -> TrainSettings:
    settings = TrainSettings(
        out=out, steps=4, batch=4, warmup=2, width=16, layers=1, heads=2, inner=24,
        mix={"wordmath": 1.0}, num_tokenizer_problems=20, vocabulary=400, device="cpu",
        eval_every=2, eval_problems=1, checkpoint_every=1,
    )  # fmt: skip
    return replace(settings, **changes)


def last_state(out: Path) -> dict[str, Any]:
    last = folder_of(out).last()
    assert last is not None
    state: dict[str, Any] = torch.load(last / STATE)
    return state


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a whole run."""
    out = tmp_path_factory.mktemp("whole")
    assert train(toy(out), say=lambda line: None) == out / "model"
    return out


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    finished: Path, tmp_path: Path
) -> None:
    """Killed while it reports step 2, after the checkpoint of step 1; the rest is done again."""

    def die(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(toy(tmp_path), say=die)
    said: list[str] = []
    train(toy(tmp_path), say=said.append)
    assert json.loads(said[0]) == {"resumed": 1}
    whole, resumed = (last_state(folder) for folder in (finished, tmp_path))
    assert whole["step"] == resumed["step"] == 4
    for part in ("network", "average"):
        assert all(torch.equal(v, resumed[part][k]) for k, v in whole[part].items())
    weights = [(f / "model" / "model.safetensors").read_bytes() for f in (finished, tmp_path)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"width": 32}, "width was 16, got 32"),
        ({"layers": 2}, "layers was 1, got 2"),
        ({"steps": 8}, "steps was 4, got 8"),
        ({"batch": 8, "lr": 0.1}, "batch was 4, got 8; lr was 0.0012, got 0.1"),
    ],
)
def test_a_run_of_another_size_or_schedule_is_not_resumed(
    finished: Path, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(SettingsError, match=f"Cannot resume {finished}: {field}"):
        train(toy(finished, **changes), say=lambda line: None)


def test_a_refused_run_leaves_nothing_and_the_corrected_one_starts(tmp_path: Path) -> None:
    settings = toy(tmp_path / "out", init=Path("nope"), steps=1, eval_every=100)
    with pytest.raises(CheckpointError, match="model 'nope'"):
        train(settings, say=lambda line: None)
    assert list(tmp_path.iterdir()) == []
    train(replace(settings, init=None), say=lambda line: None)


def test_another_initial_model_is_not_taken_for_the_one_of_the_run(
    finished: Path, tmp_path: Path
) -> None:
    init = shutil.copytree(finished / "model", tmp_path / "init")
    settings = toy(tmp_path / "out", init=init, steps=1, eval_every=100)
    train(settings, say=lambda line: None)
    config = json.loads((init / "config.json").read_text())
    (init / "config.json").write_text(json.dumps(config))
    with pytest.raises(SettingsError, match="init was '"):
        train(settings, say=lambda line: None)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    settings = toy(tmp_path / "out")
    with locked(settings.out), ThreadPoolExecutor(1) as other:
        refused = other.submit(train, settings, say=lambda line: None)
        with pytest.raises(RecordError, match="in use by process"):
            refused.result()
    assert not settings.out.exists()


@pytest.mark.parametrize("name", ["checkpoint-000004/state.pt", "log.jsonl", "run.json"])
def test_an_edited_run_is_refused(finished: Path, tmp_path: Path, name: str) -> None:
    out = shutil.copytree(finished, tmp_path / "out")
    content = bytearray((out / name).read_bytes())
    content[2] ^= 1
    (out / name).write_bytes(content)
    with pytest.raises(RemaskError, match=r"was changed|not of this run"):
        train(toy(out), say=lambda line: None)


def test_an_edited_model_is_written_again(finished: Path, tmp_path: Path) -> None:
    out = shutil.copytree(finished, tmp_path / "out")
    (out / "model" / "config.json").write_text("{}")
    train(toy(out), say=lambda line: None)
    for path in (finished / "model").iterdir():
        assert (out / "model" / path.name).read_bytes() == path.read_bytes()


def test_a_finished_run_has_nothing_left_to_do(finished: Path) -> None:
    before = (finished / "model" / "model.safetensors").read_bytes()
    said: list[str] = []
    train(toy(finished), say=said.append)
    assert said == [json.dumps({"resumed": 4})]
    assert (finished / "model" / "model.safetensors").read_bytes() == before


def test_the_log_has_loss_and_accuracy_by_task_and_level(finished: Path) -> None:
    rows = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    accuracies = [row["accuracy"] for row in rows if "accuracy" in row]
    assert len(accuracies) == 2
    assert set(accuracies[0]) == {f"wordmath/{level}" for level in ("easy", "medium", "hard")}
    losses = [row["loss"] for row in rows if "loss" in row]
    assert losses == [pytest.approx(math.log(400), rel=0.5)]


def test_the_exported_folder_loads_and_keeps_the_contract(finished: Path) -> None:
    denoiser = load(finished / "model", device="cpu")
    check_denoiser(denoiser)
    assert denoiser.preset.length == TASKS["wordmath"].canvas_length("medium")
    assert denoiser.preset.block == BLOCK
    average = last_state(finished)["average"]
    vectors = denoiser.embed(torch.arange(denoiser.vocab_size))
    assert torch.equal(vectors, average["embedding.weight"].bfloat16().float())


def test_a_run_may_start_from_a_finished_checkpoint(finished: Path, tmp_path: Path) -> None:
    trainer = Trainer(toy(tmp_path, init=finished / "model"), say=lambda line: None)
    average = last_state(finished)["average"]
    for name, weight in trainer.network.state_dict().items():
        assert torch.equal(weight, average[name].bfloat16().float()), name
    assert trainer.tokenizer.to_str() == (finished / "model" / "tokenizer.json").read_text()


def test_a_checkpoint_of_another_shape_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="another shape; give its width"):
        Trainer(toy(tmp_path, init=finished / "model", layers=3), say=lambda line: None)


def test_the_exported_tokenizer_encodes_any_text(finished: Path) -> None:
    tokenizer = load(finished / "model", device="cpu").tokenizer

    @given(st.text().filter(lambda text: not any(name in text for name in SPECIAL_TOKENS)))
    def comes_back(text: str) -> None:
        ids = tokenizer.encode(text)
        assert tokenizer.backend.decode(ids) == text
        assert not tokenizer.special_ids & set(ids)

    comes_back()
    assert len(tokenizer.encode("12345")) == 5


def test_repeating_one_batch_lowers_its_loss(tmp_path: Path) -> None:
    """From about 4.0 to 2.5 nats a token, at ratios that differ from step to step."""
    settings = toy(tmp_path, steps=100, lr=0.02, warmup=1)
    trainer = Trainer(settings, say=lambda line: None)
    rows = Corpus(mix=settings.mix, batch=4, seed=0, tokenizer=trainer.tokenizer.to_str()).rows(0)
    ids, num_prompt = torch.from_numpy(rows.ids), torch.from_numpy(rows.num_prompt)
    losses = []
    for _ in range(40):
        losses.append(float(trainer._update(ids, num_prompt)))
        trainer.step += 1
    assert sum(losses[-10:]) < 0.75 * sum(losses[:10])


def test_the_average_follows_the_weights(tmp_path: Path) -> None:
    """Equal before step 0, whose decay is min(.999, 1 / 10): it goes 0.9 of the way."""
    trainer = Trainer(toy(tmp_path), say=lambda line: None)
    before = [p.detach().clone() for p in trainer.network.parameters()]
    rows = Corpus(mix={"wordmath": 1.0}, batch=4, seed=0, tokenizer=trainer.tokenizer.to_str())
    ids, num_prompt = (torch.from_numpy(part) for part in rows.rows(0))
    trainer._update(ids, num_prompt)
    moved = False
    for old, new, kept in zip(
        before, trainer.network.parameters(), trainer.average.parameters(), strict=True
    ):
        assert torch.allclose(kept, old + 0.9 * (new.detach() - old), atol=1e-7)
        moved |= not torch.equal(old, new)
    assert moved


def test_muon_turns_the_matrices_and_adamw_the_rest(tmp_path: Path) -> None:
    trainer = Trainer(toy(tmp_path), say=lambda line: None)
    muon, adamw = trainer.optimizers
    names = {id(p): name for name, p in trainer.network.named_parameters()}
    turned = {names[id(p)] for p in muon.param_groups[0]["params"]}
    rest = {names[id(p)] for p in adamw.param_groups[0]["params"]}
    block = "blocks.0."
    assert turned == {
        f"{block}{name}.weight"
        for name in ("attention.qkv", "attention.out", "mlp.gate_up", "mlp.down")
    }
    assert rest == {
        "embedding.weight",
        "norm.weight",
        f"{block}attention_norm.weight",
        f"{block}mlp_norm.weight",
    }


def test_the_rate_warms_up_and_falls_to_two_per_cent(tmp_path: Path) -> None:
    """Warm-up of 2: half the rate at step 0. Cosine: .02 + .98 / 2 halfway, .02 at the end."""
    trainer = Trainer(toy(tmp_path, steps=100), say=lambda line: None)
    assert trainer.rate(0) == pytest.approx(0.5)
    assert trainer.rate(50) == pytest.approx(0.51)
    assert trainer.rate(100) == pytest.approx(0.02)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    trainer = Trainer(toy(tmp_path, eval_every=100), say=lambda line: None)
    trainer.losses = lambda *_: trainer.network.embedding.weight.sum() * math.nan
    with pytest.raises(DenoiserError, match=r"not finite at update 1 \(.*kernels: .*math"):
        trainer.run()
    assert trainer.folder.last() is None, "no weights of NaN are kept"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mix": {"chess": 1.0}}, "Unknown task 'chess'"),
        ({"width": 18}, "width must be a multiple of 4 .*got 18"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        toy(tmp_path, **changes)


def test_the_command_trains_continues_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--steps=2", "--batch=2", "--layers=1", "--width=16", "--heads=2", "--inner=16",
        "--mix=choice=1", "--eval-every=2", "--eval-problems=1", "--device=cpu", "--lr=1e-3",
        f"--out={tmp_path / 'out'}",
    ]  # fmt: skip
    assert main(words) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[-1] == {"model": str(tmp_path / "out" / "model")}
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {"resumed": 2}
    for flag, words_of_error in (
        ("--mix=choice", "mix must be shares"),
        ("--mix=chess=1", "Unknown task 'chess'"),
        ("--steps=0", "steps must be at least 1, got 0"),
        ("--lr=nan", "lr must be a number above 0, got nan"),
    ):
        assert main([*words, flag]) == 1
        assert words_of_error in capsys.readouterr().err
