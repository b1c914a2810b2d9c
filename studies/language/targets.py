"""What the study of real words was to show: each target with the figure that says it."""

from collections.abc import Callable

from remask.analysis.figure import Figure
from studies.frontier.targets import Target


def _value(least: float) -> Callable[[Figure], bool]:
    return lambda figure: figure.value >= least


def _low(least: float, *, strictly: bool = False) -> Callable[[Figure], bool]:
    """Return whether the low end of the interval is at least so much, or more."""

    def holds(figure: Figure) -> bool:
        if figure.low is None:
            return False
        return figure.low > least if strictly else figure.low >= least

    return holds


TARGETS = (
    *(
        Target(
            text=f"{title}, greedy: at least {least:.2f} right",
            name=f"real/{name}/accuracy",
            holds=_value(least),
        )
        for name, title, least in (
            ("svamp", "SVAMP", 0.18), ("gsm8k", "GSM8K", 0.05), ("mawps", "MAWPS", 0.30),
        )
    ),
    *(
        Target(
            text=f"label-free verifier minus {title}: interval not below -.03",
            name=f"real/verifier_minus_{name}/auroc",
            holds=_low(-0.03),
        )
        for name, title in (("confidence", "confidence"), ("roundtrips", "round trips"))
    ),
    *(
        Target(
            text=f"fitted verifier minus {name}: interval above 0",
            name=f"real/fitted_minus_{name}/auroc",
            holds=_low(0.0, strictly=True),
        )
        for name in ("length", "confidence")
    ),
)  # fmt: skip
