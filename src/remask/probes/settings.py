"""Mask patterns for finished answers. No torch.

The name of a probe holds all its settings: `critical`, `halves8`, `stratified80x8`, `visible`.
Features in records carry it as a prefix.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal, cast, get_args

from remask.errors import SettingsError
from remask.settings import Setting, checked, unknown_name

Pattern = Literal["critical", "halves", "stratified", "visible"]
Which = Literal["critical_mean", "critical_min", "response_mean", "response_min"]  # readings
REPEATED = ("halves", "stratified")  # patterns with a number of passes

_RATIO = 0.8
_NAME = re.compile(r"([a-z]+)(?:([0-9]{1,3})x)?([0-9]{1,5})?")
_EXAMPLES = ("critical", "halves8", "stratified80x8", "visible")


@checked
@dataclass(frozen=True, kw_only=True)
class Probe:
    """A mask pattern.

    `critical` masks all critical tokens at once, `halves` random halves of them; both use the whole
    response if an answer has no critical token. `stratified` masks a share of the canvas in each
    pass, so that every token is masked about equally often. `visible` masks nothing.
    """

    pattern: Annotated[Pattern, Setting("Which tokens are masked.")]
    passes: Annotated[int, Setting("Masks per answer.", least=1, most=10_000)] = 1
    ratio: Annotated[float, Setting("Share that stratified masks.", above=0, most=1)] = _RATIO

    def __post_init__(self) -> None:
        if self.passes != 1 and self.pattern not in REPEATED:
            raise SettingsError(f"passes of {self.pattern} must be 1, got {self.passes}.")
        if self.pattern == "halves" and self.passes % 2:
            raise SettingsError(f"passes of halves must be even, got {self.passes}.")
        if self.ratio != _RATIO and self.pattern != "stratified":
            raise SettingsError(f"{self.pattern} has no ratio, got {self.ratio}.")
        if self.ratio != round(100 * self.ratio) / 100:
            raise SettingsError(f"ratio must be a multiple of 0.01, got {self.ratio}.")

    @property
    def name(self) -> str:
        """Name in records and tables."""
        if self.pattern == "stratified":
            return f"stratified{round(100 * self.ratio)}x{self.passes}"
        return f"{self.pattern}{self.passes}" if self.pattern in REPEATED else self.pattern

    @staticmethod
    @checked
    def named(name: str) -> "Probe":
        """Return the probe with this name."""
        parts = _NAME.fullmatch(name)
        if parts is not None and parts[1] in get_args(Pattern):
            try:
                probe = Probe(
                    pattern=cast(Pattern, parts[1]),
                    passes=int(parts[3] or 1),
                    ratio=_RATIO if parts[2] is None else int(parts[2]) / 100,
                )
            except SettingsError as error:
                raise SettingsError(f"Invalid probe {name!r:.80}: {error}") from None
            if probe.name == name:
                return probe
        raise unknown_name("probe", name, _EXAMPLES)
