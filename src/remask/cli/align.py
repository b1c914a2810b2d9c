"""The command that trains with the score as a reward."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from remask.cli import flags as opt
from remask.cli.app import app, print_json

Method = Literal["spg", "diffu_grpo", "sft"]
Tuning = Literal["lora", "full"]
_GROUPS = {"lora": "adapters", "full": "all weights"}


# Flags that are no settings; the others have the names of the settings that they override.
_OWN = {"config", "set_", "resume", "dry_run", "processes", "tflops", "as_json"}


def _flag(help_line: str, *names: str) -> Any:
    return typer.Option(*names, help=help_line, show_default=False)


Model = Annotated[str | None, _flag("tiny, a folder, or a hub id.", "--model", "-m")]
Task = Annotated[str | None, _flag("Whose training problems: wordmath, gsm8k, ...")]
Out = Annotated[Path | None, _flag("Folder for log, checkpoints and models.", "--out", "-o")]
Config = Annotated[Path | None, _flag("YAML file of settings; flags override it.")]
Level = Annotated[str | None, _flag("Level of the task; the first by default.")]
Data = Annotated[Path | None, _flag("Rows of a public benchmark: a file or folder.")]
MethodName = Annotated[Method | None, _flag("How to learn; spg by default.", "--method")]
Reward = Annotated[
    str | None,
    _flag(
        "consistency (default), outcome, ungated, soft_format, strict_format, tag_count, "
        "whole_number_answer, boxed_format or module:name; several with commas, name=0.5 "
        "weighs."
    ),
]
Updates = Annotated[int | None, _flag("Optimizer updates, T.")]
Rate = Annotated[float | None, _flag("Peak learning rate of AdamW.", "--learning-rate")]
Prompts = Annotated[
    int | None, _flag("Prompts of a rollout, of all processes.", "--prompts-per-update")
]
Group = Annotated[int | None, _flag("Completions of each prompt.", "--num-generations")]
Inner = Annotated[int | None, _flag("Updates on the same completions, mu.", "--inner-updates")]
Rows = Annotated[int | None, _flag("Rows that learn at once; less memory.", "--micro-batch")]
Copies = Annotated[int | None, _flag("Masked copies of a completion, M.")]
TuningName = Annotated[
    Tuning | None, _flag("Adapters (lora, the default) or all (full).", "--tuning")
]
Length = Annotated[int | None, _flag("Tokens of the canvas.")]
Steps = Annotated[int | None, _flag("Sampling steps.")]
Block = Annotated[int | None, _flag("Tokens written at a time.")]
Temperature = Annotated[float | None, _flag("Noise of sampling; 0.9 by default.")]
Trips = Annotated[int | None, _flag("Round trips per completion.")]
RebuildSteps = Annotated[int | None, _flag("Denoising steps of a round trip.")]
Metrics = Annotated[
    opt.MetricSet | None, _flag("paper (default, needs the extra `semantic`) or core.")
]
EvalEvery = Annotated[int | None, _flag("Updates between validations; 0: never.")]
EvalProblems = Annotated[int | None, _flag("Validation problems.")]
CheckpointEvery = Annotated[int | None, _flag("Updates between checkpoints.")]
Seed = Annotated[int | None, _flag("Seed of every random draw.")]
Device = Annotated[str | None, _flag("auto, cpu, cuda or cuda:N.")]
More = Annotated[
    list[str] | None, _flag("Any other setting, as in renyi_order=1.0; again for more.", "--set")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print memory and time; train nothing.")]
Processes = Annotated[
    int, typer.Option(help="Of a dry run: how many train.", callback=opt.within("workers"))
]
Speed = Annotated[
    float,
    typer.Option(
        "--tflops", help="Of a dry run: speed of a process, in TFLOP/s.", min=0.001, max=1e9
    ),
]


@app.command()
def align(
    context: typer.Context,
    model: Model = None,
    task: Task = None,
    out: Out = None,
    config: Config = None,
    level: Level = None,
    data: Data = None,
    method: MethodName = None,
    reward: Reward = None,
    updates: Updates = None,
    learning_rate: Rate = None,
    prompts_per_update: Prompts = None,
    num_generations: Group = None,
    inner_updates: Inner = None,
    micro_batch: Rows = None,
    copies: Copies = None,
    tuning: TuningName = None,
    length: Length = None,
    steps: Steps = None,
    block: Block = None,
    temperature: Temperature = None,
    trips: Trips = None,
    rebuild_steps: RebuildSteps = None,
    metrics: Metrics = None,
    eval_every: EvalEvery = None,
    eval_problems: EvalProblems = None,
    checkpoint_every: CheckpointEvery = None,
    seed: Seed = None,
    device: Device = None,
    set_: More = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    processes: Processes = 1,
    tflops: Speed = 400.0,
    as_json: opt.JsonLines = False,
) -> None:
    """Train a model with the score as a reward."""
    told = context.params.items()
    flags = {name: value for name, value in told if name not in _OWN and value is not None}
    further = _named(set_ or [])
    _refuse_twice(flags, further)
    from remask.align.settings import read_settings

    settings = read_settings(config, {**further, **flags})
    if dry_run:
        from remask.align.estimate import estimate

        _show_estimate(estimate(settings, processes=processes, tflops=tflops), as_json)
        return
    from remask.align.trainer import align as train

    train(settings, say=print_json if as_json else _say, resume=resume)


def _refuse_twice(flags: dict[str, Any], further: dict[str, Any]) -> None:
    """Refuse a setting that a flag and --set both give: one of them would be ignored."""
    for name in flags.keys() & further.keys():
        flag = name.replace("_", "-")
        raise typer.BadParameter(
            f"{name} is given by --{flag} and by --set {name}={further[name]}; give it once"
        )


def _named(words: list[str]) -> dict[str, Any]:
    """Return the settings of --set, each value read as YAML would."""
    import yaml  # type: ignore[import-untyped]

    out = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set {word!r} has no value; write name=value")
        try:
            out[name.strip().replace("-", "_")] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise typer.BadParameter(f"--set {word!r} has a value that is no YAML") from None
    return out


def _say(row: dict[str, Any]) -> None:
    typer.echo(line_of(row))


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the log as one line."""
    if "resumed" in row:
        return f"resumed at update {row['resumed']:,}"
    if "model" in row:
        return f"model written to {row['model']}"
    if "completion" in row:
        reward = "none" if row["reward"] is None else f"{row['reward']:.3f}"
        return f"  {row['item']}  reward {reward}  {row['completion']!r}"
    place = f"update {row['step']:,}/{row['max_steps']:,}"
    if "eval/accuracy" in row:
        return f"{place}  validation accuracy {row['eval/accuracy']:.1%}"
    names = ("reward", "bmc/score", "loss", "grad_norm", "completions/mean_length")
    shown = "  ".join(
        f"{name.rpartition('/')[2]} {row[name]:.4g}" for name in names if row.get(name) is not None
    )
    return f"{place}  {shown}  {timedelta(seconds=round(row['eta_s']))} left"


def _show_estimate(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    memory, forwards = found["memory_gb"], found["forwards_per_update"]
    seconds = found["seconds_per_update"]
    for line in (
        f"{found['model']}: {found['parameters'] / 1e6:,.1f} M parameters, of which "
        f"{found['trained'] / 1e6:,.2f} M learn ({_GROUPS[found['tuning']]})",
        f"rollouts: {found['rollouts']:,} of {found['completions_per_rollout']} completions, rows "
        f"of {found['row_tokens']['prompt']} + {found['row_tokens']['canvas']} tokens",
        "forward passes of a row per update, at most: "
        + ", ".join(f"{phase} {num:,.0f}" for phase, num in forwards.items()),
        "memory of one process, GB: "
        + ", ".join(f"{name} {size:.2f}" for name, size in memory.items()),
        f"time at {found['tflops']:g} TFLOP/s a process, {found['processes']} of them: "
        + ", ".join(f"{phase} {value:.3g} s" for phase, value in seconds.items())
        + f" per update; {found['hours']:.3g} hours in all",
    ):
        typer.echo(line)
