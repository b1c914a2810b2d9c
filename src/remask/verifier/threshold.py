"""Which threshold applies to a score. Every entry point asks here. No torch.

A threshold belongs to one way of making scores: a model in one number format, a scorer with its
metrics, weights and settings, a kind of answer, a strategy and a source of the answers. This is a
`ScoreContext`. Fits, certificates and presets each state the context that their threshold was
chosen in, and `differences` compares it with the context of a score. A threshold of another context
gives no verdict; a fit or a certificate of another context is an error.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from remask.consistency.settings import ConsistencySettings
from remask.decide.provenance import Fitted
from remask.decide.settings import PAPER_THRESHOLD
from remask.decide.stages import StagedVerifier
from remask.decide.threshold import Certificate
from remask.errors import InputError, SettingsError
from remask.records.manifest import Manifest, whole_sampler
from remask.settings import checked
from remask.values import ROUNDTRIPS, Score, Verdict
from remask.verifier.columns import AT_HAND, GENERATION, VERIFIER, VERSION

Source = Literal["model", "external"]  # who wrote the answer
UNIFORM = "uniform"  # weights
NO_THRESHOLD = (
    "no threshold is known for these settings; fit one with `remask fit` or pass `--threshold`"
)
PAPER = "paper (not validated for this model)"
_MISSING = {"not recorded": True}
_FULL = ("float32", "bfloat16")  # number formats that preset thresholds were chosen in


@checked
@dataclass(frozen=True, kw_only=True)
class ScoreContext:
    """How a score was made: all that its threshold depends on. None: unknown, or does not apply."""

    kind: str  # of the answers: how they are read, or their task
    model: str | None = None
    dtype: str | None = None
    revision: str | None = None
    scorer: str = ROUNDTRIPS
    scorer_version: int | None = None
    metrics: str | None = None  # of round trips: paper, core, or names
    weights: Mapping[str, float] | str | None = None  # of the metrics
    consistency: Mapping[str, Any] | None = None  # settings of the round trips
    max_forwards: int | Literal["all"] | None = None  # of the verifier
    source: Source | None = None
    strategy: str = "reject"
    # How the questions were asked and the answers drawn; presets do not state it.
    task: str | None = None
    budget: int | None = None
    level: str | None = None
    wording: str | None = None
    shots: int | None = None
    sampler: Mapping[str, Any] | None = None


@checked
@dataclass(frozen=True, kw_only=True)
class ScoreThreshold:
    """A threshold and its origin, or the reason why there is none."""

    value: float | None = None
    source: str | None = None  # given, certificate, fit, scorer, preset, validation or PAPER
    reason: str = ""  # why no verdict can be given

    @checked
    def verdict(self, score: Score) -> Verdict:
        """Return the verdict on a score of the context that this threshold was found for."""
        value = None if self.source == PAPER else self.value
        return score.verdict(value, is_certified=self.source == "certificate")

    @property
    def fields(self) -> dict[str, Any]:
        """The threshold as JSON documents show it."""
        source, reason = self.source, self.reason
        return {"threshold": self.value, "threshold_source": source, "threshold_reason": reason}


@checked
def find_threshold(
    context: ScoreContext,
    thresholds: Mapping[str, float],
    *,
    given: float | None = None,
    fitted: Fitted | None = None,
    scorer_threshold: float | None = None,
    stops: bool = False,
) -> ScoreThreshold:
    """Return the threshold that applies to scores of this context, or why there is none.

    Args:
        context: of the scores.
        thresholds: of the preset for this kind of answer, by scorer.
        given: a threshold that the user chose for these scores.
        fitted: a certificate or a fit that passed its check; only its source may still differ.
        scorer_threshold: the threshold of a user's scorer.
        stops: rejection sampling stops by it. Default round trips then fall back to the paper's
            threshold, and anything else without a threshold is an error.
    """
    if given is not None:
        return ScoreThreshold(value=given, source="given")
    if fitted is not None:
        found = _of_fit(context, fitted)
    elif scorer_threshold is not None:
        found = ScoreThreshold(value=scorer_threshold, source="scorer")
    else:
        found = _of_preset(context, thresholds)
    if found.value is not None or not stops:
        return found
    ours = (context.scorer, context.metrics, context.weights, context.consistency)
    if ours != (ROUNDTRIPS, "paper", UNIFORM, asdict(ConsistencySettings())):
        raise SettingsError(f"{found.reason}.")
    return replace(found, value=PAPER_THRESHOLD, source=PAPER)


def is_paper(scorer: str, threshold: float) -> bool:
    """Return whether this is the paper's threshold, the default of models without their own."""
    return (scorer, threshold) == (ROUNDTRIPS, PAPER_THRESHOLD)


def text_source(is_own: bool, scorer: str, *, is_fitted: bool) -> Source:
    """Return the source of an answer that is given as text.

    A text has no record of its generation, so the label-free verifier treats it as external.
    """
    return "model" if is_own and (scorer != VERIFIER or is_fitted) else "external"


@checked
def differences(known: ScoreContext, ours: ScoreContext) -> str:
    """Return in what `ours` differs, as "trips 4, got 2"; empty if nothing does.

    A value that is None on either side is not compared.
    """
    other: dict[str, tuple[Any, Any]] = {}
    for name, now in vars(ours).items():
        before = getattr(known, name)
        if before is None or now is None:
            continue
        both = {name: (before, now)}
        if isinstance(before, Mapping) and isinstance(now, Mapping) and before != _MISSING:
            both = {key: (before[key], value) for key, value in now.items() if key in before}
        other |= {key: pair for key, pair in both.items() if pair[0] != pair[1]}
    pairs = (f"{name} {_shown(before)}, got {_shown(now)}" for name, (before, now) in other.items())
    return "; ".join(pairs)


def check_fit(fitted: StagedVerifier, ours: ScoreContext, kinds: Collection[str]) -> None:
    """Raise unless a fitted verifier is for answers like these.

    Args:
        fitted: the verifier.
        ours: the answers that it would score.
        kinds: the names of the kind of answer that it was fitted to.
    """
    known = fitted_context(fitted)
    kind = known.kind if ours.kind in kinds else ours.kind
    # The source only decides whether its threshold applies; the kind stands for the task.
    ours = replace(ours, kind=kind, task=None, source=None, scorer=VERIFIER, scorer_version=VERSION)
    other = differences(known, ours)
    if other:
        raise SettingsError(
            f"The verifier was fitted on {other}. Fit it again, or use the label-free verifier."
        )


def check_certificate(path: Path, certificate: Certificate, ours: ScoreContext) -> None:
    """Raise unless answers drawn and scored like these are what a certificate is about."""
    known = replace(fitted_context(certificate), budget=certificate.budget)
    known = replace(
        known, consistency=known.consistency or _MISSING, sampler=_drawn(known) or _MISSING
    )
    # The scorer was compared when the certificate was read.
    ours = replace(
        ours, scorer=known.scorer, dtype=ours.dtype or "unknown", budget=ours.budget or 1,
        revision=ours.revision or "unknown", sampler=_drawn(ours),
    )  # fmt: skip
    other = differences(known, ours)
    if other:
        hint = " Pass --own if the model wrote the answer." if "got external" in other else ""
        raise InputError(
            f"{path} was certified for {other}.{hint} Ask and score as it did, or certify again."
        )


def fitted_context(fitted: Fitted) -> ScoreContext:
    """Return the context of the scores that something was fitted to."""
    about = fitted.provenance
    older: dict[str, Any] = {"wording": "llada", "shots": 0}  # what files mean that do not say
    known = older | {name: value for name, value in about.settings.items() if value is not None}
    sampler = known.get("sampler")
    return ScoreContext(
        kind=about.task, task=about.task, model=about.model, dtype=known.get("dtype"),
        revision=known.get("revision"), scorer=about.scorer, scorer_version=about.scorer_version,
        weights=dict(about.weights) if about.weights else UNIFORM, source=_fitted_source(fitted),
        consistency=_trips(known.get("consistency")),
        level=None if known.get("level") == "all" else known.get("level"),
        wording=known["wording"], shots=known["shots"],
        sampler=whole_sampler(sampler) if isinstance(sampler, Mapping) else None,
    )  # fmt: skip


def manifest_context(manifest: Manifest, kind: str) -> ScoreContext:
    """Return the context of the round-trip scores in a file of records."""
    model = manifest.model
    return ScoreContext(
        kind=kind, model=manifest.settings.get("model"), dtype=model.dtype if model else None,
        revision=model.revision if model else None, metrics=manifest.settings.get("metrics"),
        scorer_version=manifest.scorer_version(ROUNDTRIPS), weights=UNIFORM, source="model",
        consistency=_trips(manifest.consistency or None),
    )  # fmt: skip


def _trips(recorded: object) -> dict[str, Any] | None:
    """Return recorded settings of round trips, with the defaults that older files leave out."""
    if not isinstance(recorded, Mapping):
        return None
    return {**asdict(ConsistencySettings()), **recorded}


def _of_preset(context: ScoreContext, thresholds: Mapping[str, float]) -> ScoreThreshold:
    scorer, dtype = context.scorer, context.dtype
    value = thresholds.get(scorer)
    if value is None or is_paper(scorer, value):
        return _none(f"{context.model} has none for scorer {scorer}, kind {context.kind}")
    known = ScoreContext(
        kind=context.kind, scorer=scorer, dtype=dtype if dtype in _FULL else _FULL[0],
        metrics="paper", weights=UNIFORM, consistency=asdict(ConsistencySettings()),
        max_forwards="all", source=None if scorer == AT_HAND else "model",
    )  # fmt: skip
    other = differences(known, context)
    if other:
        return _none(f"the preset's is for {other}")
    return ScoreThreshold(value=value, source="preset")


def _of_fit(context: ScoreContext, fitted: Fitted) -> ScoreThreshold:
    value: float | None = getattr(fitted, "threshold", None)
    if value is None:
        cause = getattr(fitted, "reason", "") or "the best one by F1 accepts every answer"
        return _none(f"the fitted verifier has none: {cause}")
    source = _fitted_source(fitted)
    if source not in (None, context.source):
        told = f"source {source}, got {context.source}"
        return _none(f"the fit's is for {told}; `remask fit --scorer verifier_at_hand` has both")
    is_fit = isinstance(fitted, StagedVerifier)
    return ScoreThreshold(value=value, source="fit" if is_fit else "certificate")


def _fitted_source(fitted: Fitted) -> Source | None:
    """Return whose answers a threshold is for: the model's own, on which it was chosen.

    None: anybody's, if the score uses nothing that only the writer of an answer knows.
    """
    if not isinstance(fitted, StagedVerifier):
        return None if fitted.provenance.scorer == AT_HAND else "model"
    names = (name for stage in fitted.stages for name in stage.regression.names)
    is_writer = any(name.partition(".")[0] in (GENERATION, "trace") for name in names)
    return "model" if is_writer else None


def _drawn(context: ScoreContext) -> Mapping[str, Any] | None:
    """Return the settings that decide about so many samples: the first has its own temperature."""
    if (context.budget or 1) > 1 or context.sampler is None:
        return context.sampler
    return {name: v for name, v in context.sampler.items() if name != "resample_temperature"}


def _none(cause: str) -> ScoreThreshold:
    return ScoreThreshold(reason=f"{NO_THRESHOLD} ({cause})")


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "not recorded" if value == _MISSING else "other"
    return f"{value:g}" if isinstance(value, float) else str(value)
