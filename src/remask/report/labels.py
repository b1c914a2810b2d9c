"""What methods and measures are called where people read; files and JSON keep their names."""

import re

_WORDS = {
    "roundtrips": "round trips",
    "standard": "first answer",
    "mgrs": "rejection sampling",
    "agreement_same_cost": "agreement, same cost",
    "vote_same_cost": "vote, same cost",
    "best_of_same_cost_confidence": "best by confidence, same cost",
    "n_avg": "samples per problem",
    "eff": "points gained per further sample",
    "forwards": "forward passes",
    "absent": "answers without a score",
}
_PATTERNS = (
    (re.compile(r"vote(\d+)"), r"vote of \1"),
    (re.compile(r"best_of_(\d+)_confidence"), r"best of \1 by confidence"),
    (re.compile(r"best_of_(\d+)"), r"best of \1 by round trips"),
)
PART = "roundtrips."  # what the names of the round trips' single metrics begin with


def worded(name: str) -> str:
    """Return a name in words; what is no name of ours stays as it is."""
    if name in _WORDS:
        return _WORDS[name]
    if name.startswith("above "):
        return f"above {worded(name.removeprefix('above '))}"
    if name.startswith(PART):
        return name.removeprefix(PART).replace("_", " ")
    for pattern, words in _PATTERNS:
        if pattern.fullmatch(name):
            return pattern.sub(words, name)
    return name
