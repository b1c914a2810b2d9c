"""How much may be asked for, by the name that a flag, a settings field and a JSON key share.

Beyond these nothing useful is done any more, and a slip of the hand, such as a billion steps, would
work for years before anybody is told. The command line refuses such a flag, the settings classes a
field; the server has limits of its own, which are lower. No torch here.
"""

from collections.abc import Mapping
from typing import Any, Literal

from remask.errors import SettingsError
from remask.fields import Limits

MetricSet = Literal["paper", "core"]
MaskDesign = Literal["independent", "stratified"]
AnswerKind = Literal[
    "number", "choice", "code", "text", "wordmath", "countdown", "pycode", "gsm8k", "math",
    "math500", "arc", "gpqa", "humaneval", "mbpp",
]  # fmt: skip
WordingName = Literal["llada", "dream"]


def _from(least: int, most: int) -> Limits:
    return Limits(least=least, most=most)


# A canvas is as long as the longest context of a published model at most, times some.
_TOKENS = 2**20
_PROBLEMS = 1_000_000
_CHARACTERS = 64  # of a token, at most on average; usual are three or four
LIMITS: Mapping[str, Limits] = {
    "length": _from(1, _TOKENS),
    "block": _from(1, _TOKENS),
    "steps": _from(1, 2**16),
    "temperature": _from(0, 100),
    "trips": _from(1, 10_000),
    "rebuild_steps": _from(1, 2**16),
    "rebuild_temperature": _from(0, 100),
    "budget": _from(1, 1_000),
    "problems": _from(1, _PROBLEMS),
    "samples": _from(1, 1_000),
    "scored": _from(0, 1_000),
    "shots": _from(0, 100),
    "batch": _from(1, 100_000),
    "workers": _from(1, 1_000),
    # of a training
    "updates": _from(1, 100_000_000),
    "eval_every": _from(0, 100_000_000),
    "eval_problems": _from(1, _PROBLEMS),
    "generators": _from(0, 1_000),
    "layers": _from(1, 1_000),
    "width": _from(1, 2**16),
}


def check(**values: Any) -> None:
    """Raise where a value is beyond the limit of its name, or is no number."""
    for name, value in values.items():
        limits, whole = LIMITS[name], "temperature" not in name
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            kind = "a whole number" if whole else "a number"
            raise SettingsError(f"{name} is {value!r:.80}; it must be {kind} {limits}.")
        broken = limits.broken_by(value)
        if broken:
            raise SettingsError(f"{name} is {value}; it must be {broken}.")


def most_characters(num_tokens: int) -> int:
    """Return how long a text may be that is to fit into so many tokens; longer ones never do."""
    return num_tokens * _CHARACTERS
