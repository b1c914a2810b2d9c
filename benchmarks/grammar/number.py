r"""Answers that are one number, as to GSM8K.

A value is spelled with currency, separators, fractions, powers; it stands in a box, in a tag, after
`####`, in a statement or at the end of a sentence; words follow it. What nobody can take for one
number is unreadable: a time of day, a range, a list, a formula, two units, a box that is cut off.
"""

import random
from fractions import Fraction

from grammar.item import Item

# What comes first. An earlier box may stand before another box only: markup outranks statements.
PLAIN = (
    "",
    "16 - 3 - 4 = 9 eggs.\n",
    "First, 12 * 5 = 60. Then 60 / 4 = 15.\n\n",
    "Step 1: \\[ 3 \\times 4 = 12 \\]\nStep 2: \\( 12 + 8 = 20 \\)\n",
    "Let x be the number of days, so 2x + 3 = 17 and x = 7.\n",
    "Each ticket costs $3.50, and there are 4 weeks in a month.\n\n",
    "<reasoning>\nShe reads 30 pages a day, which is 210 pages a week.\n</reasoning>\n",
    "### 1. Count the boxes\nThere are 5 boxes of 10.\n#### 2. Add them up\n",
    "- Red: 12\n- Blue: 8\n\nTotal = 12 + 8 = 20\n",
    "At 2:30 pm he had walked 3 1/2 miles.\n",
)
STATED = (*PLAIN, "At first one might say that the answer is 41. But that forgets the tax.\n")
PREFACES = (
    *STATED,
    "**Step 1:** Half of them is \\(\\boxed{6}\\).\n**Step 2:** We go on from there.\n",
)
UNITS = (
    "", "", "", " dollars", " eggs", " miles per hour", " square feet", "\\text{ cm}",
    " \\text{ hours}", " \\text{ miles per gallon}", "%", "\\%", " percent", " kg", "kg",
    "\\text{ minutes}.", " more apples than Ben",
)  # fmt: skip
WORDY = tuple(unit for unit in UNITS if "\\" not in unit)
LONG = (
    " dozen eggs in 4 weeks.",
    " dollars per day for the 3 of them together.",
    " hours to walk from the school to the 2 parks",
    " pages every day until the end of week 6.",
)
AFTER = (
    "", "", "\n", " ", "\n\nI hope this helps!", "\n\nI checked this 3 times.", "\n```",
    "\n</answer>", " Let me know if you have 1 or 2 questions.",
)  # fmt: skip


def grouped(number: int, separator: str) -> str:
    return f"{number:,}".replace(",", separator)


def plain(rng: random.Random) -> tuple[str, Fraction, str]:
    """Return a spelling that takes a unit, its value, and what it is called."""
    number = rng.choice((rng.randint(0, 99), rng.randint(100, 999), rng.randint(1000, 9_999_999)))
    cents = rng.randint(1, 99)
    kind = rng.choice((
        "int", "int", "int", "comma", "brace", "thin", "narrow", "latex thin", "latex bang",
        "blank", "zeros", "cents", "minus", "unicode minus", "fraction", "frac", "dfrac",
        "short frac", "mixed", "latex mixed", "million",
    ))  # fmt: skip
    top, bottom = rng.randint(1, 9), rng.randint(2, 9)
    whole, part = rng.randint(1, 40), Fraction(1, bottom)
    spelled: dict[str, tuple[str, Fraction | int]] = {
        "int": (str(number), number), "comma": (grouped(number, ","), number),
        "brace": (grouped(number, "{,}"), number), "thin": (grouped(number, "\u2009"), number),
        "narrow": (grouped(number, "\u202f"), number),
        "latex thin": (grouped(number, "\\,"), number),
        "latex bang": (grouped(number, ",\\!"), number), "blank": (grouped(number, " "), number),
        "zeros": (f"{number}.00", number),
        "cents": (f"{number}.{cents:02}", number + Fraction(cents, 100)),
        "minus": (f"-{number}", -number), "unicode minus": (f"\u2212{number}", -number),
        "fraction": (f"{top}/{bottom}", Fraction(top, bottom)),
        "frac": (f"\\frac{{{top}}}{{{bottom}}}", Fraction(top, bottom)),
        "dfrac": (f"\\dfrac{{{number}}}{{{bottom}}}", Fraction(number, bottom)),
        "short frac": (f"\\frac{top}{bottom}", Fraction(top, bottom)),
        "mixed": (f"{whole} 1/{bottom}", whole + part),
        "latex mixed": (f"{whole}\\frac{{1}}{{{bottom}}}", whole + part),
        "million": (f"{whole}.5 million", (whole + Fraction(1, 2)) * 10**6),
    }  # fmt: skip
    text, value = spelled[kind]
    return text, Fraction(value), kind


def finished(rng: random.Random) -> tuple[str, Fraction, str]:
    """Return a spelling that stands without a unit: money, powers, equations."""
    number, small = rng.randint(1, 9999), rng.randint(1, 9)
    power = rng.randint(2, 7)
    kind = rng.choice((
        "dollar", "escaped dollar", "euro", "debt", "dollar debt", "power", "brace power",
        "scientific", "times sign", "e", "named", "worked", "quotient", "degrees", "bold", "text",
        "about", "o'clock",
    ))  # fmt: skip
    spelled: dict[str, tuple[str, Fraction | int]] = {
        "dollar": (f"${number:,}", number), "escaped dollar": (f"\\${number:,}.00", number),
        "euro": (f"€{number}", number), "debt": (f"-${number}", -number),
        "dollar debt": (f"-\\${number:,}", -number), "power": (f"10^{power}", 10**power),
        "brace power": (f"2^{{{power}}}", 2**power),
        "scientific": (f"{small}.5 \\times 10^{power}", (small + Fraction(1, 2)) * 10**power),
        "times sign": (f"{small}.25 × 10^{{{power}}}", (small + Fraction(1, 4)) * 10**power),
        "e": (f"{small}.5e{power}", (small + Fraction(1, 2)) * 10**power),
        "named": (f"x = {number}", number),
        "worked": (f"{number} + {small} = {number + small}", number + small),
        "quotient": (f"\\frac{{{number * small}}}{{{small}}} = {number}", number),
        "degrees": (f"{number}^\\circ", number), "bold": (f"\\textbf{{{number}}}", number),
        "text": (f"\\text{{{number} dollars}}", number), "o'clock": (f"{small}:00 pm", small),
        "about": (f"\\approx {number}.5", number + Fraction(1, 2)),
    }  # fmt: skip
    text, value = spelled[kind]
    return text, Fraction(value), kind


def unreadable(rng: random.Random) -> tuple[str, str]:
    """Return what is not one number, and what it is called."""
    a, b = rng.randint(2, 11), rng.randint(12, 59)
    return rng.choice((
        (f"{a}:{b}", "clock"), (f"{a}:{b} pm", "clock with words"),
        (f"{a}:{b} \\text{{ am}}", "clock with text"), (f"{a}x + {b}", "formula"),
        (f"{b}G", "variable"), (f"\\frac{{{a}}}{{{b}}}H", "fraction of a variable"),
        (f"{a}, {b}", "list"), (f"{a} hours and {b} minutes", "two units"),
        (f"{a} \\text{{ feet }} {b} \\text{{ inches}}", "feet and inches"),
        (f"{a} or {b}", "two values"), (f"{a} to {b}", "range"), (f"{a}\\sqrt{{{b}}}", "root"),
        (f"{a}.{b}.{b}", "two points"), (f"{a},{b}", "comma before two digits"),
        (f"{a} : {b}", "ratio"), (f"{a}/0", "division by zero"),
    ))  # fmt: skip


def boxed(rng: random.Random, value: str) -> str:
    """Return a value in a box, in one of the nestings that are seen."""
    wrapped = rng.choice((
        "\\boxed{V}", "$\\boxed{V}$", "\\(\\boxed{V}\\)", "\\[\n\\boxed{V}\n\\]", "$$\\boxed{V}$$",
        "\\boxed{ V }", "\\boxed{\\boxed{V}}", "**\\boxed{V}**", "\\fbox{V}", "boxed{V}",
        "\\boxed{V}.", "\\boxed{\nV\n}",
    ))  # fmt: skip
    return wrapped.replace("V", value)


def marked(rng: random.Random, value: str) -> tuple[str, str]:
    """Return a value in markup, and what the markup is called."""
    box = boxed(rng, value)
    return rng.choice((
        (f"So the total is {box}", "box"),
        (f"{box} dollars for the 3 of them.", "box, words after it"),
        (f"The final answer is {box}", "box in a statement"),
        (f"<answer>\n{box}\n</answer>", "box in a tag"), (f"<answer>{value}</answer>", "tag"),
        (f"<answer>\n{value}\n</answer>", "tag on lines"),
        (f"<Answer> {value} </Answer>", "tag in capitals"),
        (f"<answer>\n{box}", "box in a tag that stays open"),
        (f"<answer>\nIn 4 weeks she needs {box} in all.\n</answer>", "sentence in a tag"),
        (f"<answer>\n\\boxed{{{value}\n</answer>", "box that stays open in a tag"),
        (f"<answer>{value}</answer>\n\\boxed{{}}", "tag, then an empty box"),
        (f"\\boxed{{6}} is not all of it.\n{box}", "two boxes apart"),
    ))  # fmt: skip


def hashed(rng: random.Random, value: str, unit: str) -> tuple[str, str]:
    """Return a value after hashes; longer words may follow it."""
    long = rng.choice(LONG)
    return rng.choice(
        (
            (f"#### {value}{unit}", "hashes"),
            (f"####{value}{unit}", "hashes without a blank"),
            (f"#### **{value}{unit}**", "hashes, bold"),
            (f"#### {value}{unit}.", "hashes and a point"),
            (f"So Claire will eat #### {value}{long}", "hashes in a sentence"),
            (f"#### {value}{long}", "hashes and a sentence"),
        )
    )


def stated(rng: random.Random, value: str, unit: str) -> tuple[str, str]:
    """Return a statement of a value."""
    cue = rng.choice(
        (
            "The answer is ",
            "The final answer is: ",
            "Answer: ",
            "**Answer:** ",
            "**Final Answer:** ",
            "Final Answer: ",
            "So the answer would be ",
            "The answer should be ",
            "The correct answer is therefore ",
            "answer = ",
            "The answer to the question is ",
            "Therefore, the final answer, in this case, is ",
            "### Answer\nThe answer is ",
            "THE ANSWER IS ",
            "Final answer:\n",
            "The answer must be ",
            "The answer is about ",
        )
    )
    end = rng.choice((
        ".", "", "!", ", since 3 * 4 = 12.", " because there are 2 of them.", " (not 13).",
        ", which is 2 more than before.", ". That took 3 steps.", ".\n\n", ", as 9 were left.",
    ))  # fmt: skip
    bold = rng.choice(("", "", "**", "" if unit or "$" in value else "$", "\\("))
    closing = {"\\(": "\\)"}.get(bold, bold)
    return f"{cue}{bold}{value}{closing}{unit}{end}", f"statement {cue.strip()}, {end.strip()}"


def derived(rng: random.Random) -> tuple[str, str, str]:
    """Return a statement that works out its value, the value, and what it is called."""
    a, b = rng.randint(2, 30) * 10, rng.randint(2, 9)
    return rng.choice(
        (
            (f"The answer is {b}0% of {a}, which is {a * b // 10}.", str(a * b // 10), "which is"),
            (f"The answer is {a} + {b}, which equals {a + b}.", str(a + b), "which equals"),
            (f"The answer is {a} * {b} = {a * b}.", str(a * b), "product"),
            (f"Answer: {a} - {b} = {a - b} dollars", str(a - b), "difference"),
            (f"The answer is half of {a}, which is {a // 2}.", str(a // 2), "half of"),
            (f"The answer is {a}, which is {b} times as much.", str(a), "which is, after a value"),
            (f"The answer is $\\frac{{{a * b}}}{{{b}}} = {a}$.", str(a), "formula worked out"),
            (f"The answer is that Ann has {a} eggs left.", str(a), "that"),
            (f"The answer is negative {b}.", str(-b), "negative in words"),
        )
    )


def spoilt(rng: random.Random) -> tuple[str, str]:
    """Return markup of which no whole value can be read."""
    whole = rng.randint(12, 999)
    bad, kind = unreadable(rng)
    return rng.choice(
        (
            (boxed(rng, bad), f"box of a {kind}"),
            (f"<answer>{bad}</answer>", f"tag of a {kind}"),
            (f"<answer>\n{boxed(rng, bad)}\n</answer>", f"box in a tag of a {kind}"),
            (f"#### {bad}", f"hashes and a {kind}"),
            ("\\boxed{\\text{Not possible}}", "box of words"),
            ("<answer>It cannot be told from the 3 numbers given</answer>", "refusal in a tag"),
            (f"\\boxed{{{whole}}} hours and \\boxed{{20}} minutes", "two boxes joined"),
        )
    )


def vague(rng: random.Random) -> tuple[str, str]:
    """Return a statement of which no whole value can be read."""
    whole = rng.randint(12, 999)
    bad, kind = unreadable(rng)
    return rng.choice((
        (f"The answer is {bad}.", f"statement of a {kind}"),
        (f"Answer: {bad}", f"statement of a {kind}"),
        (f"The answer is {whole} or {whole}1.", "two values stated"),
        (f"The answer is not {whole}.", "negation"), (f"The answer is more than {whole}.", "bound"),
        (f"The answer is between {whole} and {whole}9.", "between"),
        (f"The answer is 20% of {whole}.", "share of another number"),
    ))  # fmt: skip


def cut(rng: random.Random) -> tuple[str, str]:
    """Return the end of a text that stops within its value."""
    whole = rng.randint(12, 999)
    return rng.choice(
        (
            (f"So she has \\boxed{{{whole}", "box cut off"),
            (f"<answer>\n\\boxed{{{whole},", "box in a tag cut off"),
            ("<answer>\n\\boxed{\\frac{3}{", "fraction cut off"),
            (f"The total is \\(\\boxed{{{whole} \\text{{ dol", "unit cut off"),
        )
    )


def draw_number(rng: random.Random) -> Item:
    """Return one answer to a word problem."""
    preface, after, way = rng.choice(PREFACES), rng.choice(AFTER), rng.random()
    early = preface if preface in STATED else ""
    if way < 0.06:
        text, kind = spoilt(rng)
        return Item(form=kind, text=preface + text + after, truth=None)
    if way < 0.1:
        text, kind = vague(rng)
        return Item(form=kind, text=rng.choice(PLAIN) + text + after, truth=None)
    if way < 0.13:
        text, kind = cut(rng)
        return Item(form=kind, text=preface + text, truth=None)
    if way < 0.22:
        text, truth, kind = derived(rng)
        return Item(form=kind, text=early + text + after, truth=truth)
    if way < 0.3:
        return concluded(rng)
    return written(rng, preface, after)


def concluded(rng: random.Random) -> Item:
    """Return an answer without any marker, whose last sentence has the value."""
    value, number, kind = plain(rng)
    unit = rng.choice(WORDY if kind != "million" else ("", " dollars"))
    close = rng.choice((
        f"Therefore, she has {value}{unit}.", f"So there are {value}{unit}",
        f"Total = 3 + 4 = {value}{unit}.\n", f"That makes **{value}**{unit}.",
        f"So the total comes to ${value}$",
    ))  # fmt: skip
    return Item(form=f"{kind} at the end", text=rng.choice(PLAIN) + close, truth=str(number))


def written(rng: random.Random, preface: str, after: str) -> Item:
    """Return an answer with its value in markup, after hashes or in a statement."""
    with_unit = rng.random() < 0.6
    value, number, kind = plain(rng) if with_unit else finished(rng)
    unit = rng.choice(UNITS if with_unit else ("",))
    unit = "" if kind == "million" and unit in ("kg", "%", "\\%") else unit
    spoken = unit if unit in WORDY else ""
    way = rng.random()
    if way < 0.5:
        text, where = marked(rng, value + unit)
    elif way < 0.72:
        text, where = hashed(rng, value, spoken)
    else:
        text, where = stated(rng, value, spoken)
        preface = preface if preface in STATED else ""
    return Item(form=f"{where}: {kind}{unit}", text=preface + text + after, truth=str(number))
