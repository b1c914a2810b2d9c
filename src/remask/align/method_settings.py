"""Settings of the training methods; without torch, so that they are checked before loading."""

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from remask.errors import InputError, SettingsError
from remask.settings import Setting, check

MaskSampler = Literal["full", "random", "block_all", "block_random"]
LossRegion = Literal["all_masked", "active_block"]
NegativeBranch = Literal["mixture", "eubo", "elbo", "zero"]


@dataclass(frozen=True, kw_only=True)
class MaskSettings:
    """How completions are masked; the defaults are those of the published SPG runs."""

    mask_sampler: MaskSampler = "block_random"
    copies: Annotated[int, Setting(least=1)] = 2
    block: Annotated[int, Setting(least=1)] = 32  # best the block size of the sampler
    # Share of masked tokens in the prompt and in blocks before the active one.
    prompt_mask_ratio: Annotated[float, Setting(least=0, below=1)] = 0.15
    loss_region: LossRegion = "all_masked"  # active_block: what the paper's figure shows

    def __post_init__(self) -> None:
        check(self)
        if self.mask_sampler == "full" and self.copies > 1:
            raise SettingsError(
                f"copies must be 1 with mask_sampler 'full', got {self.copies}: all copies would "
                "be equal."
            )

    @property
    def by_block(self) -> bool:
        """Whether each copy masks one active block and all later ones."""
        return self.mask_sampler in ("block_all", "block_random")

    def check_length(self, length: int) -> None:
        """Raise if a canvas of `length` tokens has fewer blocks than copies."""
        num = -(-length // self.block)
        if self.by_block and self.copies > num:
            raise SettingsError(
                f"copies must be at most the number of blocks ({num} of {self.block} tokens on a "
                f"canvas of {length}), got {self.copies}; or set mask_sampler random."
            )


@dataclass(frozen=True, kw_only=True)
class SpgSettings:
    """The negative branch of SPG; the defaults are the published ones for mathematics."""

    negative: NegativeBranch = "mixture"  # zero: ignore completions with negative advantage
    renyi_order: float = 1.5  # beta; 1.0 was better for Sudoku
    # omega: the share of the upper bound in the mixture
    upper_weight: Annotated[float, Setting(least=0, most=1)] = 0.5

    def __post_init__(self) -> None:
        check(self)
        if self.renyi_order < 1:
            raise SettingsError(f"renyi_order must be at least 1, got {self.renyi_order}.")

    @property
    def uses_upper(self) -> bool:
        """Whether the upper bound is in the loss."""
        return self.negative == "eubo" or (self.negative == "mixture" and self.upper_weight > 0)

    def check_copies(self, copies: int) -> None:
        """Raise if the upper bound has the gradient of the lower bound, as with one copy."""
        if copies < 2 and self.uses_upper:
            raise SettingsError(
                f"copies must be at least 2 with negative {self.negative!r}, got {copies}; for one "
                "copy set negative elbo, which has the same gradient."
            )


@dataclass(frozen=True, kw_only=True)
class GrpoSettings:
    """How far the policy may move; the defaults are d1's."""

    clip: Annotated[float, Setting(above=0, below=1)] = 0.5
    kl_weight: Annotated[float, Setting(least=0)] = 0.04  # 0: no reference model

    def __post_init__(self) -> None:
        check(self)


class TrainerState(Protocol):
    """The part of TRL's trainer state that rewards read."""

    @property
    def global_step(self) -> int:
        """Optimizer updates made."""

    @property
    def max_steps(self) -> int:
        """Optimizer updates of the whole training."""


@dataclass(frozen=True, kw_only=True)
class Annealed:
    """alpha grows linearly over the training, from `alpha_min` to `alpha_max`."""

    alpha_min: float = 0.5
    alpha_max: float = 1.0
    base_reward: float = 1.5

    def __post_init__(self) -> None:
        if not 0 <= self.alpha_min <= self.alpha_max < float("inf"):
            raise SettingsError(
                f"alpha_min must be at least 0 and at most alpha_max ({self.alpha_max}), got "
                f"{self.alpha_min}."
            )

    def alpha(self, state: TrainerState | None) -> float:
        """Return the weight of the score at this update."""
        if self.alpha_min == self.alpha_max:
            return self.alpha_min
        if state is None or state.max_steps < 1:
            raise InputError(
                "alpha requires a trainer_state with max_steps; pass it, or set alpha_min equal to "
                "alpha_max."
            )
        done = min(1.0, state.global_step / state.max_steps)
        return self.alpha_min + (self.alpha_max - self.alpha_min) * done
