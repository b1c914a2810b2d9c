"""What a probe is: which tokens of a finished answer are masked, and how often. No torch.

A probe has a name, which says all of it: `critical`, `halves8`, `random15x4`, `stratified80x8`,
`forced8`, `visible`, `suffix`. Features in records are named after it.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal, cast, get_args

from remask.errors import SettingsError
from remask.settings import Setting, checked, unknown_name

Pattern = Literal["critical", "halves", "random", "stratified", "forced", "visible", "suffix"]
Which = Literal["critical_mean", "critical_min", "response_mean", "response_min"]  # readings
DRAWN = ("random", "stratified")  # patterns that have a ratio
REPEATED = ("halves", *DRAWN, "forced")  # patterns that have a number of passes

_RATIO = 0.8
_NAME = re.compile(r"([a-z]+)(?:([0-9]{1,3})x)?([0-9]{1,5})?")
_EXAMPLES = ("critical", "halves8", "random15x4", "stratified80x8", "forced8", "visible", "suffix")


@checked
@dataclass(frozen=True, kw_only=True)
class Probe:
    """A mask pattern.

    `critical` masks all critical tokens at once, `halves` random halves of them; where an answer
    has no critical token both take its whole response. `random` and `stratified` mask a share of
    the canvas, `forced` all of it, which is then revealed with its own tokens. `visible` masks
    nothing, `suffix` each block with all that follows it.
    """

    pattern: Annotated[Pattern, Setting("Which tokens are masked.")]
    passes: Annotated[
        int, Setting("Masks per answer; of forced, the steps.", least=1, most=10_000)
    ] = 1
    ratio: Annotated[float, Setting("Share that random and stratified mask.", above=0, most=1)] = (
        _RATIO
    )

    def __post_init__(self) -> None:
        """Refuse what cannot work, and what the name would not say."""
        if self.passes != 1 and self.pattern not in REPEATED:
            raise SettingsError(f"passes is {self.passes}; {self.pattern} has no such number.")
        if self.pattern == "halves" and self.passes % 2:
            raise SettingsError(f"passes is {self.passes}; halves come in pairs: make it even.")
        if self.ratio != _RATIO and self.pattern not in DRAWN:
            raise SettingsError(f"ratio is {self.ratio}; {self.pattern} masks no share of tokens.")
        if self.ratio != round(100 * self.ratio) / 100:
            raise SettingsError(f"ratio is {self.ratio}; give a whole number of hundredths.")

    @property
    def name(self) -> str:
        """Name in records and tables."""
        if self.pattern in DRAWN:
            return f"{self.pattern}{round(100 * self.ratio)}x{self.passes}"
        return f"{self.pattern}{self.passes}" if self.pattern in REPEATED else self.pattern

    @staticmethod
    @checked
    def named(name: str) -> "Probe":
        """Return the probe that bears this name."""
        parts = _NAME.fullmatch(name)
        if parts is not None and parts[1] in get_args(Pattern):
            try:
                probe = Probe(
                    pattern=cast(Pattern, parts[1]),
                    passes=int(parts[3] or 1),
                    ratio=_RATIO if parts[2] is None else int(parts[2]) / 100,
                )
            except SettingsError as error:  # it speaks of a part of the name
                raise SettingsError(f"probe {name!r:.80} cannot be: {error}") from None
            if probe.name == name:
                return probe
        raise unknown_name("probe", name, _EXAMPLES)
