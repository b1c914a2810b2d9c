"""Inspect: the models `remask/tiny`, `remask/GSAI-ML/LLaDA-8B-Instruct`, and what scores them.

Inspect finds this module by its entry point. The model says in `output.metadata["remask"]` how far
its answer is to be trusted, where `-M scorer=verifier` or another scorer is set; the scorer
`remask_score` makes a score of Inspect of it. The model itself is in `inspect_model`, and is
imported when it is asked for.
"""

from typing import Any

from inspect_ai.model import modelapi
from inspect_ai.scorer import Score, mean, metric, scorer, stderr, value_to_float


@modelapi(name="remask")  # type: ignore[untyped-decorator]  # Inspect's types are not read
def remask() -> Any:
    """Return the class of the models."""
    from remask.harnesses.inspect_model import RemaskAPI

    return RemaskAPI


@metric  # type: ignore[untyped-decorator]
def separation() -> Any:
    """Return the metric: the chance that a right answer outscores a wrong one (AUROC).

    NaN where nothing grades answers, or all are right, or all wrong.
    """

    def compute(scores: list[Any]) -> float:
        from remask import auroc

        known = [one.score for one in scores if "right" in (one.score.metadata or {})]
        value = auroc([s.as_float() for s in known], [s.metadata["right"] for s in known])
        return float("nan") if value is None else value

    return compute


@scorer(metrics=[mean(), stderr(), separation()])  # type: ignore[untyped-decorator]
def remask_score(grader: Any = None) -> Any:
    """Return the scorer: how far the answer is to be trusted, as the model's output says.

    Args:
        grader: a scorer of Inspect that says which answers are right, such as `match()`; with it,
            `separation` tells how well trust and truth go together.
    """
    graded = value_to_float()

    async def score(state: Any, target: Any) -> Any:
        fields = (state.output.metadata or {}).get("remask")
        if fields is None:
            return Score.unscored(
                reason="scoring_failed",
                explanation="the output has no score; ask a model of remask, with -M "
                "scorer=verifier or another.",
            )
        known: dict[str, Any] = {"remask": fields}
        if grader is not None:
            known["right"] = graded((await grader(state, target)).value) >= 1
        answer = state.output.completion
        if fields["score"] is None:
            return Score.unscored(
                reason="scoring_failed", answer=answer, explanation=fields["reason"], metadata=known
            )
        return Score(value=fields["score"], answer=answer, metadata=known)

    return score
