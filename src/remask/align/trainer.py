"""The training loop.

    until all updates are done:
        generate, grade and score completions of the next prompts     `rollout`
        inner_updates times: gradient, clipping, AdamW                `update`
        periodically: validation, best model, checkpoint              `checkpoint`

Draws are keyed by identity and schedules are functions of the update, so a resumed run equals an
uninterrupted one, bit for bit on a CPU in float32. Checkpoints are written between rollouts.
"""

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from remask.align import checkpoint
from remask.align.build import build_reward, check_rewards
from remask.align.collapse_guard import CollapseGuard
from remask.align.distributed import Distributed
from remask.align.policy import Actor, Policy, copy_of, load_policy, reference_of, trained
from remask.align.rollout import Prompts, Rollout, RolloutMaker, draw_groups, task_of
from remask.align.run_state import Learner, RunState
from remask.align.settings import AlignSettings, as_yaml, decisive, record
from remask.align.sharding import release, shard, whole
from remask.align.train_log import Row, Say, TrainLog, measured, peak_memory_gb, summary
from remask.align.update import Batch, Updater, make_optimizer, shown
from remask.denoisers.base import Denoiser
from remask.denoisers.load import find_folder
from remask.errors import CheckpointError, SettingsError
from remask.records.jsonl import write_text
from remask.records.run_folder import STATE, Facts, source_digest


class AlignTrainer:
    """One training run; nothing is written before `run`."""

    def __init__(
        self,
        settings: AlignSettings,
        say: Say,
        distributed: Distributed | None = None,
        *,
        resume: bool = False,
        resume_from: str = "",
    ) -> None:
        self.distributed = distributed or Distributed(settings)
        self.share = self.distributed.share(settings.prompts_per_update, "prompts_per_update")
        self.folder = checkpoint.folder_of(settings.out)
        self.train_log = TrainLog(
            self.folder,
            say,
            self.distributed.track,
            is_main_process=self.distributed.is_main_process,
        )
        self.begun_at: Path | None = None  # the checkpoint to continue from
        saved = self._open(settings, resume=resume, resume_from=resume_from)
        if saved is not None:
            self.folder.compare(saved["run"], decisive(settings))
        s = self.settings = settings
        if s.method != "sft":
            check_rewards(s, task_of(s))  # before the model is loaded
        prompts = self.prompts = Prompts(s)
        self.policy, self.actor, reference = self._load()
        inputs: dict[str, str] = {}
        self.distributed.on_main(lambda: inputs.update(self._inputs(saved)))
        self.sampler = s.sampler(self.policy, prompts.task.canvas_length(prompts.level))
        masks = s.masks(self.sampler.block, self.sampler.length)
        if s.method != "sft":
            masks.check_length(self.sampler.length)
        acting = self.actor.denoiser
        self.rollout_maker = RolloutMaker(
            settings=s,
            prompts=prompts,
            denoiser=acting,
            sampler=self.sampler,
            reward=(
                None if s.method == "sft" else build_reward(s, prompts.task, acting, reference)
            ),
        )
        most = self.distributed.largest if self.distributed.is_sharded else None
        self.updater = Updater(self.policy, s, masks, reference, most)
        self.parameters = trained(self.policy)
        self.optimizer = make_optimizer(list(self.parameters.values()), s)
        self.guard = CollapseGuard(s)
        self.learner = Learner(
            settings=s,
            parameters=self.parameters,
            optimizer=self.optimizer,
            guard=self.guard,
            inputs=inputs,
        )
        self.state = RunState() if saved is None else RunState(**saved["place"])
        self.started, self.start = time.perf_counter(), self.state.update

    def _load(self) -> tuple[Policy, Actor, Denoiser | None]:
        """Return the model that learns, the one that generates, and the reference model."""
        s, device, is_sharded = self.settings, self.distributed.device, self.distributed.is_sharded
        policy = load_policy(s, device, place="cpu" if is_sharded else "")
        acts_by_copy = is_sharded or (s.tuning == "full" and policy.in_bfloat16)
        copied = copy_of(policy, device) if acts_by_copy else None
        reference = reference_of(policy, s, device)
        if is_sharded:
            shard(policy.model, device, self.distributed.size)
        return policy, Actor(policy, copied), reference

    def _open(self, s: AlignSettings, *, resume: bool, resume_from: str) -> Facts | None:
        """Return the facts of the checkpoint to continue from, or None for a new run."""
        if resume and not self.folder.has_run:
            raise SettingsError(f"--resume requires a run in {s.out}, found none.")
        self.begun_at = self.folder.last()
        if resume_from:
            self.begun_at = checkpoint.find_checkpoint(self.folder, resume_from)
        start = self.begun_at
        if start is None:
            return None
        self.distributed.on_main(lambda: self.folder.read(start))
        return self.folder.read(start, verify=False)

    def _inputs(self, saved: Facts | None) -> dict[str, str]:
        """Return digests of weights and training rows, or raise if the run began with others."""
        found = {"weights": source_digest(find_folder(self.settings.model)), **self.prompts.digests}
        if saved is not None:
            self.folder.compare(saved["run"], found)
        return found

    def _begin(self) -> None:
        """Prepare the folder and load the checkpoint to continue from."""
        s, is_main = self.settings, self.distributed.is_main_process
        self.distributed.wait()  # all ranks have looked into the folder
        if is_main:
            self.folder.begin(record(s), self.begun_at)
            write_text(s.out / checkpoint.SETTINGS, as_yaml(s))
            if self.state.update < s.updates:
                self.folder.remove(s.out / checkpoint.FINAL)
        self.distributed.start_trackers(self.state.update)
        if self.begun_at is not None:
            self.train_log.tell({"resumed": self.state.update})
            self._match_best()
            self._restore(self.begun_at)
            self.guard.restore(self.folder.read(self.begun_at, verify=False)["guard"])

    def _restore(self, folder: Path) -> None:
        in_parts = self.distributed.is_sharded
        device = torch.device("cpu") if in_parts else self.distributed.device
        self.learner.restore(folder, device, in_parts=in_parts)

    def run(self, is_over: Callable[[], bool] = lambda: False) -> Path:
        """Train to the last update and return the folder of the best model.

        If `is_over` returns true on any rank, the run ends after the current rollout, with a
        checkpoint and without the final model.
        """
        self._begin()
        s = self.settings
        if self.state.update == 0:
            self._validate()
        while self.state.update < s.updates:
            before = self.state.update
            self.round()
            done = self.state.update == s.updates
            if s.eval_every and (done or _passed(before, self.state.update, s.eval_every)):
                self._validate()
            is_best = self.state.best_update == self.state.update  # --resume-from best
            stops = not done and self.distributed.sums({"over": float(is_over())})["over"] > 0
            passed = _passed(before, self.state.update, s.checkpoint_every)
            if done or is_best or stops or passed:
                self._checkpoint()
            if stops:
                return s.out / checkpoint.BEST
        return self._finish()

    def round(self) -> None:
        """Make one rollout and the updates on it."""
        self._learn(self._roll())

    def _finish(self) -> Path:
        out = self.settings.out
        self._save_model(checkpoint.FINAL)
        lacks_best = self.distributed.is_main_process and not (out / checkpoint.BEST).exists()
        if self.distributed.sums({"lacks": lacks_best})["lacks"]:  # nothing was validated
            self._save_model(checkpoint.BEST)
        self.distributed.wait()
        self.train_log.tell({"model": str(out / checkpoint.BEST)})
        return out / checkpoint.BEST

    def _save_model(self, name: str, update: int | None = None) -> None:
        checkpoint.save_model(
            self.policy,
            self.settings,
            name,
            update=self.state.update if update is None else update,
            writes=self.distributed.is_main_process,
        )

    @torch.no_grad()
    def _roll(self) -> Rollout:
        s, state = self.settings, self.state
        self.actor.refresh()
        numbers = [state.cursor + i for i in self.share]
        rollout = self.rollout_maker.make(numbers, rollout=state.rollout, update=state.update)
        if s.show_every and state.rollout % s.show_every == 0:
            self.train_log.show(rollout, state.update + 1)
        state.rollout += 1
        state.cursor += s.prompts_per_update
        return rollout

    def _learn(self, rollout: Rollout) -> None:
        """Make the updates of one rollout."""
        s, state = self.settings, self.state
        row = self._summary(rollout)
        lengths = {"tokens": float(sum(x.num_response for x in rollout.samples))}
        batch = Batch(
            samples=rollout.samples,
            advantages=rollout.advantages,
            num_tokens=round(self.distributed.sums(lengths)["tokens"]),
            num_rows=s.num_rows,
            update=state.update,
        )
        started = time.perf_counter()
        times = min(s.inner_updates, s.updates - state.update)
        old: list[Any] = [()]  # none for the first update: the policy is that of the rollout
        if s.method == "diffu_grpo":
            ahead = range(state.update + 1, state.update + times)
            old += [self.updater.old_log_probs(batch, update) for update in ahead]
        likelihoods = []
        for k in range(times):
            logs = self._update(replace(batch, update=state.update, old_logp=old[k % len(old)]))
            seconds = time.perf_counter() - started
            self._log(
                {
                    **(row if k == 0 else {}),
                    **logs,
                    "time/update": seconds,
                    "num_tokens": batch.num_tokens,
                }
            )
            started = time.perf_counter()
            likelihoods += [v for name, v in logs.items() if name.endswith("/elbo_pos")]
        if "reward" in row:
            self.guard.watch(
                reward=row["reward"],
                length=row["completions/mean_length"],
                likelihoods=likelihoods,
                update=state.update,
            )

    def _summary(self, rollout: Rollout) -> Row:
        rows = self.distributed.gather(measured(rollout, self.settings.num_generations))
        gathered = self.distributed.gather([rollout.metrics])
        names = dict.fromkeys(name for one in gathered for name in one)
        values = {name: [one[name] for one in gathered if name in one] for name in names}
        means = {name: sum(known) / len(known) for name, known in values.items()}
        seconds = self.distributed.gather([rollout.seconds])
        slowest = {f"time/{name}": max(one[name] for one in seconds) for name in seconds[0]}
        return {**summary(rows), **means, **slowest}

    def _update(self, batch: Batch) -> Row:
        """Make one optimizer update, or skip it if loss or gradient is not finite."""
        s, parameters = self.settings, list(self.parameters.values())
        rate = s.learning_rate * rate_at(batch.update, s)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = self.updater.backward(batch)
        logs = shown(self.distributed.sums(sums), s.method)
        self.distributed.add_gradients(parameters)
        norm = float(whole(nn.utils.clip_grad_norm_(parameters, s.max_grad_norm)))
        if self.guard.step_is_sound(logs["loss"], norm, batch.update + 1):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.distributed.is_sharded:
            release(self.policy.model)
        self.state.update += 1
        skipped = {f"{'spg' if s.method == 'spg' else 'guard'}/nan_skipped": self.guard.skipped}
        return {**logs, "grad_norm": norm, "learning_rate": rate, **skipped}

    def _log(self, row: Row) -> None:
        done = self.state.update - self.start
        left = (time.perf_counter() - self.started) / done * (self.settings.updates - self.start)
        eta = left - (time.perf_counter() - self.started)
        known = {name: _number(value) for name, value in row.items()}
        self.train_log.log(
            {
                "step": self.state.update,
                "max_steps": self.settings.updates,
                **known,
                "memory/peak_gb": peak_memory_gb(self.distributed.device),
                "eta_s": max(0.0, eta),
            }
        )

    @torch.no_grad()
    def _validate(self) -> None:
        """Log greedy accuracy on validation problems, and save the model if it is the best."""
        s, state = self.settings, self.state
        if not s.eval_every:
            return
        self.actor.refresh()
        num = self.prompts.num_validation()
        numbers = range(self.distributed.rank, num, self.distributed.size)
        problems = [self.prompts.validation(i) for i in numbers]
        greedy = replace(self.sampler, temperature=0.0)
        drawn = draw_groups(self.actor.denoiser, problems, 1, greedy, seed=0) if problems else []
        task = self.prompts.task
        right = [task.grade(p, sample.text) for p, sample in zip(problems, drawn, strict=True)]
        graded = self.distributed.gather(right)
        lengths = self.distributed.gather([sample.num_response for sample in drawn])
        accuracy = sum(graded) / len(graded)
        self.train_log.log(
            {
                "step": state.update,
                "max_steps": s.updates,
                "eval/accuracy": accuracy,
                "eval/mean_length": sum(lengths) / len(lengths),
                "eval/problems": len(graded),
            }
        )
        if accuracy > state.best:
            state.best, state.best_update = accuracy, state.update
            self._save_model(checkpoint.BEST)
        self.distributed.wait()
        self.guard.watch_accuracy(accuracy, len(graded), state.update)

    def _checkpoint(self) -> None:
        is_main, place = self.distributed.is_main_process, self.state
        state = self.learner.state(here=is_main)
        if is_main:
            self.folder.save(
                place.update,
                lambda part: torch.save(state, part / STATE),
                self.learner.facts(place),
                place.best_update,
            )
        self.distributed.wait()

    def _match_best(self) -> None:
        """Make `best` the model of the best validation so far.

        The folder may be damaged or belong to a later update. If the checkpoint of the best
        validation is gone, the best of the following validations replaces it.
        """
        state, wanted = self.state, None
        if state.best > -math.inf:
            wanted = state.best_update
        on_disk = checkpoint.update_of_model(self.folder, checkpoint.BEST)
        self.distributed.wait()  # all ranks have looked
        if wanted is not None and on_disk == wanted:
            return
        source = self.folder.checkpoint(wanted or 0)
        lost: list[str] = []
        if wanted and self.distributed.is_main_process:
            try:
                self.folder.read(source)
            except CheckpointError as error:
                lost = [str(error)]
        if wanted is None or self.distributed.gather(lost):
            if self.distributed.is_main_process:
                self.folder.remove(self.settings.out / checkpoint.BEST)
            if wanted is not None:
                self.train_log.tell({"lost_best": wanted})
            state.best, state.best_update = -math.inf, 0
            return
        if wanted:
            self._restore(source)
        self._save_model(checkpoint.BEST, wanted)
        self.distributed.wait()


def align(
    settings: AlignSettings,
    say: Say | Callable[[Row], None] = print,
    *,
    resume: bool = False,
    resume_from: str = "",
    is_over: Callable[[], bool] = lambda: False,
) -> Path:
    """Train a model, or continue the run in its folder, and return the folder of the best one.

    Args:
        settings: of the run.
        say: called with every row of the log.
        resume: raise if there is no run to continue.
        resume_from: checkpoint to return to, an update or "best"; later ones are removed.
        is_over: called between rollouts; true ends the run for now, with a checkpoint.
    """
    distributed = Distributed(settings)
    folder = checkpoint.folder_of(settings.out)
    with ExitStack() as stack:
        stack.callback(distributed.leave)
        held = folder.hold(checkpoint.inputs_of(settings))
        distributed.on_main(lambda: stack.enter_context(held))
        trainer = AlignTrainer(settings, say, distributed, resume=resume, resume_from=resume_from)
        return trainer.run(is_over)


def rate_at(update: int, s: AlignSettings) -> float:
    """Return the learning-rate multiplier at an update: linear warmup, then the schedule."""
    warmup = s.warmup
    if update < warmup:
        return (update + 1) / warmup
    done = (update - warmup) / (s.updates - warmup)
    if s.schedule == "linear":
        return 1 - done
    return 0.5 * (1 + math.cos(math.pi * done)) if s.schedule == "cosine" else 1.0


def _passed(before: int, after: int, every: int) -> bool:
    """Return whether a multiple of `every` was passed."""
    return before // every < after // every


def _number(value: Any) -> Any:
    """Return a value for JSON: None instead of NaN and infinity."""
    return value if not isinstance(value, float) or math.isfinite(value) else None
