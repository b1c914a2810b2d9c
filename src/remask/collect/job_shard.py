"""A part of what several jobs share, a collection or a file: `--shard 2/8`, the second of eight.

Shards are cut between chunks (`chunks`) of the whole collection, where a problem ends. Batches are
then those of one job that does all of it, and so are the bytes of the joined records (`join`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from remask.errors import SettingsError
from remask.records.manifest import ShardRange

_FORM = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True)
class JobShard:
    """Which of how many shards."""

    number: int  # from 1
    of: int

    def __post_init__(self) -> None:
        """Refuse what is none of the shards."""
        if not 1 <= self.number <= self.of:
            raise SettingsError(
                f"shard {self} does not exist; count from 1/{max(self.of, 1)} to "
                f"{max(self.of, 1)}/{max(self.of, 1)}."
            )

    def __str__(self) -> str:
        """Return it as the flag has it."""
        return f"{self.number}/{self.of}"

    @staticmethod
    def parse(text: str) -> "JobShard":
        """Return the shard of a text such as 2/8."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise SettingsError(
                f"shard {text!r:.80} is not of the form NUMBER/COUNT; write 2/8 for the second of "
                "eight."
            )
        return JobShard(int(match[1]), int(match[2]))

    def range_in(self, edges: Sequence[int]) -> ShardRange:
        """Return the problems, or rows, of this shard; `edges` are where the work may be cut.

        The first edge is 0 and the last the number of all. What lies between two edges takes
        about as long everywhere, so every shard gets as many of these parts, or one more.
        """
        parts = len(edges) - 1
        if self.of > parts:
            raise SettingsError(
                f"shard {self} is one of too many: what is worked together is not cut, and so the "
                f"largest number of shards is {parts} here; ask for that many at most."
            )
        start, stop = (edges[parts * k // self.of] for k in (self.number - 1, self.number))
        return ShardRange(number=self.number, of=self.of, start=start, stop=stop)
