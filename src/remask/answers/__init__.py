r"""Reading numbers and final answers out of text, by the paper's tiers.

    markup      where an answer ends, and where it is marked (a box, a tag, hashes)
    search      the tiers, and what commits to one answer, for every kind
    number      the numbers of a text, one value read whole or not at all, the final number
    choice      the final letter
    option      the options that a prompt lists, and where a text speaks of them
    program     where a program stands in a text, and its names, operators, constants and tests
    mathematics the formulas of a text, and their symbols
    critical    what decides in an answer, by its kind

Equal strings mean equivalent answers: "18.0", "$18" and "\frac{36}{2}" are all read as "18", and
"0.5" as "1/2". A value that cannot be read whole is not read in part. No torch, and no text makes a
function here raise or take more than about linear time. Symbolic answers (roots, intervals,
expressions) are not read here: a task that has them brings its own extractor, on the same marks.

Departure from the paper: it says that a numeric answer of tier 3 is "penalized if the chain
contains multiple unformatted numbers" and not how. Nothing is penalised here; `Extraction.tier`
says which tier an answer came from, so a caller can tell.
"""

from remask.answers.choice import extract_choice, find_choice
from remask.answers.markup import NOTHING, Extraction
from remask.answers.number import (
    MAX_DIGITS,
    canonical_number,
    extract_number,
    find_number,
    number_spans,
    numbers,
)

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
