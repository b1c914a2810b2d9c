r"""Extract numbers and final answers from text, by the tiers of the paper.

    markup      end of the answer; boxes, tags and hashes
    search      the tiers, and the rules for ambiguous answers of every kind
    number      all numbers of a text, the value of a short text, the final number
    choice      the final letter
    option      the options in a prompt, and their words in a text
    program     span of a program in a text, and of its names, operators and constants
    mathematics spans of formulas and of their symbols
    critical    spans that decide whether an answer is correct, by kind of answer

Answers are canonical: "18.0", "$18" and "\frac{36}{2}" all become "18", and "0.5" becomes "1/2". A
value is read whole or not at all. Every function accepts any text and takes about linear time. This
package does not import torch. Tasks with symbolic answers (roots, intervals, expressions) have
their own `search.Kind`.

Departure from the paper: the paper says that a numeric answer of tier 3 is "penalized if the chain
contains multiple unformatted numbers", but not how. We do not penalise it; `Extraction.tier`
reports the tier.
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
