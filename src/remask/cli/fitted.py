"""The verifier that flags describe: label-free or fitted, within a budget of forward passes.

What was fitted speaks for answers of one model to one task. Where they come from elsewhere it is
refused, as far as that can be seen.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from remask.cli.flags import UsageError
from remask.cli.query import Query
from remask.cli.settings import JudgeSettings
from remask.sampling.settings import SamplerSettings
from remask.tasks.settings import AnswerKind

if TYPE_CHECKING:
    from remask import api
    from remask.decide.stages import StagedVerifier
    from remask.denoisers.base import Denoiser
    from remask.verifier.threshold import ScoreContext

VERIFIER = "verifier"


class VerifierFlags(NamedTuple):
    """What --scorer verifier is told."""

    path: Path | None = None
    fitted: "StagedVerifier | None" = None
    max_forwards: int | None = None

    @property
    def maker(self) -> "api.ScorerMaker":
        """What makes the verifier of a model and the prompts."""
        from remask import api

        return partial(api.verifier, fitted=self.fitted, budget=self.max_forwards)

    @property
    def length(self) -> int | None:
        """The canvas of the answers that it was fitted to; None where it is label-free."""
        from remask.verifier.origin import canvas_length

        return canvas_length(self.fitted)

    @property
    def is_fitted(self) -> bool:
        """Whether its scores are probabilities: labels were enough."""
        return self.fitted is not None and not self.fitted.reason

    @property
    def document(self) -> dict[str, Any]:
        """What JSON says of it; nothing of what is as usual."""
        settings = {"fitted": self.path and str(self.path), "max_forwards": self.max_forwards}
        return {name: value for name, value in settings.items() if value is not None}

    def kind(self, given: AnswerKind | None, task: str) -> AnswerKind | None:
        """Return how to read answers: by default as those that it was fitted to."""
        if self.fitted is None or given is not None or task:
            return given
        return cast(AnswerKind, self.fitted.provenance.task)

    def sampler(
        self, denoiser: "Denoiser", query: Query, given: Mapping[str, Any]
    ) -> SamplerSettings:
        """Return how answers are drawn, or raise where it is not as those it was fitted to.

        Where nothing is given, answers to a prompt of the user's are.
        """
        from remask.verifier.origin import check_sampler, fitted_sampler

        own = None
        if query.problem is None and not given:
            own = fitted_sampler(self.fitted, denoiser, query.kind)
        drawn = own or query.sampler(denoiser, given)
        check_sampler(self.fitted, drawn)
        return drawn

    def check(self, context: "ScoreContext") -> None:
        """Raise unless a fitted verifier is for answers like these."""
        if self.fitted is None:
            return
        from remask import api
        from remask.verifier.threshold import check_fit

        ours = replace(context, level=None)  # a fit is for all levels of a task
        check_fit(self.fitted, ours, api.kinds_like(self.fitted.provenance.task))


def read_verifier_flags(judge: JudgeSettings) -> VerifierFlags:
    """Return what the flags say of the verifier, and refuse them under another scorer."""
    flags = {"--fitted": judge.fitted, "--max-forwards": judge.max_forwards}
    given = [flag for flag, value in flags.items() if value is not None]
    if given and judge.scorer != VERIFIER:
        raise UsageError(f"{given[0]} belongs to --scorer verifier, not to {judge.scorer}")
    if given and judge.certificate is not None:
        raise UsageError(
            f"--certificate is of the whole label-free verifier: leave {given[0]} out beside it"
        )
    if judge.fitted is None:
        return VerifierFlags(max_forwards=judge.max_forwards)
    from remask.verifier.origin import read_fitted

    return VerifierFlags(judge.fitted, read_fitted(judge.fitted), judge.max_forwards)
