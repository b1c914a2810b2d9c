"""One answer with its truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Item:
    """A text, and what a careful person reads in it."""

    form: str  # the forms it was drawn from, for a report
    text: str
    truth: str | None  # None: unreadable
    others: tuple[str, ...] = ()  # answers that look like it and are others
    facts: Mapping[str, Any] = field(default_factory=dict)  # what the problem gives
