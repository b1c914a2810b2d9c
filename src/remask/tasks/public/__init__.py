"""Public benchmarks as tasks: GSM8K, SVAMP, MAWPS, MATH, ARC, GPQA, HumanEval, MBPP.

    task("gsm8k")                                    from the hub, at a pinned revision
    task("math500", path=Path("test.jsonl.gz"))      from a file
    task("mbpp", allow_execution=True)               graded by running the model's code

Nothing is read before the first problem is drawn. A benchmark is one file and one row of the table.
"""

from remask.tasks.public.benchmark import BenchmarkSpec
from remask.tasks.public.choices import ARC, GPQA
from remask.tasks.public.competition import MATH, MATH500
from remask.tasks.public.equations import MAWPS, SVAMP
from remask.tasks.public.gsm8k import GSM8K
from remask.tasks.public.programs import HUMANEVAL, MBPP

BENCHMARKS: dict[str, BenchmarkSpec] = {
    spec.name: spec for spec in (GSM8K, SVAMP, MAWPS, MATH, MATH500, ARC, GPQA, HUMANEVAL, MBPP)
}
NAMES = tuple(BENCHMARKS)
