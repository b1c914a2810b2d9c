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
and English: SmolLM2, [made a diffusion model](adapt.md), solves
{real/gsm8k/accuracy} of GSM8K, {real/svamp/accuracy} of SVAMP and {real/mawps/accuracy} of MAWPS.
[real.md](real.md) has every number, and both models side by side.

**Where the two agree.** The verifier without labels is worth its passes. There it is
{real/verifier_minus_confidence/auroc!} above confidence and {real/verifier_minus_agreement/auroc!}
above ten samples, for {real/mean/verifier/extra_forwards} passes in place of
{real/mean/agreement/extra_forwards}; with round trips, which take four times as many passes as it,
it is level there ({real/verifier_minus_roundtrips/auroc!}) and above them here
({frontier/mean/verifier_minus_roundtrips/auroc!}). Ten samples are not beaten everywhere: on GSM8K
the verifier is at {real/gsm8k/verifier_minus_agreement/auroc!} against them, round trips are at
{real/gsm8k/roundtrips_minus_agreement/auroc!}. Without the final answer round trips tell less, on
every set. No other mask ratio, number of steps or of trips is better than the defaults beyond its
interval.

**Where they do not.**

- Confidence, for nothing, is worth {real/mean/confidence/auroc} there and
{frontier/mean/confidence/auroc} here. On MAWPS the verifier is
{real/mawps/verifier_minus_confidence/auroc!} above it.
- Rejection by round trips makes SVAMP right more often than one sample
({real/correction/svamp/mgrs_minus_standard/accuracy!}) and than a vote of ten
({real/correction/svamp/mgrs_minus_vote10/accuracy!}); here on some sets.
- Four rebuild steps do there what sixteen do
({real/ablation/svamp/rebuild_steps/4/above_default!}); here they do not
({ablation/wordmath-hard/rebuild_steps/4/above_default!}).
- Labels helped here. There a fit is no better than none, and worse on SVAMP
({real/svamp/fitted/auroc}; {real/svamp/verifier/auroc} without): the labelled problems were easier.
- On GSM8K right answers lie where answers are less dense
({real/geometry/gsm8k/density_ratio!}, right to wrong), against the paper's Figure 5.
- Beside short answers round trips cost much: {real/cost/mawps/diagnosis_share/counted} of ten
samples on MAWPS, {real/cost/gsm8k/diagnosis_share/counted} on GSM8K.

**What it says about an 8B model.** That the verifier is among the best is no accident of one model:
these two share neither size nor vocabulary nor problems, and the code is what an 8B model takes.
Which numbers to expect it does not say: this model is seldom right, knows word problems alone, and
errs in what it reckons, not how (all sums hold in {real/svamp/wrong_with_sums} of its wrong answers
to SVAMP); it was trained once, and intervals are over problems.

**Defaults.** None changes, since no setting is better beyond its interval on both models.
`roundtrips` stays what is meant where no scorer is named, since it is the paper's; our advice stays
`--scorer verifier`, now with real words behind it. New is a warning: compare with confidence before
you pay for passes.
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
