"""Settings of the methods: which tokens are masked, the bounds, the clip, the weight of the score.

No torch here, so that a training's settings can be read and refused before anything is loaded.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from remask.errors import InputError, SettingsError
from remask.settings import Setting, check

MaskSampler = Literal["full", "random", "block_all", "block_random"]
LossRegion = Literal["all_masked", "active_block"]
NegativeBranch = Literal["mixture", "eubo", "elbo", "zero"]
Anchor = Literal["rollout", "start"]


@dataclass(frozen=True, kw_only=True)
class MaskSettings:
    """How completions are masked. The defaults are those of every published SPG run."""

    mask_sampler: MaskSampler = "block_random"
    copies: Annotated[int, Setting(least=1)] = 2
    block: Annotated[int, Setting(least=1)] = 32  # best that of the sampler of the completions
    # Of the prompt, and of blocks before the active one; 0 shows the whole prompt.
    prompt_mask_ratio: Annotated[float, Setting(least=0, below=1)] = 0.15
    loss_region: LossRegion = "all_masked"  # active_block: what the paper's figure shows

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check(self)
        if self.mask_sampler == "full" and self.copies > 1:
            raise SettingsError(
                f"copies {self.copies} of mask_sampler 'full' would hide the same response again; "
                "set copies 1, or mask_sampler block_random."
            )

    @property
    def by_block(self) -> bool:
        """Whether one block at a time is asked about."""
        return self.mask_sampler in ("block_all", "block_random")

    def check_length(self, length: int) -> None:
        """Refuse copies for which a canvas of so many tokens has too few blocks."""
        num = -(-length // self.block)
        if self.by_block and self.copies > num:
            raise SettingsError(
                f"copies {self.copies} is more than the {num} blocks of {self.block} tokens on a "
                f"canvas of {length}; lower copies or mask_block, or set mask_sampler random."
            )


@dataclass(frozen=True, kw_only=True)
class SpgSettings:
    """The negative branch, and what may restrain it; see `remask.align.restraints`.

    The defaults are the published ones for mathematics, without restraints.
    """

    negative: NegativeBranch = "mixture"  # zero: learn from completions above the mean alone
    renyi_order: float = 1.5  # beta; 1.0 was better for Sudoku
    # omega: the share of the upper bound in the mixture
    upper_weight: Annotated[float, Setting(least=0, most=1)] = 0.5
    negative_floor: Annotated[float | None, Setting(below=0)] = None  # nats per token
    ratio_clip: Annotated[float | None, Setting(above=0, below=1)] = None
    start_kl: Annotated[float, Setting(least=0)] = 0.0  # weight; 0: no reference model is needed

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check(self)
        if self.renyi_order < 1:
            raise SettingsError(
                f"renyi_order {self.renyi_order} gives no upper bound; use 1 or more, such as 1.5."
            )

    @property
    def uses_upper(self) -> bool:
        """Whether the upper bound enters the loss."""
        return self.negative == "eubo" or (self.negative == "mixture" and self.upper_weight > 0)

    @property
    def restrained(self) -> bool:
        """Whether anything is added to the published loss."""
        return self.negative_floor is not None or self.ratio_clip is not None or self.start_kl > 0

    def check_copies(self, copies: int) -> None:
        """Refuse a number of copies at which the upper bound has the lower one's gradient."""
        if copies < 2 and self.uses_upper:
            raise SettingsError(
                f"copies {copies} gives the upper bound the gradient of the lower one; set copies "
                "2 or more, or negative elbo, which is what it would be."
            )


@dataclass(frozen=True, kw_only=True)
class GrpoSettings:
    """How far the policy may move. The defaults are d1's."""

    clip: Annotated[float, Setting(above=0, below=1)] = 0.5
    kl_weight: Annotated[float, Setting(least=0)] = 0.04  # 0: no reference model is needed

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check(self)


@dataclass(frozen=True, kw_only=True)
class RegressionSettings:
    """How far an advantage moves an answer, and from where."""

    beta: Annotated[float, Setting(above=0)] = 1.0  # advantage per nat of a token
    anchor: Anchor = "rollout"  # the model that wrote the completions, or that of the first update
    centred: bool = True  # what all of a group have moved by counts for nothing

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check(self)


class TrainerState(Protocol):
    """How far the training is: all of TRL's state that rewards look at here."""

    @property
    def global_step(self) -> int:
        """Optimizer updates made."""
        ...

    @property
    def max_steps(self) -> int:
        """Optimizer updates there will be."""
        ...


@dataclass(frozen=True, kw_only=True)
class Annealed:
    """alpha, which grows linearly over the training from `alpha_min` to `alpha_max`."""

    alpha_min: float = 0.5
    alpha_max: float = 1.0
    base_reward: float = 1.5

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if not 0 <= self.alpha_min <= self.alpha_max < float("inf"):
            raise SettingsError(
                f"alpha_min {self.alpha_min} and alpha_max {self.alpha_max} must be in this order "
                "and not below 0."
            )

    def alpha(self, state: TrainerState | None) -> float:
        """Return the weight of the score at this update."""
        if self.alpha_min == self.alpha_max:
            return self.alpha_min
        if state is None or state.max_steps < 1:
            raise InputError(
                "trainer_state is missing or has no max_steps, so alpha cannot grow; pass it, or "
                "set alpha_min equal to alpha_max."
            )
        done = min(1.0, state.global_step / state.max_steps)
        return self.alpha_min + (self.alpha_max - self.alpha_min) * done
