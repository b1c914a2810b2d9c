"""Records of the full-size study -> docs/results.md, and the figures that pages quote.

    python benchmarks/results.py records --commit SHA --hardware "one H200"
    make results RECORDS=records

The first call with a folder says where its records are from; that is kept in its origin.json, so
that the next one needs no flags. Figures that need the model, like the contraction, are measured
apart and read from JSON: `--extra`, by default extra.json in the folder. The page, figures.json
beside it and the copy that the demo shows are all made from the same figures; `DOCUMENTED` decides
which of these pages may quote. The same records make the same files.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from alignment import OWNED as ALIGNED
from alignment import alignment_section, alignment_verdicts
from lib.figures import FIGURES, merge, read

from remask.analysis import published
from remask.analysis.figures import (
    MAIN,
    Figure,
    Figures,
    accuracy_figures,
    disagreement_figures,
    process_figures,
    single_curves,
)
from remask.analysis.load_records import read_source
from remask.denoisers.load import EMBEDDED
from remask.errors import RecordError, RemaskError
from remask.records.jsonl import write_text
from remask.report.claims import FAILS, HOLDS, Verdict, verdicts
from remask.report.results_tables import names_under, quote
from remask.report.study import STUDIES, Told, study_source
from remask.report.table import Table, cell, markdown

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "study": "python benchmarks/core.py collect MODEL OUT; make results RECORDS=OUT",
    "contraction": "python benchmarks/core.py contraction MODEL OUT",
}
OWNED = (  # what this script measures: older figures of these names are replaced or dropped
    "accuracy/", "ablation/", "carried/", "correction/", "cost/", "curve/", "diagnosis/",
    "errors/", "geometry/", "process/", "rebatched/", "spurious/",
)  # fmt: skip
_METHODS = (
    "roundtrips|optimized|baselines|confidence|agreement_same_cost|vote|agreement|self_evaluation|"
    "editor"
)
_CORRECTIONS = (
    "standard|vote3|vote10|best_of_3_confidence|best_of_10_confidence|best_of_3|best_of_10|mgrs"
)
DOCUMENTED = re.compile(
    "|".join((
        r"accuracy/[^/]+",
        rf"diagnosis/[^/]+/(base_rate|({_METHODS})/(auroc|aupr|ece|aurc|absent)"
        r"|\w+_minus_\w+(/\w+)?/auroc)",
        r"process/[\w-]+/(auroc|weakest_token/auroc|wrong_steps)",
        r"carried/.+",
        rf"correction/[^/]+/(({_CORRECTIONS})/(accuracy|n_avg|eff|forwards)|mgrs_minus_\w+/accuracy"
        r"|mgrs/(threshold|(hard|middle|easy)/n_avg))",
        rf"curve/{MAIN}/(mask_ratio|rebuild_steps|trips)/[^/]+/(auroc|forwards)",
        r"ablation/[^/]+/(mask_ratio|rebuild_steps|trips|mask_design|rebuild_temperature|tail)"
        r"/[^/]+/(auroc|above_default|forwards)",
        r"ablation/[^/]+/(alone|composite|without)/\w+/auroc",
        r"ablation/[^/]+/(composite/\w+|without/answer_match)/above_uniform",
        r"geometry/.+",
        r"rebatched/.+",
        r"spurious/([\w-]+/)?(auroc|auroc_confidence|above_confidence|precision|recall|flawed)",
        r"spurious/(score|confidence)_(flawed|sound)",
        r"spurious/injected/[^/]+/\w+/(auroc|auroc_confidence|lowered|recall|false_alarms)",
        r"cost/[^/]+/\w+/(counted|formula)",
    ))
)  # fmt: skip
DEMO = ("accuracy/wordmath", "diagnosis/wordmath-hard/", "correction/wordmath-hard/")

TITLES = {
    "diagnosis": "Diagnosis: which score tells right from wrong?",
    "correction": "Correction: what do further samples gain?",
    "ablation": "Ablation: which parts matter?",
    "geometry": "Geometry: where do right answers lie?",
    "spurious": "Spurious success: right answers by wrong steps",
    "cost": "Cost: formulas against counted forwards",
}
HEAD = """# Results

Made by `make results` from collected records; no number here is typed by hand. All studies on the
embedded model and its four families of problems: names without an ending are of the medium level,
those that end in `-hard` of the hard one. Intervals are 95 %, resampled by question; differences
are paired on the same answers; differences of shares are in points, written with %. What each
study measures and how to read it is in [studies.md](studies.md).

{origin}

The paper's numbers stand beside ours where it has them, quoted from
*{paper}*. They are of far larger models on other
problems: what may agree is the order of the methods and the sign of the differences, not the
values. A claim about several studies holds where it holds on each of them,
does not where it fails on one beyond its interval, and cannot be told otherwise.

"""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the records are from."""

    commit: str
    hardware: str


def is_documented(name: str) -> bool:
    """Say whether pages may quote a figure."""
    return DOCUMENTED.fullmatch(name) is not None


def measure(folder: Path, extra: Mapping[str, Figure]) -> tuple[Figures, list[Told]]:
    """Return all figures of the records, and every study that they allow."""
    source = read_source(folder)
    found = (
        accuracy_figures(folder)
        | single_curves(folder)
        | process_figures(folder)
        | disagreement_figures(folder)
    )
    listed = []
    for name in STUDIES:
        told = study_source(name, source, extra if name == "geometry" else None)
        found |= told.figures
        listed.append(told)
        print(f"{name}: {len(told.figures)} figures", flush=True)
    return found, listed


def page(
    found: Figures,
    studies: Sequence[Told],
    origin: Origin,
    apart: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the results page; the figures of the alignment were measured apart."""
    aligned = as_figures(apart)
    documented = {name: figure for name, figure in found.items() if is_documented(name)}

    def write(name: str) -> str:
        if name in documented:
            return quote(documented, name)
        return cell(Table(name="", title="", heads=(), rows=(), figures=found), name)

    claims = verdicts(found, write)
    said = f"Collected on {origin.hardware} at commit {origin.commit}."
    listed = [*claims, *alignment_verdicts(aligned)]
    parts = [HEAD.format(origin=said, paper=published.PAPER), _summary(listed), _accuracy(found)]
    for told in studies:
        parts.append(_section(told, [claim for claim in claims if claim.study == told.name]))
    parts.append(_rest(found))
    parts.append(alignment_section(aligned, next(iter(apart.values()), {})))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _summary(claims: Sequence[Verdict]) -> str:
    """Return the claims and their verdicts in one table."""
    rows = [[claim.study, claim.claim, claim.source, claim.word, claim.tally] for claim in claims]
    heads = ["study", "claim", "in the paper", "here", "studies"]
    table = Table(name="claims", title="", heads=heads, rows=rows)
    held, failed = (sum(claim.word == word for claim in claims) for word in (HOLDS, FAILS))
    told = (
        f"Of {len(claims)} claims {held} hold wherever they were tested, {failed} fail on at least "
        f"one study, and for the other {len(claims) - held - failed} the intervals do not decide."
    )
    return f"## The claims in short\n\n{told}\n\n{markdown(table)}"


def _accuracy(found: Figures) -> str:
    studies = names_under(found, "accuracy")
    rows = [[study, f"accuracy/{study}"] for study in studies]
    named = {name: found[name] for _, name in rows}
    table = Table(
        name="accuracy", title="", heads=["study", "greedy accuracy"], rows=rows, figures=named
    )
    told = (
        "Greedy, one token a step. Names without an ending count easy and medium problems together "
        "here."
    )
    heading = f"## How often the model is right\n\n{told}\n\n"
    return heading + markdown(table, is_documented) if rows else ""


def _section(told: Told, claims: Sequence[Verdict]) -> str:
    """Return a study: its claims, its tables beside the paper's, the long ones folded."""
    model = " -m tiny" if told.name == "geometry" else ""  # of the contraction
    lines = [f"## {TITLES[told.name]}", "", f"`remask study {told.name} records{model}`", ""]
    for claim in claims:
        lines += [claim.paragraph, ""]
    for table in [t for t in told.tables if not t.is_long]:
        lines += [f"### {table.title}", "", markdown(_beside(table), is_documented)]
    for table in _quoted(told.name):
        lines += [f"### {table.title}", "", markdown(table)]
    long = [table for table in told.tables if table.is_long]
    if long:
        lines += ["<details><summary>All tables of this study</summary>", ""]
        for table in long:
            lines += [f"#### {table.title}", "", markdown(table, is_documented)]
        lines += ["</details>", ""]
    lines += [f"{note}\n" for note in told.notes]
    return "\n".join(lines)


def _rest(found: Figures) -> str:
    ends = ("weakest_token/auroc", "text_disagreement", "score_disagreement")
    names = [n for n in found if n.startswith(("process/", "rebatched/")) and n.endswith(ends)]
    rows = [[name, name, found[name].unit] for name in names]
    if not rows:
        return ""
    shown = {name: found[name] for name in names}
    rows = [[name.replace("/", " / "), *rest] for name, *rest in rows]
    table = Table(name="rest", title="", heads=["figure", "value", "of"], rows=rows, figures=shown)
    title = "## The weakest token of a right answer, and other batches"
    told = (
        "`weakest_token`: how well the token that drifts most tells right answers with a wrong "
        "step, of the first seed alone. `rebatched`: the share of answers whose text or score "
        "changed when they were computed in batches of other sizes."
    )
    return f"{title}\n\n{told}\n\n{markdown(table, is_documented)}"


def _beside(table: Table) -> Table:
    """Return a table with a column of the paper's numbers, where it prints such rows."""
    setting = table.name.removesuffix(f"-{MAIN}")
    if table.name == "metrics":
        told = {name: pair[0] for name, pair in published.MIXTURES.items()}
        number = 4
    elif setting != table.name:
        under = f"{setting}/"
        pairs = published.SETTINGS.items()
        told = {n.removeprefix(under): pair[0] for n, pair in pairs if n.startswith(under)}
        number = 7
    else:
        return table
    beside = [f"{told[row[0]]:.3f}" if row[0] in told else "" for row in table.rows]
    if not any(beside):
        return table
    heads = [*table.heads, f"paper: AUROC, GSM8K (Table {number})"]
    rows = [[*row, word] for row, word in zip(table.rows, beside, strict=True)]
    return replace(table, heads=heads, rows=rows)


def _quoted(study: str) -> list[Table]:
    """Return the paper's own tables that belong to a study."""
    made = {
        "diagnosis": _paper_diagnosis,
        "correction": _paper_correction,
        "geometry": _paper_plane,
    }
    return made[study]() if study in made else []


def _paper_diagnosis() -> list[Table]:
    methods = ("roundtrips", "vote", "confidence", "self_evaluation")
    rows = [
        [model, benchmark, *(f"{told[m][benchmark][0]:.3f}" for m in methods), "1"]
        for model, told in published.DIAGNOSIS.items()
        for benchmark in told["roundtrips"]
    ]
    rows += [
        ["not named", benchmark, *(f"{published.CODE[m][benchmark][0]:.3f}" for m in methods), "8"]
        for benchmark in published.CODE["roundtrips"]
    ]
    heads = ["model", "benchmark", "BMC", "self-consistency", "confidence", "self-evaluation",
             "Table"]  # fmt: skip
    return [Table(name="paper", title="The paper's AUROC", heads=heads, rows=rows)]


def _paper_correction() -> list[Table]:
    tables = published.CORRECTION.items()
    methods = list(next(iter(published.CORRECTION.values())))
    rows = [
        [model, benchmark, *(f"{told[m][k]:.1f} %" for m in methods),
         f"{published.SAMPLES[model][k]:.1f}"]
        for model, told in tables
        for k, benchmark in enumerate(published.BENCHMARKS)
    ]  # fmt: skip
    title = "The paper's accuracy (Table 5), and samples of mgrs (Table 6)"
    heads = ["model", "benchmark", *methods, "n_avg of mgrs"]
    return [Table(name="paper", title=title, heads=heads, rows=rows)]


def _paper_plane() -> list[Table]:
    rows = [[name, f"{value:g}", "GSM8K, Figure 5"] for name, value in published.PLANE.items()]
    rows += [
        ["spearman_confidence", f"{value:g}", f"{benchmark}, Table 10"]
        for benchmark, value in zip(published.BENCHMARKS, published.SPEARMAN, strict=True)
    ]
    heads = ["figure", "value", "of"]
    return [Table(name="paper", title="The paper's geometry, LLaDA-8B", heads=heads, rows=rows)]


def read_extra(path: Path) -> dict[str, dict[str, Any]]:
    """Return figures that were measured apart, as docs/figures.json has them or without origin."""
    told = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = told.get("figures", told)
    return found


def as_figures(told: Mapping[str, Mapping[str, Any]]) -> Figures:
    """Return the figures without their origin."""
    kept = [field.name for field in fields(Figure)]
    return {name: Figure(**{key: one[key] for key in kept}) for name, one in told.items()}


def write(path: Path, figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Merge figures and their commands into a file, over all that this script wrote before."""
    keys = {str(figure["command"]) for figure in figures.values()}
    merge(path, figures, {key: COMMANDS[key] for key in sorted(keys)}, OWNED)


def read_origin(folder: Path, commit: str, hardware: str) -> Origin:
    """Return where the records are from, as the flags say, else as an earlier call was told."""
    path = folder / "origin.json"
    if commit and hardware:
        origin = Origin(commit=commit, hardware=hardware)
        write_text(path, json.dumps(asdict(origin), indent=2) + "\n")
        return origin
    if not path.exists():
        raise RecordError(f"{path} is not there; say --commit and --hardware of these records.")
    return Origin(**json.loads(path.read_text(encoding="utf-8")))


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description="Make docs/results.md from collected records.")
    parser.add_argument("records", type=Path, help="folder that core.py collect wrote")
    parser.add_argument("--commit", default="", help="commit that collected them")
    parser.add_argument("--hardware", default="", help="what they were collected on")
    parser.add_argument("--extra", type=Path, help="JSON of figures that were measured apart")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--figures", type=Path, default=FIGURES)
    parser.add_argument("--demo", type=Path, default=EMBEDDED / "figures.json")
    return parser.parse_args(arguments)


def main(command: Sequence[str]) -> int:
    """Make the page and the figures, and say what was written."""
    asked = read_arguments(command)
    if not any(asked.records.glob("pool-*.jsonl")):
        raise RecordError(
            f"{asked.records} holds no records of the study; collect them: "
            f"python benchmarks/core.py collect tiny {asked.records}."
        )
    origin = read_origin(asked.records, asked.commit, asked.hardware)
    path = asked.extra or asked.records / "extra.json"
    extra = read_extra(path) if asked.extra or path.exists() else {}
    found, studies = measure(asked.records, as_figures(extra))
    about = {"command": "study", **asdict(origin)}
    documented = {
        name: asdict(figure) | about | extra.get(name, {})
        for name, figure in found.items()
        if is_documented(name)
    }
    commands, known = read(asked.figures)
    apart = {
        name: figure | {"command": commands[figure["command"]]}
        for name, figure in known.items()
        if name.startswith(ALIGNED)
    }
    write_text(asked.page, page(found, studies, origin, apart))
    write(asked.figures, documented)
    write(asked.demo, {name: f for name, f in documented.items() if name.startswith(DEMO)})
    print(f"{asked.page}: {asked.page.stat().st_size:,} bytes")
    print(f"{asked.figures}: {len(documented)} of {len(found)} figures; {asked.demo}: a copy")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RemaskError as error:
        sys.exit(f"results.py: {error}")
