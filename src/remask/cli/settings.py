"""What several commands have flags for, and no settings class of the library holds.

The settings of sampling, of round trips, of tasks and of a collection are declared in their own
packages; `flags` makes flags of all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from remask.cli.flags import FlagsOf, UsageError
from remask.consistency.settings import ConsistencySettings
from remask.sampling.settings import SamplerSettings
from remask.settings import Setting
from remask.tasks.settings import AnswerKind, TaskSettings
from remask.values import ROUNDTRIPS
from remask.verifier.settings import FittedFile, MaxForwards

Split = Literal["replicas", "layers"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]
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
            "length, or a module:name of yours."
        ),
    ] = ROUNDTRIPS
    metrics: MetricNames = "paper"
    threshold: Annotated[
        float | None,
        Setting("A score above it is trusted; the preset's by default."),
    ] = None
    weights: Annotated[Path | None, Setting("Weights that fit wrote; uniform ones by default.")] = (
        None
    )
    certificate: Annotated[
        Path | None, Setting("A certificate that certify wrote: its threshold and weights.")
    ] = None
    fitted: FittedFile = None
    max_forwards: MaxForwards = None


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
