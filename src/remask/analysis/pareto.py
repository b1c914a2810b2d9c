"""The Pareto front: what nothing else beats at its price."""

from collections.abc import Mapping


def pareto_front(reached: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names that reach more than all that cost no more, the cheapest first.

    Of equals in both the first one stays.

    Args:
        reached: cost and value by name.
    """
    front: list[str] = []
    for name, (_, value) in sorted(reached.items(), key=lambda item: (item[1][0], -item[1][1])):
        if not front or value > reached[front[-1]][1]:
            front.append(name)
    return front
