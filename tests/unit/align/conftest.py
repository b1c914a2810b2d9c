"""A network small enough to list all that it can do, in float64."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations, product

import pytest
import torch
from torch import Tensor, nn

LETTERS, LENGTH = 3, 3
MASK_ID = LETTERS


class TinyNetwork(nn.Module):
    """Rows of three letters: every place is predicted from all that is shown."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)

        def weights(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64))

        self.embedding = weights(LENGTH, LETTERS + 1, 4)
        self.places = weights(LENGTH, 4)
        self.head = weights(4, LETTERS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities of the letters at every place, (..., LENGTH, LETTERS)."""
        shown = self.embedding[torch.arange(LENGTH), tokens]  # (..., LENGTH, 4)
        mixed = torch.tanh(shown.sum(-2, keepdim=True) + self.places)
        return (mixed @ self.head).log_softmax(-1)

    def logp(self, tokens: Tensor, masked: Tensor) -> Tensor:
        """Return log p of the true tokens, (..., LENGTH), those of `masked` not shown."""
        found = self(tokens.masked_fill(masked, MASK_ID))
        true = tokens.expand(masked.shape)[..., None]
        return found.gather(-1, true)[..., 0]


@pytest.fixture
def network() -> TinyNetwork:
    return TinyNetwork()


def subsets() -> Iterator[tuple[int, ...]]:
    """Yield subsets of the places so often that their number is uniform on 1..3."""
    for size, often in ((1, 1), (2, 1), (3, 3)):
        for chosen in combinations(range(LENGTH), size):
            yield from [chosen] * often


@pytest.fixture(scope="session")
def every_mask() -> Tensor:
    """All ways to mask three tokens, (9, LENGTH) bool: their mean is the expectation."""
    return torch.tensor([[i in chosen for i in range(LENGTH)] for chosen in subsets()])


@pytest.fixture(scope="session")
def every_text() -> Tensor:
    return torch.tensor(list(product(range(LETTERS), repeat=LENGTH)))  # (27, LENGTH)


@pytest.fixture
def log_p(network: TinyNetwork) -> Callable[[Tensor], Tensor]:
    """Return the exact log-likelihoods of texts that are written in a random order, (N,)."""

    def along(texts: Tensor, order: Sequence[int]) -> Tensor:
        masked = torch.ones(LENGTH, dtype=torch.bool)
        total = torch.zeros(len(texts), dtype=torch.float64)
        for place in order:
            total = total + network.logp(texts, masked.expand_as(texts))[:, place]
            masked = masked.clone()
            masked[place] = False
        return total

    def measure(texts: Tensor) -> Tensor:
        orders = [along(texts, order) for order in permutations(range(LENGTH))]
        return torch.stack(orders).logsumexp(0) - torch.tensor(float(len(orders))).log()

    return measure
