"""Several models in one table, and what the paper prints beside it."""

from collections.abc import Callable

from remask.analysis.figure import Figures
from remask.analysis.scaling import AUTOREGRESSIVE, PAPER, PRINTED, scaling
from remask.records.record import Record

Make = Callable[..., Record]


def test_each_model_has_its_accuracy_and_its_methods(make_record: Make) -> None:
    """The small one is right once in two and ranks that well, the large one is always right."""
    small = [make_record("a", score=0.9), make_record("b", score=0.1, right=False)]
    large = [make_record("a"), make_record("b")]
    found = Figures(
        figure
        for model, rows in (("s", small), ("l", large), ("none", []))
        for figure in scaling(model, "x", rows, resamples=20)
    )
    assert found.distinct("model") == ["s", "l"]
    assert (found["scaling/s/x/accuracy"].value, found["scaling/l/x/accuracy"].value) == (0.5, 1.0)
    methods = found.distinct("method", model="s")
    assert methods == ["roundtrips", "confidence"], "a pool of one has no vote"
    assert found["scaling/s/x/roundtrips/auroc"].value == 1.0
    assert "scaling/l/x/roundtrips/auroc" not in found


def test_printed_numbers_say_where_they_are_printed() -> None:
    assert len(PRINTED) == 2 * 4 + 12
    assert ("LLaDA2.1-mini", "GSM8K", "auroc 0.853", "Table 9") in PRINTED
    assert ("Qwen2.5-7B", "MATH", "accuracy 0.411", "Table 3") in PRINTED
    assert PAPER.endswith("arXiv:2604.16565")
    assert set(AUTOREGRESSIVE) == {"LLaMA3-8B", "Gemma2-9B", "Qwen2.5-7B"}
