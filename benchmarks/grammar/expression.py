r"""Answers that are an expression, as to countdown: given numbers, a target, each number once.

The truth is the expression in plain signs. Models box it, tag it, state it, write it in LaTeX, add
what it makes, and try others before; and now and then they give no expression at all.
"""

import random

from grammar.item import Item

BEFORE = (
    "",
    "We need to reach the target. Let's start with the largest number.\n",
    "- {a} + {b} = {ab}, which is too large.\n- {a} - {c} does not help either.\n",
    "\\[ {a} \\times {c} = {ac} \\]\nThis is not it. Let's try another approach.\n",
    "<reasoning>\nWe can try {a} + {b} - {c}. It does not work.\n</reasoning>\n",
    "First {b}+{c}={bc}. Then we go on.\n",
)
AFTER = ("", "", "\n", " ", "\n</answer>", "\n\nI hope this helps!")


def draw_expression(rng: random.Random) -> Item:
    """Return one answer to a countdown puzzle."""
    a, b, c = (rng.randint(1, 99) for _ in range(3))
    facts = {"numbers": (a, b, c)}
    before = rng.choice(BEFORE).format(a=a, b=b, c=c, ab=a + b, ac=a * c, bc=b + c)
    way = rng.random()
    if way < 0.15:
        text, form = no_expression(rng, a, b, c)
        return Item(form=form, text=before + text, truth=None, facts=facts)
    truth = made(rng, a, b, c)
    spelling = (
        latex(rng, truth) if rng.random() < 0.45 else truth.replace(" ", rng.choice(("", " ")))
    )
    if rng.random() < 0.25:
        spelling = rng.choice((f"{spelling} = {a + 7}", f"{a + 7} = {spelling}"))
    text, form = marked(rng, spelling) if way < 0.65 else stated(rng, spelling)
    text = before + text + rng.choice(AFTER if "<answer>" not in text else AFTER[:3])
    return Item(form=form, text=text, truth=truth, facts=facts)


def made(rng: random.Random, a: int, b: int, c: int) -> str:
    """Return an expression of the numbers in plain signs."""
    p, q = rng.choice("+-*/"), rng.choice("+-*/")
    x, y, z = rng.sample((a, b, c), 3)
    return rng.choice((
        f"{x} {p} {y} {q} {z}", f"({x} {p} {y}) {q} {z}", f"{x} {p} ({y} {q} {z})", f"{x} {p} {y}",
        f"(({x} {p} {y}) {q} {z})",
    ))  # fmt: skip


def latex(rng: random.Random, plain: str) -> str:
    """Return the expression in other signs."""
    times = rng.choice((" \\times ", " × ", " \\cdot ", "\\times "))
    over = rng.choice((" \\div ", " ÷ ", " / "))
    text = plain.replace(" * ", times).replace(" / ", over)
    if rng.random() < 0.3:
        text = text.replace("(", "\\left(").replace(")", "\\right)")
    return text.replace(" - ", rng.choice((" - ", " − ")))


def marked(rng: random.Random, value: str) -> tuple[str, str]:
    """Return an expression in markup, and what the markup is called."""
    return rng.choice(
        (
            (f"<answer>\n\\boxed{{{value}}}\n</answer>", "box in a tag"),
            (f"<answer>{value}</answer>", "tag"),
            (f"<answer>\n{value}\n</answer>", "tag on lines"),
            (f"\\boxed{{{value}}}", "box"),
            (f"So the expression is:\n\\[ \\boxed{{{value}}} \\]", "box in a display"),
            (f"The answer is $\\boxed{{{value}}}$.", "box in a statement"),
            (f"<answer>\n\\boxed{{{value}}}", "box in a tag that stays open"),
            (f"<answer>\n\\boxed{{{value}\n</answer>", "box that stays open in a tag"),
            (f"<answer>\n\\(\\boxed{{ {value} }}\\)\n</answer>", "box in brackets in a tag"),
            (f"#### {value}", "hashes"),
        )
    )


def stated(rng: random.Random, value: str) -> tuple[str, str]:
    """Return an expression in a statement, or at the end."""
    cue = rng.choice((
        "The answer is ", "Answer: ", "So the answer is ", "Therefore the answer is ",
        "The final answer is: ", "**Answer:** ", "The answer would be ", "Final answer: ",
    ))  # fmt: skip
    around = rng.choice(("{}", "{}", "${}$", "\\({}\\)", "**{}**", "`{}`"))
    end = rng.choice((".", "", "\n", ", which uses each number once."))
    return cue + around.replace("{}", value) + end, f"statement {cue.strip()} {around}"


def no_expression(rng: random.Random, a: int, b: int, c: int) -> tuple[str, str]:
    """Return an ending that holds no whole expression."""
    return rng.choice((
        ("<answer>\n\\boxed{...}\n</answer>", "box of points"), ("\\boxed{}", "empty box"),
        ("The answer is unknown.", "refusal"), (f"\\boxed{{{a} + {b} -", "box cut off"),
        (f"<answer>{a} + ({b} - {c}</answer>", "open bracket"),
        (f"The answer is {a} + {b} -", "operator at the end"),
        (f"<answer>{a} ? {b} + {c}</answer>", "unknown sign"),
        ("<answer>\nNo combination works.\n</answer>", "refusal in a tag"),
        (f"\\boxed{{x + {b}}}", "variable"), (f"The answer is {a} + {b}! - {c}.", "factorial"),
        (f"\\boxed{{{a}^{{2}} + {b}}}", "power"),
    ))  # fmt: skip
