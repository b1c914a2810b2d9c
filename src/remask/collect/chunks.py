"""Long work in portions: rows that follow one another and are finished, and written, together.

Every engine is handed the same portions and gives back their results in order, so records do not
depend on who did the work. A portion is what a model takes in one pass: as many rows as stay within
the budget of tokens when they are padded to the longest. It is also what a kill can cost.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from remask.collect.shards import Shards
from remask.denoisers.base import Denoiser
from remask.sampling.batches import spread

Row = dict[str, Any]
_Given = TypeVar("_Given")


class Portion(NamedTuple):
    """The rows from number `start` to before `stop`."""

    start: int
    stop: int


class Engine(Protocol):
    """Does the portions of a piece of work."""

    @property
    def name(self) -> str:
        """What a manifest calls it."""
        ...

    def results(
        self,
        portions: Sequence[Portion],
        load: Callable[[Portion], _Given],
        work: Callable[[Denoiser, _Given], list[Row]],
        shards: Shards,
    ) -> Iterator[list[Row]]:
        """Yield the rows that `work(model, load(portion))` returns, in the order of the portions.

        What an earlier run has left in `shards` is not worked again. `load` runs here, `work` may
        run in another process: both it and what it is given can be pickled.
        """
        ...


@dataclass(frozen=True, eq=False)
class Local:
    """The process that asks, with the model it has; replicas of a model take a portion each."""

    denoiser: Denoiser
    name: str = "local"

    def results(
        self,
        portions: Sequence[Portion],
        load: Callable[[Portion], _Given],
        work: Callable[[Denoiser, _Given], list[Row]],
        shards: Shards,
    ) -> Iterator[list[Row]]:
        """Yield the rows of each portion, one after another."""

        def rows(denoiser: Denoiser, portion: Portion) -> list[Row]:
            if shards.has(portion):
                return shards.read(portion)
            return work(denoiser, load(portion))

        for _, found in spread(self.denoiser, portions, rows):
            yield found


def cut(start: int, stop: int, most: int) -> list[Portion]:
    """Return the rows in portions of `most`; the last may be smaller."""
    return [Portion(first, min(first + most, stop)) for first in range(start, stop, most)]


def cut_by_tokens(start: int, lengths: Sequence[int], budget: int, most: int) -> list[Portion]:
    """Return rows of these lengths, the first of them number `start`, in portions.

    A portion is closed before the row with which it would exceed the budget, padded, or `most`.
    """
    portions: list[Portion] = []
    first, longest = 0, 0
    for number, length in enumerate(lengths):
        count, longest = number - first + 1, max(longest, length)
        if count > 1 and (count * longest > budget or count > most):
            portions.append(Portion(start + first, start + number))
            first, longest = number, length
    if lengths:
        portions.append(Portion(start + first, start + len(lengths)))
    return portions
