"""What a run goes on from: how far it is, what it has learned, what its guards have seen.

A checkpoint may be damaged, or belong to another model. Whatever does not fit is refused in one
sentence, before any weight is changed.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from remask.align import checkpoint
from remask.align.checkpoint import State
from remask.align.collapse_guard import CollapseGuard
from remask.align.settings import AlignSettings, differing, record
from remask.align.shards import part_of, whole_tensors
from remask.errors import SettingsError


@dataclass
class RunState:
    """How far a run is; it is saved with every checkpoint."""

    update: int = 0  # optimizer updates made, or left out
    rollout: int = 0
    cursor: int = 0  # the next training problem
    best: float = -math.inf  # validation accuracy
    best_update: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """What of a run changes while it learns."""

    settings: AlignSettings
    parameters: Mapping[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    guard: CollapseGuard

    def state(self, place: RunState, *, here: bool) -> State:
        """Return all that a checkpoint holds, whole; all must ask, and it is for those `here`."""
        s, optimizer = self.settings, self.optimizer.state_dict()
        moments = {
            number: whole_tensors(each, here=here) for number, each in optimizer["state"].items()
        }
        return {
            "settings": record(s),
            "place": asdict(place),
            "alpha": s.alpha_min + (s.alpha_max - s.alpha_min) * place.update / s.updates,
            "monitor": self.guard.state(),
            "weights": whole_tensors(
                {name: p.detach() for name, p in self.parameters.items()}, here=here
            ),
            "optimizer": {**optimizer, "state": moments},
        }

    def restore(self, folder: Path, device: torch.device, *, in_parts: bool = False) -> RunState:
        """Take over what a checkpoint holds, and return how far it is.

        It is the same whether one process wrote it or several, and whoever reads it.
        """
        saved = checkpoint.load_state(folder, device, in_parts=in_parts)
        self._check_settings(saved["settings"], folder)
        try:
            place = _place(saved["place"])
            self._check_fit(saved)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise checkpoint.damaged(folder, error) from None
        self._take(saved)
        return place

    def _check_settings(self, theirs: Mapping[str, Any], folder: Path) -> None:
        ours = record(self.settings)
        field = differing(ours, theirs)
        if field is not None:
            raise SettingsError(
                f"{field} is {ours[field]!r} and was {theirs.get(field)!r} in "
                f"{folder}; resume with the settings of the run, or choose another folder."
            )

    def _check_fit(self, saved: State) -> None:
        """Raise ValueError where weights, moments or guards are not those of this run."""
        weights, monitor = saved["weights"], saved["monitor"]
        wanted = {name: tuple(p.shape) for name, p in self.parameters.items()}
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if shapes != wanted:
            name = min(n for n in wanted | shapes if wanted.get(n) != shapes.get(n))
            raise ValueError(
                f"it is of another model: {name} is {_sizes(shapes.get(name))} there and "
                f"{_sizes(wanted.get(name))} here"
            )
        unknown = monitor.keys() - self.guard.state().keys()
        if unknown:
            raise ValueError(f"its guard has {min(unknown)}, which is unknown")
        for number, shape in enumerate(wanted.values()):
            for name, moment in saved["optimizer"]["state"].get(number, {}).items():
                if moment.dim() and tuple(moment.shape) != shape:
                    raise ValueError(f"{name} of weight {number} is {_sizes(moment.shape)}")
        groups = saved["optimizer"]["param_groups"]
        if [len(g["params"]) for g in groups] != [len(wanted)]:
            raise ValueError("its optimizer has other weights")

    @torch.no_grad()
    def _take(self, saved: State) -> None:
        for name, parameter in self.parameters.items():
            parameter.copy_(part_of(saved["weights"][name], parameter))
        state = {
            number: {
                name: part_of(moment, parameter) if moment.dim() else moment
                for name, moment in saved["optimizer"]["state"].get(number, {}).items()
            }
            for number, parameter in enumerate(self.parameters.values())
        }
        known = {number: moments for number, moments in state.items() if moments}
        self.optimizer.load_state_dict({**saved["optimizer"], "state": known})
        self.guard.restore(saved["monitor"])


def _place(saved: Any) -> RunState:
    """Return how far a run was, or raise ValueError where that is no place in a run."""
    place = RunState(**saved)
    counts = (place.update, place.rollout, place.cursor, place.best_update)
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"its place is {saved}")
    if type(place.best) is not float or math.isnan(place.best):
        raise ValueError(f"its best validation is {place.best!r}")
    return place


def _sizes(shape: "tuple[int, ...] | torch.Size | None") -> str:
    return "absent" if shape is None else " x ".join(map(str, shape)) or "a number"
