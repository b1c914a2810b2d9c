"""Above which score to trust an answer: what a fit chose, else what the model's preset says."""

from typing import NamedTuple

from remask.decide.stages import StagedVerifier
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
    if limit is not None:
        return limit
    name = scorer if isinstance(scorer, str) else scorer.name
    columns = f" --columns {name}" if name in MEANS else ""
    missing = NoThreshold(
        f"{model.name} has no threshold for scores of {name!r}",
        f", or find one on labelled answers with remask fit{columns} and certify",
    )
    if isinstance(scorer, Verifier):
        missing = why_none(scorer.fitted, scorer.budget) or missing
    raise SettingsError(
        f"{missing.cause}; give one with --threshold (threshold= in Python){missing.remedy}."
    )


class NoThreshold(NamedTuple):
    """Why there is no threshold, and what can be done beside giving one."""

    cause: str
    remedy: str = ""


def why_none(fitted: StagedVerifier | None, budget: int | None) -> NoThreshold | None:
    """Return why a verifier has no threshold, whatever the model; None for the whole label-free."""
    if fitted is not None and fitted.reason:
        few = f"the fitted verifier has no threshold ({fitted.reason})"
        return NoThreshold(few, ", or label more answers and fit it again")
    if fitted is not None:
        return NoThreshold(
            "the fitted verifier has no threshold (that of the best F1 accepts every answer)"
        )
    if budget is not None:
        return NoThreshold(
            f"within {budget} forwards the verifier is another score, and the thresholds of models "
            "are of the whole one",
            ", leave --max-forwards out, or fit it to labelled answers with remask fit --scorer "
            "verifier",
        )
    return None
