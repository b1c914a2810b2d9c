"""remask: know when a diffusion language model is wrong.

Mask a finished answer again, let the model rebuild it, measure what survived. Names are loaded
when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remask.api import (
        sample,
        sample_from_text,
        sample_many,
        score,
        score_many,
        solve,
        solve_many,
    )
    from remask.baselines.agreement import SelfConsistency
    from remask.baselines.confidence import ModelConfidence
    from remask.baselines.editor import EditorAgreement
    from remask.baselines.judge import SelfEvaluation
    from remask.baselines.text_likelihood import log_likelihood
    from remask.consistency.metrics import Metric
    from remask.consistency.roundtrips import Consistency
    from remask.consistency.settings import ConsistencySettings
    from remask.decide.auroc import auroc
    from remask.decide.rejection import best_of, majority_vote, reject
    from remask.denoisers.base import BlockCausalDenoiser, Denoiser
    from remask.denoisers.load import load
    from remask.errors import RemaskError
    from remask.sampling.settings import SamplerSettings, sampler_settings
    from remask.tasks import task
    from remask.tasks.base import Task
    from remask.values import Decision, RoundTrips, Sample, Score, Scorer

_HOMES = {
    "load": "denoisers.load",
    "sample": "api",
    "sample_many": "api",
    "sample_from_text": "api",
    "score": "api",
    "score_many": "api",
    "solve": "api",
    "solve_many": "api",
    "task": "tasks",
    "log_likelihood": "baselines.text_likelihood",
    "auroc": "decide.auroc",
    "sampler_settings": "sampling.settings",
    # What an extension is, or is given: a model, a metric of round trips, a scorer, a task.
    "Denoiser": "denoisers.base",
    "BlockCausalDenoiser": "denoisers.base",
    "Metric": "consistency.metrics",
    "RoundTrips": "values",
    "Scorer": "values",
    "Task": "tasks.base",
    "Consistency": "consistency.roundtrips",
    "ConsistencySettings": "consistency.settings",
    "SamplerSettings": "sampling.settings",
    "EditorAgreement": "baselines.editor",
    "ModelConfidence": "baselines.confidence",
    "SelfConsistency": "baselines.agreement",
    "SelfEvaluation": "baselines.judge",
    "reject": "decide.rejection",
    "best_of": "decide.rejection",
    "majority_vote": "decide.rejection",
    "Sample": "values",
    "Score": "values",
    "Decision": "values",
    "RemaskError": "errors",
}

__all__ = [
    "BlockCausalDenoiser",
    "Consistency",
    "ConsistencySettings",
    "Decision",
    "Denoiser",
    "EditorAgreement",
    "Metric",
    "ModelConfidence",
    "RemaskError",
    "RoundTrips",
    "Sample",
    "SamplerSettings",
    "Score",
    "Scorer",
    "SelfConsistency",
    "SelfEvaluation",
    "Task",
    "auroc",
    "best_of",
    "load",
    "log_likelihood",
    "majority_vote",
    "reject",
    "sample",
    "sample_from_text",
    "sample_many",
    "sampler_settings",
    "score",
    "score_many",
    "solve",
    "solve_many",
    "task",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("remask")
    if name not in _HOMES:
        raise AttributeError(f"module 'remask' has no attribute {name!r}")
    value = getattr(import_module(f"remask.{_HOMES[name]}"), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
