"""What a verifier is told by flags and by those who serve it: the settings, and no torch."""

from pathlib import Path
from typing import Annotated

from remask.settings import Setting

FittedFile = Annotated[
    Path | None,
    Setting("Of --scorer verifier: what fit --scorer verifier wrote; label-free by default."),
]
MaxForwards = Annotated[
    int | None,
    Setting(
        "Of --scorer verifier: most forward passes per answer; all it has by default.",
        least=1,
        most=1_000_000,
    ),
]
