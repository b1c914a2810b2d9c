"""What real words teach, for docs/results.md: where two models agree, and what follows from it.

The words are of the figures that stand in them: whoever measures anew reads them anew. Where one of
the figures is missing there is nothing to say. Tables of both models are in docs/real.md.
"""

import re
from collections.abc import Mapping

from quotation import quote, wrapped

from remask.analysis.figure import Figure

_PLACE = re.compile(r"\{([^{}!]+)(!?)\}")  # a figure's name; with its interval
_WIDTH = 158  # of a line, as a reader sees it
_TEXT = """\
## What real words teach

The embedded model has 8 million parameters and generated problems. Another has {real/parameters}
and English: SmolLM2, [made a diffusion model](adapt.md), solves {real/gsm8k/accuracy} of GSM8K,
{real/svamp/accuracy} of SVAMP and {real/mawps/accuracy} of MAWPS. [real.md](real.md) has every
number, and what is left of them without near duplicates.

**Where the two agree.** The verifier without labels is worth its passes: it takes a quarter of
those of round trips and is not behind them ({real/verifier_minus_roundtrips/auroc!} there,
{frontier/mean/verifier_minus_roundtrips/auroc!} here). Nothing without labels beats ten samples
everywhere. For {real/mean/verifier/extra_forwards} passes in place of
{real/mean/agreement/extra_forwards} the verifier is at {real/verifier_minus_agreement/auroc!}
against them in the mean there, which SVAMP decides ({real/svamp/verifier_minus_agreement/auroc!};
GSM8K {real/gsm8k/verifier_minus_agreement/auroc!}), and at
{frontier/mean/verifier_minus_agreement10/auroc!} here. Without the final answer round trips tell
less wherever that was tried, and no other mask ratio, number of steps or of trips is better than
the defaults beyond its interval.

**Where they do not.**

- Confidence, for nothing, is worth {real/mean/confidence/auroc} there and
{frontier/mean/confidence/auroc} here. There it is level with ten samples
({real/confidence_minus_agreement/auroc!}), and on MAWPS with the verifier.
- Labels lift the verifier here, from {frontier/mean/verifier/auroc} to
{frontier/mean/fitted20/auroc}. There they do not: on MAWPS the fit stays the plain mean, on SVAMP
it is at {real/svamp/fitted_minus_verifier/auroc!}.
- Rejection makes SVAMP right more often than one sample
({real/correction/svamp/mgrs_minus_standard/accuracy!}), if not than the best of three
({real/correction/svamp/mgrs_minus_best_of_3/accuracy!}); here, some sets.
- Four rebuild steps do there what sixteen do
({real/ablation/svamp/rebuild_steps/4/above_default!}); here they do not
({ablation/wordmath-hard/rebuild_steps/4/above_default!}).
- On GSM8K right answers lie where answers are less dense ({real/geometry/gsm8k/density_ratio!},
right to wrong), against the paper's Figure 5.
- A short answer and its round trips cost {real/cost/mawps/diagnosis_share/counted} of ten samples
(MAWPS; GSM8K {real/cost/gsm8k/diagnosis_share/counted}).

**What it says about an 8B model.** That an order of scores on generated problems need not hold on
real words, and that the verifier's place among the best held on both; the code is what an 8B model
takes. It does not say which numbers to expect: this model knows word problems alone, was trained
once, and right sums would mend few of its wrong answers ({real/gsm8k/wrong_by_sums} of those to
GSM8K). Intervals are over problems.

**Defaults.** None changes, since no setting is better beyond its interval on both models.
`roundtrips` stays what is meant where no scorer is named, since it is the paper's; our advice
stays `--scorer verifier`, now with real words behind it. New is a warning: compare with confidence
before you pay for passes.
"""


def lesson(figures: Mapping[str, Figure]) -> str:
    """Return the section, nothing where a figure that it quotes is not there."""
    if any(match[1] not in figures for match in _PLACE.finditer(_TEXT)):
        return ""
    text = _PLACE.sub(lambda found: _quoted(figures, found), _TEXT)
    return "\n\n".join(_block(block) for block in text.split("\n\n")) + "\n"


def _quoted(figures: Mapping[str, Figure], found: re.Match[str]) -> str:
    return quote(figures[found[1]], interval=bool(found[2]), name=found[1])


def _block(block: str) -> str:
    """Return a paragraph, or a list, in lines that are filled."""
    items = re.split(r"\n(?=- )", block.strip())
    return "\n".join(wrapped(item, _WIDTH) for item in items)
