"""How a check fails: with a sentence that begins with the name of what was checked."""

from remask.denoisers.base import Denoiser
from remask.values import Scorer


def require(holds: bool, who: Denoiser | Scorer, sentence: str) -> None:
    """Raise AssertionError with `sentence` unless it `holds`."""
    if not holds:
        raise AssertionError(f"{who.name}: {sentence}.")
