"""All figures of the study, by their names: of the answers, the claims, the weights, the choice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remask.analysis.figure import Figure, Figures
from remask.records.text_file import read_object
from studies.language.answers import read_answers
from studies.language.choice import CHOICE, read_choice
from studies.language.measures import SECTION, measure_sets, rejection
from studies.language.problems import BENCHMARKS
from studies.language.studies import study_figures
from studies.language.training import STATE, held_out_losses
from studies.language.weights import read_weights
from studies.shared.sets import RESAMPLES

# What this study measures: older figures of these names go. `real/overlap` is another script's.
OWNED = tuple(
    f"{SECTION}/{name}"
    for name in (
        *(f"{benchmark}/" for benchmark in BENCHMARKS), "mean/", "mgrs/", "choice/", "train/",
        "diagnosis/", "correction/", "ablation/", "geometry/", "cost/", "carried/",
        "verifier_minus", "fitted_minus", "roundtrips_minus", "confidence_minus", "parameters",
    )
)  # fmt: skip
Entry = dict[str, Any]


def measure(out: Path, resamples: int = RESAMPLES) -> dict[str, Entry]:
    """Return every figure of the records in a folder, as a file of figures has them."""
    answers = read_answers(out)
    own = [*measure_sets(answers, resamples), *rejection(answers, resamples), *_made(out)]
    figures: dict[str, Figure] = dict(Figures(own)) | study_figures(answers, out)
    return {name: figure.entry() for name, figure in figures.items()}


def _made(out: Path) -> Iterator[Figure]:
    """Yield what the model is, how it was trained where that is known, and how it answers."""
    weights = read_weights(out)
    sums = ", ".join(f"{name} sha256 {sum_}" for name, sum_ in weights["sha256"].items())
    if weights["adapted"]:
        sums = f"made of {_name(weights['adapted']['from'])}; {sums}"
    yield Figure(
        section=SECTION, measure="parameters", value=weights["parameters"], unit="parameters",
        detail=sums,
    )  # fmt: skip
    if (out / STATE).exists():
        yield from _trained(read_object(out / STATE, "bring it again"))
    for step, loss in held_out_losses(out):
        yield Figure(
            section=SECTION, study="train", method="final", part=str(step), measure="valid_loss",
            value=loss, unit="nats a token, held out",
        )  # fmt: skip
    if (out / CHOICE).exists():
        for name, chosen in read_choice(out)["sets"].items():
            yield from _chosen(name, chosen)


def _name(source: str) -> str:
    """Return what a model is called: a hub id stays whole, of a path the end is enough."""
    return Path(source).name if Path(source).is_absolute() or source[:1] == "." else source


def _trained(state: dict[str, Any]) -> Iterator[Figure]:
    runs = {**state["trials"], **({"final": state["final"]} if "final" in state else {})}
    for name, reached in runs.items():
        fields: Entry = {"section": SECTION, "study": "train", "method": name}
        kind = "shifted" if reached["shifted"] else "unshifted"
        yield Figure(
            **fields, measure="valid_loss", value=reached["valid_loss"], n=reached["rows"],
            unit="nats a token, held out", detail=kind,
        )  # fmt: skip
        for measure, unit in (("steps", "steps"), ("best_step", "steps"), ("seconds", "s")):
            yield Figure(**fields, measure=measure, value=reached[measure], unit=unit)


def _chosen(name: str, chosen: dict[str, Any]) -> Iterator[Figure]:
    for measure, unit in (("canvas", "tokens"), ("rate", "tokens a step"), ("block", "tokens")):
        yield Figure(section=SECTION, study=name, measure=measure, value=chosen[measure], unit=unit)
    for tried in chosen["tried"]:
        fields: Entry = {
            "section": SECTION, "study": "choice", "method": name,
            "part": f"{tried['canvas']}x{tried['rate']}x{tried['block']}", "n": tried["problems"],
        }  # fmt: skip
        yield Figure(**fields, measure="accuracy", value=tried["accuracy"], unit="share")
        yield Figure(**fields, measure="forwards", value=tried["forwards"], unit="forwards")
