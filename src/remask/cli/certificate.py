"""What was fitted elsewhere, for an answer at hand: weights, or a certificate with its own.

A certificate holds for one way of drawing and scoring answers. What its file tells of that is
compared with what is about to be done, and anything else is refused: the promise would be void.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from remask.cli.flags import UsageError
from remask.cli.query import Query
from remask.cli.settings import JudgeSettings
from remask.errors import InputError
from remask.records.manifest import whole_sampler
from remask.tasks.settings import AnswerKind, TaskSettings
from remask.values import ROUNDTRIPS

if TYPE_CHECKING:
    from remask.decide.threshold import Certificate
    from remask.denoisers.base import Denoiser
    from remask.values import Score

_OF_MODEL = ("revision", "dtype")
_UNSAID: dict[str, Any] = {"wording": "llada", "shots": 0}  # how benchmarks are asked by default


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

    def threshold(self, given: float | None) -> float | None:
        """Return the certified threshold, or the one that was given."""
        return given if self.certificate is None else self.certificate.threshold

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

    def check(self, budget: int, query: Query, **settings: Any) -> None:
        """Raise where answers are to be drawn or scored in another way than was certified.

        Of the model's revision and number format only what the file knows is compared.
        """
        if self.certificate is None:
            return
        about = self.certificate.provenance
        known = {**_UNSAID, **about.settings}
        known |= {"model": about.model, "budget": self.certificate.budget}
        ours = {**settings, "budget": budget}
        known["sampler"] = _drawn(known.get("sampler"), budget)
        if "sampler" in ours:
            ours["sampler"] = _drawn(ours["sampler"], budget)
        ours = {k: v for k, v in ours.items() if k not in _OF_MODEL or known.get(k) is not None}
        if query.problem is not None:
            known["task"], ours["task"] = about.task, query.problem.task
            if known.get("level") != "all":
                ours["level"] = query.problem.level
        else:
            ours = {name: value for name, value in ours.items() if name not in _UNSAID}
        other = [name for name in ours if known.get(name) != ours[name]]
        if other:
            raise InputError(
                f"{self.path} was certified with another {' and '.join(other)} "
                f"({_named(known, other)}), so its promise is void here; ask as it did, or certify "
                "again."
            )


def _drawn(sampler: Mapping[str, Any] | None, budget: int) -> dict[str, Any]:
    """Return the settings of a sampler that decide about so many samples."""
    whole = whole_sampler(sampler)
    return whole if budget > 1 else {**whole, "resample_temperature": None}


def model_identity(model: str, dtype: str | None) -> dict[str, Any]:
    """Return what tells one model from another, as `Criterion.check` compares it."""
    from remask.collect.manifest import revision_of

    return {"model": model, "revision": revision_of(model), "dtype": dtype}


def query_identity(model: str, denoiser: "Denoiser", task: TaskSettings) -> dict[str, Any]:
    """Return the same of a loaded model, and how a benchmark is asked."""
    from remask.denoisers.native import dtype_of

    identity = model_identity(model, dtype_of(denoiser))
    return {**identity, "wording": task.wording, "shots": task.shots}


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
    from remask.verifier.columns import owner

    scorer = owner(judge.scorer, at_hand=at_hand) or judge.scorer
    version = api.scorer_version(scorer)
    metrics, names = judge.metrics, metric_names(judge.metrics, api.reader(kind).metrics)
    path, weights = judge.weights, None
    if path is not None:
        weights = Weights.load(path, metrics, names, scorer=scorer, version=version).values
    if judge.certificate is None:
        return Criterion(weights)
    if scorer != ROUNDTRIPS:  # it is one column of the records, and has no weights
        _refuse_elsewhere(judge.certificate, judge.scorer, at_hand=at_hand)
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


def _refuse_elsewhere(path: Path, scorer: str, *, at_hand: bool) -> None:
    """Raise where a certificate is of answers written here and these are not, or the other way."""
    from remask.decide.threshold import Certificate
    from remask.verifier.columns import score_name

    ours, other = (score_name(scorer, at_hand=here) for here in (at_hand, not at_hand))
    if ours != other == Certificate.read(path).provenance.scorer:
        where = "answers that were not written here" if at_hand else "answers written here"
        raise InputError(
            f"{path} was fitted to scores of {other!r}, not of {ours!r}, which {where} have; make "
            f"one of these with remask certify --scorer {ours}."
        )


def _named(known: Mapping[str, Any], names: list[str]) -> str:
    simple = {name: known.get(name) for name in names if not isinstance(known.get(name), dict)}
    nested = [name for name in names if name not in simple]
    listed = [f"{name} {value}" for name, value in simple.items()]
    return ", ".join([*listed, *(f"its file tells the {name}" for name in nested)])
