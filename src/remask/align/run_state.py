"""What a run goes on from: how far it is, what it has learned, what its guards have seen.

A checkpoint may be damaged, or belong to another model. Whatever does not fit is refused in one
sentence, before any weight is changed.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from remask.align import checkpoint
from remask.align.checkpoint import State
from remask.align.collapse_guard import CollapseGuard, check_state
from remask.align.settings import AlignSettings, differing, record
from remask.align.shards import held, part_of, whole_tensors
from remask.errors import SettingsError

_GROUP = ("params", "lr", "betas", "eps", "weight_decay")  # of AdamW's parameters
_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}


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
            "settings": {**record(s), "warmup": s.num_warmup},
            "place": asdict(place),
            "alpha": s.alpha_min + (s.alpha_max - s.alpha_min) * place.update / s.updates,
            "monitor": self.guard.state(),
            "weights": whole_tensors(
                {name: p.detach() for name, p in self.parameters.items()}, here=here
            ),
            "optimizer": {**optimizer, "state": moments},
        }

    def read(
        self, folder: Path, device: torch.device, *, in_parts: bool = False
    ) -> tuple[State, RunState]:
        """Return what a checkpoint holds, to be taken over, and how far it is.

        It is the same whether one process wrote it or several, and whoever reads it.
        """
        saved = checkpoint.load_state(folder, device, in_parts=in_parts)
        try:
            place = _place(saved["place"], saved["settings"])
            self._check_weights(saved["weights"])
            self._check_optimizer(saved["optimizer"])
            check_state(saved["monitor"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise checkpoint.damaged(folder, error) from None
        return saved, place

    def _check_weights(self, weights: Mapping[str, Any]) -> None:
        """Raise ValueError where weights are not those of this run."""
        wanted = {name: tuple(p.shape) for name, p in self.parameters.items()}
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if shapes != wanted:
            name = min(n for n in wanted | shapes if wanted.get(n) != shapes.get(n))
            raise ValueError(
                f"it is of another model: {name} is {_sizes(shapes.get(name))} there and "
                f"{_sizes(wanted.get(name))} here"
            )
        for name, parameter in self.parameters.items():
            _check_numbers(weights[name], parameter, name)

    def _check_optimizer(self, optimizer: Mapping[str, Any]) -> None:
        """Raise ValueError where moments are not those of the weights of this run."""
        (group,) = optimizer["param_groups"]
        for name in _GROUP:
            _ = group[name]  # KeyError says what is not there
        if len(group["params"]) != len(self.parameters):
            raise ValueError("its optimizer has other weights")
        state = optimizer["state"]
        unknown = state.keys() - set(range(len(self.parameters)))
        if unknown:
            raise ValueError(f"its optimizer has moments of {min(map(str, unknown))}")
        for number, parameter in enumerate(self.parameters.values()):
            moments = state.get(number)
            if moments is None:  # of a weight that has not had a gradient yet
                continue
            if moments.keys() != _MOMENTS:
                odd = min(map(str, moments.keys() ^ _MOMENTS))
                raise ValueError(f"{odd} of weight {number} is absent, or too many")
            for name, moment in moments.items():
                if name == "step" and not moment.dim() and moment >= 0 and moment.isfinite():
                    continue
                if moment.shape != parameter.shape:
                    raise ValueError(f"{name} of weight {number} is {_sizes(moment.shape)}")
                _check_numbers(moment, parameter, f"{name} of weight {number}")

    @torch.no_grad()
    def take(self, saved: State) -> None:
        """Take over what was read."""
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
        # Rates and the like are those of the settings, and of the device at hand.
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": known, "param_groups": groups})
        self.guard.restore(saved["monitor"])


def continued(settings: AlignSettings, folder: Path) -> AlignSettings:
    """Return the settings with which a run goes on from a checkpoint, or raise where they differ.

    A warm-up that nobody has asked for is that of the run, however long it is to become.
    """
    theirs = checkpoint.load_state(folder, torch.device("cpu"), in_parts=True)["settings"]
    warmup = theirs.get("warmup")
    if settings.warmup is None and type(warmup) is int and 0 <= warmup < settings.updates:
        settings = replace(settings, warmup=warmup)
    ours = record(settings)
    field = differing(ours, theirs)
    if field is not None:
        raise SettingsError(
            f"{field} is {ours[field]!r} and was {theirs.get(field)!r} in "
            f"{folder}; resume with the settings of the run, or choose another folder."
        )
    return settings


def _check_numbers(tensor: Tensor, parameter: nn.Parameter, name: str) -> None:
    """Raise ValueError where numbers are of another kind than a weight's, or are none."""
    if tensor.dtype != parameter.dtype:
        raise ValueError(f"{name} is {_kind(tensor)} there and {_kind(parameter)} here")
    if not bool(held(part_of(tensor, parameter)).isfinite().all()):  # others look at theirs
        raise ValueError(f"{name} has values that are no finite numbers")


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _place(saved: Any, settings: Mapping[str, Any]) -> RunState:
    """Return how far a run was, or raise ValueError where that is no place in a run."""
    place = RunState(**saved)
    counts = (place.update, place.rollout, place.cursor, place.best_update)
    if not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"its place is {saved}")
    if not place.best_update <= place.update <= settings["updates"]:
        raise ValueError(
            f"its place is update {place.update} of {settings['updates']}, the best being that of "
            f"{place.best_update}"
        )
    if type(place.best) is not float or math.isnan(place.best):
        raise ValueError(f"its best validation is {place.best!r}")
    return place


def _sizes(shape: "tuple[int, ...] | torch.Size | None") -> str:
    return "absent" if shape is None else " x ".join(map(str, shape)) or "a number"
