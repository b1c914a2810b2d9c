"""What to make a diffusion model of, from what rows, for how long. No torch here."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from remask.errors import SettingsError
from remask.settings import Setting, check

PROMPT = "{prompt}"  # the field of a chat template
GRID = 8  # row lengths are multiples of it, which is what attention is fast on
_updates = partial(Setting, least=1, most=100_000_000)
_tokens = partial(Setting, most=1_000_000)
_minutes = partial(Setting, above=0, most=1_000_000)


@dataclass(frozen=True, kw_only=True)
class AdaptSettings:
    """One adaptation of an autoregressive model."""

    source: str  # a folder in the hub's layout, a hub id or a GGUF file
    rows: tuple[Path, ...]  # JSON lines with prompt and response
    out: Annotated[Path, Setting("Folder for checkpoints, log and the finished model.", short="-o")]
    valid: Annotated[Path | None, Setting("Rows held out: the best model on them is kept.")] = None
    # None: as an adapted source has it, else True
    shifted: Annotated[
        bool | None,
        Setting("Row i - 1 predicts token i, as the ancestor learned; --no-shifted: row i does."),
    ] = None
    template: Annotated[
        str, Setting("Chat template with one {prompt}; the ancestor's own by default.")
    ] = ""
    mask_token: Annotated[
        str, Setting("Token that becomes <|mask|>; an unused or a reserved one by default.")
    ] = ""
    canvas: Annotated[int, _tokens("Largest canvas: longer responses are left out.", least=2)] = 160
    least_canvas: Annotated[int, _tokens("Smallest canvas, in tokens.", least=1)] = 32
    longest: Annotated[
        int, _tokens("Longest row, prompt and canvas; longer ones are left out.", least=GRID)
    ] = 512
    tokens: Annotated[
        int, Setting("Tokens of a batch; its divisors are the row lengths.", least=GRID, most=2**30)
    ] = 61_440
    epochs: Annotated[int, Setting("Passes over the rows.", least=1, most=1_000_000)] = 10
    # None: 1, or 0 where the source was adapted before
    causal_epochs: Annotated[
        int | None,
        Setting(
            "Passes before these in which it learns the rows as its ancestor did, from left to "
            "right, in a third of the minutes at most; 1, or 0 where the source was adapted "
            "before.",
            least=0,
            most=1_000_000,
        ),
    ] = None
    block_share: Annotated[
        float,
        Setting(
            "Share of the rows that are masked as while an answer is written block by block.",
            least=0,
            most=1,
        ),
    ] = 0.5
    minutes: Annotated[
        float | None, _minutes("Minutes of training in all; the learning rate falls with them.")
    ] = None
    stop_after: Annotated[
        float | None, _minutes("Minutes of this call; the same command again goes on.")
    ] = None
    lr: Annotated[float, Setting("Peak learning rate of AdamW.", above=0, most=1)] = 3e-4
    warmup: Annotated[
        float, Setting("Share of the training in which the rate rises.", least=0, below=1)
    ] = 0.03
    weight_decay: Annotated[
        float, Setting("Weight decay of the matrices inside the blocks.", least=0, most=10)
    ] = 0.01
    ema: Annotated[
        float, Setting("Decay of the average of the weights, per update.", least=0, below=1)
    ] = 0.999
    min_ratio: Annotated[
        float, Setting("Smallest share of the canvas that is masked.", above=0, most=1)
    ] = 0.02  # bounds the weight 1/t
    eval_every: Annotated[int, _updates("Updates between held-out losses.")] = 100
    patience: Annotated[
        int, Setting("Held-out losses without a new best before it stops.", least=1, most=10**9)
    ] = 5
    checkpoint_every: Annotated[int, _updates("Updates between checkpoints.")] = 500
    log_every: Annotated[int, _updates("Updates between rows of the log.")] = 20
    block: Annotated[
        int | None, _tokens("Block of the preset that is saved; 32, or the canvas.", least=1)
    ] = None
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"], Setting("Number format of the saved weights.")
    ] = "bfloat16"
    shard_megabytes: Annotated[
        float, Setting("Most of a file of weights; a larger tensor is alone.", above=0, most=10**6)
    ] = 5_000.0
    seed: Annotated[int, Setting("Seed of the order of the rows and of the noise.")] = 0
    device: Annotated[str, Setting("auto, cpu, cuda or cuda:N.")] = "auto"

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check(self)
        if not self.rows:
            raise SettingsError("rows names no file; give at least one of JSON lines.")
        if self.template and self.template.count(PROMPT) != 1:
            raise SettingsError(f"template {self.template!r:.80} must hold {PROMPT} once.")
        if self.least_canvas > self.canvas:
            raise SettingsError(
                f"least_canvas {self.least_canvas} is more than canvas {self.canvas}; lower it."
            )
        if not self.row_lengths:
            raise SettingsError(
                f"tokens {self.tokens} has no divisor that is a multiple of {GRID} and at most "
                f"longest {self.longest}; give a round number such as 61,440."
            )

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The lengths that rows may have, in rising order: whole batches of each are as large."""
        most = min(self.longest, self.tokens)
        return tuple(n for n in range(GRID, most + 1, GRID) if self.tokens % n == 0)
