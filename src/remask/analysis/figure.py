"""A figure: one measured number, what it is of, and the name under which it is exported.

    Figure(section="diagnosis", study="wordmath-hard", method="roundtrips", measure="auroc", ...)
    .name   "diagnosis/wordmath-hard/roundtrips/auroc", as docs/figures.json and its markers say it

Names are made here and read here: everything else looks at the fields.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from remask.analysis.bootstrap import Interval

ALONE = ("accuracy", "errors")  # sections of one measure, which their names do not repeat
INJECTED = "spurious/injected"
# Second words of sections: flaws that were written in, and studies of another model than the first.
_SECOND = ("injected", "ablation", "carried", "correction", "cost", "diagnosis", "geometry")
WEIGHT, WEAKEST_TOKEN = "weight", "weakest_token"
_NAMED = ("section", "model", "study", "method", "part", "measure", "metric")  # in a name's order

Place = dict[str, Any]  # fields of figures that are of the same thing
Intervals = Mapping[str, tuple[Interval | None, str]]  # by measure, each with its unit


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured number and what it is of; what does not apply is empty."""

    section: str  # the kind of measurement: "diagnosis", "correction", "cost"
    model: str = ""  # where several are compared
    study: str = ""  # the records: "wordmath-hard"
    method: str = ""  # a score, a way to choose, a setting, a group of mixtures, a cost
    part: str = ""  # of the method: a setting's value, a mixture, a difficulty
    measure: str  # "auroc"
    metric: str = ""  # whose weight it is
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None  # answers or problems it was measured on
    unit: str
    detail: str = ""  # on what it was measured, where the fields above do not say it
    is_main: bool = False  # of a folder's main study, whose name the export leaves out

    @property
    def name(self) -> str:
        """The name in exported files."""
        words = {name: getattr(self, name) for name in _NAMED}
        if self.section in ALONE:
            words["measure"] = ""
        if self.is_main:
            words["study"] = ""
        return "/".join(filter(None, words.values()))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its interval; twice the value where it has none."""
        low = self.value if self.low is None else self.low
        return low, self.value if self.high is None else self.high

    def entry(self) -> dict[str, Any]:
        """Return what an exported file says under the name."""
        unit = f"{self.unit}; {self.detail}" if self.detail else self.unit
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n, "unit": unit}


class Figures(Mapping[str, Figure]):
    """Figures by their exported names, in the order of measuring, to be looked up by fields."""

    def __init__(self, figures: Iterable[Figure] = ()) -> None:
        self._by_name = {figure.name: figure for figure in figures}
        self._by_fields = {_key(vars(figure)): figure for figure in self._by_name.values()}

    def __getitem__(self, name: str) -> Figure:
        """Return the figure of an exported name."""
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._by_name)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_name)

    def __or__(self, other: "Figures") -> "Figures":
        """Return both; of two with one name, the other's."""
        return Figures((*self.values(), *other.values()))

    def find(self, **fields: str) -> Figure | None:
        """Return the figure with these fields and no others."""
        return self._by_fields.get(_key(fields))

    def distinct(self, field: str, **fields: str) -> list[str]:
        """Return what one field says of the figures that have the others."""
        chosen = (
            figure
            for figure in self.values()
            if all(getattr(figure, name) == value for name, value in fields.items())
        )
        return list(dict.fromkeys(word for f in chosen if (word := getattr(f, field))))


def of_interval(interval: Interval, **fields: Any) -> Figure:
    """Return a measured interval as a figure."""
    return Figure(
        value=interval.value, low=interval.low, high=interval.high, n=interval.n, **fields
    )


def of_intervals(intervals: Intervals, **fields: Any) -> list[Figure]:
    """Return a figure for every measure that exists; the fields say what they are of."""
    return [
        of_interval(interval, measure=measure, unit=unit, **fields)
        for measure, (interval, unit) in intervals.items()
        if interval is not None
    ]


def parse(name: str, entry: Mapping[str, Any]) -> Figure:
    """Return the figure of a name and entry in an exported file."""
    unit, _, detail = entry["unit"].partition("; ")
    numbers: Place = {key: entry.get(key) for key in ("value", "low", "high", "n")}
    return Figure(**parse_name(name), **numbers, unit=unit, detail=detail)


def parse_name(name: str) -> dict[str, Any]:
    """Return the fields that a name spells out, such that they spell it again."""
    section, *words = name.split("/")
    if words[:1] and words[0] in _SECOND:
        section = f"{section}/{words.pop(0)}"
    fields = {"section": section}
    if section in ALONE:
        fields["measure"] = section
    elif WEIGHT in words[:-1]:
        *words, fields["measure"], fields["metric"] = words
    else:
        *words, fields["measure"] = words
    if section == "process" and words[-1] == WEAKEST_TOKEN:
        fields["part"] = words.pop()
    places = ("study", "method", "part") if section != "scaling" else ("model", "study", "method")
    return fields | dict(zip(places, words, strict=False))


def _key(fields: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(fields.get(name, "") for name in _NAMED)
