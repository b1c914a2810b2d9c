"""A question turned into the sentence that answers it: "How many pens does Ann have left?" with
"9-4=5" becomes "Ann has 9-4=5 pens left."

Only forms that can be turned safely are; others give None, and the computation stands alone.
"""

import re

PAST = {
    "have": "had", "get": "got", "buy": "bought", "sell": "sold", "eat": "ate", "give": "gave",
    "find": "found", "spend": "spent", "make": "made", "take": "took", "pay": "paid",
    "pick": "picked", "lose": "lost", "drink": "drank", "run": "ran", "read": "read",
    "catch": "caught", "grow": "grew", "put": "put", "cut": "cut", "see": "saw", "do": "did",
    "bake": "baked", "earn": "earned", "collect": "collected", "save": "saved", "use": "used",
    "receive": "received", "plant": "planted", "walk": "walked", "cost": "cost", "win": "won",
    "score": "scored", "need": "needed", "start": "started", "end": "ended", "bring": "brought",
    "drive": "drove", "fill": "filled", "add": "added", "weigh": "weighed", "travel": "traveled",
    "complete": "completed", "finish": "finished", "place": "placed", "remove": "removed",
    "borrow": "borrowed", "share": "shared", "leave": "left", "throw": "threw", "write": "wrote",
    "ride": "rode", "swim": "swam", "fly": "flew", "build": "built", "draw": "drew",
    "serve": "served", "trade": "traded", "break": "broke",
    "pack": "packed", "pull": "pulled", "play": "played", "watch": "watched", "visit": "visited",
    "delete": "deleted", "download": "downloaded", "upload": "uploaded", "wash": "washed",
    "carry": "carried", "miss": "missed", "answer": "answered", "return": "returned",
}  # fmt: skip
PRESENT = {"have": "has", "do": "does", "go": "goes"}
_SUBJECT = (
    r"(?:he|she|they|it|we|I|you|[Tt]he [a-z]+(?: [a-z]+)?|[Ee]ach [a-z]+|"
    r"(?:Mrs?\. )?[A-Z][a-z]+(?:,? (?:and )?[A-Z][a-z]+)*|[A-Z][a-z]+ and (?:his|her) [a-z]+)"
)
_VERB = "|".join(sorted(PAST, key=len, reverse=True))
_DOES = re.compile(
    rf"how many (?P<noun>[a-zA-Z' -]+?) (?P<aux>does|do|did|will|would|can|could|should|must) "
    rf"(?P<who>{_SUBJECT}) (?P<still>still )?(?P<verb>{_VERB})(?P<rest>(?: [^?]*)?)\?$"
)
_THERE = re.compile(
    r"how many (?P<noun>[a-zA-Z' -]+?) (?P<be>are|were|will) (?:(?P<now>now|still) )?"
    r"there(?P<will> be)?(?P<rest>(?: [^?]*)?)\?$"
)
_ARE = re.compile(
    r"how many (?P<noun>[a-zA-Z' -]+?) (?P<be>are|were) "
    r"(?P<rest>(?:now |still )?(?:in|on|left|needed|at)\b[^?]*)\?$"
)
_MUCH = re.compile(
    rf"how much (?:money |change )?(?P<aux>does|do|did|will|would) (?P<who>{_SUBJECT}) "
    rf"(?P<verb>have|spend|earn|pay|make|need|cost|get|save|receive)(?P<rest>(?: [^?]*)?)\?$"
)


_WENT = re.compile(
    r"how many (?P<noun>[a-z' -]+?) (?P<rest>(?:went|came|left|got|joined|stayed|attended|visited|"
    r"remained|remain|rode|live|lived|fell|flew|passed|arrived)\b[^?]*)\?$"
)
_TITLE = re.compile(r"\bMrs?\. ")
_DONE = re.compile(r" (?:\w+ed|made|spent|left to \w+|sold|won|bought|to)\b")
_AT_FIRST = re.compile(r" to (?:start|begin) with\b")


def restate(problem: str, written: str, value: str) -> str | None:
    """Return the answer to the question at the end of a problem; None where it is not turned.

    `written` is the computation with its result, "9-4=5", and `value` the result.
    """
    asked = question_of(problem)
    if asked is None or len(asked) > 120 or value.startswith("-"):
        return None
    one = value == "1"
    for pattern, turn in (
        (_THERE, _there),
        (_DOES, _does),
        (_ARE, _are),
        (_MUCH, _much),
        (_WENT, _went),
    ):
        match = pattern.fullmatch(asked)
        if match is None:
            continue
        if one and pattern is not _MUCH:
            return None
        said = turn(match, written, problem)
        return None if said is None else _sentence(said)
    return None


def question_of(problem: str) -> str | None:
    """Return the last clause that asks something, from "how" on."""
    starts = [match.start() for match in re.finditer(r"\b[Hh]ow (?:many|much)\b", problem)]
    if not starts or not problem.endswith("?"):
        return None
    asked = problem[starts[-1] :]
    one = asked.count("?") == 1 and ". " not in _TITLE.sub("", asked)
    return "how" + asked[3:] if one else None


def _does(match: re.Match[str], written: str, problem: str) -> str | None:
    verb = _inflected(match["aux"], match["verb"], match["who"])
    still = match["still"] or ""
    rest = match["rest"]
    if re.match(r" (?:if|when|in order)\b", rest) or match["noun"].endswith((" of", " of them")):
        return None
    if match["verb"] in ("end", "start"):
        ends = re.match(r" (?:up )?with\b", rest)
        return f"{match['who']} {verb}{rest} {written} {match['noun']}." if ends else None
    if _DONE.match(rest) and not _AT_FIRST.match(rest):
        return None
    return f"{match['who']} {still}{verb} {written} {match['noun']}{rest}."


def _went(match: re.Match[str], written: str, problem: str) -> str | None:
    return f"{written} {match['noun']} {match['rest']}."


def _there(match: re.Match[str], written: str, problem: str) -> str | None:
    be = f"{match['be']} {match['now']}" if match["now"] else match["be"]
    be += match["will"] or ""
    return f"There {be} {written} {match['noun']}{match['rest']}."


def _are(match: re.Match[str], written: str, problem: str) -> str | None:
    return f"There {match['be']} {written} {match['noun']} {match['rest']}."


def _much(match: re.Match[str], written: str, problem: str) -> str | None:
    if "$" not in problem and "dollar" not in problem:
        return None
    if re.search(r" than | more | each$|^ if\b", match["rest"]):
        return None
    if match["verb"] == "have" and _DONE.match(match["rest"]):
        return None
    left, _, value = written.partition("=")
    money = f"{left}=${value}" if "$" in problem else f"{written} dollars"
    verb = _inflected(match["aux"], match["verb"], match["who"])
    return f"{match['who']} {verb} {money}{match['rest']}."


def _inflected(auxiliary: str, verb: str, who: str) -> str:
    """Return the verb as it stands without its auxiliary."""
    if auxiliary == "did":
        return PAST[verb]
    if auxiliary == "does" and who not in ("I", "you", "we", "they"):
        if verb in PRESENT:
            return PRESENT[verb]
        if verb.endswith("y") and verb[-2] not in "aeiou":
            return verb[:-1] + "ies"
        return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
    return verb if auxiliary in ("do", "does") else f"{auxiliary} {verb}"


def _sentence(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text[0].upper() + text[1:]
