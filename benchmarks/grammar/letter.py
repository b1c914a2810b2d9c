"""Answers that are the letter of an option, as to ARC.

The letter stands in markup, in a statement, at the end or at the beginning; the option's own words
may follow it. Words alone are no letter: options are often phrases that begin with "A", and
temperatures end in "C".
"""

import random

from grammar.item import Item

LETTERS = "ABCD"
OPTIONS = (
    "a decrease in sunlight", "the roots of a plant", "21°C", "carbon dioxide", "vitamin C",
    "An increase in mass", "0.5 m/s", "it is a renewable resource", "Type B blood", "point A",
    "metal", "The days become shorter.", "A change of state", "both heat and light",
)  # fmt: skip
PLAIN = (
    "",
    "Plants need light to grow.\n",
    "Let us look at each of them.\n\nA. The first is too broad.\nB. The second does not fit.\n"
    "C. The third is possible.\nD. The fourth is not related.\n\n",
    "- **Option A**: this is wrong.\n- **Option D**: this is hardly better.\n\n",
    "A decrease of 3 °C was measured, and vitamin B is not concerned.\n",
    "I think that a plant bends to light. Consider the options (A) to (D) in turn.\n",
)
STATED = (*PLAIN, "One might say that the answer is B. On a second look it is not.\n")
PREFACES = (*STATED, "First guess: \\boxed{A}. That is not right.\n")
AFTER = ("", "", "\n", " ", ".", "\n\nI hope this helps!", " []", "\n\nThe best answer is []")


SHAPES = (  # L letter, l small letter, O option
    "{L}",
    "{L}.",
    "({L})",
    "{L})",
    "**{L}**",
    "**{L}.**",
    "{L}. {O}",
    "**{L}. {O}**",
    "({L}) {O}",
    "{L}) {O}",
    "{L}: {O}",
    "**{L}**. {O}",
    "[{L}]",
    "\\text{{{L}}}",
    "${L}$",
    "{L} - {O}",
    "option {L}",
    "Option ({L})",
    "**({L}) {O}**",
    '"{L}"',
    "{l}.",
    "({l})",
    "{L}. {O}, as shown",
    "{L}, because the others fail",
    "{L} because C and A are ruled out",
)
INSIDE = (
    "{L}", "({L})", "{L}.", "{L}. {O}", "\\text{{{L}}}", "\\text{{({L}) {O}}}", "{L}) {O}",
    "\\textbf{{{L}}}", "{L}: {O}", "\\text{{{L}. {O}}}", " {L} ", "Option {L}", "**{L}**",
    "\\mathrm{{{L}}}",
)  # fmt: skip
ALONE = ("{L}. {O}", "{L}) {O}", "({L}) {O}", "**{L}. {O}**", "{L}", "{L}.", "{l}", "{L}: {O}")


def spelled(shape: str, letter: str, option: str) -> str:
    return shape.format(L=letter, l=letter.lower(), O=option)


def cue(rng: random.Random) -> str:
    return rng.choice((
        "The answer is ", "The best answer is ", "The correct answer is: ", "Answer: ", "answer: ",
        "**Answer:** ", "Therefore, the correct answer would be ", "The answer should be ",
        "The right option is ", "The correct choice is ", "So the final answer is:\n\n",
        "Final Answer: ", "The answer to the question is ", "The answer must be ",
    ))  # fmt: skip


def marked(rng: random.Random, letter: str, option: str) -> tuple[str, str]:
    """Return a letter in markup, and what the markup is called."""
    inside = spelled(rng.choice(INSIDE), letter, option)
    return rng.choice(
        (
            (f"\\boxed{{{inside}}}", "box"),
            (f"So we choose $\\boxed{{{inside}}}$.", "box in a sentence"),
            (f"The final answer is \\(\\boxed{{{inside}}}\\)", "box in a statement"),
            (f"<answer>{inside}</answer>", "tag"),
            (f"<answer>\n\\boxed{{{inside}}}\n</answer>", "box in a tag"),
            (f"<answer>\n{inside}\n</answer>", "tag on lines"),
            (f"#### {inside}", "hashes"),
            (f"<answer>\nThe answer is {letter}, as light is needed.\n</answer>", "said in a tag"),
        )
    )


def concluded(rng: random.Random, letter: str, option: str) -> tuple[str, str]:
    """Return an answer without the usual statement."""
    return rng.choice((
        (f"Therefore, {letter} is the most appropriate answer.", "letter first"),
        (f"So option {letter} is the correct answer.", "option first"),
        (f"I would go with option {letter}.", "option"), (f"So it must be {letter}.", "must be"),
        (f"**Therefore, {letter}.**", "therefore"), (f"\n{letter}", "last line"),
        (f"\n({letter})", "last line in brackets"),
        (f"Considering this, option {letter} – {option} – explains it best.", "option, dashes"),
    ))  # fmt: skip


def vague(rng: random.Random) -> tuple[str, str]:
    """Return an ending in which no letter is chosen."""
    one, other = rng.sample(LETTERS, 2)
    return rng.choice((
        ("The answer is: A decrease in sunlight", "words that begin with A"),
        ("The best answer is A change of state.", "words that begin with A"),
        (f"The answer is {one} or {other}.", "two letters"),
        (f"The answer is either {one} or {other}.", "either"),
        (f"The answer is not {one}.", "negation"), ("The answer is apartment.", "a word"),
        ("The temperature rose to 21°C", "degrees at the end"),
        ("Oranges are rich in vitamin C.", "vitamin at the end"),
        (f"\\boxed{{{one}, {other}}}", "two letters in a box"),
        ("<answer>A decrease in sunlight</answer>", "words in a tag"),
        ("\\boxed{\\text{carbon dioxide}}", "words in a box"),
        ("The answer is E", "a letter that is not offered"),
        ("I cannot answer this question.", "refusal"),
    ))  # fmt: skip


def draw_letter(rng: random.Random) -> Item:
    """Return one answer to a question with options."""
    letter = rng.choice(LETTERS)
    options = rng.sample(OPTIONS, len(LETTERS))
    option = options[LETTERS.index(letter)]
    facts = {"letters": LETTERS, "options": options}
    after, way = rng.choice(AFTER), rng.random()
    if way < 0.14:
        text, form = vague(rng)
        return Item(form=form, text=rng.choice(PLAIN[:2]) + text, truth=None, facts=facts)
    if way < 0.22:
        shape = rng.choice(ALONE)
        text = spelled(shape, letter, option)
        return Item(form=f"nothing but {shape}", text=text, truth=letter, facts=facts)
    if way < 0.34:
        text, form = concluded(rng, letter, option)
        return Item(form=form, text=rng.choice(PLAIN) + text, truth=letter, facts=facts)
    if way < 0.66:
        text, form = marked(rng, letter, option)
        return Item(form=form, text=rng.choice(PREFACES) + text + after, truth=letter, facts=facts)
    said, shape = cue(rng), rng.choice(SHAPES)
    text = rng.choice(STATED) + said + spelled(shape, letter, option) + after
    return Item(form=f"{said.strip()} {shape}", text=text, truth=letter, facts=facts)
