"""How work is cut: into chunks of about a minute, each written to disk when it is finished.

What a chunk costs is estimated beforehand, as tokens times forward passes, and never measured with
a clock: a run that was killed is cut the same way when it goes on, and ends with the same bytes.
Another size of chunk makes other batches, which may change the last digit of a number. A chunk is
also what a kill can cost.

The answers of a collection are numbered: an answer's place is the number of its problem times the
samples of each, plus its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from torch import nn

from remask.denoisers.base import Denoiser
from remask.denoisers.experts import Experts
from remask.denoisers.native import native_of
from remask.denoisers.packed import PackedMatrix

SECONDS = 60
# Operations per second, each below what such a device does when nothing else runs on it: two cores
# reach 8e10 on the embedded model. A CPU gains nothing from larger chunks; a GPU does.
RATES = {"cpu": 2.5e10, "mps": 1e12, "cuda": 2e14}


class Chunk(NamedTuple):
    """The rows from number `start` to before `stop`."""

    start: int
    stop: int


def cut(start: int, stop: int, most: int) -> list[Chunk]:
    """Return the rows in chunks of `most`; the last may be smaller."""
    return [Chunk(first, min(first + most, stop)) for first in range(start, stop, most)]


def cut_by_tokens(start: int, lengths: Sequence[int], budget: int, most: int) -> list[Chunk]:
    """Return rows of these lengths, the first of them number `start`, in chunks.

    A chunk is closed before the row with which it would exceed the budget, padded, or `most`.
    """
    chunks: list[Chunk] = []
    first, longest = 0, 0
    for number, length in enumerate(lengths):
        count, longest = number - first + 1, max(longest, length)
        if count > 1 and (count * longest > budget or count > most):
            chunks.append(Chunk(start + first, start + number))
            first, longest = number, length
    if lengths:
        chunks.append(Chunk(start + first, start + len(lengths)))
    return chunks


@dataclass(frozen=True, kw_only=True)
class ChunkLimits:
    """What the answers of a collection cost, and how much of it a chunk may hold.

    Problems go into a chunk whole while they stay within the limits. One that alone would exceed
    the budget is cut between its answers; a single answer is never cut, however long it takes.
    """

    samples: int  # answers per problem
    scored: int  # of these, those that are verified
    write: int  # forward passes that write an answer
    verify: int  # and those that verify it
    most: int  # problems of a chunk
    columns: int | None = None  # of a row that a pass computes; None: all of them
    tokens: int | None = None  # of a chunk's problems, padded; None: no limit
    budget: int | None = None  # tokens times forward passes; None: no limit

    def chunks(self, start: int, lengths: Sequence[int]) -> list[Chunk]:
        """Return the answers from place `start` in chunks.

        `lengths` are the tokens of the problems from that place on, 0 for one without a prompt.
        """
        first, begun = divmod(start, self.samples)
        if not begun:
            return self._of_problems(first, lengths)
        rest = self._of_answers(first, lengths[0], begun)
        return rest + self._of_problems(first + 1, lengths[1:])

    def _of_problems(self, first: int, lengths: Sequence[int]) -> list[Chunk]:
        """Return chunks of whole problems, but for those that alone take too long."""
        chunks: list[Chunk] = []
        begin = first
        longest = spent = 0
        for number, length in enumerate(lengths, first):
            cost = sum(self._cost(length, sample) for sample in range(self.samples))
            longest, spent = max(longest, length), spent + cost
            if number > begin and self._is_over(number - begin + 1, longest, spent):
                chunks += self._between(begin, number, lengths[begin - first])
                begin, longest, spent = number, length, cost
        if lengths:
            chunks += self._between(begin, first + len(lengths), lengths[begin - first])
        return chunks

    def _is_over(self, problems: int, longest: int, spent: int) -> bool:
        return (
            problems > self.most
            or (self.tokens is not None and problems * longest > self.tokens)
            or (self.budget is not None and spent > self.budget)
        )

    def _between(self, begin: int, end: int, length: int) -> list[Chunk]:
        if end - begin == 1:
            return self._of_answers(begin, length, 0)
        return [Chunk(begin * self.samples, end * self.samples)]

    def _of_answers(self, problem: int, length: int, begun: int) -> list[Chunk]:
        """Return one problem's answers from number `begun` on, in one chunk or several."""
        place, spent, begin = problem * self.samples, 0, begun
        chunks = []
        for number in range(begun, self.samples):
            cost = self._cost(length, number)
            spent += cost
            if number > begin and self.budget is not None and spent > self.budget:
                chunks.append(Chunk(place + begin, place + number))
                begin, spent = number, cost
        return [*chunks, Chunk(place + begin, place + self.samples)]

    def _cost(self, length: int, number: int) -> int:
        """Return the tokens times forward passes of one answer to a problem of this length."""
        passes = self.write + (self.verify if number < self.scored else 0)
        return min(length, self.columns or length) * passes


def work_budget(denoiser: Denoiser) -> int | None:
    """Return the tokens times forward passes that the device computes in about a minute.

    None for a model of unknown size. A parameter costs two operations per token, and one of an
    expert that a token does not visit none; what attention costs besides is not counted.
    """
    native = native_of(denoiser)
    if native is None:
        return None
    rate = RATES.get(denoiser.device.type, RATES["cpu"])
    return max(1, int(SECONDS * rate / (2 * num_active(native.model))))


def num_active(model: nn.Module) -> int:
    """Return how many parameters a token meets: of experts, those that are chosen for it."""
    idle = 0
    for module in model.modules():
        if isinstance(module, Experts):
            num_experts = len(module.down)
            passed_over = num_experts - cast(int, module.router.num_chosen)
            idle += passed_over * (module.gate_up.numel() + module.down.numel()) // num_experts
    packed = sum(m.numel() for m in model.modules() if isinstance(m, PackedMatrix))
    return sum(parameter.numel() for parameter in model.parameters()) + packed - idle
