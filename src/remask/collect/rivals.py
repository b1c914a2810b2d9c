"""The baselines that collected answers are scored with, beside the round trips.

`confidence` stands in the sample; `vote` and `agreement` are read off the pool by the studies. They
cost no forward pass and are always there. The others ask the model again, about the same answers
that get round trips, and at least about the first one:

    self_evaluation   the model's own number, asked with the paper's prompt; absent without one
    editor            share of tokens that it would write again; for models trained to edit
"""

from collections.abc import Mapping, Sequence

from remask.baselines.editor import EditorAgreement
from remask.baselines.judge import SelfEvaluation, reply_settings
from remask.collect.settings import COSTLY_BASELINES
from remask.denoisers.base import Denoiser
from remask.sampling.settings import SamplerSettings
from remask.values import Sample, Score, Scorer


def forwards(names: Sequence[str], denoiser: Denoiser, sampler: SamplerSettings) -> int:
    """Return about how many passes these baselines take of an answer."""
    reply = reply_settings(denoiser, sampler).steps if "self_evaluation" in names else 0
    return reply + ("editor" in names)


def edits(denoiser: Denoiser) -> bool:
    """Say whether a model was trained to correct what it sees, as its preset tells."""
    return denoiser.preset.edit_threshold is not None


def score(
    names: Sequence[str],
    denoiser: Denoiser,
    samples: Sequence[Sample],
    questions: Mapping[str, str],
    sampler: SamplerSettings,
    seed: int,
) -> dict[str, list[Score]]:
    """Return the scores of those that cost passes, one per sample; `questions` are by item."""
    scorers: dict[str, Scorer] = {
        "self_evaluation": SelfEvaluation(
            denoiser=denoiser,
            questions=questions,
            settings=reply_settings(denoiser, sampler),
            seed=seed,
        ),
        "editor": EditorAgreement(denoiser=denoiser),
    }
    return {name: scorers[name].score(samples) for name in COSTLY_BASELINES if name in names}
