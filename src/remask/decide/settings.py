"""Settings of a decision. No torch here."""

from typing import Annotated

from remask.settings import Setting

BUDGET = Setting("Most answers to draw.", least=1, most=1_000)
Budget = Annotated[int, BUDGET]
