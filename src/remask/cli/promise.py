"""What was fitted elsewhere, for an answer at hand: weights, or a certificate with its own.

A certificate holds for one way of drawing and scoring answers. What its file tells of that is
compared with what is about to be done, and anything else is refused: the promise would be void.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from remask import options as opt
from remask.errors import InputError

if TYPE_CHECKING:
    from remask.decide.threshold import Certificate


class Promise(NamedTuple):
    """The weights to score with, and the certificate whose threshold decides."""

    weights: Mapping[str, float] | None = None
    path: Path | None = None
    certificate: "Certificate | None" = None

    def threshold(self, given: float | None) -> float | None:
        """Return the certified threshold, or the one that was given."""
        return given if self.certificate is None else self.certificate.threshold

    def check(self, budget: int, asked: opt.Question, **settings: Any) -> None:
        """Raise where answers are to be drawn or scored in another way than was certified."""
        if self.certificate is None:
            return
        about = self.certificate.provenance
        known = {**about.settings, "model": about.model, "budget": self.certificate.budget}
        told = {**settings, "budget": budget}
        if asked.problem is not None:
            known["task"], told["task"] = about.task, asked.problem.task
            if known.get("level") != "all":
                told["level"] = asked.problem.level
        other = [name for name in told if known.get(name) != told[name]]
        if other:
            raise InputError(
                f"{self.path} was certified with another {' and '.join(other)} "
                f"({_named(known, other)}), so its promise is void here; ask as it did, or certify "
                "again."
            )


def read_promise(
    weights: Path | None,
    certificate: Path | None,
    kind: str,
    metrics: opt.MetricSet,
    threshold: float | None = None,
) -> Promise:
    """Return what the files hold for answers of this kind, scored with this metric set."""
    if certificate is not None and (weights is not None or threshold is not None):
        raise opt.UsageError(
            "--certificate has weights and a threshold of its own: leave --weights and "
            "--threshold out"
        )
    from remask import api
    from remask.consistency.metrics import metric_names
    from remask.decide.threshold import Certificate
    from remask.decide.weights import Weights

    names = metric_names(metrics, api.reader(kind).metrics)
    if certificate is not None:
        found = Certificate.load(certificate, metrics, names)
        return Promise(found.provenance.weights, certificate, found)
    if weights is not None:
        return Promise(Weights.load(weights, metrics, names).values)
    return Promise()


def _named(known: Mapping[str, Any], names: list[str]) -> str:
    simple = {name: known.get(name) for name in names if not isinstance(known.get(name), dict)}
    nested = [name for name in names if name not in simple]
    listed = [f"{name} {value}" for name, value in simple.items()]
    return ", ".join([*listed, *(f"its file tells the {name}" for name in nested)])
