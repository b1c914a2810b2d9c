"""The state of a training in a checkpoint: progress, weights, optimizer and collapse guard."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from remask.align.collapse_guard import CollapseGuard
from remask.align.settings import AlignSettings, decisive
from remask.align.sharding import part_of, whole_tensors
from remask.records.run_folder import STATE, Facts

State = dict[str, Any]


@dataclass
class RunState:
    """Progress of a run, saved with every checkpoint."""

    update: int = 0  # optimizer updates made, or skipped
    rollout: int = 0
    cursor: int = 0  # the next training problem
    best: float = -math.inf  # validation accuracy
    best_update: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """The parts of a run that training changes."""

    settings: AlignSettings
    parameters: Mapping[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    guard: CollapseGuard
    inputs: Mapping[str, str]  # digests of the initial weights and training rows

    def facts(self, place: RunState) -> Facts:
        """Return the facts of the run for the seal of a checkpoint."""
        run = {**decisive(self.settings), **self.inputs}
        return {"run": run, "place": asdict(place), "guard": self.guard.state()}

    def state(self, *, here: bool) -> State:
        """Return whole weights and moments on the rank `here`; all ranks must call."""
        weights = {name: p.detach() for name, p in self.parameters.items()}
        optimizer = self.optimizer.state_dict()
        moments = {
            number: whole_tensors(each, here=here) for number, each in optimizer["state"].items()
        }
        return {"weights": whole_tensors(weights, here=here), "moments": moments}

    @torch.no_grad()
    def restore(self, folder: Path, device: torch.device, *, in_parts: bool) -> None:
        """Load weights and optimizer moments, or this rank's part of them (`in_parts`).

        Learning rates stay those of the settings.
        """
        saved = torch.load(folder / STATE, map_location=device, weights_only=True, mmap=in_parts)
        state = {}
        for number, (name, parameter) in enumerate(self.parameters.items()):
            parameter.copy_(part_of(saved["weights"][name], parameter))
            moments = saved["moments"].get(number)  # None: no gradient so far
            if moments is not None:
                state[number] = {
                    name: part_of(moment, parameter) if moment.dim() else moment
                    for name, moment in moments.items()
                }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
