"""Settings of a training. The YAML file, the flags and the record of a run have the same fields.

Flags override the file. Invalid settings are refused before a model is loaded. The defaults are
those of the Sandwiched Policy Gradient (arXiv:2510.09541), with the group size and learning rate
of the paper.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from remask.align.method_settings import (
    Annealed,
    GrpoSettings,
    LossRegion,
    MaskSampler,
    MaskSettings,
    NegativeBranch,
    SpgSettings,
)
from remask.align.owners import check_owners
from remask.align.trackers import AUTO, check_track
from remask.consistency.settings import ConsistencySettings, MaskDesign, Metrics
from remask.errors import SettingsError
from remask.probes.settings import Probe, Which
from remask.records.text_file import read_text
from remask.sampling.settings import (
    Block,
    Length,
    SampledModel,
    SamplerSettings,
    Steps,
    Temperature,
    sampler_settings,
)
from remask.settings import Seed, Setting, setting_fields, validate
from remask.tasks.settings import WordingName
from remask.verifier.columns import readings_of

_T = TypeVar("_T")
_UPDATES, _PROBLEMS = 100_000_000, 1_000_000
CountOrNone = Annotated[int, Setting(least=0, most=_UPDATES)]  # 0: never
Share = Annotated[float, Setting(least=0, most=1)]
Portion = Annotated[float, Setting(least=0, below=1)]
NotNegative = Annotated[float, Setting(least=0)]
Positive = Annotated[float, Setting(above=0)]

# Settings that may change when a run is resumed. They do not change the results, except the last
# bits (micro_batch), or they are the remedies that a guard proposes after it has stopped a run.
FREE = frozenset(
    {
        "out", "device", "data", "track", "sharding", "checkpoint_every", "show_every",
        "micro_batch", "gradient_checkpointing", "learning_rate", "max_grad_norm", "max_skipped",
        "collapse_window", "collapse_reward_ratio", "collapse_length_ratio",
        "collapse_likelihood_fall", "collapse_accuracy_fall",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AlignSettings:
    """Settings of one training. Fields with a help text have a flag."""

    model: Annotated[str, Setting("tiny, a folder, or a hub id.", short="-m")]
    task: Annotated[str, Setting("Task of the training problems: wordmath, gsm8k, module:name.")]
    out: Annotated[Path, Setting("Folder for log, checkpoints and models.", short="-o")]
    level: Annotated[str, Setting("Level of the task; the first by default.")] = ""
    data: Annotated[Path | None, Setting("Rows of a public benchmark: a file or folder.")] = None
    wording: WordingName = "llada"
    allow_execution: bool = False

    method: Annotated[Literal["spg", "diffu_grpo", "sft"], Setting("Training method.")] = "spg"
    reward: Annotated[
        tuple[str, ...],
        Setting(
            "consistency, lexicographic, trusted, outcome, ungated, soft_format, strict_format, "
            "tag_count, whole_number_answer, boxed_format or module:name; separate several with "
            "commas, set weights as in name=0.5."
        ),
    ] = ("consistency",)
    updates: Annotated[int, Setting("Optimizer updates.", least=1, most=_UPDATES)] = 6000
    prompts_per_update: Annotated[
        int, Setting("Prompts of a rollout, over all processes.", least=1, most=_PROBLEMS)
    ] = 16
    num_generations: Annotated[
        int, Setting("Completions of each prompt.", least=2, most=10_000)
    ] = 8
    inner_updates: Annotated[
        int, Setting("Updates on the completions of one rollout.", least=1, most=_UPDATES)
    ] = 4
    micro_batch: Annotated[
        int, Setting("Completions per forward and backward pass.", least=1, most=_PROBLEMS)
    ] = 8

    copies: Annotated[
        int | None,
        Setting("Masked copies of a completion; 2 for spg, 1 for diffu_grpo.", least=1, most=1_000),
    ] = None
    mask_sampler: MaskSampler | None = None  # None: see `masks`
    mask_block: Annotated[int | None, Setting(least=1, most=2**20)] = None  # None: the sampler's
    prompt_mask_ratio: float = 0.15
    loss_region: LossRegion = "all_masked"
    negative: NegativeBranch = "mixture"
    renyi_order: float = 1.5
    upper_weight: float = 0.5
    clip: float = 0.5
    kl_weight: float = 0.04

    length: Length | None = None  # None: the task's canvas length
    steps: Steps | None = None  # None: one token per step
    block: Block | None = None  # None: the preset's
    temperature: Temperature = 0.9

    scorer: Annotated[
        Literal["roundtrips", "probe", "verifier"],
        Setting("Scorer of completions: round trips, one probe, or the label-free verifier."),
    ] = "roundtrips"
    probe: Annotated[
        str, Setting("Probe of scorer probe: critical, halves8 or stratified50x4.")
    ] = "critical"
    reading: Annotated[Which | None, Setting("Reading of the probe, for example response_min.")] = (
        None  # None: the first reading of the probe
    )
    trips: Annotated[int, Setting("Round trips per completion.")] = 4
    rebuild_steps: Annotated[int, Setting("Denoising steps of a round trip.")] = 16
    mask_ratio: float = 0.9
    mask_design: MaskDesign = "independent"
    metrics: Metrics = "paper"
    metric_weights: tuple[str, ...] | None = None  # as token_accuracy=2, others 0; None: equal
    scored_by: Annotated[
        Literal["live", "start"],
        Setting("Scoring model: the current one (live) or the initial one (start)."),
    ] = "live"
    alpha_min: float = 0.5
    alpha_max: float = 1.0
    base_reward: float = 1.5
    right_reward: float = 2.0
    rank_reward: NotNegative = 0.5  # reward of the highest rank minus that of the lowest
    trust: Annotated[float | None, Setting(least=0, most=1)] = None  # least rewarded score

    tuning: Annotated[
        Literal["lora", "full"], Setting("Train adapters (lora) or all weights (full).")
    ] = "lora"
    lora_rank: Annotated[int, Setting(least=1, most=2**16)] = 128
    lora_alpha: Positive = 64.0
    lora_dropout: Portion = 0.05
    lora_targets: tuple[str, ...] = ("auto",)
    learning_rate: Annotated[float, Setting("Peak learning rate of AdamW.", above=0)] = 1e-6
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: CountOrNone = 0  # updates
    beta1: Portion = 0.9
    beta2: Portion = 0.99
    weight_decay: NotNegative = 0.1
    max_grad_norm: Positive = 0.2
    gradient_checkpointing: bool = False

    eval_every: Annotated[
        int, Setting("Updates between validations; 0: never.", least=0, most=_UPDATES)
    ] = 100
    eval_problems: Annotated[int, Setting("Validation problems.", least=1, most=_PROBLEMS)] = 128
    checkpoint_every: Annotated[
        int, Setting("Updates between checkpoints.", least=1, most=_UPDATES)
    ] = 100
    show_every: CountOrNone = 10  # rollouts between printed completions
    # Consecutive updates with a loss or gradient that is not finite.
    max_skipped: Annotated[int, Setting(least=1, most=_UPDATES)] = 10
    collapse_window: CountOrNone = 20  # rollouts in a moving average
    collapse_reward_ratio: Share = 0.25  # of the best average
    collapse_length_ratio: Annotated[float, Setting(above=1)] = 4.0  # of the first average
    collapse_likelihood_fall: Positive = 0.5  # nats per token, from the first updates
    collapse_accuracy_fall: Positive = 0.1  # from the best validation
    # learner: `fully_shard` over processes; auto: learner for tuning full, none for lora.
    sharding: Literal["auto", "none", "learner"] = "auto"
    track: Annotated[
        tuple[str, ...],
        Setting("tensorboard, wandb or both; none; auto: TensorBoard if it is installed."),
    ] = (AUTO,)
    device: Annotated[str, Setting("auto, cpu, mps, cuda or cuda:N.")] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    seed: Seed = 0

    def __post_init__(self) -> None:
        self.masks(self.mask_block or 1)
        check_owners(vars(self), {f.name: f.default for f in fields(self)})
        check_track(self.track)
        for kind in (ConsistencySettings, Annealed, SpgSettings, GrpoSettings):
            self.part(kind)
        _ = self.weight_of_metric  # raises if a weight is not a number
        readings = readings_of(Probe.named(self.probe).name)
        if self.reading is not None and self.reading not in readings:
            raise SettingsError(
                f"reading must be {' or '.join(readings)} for probe {self.probe}, got "
                f"{self.reading}."
            )
        if self.trust is None and "trusted" in (word.partition("=")[0] for word in self.reward):
            raise SettingsError(
                "reward 'trusted' requires trust, the minimum score of a rewarded answer (for "
                "example 0.4)."
            )
        if self.tuning == "lora" and self.sharding == "learner":
            raise SettingsError("sharding must be none or auto with tuning lora, got learner.")
        if self.method == "spg":
            self.part(SpgSettings).check_copies(self.num_copies)
        if self.method == "diffu_grpo" and self.num_copies > 1:
            raise SettingsError(f"copies must be 1 with method diffu_grpo, got {self.copies}.")
        if self.method != "sft" and self.temperature == 0:
            raise SettingsError(
                "temperature must be above 0, got 0: identical completions have zero advantage."
            )
        if self.warmup >= self.updates:
            raise SettingsError(
                f"warmup must be below updates ({self.updates}), got {self.warmup}."
            )

    def is_sharded(self, processes: int) -> bool:
        """Return whether this many processes divide the weights among them."""
        return processes > 1 and self.tuning == "full" and self.sharding != "none"

    @property
    def num_copies(self) -> int:
        """Masked copies of a completion."""
        return self.copies or (1 if self.method == "diffu_grpo" else 2)

    @property
    def weight_of_metric(self) -> dict[str, float] | None:
        """The weights of the named metrics, with sum 1; None: equal weights of all metrics."""
        if self.metric_weights is None:
            return None
        weights = {}
        for entry in self.metric_weights:
            name, _, number = entry.partition("=")
            weights[name] = read_weight("metric_weights", entry, number)
        total = math.fsum(weights.values())
        if min(weights.values()) < 0 or not total > 0:
            raise SettingsError(
                "metric_weights must be at least 0, with one above 0, got "
                f"{', '.join(self.metric_weights)}."
            )
        return {name: weight / total for name, weight in weights.items()}

    @property
    def uses_reference(self) -> bool:
        """Whether the loss compares with the initial model."""
        return self.method == "diffu_grpo" and self.kl_weight > 0

    @property
    def num_rows(self) -> int:
        """Completions of one rollout, over all processes."""
        return self.prompts_per_update * self.num_generations

    def masks(self, block: int, length: int | None = None) -> MaskSettings:
        """Return how completions are masked that were generated in blocks of `block` tokens.

        The default sampler is `full` for diffu_grpo, otherwise `block_random`, or `random` if the
        completion was generated as a single block.
        """
        is_one_block = block == length and self.mask_block is None
        usual: MaskSampler = "random" if is_one_block else "block_random"
        return MaskSettings(
            mask_sampler=self.mask_sampler or ("full" if self.method == "diffu_grpo" else usual),
            copies=self.num_copies,
            block=self.mask_block or block,
            prompt_mask_ratio=self.prompt_mask_ratio,
            loss_region=self.loss_region,
        )

    def part(self, kind: Callable[..., _T]) -> _T:
        """Return the settings of one part, such as `SpgSettings`, from the fields in common."""
        names = setting_fields(kind).keys() & setting_fields(AlignSettings).keys()
        return kind(**{name: getattr(self, name) for name in names})

    def sampler(self, model: SampledModel, canvas: int) -> SamplerSettings:
        """Return the settings that generate completions on a canvas of the task's length."""
        usual = sampler_settings(
            model,
            kind=self.task,
            canvas=canvas,
            length=self.length,
            steps=self.steps,
            block=model.block_size or self.block,
        )
        return replace(usual, temperature=self.temperature)


def read_settings(path: Path | None, flags: Mapping[str, Any]) -> AlignSettings:
    """Return the settings of a YAML file and of the flags that override it."""
    values = {} if path is None else _read_yaml(path)
    return check_settings({**values, **flags})


def check_settings(values: Mapping[str, Any]) -> AlignSettings:
    """Return valid settings, or raise SettingsError."""
    return validate(AlignSettings, values)


def read_weight(field: str, entry: str, text: str) -> float:
    """Return the number in an entry such as `name=0.5`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SettingsError(f"{field} must have weights as in name=0.5, got {entry!r}.")
    return value


def record(settings: AlignSettings) -> dict[str, Any]:
    """Return the settings as values of JSON and YAML."""
    values = asdict(settings)
    paths = {name: str(value) for name, value in values.items() if isinstance(value, Path)}
    lists = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    return {**values, **paths, **lists}


def as_yaml(settings: AlignSettings) -> str:
    """Return the settings as the text of a file for `read_settings`."""
    import yaml  # type: ignore[import-untyped]

    text: str = yaml.safe_dump(record(settings), sort_keys=False)
    return text


def decisive(settings: AlignSettings) -> dict[str, Any]:
    """Return the settings that must not change when a run is resumed."""
    return {name: value for name, value in record(settings).items() if name not in FREE}


def _repeated_key(node: Any) -> str:
    """Return a key that a YAML mapping has twice, or ""."""
    pairs = node.value if type(node).__name__ == "MappingNode" else ()
    keys = [str(key.value) for key, _ in pairs]
    repeated = [key for number, key in enumerate(keys) if key in keys[:number]]
    return next(filter(None, (*repeated, *(_repeated_key(value) for _, value in pairs))), "")


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    text = read_text(path, SettingsError)
    try:
        values = yaml.safe_load(text)
        repeated = _repeated_key(yaml.compose(text, yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: an invalid date
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise SettingsError(f"config {path} is not valid YAML{line}.") from None
    if repeated:
        raise SettingsError(f"config {path} has the key {repeated!r} twice.")
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(
            f"config {path} must have lines such as `name: value`, got a {type(values).__name__}."
        )
    return {str(name): value for name, value in values.items()}
