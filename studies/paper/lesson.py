"""What real words teach, for docs/results.md: where two models agree, and what follows from it.

The words are of the figures that stand in them: whoever measures anew reads them anew. Where one of
the figures is missing there is nothing to say. Tables of both models are in docs/real.md.
"""

import re
from collections.abc import Mapping

from remask.analysis.figure import Figure
from studies.shared.pages import quote, wrapped

_PLACE = re.compile(r"\{([^{}!]+)(!?)\}")  # a figure's name; with its interval
_WIDTH = 158  # of a line, as a reader sees it
_TEXT = """\
## What real words teach

The embedded model, *here*, has 8 million parameters and knows generated problems. A second,
*there*, is SmolLM2 [made a diffusion model](adapt.md): {real/parameters} parameters that read
English. It solves {real/gsm8k/accuracy} of GSM8K, {real/svamp/accuracy} of SVAMP and
{real/mawps/accuracy} of MAWPS; [real.md](real.md) has everything.

**Where the two agree.** The verifier without labels is worth its passes: it is
{real/verifier_minus_confidence/auroc!} above confidence there (on MAWPS
{real/mawps/verifier_minus_confidence/auroc!}), and for a quarter of their passes not behind round
trips ({real/verifier_minus_roundtrips/auroc!}; here
{frontier/mean/verifier_minus_roundtrips/auroc!}). Nothing without labels beats ten samples
everywhere. For {real/mean/verifier/extra_forwards} passes in place of
{real/mean/agreement/extra_forwards} the verifier is at {real/verifier_minus_agreement/auroc!}
against them there, which SVAMP decides ({real/svamp/verifier_minus_agreement/auroc!}; GSM8K
{real/gsm8k/verifier_minus_agreement/auroc!}), and here at
{frontier/mean/verifier_minus_agreement10/auroc!}, which countdown decides (without it
{frontier/mean/verifier_minus_agreement10/without_countdown/auroc!}). Without the final answer
round trips tell less wherever that was tried, and no other mask ratio, number of steps or of trips
is better than the defaults beyond its interval.

**Where they do not.**

- Confidence is worth {real/mean/confidence/auroc} there and {frontier/mean/confidence/auroc} here.
Ten samples are not above it there ({real/confidence_minus_agreement/auroc!}) but on GSM8K
({real/gsm8k/confidence_minus_agreement/auroc!}).
- Labels lift the verifier here, from {frontier/mean/verifier/auroc} to
{frontier/mean/fitted20/auroc}. There they did not: on GSM8K
{real/gsm8k/fitted_minus_verifier/auroc!}; on MAWPS the fit stays the plain mean; on SVAMP, with
labels of other problems, {real/svamp/fitted_minus_verifier/auroc!}.
- Rejection by round trips makes SVAMP right more often than one sample
({real/correction/svamp/mgrs_minus_standard/accuracy!}, for {real/correction/svamp/mgrs/forwards}
passes in place of {real/correction/svamp/standard/forwards}), but not than the best of three
({real/correction/svamp/mgrs_minus_best_of_3/accuracy!}). Here it beats one
sample on four of eight sets.
- Four rebuild steps do there what sixteen do
({real/ablation/svamp/rebuild_steps/4/above_default!}); here they do not
({ablation/wordmath-hard/rebuild_steps/4/above_default!}).
- On GSM8K right answers lie where answers are less dense ({real/geometry/gsm8k/density_ratio!},
right to wrong), against the paper's Figure 5.
- A short answer and its round trips cost {real/cost/mawps/diagnosis_share/counted} of ten samples
(MAWPS; GSM8K {real/cost/gsm8k/diagnosis_share/counted}).

**What it says about an 8B model.** An order of scores found on generated problems need not hold on
real words; the verifier was among the best without labels on both. It does not say which numbers
to expect: this model knows word problems alone, was trained once, and right sums would mend few of
its wrong answers ({real/gsm8k/wrong_by_sums} of those to GSM8K). Intervals are over problems.

**Defaults.** None changes, since no setting is better beyond its interval on both models.
`roundtrips` stays what is meant where no scorer is named, since it is the paper's; our advice
stays `--scorer verifier`, now with real words behind it. An old warning weighs more: compare with
confidence first.
"""


def lesson(figures: Mapping[str, Figure]) -> str:
    """Return the section, nothing where a figure that it quotes is not there."""
    if any(match[1] not in figures for match in _PLACE.finditer(_TEXT)):
        return ""
    text = _PLACE.sub(lambda found: _quoted(figures, found), _TEXT)
    return "\n\n".join(_block(block) for block in text.split("\n\n")) + "\n"


def _quoted(figures: Mapping[str, Figure], found: re.Match[str]) -> str:
    return quote(figures[found[1]], interval=bool(found[2]))


def _block(block: str) -> str:
    """Return a paragraph, or a list, in lines that are filled."""
    items = re.split(r"\n(?=- )", block.strip())
    return "\n".join(wrapped(item, _WIDTH) for item in items)
