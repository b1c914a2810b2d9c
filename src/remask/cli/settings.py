"""What several commands have flags for, and no settings class of the library holds.

The settings of sampling, of round trips, of tasks and of a collection are declared in their own
packages; `flags` makes flags of all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import typer

from remask.cli.flags import FlagsOf, UsageError
from remask.consistency.settings import ConsistencySettings
from remask.errors import InputError
from remask.sampling.settings import SamplerSettings
from remask.settings import Setting
from remask.tasks.settings import AnswerKind, TaskSettings
from remask.values import ROUNDTRIPS
from remask.verifier.settings import FittedFile, MaxForwards

Split = Literal["replicas", "layers"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
WeightFormat = Literal["full", "int8", "nf4", "fp8"]
EngineName = Literal["local", "ray"]
MetricNames = Annotated[
    str,
    Setting(
        "paper needs the extra `semantic`; core does without a sentence encoder; or metrics by "
        "name, with commas, a module:name of yours among them."
    ),
]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Which model, and where it is loaded."""

    model: Annotated[
        str, Setting("The model: tiny (the embedded one), a folder, or a hub id.", short="-m")
    ] = ""
    preset: Annotated[
        str,
        Setting(
            "Sample as the model's authors did for this task; remask models ID lists the names."
        ),
    ] = ""
    device: Annotated[
        str, Setting("auto, cpu, mps, cuda, cuda:N, several with commas (a replica each), or all.")
    ] = "auto"
    split: Annotated[
        Split,
        Setting("Of several devices: a replica on each, or the layers of one model over all."),
    ] = "replicas"
    dtype: Annotated[Precision, Setting("Number format; auto is bfloat16 on a GPU.")] = "auto"
    weights: Annotated[
        WeightFormat,
        Setting("Pack the weights into fewer bits: int8, nf4 (extra `quant`), or fp8 on Hopper."),
    ] = "full"
    compile: Annotated[
        bool,
        Setting("Compile the layers: the first minutes go there; pays for many answers on a GPU."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Who does the work."""

    engine: Annotated[
        EngineName, Setting("Who does the work: this process, or workers of a Ray cluster.")
    ] = "local"
    workers: Annotated[
        int | None,
        Setting("Workers of the cluster; one per GPU by default, else 2.", least=1, most=1_000),
    ] = None
    address: Annotated[
        str, Setting("HOST:PORT of an existing Ray cluster; one is started here by default.")
    ] = ""


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """What an answer is judged by."""

    scorer: Annotated[
        str,
        Setting(
            "roundtrips, probe, verifier, confidence, self_evaluation, editor, dise, perplexity, "
            "length, critical_count, dcocoa, tre, denoising_entropy, temporal_vote, "
            "temporal_entropy, or a module:name of yours."
        ),
    ] = ROUNDTRIPS
    metrics: MetricNames = "paper"
    threshold: Annotated[
        float | None,
        Setting("A score above it is trusted; by default the one known for these settings."),
    ] = None
    weights: Annotated[Path | None, Setting("Weights that fit wrote; uniform ones by default.")] = (
        None
    )
    certificate: Annotated[
        Path | None, Setting("A certificate that certify wrote: its threshold and weights.")
    ] = None
    fitted: FittedFile = None
    max_forwards: MaxForwards = None


# One flag for both: the format of the model's weights, and the file with those of the metrics.
ModelUnpacked = Annotated[ModelSettings, FlagsOf(kind=ModelSettings, without=("weights",))]
EitherWeights = Annotated[
    list[str] | None,
    typer.Option(
        help="int8, nf4 (extra `quant`) or fp8: pack the model's weights into fewer bits; or a "
        "file of metric weights that fit wrote; again for both."
    ),
]
UnweightedJudge = Annotated[JudgeSettings, FlagsOf(kind=JudgeSettings, without=("weights",))]
OptionalTask = Annotated[TaskSettings, FlagsOf(kind=TaskSettings, defaults={"task": ""})]
SamplerFlags = Annotated[
    dict[str, Any],
    FlagsOf(
        kind=SamplerSettings,
        only=(
            "temperature", "steps", "length", "block", "order", "reveal_threshold",
            "commit_gap", "edit_threshold",
        ),
        overrides="the preset",
    ),
]  # fmt: skip
TripSettings = Annotated[ConsistencySettings, FlagsOf(kind=ConsistencySettings, without=("tail",))]

Prompt = Annotated[str | None, typer.Argument(help="The question, as text.")]
Records = Annotated[Path, typer.Argument(help="Records that collect wrote, with their manifest.")]
Kind = Annotated[
    AnswerKind | None,
    Setting("How to read the final result: number by default, or as --task does."),
]
ProblemSeed = Annotated[
    int, Setting("Seed of every random draw; with --task also the number of the problem.")
]
Out = Annotated[Path, Setting("The file to write.", short="-o")]
Force = Annotated[bool, Setting("Replace what is there already; never an input of this command.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output and nothing else.")
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of sentences.")]


def require_model(model: ModelSettings) -> None:
    """Refuse a command without a model: none is the obvious one."""
    if not model.model:
        raise UsageError(
            "no model is named: add --model tiny for the embedded one, --model FOLDER, "
            "or --model with a hub id such as GSAI-ML/LLaDA-8B-Instruct"
        )


def with_weights(
    model: ModelSettings, judge: JudgeSettings, words: list[str] | None
) -> tuple[ModelSettings, JudgeSettings]:
    """Return the settings with what --weights says: a format, a file, or one of each."""
    formats = [word for word in words or [] if word in get_args(WeightFormat)]
    files = [word for word in words or [] if word not in formats]
    if len(formats) > 1 or len(files) > 1:
        raise UsageError(
            f"--weights {' --weights '.join(words or [])} is more than one format of the model's "
            "weights and one file of metric weights"
        )
    # Of another scorer the file does not matter: its weights are refused.
    if files and judge.scorer == ROUNDTRIPS and not Path(files[0]).exists():
        known = ", ".join(get_args(WeightFormat))
        raise InputError(
            f"--weights is none of {known}, nor a file that fit wrote: cannot use {files[0]}: No "
            "such file or directory."
        )
    if formats:
        model = replace(model, weights=cast(WeightFormat, formats[0]))
    return model, replace(judge, weights=Path(files[0])) if files else judge


def require_pool(model: ModelSettings, sampler: Mapping[str, Any], size: int, flag: str) -> None:
    """Refuse a command without a model, or whose samples would all be the same.

    That is known before a model is loaded. `flag` asks for so many samples.
    """
    require_model(model)
    if sampler.get("temperature") == 0 and size > 1:
        raise UsageError(
            f"--temperature 0 draws the same answer every time, and {flag} is {size}: leave "
            f"--temperature out, give one above 0, or {flag} 1"
        )
