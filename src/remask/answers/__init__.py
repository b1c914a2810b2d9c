r"""Reading numbers and final answers out of text, by the paper's tiers.

    turn        where an answer ends
    markup      where an answer is marked: a box, a tag, hashes
    statement   where one is stated: "the answer is ..."
    quantity    one number in words, read whole or not at all
    number, choice   the final number, the final letter
    literal     all the numbers of a text, for metrics

Equal strings mean equivalent answers: "18.0", "$18" and "\frac{36}{2}" are all read as "18", and
"0.5" as "1/2". A value that cannot be read whole is not read in part. No torch, and no text makes a
function here raise or take more than about linear time. Symbolic answers (roots, intervals,
expressions) are not read here: a task that has them brings its own extractor, on the same marks.

Departure from the paper: it says that a numeric answer of tier 3 is "penalized if the chain
contains multiple unformatted numbers" and not how. Nothing is penalised here; `Extraction.tier`
says which tier an answer came from, so a caller can tell.
"""

from remask.answers.choice import extract_choice, find_choice
from remask.answers.extraction import NOTHING, Extraction
from remask.answers.literal import MAX_DIGITS, number_spans, numbers
from remask.answers.number import canonical_number, extract_number, find_number

__all__ = [
    "MAX_DIGITS",
    "NOTHING",
    "Extraction",
    "canonical_number",
    "extract_choice",
    "extract_number",
    "find_choice",
    "find_number",
    "number_spans",
    "numbers",
]
