"""What is collected, and how it is scored: the settings, and no torch.

Round trips are not all that scores an answer. The baselines `confidence`, which stands in the
sample, and `vote` and `agreement`, which the studies read off the pool, cost no forward pass and
are always there. Others are measured on request, of the answers that get round trips and at
least about the first one:

    self_evaluation   the model's own number, asked with the paper's prompt; absent without one
    editor            share of tokens that it would write again; for models trained to edit

The others are rivals that were published beside the paper (`remask.baselines`). Those that look at
how an answer came about have it traced while it is written.

Probes (`remask.probes`) mask answers once more and read log p; what they say stands in the features
of a record, with what is known of the answer for nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from remask.consistency.settings import ConsistencySettings, Metrics
from remask.errors import SettingsError
from remask.probes.settings import Probe
from remask.sampling.settings import SamplerSettings
from remask.settings import Seed, Setting, check, unknown_name
from remask.tasks.base import Split
from remask.tasks.settings import TaskSettings
from remask.values import ROUNDTRIPS
from remask.verifier.settings import MaxForwards

FREE_BASELINES = ("confidence", "agreement", "vote")
TRACED_BASELINES = ("tre", "denoising_entropy", "temporal_vote", "temporal_entropy", "dcocoa")
OPTIONAL_BASELINES = (
    "self_evaluation", "editor", "dise", "perplexity", "length", "critical_count",
    *TRACED_BASELINES,
)  # fmt: skip
# Measured of every answer, outside the composite.
EXTRA_METRICS = ("cross_entropy", "critical_divergence", "embedding_distance")
BASELINES = (*FREE_BASELINES, *OPTIONAL_BASELINES)


def choose_baselines(names: Sequence[str]) -> tuple[str, ...]:
    """Return the baselines of a collection in their usual order, or raise with those there are."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise unknown_name("baseline", unknown[0], BASELINES)
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
            "there; " + ", ".join(OPTIONAL_BASELINES) + " are measured on request."
        ),
    ] = FREE_BASELINES
    probes: Annotated[
        tuple[str, ...],
        Setting(
            "Probes of the verified answers, such as critical,stratified90x8,halves8: what "
            "they read stands in the features."
        ),
    ] = ()
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
        """Refuse what nobody can wait for; what is named twice is meant once."""
        check(self)
        object.__setattr__(self, "baselines", choose_baselines(self.baselines))
        object.__setattr__(self, "probes", tuple(dict.fromkeys(self.probes)))
        for name in self.probes:
            Probe.named(name)
        if self.scored > self.samples:
            raise SettingsError(
                f"scored must be at most the number of samples ({self.samples}), got {self.scored}."
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
    length: int | None = None  # the canvas it was certified on, or fitted to; None: the preset's
    max_forwards: MaxForwards = None  # of the verifier, per answer
    consistency: ConsistencySettings = field(default_factory=ConsistencySettings)
    prompt_column: Annotated[str, Setting("Column with the question.")] = "prompt"
    answer_column: Annotated[str, Setting("Column with the answer.")] = "answer"
    seed: Seed = 0
