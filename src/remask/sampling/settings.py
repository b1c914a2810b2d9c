"""How an answer is written: the settings, and which of them apply.

`sampler_settings` is the one place that decides; Python, the command line, the server, collecting
and training all ask it. No torch here, so that flags and checks can use the classes.
"""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Protocol

from remask.denoisers.preset import Preset
from remask.errors import SettingsError
from remask.settings import Number, Setting, checked

Order = Literal[
    "low_confidence", "random", "origin", "maskgit_plus", "topk_margin", "entropy", "sequential"
]
DREAM_ORDERS = ("origin", "maskgit_plus", "topk_margin", "entropy")
HEAD_ELEMENTS = 2**29  # logits held at once: 2 GB of float32
BLIND_ORDERS = ("random", "origin")  # they do not look at what is predicted

_TOKENS = 2**20  # of the longest context of a published model, times some
Length = Annotated[int, Setting("Tokens of the canvas.", least=1, most=_TOKENS)]
Steps = Annotated[int, Setting("Sampling steps.", least=1, most=2**16)]
Block = Annotated[int, Setting("Tokens written at a time.", least=1, most=_TOKENS)]
Temperature = Annotated[float, Setting("Noise of sampling.", least=0, most=100)]
EditThreshold = Annotated[
    float,
    Setting(
        "Overwrite tokens where another is more probable than this (LLaDA2.1).", least=0, most=1
    ),
]
PoolSize = Annotated[int, Setting("Samples of one prompt.", least=0)]
PostSteps = Annotated[
    int, Setting("Most passes over a block in which nothing is masked, when editing.", least=0)
]


@checked
@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which tokens may be drawn, and which places a step reveals.

    `order` is what the confidence in a prediction is: `low_confidence` (LLaDA) the probability of
    the token, `maskgit_plus` the same after temperature and filters, `topk_margin` its lead over
    the second, `entropy` the negative entropy (Dream, all after temperature and filters); `random`
    and `origin` look at nothing: LLaDA's draws places, Dream's also how many. `sequential` (SDAR)
    reveals from left to right.

    `ends_last` is LLaDA's `confidence_eos_eot_inf` at temperature 0, and we keep it so at every
    temperature: end tokens may be predicted, but are revealed when nothing else is left, and the
    others are compared as if there were none. Its `logits_eos_inf` is another thing: no EOS is
    predicted at all, which `Suppressed(denoiser, ids=(eos_id,))` does. With both, the turn end is
    the only end token that can come, and it comes last.
    """

    order: Annotated[Order, Setting("Which predictions are revealed first.")] = "low_confidence"
    order_temperature: Annotated[
        float, Setting("Above 0: places are drawn from softmax(confidence / it).", least=0)
    ] = 0.0
    ends_last: Annotated[bool, Setting("Reveal end tokens when nothing else is left.")] = False
    reveal_threshold: Annotated[
        float | None,
        Setting("Reveal at once all predictions at least this probable.", above=0, most=1),
    ] = None
    commit_gap: Annotated[
        float | None,
        Setting(
            "Write a block at once when each of its tokens leads by so many logits, such as 5.",
            above=0,
        ),
    ] = None
    top_p: Annotated[
        float | None,
        Setting("Draw from the likeliest tokens with this share of the mass.", above=0, most=1),
    ] = None
    top_k: Annotated[
        int | None, Setting("Draw from this many of the likeliest tokens.", least=1)
    ] = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.order == "sequential" and (self.order_temperature > 0 or self.ends_last):
            raise SettingsError(
                "order 'sequential' requires order_temperature 0 and ends_last false, got "
                f"{self.order_temperature} and {self.ends_last}."
            )
        blind = self.order in (*BLIND_ORDERS, "sequential")
        unsure = blind or self.order == "entropy" or self.order_temperature > 0
        if self.reveal_threshold is not None and unsure:
            raise SettingsError(
                f"reveal_threshold compares probabilities: it needs order low_confidence, "
                f"maskgit_plus or topk_margin, not {self.order!r}, and order_temperature 0."
            )
        if self.commit_gap is not None and self.order in BLIND_ORDERS:
            raise SettingsError(
                f"commit_gap stops when predictions are sure, and order {self.order!r} does not "
                "look at them; leave commit_gap out, or choose another order."
            )


@checked
@dataclass(frozen=True, kw_only=True)
class EditSettings(Rule):
    """How a block is written and edited; the defaults are LLaDA2.1's."""

    reveal_threshold: Annotated[float | None, Setting(above=0, most=1)] = 0.95
    edit_threshold: EditThreshold = 0.9
    post_steps: PostSteps = 16

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        super().__post_init__()
        if self.reveal_threshold is None:
            raise SettingsError("editing needs a reveal_threshold; 0.95 is LLaDA2.1's.")
        if self.commit_gap is not None:
            raise SettingsError(
                "commit_gap writes for good what editing would read again; leave commit_gap or "
                "edit_threshold out."
            )


@checked
@dataclass(frozen=True, kw_only=True)
class SamplerSettings(Rule):
    """How to write an answer."""

    length: Length
    steps: Steps  # forward passes; with a reveal_threshold or a commit_gap the most there may be
    block: Block
    sub_block: int | None = None  # a block is written in sub-blocks of so many: see `nested`
    temperature: Temperature = 0.0
    # Of samples 1 and up where the temperature is 0, as a greedy preset has it; None: as sample 0.
    resample_temperature: Annotated[
        float | None, Setting("Noise of samples 1 and up of a greedy preset.", above=0)
    ] = None
    edit_threshold: EditThreshold | None = None
    post_steps: PostSteps = 16
    suppress_eos: bool = False  # the answer may end a turn, not the text: LLaDA's logits_eos_inf

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        super().__post_init__()
        _ = self.editing  # refuses what cannot be edited with
        if self.length % self.block:
            raise SettingsError(
                f"length must be a multiple of block ({self.block}), got {self.length}."
            )
        blocks = self.length // self.block
        if self.steps < blocks or self.steps % blocks:
            raise SettingsError(
                f"steps must be a multiple of the number of blocks ({blocks}), got {self.steps}."
            )
        if self.temperature > 0:  # every sample is drawn at it, and equal settings must be equal
            object.__setattr__(self, "resample_temperature", None)
        self._check_sub_block(self.steps // blocks)

    def _check_sub_block(self, per_block: int) -> None:
        if self.sub_block is None:
            return
        if self.sub_block < 1 or self.block % self.sub_block:
            raise SettingsError(
                f"block {self.block} is no multiple of sub_block {self.sub_block}; adjust one."
            )
        num = self.block // self.sub_block
        if per_block % num:
            raise SettingsError(
                f"steps {self.steps} gives a block {per_block}, no multiple of its {num} "
                "sub-blocks; give each the same."
            )
        if self.edit_threshold is not None:
            raise SettingsError(
                "edit_threshold edits a block as a whole; leave sub_block or edit_threshold out."
            )
        if self.commit_gap is not None:
            raise SettingsError(
                "commit_gap writes a block as a whole; leave sub_block or commit_gap out."
            )

    @property
    def editing(self) -> EditSettings | None:
        """How blocks are edited; None where they are not."""
        if self.edit_threshold is None:
            return None
        return EditSettings(**{f.name: getattr(self, f.name) for f in fields(EditSettings)})

    @checked
    def at(self, temperature: Temperature) -> "SamplerSettings":
        """Return the settings with every sample drawn at one temperature."""
        return replace(self, temperature=temperature, resample_temperature=None)

    @checked
    def for_sample(self, number: Number) -> "SamplerSettings":
        """Return how this sample of a pool is drawn."""
        warmer = self.resample_temperature
        return self.at(self.temperature if number == 0 or warmer is None else warmer)

    @checked
    def for_pool(self, size: PoolSize, what: str = "budget") -> "SamplerSettings":
        """Return how a pool of this size is drawn, or refuse to draw copies.

        `what` is the name of the setting that asks for so many.
        """
        if size <= 1:
            return self.at(self.temperature)
        if self.temperature == 0 and self.resample_temperature is None:
            raise SettingsError(
                f"temperature 0 draws the same answer every time, and {what} is {size}; set a "
                f"temperature above 0, a resample_temperature, or {what} 1."
            )
        return self

    @staticmethod
    def of(preset: Preset) -> "SamplerSettings":
        """Return the settings a model's preset asks for."""
        return SamplerSettings(**{f.name: getattr(preset, f.name) for f in fields(SamplerSettings)})


class SampledModel(Protocol):
    """What of a model decides how it is sampled: a `Denoiser`, or less."""

    @property
    def preset(self) -> Preset:
        """How it likes to be sampled."""
        ...

    @property
    def block_size(self) -> int | None:
        """The only blocks it can write; None: any."""
        ...


@checked
def sampler_settings(
    model: SampledModel,
    *,
    kind: str = "",
    canvas: Length | None = None,
    length: Length | None = None,
    steps: Steps | None = None,
    block: Block | None = None,
    temperature: Temperature | None = None,
    order: Order | None = None,
    reveal_threshold: float | None = None,
    commit_gap: float | None = None,
    edit_threshold: float | None = None,
) -> SamplerSettings:
    """Return how to write an answer: the model's preset, the canvas of a task, what is given.

    A task's canvas is taken unless the preset was asked for by name, which then decides on the
    canvas too; it is written a token a step, in the preset's blocks where they divide it, else in
    one. A given length keeps what the preset does: all in one block, or a token a step.

    Args:
        model: whose preset, and whose own blocks where it has some.
        kind: the kind of answer or the task, for which the preset may have departures.
        canvas: tokens that the task's solutions need; None where no task is named.
        length: the rest, from here on, goes before preset and task.
        steps: forward passes.
        block: tokens that are written together.
        temperature: of every sample; none is then drawn at another one.
        order: which predictions are revealed first.
        reveal_threshold: reveal all predictions at least this probable.
        commit_gap: write a block at once when each of its tokens leads by so many logits.
        edit_threshold: overwrite tokens where another is more probable.
    """
    preset, own = model.preset.for_task(kind), model.block_size
    in_one = preset.block == preset.length
    token_a_step = preset.steps == preset.length
    usual = preset.length
    if canvas is not None and not preset.named:
        usual, token_a_step = _whole_blocks(canvas, own), True
        in_one |= length is None and usual % preset.block != 0
    size = length or usual
    given: dict[str, Any] = {
        "order": order, "reveal_threshold": reveal_threshold, "commit_gap": commit_gap,
        "edit_threshold": edit_threshold,
    }  # fmt: skip
    settings = replace(
        SamplerSettings.of(preset),
        length=size,
        block=block or own or (size if in_one else preset.block),
        steps=steps or (size if token_a_step else preset.steps),
        **{name: value for name, value in given.items() if value is not None},
    )
    return settings if temperature is None else settings.at(temperature)


def _whole_blocks(length: int, block: int | None) -> int:
    """Return the canvas of whole blocks that holds so many tokens."""
    return length if block is None else -(-length // block) * block
