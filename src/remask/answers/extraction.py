"""What was read as the final answer, and where it stood."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """A final answer, and how it was found."""

    answer: str | None  # canonical: equal strings mean equivalent answers
    tier: Literal[1, 2, 3] | None  # 1 markup, 2 statement, 3 last number or letter; None: no answer
    matched: str = ""  # the piece of text it was read from


NOTHING = Extraction(answer=None, tier=None)
