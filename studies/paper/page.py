"""Figures -> docs/results.md: one screen of verdicts, then one table for each study.

A table has a row for each measure and a column for each study, so that a reader compares along the
line. Intervals are not shown: an arrow says that one is wholly above or below what the row is
compared with. Every number carries the marker that ties it to docs/figures.json.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from remask.analysis.figure import Figure
from remask.report.claims import FAILS, HOLDS, Figures, by_study, verdicts
from studies.paper import published
from studies.shared.pages import arrow, quote, table, wrapped

FAMILIES = ("wordmath", "countdown", "choice", "pycode")
STUDIES = tuple(f"{family}{level}" for family in FAMILIES for level in ("", "-hard"))
ARMS = ("start", "sft", "outcome", "stable", "placebo", "oracle", "geometric")
MODELS = ("LLaDA-8B-Instruct", "Dream-v0-Instruct-7B")
PAPER = ("paper: GSM8K, MATH, ARC-C, GPQA", "Dream-7B")  # the former of LLaDA-8B
GSM8K = ("paper: GSM8K", "")
NONE = ("", "")
WIDTH = 150  # of a line, as a reader sees it
HEAD = """\
# Results

The embedded model and its four families of problems; `-hard` is the hard level, no ending the \
medium one. Collected on {hardware} at commit {commit}.
This page is made from [figures.json](figures.json), where each number has its 95 % interval, its \
n and its command: `python -m studies.paper.measure page`.
`make results RECORDS=records` measures everything again from collected records, and writes \
`results.html` beside them: every table with its intervals,
the plots, and the answers themselves. What each study measures is in [studies.md](studies.md).

Intervals are resampled by question, differences are paired on the same answers. An arrow stands \
where the whole interval lies above (↑) or below (↓)
what its row is compared with. The paper's numbers (*{paper}*) are of far larger models
on other problems: compare the order of the methods and the sign of the differences, not the values.
"""
VERDICTS = """\
Of {all} claims {held} hold wherever they were tested, {failed} fail beyond the interval on at \
least one study, and for the other {rest} the intervals do not decide.
"""
ALIGNED = """\
The embedded weights write easy word problems hurriedly, several tokens a step, which leaves room \
above the start. Arms of one seed have
the same start, problems and batches. `outcome`, `stable`, `placebo` and `oracle` have the same \
objective and schedule, and pay right answers
1 or nothing: all of them, those whose every token the start trusts, as many by lot, or those \
with right steps. `geometric` has the paper's
reward and objective, at the scale of the other arms. The last weights answer unseen problems \
greedily, on three canvases (1, 1.5 and 2 times
that of the level). The unit is a run: intervals are t over seeds, differences are taken seed by \
seed and over all canvases.
In the list below, what comes first is of 150 updates on these problems; `300 updates` are three \
longer runs, `choice` multiple choice and `medium`
medium word problems. On {hardware} at commit {commit}: `align` in [figures.json](figures.json).
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measure, over all studies."""

    label: str
    name: str  # of the figures, with {} for the study
    bound: float | None = None  # an arrow says on which side of it the interval lies
    against: str = ""  # or the figure whose interval, against 0, gives the arrow
    paper: tuple[str, str] = NONE
    beside: str = ""  # the figure that stands behind a slash


def page(
    figures: Figures,
    origin: Mapping[str, Mapping[str, str]],
    notes: Sequence[str],
    lesson: str = "",
) -> str:
    """Return the page.

    Args:
        figures: of the embedded model's studies.
        origin: what the study and the alignment were measured on.
        notes: what the records say beside numbers.
        lesson: the section on another model.
    """
    about = {key: origin["study"][key] for key in ("hardware", "commit")}
    head = HEAD.format(**about, paper=published.PAPER)
    parts = [
        head,
        _verdicts(figures),
        *(wrapped(note, WIDTH) + "\n" for note in notes),
        lesson,
        _section("Diagnosis: which score tells right from wrong?", "diagnosis", PAPER,
                 _problems(figures), *_lines(_diagnosis(), figures)),
        _code() if "diagnosis" in {figure.section for figure in figures.values()} else "",
        _section("Correction: what do further samples gain?", "correction", PAPER,
                 *_lines(_correction(), figures)),
        _section("Ablation: which parts matter? (AUROC)", "ablation", GSM8K,
                 *_lines(_ablation(), figures)),
        _section("Geometry: where do right answers lie?", "geometry", GSM8K,
                 *_lines(_geometry(), figures)),
        _spurious(figures),
        _section("Cost: formulas against counted forwards", "cost", NONE,
                 *_lines(_cost(), figures)),
        _rebatched(figures),
        _alignment(figures, origin.get("align", {})),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _verdicts(figures: Figures) -> str:
    judged = verdicts(figures)
    held, failed = (sum(v.word == word for v in judged) for word in (HOLDS, FAILS))
    rest = len(judged) - held - failed
    said = VERDICTS.format(all=len(judged), held=held, failed=failed, rest=rest)
    rows = [[v.claim.section, v.claim.claim, v.claim.source, v.word, v.tally] for v in judged]
    heads = ["study", "claim", "in the paper", "here", "studies"]
    return f"## The claims\n\n{said}\n{table(heads, rows)}\n"


def _section(title: str, study: str, paper: tuple[str, str], *lines: Sequence[str]) -> str:
    """Return a study: its command, and its table without columns that are empty throughout."""
    if not any(any(line[1:]) for line in lines):
        return ""
    heads = ["", *STUDIES, *paper]
    filled = [k for k in range(len(heads)) if k == 0 or any(line[k] for line in lines)]
    rows = [[line[k] for k in filled] for line in lines]
    shown = table([heads[k] for k in filled], rows)
    return f"## {title}\n`remask study {study} records`\n\n{shown}\n"


def _lines(rows: Iterable[Row], figures: Figures) -> Iterator[list[str]]:
    """Yield the lines of the rows that the figures fill."""
    for row in rows:
        found = by_study(row.name, figures)
        against = by_study(row.against, figures) if row.against else {}
        beside = by_study(row.beside, figures) if row.beside else {}
        cells = [
            _cell(row, found.get(study), against.get(study)) + _behind(beside.get(study))
            for study in STUDIES
        ]
        if any(cells):
            yield [row.label, *cells, *row.paper]


def _problems(figures: Figures) -> list[str]:
    """Return how many problems a study has, and how many of them could not be asked."""
    asked = by_study("diagnosis/{}/base_rate", figures)
    errors = by_study("errors/{}", figures)
    cells = [str(asked[study].n) if study in asked else "" for study in STUDIES]
    for k, study in enumerate(STUDIES):
        if study in errors:
            cells[k] += f", {quote(errors[study])} error{'s' if errors[study].value > 1 else ''}"
    return ["problems", *cells, *NONE]


def _cell(row: Row, figure: Figure | None, against: Figure | None) -> str:
    if figure is None:
        return ""
    if against is not None:
        return quote(figure) + arrow(against, 0.0)
    return quote(figure) + ("" if row.bound is None else arrow(figure, row.bound))


def _behind(figure: Figure | None) -> str:
    return "" if figure is None else f" / {quote(figure)}"


def _spurious(figures: Figures) -> str:
    """Return how flaws in right answers are found: the model's own, then injected ones."""
    measures = {
        "flawed": "flawed", "AUROC": "auroc", "AUROC, confidence": "auroc_confidence",
        "above confidence": "above_confidence", "precision": "precision", "recall": "recall",
        "scored below its original": "lowered", "false alarms": "false_alarms",
    }  # fmt: skip
    found: dict[str, dict[str, str]] = {}
    for head, measure in measures.items():
        for under in ("spurious/{}", "spurious/injected/{}/{}"):
            for place, figure in by_study(f"{under}/{measure}", figures).items():
                bound = {"auroc": 0.5, "above_confidence": 0.0}.get(measure)
                mark = "" if bound is None else arrow(figure, bound)
                label = place.replace("/", ", ").replace("_", " ")
                found.setdefault(label, {})[head] = quote(figure) + mark
    rows = [[place, *(cells.get(head, "") for head in measures)] for place, cells in found.items()]
    shown = table(["records, or kind of flaw", *measures], rows)
    weakest = by_study("process/{}/weakest_token/auroc", figures)
    said = "; ".join(f"{study} {quote(figure)}" for study, figure in weakest.items())
    title = "## Spurious success: right answers by wrong steps\n`remask study spurious records`"
    more = f"\nThe token that drifts most, as a score of such answers, has AUROC {said}.\n"
    return f"{title}\n\n{shown}\n{more if said else ''}" if rows else ""


def _alignment(figures: Figures, origin: Mapping[str, str]) -> str:
    """Return what every arm came to, with t-intervals over runs."""
    lines = []
    for arm in ARMS:
        names = [f"align/{arm}/{measure}/short" for measure in ALIGNMENT]
        cells = [quote(figures[n], interval=True) if n in figures else "" for n in names]
        lines += [[arm, *cells]] if any(cells) else []
    if not lines:
        return ""
    shown = table(["short canvas", *ALIGNMENT.values()], lines)
    title = "## Alignment: the score as a reward"
    return f"{title}\n\n{ALIGNED.format(**origin)}\n{shown}\n{_trained_in_paper()}{_gains(figures)}"


def _trained_in_paper() -> str:
    """Return what the paper has, with the lengths side by side."""
    tasks = next(iter(published.ALIGNMENT.values()))
    lengths = ", ".join(map(str, published.LENGTHS))
    lines = [
        [method, *(" ".join(f"{value:.1f}" for value in row) for row in rows.values())]
        for method, rows in published.ALIGNMENT.items()
    ]
    shown = table([f"*{published.PAPER}*, right in %, at length {lengths}", *tasks], lines)
    return f"\n{shown}\n"


def _gains(figures: Figures) -> str:
    """Return the differences between methods, all canvases together, on all kinds of problems."""
    lines = []
    for name, label in GAINS.items():
        found = [
            where + quote(figures[full], interval=True)
            for part, where in KINDS.items()
            if (full := f"align/{part}{name}") in figures
        ]
        lines += [f"- {label}: {'; '.join(found)}\n"] if found else []
    return f"\n{''.join(lines)}" if lines else ""


KINDS = {  # of problems, or of trainings
    "": "", "long/": "300 updates ", "second/": "choice ", "third/": "medium ",
}  # fmt: skip
ALIGNMENT = {
    "accuracy": "right", "right_steps": "right with right steps",
    "process_ok": "of the right ones", "forwards": "forward passes",
}  # fmt: skip
RIGHT, STEPS = "right", "right with right steps, in log-odds"
GAINS = {
    "stable_minus_outcome/accuracy": f"stable above outcome, {RIGHT}",
    "stable_minus_outcome/accuracy_equal_forwards":
        "stable above outcome, right at equal forward passes, short canvas",
    "stable_minus_outcome/accuracy_one_token":
        "stable above outcome, right at one token a step, short canvas",
    "stable_minus_outcome/right_steps": f"stable above outcome, {STEPS}",
    "stable_minus_placebo/right_steps": f"stable above placebo, {STEPS}",
    "stable_minus_start/right_steps": f"stable above start, {STEPS}",
    "outcome_minus_start/accuracy": f"outcome above start, {RIGHT}",
    "geometric_minus_outcome/accuracy": f"geometric above outcome, {RIGHT}",
    "stable/held": "runs of stable in which neither likelihood nor accuracy fell",
}  # fmt: skip
LABELS = {
    "roundtrips": "round trips, uniform weights", "optimized": "round trips, optimized weights",
    "baselines": "baselines, combined", "confidence": "confidence",
    "agreement_same_cost": "agreement at the same cost", "vote": "vote", "agreement": "agreement",
    "self_evaluation": "self-evaluation", "editor": "editor's agreement",
    "consistency": "self-consistency",
}  # fmt: skip


def _diagnosis() -> list[Row]:
    rows = [
        Row(label="greedy accuracy; medium and easy together", name="accuracy/{}"),
        Row(label="accuracy of the answers below", name="diagnosis/{}/base_rate"),
    ]
    for method in list(LABELS)[:-1]:
        printed = [published.DIAGNOSIS[model].get(method, {}).values() for model in MODELS]
        llada, dream = (" ".join(f"{pair[0]:.3f}" for pair in pairs) for pairs in printed)
        name, paper = f"diagnosis/{{}}/{method}/auroc", (llada, dream)
        rows.append(Row(label=f"AUROC: {LABELS[method]}", name=name, paper=paper))
    for ours, theirs in (
        ("roundtrips", "consistency"), ("roundtrips", "agreement_same_cost"),
        ("roundtrips", "confidence"), ("roundtrips", "self_evaluation"),
        ("optimized", "roundtrips"), ("optimized", "consistency"), ("optimized", "baselines"),
    ):  # fmt: skip
        label = f"{ours.replace('roundtrips', 'round trips')} above {LABELS[theirs]}"
        name = f"diagnosis/{{}}/{ours}_minus_{theirs}/auroc"
        rows.append(Row(label=label.partition(", ")[0], name=name, bound=0.0))
    rows += [
        Row(label=f"round trips above self-consistency, {which} problems", bound=0.0,
            name=f"diagnosis/{{}}/roundtrips_minus_consistency/{which}/auroc")
        for which in ("hard", "middle", "easy")
    ]  # fmt: skip
    return rows + [
        Row(label=f"one threshold for all: {x}", name=f"carried/{{}}/{x}")
        for x in ("coverage", "precision", "recall")
    ]


def _code() -> str:
    """Return what the paper prints of code, of a model that it does not name."""
    printed = []
    for method, pairs in published.CODE.items():
        values = " ".join(f"{pair[0]:.3f}" for pair in pairs.values())
        printed.append(f"{LABELS[method].partition(',')[0]} {values}")
    told = "; ".join(printed)
    return f"The paper on HumanEval and MBPP (Table 8, model not named): {told}.\n"


def _correction() -> list[Row]:
    llada, dream = (published.CORRECTION[model] for model in MODELS)
    rows = [
        Row(label=f"right: {method}", name=f"correction/{{}}/{method}/accuracy",
            paper=(_rates(llada[method]), _rates(dream[method])))
        for method in llada
    ]  # fmt: skip
    rows += [
        Row(label=f"mgrs above {method}", name=f"correction/{{}}/mgrs_minus_{method}/accuracy",
            bound=0.0)
        for method in llada if method != "mgrs"
    ]  # fmt: skip
    drawn = (_rates(published.SAMPLES[MODELS[0]]), _rates(published.SAMPLES[MODELS[1]]))
    rows.append(Row(label="samples of mgrs", name="correction/{}/mgrs/n_avg", paper=drawn))
    rows += [
        Row(label=f"samples of mgrs, {x} problems", name=f"correction/{{}}/mgrs/{x}/n_avg")
        for x in ("hard", "middle", "easy")
    ]
    for measure, label in (("eff", "points per further sample"), ("forwards", "forwards")):
        rows += [
            Row(label=f"{label}: {method}", name=f"correction/{{}}/{method}/{measure}")
            for method in ("vote10", "mgrs")
        ]
    return [*rows, Row(label="threshold of mgrs", name="correction/{}/mgrs/threshold")]


def _rates(values: Iterable[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def _ablation() -> list[Row]:
    values = {
        "mask_ratio": ("0", "0.3", "0.5", "0.7", "0.9", "0.95", "1"),
        "rebuild_steps": ("1", "4", "16", "64", "128"), "trips": ("1", "2", "4", "8"),
        "mask_design": ("stratified",), "tail": ("visible",), "rebuild_temperature": ("1",),
    }  # fmt: skip
    rows = [
        Row(label=f"{setting} {value}", name=f"ablation/{{}}/{setting}/{value}/auroc",
            against=f"ablation/{{}}/{setting}/{value}/above_default",
            paper=_printed(published.SETTINGS, f"{setting}/{value}"))
        for setting, listed in values.items() for value in listed
    ]  # fmt: skip
    metrics = (
        "token_accuracy", "semantic_similarity", "number_retention", "answer_match",
        "character_similarity", "confidence", "cross_entropy", "critical_divergence",
        "embedding_distance",
    )  # fmt: skip
    mixtures = ("uniform", "optimized", "surface", "surface_logic", "with_cross_entropy")
    for group, members in (("alone", metrics), ("composite", mixtures), ("without", metrics[:6])):
        rows += [
            Row(label=f"{group}: {name}", name=f"ablation/{{}}/{group}/{name}/auroc",
                against=f"ablation/{{}}/{group}/{name}/above_uniform",
                paper=_printed(published.MIXTURES, f"{group}/{name}"))
            for name in members
        ]  # fmt: skip
    return rows


def _printed(pairs: published.Pairs, key: str) -> tuple[str, str]:
    return (f"{pairs[key][0]:.3f}" if key in pairs else "", "")


def _geometry() -> list[Row]:
    return [
        Row(label=label, name=f"geometry/{{}}/{key}", bound=bound, paper=_plane(key),
            beside=f"geometry/{{}}/{beside}" if beside else "")
        for key, beside, label, bound in PLANE
    ]  # fmt: skip


def _plane(key: str) -> tuple[str, str]:
    value = published.PLANE.get(key)
    if value is None:
        return NONE
    return (f"{100 * value:.1f} %" if "zone" in key else f"{value:g}", "")


PLANE: Sequence[tuple[str, str, str, float | None]] = (  # a figure, and one beside it or ""
    ("spearman", "", "density against quality, Spearman", None),
    ("spearman_null", "", "the same with shuffled metrics", None),
    ("r2", "", "R²", None),
    ("spearman_confidence", "", "round trips against confidence, Spearman",
     max(published.SPEARMAN)),
    ("density_ratio", "", "density, right / wrong", 1.0),
    ("boundary", "", "density at the boundary", None),
    ("chi2", "cramers_v", "chi-square / Cramér's V", None),
    ("hallucination_zone", "", "dense and of low quality", None),
    ("hallucination_zone_expected", "", "expected under independence", None),
    ("sparse_zone", "", "sparse and of high quality", None),
    ("sparse_zone_expected", "", "expected there", None),
    ("contraction", "contraction_below_one",
     "contraction of one denoising step, median rate / pairs below one", 1.0),
    ("contraction_q10", "contraction_q90", "its 10 % / 90 % quantile", None),
    ("contraction_local", "contraction_local_below_one",
     "rate with one token replaced, at mask_ratio 0.9 / pairs below one", None),
    ("contraction_blind", "", "rate of a model that sees nothing", None),
    ("bound_share", "", "answers within Proposition 4's bound, steepest rate", None),
    ("bound_share_median", "bound_share_invalid",
     "of answers not valid themselves, median / steepest rate", None),
    ("bound_used", "", "share of the bound that these use, median", None),
    ("residual_right", "residual_wrong", "residual per token, valid / other answers", None),
)  # fmt: skip


def _cost() -> list[Row]:
    whats = ("generation", "verification", "diagnosis", "self_consistency", "mgrs")
    return [
        *(Row(label=f"{what.replace('_', '-')}, formula / counted",
              name=f"cost/{{}}/{what}/formula", beside=f"cost/{{}}/{what}/counted")
          for what in whats),
        *(Row(label=f"diagnosis-share, {how}", name=f"cost/{{}}/diagnosis_share/{how}")
          for how in ("formula", "counted")),
    ]  # fmt: skip


def _rebatched(figures: Figures) -> str:
    names = [f"rebatched/{what}_disagreement" for what in ("text", "score")]
    if any(name not in figures for name in names):
        return ""
    texts, scores = (quote(figures[name]) for name in names)
    return f"Other batch sizes change {texts} of the texts and {scores} of the scores.\n"
