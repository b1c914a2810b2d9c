"""Multiple-choice deduction over facts in the prompt, with options A to D.

It plays the role of ARC and GPQA for the embedded model. Two kinds of puzzle are mixed: `order`
(shuffled comparisons of neighbours in a ranking) and `track` (who has a thing after hand-overs or
swaps). The key is the ranking or the moves with their names, and the question: fact order, wording
and the place of the options never decide the split. Solutions vary in wording, in direction and
in detail, and the templates that word them are also the patterns that read them back.

Not here: reading the final letter out of a text (`remask.answers`).
"""

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from remask.answers import extract_choice, find_choice
from remask.tasks.base import Generated, Grade, Problem, Split, compared, count_pieces, draw
from remask.tasks.puzzle import (
    ASKED,
    SCALES,
    SIZES,
    TRAINED,
    Puzzle,
    Scale,
    key_of,
    structure,
)
from remask.tasks.quantities import pick
from remask.tasks.wordmath import NAMES, read, reader, sentences

LETTERS = "ABCD"
DEPARTURE = 0.02
PLAIN = (False, False, False, True)  # attempts at a wording that fits; the plainest comes last

# In each tuple the first wording is the shortest: it is the one that always fits.
COMPARISONS = ("{a} is {more} than {b}.", "Compared with {b}, {a} is {more}.")
FLIPPED = ("{b} is {less} than {a}.", "Compared with {a}, {b} is {less}.")
HAS = ("{a} has the {o}.", "The {o} is with {a}.")
HANDS = ("{a} gives the {o} to {b}.", "{a} hands the {o} to {b}.", "{b} gets the {o} from {a}.")
SWAPS = ("{a} and {b} swap.", "{a} swaps with {b}.")
WHO_HAS = ("Who has the {o}?", "Who has the {o} at the end?", "At the end, who has the {o}?")
QUESTIONS = {
    "most": "Who is the {most}?",
    "least": "Who is the {least}?",
    "second": "Who is the second {most}?",
    "below": "Who comes just below {x}?",
    "above": "Who comes just above {x}?",
}

LINKS = ("{a} > {b}.", "{a} is {more} than {b}.", "{a} is above {b}.")
LINKS_UP = ("{b} < {a}.", "{b} is {less} than {a}.", "{b} is below {a}.")
CHAINS = ("{down}.", "The order is {list}.", "From {most} to {least}: {list}.")
CHAINS_UP = ("{up}.", "From {least} to {most}: {list}.")
VERDICTS = {
    "most": ("{a} is the {most}.", "So {a} is the {most}.", "The {most} is {a}."),
    "least": ("{a} is the {least}.", "So {a} is the {least}.", "The {least} is {a}."),
    "second": ("{a} is second.", "So {a} is the second {most}.", "{a} comes second."),
    "below": ("{a} is just below {x}.", "So {a} is just below {x}."),
    "above": ("{a} is just above {x}.", "So {a} is just above {x}."),
}
STARTS = ("{a} has it.", "{a} has the {o}.", "At first {a} has the {o}.", "We start with {a}.")
PASSES = (
    "Then {b}.",
    "Then {b} has it.",
    "Now {b} has the {o}.",
    "{a} passes it to {b}.",
    "From {a} it goes to {b}.",
)
MOVES = {"hand": "{a} gives it to {b}, so {b} has it.", "swap": "{a} and {b} swap, so {b} has it."}
ROUTES = ("The {o} goes from {route}.", "It goes from {route}.")
ENDS = ("So it is {a}.", "At the end {a} has it.", "So {a} has the {o}.", "That is {a}.")
CHECK = "{l}) {a}: {v}."  # of one option after the other, before the closing
THOROUGH = 0.5  # share of authors who check the options after the right one as well
CLOSINGS = (  # solutions end with the first, see `wordmath`; the others are read
    "Answer: {l}",
    "The answer is {l}.",
    "So the answer is {l}.",
    "Answer: {l}) {a}",
    "The answer is {l}) {a}.",
    "So the answer is {l}) {a}.",
)

PERSON = r"[A-Z][a-z]+"
GROUPS = {
    **{letter: f"(?P<{letter}>{PERSON})" for letter in "abx"},
    "o": r"(?P<o>[a-z]+)",
    "l": "(?P<l>[A-D])",
    "v": "(?P<v>yes|no)",
    "list": f"(?P<list>{PERSON}(?:, {PERSON})+)",
    "down": f"(?P<down>{PERSON}(?: > {PERSON})+)",
    "up": f"(?P<up>{PERSON}(?: < {PERSON})+)",
    "route": f"(?P<route>{PERSON}(?: to {PERSON})+)",
    **{
        field: f"(?P<{field}>{'|'.join(getattr(scale, field) for scale in SCALES)})"
        for field in Scale._fields
    },
}


def state_order(rng: random.Random, puzzle: Puzzle, scale: Scale, plain: bool) -> list[str]:
    """Return the comparisons of neighbours, shuffled, and the question."""
    words = scale._asdict()
    parts = []
    for a, b in pairwise(puzzle.people):
        wordings = COMPARISONS if rng.random() < 0.6 else FLIPPED
        wording = wordings[0] if plain or rng.random() < 0.7 else wordings[1]
        parts.append(wording.format(a=a, b=b, **words))
    rng.shuffle(parts)
    return [*parts, QUESTIONS[puzzle.query].format(x=puzzle.subject, **words)]


def state_track(rng: random.Random, puzzle: Puzzle, plain: bool) -> list[str]:
    """Return who has what at the start, the moves in time, and the question."""

    def wording(options: Sequence[str]) -> str:
        return options[0] if plain else pick(rng, options)

    parts = [wording(HAS).format(a=person, o=thing) for person, thing in puzzle.holders]
    rng.shuffle(parts)
    moves = HANDS if puzzle.kind == "hand" else SWAPS
    for a, b, thing in puzzle.moves:
        if puzzle.kind == "swap" and rng.random() < 0.5:
            a, b = b, a
        parts.append(wording(moves).format(a=a, b=b, o=thing))
    return [*parts, wording(WHO_HAS).format(o=puzzle.subject)]


def draw_options(rng: random.Random, puzzle: Puzzle) -> list[str]:
    """Return four names in random order; outsiders fill up where there are too few people."""
    others = [person for person in puzzle.people if person != puzzle.answer]
    rng.shuffle(others)
    while len(others) < 3:
        stranger = pick(rng, NAMES)
        if stranger not in puzzle.people and stranger not in others:
            others.append(stranger)
    options = [puzzle.answer, *others[:3]]
    rng.shuffle(options)
    return options


def pose(rng: random.Random, puzzle: Puzzle, scale: Scale, room: int) -> tuple[str, list[str]]:
    """Return a prompt of at most `room` pieces and its options."""
    options = draw_options(rng, puzzle)
    tail = " ".join(f"{letter}) {name}" for letter, name in zip(LETTERS, options, strict=True))
    for plain in PLAIN:
        if puzzle.kind == "order":
            parts = state_order(rng, puzzle, scale, plain)
        else:
            parts = state_track(rng, puzzle, plain)
        prompt = " ".join([*parts, tail])
        if count_pieces(prompt) <= room:
            break
    return prompt, options


def habit(rng: random.Random, options: Sequence[str], times: int, plain: bool) -> list[str]:
    """Return `times` wordings: one author's habit, from which single ones depart."""
    if plain:
        return [options[0]] * times
    usual = pick(rng, options)
    return [pick(rng, options) if rng.random() < DEPARTURE else usual for _ in range(times)]


def write_order(rng: random.Random, puzzle: Puzzle, scale: Scale, plain: bool) -> list[str]:
    """Return the derivation of a ranking: link by link, as one chain, or both."""
    words = scale._asdict()
    detail = 1.0 if plain else rng.random()  # links only, links and chain, chain only
    upwards = rng.random() < 0.4
    people = puzzle.people
    parts = []
    if detail < 0.75:
        pairs = list(pairwise(people))
        links = LINKS_UP if upwards else LINKS
        if upwards:
            pairs.reverse()
        if detail > 0.55:  # as the facts come; the chain then sorts them
            rng.shuffle(pairs)
        wordings = habit(rng, links, len(pairs), plain)
        parts = [w.format(a=a, b=b, **words) for (a, b), w in zip(pairs, wordings, strict=True)]
    if detail > 0.4:
        ranked = people[::-1] if upwards else people
        chain = habit(rng, CHAINS_UP if upwards else CHAINS, 1, plain)[0]
        down, up, listed = " > ".join(ranked), " < ".join(ranked), ", ".join(ranked)
        parts.append(chain.format(down=down, up=up, list=listed, **words))
    verdict = habit(rng, VERDICTS[puzzle.query], 1, plain)[0]
    return [*parts, verdict.format(a=puzzle.answer, x=puzzle.subject, **words)]


def write_track(rng: random.Random, puzzle: Puzzle, plain: bool) -> list[str]:
    """Return the derivation of the last holder: move by move, or as one route."""
    thing, path = puzzle.subject, puzzle.path
    if rng.random() < 0.2:
        parts = [pick(rng, ROUTES).format(o=thing, route=" to ".join(path))]
    else:
        parts = [habit(rng, STARTS, 1, plain)[0].format(a=path[0], o=thing)]
        wordings = habit(rng, (*PASSES, MOVES[puzzle.kind]), len(path) - 1, plain)
        pairs = zip(pairwise(path), wordings, strict=True)
        parts += [wording.format(a=a, b=b, o=thing) for (a, b), wording in pairs]
    return [*parts, habit(rng, ENDS, 1, plain)[0].format(a=path[-1], o=thing)]


def check_options(options: Sequence[str], answer: str) -> list[str]:
    """Return one sentence on each option: is it the answer?"""
    return [
        CHECK.format(l=letter, a=name, v="yes" if name == answer else "no")
        for letter, name in zip(LETTERS, options, strict=True)
    ]


def solve(
    rng: random.Random, puzzle: Puzzle, scale: Scale, options: Sequence[str], room: int
) -> str:
    """Return a solution of at most `room` pieces."""
    letter = LETTERS[options.index(puzzle.answer)]
    checks = check_options(options, puzzle.answer)
    for plain in PLAIN:
        if puzzle.kind == "order":
            parts = write_order(rng, puzzle, scale, plain)
        else:
            parts = write_track(rng, puzzle, plain)
        parts += checks if rng.random() < THOROUGH else checks[: LETTERS.index(letter) + 1]
        solution = " ".join([*parts, CLOSINGS[0].format(l=letter)])
        if count_pieces(solution) <= room:
            break
    return solution


ORDER_READERS = tuple(
    reader(template, GROUPS)
    for template in (*LINKS, *LINKS_UP, *CHAINS, *CHAINS_UP, *COMPARISONS, *FLIPPED)
)
VERDICT_READERS = {
    question: tuple(reader(template, GROUPS) for template in wordings)
    for question, wordings in VERDICTS.items()
}
TRACK_READERS = {
    kind: tuple(reader(template, GROUPS) for template in (*STARTS, *PASSES, move, *ROUTES))
    for kind, move in MOVES.items()
}
END_READERS = tuple(reader(template, GROUPS) for template in ENDS)
CHECK_READERS = (reader(CHECK, GROUPS),)
CLOSING_READERS = tuple(reader(template, GROUPS) for template in CLOSINGS)
Said = dict[str, str | None]


def true_words(facts: Mapping[str, Any], said: Said) -> bool:
    """Say whether scale words and thing are those of the puzzle."""
    known = facts["words"]
    return all(said.get(word) in (None, known.get(word)) for word in ("o", *Scale._fields))


def ranked(said: Said) -> list[str]:
    """Return the people of a link or chain, from the top."""
    if "up" in said:
        return str(said["up"]).split(" < ")[::-1]
    if "down" in said:
        return str(said["down"]).split(" > ")
    if "list" in said:
        names = str(said["list"]).split(", ")
        return names[::-1] if next(iter(said)) == "least" else names
    return [str(said["a"]), str(said["b"])]


def order_ok(facts: Mapping[str, Any], steps: Sequence[str], verdict: str) -> bool:
    """Say whether every stated relation is true and they give the whole ranking."""
    place = {name: k for k, name in enumerate(facts["people"])}
    missing = set(pairwise(facts["people"]))
    for sentence in steps:
        said = read(ORDER_READERS, sentence)
        if said is None or not true_words(facts, said):
            return False
        names = ranked(said)
        places = [place.get(name, -1) for name in names]
        if -1 in places or any(high >= low for high, low in pairwise(places)):
            return False
        missing -= set(pairwise(names))
    said = read(VERDICT_READERS[facts["question"]], verdict)
    if said is None or missing or not true_words(facts, said):
        return False
    return said["a"] == facts["answer"] and said.get("x") in (None, facts["asked"])


def track_ok(facts: Mapping[str, Any], steps: Sequence[str], verdict: str) -> bool:
    """Say whether the thing is said to go through the right hands, each of them, in turn."""
    path: list[str] = []
    for sentence in steps:
        said = read(TRACK_READERS[facts["kind"]], sentence)
        if said is None or not true_words(facts, said):
            return False
        named = (said.get("a"), said.get("b"))
        hands = str(said["route"]).split(" to ") if "route" in said else filter(None, named)
        path += [name for name in hands if path[-1:] != [name]]
    said = read(END_READERS, verdict)
    if said is None or not true_words(facts, said):
        return False
    return [*path, said["a"]] == [*facts["path"], facts["answer"]]


class Choice(Generated):
    """Deduction with four options: rankings, and things that change hands."""

    name = "choice"
    critical = "choice"
    canvases = tuple(size.canvas for size in SIZES.values())

    def make(self, identity: str, level: str, split: Split) -> Problem:
        size = SIZES[level]
        blend = TRAINED if split == "train" else ASKED
        puzzle, rng = draw(lambda source: structure(source, size, blend), key_of, identity, split)
        scale = pick(rng, SCALES)
        prompt, options = pose(rng, puzzle, scale, size.prompt)
        gold = LETTERS[options.index(puzzle.answer)]
        room = min(size.solution, size.together - count_pieces(prompt))
        return Problem(
            id=identity,
            task=self.name,
            level=level,
            prompt=prompt,
            gold=gold,
            solution=solve(rng, puzzle, scale, options, room),
            facts={
                "key": key_of(puzzle),
                "kind": puzzle.kind,
                "people": list(puzzle.people),
                "question": puzzle.query,
                "asked": puzzle.subject,
                "answer": puzzle.answer,
                "options": options,
                "path": list(puzzle.path),
                "words": {"o": puzzle.subject} if puzzle.path else scale._asdict(),
            },
        )

    def extract(self, text: str) -> str | None:
        """Return the final letter of `text`."""
        return extract_choice(text)

    def judge(self, problem: Problem, text: str) -> Grade:
        """Return whether the final letter is right, and how that was found."""
        return compared(find_choice(text), problem.gold, "letter")

    def process_ok(self, problem: Problem, text: str) -> bool:
        """Say whether the letter, the person named before it and every step are right.

        A ranking must be stated whole, a thing followed through every hand, in known wordings.
        """
        facts = problem.facts
        *steps, closing = sentences(text)
        said = read(CLOSING_READERS, closing)
        if said is None or said.get("a") not in (None, facts["answer"]):
            return False
        checks = check_options(facts["options"], facts["answer"])
        while steps and read(CHECK_READERS, steps[-1]):
            if steps.pop() not in checks:
                return False
        if len(steps) < 2 or not self.grade(problem, text):
            return False
        follows = order_ok if facts["kind"] == "order" else track_ok
        return follows(facts, steps[:-1], steps[-1])
