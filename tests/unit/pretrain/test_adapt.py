"""Adapting a random Llama of two layers: what it learns, what is written, and a kill on the way."""

import json
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ancestors
import pytest
import torch
from safetensors import safe_open

import remask
from remask.denoisers.native import NativeDenoiser
from remask.errors import CheckpointError, DenoiserError, InputError, RecordError, SettingsError
from remask.pretrain.adapt import Adaptation, _Clock, adapt, folder_of
from remask.pretrain.adapt_settings import AdaptSettings
from remask.records.lock import locked
from remask.records.run_folder import STATE
from remask.testing import check_denoiser

Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ancestors.write_rows(tmp_path_factory.mktemp("rows") / "rows.jsonl")


def toy(llama: Path, rows: Path, out: Path, **changes: Any) -> AdaptSettings:
    settings = AdaptSettings(
        source=str(llama), rows=(rows,), valid=rows, out=out, canvas=16, least_canvas=8, longest=96,
        tokens=384, epochs=6, causal_epochs=0, block_share=0.0, lr=0.01, ema=0.8, eval_every=4,
        checkpoint_every=3, log_every=2, dtype="float32", device="cpu",
    )  # fmt: skip
    return replace(settings, **changes)


def run(settings: AdaptSettings) -> list[Row]:
    said: list[Row] = []
    adapt(settings, said.append)
    return said


@pytest.fixture(scope="module")
def finished(
    llama: Path, rows: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Row]]:
    """Return the folder of a whole run, and what it said."""
    out = tmp_path_factory.mktemp("whole")
    return out, run(toy(llama, rows, out))


def last_state(out: Path) -> dict[str, Any]:
    last = folder_of(out).last()
    assert last is not None
    state: dict[str, Any] = torch.load(last / STATE)
    return state


def read_log(out: Path) -> list[Row]:
    return [json.loads(line) for line in (out / "adapt.jsonl").read_text().splitlines()]


def load(folder: Path) -> NativeDenoiser:
    denoiser = remask.load(folder, device="cpu", dtype="float32")
    assert isinstance(denoiser, NativeDenoiser)
    return denoiser


def test_the_loss_falls_on_what_is_learned_and_on_what_is_held_out(
    finished: tuple[Path, list[Row]],
) -> None:
    """From about 6.5 nats a token to 2 in some 20 steps; the best average is the last one."""
    log = read_log(finished[0])
    losses = [row["loss"] for row in log if "loss" in row]
    held_out = [row["valid_loss"] for row in log if "valid_loss" in row]
    assert losses[-1] < 0.5 * losses[0]
    assert held_out[-1] < 0.5 * held_out[0]
    assert held_out == sorted(held_out, reverse=True)
    steps = [row["step"] for row in log if "valid_loss" in row]
    assert steps[:3] == [0, 4, 8]
    assert steps[-1] == log[-1]["max_steps"]


def test_the_model_loads_and_keeps_the_contract(finished: tuple[Path, list[Row]]) -> None:
    out, said = finished
    denoiser = load(out / "model")
    check_denoiser(denoiser)
    assert said[-1]["model"] == str(out / "model")
    assert (denoiser.preset.length, denoiser.preset.steps, denoiser.preset.block) == (16, 16, 16)
    assert denoiser.model.shifted
    assert denoiser.tokenizer.mask_id == ancestors.REPO
    assert denoiser.tokenizer.backend.id_to_token(ancestors.REPO) == "<|mask|>"
    assert denoiser.tokenizer.eos_ids == (ancestors.END,)
    assert denoiser.tokenizer.template.endswith("{prompt}<|im_end|>\n<|im_start|>assistant\n")
    config = json.loads((out / "model" / "config.json").read_text())
    assert config["architectures"] == ["A2DLlamaLMHeadModel"]
    assert config["adapted"]["steps"] == said[-1]["of_step"] > 0
    assert remask.sample(denoiser, "Add 1 and 1.").num_response > 0


def test_what_is_trained_is_what_is_loaded(
    llama: Path, rows: Path, finished: tuple[Path, list[Row]]
) -> None:
    """The best average, to the last bit, behind the tokenizer that the rows were encoded with."""
    adaptation = Adaptation(toy(llama, rows, finished[0]), lambda row: None)
    denoiser = load(finished[0] / "model")
    assert adaptation.best is not None
    for name, weight in denoiser.model.state_dict().items():
        assert torch.equal(weight, adaptation.best[name]), name
    for name in ("mask_id", "eos_ids", "pad_id", "template", "system", "primer", "trims"):
        assert getattr(denoiser.tokenizer, name) == getattr(adaptation.tokenizer, name)


KILLED = """
import json, os, signal, sys
from remask.pretrain.adapt import adapt
from remask.pretrain.adapt_settings import AdaptSettings
from pathlib import Path
import torch
torch.set_num_threads(int(sys.argv[2]))
given = json.loads(sys.argv[1])
paths = {name: Path(given[name]) for name in ("out", "valid")}
settings = AdaptSettings(**given | paths | {"rows": tuple(map(Path, given["rows"]))})
def say(row):
    if row.get("step") == int(sys.argv[3]) and "loss" in row:
        os.kill(os.getpid(), signal.SIGKILL)
adapt(settings, say)
"""


@pytest.mark.parametrize(("killed", "resumed_at"), [(8, 6), (2, None)])
def test_a_killed_run_goes_on_bit_for_bit(
    llama: Path,
    rows: Path,
    finished: tuple[Path, list[Row]],
    tmp_path: Path,
    killed: int,
    resumed_at: int | None,
) -> None:
    """Killed by the system while it reports a step; what is there is the checkpoint before it."""
    settings = toy(llama, rows, tmp_path / "run")
    words = json.dumps(asdict(settings), default=str)
    child = subprocess.run(
        [sys.executable, "-c", KILLED, words, str(torch.get_num_threads()), str(killed)],
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    assert not (tmp_path / "run" / "model").exists()
    assert [row["resumed"] for row in run(settings) if "resumed" in row] == (
        [resumed_at] if resumed_at else []
    )
    whole, resumed = (last_state(out) for out in (finished[0], tmp_path / "run"))
    assert whole["step"] == resumed["step"]
    for part in ("network", "average", "best"):
        assert all(torch.equal(v, resumed[part][k]) for k, v in whole[part].items())
    check_left_the_same(finished[0], tmp_path / "run")


def check_left_the_same(one: Path, other: Path) -> None:
    """Check that two runs left the same weights and, but for the seconds, the same log."""
    weights = [(out / "model" / "model.safetensors").read_bytes() for out in (one, other)]
    assert weights[0] == weights[1]
    assert timeless(one) == timeless(other)


def timeless(out: Path) -> list[Row]:
    return [{k: v for k, v in row.items() if not k.endswith("_s")} for row in read_log(out)]


def test_a_run_that_was_stopped_logs_what_a_whole_one_does(
    llama: Path,
    rows: Path,
    finished: tuple[Path, list[Row]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped before the first step, and at step 5, whose loss is told with that of step 6."""
    why_over = Adaptation._why_over
    for step in (0, 5):
        monkeypatch.setattr(
            Adaptation, "_why_over", lambda run, clock, at=step: "enough" * (run.step == at)
        )
        assert run(toy(llama, rows, tmp_path))[-2]["stopped"] == "enough"
        assert read_log(tmp_path)[-1]["step"] == max(step - 1, 0), "none is validated on the way"
    monkeypatch.setattr(Adaptation, "_why_over", why_over)
    run(toy(llama, rows, tmp_path))
    assert timeless(tmp_path) == timeless(finished[0])


def test_speed_is_of_the_steps_of_this_call(
    llama: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step of 384 tokens since it was resumed at 5, by a clock of which a lap is a second."""
    monkeypatch.setattr(Adaptation, "_why_over", lambda run, clock: "enough" * (run.step == 5))
    run(toy(llama, rows, tmp_path))
    monkeypatch.setattr(Adaptation, "_why_over", lambda run, clock: "enough" * (run.step == 6))
    monkeypatch.setattr(_Clock, "lap", lambda clock: float(clock.steps))
    run(toy(llama, rows, tmp_path))
    assert [row["tokens_per_s"] for row in read_log(tmp_path) if row["step"] == 6] == [384.0]


def test_what_is_learned_when_the_minutes_are_over_is_validated_and_written(
    llama: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No held-out loss is due in 5 steps; without one the untrained model would be handed out."""
    monkeypatch.setattr(Adaptation, "_is_time_up", lambda run, clock: run.step == 5)
    settings = toy(llama, rows, tmp_path, eval_every=1000, minutes=1000.0)
    said = run(settings)
    assert said[-2]["stopped"] == "the 1000 minutes are over"
    assert said[-1]["of_step"] == 5
    held_out = [row for row in read_log(tmp_path) if "valid_loss" in row]
    assert [row["step"] for row in held_out] == [0, 5]
    assert held_out[1]["valid_loss"] < held_out[0]["valid_loss"]
    log = read_log(tmp_path)
    assert run(settings)[-1] == said[-1]
    assert read_log(tmp_path) == log, "a run that is over takes no further loss"


def test_a_finished_run_has_nothing_left_to_do(
    llama: Path, rows: Path, finished: tuple[Path, list[Row]]
) -> None:
    out, said = finished
    before = (out / "model" / "model.safetensors").read_bytes()
    again = run(toy(llama, rows, out))
    assert again[-2:] == [{"resumed": said[-2]["max_steps"]}, said[-1]]
    assert (out / "model" / "model.safetensors").read_bytes() == before


def test_what_the_ancestor_learned_comes_first_and_goes_on_bit_for_bit(
    llama: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle of the causal steps, and once more behind them."""
    how: Row = {"causal_epochs": 3, "epochs": 4, "block_share": 0.5, "eval_every": 2}
    unsaid = Adaptation(toy(llama, rows, tmp_path / "unsaid", causal_epochs=None), lambda row: None)
    assert unsaid.causal_epochs == 1
    whole = Adaptation(toy(llama, rows, tmp_path / "whole", **how), lambda row: None)
    num = whole.causal_steps
    assert 4 < num < whole.steps - 4
    whole.run()
    assert whole.step == whole.steps
    log = read_log(tmp_path / "whole")
    assert all(row["step"] > num for row in log if "loss" in row)
    assert all(row["step"] <= num for row in log if "causal_loss" in row)
    causal = [row["causal_loss"] for row in log if "causal_loss" in row]
    assert causal[-1] < 0.6 * causal[0]
    held_out = {row["step"]: row["valid_loss"] for row in log if "valid_loss" in row}
    assert sorted(held_out)[:3] == [0, num, num + 2 - num % 2]
    assert held_out[whole.steps] < 0.7 * held_out[num]
    why_over = Adaptation._why_over
    for step in (3, num + 2):
        monkeypatch.setattr(
            Adaptation, "_why_over", lambda run, clock, at=step: "enough" * (run.step == at)
        )
        run(toy(llama, rows, tmp_path / "parts", **how))
    monkeypatch.setattr(Adaptation, "_why_over", why_over)
    run(toy(llama, rows, tmp_path / "parts", **how))
    check_left_the_same(tmp_path / "whole", tmp_path / "parts")


def test_what_the_ancestor_learned_takes_a_third_of_the_minutes_at_most(
    llama: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third is over at step 5 of more; a run that is stopped at step 7 goes on as if not."""
    shares: list[float] = []

    def is_time_up(run: Adaptation, clock: _Clock, share: float = 1.0) -> bool:
        shares.append(share)
        return share < 1 and run.step >= 5

    monkeypatch.setattr(Adaptation, "_is_time_up", is_time_up)
    how: Row = {"causal_epochs": 3, "epochs": 4, "block_share": 0.5, "minutes": 1000.0}
    whole = Adaptation(toy(llama, rows, tmp_path / "whole", **how), lambda row: None)
    assert whole.causal_steps > 7
    whole.run()
    assert min(shares) == pytest.approx(1 / 3)
    assert (whole.causal_steps, whole.step) == (5, 5 + whole.other_steps)
    log = read_log(tmp_path / "whole")
    assert max(row["step"] for row in log if "causal_loss" in row) == 5
    assert min(row["step"] for row in log if "loss" in row) == 6
    assert [row["step"] for row in log if "valid_loss" in row][:3] == [0, 5, 8]
    monkeypatch.setattr(Adaptation, "_why_over", lambda run, clock: "enough" * (run.step == 7))
    run(toy(llama, rows, tmp_path / "parts", **how))
    monkeypatch.setattr(Adaptation, "_why_over", lambda run, clock: "")
    run(toy(llama, rows, tmp_path / "parts", **how))
    check_left_the_same(tmp_path / "whole", tmp_path / "parts")


def test_another_run_may_not_go_on_there(
    llama: Path,
    rows: Path,
    finished: tuple[Path, list[Row]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = ancestors.write_rows(tmp_path / "rows.jsonl", 25)
    source = shutil.copytree(llama, tmp_path / "llama")
    weights = source / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    for settings, field in (
        (toy(llama, rows, finished[0], lr=0.02), "lr was 0.01, got 0.02"),
        (toy(llama, other, finished[0]), "rows was '"),
        (toy(llama, rows, finished[0], valid=other), "valid was '"),
        (toy(source, rows, finished[0]), "source was '"),
    ):
        with pytest.raises(SettingsError, match=f"Cannot resume .*: {field}"):
            run(settings)
    with monkeypatch.context() as older:
        older.setattr("remask.pretrain.adapt.ORDER_VERSION", 1)
        with pytest.raises(SettingsError, match="batches was"):
            run(toy(llama, rows, finished[0]))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "note.txt").write_text("mine")
    with pytest.raises(RecordError, match=r"holds note\.txt, which is not of this run"):
        run(toy(llama, rows, tmp_path / "own"))


def test_a_second_process_is_refused(llama: Path, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked(out), ThreadPoolExecutor(1) as other:
        refused = other.submit(run, toy(llama, rows, out))
        with pytest.raises(RecordError, match="in use by process"):
            refused.result()
    assert not out.exists()


@pytest.mark.parametrize("name", ["state.pt", "seal.json", "adapt.jsonl"])
def test_an_edited_run_is_refused(
    llama: Path, rows: Path, finished: tuple[Path, list[Row]], tmp_path: Path, name: str
) -> None:
    out = shutil.copytree(finished[0], tmp_path / "out")
    (path,) = out.rglob(f"checkpoint-*/{name}") if name != "adapt.jsonl" else [out / name]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"was changed|is damaged"):
        run(toy(llama, rows, out))


def test_a_run_stops_where_the_rows_held_out_get_worse(
    llama: Path, rows: Path, tmp_path: Path
) -> None:
    """A rate that destroys: the untrained model stays the best, and is what is written."""
    settings = toy(llama, rows, tmp_path, lr=1.0, warmup=0.0, ema=0.0, eval_every=1, patience=2)
    said = run(settings)
    assert said[-2]["stopped"] == "no new best in 2 held-out losses"
    assert said[-2]["step"] == 2
    assert said[-1]["of_step"] == 0
    ancestor = ancestors.reference("llama").state_dict()["model.layers.0.mlp.up_proj.weight"]
    with safe_open(tmp_path / "model" / "model.safetensors", "pt") as file:
        assert torch.equal(file.get_tensor("model.layers.0.mlp.up_proj.weight"), ancestor)
        embedding = file.get_tensor("model.embed_tokens.weight")
    before = ancestors.reference("llama").state_dict()["model.embed_tokens.weight"]
    assert torch.allclose(embedding[ancestors.REPO], before.mean(0), atol=1e-6)


def test_a_gguf_file_is_adapted_without_shift_into_pieces(rows: Path, tmp_path: Path) -> None:
    """Nothing held out; float16; files of 20 kB, and the same model adapted further."""
    source = ancestors.write_gguf(tmp_path / "model.gguf", "qwen2", quantised=True)
    how: Row = {"valid": None, "shifted": False, "epochs": 1, "dtype": "float16", "block": 4}
    settings = toy(source, rows, tmp_path / "one", shard_megabytes=0.02, **how)
    said = run(settings)
    folder = tmp_path / "one" / "model"
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) > 1
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {file.name for file in files}
    assert said[-1]["largest_mb"] == round(max(f.stat().st_size for f in files) / 1e6, 3)
    denoiser = load(folder)
    check_denoiser(denoiser)
    assert not denoiser.model.shifted
    assert denoiser.preset.block == 4
    with pytest.raises(SettingsError, match=r"adapted with False; leave --shifted out\."):
        run(replace(settings, source=str(folder), out=tmp_path / "two", shifted=True))
    again = Adaptation(
        toy(folder, rows, tmp_path / "two", **how | {"shifted": None}), lambda row: None
    )
    assert again.tokenizer.mask_id == ancestors.REPO
    assert not again.network.shifted
    default = replace(again.settings, causal_epochs=None, out=tmp_path / "three")
    assert Adaptation(default, lambda row: None).causal_epochs == 0, "it has left that way behind"


def test_time_decides_where_it_is_given(llama: Path, rows: Path, tmp_path: Path) -> None:
    said = run(toy(llama, rows, tmp_path / "one", minutes=1e-9))
    assert (said[-2]["step"], said[-2]["stopped"]) == (0, "the 1e-09 minutes are over")
    settings = toy(llama, rows, tmp_path / "two", stop_after=1e-9)
    said = run(settings)
    assert said[-2]["stopped"].startswith("stopped after 1e-09 minutes; the same command goes on")
    adaptation = Adaptation(replace(settings, minutes=None, stop_after=5.0), lambda row: None)
    assert adaptation.step == 0  # `stop_after` decides nothing of the outcome


def test_a_step_never_waits_for_the_device(llama: Path, rows: Path, tmp_path: Path) -> None:
    """On a device without numbers whoever asks for one fails: a count, a norm, a NaN."""
    adaptation = Adaptation(toy(llama, rows, tmp_path), lambda row: None)
    adaptation.device = torch.device("meta")
    adaptation.network.to("meta")
    adaptation.average.to("meta")
    adaptation.optimizer = adaptation._optimizer()
    batch = next(adaptation.plan.batches(6))
    loss, norm = adaptation._update(batch, 0.5)
    assert loss.is_meta
    assert norm.is_meta
    with pytest.raises(RuntimeError, match="meta"):
        float(loss)


def test_the_rate_rises_and_falls(llama: Path, rows: Path, tmp_path: Path) -> None:
    """Warm-up over a tenth: half the rate at a twentieth. Cosine: .51 halfway, .02 at the end."""
    adaptation = Adaptation(toy(llama, rows, tmp_path, warmup=0.1), lambda row: None)
    assert adaptation.rate(0.05) == pytest.approx(0.5, abs=0.01)
    assert adaptation.rate(0.5) == pytest.approx(0.51)
    assert adaptation.rate(1.0) == pytest.approx(0.02)
    assert adaptation.progress(_Clock(0.0)) == pytest.approx(1 / adaptation.steps)


def test_matrices_decay_and_the_rest_does_not(llama: Path, rows: Path, tmp_path: Path) -> None:
    adaptation = Adaptation(toy(llama, rows, tmp_path), lambda row: None)
    names = {id(p): name for name, p in adaptation.network.named_parameters()}
    decayed, rest = ([names[id(p)] for p in group["params"]] for group in
                     adaptation.optimizer.param_groups)  # fmt: skip
    assert len(decayed) == 8
    assert all(name.startswith("blocks.") and "norm" not in name for name in decayed)
    assert {"embedding.weight", "norm.weight", "blocks.1.mlp_norm.weight"} <= set(rest)


def test_a_loss_that_is_not_finite_stops_the_run(llama: Path, rows: Path, tmp_path: Path) -> None:
    adaptation = Adaptation(toy(llama, rows, tmp_path, valid=None), lambda row: None)
    with torch.no_grad():
        adaptation.network.norm.weight.fill_(torch.nan)
    with pytest.raises(DenoiserError, match=r"not finite at update 1 \(.*kernels: .*math"):
        adaptation.run()


def test_rows_that_fill_no_batch_are_refused(llama: Path, rows: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="24 rows in 1 passes fill no batch of 38,400 tokens"):
        run(toy(llama, rows, tmp_path / "out", tokens=38_400, epochs=1))
    assert not (tmp_path / "out").exists()


def test_a_model_that_holds_less_than_a_row_is_refused(
    llama: Path, rows: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(llama, tmp_path / "llama")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4}))
    with pytest.raises(InputError, match=r"holds 4 tokens .* shortest row of tokens 384 has 8"):
        run(toy(source, rows, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": ()}, "rows names no file"),
        ({"tokens": 1009}, "tokens 1009 has no divisor that is a multiple of 8"),
        ({"least_canvas": 17}, "least_canvas 17 is more than canvas 16"),
        ({"template": "hello"}, "template 'hello' must hold {prompt} once"),
        ({"minutes": 0.0}, "minutes must be above 0, got 0.0"),
        ({"block_share": 1.5}, r"block_share must be at most 1, got 1"),
        ({"dtype": "int8"}, "dtype must be bfloat16, float16 or float32.*, got 'int8'"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: Row, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(toy(Path("llama"), Path("rows"), Path("out")), **changes)
