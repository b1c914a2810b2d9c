"""The options of the command line, each declared once, and what they mean together.

A flag is the settings field of the same name with hyphens; its help line is here and nowhere else.
Torch is imported inside functions only: `remask --help` must answer at once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from remask.cli.questions import Question as Question
from remask.cli.questions import Rows as Rows
from remask.cli.questions import UsageError as UsageError
from remask.cli.questions import answer as answer
from remask.cli.questions import question as question
from remask.collect.settings import FREE_BASELINES, choose_baselines
from remask.consistency.settings import ConsistencySettings
from remask.consistency.settings import MaskDesign as MaskDesign
from remask.consistency.settings import MetricSet as MetricSet
from remask.decide.settings import BUDGET
from remask.sampling.settings import SamplerSettings
from remask.settings import Setting, setting_fields
from remask.tasks.settings import AnswerKind as AnswerKind
from remask.tasks.settings import Shots as _Shots
from remask.tasks.settings import WordingName as WordingName

if TYPE_CHECKING:
    from remask.consistency.settings import ConsistencySettings
    from remask.denoisers.base import Denoiser
    from remask.sampling.settings import SamplerSettings

TailName = Literal["masked", "visible"]
SplitName = Literal["train", "validation", "test"]
OrderName = Literal[
    "low_confidence", "random", "origin", "maskgit_plus", "topk_margin", "entropy"
]  # fmt: skip
MethodName = Literal["isotonic", "platt"]
StudyChoice = Literal[
    "diagnosis", "correction", "ablation", "geometry", "spurious", "cost", "scaling"
]
LayoutName = Literal["replicas", "layers"]
PrecisionName = Literal["auto", "float32", "bfloat16", "float16"]
EngineName = Literal["local", "ray"]


_BOUNDS: dict[str, Setting] = {
    **{n: f.setting for n, f in setting_fields(SamplerSettings).items()},
    **{n: f.setting for n, f in setting_fields(ConsistencySettings).items()},
    "budget": BUDGET,
    "shots": get_args(_Shots)[1],
    "problems": Setting(least=1, most=1_000_000),
    "samples": Setting(least=1, most=1_000),
    "scored": Setting(least=0, most=1_000),
    "batch": Setting(least=1, most=100_000),
    "workers": Setting(least=1, most=1_000),
}


def _option(help_line: str, *names: str, limit: str = "") -> typer.models.OptionInfo:
    """Return a flag; `limit` names what bounds its number."""
    check = within(limit) if limit else None
    made: typer.models.OptionInfo = typer.Option(*names, help=help_line, callback=check)
    return made


def within(limit: str) -> Callable[[typer.CallbackParam, Any], Any]:
    """Return what refuses a number beyond its limit, with the flag and the value."""

    def check(param: typer.CallbackParam, value: Any) -> Any:
        broken = "" if value is None else _BOUNDS[limit].broken_by(value)
        if broken:
            raise UsageError(f"{param.opts[0]} is {value}; it must be {broken}")
        return value

    return check


Model = Annotated[
    str, _option("The model: tiny (the embedded one), a folder, or a hub id.", "--model", "-m")
]
Device = Annotated[
    str, _option("auto, cpu, cuda, cuda:N, several with commas (a replica each), or all.")
]
Layout = Annotated[
    LayoutName,
    _option("Of several devices: a replica on each, or the layers of one model over all."),
]
OneDevice = Annotated[str, _option("auto, cpu, cuda or cuda:N.", "--device")]
Precision = Annotated[PrecisionName, _option("Number format; auto is bfloat16 on CUDA.", "--dtype")]
Engine = Annotated[
    EngineName, _option("Who does the work: this process, or workers of a Ray cluster.", "--engine")
]
Workers = Annotated[
    int | None, _option("Workers of the cluster; one per GPU by default, else 2.", limit="workers")
]
Address = Annotated[
    str, _option("HOST:PORT of an existing Ray cluster; one is started here by default.")
]
NoDevice = Annotated[
    bool, _option("Leave the devices out: answers at once, without torch.", "--no-device")
]
Json = Annotated[bool, _option("Print JSON on standard output and nothing else.", "--json")]
JsonLines = Annotated[bool, _option("Print JSON lines instead of sentences.", "--json")]
Seed = Annotated[int, _option("Seed of every random draw.")]
ProblemSeed = Annotated[
    int, _option("Seed of every random draw; with --task also the number of the problem.")
]

Prompt = Annotated[str | None, typer.Argument(help="The question, as text.")]
Answer = Annotated[str | None, typer.Argument(help="The answer, as text; - reads it from stdin.")]
AnswerText = Annotated[str | None, _option("The answer, as text.", "--answer")]
AnswerFile = Annotated[Path | None, _option("A file that holds the answer; - is stdin.")]
TaskName = Annotated[
    str,
    _option("Ask a test problem of wordmath, countdown, choice, pycode or a benchmark.", "--task"),
]
RequiredTask = Annotated[
    str,
    _option(
        "wordmath, countdown, choice or pycode; or gsm8k, math, math500, arc, gpqa, humaneval, "
        "mbpp.",
        "--task",
    ),
]
Data = Annotated[
    Path | None,
    _option("Rows of a public benchmark: a file, or a folder of splits; the hub by default."),
]
Wording = Annotated[WordingName, _option("Whose official prompt asks a public benchmark.")]
Shots = Annotated[
    int, _option("Worked examples to show, rows of the benchmark's train split.", limit="shots")
]
AllowExecution = Annotated[
    bool,
    _option(
        "Let grading run the model's code (humaneval, mbpp): no security boundary.",
        "--allow-execution",
    ),
]
Level = Annotated[str, _option("Level of the task, as in easy or hard; the first by default.")]
# The one command that draws problems has one flag for both splits; no word belongs to two.
Splits = Annotated[
    list[str] | None,
    typer.Option(
        "--split",
        metavar=f"<{'|'.join((*get_args(SplitName), *get_args(LayoutName)))}>",
        help="Which problems of the task, test by default; again for replicas or layers: of "
        "several devices a replica on each, or the layers of one model over all.",
    ),
]
Kind = Annotated[
    AnswerKind | None,
    _option("How to read the final result: number by default, or as --task does."),
]

Preset = Annotated[
    str,
    _option("Sample as the model's authors did for this task; remask models ID lists the names."),
]
Temperature = Annotated[
    float | None, _option("Noise of sampling; the model's preset by default.", limit="temperature")
]
Steps = Annotated[int | None, _option("Sampling steps; the preset by default.", limit="steps")]
Length = Annotated[
    int | None, _option("Tokens of the canvas; the preset by default.", limit="length")
]
Block = Annotated[
    int | None, _option("Tokens written at a time; the preset by default.", limit="block")
]
Order = Annotated[
    OrderName | None, _option("Which predictions are revealed first; the preset by default.")
]
RevealThreshold = Annotated[
    float | None,
    _option("Reveal at once all predictions at least this probable; the preset by default."),
]

EditThreshold = Annotated[
    float | None,
    _option("Overwrite tokens where another is more probable than this (LLaDA2.1)."),
]

Trips = Annotated[int, _option("Round trips per answer.", limit="trips")]
RebuildSteps = Annotated[int, _option("Denoising steps of a round trip.", limit="rebuild_steps")]
MaskRatio = Annotated[str, _option("Share of tokens masked again, 0 to 1, or uniform.")]
Design = Annotated[MaskDesign, _option("How the masked tokens are chosen.", "--mask-design")]
Tail = Annotated[
    TailName, _option("Mask what follows the end of an answer too, or give its length away.")
]
RebuildTemperature = Annotated[
    float, _option("Noise of the rebuild; 0 is greedy.", limit="rebuild_temperature")
]
Metrics = Annotated[
    MetricSet, _option("paper needs the extra `semantic`; core does without a sentence encoder.")
]
Threshold = Annotated[float | None, _option("A score above it is trusted; the preset by default.")]
Budget = Annotated[int, _option("Most answers to draw.", limit="budget")]

Out = Annotated[Path, _option("The file to write.", "--out", "-o")]
OutFolder = Annotated[Path, _option("The folder to write into.", "--out", "-o")]
Force = Annotated[
    bool, _option("Replace what is there already; never an input of this command.", "--force")
]
Source = Annotated[Path, typer.Argument(help="Rows to score, .jsonl or .parquet.")]
PromptColumn = Annotated[str, _option("Column with the question.")]
AnswerColumn = Annotated[str, _option("Column with the answer.")]
Batch = Annotated[int, _option("Rows between two writes to disk.", limit="batch")]
Sources = Annotated[
    list[Path], typer.Argument(help="Records that collect wrote: files, or one folder of them.")
]
StudyName = Annotated[StudyChoice, typer.Argument(help="Which study.")]
StudyRecords = Annotated[
    list[Path],
    typer.Argument(help="A folder or file of records; for scaling several, one for each model."),
]
StudyOut = Annotated[
    Path | None, _option("Also write tables (Markdown, CSV) and plots (SVG) here.", "--out", "-o")
]
StudyModel = Annotated[
    str, _option("The model that wrote the records; geometry then tells how it contracts.", "-m")
]
Title = Annotated[str, _option("Title of the page.")]
Plots = Annotated[bool, _option("Write every plot beside it too, as SVG and CSV.", "--plots")]
Records = Annotated[Path, typer.Argument(help="Records that collect wrote, with their manifest.")]
RecordedMetrics = Annotated[
    MetricSet | None, _option("Metric set; the one collected with by default.", "--metrics")
]
Columns = Annotated[
    str,
    _option(
        "Combine these instead of metrics: confidence, confidence_canvas, vote, agreement, and "
        "self_evaluation or editor where they were collected."
    ),
]
WeightsFile = Annotated[
    Path | None, _option("Weights that fit wrote; uniform ones by default.", "--weights")
]
CertificateFile = Annotated[
    Path | None,
    _option("A certificate that certify wrote: its threshold and weights.", "--certificate"),
]
Risk = Annotated[float, _option("Largest share of wrong answers among the accepted.")]
Confidence = Annotated[float, _option("How sure the promise is.")]
CertifiedBudget = Annotated[
    int,
    _option(
        "Samples drawn until one is accepted, for rejection sampling.", "--budget", limit="budget"
    ),
]
CalibrationMethod = Annotated[MethodName, _option("Shape of the curve.", "--method")]
Problems = Annotated[int, _option("How many problems.", limit="problems")]
Samples = Annotated[int, _option("Answers drawn per problem.", limit="samples")]
Scored = Annotated[
    int,
    _option(
        "How many of them are verified: by round trips, and baselines that cost.", limit="scored"
    ),
]
Baselines = Annotated[
    str | None,
    _option(
        "What else scores answers: confidence, agreement and vote cost nothing and are always "
        "there; self_evaluation and editor ask the model again."
    ),
]
RetryErrors = Annotated[
    bool, _option("Ask again what could not be asked before.", "--retry-errors")
]


def share(text: str) -> float | Literal["uniform"]:
    """Return a mask ratio as the settings want it."""
    if text == "uniform":
        return "uniform"
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--mask-ratio {text!r} is neither a number nor uniform") from None


def shares(text: str) -> dict[str, float]:
    """Return {"wordmath": 0.4, ...} from "wordmath=0.4,..."."""
    try:
        pairs = [part.split("=") for part in text.split(",") if part]
        return {name.strip(): float(value) for name, value in pairs}
    except ValueError:
        message = f"--mix {text!r} is not of the form wordmath=0.4,choice=0.6"
        raise UsageError(message) from None


def baselines(text: str | None, samples: int) -> tuple[str, ...]:
    """Return the baselines that were named, or those that come by themselves."""
    if text is None:
        return FREE_BASELINES
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    lonely = [name for name in names if name in ("vote", "agreement") and samples == 1]
    if lonely:
        raise UsageError(f"--baselines {lonely[0]} compares samples; add --samples with 2 or more")
    return choose_baselines(names)


def splits(given: list[str] | None) -> tuple[SplitName, LayoutName]:
    """Return which problems are drawn, and how a model lies on several devices."""
    words, known = given or [], (get_args(SplitName), get_args(LayoutName))
    for word in words:
        if word not in (*known[0], *known[1]):
            raise UsageError(f"--split {word!r} is none of {', '.join((*known[0], *known[1]))}")
    problems, layouts = ([word for word in words if word in kind] for kind in known)
    if len(problems) > 1 or len(layouts) > 1:
        raise UsageError(
            f"--split {' --split '.join(words)} is more than one choice of problems and one of "
            "devices"
        )
    return cast(SplitName, (*problems, "test")[0]), cast(LayoutName, (*layouts, "replicas")[0])


def require_model(model: str) -> None:
    """Refuse a command without a model: none is the obvious one."""
    if not model:
        raise UsageError(
            "no model is named: add --model tiny for the embedded one, --model FOLDER, "
            "or --model with a hub id such as GSAI-ML/LLaDA-8B-Instruct"
        )


def require_pool(model: str, temperature: float | None, size: int, flag: str) -> None:
    """Refuse a command without a model, or whose samples would all be the same.

    That is known before a model is loaded. `flag` asks for so many samples.
    """
    require_model(model)
    if temperature == 0 and size > 1:
        raise UsageError(
            f"--temperature 0 draws the same answer every time, and {flag} is {size}: leave "
            f"--temperature out, give one above 0, or {flag} 1"
        )


def consistency(
    mask_ratio: str,
    mask_design: MaskDesign,
    trips: int,
    rebuild_steps: int,
    rebuild_temperature: float,
    tail: TailName = "masked",
) -> "ConsistencySettings":
    """Return the settings of the round trips."""
    from remask.consistency.settings import ConsistencySettings

    return ConsistencySettings(
        mask_ratio=share(mask_ratio),
        mask_design=mask_design,
        tail=tail,
        trips=trips,
        rebuild_steps=rebuild_steps,
        rebuild_temperature=rebuild_temperature,
    )


def sampler(
    denoiser: "Denoiser",
    asked: Question,
    *,
    temperature: float | None,
    steps: int | None,
    length: int | None = None,
    block: int | None = None,
    order: OrderName | None = None,
    reveal_threshold: float | None = None,
    edit_threshold: float | None = None,
) -> "SamplerSettings":
    """Return the sampler for what is asked, with the flags that were given."""
    from remask.sampling.settings import sampler_settings

    return sampler_settings(
        denoiser, kind=asked.kind if asked.task is None else asked.task.name, canvas=asked.canvas,
        length=length, steps=steps, block=block, temperature=temperature, order=order,
        reveal_threshold=reveal_threshold, edit_threshold=edit_threshold,
    )  # fmt: skip
