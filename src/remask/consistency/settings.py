"""How an answer is masked again and rebuilt: the settings, and no torch."""

from dataclasses import dataclass
from typing import Literal

from remask import limits
from remask.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class ConsistencySettings:
    """How to mask again and rebuild. The defaults are the paper's."""

    mask_ratio: float | Literal["uniform"] = 0.9
    mask_design: Literal["independent", "stratified"] = "independent"
    tail: Literal["masked", "visible"] = "masked"  # visible gives the answer's length away
    trips: int = 4
    rebuild_steps: int = 16  # of each block, where the model sees block by block
    rebuild_temperature: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.mask_ratio != "uniform" and not 0 <= self.mask_ratio <= 1:
            raise SettingsError(f"mask_ratio {self.mask_ratio} is not between 0 and 1.")
        if self.mask_design not in ("independent", "stratified"):
            raise SettingsError(
                f"mask_design {self.mask_design!r} is unknown; use independent or stratified."
            )
        if self.mask_design == "stratified" and self.mask_ratio == "uniform":
            raise SettingsError("mask_design 'stratified' needs a fixed mask_ratio, not 'uniform'.")
        if self.tail not in ("masked", "visible"):
            raise SettingsError(f"tail {self.tail!r} is unknown; use masked or visible.")
        limits.check(
            trips=self.trips, rebuild_steps=self.rebuild_steps,
            rebuild_temperature=self.rebuild_temperature,
        )  # fmt: skip

    def steps_at_once(self, block_size: int | None) -> int:
        """Return the steps in which a row, or a block of one, is rebuilt.

        A block gets no more steps than it has positions: the others would reveal nothing.
        """
        return min(self.rebuild_steps, block_size or self.rebuild_steps)
