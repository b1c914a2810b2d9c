"""What was fitted elsewhere, for an answer at hand: weights, or a certificate with its own.

A certificate holds for one way of drawing and scoring answers; `verifier.threshold` compares.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from remask.cli.flags import UsageError
from remask.cli.query import Query
from remask.cli.settings import JudgeSettings
from remask.errors import InputError
from remask.tasks.settings import AnswerKind, TaskSettings
from remask.values import ROUNDTRIPS

if TYPE_CHECKING:
    from remask.decide.threshold import Certificate
    from remask.denoisers.base import Denoiser
    from remask.values import Score
    from remask.verifier.threshold import ScoreContext


class Criterion(NamedTuple):
    """What an answer is judged by: weights, and a certificate whose threshold decides."""

    weights: Mapping[str, float] | None = None
    path: Path | None = None
    certificate: "Certificate | None" = None

    @property
    def length(self) -> int | None:
        """The canvas that the certified answers stood on; scores on another are other scores."""
        if self.certificate is None:
            return None
        sampler = self.certificate.provenance.settings.get("sampler") or {}
        return sampler.get("length")

    def verdict(self, score: "Score") -> dict[str, Any]:
        """Return what a document says of an answer with this score; {} without a certificate."""
        if self.certificate is None:
            return {}
        accepted = score.exceeds(self.certificate.threshold)
        return {"accepted": accepted, "promise": self.sentence()}

    def sentence(self) -> str:
        """Return the promise and for which answers it holds, which no answer can show."""
        if self.certificate is None:
            return ""
        about = self.certificate.provenance
        level = about.settings.get("level")
        of = about.task if level in (None, "all") else f"{about.task}, level {level}"
        return f"{self.certificate} It holds for questions and answers drawn like these: {of}."

    def check(self, context: "ScoreContext") -> None:
        """Raise unless answers drawn and scored like these are what the certificate is about."""
        if self.certificate is not None and self.path is not None:
            from remask.verifier.threshold import check_certificate

            check_certificate(self.path, self.certificate, context)


def model_context(model: str, dtype: str | None, kind: str, **known: Any) -> "ScoreContext":
    """Return what is known of scores before they are made: the model as it was named."""
    from remask.collect.manifest import revision_of
    from remask.verifier.threshold import ScoreContext

    return ScoreContext(kind=kind, model=model, revision=revision_of(model), dtype=dtype, **known)


def query_context(
    model: str, denoiser: "Denoiser", query: Query, task: TaskSettings, **known: Any
) -> "ScoreContext":
    """Return the same for a loaded model and a question, with how a benchmark asks it."""
    from remask import api
    from remask.denoisers.native import dtype_of

    asked: dict[str, Any] = {}
    kind = api.reader(query.kind).name
    if query.task is not None and query.problem is not None:
        asked = {
            "task": query.task.name,
            "wording": task.wording,
            "shots": task.shots,
            "level": query.problem.level,
        }
    return model_context(model, dtype_of(denoiser), kind, **asked, **known)


def certified_kind(certificate: Path | None, kind: AnswerKind | None) -> AnswerKind | None:
    """Return how to read answers: as the certified ones were, where there is a certificate."""
    if certificate is None:
        return kind
    if kind is not None:
        raise UsageError("--certificate says how to read an answer: leave --kind out")
    from remask.decide.threshold import Certificate

    return cast(AnswerKind, Certificate.read(certificate).provenance.task)


def read_criterion(judge: JudgeSettings, kind: str, *, at_hand: bool = False) -> Criterion:
    """Return what the files hold for answers of this kind, `at_hand` or written here.

    Weights beside a certificate must be its own, and the certificate of the scorer that is chosen.
    """
    if judge.certificate is not None and judge.threshold is not None:
        raise UsageError("--certificate has a threshold of its own: leave --threshold out")
    if judge.certificate is None and judge.weights is None:
        return Criterion()
    from remask import api
    from remask.consistency.metrics import metric_names
    from remask.decide.provenance import COLUMNS
    from remask.decide.threshold import Certificate
    from remask.decide.weights import Weights
    from remask.verifier.columns import score_name

    scorer = score_name(judge.scorer, at_hand=at_hand)
    version = api.scorer_version(scorer)
    metrics, names = judge.metrics, metric_names(judge.metrics, api.reader(kind).metrics)
    path, weights = judge.weights, None
    if path is not None:
        weights = Weights.load(path, metrics, names, scorer=scorer, version=version).values
    if judge.certificate is None:
        return Criterion(weights)
    if scorer != ROUNDTRIPS:  # it is one column of the records, and has no weights
        one = Certificate.load(
            judge.certificate, COLUMNS, (scorer,), scorer=scorer, version=version
        )
        return Criterion(None, judge.certificate, one)
    certificate = Certificate.load(judge.certificate, metrics, names, version=version)
    if weights is not None and dict(weights) != certificate.provenance.weights:
        raise InputError(
            f"{judge.certificate} was certified with other weights than those in {path}, so its "
            "promise is void with them; leave --weights out, or certify again."
        )
    return Criterion(certificate.provenance.weights, judge.certificate, certificate)
