"""Commands on models and machines: watch one, list them, say what fits."""

from pathlib import Path
from typing import Annotated, Any

import typer

from remask.cli import settings as opt
from remask.cli.app import print_json
from remask.cli.flags import FlagsOf, UsageError
from remask.collect.settings import CollectSettings
from remask.records import outputs
from remask.records.lock import locked
from remask.settings import Setting

OutFolder = Annotated[Path, Setting("The folder to write into.", short="-o")]
Amounts = Annotated[
    dict[str, Any],
    FlagsOf(kind=CollectSettings, only=("problems", "samples", "seed"), defaults={"samples": 3}),
]
Devices = Annotated[dict[str, Any], FlagsOf(kind=opt.ModelSettings, only=("device", "split"))]
NoDevice = Annotated[bool, Setting("Leave the devices out: answers at once, without torch.")]


def demo(
    *,
    out: OutFolder = Path("demo-output"),
    amounts: Amounts,
    devices: Devices,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> int:
    """Watch the embedded model catch its own errors."""
    with locked(out):
        earlier = (out / "summary.json").is_file() and (out / "records.jsonl").is_file()
        outputs.claim_folder(out, is_ours=earlier, force=force)
        from remask.cli.demonstration import run

        return run(out=out, as_json=as_json, **amounts, **devices)


def models(
    *,
    name: Annotated[str, typer.Argument(metavar="[ID]", help="Show this one's presets.")] = "",
    as_json: opt.Json = False,
) -> None:
    """List published models; with an id, its authors' presets."""
    from remask.cli import listing, terminal

    document: Any = listing.model(name) if name else listing.models()
    show = terminal.show_model if name else terminal.show_models
    (print_json if as_json else show)(document)


def doctor(
    *,
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="Say whether this one fits in memory.")
    ] = "",
    no_device: NoDevice = False,
    as_json: opt.Json = False,
) -> None:
    """Say what is installed, what is missing, what fits in memory."""
    if no_device and model:
        raise UsageError(
            f"whether {model} fits depends on the device: leave --no-device out, or see its size "
            "with remask models"
        )
    from remask.cli import terminal

    if no_device:
        from remask.cli.listing import installed

        document = installed()
    else:
        from remask.cli import doctor as examination

        document = examination.estimate(model) if model else examination.examine()
    show = terminal.show_estimate if model else terminal.show_examination
    (print_json if as_json else show)(document)
