"""Above which score to trust an answer: what a fit chose, else what the model's preset says."""

from remask.denoisers.base import Denoiser
from remask.errors import SettingsError
from remask.values import Scorer
from remask.verifier.columns import MEANS
from remask.verifier.verifier import Verifier


def threshold_of(
    model: Denoiser, kind: str, scorer: Scorer | str, *, at_hand: bool = False
) -> float | None:
    """Return the threshold of a scorer, or of a name: that of a fit, else the preset's.

    None where there is none: one scorer's threshold says nothing about the scores of another, nor
    that of answers written here about answers `at_hand`.
    """
    own: float | None = getattr(scorer, "threshold", None)  # of one that was fitted
    if own is not None:
        return own
    name: str | None = scorer if isinstance(scorer, str) else scorer.name
    if isinstance(scorer, Verifier):
        name = scorer.owner(at_hand=at_hand)
    return None if name is None else model.preset.for_task(kind).threshold_for(name)


def threshold_for(model: Denoiser, kind: str, scorer: Scorer | str) -> float:
    """Return the threshold for answers written here, or raise where there is none."""
    limit = threshold_of(model, kind, scorer)
    if limit is None:
        name = scorer if isinstance(scorer, str) else scorer.name
        columns = f" --columns {name}" if name in MEANS else ""
        raise SettingsError(
            f"{model.name} has no threshold for scores of {name!r}; give one with --threshold "
            "(threshold= in Python), or find one on labelled answers with "
            f"remask fit{columns} and certify."
        )
    return limit
