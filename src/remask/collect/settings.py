"""What is collected, and how it is scored: the settings, and no torch.

Round trips are not all that scores an answer. The baselines `confidence`, which stands in the
sample, and `vote` and `agreement`, which the studies read off the pool, cost no forward pass and
are always there. Two others ask the model again, about the answers that get round trips and at
least about the first one:

    self_evaluation   the model's own number, asked with the paper's prompt; absent without one
    editor            share of tokens that it would write again; for models trained to edit
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from remask.consistency.settings import ConsistencySettings, Metrics
from remask.errors import SettingsError
from remask.sampling.settings import SamplerSettings
from remask.settings import Seed, Setting, check
from remask.tasks.base import Split
from remask.tasks.settings import TaskSettings
from remask.values import ROUNDTRIPS

FREE_BASELINES = ("confidence", "agreement", "vote")
COSTLY_BASELINES = ("self_evaluation", "editor")
# Measured of every answer, outside the composite.
EXTRA_METRICS = ("cross_entropy", "critical_divergence", "embedding_distance")
BASELINES = (*FREE_BASELINES, *COSTLY_BASELINES)


def choose_baselines(names: Sequence[str]) -> tuple[str, ...]:
    """Return the baselines of a collection in their usual order, or raise with those there are."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        known = ", ".join(BASELINES)
        raise SettingsError(f"baseline {unknown[0]!r} is unknown; choose among {known}.")
    return tuple(name for name in BASELINES if name in FREE_BASELINES or name in names)


@dataclass(frozen=True, kw_only=True)
class CollectSettings(TaskSettings):
    """Which problems, how many samples of each, and how to score them."""

    split: Annotated[Split, Setting("Which problems of the task.")] = "test"
    problems: Annotated[int, Setting("How many problems.", least=1, most=1_000_000)] = 32
    samples: Annotated[int, Setting("Answers drawn per problem.", least=1, most=1_000)] = 1
    scored: Annotated[
        int,
        Setting(
            "How many of them are verified: by round trips, and baselines that cost.",
            least=0,
            most=1_000,
        ),
    ] = 1
    baselines: Annotated[
        tuple[str, ...],
        Setting(
            "What else scores answers: confidence, agreement and vote cost nothing and are always "
            "there; self_evaluation and editor ask the model again."
        ),
    ] = FREE_BASELINES
    sampler: SamplerSettings | None = None  # None: the model's preset for the task
    consistency: ConsistencySettings = field(default_factory=ConsistencySettings)
    metrics: Metrics = "paper"
    seed: Seed = 0
    chunk: Annotated[int, Setting("Most problems between two writes to disk.", least=1)] = 256
    tokens: Annotated[
        int | None,
        Setting("Most tokens of these, prompts and canvases padded; None: no limit.", least=1),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what nobody can wait for, and name the baselines in their usual order."""
        check(self)
        object.__setattr__(self, "baselines", choose_baselines(self.baselines))
        if self.scored > self.samples:
            raise SettingsError(
                f"scored is {self.scored} and samples is {self.samples}; draw as many samples as "
                "are to be scored, or score fewer."
            )


@dataclass(frozen=True, kw_only=True)
class InjectionSettings:
    """How to draw the flaws and how to score them."""

    consistency: ConsistencySettings = field(default_factory=ConsistencySettings)
    metrics: Metrics = "paper"
    seed: Seed = 0
    chunk: Annotated[int, Setting("Problems between two writes to disk.", least=1)] = 64

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check(self)


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """How the answers of a file are scored; results under other settings are never mixed."""

    model: str
    dtype: str = "float32"
    preset: str = ""  # decides how long the canvas of an answer is
    scorer: str = ROUNDTRIPS  # what follows on metrics, weights and round trips is theirs alone
    kind: Annotated[str, Setting("How to read the final result of an answer.")] = "number"
    metrics: Metrics = "paper"
    weights: Mapping[str, float] | None = None  # of the metrics; None: uniform
    threshold: float | None = None  # certified: answers are marked that score above it
    length: int | None = None  # the canvas it was certified on; None: the preset's
    consistency: ConsistencySettings = field(default_factory=ConsistencySettings)
    prompt_column: Annotated[str, Setting("Column with the question.")] = "prompt"
    answer_column: Annotated[str, Setting("Column with the answer.")] = "answer"
    seed: Seed = 0
