"""The study of a small model of real words, from its ancestor to docs/real.md.

    python -m studies.language.text build DATA ROWS              rows to train on, and held out
    python -m studies.language train SOURCE ROWS OUT       the model, OUT/final/model
    python -m studies.language choose MODEL DATA ROWS OUT  canvas and steps, on validation
    python -m studies.language collect MODEL DATA OUT --part validation greedy pools curves
    python -m studies.language measure OUT --commit SHA --hardware "one NVIDIA H200"
    python -m studies.language page                        docs/real.md alone, from figures
    python -m studies.language all SOURCE DATA OUT         everything, one after the other
    python -m studies.language pack MODEL PARTS            weights, or records, in parts
    python -m studies.language unpack PARTS OUT            together again, and checked

SOURCE is a GGUF file, a folder in the hub's layout or a hub id; DATA is the folder of benchmarks
that `studies.language.text` reads. `train`, `choose`, `collect` and `all` go on where they were
stopped; with `--stop-after SECONDS` they stop in time, and exit with 3 where something is left: the
same command again goes on. `all` looks up the commit and the hardware that figures are quoted with.
`collect` shares one device among `--parallel` processes. MODEL is never trained on, nor chosen by,
a row of a test.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from remask.analysis.figure import parse
from remask.errors import InputError, RecordError, RemaskError
from remask.records.jsonl import write_text
from studies.language import training
from studies.language.answers import NEAR_FILE
from studies.language.choice import CHOICE, choose, chosen_shapes, read_choice
from studies.language.jobs import PARTS, SHAPES, Plan, Shape
from studies.language.page import COMMAND, page
from studies.language.parcel import MIB, pack, unpack
from studies.language.problems import write_validation
from studies.language.studies import PREFIX
from studies.language.summary import OWNED, measure
from studies.language.training import TrainPlan, check_seconds, is_trained
from studies.language.weights import note_weights
from studies.language.workers import run_jobs
from studies.shared.figures import FIGURES, ROOT, merge, read, select
from studies.shared.run import commit, hardware

KEY = "real"
PAGE = ROOT / "docs" / "real.md"
CARD = "card.md"  # of the rows
LEFT = 3  # exit code where the same command again goes on
_ALWAYS = 10.0**6  # seconds, ten days: waiting for a process takes no more


def run_train(arguments: argparse.Namespace) -> int:
    """Make the model."""
    names = ("trial_rows", "minutes", "epochs", "causal_epochs", "block_share", "canvas", "tokens",
             "lr", "eval_every", "patience", "device")  # fmt: skip
    given = {name: getattr(arguments, name) for name in names}
    plan = TrainPlan(source=arguments.source, rows=arguments.rows, out=arguments.out, **given)
    check_seconds(arguments.stop_after)
    plan.out.mkdir(parents=True, exist_ok=True)
    model = training.train(plan, _say, deadline=_deadline(arguments))
    print(f"{plan.out}: training goes on with the same command" if model is None else model)
    return LEFT if model is None else 0


def run_choose(arguments: argparse.Namespace) -> int:
    """Choose canvas and steps on validation."""
    out = arguments.out
    if (out / CHOICE).exists():
        raise InputError(f"{out / CHOICE} is there; answers may hang on it: remove it to choose.")
    note_weights(Path(arguments.model), out)
    write_validation(arguments.data, arguments.rows, out)
    given = tuple(map(Shape.parse, arguments.shapes))
    shapes = dict.fromkeys(SHAPES, given) if given else SHAPES
    plan = Plan(data=arguments.data, out=out, most=arguments.problems)
    left = choose(
        plan, arguments.model, shapes, parallel=arguments.parallel, deadline=_deadline(arguments)
    )
    if left:
        return _left(left)
    for name, chosen in read_choice(out)["sets"].items():
        pace = f"{chosen['rate']} tokens a step, in blocks of {chosen['block']}"
        print(f"{name}: canvas {chosen['canvas']}, {pace}")
    return 0


def run_collect(arguments: argparse.Namespace) -> int:
    """Collect the records of some parts."""
    out = arguments.out
    note_weights(Path(arguments.model), out)
    plan = Plan(data=arguments.data, out=out, shapes=chosen_shapes(out), most=arguments.problems)
    jobs = [job for part in arguments.part for job in plan.jobs(part)]
    left = run_jobs(
        jobs, arguments.model, out, parallel=arguments.parallel, deadline=_deadline(arguments)
    )
    return _left(left) if left else 0


def run_measure(arguments: argparse.Namespace) -> int:
    """Measure the records, and write figures and page."""
    origin = {"run": KEY, "command": COMMAND}
    origin |= {"commit": arguments.commit, "hardware": arguments.hardware}
    others = {n: r for n, r in read(arguments.figures).items() if not n.startswith(OWNED)}
    own = {name: row | origin for name, row in measure(arguments.out).items()}
    rows = dict(sorted((others | own).items()))
    new = select(rows, arguments.figures, write_page(rows, arguments.page))
    merge(arguments.figures, new, OWNED)
    print(f"{arguments.figures}: {len(new) - len(others)} figures")
    return 0


def run_page(arguments: argparse.Namespace) -> int:
    """Write the page from figures alone."""
    entries = read(arguments.figures)
    if not any(row["run"] == KEY for row in entries.values()):
        raise RecordError(f"{arguments.figures} has no figures of this study; measure records.")
    write_page(entries, arguments.page)
    return 0


def write_page(entries: dict[str, dict[str, Any]], path: Path) -> str:
    """Write the page from figures and return its text."""
    ours = {name: row for name, row in entries.items() if name.startswith(PREFIX)}
    some = next(row for row in ours.values() if row["run"] == KEY)
    about = f"collected on {some['hardware']} at commit {some['commit']}"
    parsed = {name: parse(name, row) for name, row in entries.items()}
    embedded = {name: figure for name, figure in parsed.items() if name not in ours}
    text = page({name: parsed[name] for name in ours}, embedded, about)
    write_text(path, text)
    print(f"{path}: written")
    return text


def run_all(arguments: argparse.Namespace) -> int:
    """Do everything, one step after another, each in a process of its own."""
    check_seconds(arguments.stop_after)
    for place, words in enumerate(_steps(arguments, _origin(arguments))):
        if place and time.monotonic() + training.RESERVE >= _deadline(arguments):
            return _left(["the steps after these"])
        print(" ".join(words[1:]), flush=True)
        if code := subprocess.run(words, check=False).returncode:
            return code
    return 0


def _steps(arguments: argparse.Namespace, origin: list[str]) -> Iterator[list[str]]:
    """Yield the commands of what is left to do, each when the one before it is done."""
    data, out = arguments.data, arguments.out
    own, text = "studies.language", "studies.language.text"
    rows, model = out / "rows", out / "final" / "model"
    shared = ["--parallel", arguments.parallel]
    figures = ["--figures", arguments.figures, *origin]
    if not (rows / CARD).exists():  # which is written last
        yield _script(text, *figures, "build", data, rows)
    if not is_trained(out):
        flags = ["--tokens", arguments.tokens, "--minutes", arguments.minutes]
        flags += ["--device", arguments.device, *_clock(arguments)]
        yield _script(own, "train", arguments.source, rows, out, *flags)
    if not (out / CHOICE).exists():
        yield _script(own, "choose", model, data, rows, out, *shared, *_clock(arguments))
    flags = [*shared, "--part", *PARTS, *_clock(arguments)]
    yield _script(own, "collect", model, data, out, *flags)
    yield _script(text, *figures, "overlap", data, rows / "train.jsonl")
    yield _script(text, "near", data, rows / "train.jsonl", out / NEAR_FILE)
    yield _script(own, "measure", out, *figures, "--page", arguments.page)


def _origin(arguments: argparse.Namespace) -> list[str]:
    """Return the flags that say of what and on what the figures are."""
    made = arguments.commit or commit()
    if made == "unknown":
        raise InputError("commit is not known outside a repository; give --commit.")
    return ["--commit", made, "--hardware", arguments.hardware or hardware()]


def _clock(arguments: argparse.Namespace) -> list[str]:
    """Return the seconds that are left to a step, where they are counted."""
    if arguments.stop_after is None:
        return []
    return ["--stop-after", f"{max(0.0, _deadline(arguments) - time.monotonic()):.1f}"]


def run_pack(arguments: argparse.Namespace) -> int:
    """Cut files into parts that can travel."""
    note = pack(
        arguments.source, arguments.out, part=int(arguments.part_mib * MIB),
        group=arguments.group, skip=arguments.skip,
    )  # fmt: skip
    size = sum(entry["bytes"] for entry in note["files"])
    print(f"{arguments.out}: {note['parts']} parts of {note['bytes']:,} bytes for {size:,}")
    return 0


def run_unpack(arguments: argparse.Namespace) -> int:
    """Put parts together again."""
    files = unpack([arguments.parts], arguments.out)
    print(f"{arguments.out}: {len(files)} files, as they were packed")
    return 0


def _script(name: str, *words: object) -> list[str]:
    return [sys.executable, "-m", name, *map(str, words)]


def _say(row: dict[str, Any]) -> None:
    print(row, flush=True)


def _left(names: Sequence[str]) -> int:
    print(f"not finished: {', '.join(names)}; the same command again goes on")
    return LEFT


def _deadline(arguments: argparse.Namespace) -> float:
    """Return when to stop, by the monotonic clock, counted from the start of this program."""
    return STARTED + (_ALWAYS if arguments.stop_after is None else arguments.stop_after)


STARTED = time.monotonic()


def _add_train(commands: Any) -> None:
    made = commands.add_parser("train", help="make the model")
    made.add_argument("source", help="GGUF file, folder or hub id of an autoregressive model")
    made.add_argument("rows", type=Path, help="folder with train.jsonl and valid.jsonl")
    made.add_argument("out", type=Path, help="folder of the study")
    made.add_argument("--trial-rows", type=int, default=TrainPlan.trial_rows, help="of each trial")
    made.add_argument("--minutes", type=float, default=TrainPlan.minutes)
    made.add_argument("--epochs", type=int, default=TrainPlan.epochs, help="most passes")
    made.add_argument("--causal-epochs", type=int, default=TrainPlan.causal_epochs)
    made.add_argument("--block-share", type=float, default=TrainPlan.block_share)
    made.add_argument("--canvas", type=int, default=TrainPlan.canvas)
    made.add_argument("--tokens", type=int, default=TrainPlan.tokens, help="of a batch")
    made.add_argument("--lr", type=float, default=TrainPlan.lr)
    made.add_argument("--eval-every", type=int, default=TrainPlan.eval_every)
    made.add_argument("--patience", type=int, default=TrainPlan.patience)
    made.add_argument("--device", default=TrainPlan.device)
    _add_clock(made)
    made.set_defaults(run=run_train)


def _add_clock(command: argparse.ArgumentParser) -> None:
    command.add_argument("--stop-after", type=float, help="seconds of this call")


def _add_shared(command: argparse.ArgumentParser) -> None:
    command.add_argument("--parallel", type=int, default=8, help="processes on the device")
    command.add_argument("--problems", type=int, help="most problems of a file, for a trial")
    _add_clock(command)


def _add_collecting(commands: Any) -> None:
    pick = commands.add_parser("choose", help="canvas and steps, on validation")
    gather = commands.add_parser("collect", help="records")
    for command in (pick, gather):
        command.add_argument("model", help="checkpoint folder")
        command.add_argument("data", type=Path, help="folder of benchmarks")
    pick.add_argument("rows", type=Path, help="folder with valid.jsonl")
    for command in (pick, gather):
        command.add_argument("out", type=Path, help="folder of the study")
        _add_shared(command)
    pick.add_argument(
        "--shapes", nargs="+", default=(), help="such as 96x2x8, instead of the usual"
    )
    gather.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    pick.set_defaults(run=run_choose)
    gather.set_defaults(run=run_collect)


def _add_measuring(commands: Any) -> None:
    count = commands.add_parser("measure", help="figures and page from records")
    count.add_argument("out", type=Path, help="folder of the study")
    count.add_argument("--commit", required=True, help="commit that collected them")
    count.add_argument("--hardware", required=True, help="what they were collected on")
    told = commands.add_parser("page", help="the page alone, from figures")
    for command, run in ((count, run_measure), (told, run_page)):
        _add_pages(command)
        command.set_defaults(run=run)


def _add_pages(command: argparse.ArgumentParser) -> None:
    command.add_argument("--figures", type=Path, default=FIGURES)
    command.add_argument("--page", type=Path, default=PAGE)


def _add_all(commands: Any) -> None:
    whole = commands.add_parser("all", help="everything, one after the other")
    whole.add_argument("source", help="GGUF file, folder or hub id of an autoregressive model")
    whole.add_argument("data", type=Path, help="folder of benchmarks")
    whole.add_argument("out", type=Path, help="folder of the study")
    whole.add_argument("--minutes", type=float, default=TrainPlan.minutes, help="of the training")
    whole.add_argument("--tokens", type=int, default=TrainPlan.tokens, help="of a batch")
    whole.add_argument("--device", default=TrainPlan.device, help="of the training")
    whole.add_argument("--parallel", type=int, default=8, help="processes on the device")
    whole.add_argument("--commit", help="that collects; by default that of this folder")
    whole.add_argument("--hardware", help="what it is collected on; by default as found")
    _add_pages(whole)
    _add_clock(whole)
    whole.set_defaults(run=run_all)


def _add_travelling(commands: Any) -> None:
    parcel = commands.add_parser("pack", help="cut files into parts")
    parcel.add_argument("source", type=Path, help="file or folder")
    parcel.add_argument("out", type=Path, help="new folder for the parts")
    parcel.add_argument("--part-mib", type=float, default=15, help="most of a part")
    parcel.add_argument("--group", type=int, default=4, help="parts that travel together")
    parcel.add_argument("--skip", nargs="+", default=(), help="files to leave, such as '*.pt'")
    parcel.set_defaults(run=run_pack)
    opened = commands.add_parser("unpack", help="put parts together again")
    opened.add_argument("parts", type=Path, help="folder that holds them, at any depth")
    opened.add_argument("out", type=Path, help="folder for the files")
    opened.set_defaults(run=run_unpack)


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="The study of a small model of real words.")
    commands = parser.add_subparsers(required=True)
    _add_train(commands)
    _add_collecting(commands)
    _add_measuring(commands)
    _add_travelling(commands)
    _add_all(commands)
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Run one of the commands and return the exit code."""
    arguments = read_arguments(words)
    code: int = arguments.run(arguments)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"studies.language: {error}")
