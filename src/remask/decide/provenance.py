"""JSON files of fits, with the provenance of the scores and answers.

A fit belongs to one way of scoring: its file names the scorer, its version and its metric set, and
loading it for another score raises. The caller provides the provenance.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from remask.errors import RecordError, SettingsError
from remask.records import jsonl, text_file
from remask.records.validation import STRICT, explain, validate
from remask.values import ROUNDTRIPS

FEATURES = "features"  # the metric set of a verifier: features of records, see `verifier.columns`
COLUMNS = "columns"  # the metric set of scores that stand in records under the name of their scorer
CLOSED = STRICT | {"extra": "forbid"}  # of files that hold nothing but their fields
_REMEDY = "fit it again"


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The score and the answers of a fit."""

    __pydantic_config__: ClassVar = CLOSED

    scorer: str = ROUNDTRIPS  # its name; files of 0.1.0 and 0.2.0 do not say, and mean these
    scorer_version: int = 1  # see `Score.version`
    metric_set: str  # "paper", "core", or a name for other columns
    metrics: tuple[str, ...]
    task: str
    model: str
    split: str
    seed: int
    version: str  # of remask, or a commit
    date: str
    weights: Mapping[str, float] | None = None  # of the metrics in the score; None: uniform
    settings: Mapping[str, Any] = field(default_factory=dict)  # how answers were drawn and scored

    def check(
        self,
        metric_set: str,
        metrics: Sequence[str],
        where: Path,
        *,
        scorer: str = ROUNDTRIPS,
        version: int = 1,
    ) -> None:
        """Raise unless the fit is for this scorer and metric set."""
        self.check_scorer(scorer, version, where)
        if (self.metric_set, set(self.metrics)) != (metric_set, set(metrics)):
            raise RecordError(
                f"{where} was fitted to metric set {self.metric_set!r} "
                f"({', '.join(self.metrics)}), not to {metric_set!r} ({', '.join(metrics)}); "
                f"fit it again, or score with its metrics."
            )

    def check_scorer(self, scorer: str, version: int, where: Path) -> None:
        """Raise unless the fit is for this version of this scorer."""
        if self.scorer != scorer:
            raise RecordError(
                f"{where} was fitted to scores of {self.scorer!r}, not of {scorer!r}; fit it "
                f"again, or score with {self.scorer!r}."
            )
        if self.scorer_version != version:
            raise RecordError(
                f"{where} was fitted to version {self.scorer_version} of the scorer {scorer!r}, "
                f"not to version {version}; fit it again."
            )


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Base class of fits; the fields of a subclass are the fields of its file."""

    __pydantic_config__: ClassVar = CLOSED
    KIND: ClassVar[str]  # names it in the file

    provenance: Provenance

    def save(self, path: Path) -> None:
        """Write the fit atomically."""
        fields = asdict(self)
        provenance = fields.pop("provenance")
        document = {"kind": self.KIND, **fields, "provenance": provenance}
        jsonl.write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")

    @classmethod
    def load(
        cls,
        path: Path,
        metric_set: str,
        metrics: Sequence[str],
        *,
        scorer: str = ROUNDTRIPS,
        version: int = 1,
    ) -> Self:
        """Read a fit; raise if it is for another scorer or metric set."""
        fitted = cls.read(path)
        fitted.provenance.check(metric_set, metrics, path, scorer=scorer, version=version)
        return fitted

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a fit for any scorer and metric set."""
        from pydantic import ValidationError

        document = text_file.read_object(path, _REMEDY)
        kind = document.pop("kind", None)
        if not isinstance(kind, str):
            raise _damaged(path, "it has no kind")
        if kind != cls.KIND:
            raise RecordError(
                f"{path} is a file of kind {kind!r}, not {cls.KIND!r}; name another file."
            )
        try:
            return validate(cls._class_of(document), document)
        except ValidationError as error:
            cause = error.errors(include_url=False)[0].get("ctx", {}).get("error")
            if isinstance(cause, SettingsError):  # raised by __post_init__
                raise _damaged(path, str(cause).rstrip(".")) from None
            raise _damaged(path, str(explain(error, document))) from None
        except SettingsError as error:  # no class has such a document
            raise _damaged(path, str(error).rstrip(".")) from None

    @classmethod
    def _class_of(cls, document: Mapping[str, Any]) -> type[Self]:
        """Return the class of the fit in a document: this one or a subclass."""
        return cls


def _damaged(path: Path, what: str) -> RecordError:
    return RecordError(f"{path} is damaged: {what}; {_REMEDY}.")
