"""What a device computes in a minute: about as much is worked between two writes.

It is reckoned from the model and the kind of device, and not measured with a clock: so a run that
was killed is cut the same way when it goes on.
"""

from typing import Any, cast

from torch import nn

from remask.denoisers.base import Denoiser
from remask.denoisers.experts import Experts
from remask.denoisers.native import NativeDenoiser

SECONDS = 60
# Operations per second, each below what such a device does when nothing else runs on it: two cores
# reach 8e10 on the embedded model. A CPU gains nothing from larger portions; a GPU does.
RATES = {"cpu": 2.5e10, "cuda": 2e14}


def work_budget(denoiser: Denoiser) -> int | None:
    """Return the tokens times forward passes of about a minute; None for a model of unknown size.

    A parameter costs two operations per token, and one of an expert that a token does not visit
    none; what attention costs besides is not counted.
    """
    inner: Any = denoiser
    while hasattr(inner, "inner"):
        inner = inner.inner
    if not isinstance(inner, NativeDenoiser):
        return None
    size = num_active(inner.model)
    return max(1, int(SECONDS * RATES.get(denoiser.device.type, RATES["cpu"]) / (2 * size)))


def num_active(model: nn.Module) -> int:
    """Return how many parameters a token meets: of experts, those that are chosen for it."""
    idle = 0
    for module in model.modules():
        if isinstance(module, Experts):
            num_experts = len(module.down)
            passed_over = num_experts - cast(int, module.router.num_chosen)
            idle += passed_over * (module.gate_up.numel() + module.down.numel()) // num_experts
    return sum(parameter.numel() for parameter in model.parameters()) - idle
