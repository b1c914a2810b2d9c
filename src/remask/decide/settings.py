"""Settings of a decision. No torch here."""

from typing import Annotated

from remask.settings import Setting

BUDGET = Setting("Most answers to draw.", least=1, most=1_000)
RISK = Setting("Largest share of wrong answers among the accepted.", above=0, below=1)
CONFIDENCE = Setting("How sure the promise is.", above=0, below=1)
PAPER_THRESHOLD = 0.75  # of round trips; the paper validated it for its own models

Budget = Annotated[int, BUDGET]
Risk = Annotated[float, RISK]
Confidence = Annotated[float, CONFIDENCE]
