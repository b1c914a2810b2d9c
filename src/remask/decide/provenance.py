"""Where fitted numbers come from, and the JSON files that say so.

Weights, certificates and calibrators belong to one way of scoring. Their files name the scorer, its
version and its metric set, and reading one for another is an error. What they were fitted on is
given by the caller: no clock and no repository is consulted here.
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
    """The score that something was fitted to, and the answers it was fitted on."""

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
        """Raise unless the score is this scorer's, and made of this metric set."""
        self.check_scorer(scorer, version, where)
        if (self.metric_set, set(self.metrics)) != (metric_set, set(metrics)):
            raise RecordError(
                f"{where} was fitted to metric set {self.metric_set!r} "
                f"({', '.join(self.metrics)}), not to {metric_set!r} ({', '.join(metrics)}); "
                f"fit it again, or score with its metrics."
            )

    def check_scorer(self, scorer: str, version: int, where: Path) -> None:
        """Raise unless the score is one of this scorer, in this version."""
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
    """What was fitted on answers; the fields of a subclass are those of its file."""

    __pydantic_config__: ClassVar = CLOSED
    KIND: ClassVar[str]  # names it in the file

    provenance: Provenance

    def save(self, path: Path) -> None:
        """Write it with its provenance at the end, whole or not at all."""
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
        """Return what a file holds; anything fitted to another scorer or metric set is refused."""
        fitted = cls.read(path)
        fitted.provenance.check(metric_set, metrics, path, scorer=scorer, version=version)
        return fitted

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what a file holds, of any scorer and metric set."""
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
            if isinstance(cause, SettingsError):  # each number is possible, and not all together
                raise _damaged(path, str(cause).rstrip(".")) from None
            raise _damaged(path, str(explain(error, document))) from None
        except SettingsError as error:  # no class has such a document
            raise _damaged(path, str(error).rstrip(".")) from None

    @classmethod
    def _class_of(cls, document: Mapping[str, Any]) -> type[Self]:
        """Return the class of what a document holds: this one, or a subclass."""
        return cls


def _damaged(path: Path, what: str) -> RecordError:
    return RecordError(f"{path} is damaged: {what}; {_REMEDY}.")
