"""Settings of round trips. No torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from remask.errors import SettingsError
from remask.settings import Setting, checked

MetricSet = Literal["paper", "core"]
MaskDesign = Literal["independent", "stratified"]
Tail = Literal["masked", "visible"]

Trips = Annotated[int, Setting("Round trips per answer.", least=1, most=10_000)]
RebuildSteps = Annotated[int, Setting("Denoising steps of a round trip.", least=1, most=2**16)]
RebuildTemperature = Annotated[
    float, Setting("Noise of the rebuild; 0 is greedy.", least=0, most=100)
]
Metrics = Annotated[
    MetricSet, Setting("paper needs the extra `semantic`; core does without a sentence encoder.")
]


@checked
@dataclass(frozen=True, kw_only=True)
class ConsistencySettings:
    """How to mask again and reconstruct. The defaults are the paper's."""

    mask_ratio: Annotated[
        float | Literal["uniform"],
        Setting("Share of tokens masked again, 0 to 1, or uniform.", least=0, most=1),
    ] = 0.9
    mask_design: Annotated[MaskDesign, Setting("How the masked tokens are chosen.")] = "independent"
    tail: Annotated[
        Tail, Setting("Mask what follows the end of an answer too, or give its length away.")
    ] = "masked"
    trips: Trips = 4
    rebuild_steps: RebuildSteps = 16  # of each block, where the model sees block by block
    rebuild_temperature: RebuildTemperature = 0.0

    def __post_init__(self) -> None:
        if self.mask_design == "stratified" and self.mask_ratio == "uniform":
            raise SettingsError(
                "mask_ratio must be a number with mask_design 'stratified', got 'uniform'."
            )
