"""How much is worked between two writes: answers in portions of about a minute.

What a portion costs is reckoned beforehand, as tokens times forward passes, and not measured with a
clock: so a run that was killed is cut the same way when it goes on, and ends with the same bytes.
Problems go into a portion whole while they stay within the minute. One that alone would take longer
is cut between its answers; a single answer is never cut, however long it takes.

An answer's place is a number: that of its problem times the samples, plus its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from remask.collect.chunks import Portion


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What decides about the portions of a run."""

    samples: int  # answers per problem
    scored: int  # of these, those that are verified
    write: int  # forward passes that write an answer
    verify: int  # and those that verify it
    most: int  # problems of a portion
    columns: int | None = None  # of a row that a pass computes; None: all of them
    tokens: int | None = None  # of a portion's problems, padded; None: no limit
    work: int | None = None  # tokens times forward passes; None: no limit

    def portions(self, start: int, lengths: Sequence[int]) -> list[Portion]:
        """Return the answers from place `start` in portions.

        `lengths` are the tokens of the problems from that place on, 0 for one that is not asked.
        """
        first, begun = divmod(start, self.samples)
        if not begun:
            return self._of_problems(first, lengths)
        rest = self._of_answers(first, lengths[0], begun)
        return rest + self._of_problems(first + 1, lengths[1:])

    def _of_problems(self, first: int, lengths: Sequence[int]) -> list[Portion]:
        """Return portions of whole problems, but for those that alone take too long."""
        portions: list[Portion] = []
        begin = first
        longest = spent = 0
        for number, length in enumerate(lengths, first):
            cost = sum(self._cost(length, sample) for sample in range(self.samples))
            longest, spent = max(longest, length), spent + cost
            if number > begin and self._is_over(number - begin + 1, longest, spent):
                portions += self._between(begin, number, lengths[begin - first])
                begin, longest, spent = number, length, cost
        if lengths:
            portions += self._between(begin, first + len(lengths), lengths[begin - first])
        return portions

    def _is_over(self, problems: int, longest: int, spent: int) -> bool:
        return (
            problems > self.most
            or (self.tokens is not None and problems * longest > self.tokens)
            or (self.work is not None and spent > self.work)
        )

    def _between(self, begin: int, end: int, length: int) -> list[Portion]:
        if end - begin == 1:
            return self._of_answers(begin, length, 0)
        return [Portion(begin * self.samples, end * self.samples)]

    def _of_answers(self, problem: int, length: int, begun: int) -> list[Portion]:
        """Return one problem's answers from number `begun` on, in one portion or several."""
        place, spent, begin = problem * self.samples, 0, begun
        portions = []
        for number in range(begun, self.samples):
            cost = self._cost(length, number)
            spent += cost
            if number > begin and self.work is not None and spent > self.work:
                portions.append(Portion(place + begin, place + number))
                begin, spent = number, cost
        return [*portions, Portion(place + begin, place + self.samples)]

    def _cost(self, length: int, number: int) -> int:
        """Return the tokens times forward passes of one answer to a problem of this length."""
        passes = self.write + (self.verify if number < self.scored else 0)
        return min(length, self.columns or length) * passes
