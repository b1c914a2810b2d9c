"""What processes exchange."""

import pytest
import torch

from remask.align import distributed


def test_gradients_are_summed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 4 numbers at once, a larger gradient alone, the order kept."""
    monkeypatch.setattr(distributed, "BUCKET", 4)
    gradients = [torch.zeros(n) for n in (1, 3, 2, 9, 1, 1)]
    buckets = list(distributed._buckets(gradients))
    assert [[g.numel() for g in bucket] for bucket in buckets] == [[1, 3], [2], [9], [1, 1]]
    assert list(distributed._buckets([])) == []
