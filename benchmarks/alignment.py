"""What the study of alignment says, as a section of docs/results.md: claims, tables, the paper's.

The figures are those of align.py, which measures them apart from the records; a page without them
has no such section.
"""

from collections.abc import Mapping, Sequence

from align import CANVASES, MEASURES, METHODS, PHASES

from remask.analysis import published
from remask.analysis.figures import Figures
from remask.report.claims import Verdict, side, together
from remask.report.results_tables import quote
from remask.report.table import Table, markdown

OWNED = "align/"
CLAIMS = (  # above 0 where they hold
    ("outcome_minus_start/accuracy", "Reinforcement by the outcome makes a model right more often.",
     "beyond the paper, whose Table 3 has no start"),
    ("outcome_minus_sft/accuracy", "It does so more than fine-tuning on solutions does.",
     "Table 3"),
    ("geometric_minus_outcome/accuracy",
     "With the score in the reward it is right more often than by the outcome alone.", "Table 3"),
    ("geometric_minus_outcome/process_ok", "Right answers then have right steps more often.",
     "Section 5.4: outcome rewards reinforce spurious chains"),
)  # fmt: skip
NOTE = """\
`{command}`

On {hardware} at commit {commit}. The embedded weights write easy word problems hurriedly, several
tokens a step, which leaves room above the start. Every method has the same updates, prompts and
learning rate, which was chosen by validation with the outcome's reward on more hurried problems;
fine-tuning repeats each solution as often as the others write completions. Full fine-tuning,
temperature 1, no part of a prompt masked, clip 1, no weight decay; the score has the five metrics
that need no encoder. The best weights by validation answer problems that none of them has seen,
greedily, on three canvases (1, 1.5 and 2 times that of the level). Intervals are over seeds and
problems; three seeds are few. The ungated reward has one seed, and its last weights answer: hacking
is what it is asked about. Seconds are of trainings that shared one GPU; compare them with each
other only.
"""


def alignment_verdicts(found: Figures) -> list[Verdict]:
    """Return what is to be said of the paper's third claim, part by part."""
    out = []
    for end, claim, source in CLAIMS:
        figure = found.get(f"{OWNED}{end}")
        if figure is None or figure.low is None or figure.high is None:
            continue
        word = together([side(figure.low, figure.high, 0.0, is_above=True)])
        details = f"The difference is {quote(found, f'{OWNED}{end}')}."
        out.append(
            Verdict(study="alignment", claim=claim, source=source, word=word, details=details)
        )
    return out


def alignment_tables(found: Figures) -> list[Table]:
    """Return what was measured of every method, what it cost, and what the paper prints."""
    rows = [
        [method, canvas, *_known(found, method, [f"{name}/{canvas}" for name in MEASURES])]
        for method in METHODS
        for canvas in CANVASES
        if f"{OWNED}{method}/accuracy/{canvas}" in found
    ]
    heads = ["trained by", "canvas", "right", "of these with right steps", "mean score",
             "AUROC of the score"]  # fmt: skip
    spent = [
        [method, *_known(found, method, [f"cost/{name}" for name in ("training", *PHASES)])]
        for method in METHODS
        if f"{OWNED}{method}/cost/training" in found
    ]
    costs = ["trained by", "seconds in all", "rollout, s per update", "score", "update"]
    return [
        Table(name="alignment", title="After training", heads=heads, rows=rows, figures=found),
        Table(name="cost", title="Cost", heads=costs, rows=spent, figures=found),
        _paper(),
    ]


def _known(found: Figures, method: str, ends: Sequence[str]) -> list[str]:
    """Return the names of a method's figures, an empty cell for one that was not measured."""
    names = [f"{OWNED}{method}/{end}" for end in ends]
    return [name if name in found else "" for name in names]


def _paper() -> Table:
    heads, columns = ["benchmark", "length", *published.ALIGNMENT], published.ALIGNMENT.values()
    rows: list[Sequence[str]] = [
        [benchmark, str(length), *(f"{told[benchmark][k]:.1f} %" for told in columns)]
        for benchmark in published.BENCHMARKS
        for k, length in enumerate(published.LENGTHS)
    ]
    return Table(
        name="paper", title="The paper's accuracy (Table 3), LLaDA-8B", heads=heads, rows=rows
    )


def alignment_section(found: Figures, origin: Mapping[str, str]) -> str:
    """Return the section; empty where nothing was measured."""
    if not found:
        return ""
    lines = ["## Alignment: the score as a reward", "", NOTE.format(**origin)]
    for claim in alignment_verdicts(found):
        lines += [claim.paragraph, ""]
    for table in alignment_tables(found):
        lines += [f"### {table.title}", "", markdown(table, lambda name: name in found)]
    return "\n".join(lines)
