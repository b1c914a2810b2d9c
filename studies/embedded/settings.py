"""What to train, on what, for how long. No torch here."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from remask.errors import SettingsError
from remask.settings import Setting, check, unknown_name
from remask.tasks import TASKS

MIX = {"wordmath": 0.54, "choice": 0.32, "countdown": 0.09, "pycode": 0.05}
_updates = partial(Setting, least=1, most=100_000_000)
_width = partial(Setting, least=1, most=2**16)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """A pre-training run."""

    out: Annotated[Path, Setting("Folder for checkpoints, log and the finished model.")]
    init: Annotated[
        Path | None, Setting("Checkpoint folder to start from; its shape must fit.")
    ] = None  # its weights and its tokenizer
    steps: Annotated[int, _updates("Optimizer updates.")] = 27_000
    batch: Annotated[int, Setting("Problems per update.", least=1, most=100_000)] = 512
    lr: Annotated[float, Setting("Peak learning rate of Muon and AdamW.", above=0)] = 1.2e-3
    warmup: int = 300
    weight_decay: float = 0.05
    ema: float = 0.999
    min_ratio: float = 0.02  # smallest mask ratio t: bounds the weight 1/t
    width: Annotated[int, _width("Hidden width.")] = 320
    layers: Annotated[int, Setting("Transformer blocks.", least=1, most=1_000)] = 7
    heads: Annotated[int, _width("Attention heads.")] = 5
    inner: Annotated[int, _width("Width inside the MLP.")] = 768
    mix: Annotated[
        Mapping[str, float],
        Setting("Task shares, as in wordmath=0.4,choice=0.6; all by default."),
    ] = field(default_factory=lambda: dict(MIX))
    num_tokenizer_problems: int = 4_000
    vocabulary: int = 1_024
    seed: Annotated[int, Setting("Seed of data, weights and noise.")] = 0
    workers: Annotated[int, Setting("Processes that generate problems.", least=0, most=1_000)] = 0
    device: Annotated[str, Setting("auto, cpu, mps, cuda or cuda:N.")] = "auto"
    eval_every: Annotated[int, _updates("Updates between held-out accuracies.")] = 2_000
    eval_problems: Annotated[
        int, Setting("Held-out problems per task, level.", least=1, most=1_000_000)
    ] = 64
    checkpoint_every: Annotated[int, _updates("Updates between checkpoints.")] = 2_000
    max_shard_bytes: int = 5 * 10**9

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        unknown = set(self.mix) - set(TASKS)
        if unknown:
            raise unknown_name("task", min(unknown), TASKS)
        check(self)
        if self.width % (2 * self.heads):
            raise SettingsError(
                f"width must be a multiple of {2 * self.heads} (2 heads), got {self.width}."
            )
        shares = self.mix.values()
        if not all(0 <= share < math.inf for share in shares) or not sum(shares) > 0:
            raise SettingsError(f"mix {dict(self.mix)} must have shares from 0 up, not all 0.")
