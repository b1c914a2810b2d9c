"""From an autoregressive model to the one that is studied: two short trials, then all of it.

Shifted or not is for the held-out loss to say, after as many steps of each: a trial is one pass
over some of the rows, not a number of minutes, since what is compiled first would lose. What was
settled stands in OUT/train.json; whoever is stopped goes on with the same command.
"""

import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from remask.errors import InputError, SettingsError
from remask.pretrain.adapt import LOG, Adaptation, hold
from remask.pretrain.adapt_settings import AdaptSettings
from remask.records.jsonl import write_text
from remask.records.text_file import read_object

STATE = "train.json"
KINDS = {"shifted": True, "unshifted": False}
# Seconds that reading the rows and writing the weights take, before and after the steps.
RESERVE = 45.0
_RARELY = 10**6
_EACH = 500  # updates between two points of the curve
# What a chat adds to a prompt teaches nothing: 29 of the 107 tokens of a row, with SmolLM2.
TEMPLATE = "{prompt}\n"
Say = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class TrainPlan:
    """What is trained, on what, and for how long."""

    source: str
    rows: Path  # folder with train.jsonl and valid.jsonl
    out: Path
    trial_rows: int = 10_000  # the first ones: half a minute of one GPU
    minutes: float = 11.0
    epochs: int = 20  # most passes; the minutes decide where they are fewer
    canvas: int = 160
    tokens: int = 30_720
    lr: float = 8e-4
    causal_epochs: int = 4  # before the others
    block_share: float = 0.5
    eval_every: int = 250  # each takes seconds; the last is taken anyway
    patience: int = 16
    device: str = "auto"
    seed: int = 0

    def settings(self, out: Path, *, shifted: bool, trial: bool, left: float) -> AdaptSettings:
        """Return the settings of a trial, or of the training; `left` are seconds of this call."""
        return AdaptSettings(
            source=self.source, rows=(self._rows(trial),), valid=self.rows / "valid.jsonl", out=out,
            shifted=shifted, canvas=self.canvas, least_canvas=min(32, self.canvas),
            tokens=self.tokens, lr=self.lr, seed=self.seed, device=self.device,
            epochs=1 if trial else self.epochs,
            causal_epochs=min(1, self.causal_epochs) if trial else self.causal_epochs,
            block_share=self.block_share, template=TEMPLATE,
            minutes=None if trial else self.minutes, stop_after=max(left, 0.1) / 60,
            eval_every=self.eval_every, patience=_RARELY if trial else self.patience,
            checkpoint_every=_RARELY if trial else 2_000,
        )  # fmt: skip

    def _rows(self, trial: bool) -> Path:
        """Return the file to train on; a trial's is written here."""
        path = self.rows / "train.jsonl"
        if not trial:
            return path
        with path.open(encoding="utf-8") as lines:
            write_text(self.out / "trial.jsonl", "".join(islice(lines, self.trial_rows)))
        return self.out / "trial.jsonl"


def train(plan: TrainPlan, say: Say, *, deadline: float) -> Path | None:
    """Return the folder of the finished model; None where the time of this call is over first.

    `deadline` is of the monotonic clock.
    """
    for name in ("train.jsonl", "valid.jsonl"):
        if not (plan.rows / name).is_file():
            raise InputError(
                f"{plan.rows} has no {name}; make it with `studies.language.text build`."
            )
    state = read_state(plan.out)
    for kind, shifted in KINDS.items():
        if kind not in state["trials"]:
            told = _run(plan, plan.out / f"{kind}-trial", shifted, True, say, deadline)
            if told is None:
                return None
            state["trials"][kind] = told
            _write(plan.out, state)
    kind = min(state["trials"], key=lambda name: state["trials"][name]["valid_loss"])
    say({"chosen": kind, "trials": state["trials"]})
    if "final" not in state:
        told = _run(plan, plan.out / "final", KINDS[kind], False, say, deadline)
        if told is None:
            return None
        state |= {"chosen": kind, "final": told}
        _write(plan.out, state)
    return plan.out / "final" / "model"


def is_trained(out: Path) -> bool:
    """Say whether the model of a study is finished."""
    return "final" in read_state(out)


def held_out_losses(out: Path) -> list[tuple[int, float]]:
    """Return held-out losses of the training by their updates: some, the first of masks, the last.

    The first of all is before any update, the next where masks begin.
    """
    path = out / "final" / LOG
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    losses = {row["step"]: row["valid_loss"] for row in rows if "valid_loss" in row}
    kept = {*sorted(losses)[:2], max(losses, default=0)}
    return [(step, loss) for step, loss in losses.items() if step % _EACH == 0 or step in kept]


def check_seconds(seconds: float | None) -> None:
    """Raise where a call has no time for a step of training: repeated, it would never end."""
    if seconds is not None and seconds <= RESERVE:
        raise InputError(
            f"stop_after {seconds:g} leaves no second to train: reading the rows and writing the "
            f"weights take {RESERVE:g}; give more, for instance {4 * RESERVE:g}."
        )


def read_state(out: Path) -> dict[str, Any]:
    """Return what is settled of a training."""
    path = out / STATE
    return read_object(path, f"remove {path}") if path.exists() else {"trials": {}}


def _write(out: Path, state: dict[str, Any]) -> None:
    write_text(out / STATE, json.dumps(state, indent=1) + "\n")


def _run(
    plan: TrainPlan, out: Path, shifted: bool, trial: bool, say: Say, deadline: float
) -> dict[str, Any] | None:
    """Train one model as far as it comes; return what it reached, None where it is not over."""
    left = deadline - time.monotonic() - RESERVE
    if left <= 0:
        return None
    settings = plan.settings(out, shifted=shifted, trial=trial, left=left)
    try:
        with hold(settings):
            run = Adaptation(settings, say)
            run.run()
    except torch.OutOfMemoryError:
        raise SettingsError(
            f"tokens {plan.tokens:,} do not fit on the device; lower them, for instance to "
            f"{plan.tokens // 2:,}."
        ) from None
    reached = {
        "shifted": shifted, "valid_loss": run.best_loss, "best_step": run.best_step,
        "steps": run.step, "rows": len(run.plan.rows), "seconds": round(run.spent, 1),
    }  # fmt: skip
    is_over = _is_over(run)
    del run  # its weights and moments make room for the next
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return reached if is_over else None


def _is_over(run: Adaptation) -> bool:
    """Say whether a training ended by itself, not because its call did."""
    minutes, patience = run.settings.minutes, run.settings.patience
    spent = minutes is not None and run.spent >= 60 * minutes
    return run.step >= run.steps or run.num_worse >= patience or spent
