"""What the study of the frontier was to show: each target with the figure that says it."""

from collections.abc import Callable
from dataclasses import dataclass

from remask.analysis.figure import Figure

FAMILIES = ("wordmath", "choice", "pycode", "countdown")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was to be shown, the figure that says it, and when it holds."""

    text: str
    name: str  # of the figure
    holds: Callable[[Figure], bool]
    digits: int = 3  # as many as tell a near miss from a hit


def _above(least: float, low: float | None = None) -> Callable[[Figure], bool]:
    """Return whether the value, and the low end of its interval, are at least so much."""

    def holds(figure: Figure) -> bool:
        is_low = low is None or (figure.low is not None and figure.low >= low)
        return figure.value >= least and is_low

    return holds


def _low(least: float) -> Callable[[Figure], bool]:
    return lambda figure: figure.low is not None and figure.low >= least


def _below(most: float) -> Callable[[Figure], bool]:
    return lambda figure: figure.value <= most


_TRIPS = "frontier/mean/verifier_minus_roundtrips"
_TEN = "frontier/mean/verifier_minus_agreement10"
_WITHOUT, _EQUAL = "without_countdown/auroc", "auroc_equal_length"
_MORE = "label-free minus round trips: at least +.025, interval above 0"
_LEVEL = "label-free minus ten samples: interval not below -.02"
_STEPS = "frontier/mean/sequential_minus_sequential_full/auroc"
TARGETS = (
    Target(text=_MORE, name=f"{_TRIPS}/auroc", holds=_above(0.025, 0)),
    Target(text=f"{_MORE}; without countdown", name=f"{_TRIPS}/{_WITHOUT}", holds=_above(0.025, 0)),
    Target(text=f"{_MORE}; at equal length", name=f"{_TRIPS}/{_EQUAL}", holds=_above(0.025, 0)),
    *(
        Target(
            text=f"label-free not more than .03 below round trips on {family}",
            name=f"{_TRIPS}/only_{family}/auroc",
            holds=_above(-0.03),
        )
        for family in FAMILIES
    ),
    Target(text=_LEVEL, name=f"{_TEN}/auroc", holds=_low(-0.02)),
    Target(text=f"{_LEVEL}; without countdown", name=f"{_TEN}/{_WITHOUT}", holds=_low(-0.02)),
    Target(text=f"{_LEVEL}; at equal length", name=f"{_TEN}/{_EQUAL}", holds=_low(-0.02)),
    Target(
        text="fitted, 200 labels, at most 20 forwards: .815",
        name="frontier/mean/fitted20/auroc",
        holds=_above(0.815),
    ),
    Target(
        text="fitted, 200 labels, at most 85 forwards: .845",
        name="frontier/mean/fitted85/auroc",
        holds=_above(0.845),
    ),
    Target(
        text="the same minus ten samples, fitted alike: not below -.01",
        name="frontier/mean/fitted85_minus_agreement10_fitted/auroc",
        holds=_above(-0.01),
    ),
    Target(
        text="the same with 400 labels: interval above 0",
        name="frontier/mean/fitted85_minus_agreement10_fitted/labels_400/auroc",
        holds=_low(0),
    ),
    Target(
        text="sequential minus its full form: -.005, interval not below -.01",
        name=_STEPS,
        holds=_above(-0.005, -0.01),
        digits=5,
    ),
    Target(
        text="rejection sampling, label-free minus round trips: interval not below -.015",
        name="frontier/mgrs/verifier_minus_roundtrips/accuracy",
        holds=_low(-0.015),
    ),
    Target(
        text="its forwards, label-free: at most .75 of round trips'",
        name="frontier/mgrs/verifier_over_roundtrips/forwards",
        holds=_below(0.75),
    ),
    Target(
        text="rejection sampling, sequential minus round trips: interval not below -.015",
        name="frontier/mgrs/sequential_minus_roundtrips/accuracy",
        holds=_low(-0.015),
    ),
    Target(
        text="its forwards, sequential: at most .60 of round trips'",
        name="frontier/mgrs/sequential_over_roundtrips/forwards",
        holds=_below(0.60),
    ),
    Target(
        text="LLaDA-8B's shape on an H200, `probe`: at most .02 s per answer",
        name="h200/llada8b/probe_seconds",
        holds=_below(0.02),
    ),
    Target(
        text="LLaDA-8B's shape on an H200, `verifier`: at most .30 s per answer",
        name="h200/llada8b/verifier_seconds",
        holds=_below(0.30),
    ),
    Target(
        text="the embedded model on two cores, `probe`: at most .06 s per answer",
        name="cpu/probe_seconds",
        holds=_below(0.06),
    ),
)
