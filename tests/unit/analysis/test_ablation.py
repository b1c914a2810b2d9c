"""Mixtures of metrics, worked out on a few answers written by hand."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from remask.analysis.ablation import ablation, mixtures, optimized
from remask.analysis.figure import Figures
from remask.errors import RecordError
from remask.records.record import Record

Make = Callable[..., Record]
METRICS = (
    "token_accuracy",
    "semantic_similarity",
    "number_retention",
    "answer_match",
    "character_similarity",
    "confidence",
)
# token_accuracy, answer_match, right: tokens rank against the truth, answers with it.
ANSWERS = {
    "a": (0.2, 1.0, True),
    "b": (0.3, 0.9, True),
    "c": (0.8, 0.1, False),
    "d": (0.9, 0.2, False),
}


def scored(
    make_record: Make, name: str, tokens: float, answer: float | None, right: bool
) -> Record:
    trips = {"token_accuracy": (tokens,), "answer_match": (answer,), "cross_entropy": (0.5,)}
    return make_record(name, right=right, by_trip=trips)


@pytest.fixture
def four(make_record: Make) -> list[Record]:
    return [scored(make_record, name, *values) for name, values in ANSWERS.items()]


def told(runs: list[list[Record]], validation: list[Record] | None = None) -> Figures:
    return Figures(ablation("s", runs, validation or [], resamples=20))


def test_the_groups_are_those_of_table_4() -> None:
    found = mixtures(METRICS, ("cross_entropy", "embedding_distance"))
    assert set(found["composite", "surface"]) == {
        "token_accuracy", "semantic_similarity", "confidence"
    }  # fmt: skip
    assert set(found["composite", "surface_logic"]) == {
        *found["composite", "surface"], "number_retention"
    }  # fmt: skip
    assert set(found["composite", "with_cross_entropy"]) == {*METRICS, "cross_entropy"}
    assert found["composite", "uniform"] == dict.fromkeys(METRICS, 1 / 6)
    assert found["without", "answer_match"] == dict.fromkeys(
        [m for m in METRICS if m != "answer_match"], 1 / 5
    )
    assert found["alone", "embedding_distance"] == {"embedding_distance": 1.0}
    assert len(found) == 6 + 2 + 4 + 6


def test_code_has_its_syntax_tree_for_logic() -> None:
    found = mixtures(("token_accuracy", "number_retention", "ast_similarity"))
    assert set(found["composite", "surface_logic"]) == {
        "token_accuracy", "number_retention", "ast_similarity"
    }  # fmt: skip


def test_every_mixture_of_four_answers_is_worked_out(four: list[Record]) -> None:
    """Means are .6 .6 .45 .55: uniform weights part right from wrong, as answers do alone.

    Tokens alone rank all four pairs wrongly, an AUROC of 0: 1 below uniform. With a constant
    cross-entropy the order is that of uniform weights. Without answers tokens are left.
    """
    found = told([four])
    values = {
        f"{figure.method}/{figure.part}": figure.value
        for figure in found.values()
        if figure.measure == "auroc"
    }
    assert values == {
        "alone/token_accuracy": 0.0, "alone/answer_match": 1.0, "alone/cross_entropy": 0.5,
        "composite/surface": 0.0, "composite/surface_logic": 0.0,
        "composite/with_cross_entropy": 1.0, "composite/uniform": 1.0,
        "without/token_accuracy": 1.0, "without/answer_match": 0.0,
    }  # fmt: skip
    assert found["ablation/s/alone/token_accuracy/above_uniform"].value == -1.0
    itself = "ablation/s/composite/uniform/above_uniform"
    assert itself not in found, "it is not compared with itself"


def test_an_absent_metric_is_left_out_and_counted(make_record: Make, four: list[Record]) -> None:
    """Without an answer, `e` is scored by tokens alone and cannot be ranked by answers alone."""
    rows = [*four, scored(make_record, "e", 0.7, None, True)]
    found = told([rows])
    alone, uniform = "ablation/s/alone/answer_match", "ablation/s/composite/uniform"
    assert (found[f"{alone}/auroc"].n, found[f"{uniform}/auroc"].n) == (4, 5)
    assert found[f"{alone}/above_uniform"].n == 4, "paired on the answers that both have"


def test_weights_are_fitted_on_validation_and_told(make_record: Make, four: list[Record]) -> None:
    """Answers alone tell right from wrong in validation, so they get all the weight."""
    other = [
        scored(make_record, f"v{k}", 0.5 + 0.1 * (k % 3), float(right), right)
        for k, right in enumerate([True, False] * 20)
    ]
    found, name = told([four], other), "ablation/s/composite/optimized"
    assert found[f"{name}/weight/answer_match"].value > 0.9
    assert found[f"{name}/auroc"].value == 1.0
    assert f"{name}/auroc" not in told([four], other[::2]), "right answers only teach nothing"
    assert optimized([], [four]) is None


def test_a_question_is_never_fitted_on_and_judged(four: list[Record]) -> None:
    with pytest.raises(RecordError, match="wordmath/hard/a is in the validation records"):
        ablation("s", [four], four, resamples=5)


def test_seeds_are_averaged(make_record: Make, four: list[Record]) -> None:
    """Tokens alone have an AUROC of 0 in one seed, of 1 in the other."""
    second = [
        scored(make_record, f"s{name}", 1 - tokens, answer, right)
        for name, (tokens, answer, right) in ANSWERS.items()
    ]
    found = told([four, second])["ablation/s/alone/token_accuracy/auroc"]
    assert (found.value, found.low, found.high, found.n) == (0.5, 0.0, 1.0, 8)


def test_only_standard_answers_with_round_trips_are_judged(
    make_record: Make, four: list[Record]
) -> None:
    further = make_record("a", 1, right=False, by_trip={"token_accuracy": (1.0,)})
    unscored = replace(make_record("f"), by_trip={})
    found = told([[*four, further, unscored]])["ablation/s/composite/uniform/auroc"]
    assert (found.value, found.n) == (1.0, 4)


def test_figures_have_the_names_of_their_mixtures(make_record: Make, four: list[Record]) -> None:
    validation = [
        scored(make_record, f"v{k}", 0.5, float(right), right)
        for k, right in enumerate([True, False] * 10)
    ]
    found = Figures(ablation("wordmath-hard", [four], validation, resamples=5))
    assert found["ablation/wordmath-hard/composite/uniform/auroc"].value == 1.0
    assert found["ablation/wordmath-hard/alone/token_accuracy/above_uniform"].value == -1.0
    assert found["ablation/wordmath-hard/composite/optimized/weight/answer_match"].value > 0.9


def test_these_studies_need_no_torch() -> None:
    names = "ablation, curves, cost, spurious, scaling, geometry, folder_figures"
    code = f"import sys; from remask.analysis import {names}; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0
