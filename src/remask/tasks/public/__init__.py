"""Six public benchmarks as tasks: GSM8K, MATH (and MATH-500), ARC-Challenge, GPQA, HumanEval, MBPP.

    task("gsm8k")                                    from the hub, at a pinned revision
    task("math500", path=Path("test.jsonl.gz"))      from a file
    task("mbpp", allow_execution=True)               graded by running the model's code

Nothing is read before the first problem is asked for.
"""

from pathlib import Path

from remask.errors import TaskError
from remask.tasks.public.benchmark import Benchmark, Format
from remask.tasks.public.choices import ARC_HUB, GPQA_HUB, Arc, Gpqa
from remask.tasks.public.competition import HUB as MATH_HUB
from remask.tasks.public.competition import HUB_500, Competition
from remask.tasks.public.gsm8k import HUB as GSM8K_HUB
from remask.tasks.public.gsm8k import Gsm8k
from remask.tasks.public.programs import HUMANEVAL_HUB, MBPP_HUB, HumanEval, Mbpp
from remask.tasks.public.source import BenchmarkSource, Hub
from remask.tasks.public.wording import WORDINGS

HUBS: dict[str, Hub] = {
    "gsm8k": GSM8K_HUB,
    "math": MATH_HUB,
    "math500": HUB_500,
    "arc": ARC_HUB,
    "gpqa": GPQA_HUB,
    "humaneval": HUMANEVAL_HUB,
    "mbpp": MBPP_HUB,
}
NAMES = tuple(HUBS)


def task(
    name: str,
    *,
    path: Path | None = None,
    allow_execution: bool = False,
    wording: str = "llada",
    shots: int = 0,
) -> Benchmark:
    """Return a benchmark.

    Args:
        name: one of `NAMES`.
        path: a file, or a folder with a file per split; None: the hub.
        allow_execution: let grading run the model's code (HumanEval, MBPP).
        wording: whose official prompt to ask with, "llada" or "dream".
        shots: worked examples to show, of the split "train".
    """
    if name not in HUBS:
        raise TaskError(f"benchmark {name!r} is unknown; choose one of {', '.join(NAMES)}.")
    if wording not in WORDINGS[name]:
        known = ", ".join(WORDINGS[name])
        raise TaskError(f"wording {wording!r} of {name} is unknown; choose one of {known}.")
    source = BenchmarkSource(hub=HUBS[name], path=path, mixed=name == "mbpp")
    form = _format(name, allow_execution)
    return Benchmark(name, form, source, WORDINGS[name][wording], shots)


def _format(name: str, allow_execution: bool) -> Format:
    match name:
        case "gsm8k":
            return Gsm8k()
        case "arc":
            return Arc()
        case "gpqa":
            return Gpqa()
        case "humaneval":
            return HumanEval(allow_execution=allow_execution)
        case "mbpp":
            return Mbpp(allow_execution=allow_execution)
    return Competition()
