"""Files of fitted numbers: they say what they belong to and refuse the rest."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.decide.provenance import Fitted, Provenance
from remask.decide.threshold import Certificate
from remask.decide.weights import Weights
from remask.errors import RecordError

Made = Callable[..., Provenance]
METRICS = ("token_accuracy", "answer_match")


@dataclass(frozen=True, kw_only=True)
class Count(Fitted):
    KIND = "weights"

    n: float = 7


@pytest.fixture
def path(made_of: Made, tmp_path: Path) -> Path:
    Count(provenance=made_of(*METRICS)).save(tmp_path / "some.json")
    return tmp_path / "some.json"


def test_a_file_comes_back_as_it_was_written(made_of: Made, path: Path) -> None:
    assert Count.load(path, "core", METRICS[::-1]) == Count(n=7, provenance=made_of(*METRICS))
    assert list(json.loads(path.read_text())) == ["kind", "n", "provenance"]
    assert [entry.name for entry in path.parent.iterdir()] == ["some.json"]


@pytest.mark.parametrize(("name", "metrics"), [("paper", METRICS), ("core", METRICS[:1])])
def test_another_metric_set_is_refused_in_one_sentence(
    path: Path, name: str, metrics: tuple[str, ...]
) -> None:
    with pytest.raises(RecordError) as caught:
        Count.load(path, name, metrics)
    assert str(caught.value) == (
        f"{path} was fitted to metric set 'core' (token_accuracy, answer_match), not to {name!r} "
        f"({', '.join(metrics)}); fit it again, or score with its metrics."
    )


def test_a_file_belongs_to_one_scorer_and_its_version(made_of: Made, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    made = Count(provenance=made_of("probe", scorer="probe", scorer_version=2))
    made.save(path)
    assert Count.load(path, "core", ["probe"], scorer="probe", version=2) == made
    with pytest.raises(RecordError) as caught:
        Count.load(path, "core", ["probe"])
    assert str(caught.value) == (
        f"{path} was fitted to scores of 'probe', not of 'roundtrips'; fit it again, or score with "
        "'probe'."
    )
    with pytest.raises(RecordError) as caught:
        Count.load(path, "core", ["probe"], scorer="probe", version=3)
    assert str(caught.value) == (
        f"{path} was fitted to version 2 of the scorer 'probe', not to version 3; fit it again."
    )


def test_a_file_that_names_no_scorer_is_of_the_first_round_trips(path: Path) -> None:
    """Those of 0.1.0 and 0.2.0."""
    document = json.loads(path.read_text())
    assert document["provenance"].pop("scorer") == "roundtrips"
    assert document["provenance"].pop("scorer_version") == 1
    path.write_text(json.dumps(document))
    assert Count.load(path, "core", METRICS).provenance.scorer == "roundtrips"
    for other in ({"scorer": "editor"}, {"version": 2}):
        with pytest.raises(RecordError, match="fit it again"):
            Count.load(path, "core", METRICS, **other)


def test_another_kind_of_file_is_refused(path: Path) -> None:
    with pytest.raises(RecordError, match="is a file of kind 'weights', not 'certificate'"):
        Certificate.load(path, "core", METRICS)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is damaged: it is empty; fit it again."),
        (b"[1]", "is damaged: it is not a JSON object; fit it again."),
        (b"{", "is damaged: it is not valid JSON (Expecting property name enclosed in double"),
        (b'{"kind": NaN}', "is damaged: it is not valid JSON (NaN is not valid in JSON); fit it"),
        (b"{}", "is damaged: it has no kind; fit it again."),
        (b'{"kind": "weights"}', "is damaged: it has no provenance; fit it again."),
        (b"[" * 100_000, "is damaged: it is nested too deeply to be read; fit it again."),
        (b"\xff", "is not valid UTF-8 (invalid start byte); re-encode it."),
        ("{}".encode("utf-16"), "is UTF-16, not UTF-8; re-encode it."),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(
    path: Path, content: bytes, sentence: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        Count.load(path, "core", METRICS)
    assert str(caught.value).startswith(f"{path} {sentence}")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"surplus": 1}, "it has provenance.surplus, which is no field of it"),
        ({"metrics": 3}, "provenance.metrics is 3, not a list"),
        ({"seed": "0"}, "provenance.seed is '0', not a whole number"),
        ({"scorer": 1}, "provenance.scorer is 1, not a text"),
        ({"scorer_version": "1"}, "provenance.scorer_version is '1', not a whole number"),
        ({"weights": {"a": "b"}}, "provenance.weights.a is 'b', not a number"),
        ({"settings": []}, "provenance.settings is [], not names with values"),
    ],
)
def test_a_provenance_that_is_none_is_refused(
    path: Path, change: dict[str, Any], sentence: str
) -> None:
    document = json.loads(path.read_text())
    document["provenance"] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(RecordError) as caught:
        Count.load(path, "core", METRICS)
    assert str(caught.value) == f"{path} is damaged: {sentence}; fit it again."


@pytest.mark.parametrize("field", ["metric_set", "metrics", "task", "model", "split", "seed"])
def test_what_a_provenance_lacks_is_named(path: Path, field: str) -> None:
    document = json.loads(path.read_text())
    del document["provenance"][field]
    path.write_text(json.dumps(document))
    with pytest.raises(RecordError, match=rf"is damaged: it has no provenance\.{field}; fit"):
        Count.load(path, "core", METRICS)


def test_a_mark_before_the_text_is_passed_over(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Count.load(path, "core", METRICS).n == 7


def test_not_a_number_is_not_written_and_the_old_file_stays(made_of: Made, path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Count(n=float("nan"), provenance=made_of(*METRICS)).save(path)
    assert Count.load(path, "core", METRICS).n == 7


@given(st.text(max_size=20), st.integers(), st.dictionaries(st.text(), st.floats(0, 1), max_size=3))
def test_any_provenance_makes_the_round_trip(
    made_of: Made, tmp_path_factory: pytest.TempPathFactory, text: str, seed: int, weights: Any
) -> None:
    path = tmp_path_factory.mktemp("any") / "p.json"
    made = Count(provenance=made_of(*METRICS, model=text, date=text, seed=seed, weights=weights))
    made.save(path)
    assert Count.load(path, "core", METRICS) == made


def test_fitting_needs_no_torch() -> None:
    """And loads scipy and scikit-learn only when something is fitted."""
    code = (
        "import sys, remask.decide.weights, remask.decide.threshold, remask.decide.calibration;"
        "import remask.decide.stages;"
        "assert not {'torch', 'scipy', 'sklearn'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=600).returncode == 0


def test_numbers_that_cannot_stand_together_are_refused_in_one_sentence(
    made_of: Made, tmp_path: Path
) -> None:
    path, about = tmp_path / "weights.json", made_of(*METRICS)
    shares = dict.fromkeys(METRICS, 0.5)
    Weights(values=shares, n=9, auroc=0.9, auroc_uniform=0.8, provenance=about).save(path)
    document = json.loads(path.read_text())
    changed = dict(zip(METRICS, (-1.0, 2.0), strict=True))
    path.write_text(json.dumps({**document, "values": changed}))
    with pytest.raises(RecordError) as error:
        Weights.read(path)
    assert str(error.value).endswith("; fit it again.")
    assert "Value error" not in str(error.value)
