"""Several models in one table, and what the paper prints beside it."""

from collections.abc import Callable
from typing import Any

from remask.analysis.scaling import AUTOREGRESSIVE, PAPER, PRINTED, model_figures, scaling

Row = dict[str, Any]
Make = Callable[..., Row]


def test_each_model_has_its_accuracy_and_its_methods(make_row: Make) -> None:
    """The small one is right once in two and ranks that well, the large one is always right."""
    small = [make_row("a", score=0.9), make_row("b", score=0.1, right=False)]
    large = [make_row("a"), make_row("b")]
    found = {row.model: row for row in scaling({"s": small, "l": large, "none": []}, resamples=20)}
    assert set(found) == {"s", "l"}
    assert (found["s"].accuracy.value, found["l"].accuracy.value) == (0.5, 1.0)
    told = {row.method: row for row in found["s"].methods}
    assert set(told) == {"roundtrips", "confidence"}, "a pool of one has no vote"
    assert told["roundtrips"].auroc is not None
    assert told["roundtrips"].auroc.value == 1.0
    assert found["l"].methods[0].auroc is None


def test_figures_are_named_by_model_and_study(make_row: Make) -> None:
    rows = [make_row("a", score=0.9), make_row("b", score=0.1, right=False)]
    [row] = scaling({"small": rows}, resamples=5)
    found = model_figures("wordmath-hard", row)
    assert found["scaling/small/wordmath-hard/accuracy"].value == 0.5
    assert found["scaling/small/wordmath-hard/roundtrips/auroc"].value == 1.0


def test_printed_numbers_say_where_they_are_printed() -> None:
    assert len(PRINTED) == 2 * 4 + 12
    assert ("LLaDA2.1-mini", "GSM8K", "auroc 0.853", "Table 9") in PRINTED
    assert ("Qwen2.5-7B", "MATH", "accuracy 0.411", "Table 3") in PRINTED
    assert PAPER.endswith("arXiv:2604.16565")
    assert set(AUTOREGRESSIVE) == {"LLaMA3-8B", "Gemma2-9B", "Qwen2.5-7B"}
