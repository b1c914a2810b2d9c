"""Every published id, on its stand-in, through every step that a user takes.

    python -m studies.checks.standins                        the table, in minutes
    python -m studies.checks.standins --whole  the presets at their full length: an hour
    python -m studies.checks.standins --out table.json
    python -m studies.checks.standins --figures docs/figures.json --commit SHA --hardware "2 cores"

The stand-ins are small random checkpoints with the authors' keys in a hub cache (see
`standin_checkpoints`), so ids are resolved by the hub's own code, offline. Arguments are the
defaults. Without --whole two things differ from what a user gets: the canvas of the preset a model
starts with is cut to a few tokens, its steps in proportion, because a thousand steps of nothing
prove no more than a few; and sentences are compared by their letters, because the sentence encoder
is the same for all models and the slowest part. tests/standins makes the same table.
"""

import argparse
import asyncio
import contextlib
import io
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import remask
from remask.consistency.semantic import SentenceEncoder
from remask.denoisers import load as loader
from remask.denoisers.base import Preset
from remask.denoisers.catalog import CHECKPOINTS
from remask.records.jsonl import write_text
from studies.shared.figures import ROOT, figure_of, parse, save

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))

from standin_checkpoints import write_standin

PROMPT = "Ben has 12 apples. Zoe has 5 more than Ben. How many has Zoe?"
ANSWER = "Zoe has 12 + 5 = 17 apples. The answer is 17."
CANVAS = 32  # tokens of a canvas that is cut; every block size divides it

Step = Callable[[str, Path], None]
Table = dict[str, dict[str, str]]  # id -> step -> "ok", or what went wrong


def load(model: str, folder: Path) -> None:
    """Load it; it must know a mask token, an end and what to ask with."""
    denoiser = remask.load(model)
    tokenizer = denoiser.tokenizer
    check(tokenizer.mask_id not in tokenizer.eos_ids, "the mask token ends an answer")
    check(denoiser.tokenizer.render(PROMPT) != [], "the prompt is empty")


def sample(model: str, folder: Path) -> None:
    """Let it write an answer, which must not have a mask left in it."""
    denoiser = remask.load(model)
    answer = remask.sample(denoiser, PROMPT)
    check(denoiser.tokenizer.mask_id not in answer.canvas, "a mask is left in the answer")


def score(model: str, folder: Path) -> None:
    """Score an answer of its own, and one from outside."""
    denoiser = remask.load(model)
    for answer in (remask.sample(denoiser, PROMPT), ANSWER):
        value = remask.score(denoiser, PROMPT, answer).value
        check(0 <= value <= 1, f"the score is {value}")


def solve(model: str, folder: Path) -> None:
    """Make the first call, with nothing but the model and a prompt."""
    told = json.loads(command("solve", "--model", model, "--json", PROMPT))
    check(told["action"] in ("accept", "fallback"), f"the action is {told['action']}")
    answers = [attempt["answer"] for attempt in told["attempts"]]
    check(1 <= len(answers) <= 10, f"{len(answers)} attempts")
    check(len(answers) == 1 or len(set(answers)) > 1, "every attempt is the same")


def verify(model: str, folder: Path) -> None:
    """Paint an answer from outside by its drift."""
    check(bool(command("verify", "--model", model, PROMPT, ANSWER)), "nothing is shown")


def score_file(model: str, folder: Path) -> None:
    """Score a file of answers: a row out for each row in."""
    rows = [{"prompt": PROMPT, "answer": text} for text in (ANSWER, "The answer is 16.")]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command(
        "score", "--model", model, folder / "answers.jsonl", "-o", folder / "scored.jsonl"
    )  # fmt: skip
    lines = (folder / "scored.jsonl").read_text().splitlines()
    check(len(lines) == 2, f"{len(lines)} rows came out of 2")
    check(all(json.loads(line)["remask_error"] is None for line in lines), "a row failed")


def collect(model: str, folder: Path) -> None:
    """Ask a problem twice, and keep the answers and their scores as records."""
    out = folder / "records.jsonl"
    command(
        "collect", "--model", model, "--task", "wordmath", "--level", "easy",
        "--problems", "1", "--samples", "2", "-o", out,
    )  # fmt: skip
    lines = out.read_text().splitlines()
    check(len(lines) == 2, f"{len(lines)} records of 2 samples")
    check(not any(json.loads(line).get("error") for line in lines), "a record holds an error")


def serve(model: str, folder: Path) -> None:
    """Send the server one request for a checked answer, and one for a chat."""
    import httpx

    from remask.serve.app import build_app
    from remask.serve.service import build_service
    from remask.serve.settings import ServeSettings

    service = build_service(remask.load(model), ServeSettings(model=model))
    chat = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}

    async def ask(path: str, body: Mapping[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(build_app(service))
        address = "http://127.0.0.1:7575"
        async with httpx.AsyncClient(transport=transport, base_url=address) as client:
            return await client.post(path, json=body, timeout=None)

    try:
        for path, body in (("/v1/solve", {"prompt": PROMPT}), ("/v1/chat/completions", chat)):
            reply = asyncio.run(ask(path, body))
            check(reply.status_code == 200, f"{path} says {reply.status_code}: {reply.text[:200]}")
    finally:
        service.batcher.close(10)


def doctor(model: str, folder: Path) -> None:
    """Tell from its files whether it fits here."""
    check(model in command("doctor", model), "it is not named")


STEPS: dict[str, Step] = {
    "load": load, "sample": sample, "score": score, "solve": solve, "verify": verify,
    "score a file": score_file, "collect": collect, "serve": serve, "doctor": doctor,
}  # fmt: skip


def check(holds: bool, otherwise: str) -> None:
    """Raise with the sentence unless it holds; `assert` can be switched off."""
    if not holds:
        raise AssertionError(otherwise)


def command(*words: object) -> str:
    """Call `remask` with these words, in this process; return what it prints, or raise."""
    from remask import cli

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["remask", *map(str, words)]),
    ):
        try:
            cli.main()
        except SystemExit as left:
            check(not left.code, f"exit {left.code}: {err.getvalue().strip()[-300:]}")
    return out.getvalue()


@contextlib.contextmanager
def in_short() -> Iterator[None]:
    """Cut canvases, and compare sentences by their letters."""
    with cut_canvases(), mock.patch.object(SentenceEncoder, "encode", by_letters):
        yield


def by_letters(self: SentenceEncoder, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Return unit vectors of how often each letter occurs, in place of the encoder's."""
    counts = {t: np.bincount(list(b"\0" + t.encode()), minlength=256) for t in texts}
    return {t: (c / np.linalg.norm(c)).astype(np.float32) for t, c in counts.items()}


@contextlib.contextmanager
def cut_canvases(tokens: int = CANVAS) -> Iterator[None]:
    """Load every model with a canvas of at most so many tokens, and with steps in proportion."""
    whole = loader.find_preset

    def cut(*arguments: Any, **options: Any) -> Preset:
        preset = whole(*arguments, **options)
        spans = ("length", "steps", "block")
        tasks = {
            task: {name: value for name, value in changes.items() if name not in spans}
            for task, changes in preset.tasks.items()
        }
        length = min(preset.length, tokens)
        block = min(preset.block, length)
        steps = max(1, preset.steps * block // preset.length) * (length // block)
        return replace(preset, length=length, steps=steps, block=block, tasks=tasks)

    with mock.patch.object(loader, "find_preset", cut):
        yield


@contextlib.contextmanager
def hub(folder: Path, models: Sequence[str]) -> Iterator[None]:
    """Let the hub be a cache with the stand-ins of these models, offline."""
    from huggingface_hub import constants

    for model in models:
        write_standin(model, folder)
    with (
        mock.patch.object(constants, "HF_HUB_CACHE", str(folder)),
        mock.patch.object(constants, "HF_HUB_OFFLINE", True),
    ):
        yield


def take(step: str, model: str, folder: Path) -> str:
    """Return "ok", or what went wrong."""
    try:
        STEPS[step](model, folder)
    except Exception as error:  # a table of what works must survive what does not
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return "ok"


def markdown(table: Table) -> str:
    """Return the table for a page."""
    rows = [("id", *STEPS), ("---", *("---" for _ in STEPS))]
    rows += [
        (f"`{model}`", *(told.get(step, "") for step in STEPS)) for model, told in table.items()
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def figures_of(table: Table) -> dict[str, dict[str, Any]]:
    """Return how many ids there are, and the share of all steps that worked."""
    told = [result for steps in table.values() for result in steps.values()]
    share = sum(result == "ok" for result in told) / len(told)
    return {
        "standins/ids": figure_of(len(table), "ids"),
        "standins/steps_ok": figure_of(share, "share", len(told)),
    }


def main() -> int:
    """Make the table, print it, and merge its figures where that is wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--whole", action="store_true", help="presets at their full length")
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    arguments = parse(parser, sys.argv[1:])
    models = [checkpoint.id for checkpoint in CHECKPOINTS]
    table: Table = {model: {} for model in models}
    began = time.perf_counter()
    length = contextlib.nullcontext() if arguments.whole else in_short()
    with tempfile.TemporaryDirectory() as folder, hub(Path(folder), models), length:
        for model in models:
            for step in STEPS:
                table[model][step] = take(step, model, Path(tempfile.mkdtemp(dir=folder)))
    print(markdown(table))
    print(f"{time.perf_counter() - began:.0f} s")
    found = figures_of(table)
    if arguments.out:
        write_text(arguments.out, json.dumps(table, indent=2) + "\n")
    save(arguments, found, "standins", "python -m studies.checks.standins")
    return 0 if found["standins/steps_ok"]["value"] == 1 else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(main())
