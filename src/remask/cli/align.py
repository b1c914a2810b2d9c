"""The command that trains with the score as a reward."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from remask.align.settings import AlignSettings, read_settings
from remask.cli import settings as opt
from remask.cli.app import print_json, say_aside
from remask.cli.flags import FlagsOf, UsageError
from remask.settings import Setting

_GROUPS = {"lora": "adapters", "full": "all weights"}

SettingFlags = Annotated[dict[str, Any], FlagsOf(kind=AlignSettings, overrides="", bounded=False)]
Config = Annotated[Path | None, Setting("YAML file of settings; flags override it.")]
More = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other setting, as in renyi_order=1.0; again for more."),
]
Resume = Annotated[bool, Setting("Fail if there is no run to continue.")]
ResumeFrom = Annotated[
    str, Setting("Return to a checkpoint: its update, or best; later ones are removed.")
]
DryRun = Annotated[
    bool, Setting("Make two small rollouts, print time and memory, and write nothing.")
]


def align(
    *,
    flags: SettingFlags,
    config: Config = None,
    more: More = None,
    resume: Resume = False,
    resume_from: ResumeFrom = "",
    dry_run: DryRun = False,
    as_json: opt.JsonLines = False,
) -> None:
    """Train a model with the score as a reward.

    The same command again continues an interrupted run.
    """
    further = _named(more or [])
    _refuse_twice(flags, further)
    settings = read_settings(config, {**further, **flags})
    if dry_run:
        from remask.align.timing import measure

        plan = measure(settings)
        if plan is not None:
            _show_plan(plan, as_json)
        return
    from remask.align.trainer import align as train

    speaker = _Speaker(print_json if as_json else _say)
    try:
        train(settings, say=speaker, resume=resume, resume_from=resume_from)
    finally:  # of a run that a guard has stopped the curves say why
        if speaker.has_spoken:
            _draw(settings.out)


class _Speaker:
    """Says the rows of a run; of several processes only the first one has any to say."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        self.say, self.has_spoken = say, False

    def __call__(self, row: dict[str, Any]) -> None:
        self.has_spoken = True
        self.say(row)


def _draw(out: Path) -> None:
    from remask.report.training import draw_training

    picture = draw_training(out)
    if picture is not None:
        say_aside(f"curves drawn in {picture}")


def _refuse_twice(flags: dict[str, Any], further: dict[str, Any]) -> None:
    """Refuse a setting that a flag and --set both give: one of them would be ignored."""
    for name in flags.keys() & further.keys():
        flag = name.replace("_", "-")
        raise UsageError(
            f"{name} is given by --{flag} and by --set {name}={further[name]}; give it once"
        )


def _named(words: list[str]) -> dict[str, Any]:
    """Return the settings of --set, each value read as YAML would."""
    import yaml  # type: ignore[import-untyped]

    out = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"--set {word!r} has no value; write name=value")
        name = name.strip().replace("-", "_")
        if name in out:
            raise UsageError(f"--set gives {name} twice; remove one")
        try:
            out[name] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError):
            raise UsageError(f"--set {word!r} has a value that is not valid YAML") from None
    return out


def _say(row: dict[str, Any]) -> None:
    typer.echo(line_of(row))


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the log as one line."""
    if "lost_best" in row:
        return (
            f"the best model was that of update {row['lost_best']:,}, whose checkpoint is gone; "
            "best will be that of the validations to come"
        )
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


def _show_plan(plan: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    sampler, seconds = plan["sampler"], plan["seconds_per_update"]
    for line in (
        f"{plan['model']}: {plan['parameters'] / 1e6:,.1f} M parameters, "
        f"{plan['trained'] / 1e6:,.2f} M of them learn ({_GROUPS[plan['tuning']]})",
        f"rollouts: {plan['rollouts']:,} of {plan['completions_per_rollout']} completions, "
        f"{sampler['length']} tokens in {sampler['steps']} steps",
        f"measured with {plan['measured_completions']} completions on {plan['processes']} x "
        f"{plan['device']}: peak memory {plan['peak_memory_gb']:.2f} GB",
        "time per update: "
        + ", ".join(f"{phase} {value:.3g} s" for phase, value in seconds.items())
        + f"; {plan['hours']:.3g} hours in total, without validation",
    ):
        typer.echo(line)
