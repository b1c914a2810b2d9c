"""One schema for a training: the YAML file, the flags and the record of a run have the same fields.

A flag overrides the file. Whatever does not fit is refused in one sentence before a model is
loaded. The defaults are those of the Sandwiched Policy Gradient (arXiv:2510.09541) with the group
size and the learning rate of the paper. Not here: what a field does; see the module that reads it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from remask.align.method_settings import (
    Anchor,
    Annealed,
    GrpoSettings,
    LossRegion,
    MaskSampler,
    MaskSettings,
    NegativeBranch,
    RegressionSettings,
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
)  # fmt: skip
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

# What may change between a run and its continuation: what decides no number, or its last bit alone
# (micro_batch: and what dropout draws), and what a guard that has stopped the run may ask to be
# changed.
FREE = frozenset({
    "out", "device", "data", "track", "sharding", "checkpoint_every", "show_every", "micro_batch",
    "gradient_checkpointing", "learning_rate", "max_grad_norm", "max_skipped", "collapse_window",
    "collapse_reward_ratio", "collapse_length_ratio", "collapse_likelihood_fall",
    "collapse_accuracy_fall",
})  # fmt: skip
_INSTEAD = {  # of what needs a copy of the start
    "scored_by start": "scored_by live", "anchor start": "anchor rollout",
    "start_kl": "start_kl 0", "kl_weight": "kl_weight 0",
}  # fmt: skip
WARMUP = 10  # updates of the regression's warm-up, or a tenth of all where that is less


@dataclass(frozen=True, kw_only=True)
class AlignSettings:
    """What to train, on what, for what, for how long. A field with a help line has a flag."""

    model: Annotated[str, Setting("tiny, a folder, or a hub id.", short="-m")]
    task: Annotated[str, Setting("Whose training problems: wordmath, gsm8k, ..., module:name.")]
    out: Annotated[Path, Setting("Folder for log, checkpoints and models.", short="-o")]
    level: Annotated[str, Setting("Level of the task; the first by default.")] = ""
    data: Annotated[Path | None, Setting("Rows of a public benchmark: a file or folder.")] = None
    wording: WordingName = "llada"
    allow_execution: bool = False

    method: Annotated[
        Literal["spg", "diffu_grpo", "regression", "sft"], Setting("How to learn.")
    ] = "spg"
    reward: Annotated[
        tuple[str, ...],
        Setting(
            "consistency, lexicographic, trusted, outcome, ungated, placebo, oracle, soft_format, "
            "strict_format, tag_count, whole_number_answer, boxed_format or module:name, several "
            "with commas; name=0.5 weighs."
        ),
    ] = ("consistency",)
    updates: Annotated[int, Setting("Optimizer updates, T.", least=1, most=_UPDATES)] = 6000
    prompts_per_update: Annotated[
        int, Setting("Prompts of a rollout, of all processes.", least=1, most=_PROBLEMS)
    ] = 16
    num_generations: Annotated[
        int, Setting("Completions of each prompt.", least=2, most=10_000)
    ] = 8
    inner_updates: Annotated[
        int, Setting("Updates on the same completions, mu.", least=1, most=_UPDATES)
    ] = 4
    micro_batch: Annotated[
        int, Setting("Rows that learn at once, with gradients.", least=1, most=_PROBLEMS)
    ] = 8

    # 2 by default, 1 of diffu_grpo
    copies: Annotated[
        int | None, Setting("Masked copies of a completion, M.", least=1, most=1_000)
    ] = None
    mask_sampler: MaskSampler | None = None  # block_random, or full of diffu_grpo; see `masks`
    mask_block: Annotated[int | None, Setting(least=1, most=2**20)] = (
        None  # that of the sampler by default
    )
    prompt_mask_ratio: float = 0.15
    loss_region: LossRegion = "all_masked"
    negative: NegativeBranch = "mixture"
    renyi_order: float = 1.5
    upper_weight: float = 0.5
    negative_floor: float | None = None
    ratio_clip: float | None = None
    start_kl: float = 0.0
    never_down: bool = False  # right answers; see `restraints`
    clip: float = 0.5
    kl_weight: float = 0.04
    beta: float = 1.0
    anchor: Anchor = "rollout"
    centred: bool = True

    length: Length | None = None  # None: the canvas that the task asks for
    steps: Steps | None = None  # None: a token a step
    block: Block | None = None  # None: the model's preset
    temperature: Temperature = 0.9

    scorer: Annotated[
        Literal["roundtrips", "probe", "verifier"],
        Setting("What scores completions: round trips, one probe or the label-free verifier."),
    ] = "roundtrips"
    probe: Annotated[
        str, Setting("Which probe scores, as critical, halves8 or stratified50x4.")
    ] = "critical"
    # Of that probe; None: the one that its value is made of.
    reading: Annotated[Which | None, Setting("What of it counts, as response_min.")] = None
    trips: Annotated[int, Setting("Round trips per completion.")] = 4
    rebuild_steps: Annotated[int, Setting("Denoising steps of a round trip.")] = 16
    mask_ratio: float = 0.9
    mask_design: MaskDesign = "independent"
    metrics: Metrics = "paper"
    metric_weights: tuple[str, ...] | None = None  # as token_accuracy=2, others 0; None: all alike
    scored_by: Annotated[
        Literal["live", "start"],
        Setting("Who scores: the model as it learns (live), or as it was at first (start)."),
    ] = "live"
    alpha_min: float = 0.5
    alpha_max: float = 1.0
    base_reward: float = 1.5
    right_reward: float = 2.0
    rank_reward: NotNegative = 0.5  # what the best of the right ones gets above the worst
    # Least score of a right answer that is paid; of placebo and oracle None: they are ranked.
    trust: Annotated[float | None, Setting(least=0, most=1)] = None

    tuning: Annotated[
        Literal["lora", "full"], Setting("Adapters (lora) or all weights (full).")
    ] = "lora"
    lora_rank: Annotated[int, Setting(least=1, most=2**16)] = 128
    lora_alpha: Positive = 64.0
    lora_dropout: Portion = 0.05
    lora_targets: tuple[str, ...] = ("auto",)
    learning_rate: Annotated[float, Setting("Peak learning rate of AdamW.", above=0)] = 1e-6
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    # Updates; see `num_warmup`.
    warmup: Annotated[int | None, Setting(least=0, most=_UPDATES)] = None
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
    show_every: CountOrNone = 10  # rollouts between completions shown
    # Updates in a row whose loss or gradient is not finite.
    max_skipped: Annotated[int, Setting(least=1, most=_UPDATES)] = 10
    collapse_window: CountOrNone = 20  # rollouts that are averaged
    collapse_reward_ratio: Share = 0.25  # of the best average so far
    collapse_length_ratio: Annotated[float, Setting(above=1)] = 4.0  # of the first, or over it
    collapse_likelihood_fall: Positive = 0.5  # nats per token, of what is to become likelier
    collapse_accuracy_fall: Positive = 0.1  # of validation, from its best
    # What several processes divide: the learner by default where all weights learn.
    sharding: Literal["auto", "none", "learner", "all"] = "auto"
    track: Annotated[
        tuple[str, ...],
        Setting("tensorboard, wandb or both; none; auto: TensorBoard where it is installed."),
    ] = (AUTO,)
    device: Annotated[str, Setting("auto, cpu, mps, cuda or cuda:N.")] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    seed: Seed = 0

    def __post_init__(self) -> None:
        """Refuse what each field allows and all together do not."""
        self.masks(self.mask_block or 1)
        self.part(ConsistencySettings)
        check_owners(vars(self), {f.name: f.default for f in fields(self)})
        check_track(self.track)
        self._check_probe()
        _ = self.weight_of_metric  # raises where one is no number
        self._check_sharding()
        self._check_trust()
        self.part(Annealed)
        self.part(RegressionSettings)
        if self.method == "spg":
            self.part(SpgSettings).check_copies(self.num_copies)
        if self.method == "diffu_grpo":
            self.part(GrpoSettings)
            if self.num_copies > 1:
                raise SettingsError(
                    f"copies {self.num_copies} is more than diffu_grpo has; leave copies out."
                )
        if self.method != "sft" and self.temperature == 0:
            raise SettingsError(
                "temperature 0 draws the same completion every time, and equal ones teach nothing; "
                "use 0.9."
            )
        if self.num_warmup >= self.updates:
            raise SettingsError(f"warmup {self.num_warmup} is not below updates {self.updates}.")

    def _check_probe(self) -> None:
        readings = readings_of(Probe.named(self.probe).name)
        if self.reading is not None and self.reading not in readings:
            raise SettingsError(
                f"reading {self.reading} is none of {self.probe}; use {' or '.join(readings)}."
            )

    def _check_trust(self) -> None:
        if self.trust is None and "trusted" in (word.partition("=")[0] for word in self.reward):
            raise SettingsError(
                "reward trusted has no trust, the least score of a right answer that is paid; set "
                "trust, for instance to 0.4."
            )
        if self.trust is not None and self.rank_reward != AlignSettings.rank_reward:
            raise SettingsError(
                f"rank_reward {self.rank_reward} pays by ranks, and trust {self.trust} by scores; "
                "leave one of them out."
            )

    def _check_sharding(self) -> None:
        if self.tuning == "lora" and self.sharding == "learner":
            raise SettingsError(
                "sharding learner divides weights that all learn, and tuning is lora; use "
                "sharding all, which divides them for writing too, or leave sharding out."
            )
        whole = {
            "scored_by start": self.scored_by == "start", "anchor start": self.anchor == "start",
            "start_kl": self.start_kl > 0,
            "kl_weight": self.method == "diffu_grpo" and self.kl_weight > 0,
        }  # fmt: skip
        for what, is_so in whole.items():
            if is_so and self.tuning == "full" and self.sharding == "all":
                raise SettingsError(
                    f"{what} needs a whole copy of the model, and sharding all has none; use "
                    f"sharding learner, or {_INSTEAD[what]}."
                )
        penalised = self.method == "diffu_grpo" and self.kl_weight > 0
        if self.tuning == "lora" and self.sharding == "all" and penalised:
            raise SettingsError(
                f"kl_weight {self.kl_weight} needs a pass without adapters between two with them, "
                "which sharding all cannot make; set kl_weight 0, or leave sharding out."
            )

    def sharding_of(self, processes: int) -> str:
        """Return what so many processes divide: `none`, the `learner`, or `all`."""
        if processes == 1:
            return "none"
        if self.sharding == "auto":
            return "learner" if self.tuning == "full" else "none"
        return self.sharding

    @property
    def num_copies(self) -> int:
        """M, as the method has it by default."""
        return self.copies or (1 if self.method == "diffu_grpo" else 2)

    @property
    def num_warmup(self) -> int:
        """Updates of the warm-up, as the method has it by default."""
        if self.warmup is not None:
            return self.warmup
        return min(WARMUP, self.updates // 10) if self.method == "regression" else 0

    @property
    def weight_of_metric(self) -> dict[str, float] | None:
        """The weights that metrics were given, by name, divided by their sum; None: all alike."""
        if self.metric_weights is None:
            return None
        weights = {}
        for entry in self.metric_weights:
            name, _, number = entry.partition("=")
            weights[name] = read_weight("metric_weights", entry, number)
        total = math.fsum(weights.values())
        if min(weights.values()) < 0 or not total > 0:
            raise SettingsError(
                f"metric_weights {', '.join(self.metric_weights)} must be 0 or more, and not all 0."
            )
        return {name: weight / total for name, weight in weights.items()}

    @property
    def uses_reference(self) -> bool:
        """Whether updates look at the model as it was before the first of them."""
        return {
            "spg": self.start_kl > 0,
            "diffu_grpo": self.kl_weight > 0,
            "regression": self.anchor == "start",
        }.get(self.method, False)

    @property
    def uses_rollout_model(self) -> bool:
        """Whether later updates on a rollout look at the model that wrote it."""
        return {
            "spg": self.ratio_clip is not None,
            "diffu_grpo": True,
            "regression": self.anchor == "rollout",
        }.get(self.method, False)

    @property
    def num_rows(self) -> int:
        """Completions of one rollout, of all processes."""
        return self.prompts_per_update * self.num_generations

    def masks(self, block: int, length: int | None = None) -> MaskSettings:
        """Return how completions that were written in blocks of so many are masked.

        On a canvas that was written as one block there are none to choose from: there masks are
        random, unless another sampler was asked for.
        """
        whole = block == length and self.mask_block is None
        usual: MaskSampler = "random" if whole else "block_random"
        return MaskSettings(
            mask_sampler=self.mask_sampler or ("full" if self.method == "diffu_grpo" else usual),
            copies=self.num_copies,
            block=self.mask_block or block,
            prompt_mask_ratio=self.prompt_mask_ratio,
            loss_region=self.loss_region,
        )

    def part(self, kind: Callable[..., _T]) -> _T:
        """Return the settings of one part (SpgSettings, Annealed, ...) whose fields these have too.

        Fields that are not among these keep their defaults.
        """
        names = setting_fields(kind).keys() & setting_fields(AlignSettings).keys()
        return kind(**{name: getattr(self, name) for name in names})

    def sampler(self, model: SampledModel, canvas: int) -> SamplerSettings:
        """Return how completions are written where solutions of the task need so many tokens."""
        usual = sampler_settings(
            model, kind=self.task, canvas=canvas, length=self.length, steps=self.steps,
            block=model.block_size or self.block,
        )  # fmt: skip
        return replace(usual, temperature=self.temperature)


def read_settings(path: Path | None, flags: Mapping[str, Any]) -> AlignSettings:
    """Return the settings of a YAML file and of the flags that override it."""
    values = {} if path is None else _read_yaml(path)
    return check_settings({**values, **flags})


def check_settings(values: Mapping[str, Any]) -> AlignSettings:
    """Return the settings, or raise one sentence that names the field, the value and a remedy.

    The rate of the regression falls unless the mapping says otherwise: what is fitted to one
    rollout is noise to the next, and less of it as the steps become small.
    """
    settings = validate(AlignSettings, values)
    if settings.method != "regression":
        return settings
    return validate(AlignSettings, {"schedule": "linear", **values})


def read_weight(field: str, entry: str, text: str) -> float:
    """Return the number of `name=0.5`, or raise."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SettingsError(f"{field} {entry!r} has no number for a weight; write name=0.5.")
    return value


def record(settings: AlignSettings) -> dict[str, Any]:
    """Return the settings as JSON and YAML have them."""
    values = asdict(settings)
    paths = {name: str(value) for name, value in values.items() if isinstance(value, Path)}
    lists = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    return {**values, **paths, **lists}


def as_yaml(settings: AlignSettings) -> str:
    """Return the settings as a file that `read_settings` reads."""
    import yaml  # type: ignore[import-untyped]

    text: str = yaml.safe_dump(record(settings), sort_keys=False)
    return text


def decisive(settings: AlignSettings) -> dict[str, Any]:
    """Return the settings that must not change when a run is continued."""
    named = {name: value for name, value in record(settings).items() if name not in FREE}
    return {**named, "warmup": settings.num_warmup}


def _twice(node: Any) -> str:
    """Return a key that a YAML mapping has twice, of which YAML keeps the last; "" for none."""
    pairs = node.value if type(node).__name__ == "MappingNode" else ()
    keys = [str(key.value) for key, _ in pairs]
    doubled = [key for number, key in enumerate(keys) if key in keys[:number]]
    return next(filter(None, (*doubled, *(_twice(value) for _, value in pairs))), "")


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    text = read_text(path, SettingsError)
    try:
        values = yaml.safe_load(text)
        twice = _twice(yaml.compose(text, yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 31st of June
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise SettingsError(f"config {path} is not valid YAML{line}; correct it.") from None
    if twice:
        raise SettingsError(f"config {path} has {twice!r} twice; remove one.")
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(
            f"config {path} holds {type(values).__name__}, not fields; write `name: value` lines."
        )
    return {str(name): value for name, value in values.items()}
