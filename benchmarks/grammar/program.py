"""Answers that are a program, as to MBPP and HumanEval.

The truth is the source of the function that was asked for. It comes in fences of every state,
between marks, bare, with prose around it; other fences hold examples or other functions. Unreadable
is what holds no such function, or only the beginning of one.
"""

import random

from grammar.item import Item

# name, arguments, body (a line that ends in a colon opens a block)
FUNCTIONS = (
    ("add_one", "x", "    return x + 1\n"),
    (
        "count_odd",
        "numbers",
        "    total = 0\n    for n in numbers:\n        if n % 2:\n            total += 1\n"
        "    return total\n",
    ),
    ("longest", "words", "    return max(words, key=len) if words else ''\n"),
    ("flatten", "rows", "    return [x for row in rows for x in row]\n"),
    ("is_even", "n", "    if n % 2 == 0:\n        return True\n    else:\n        return False\n"),
    ("hyphen_text", "s", "    import re\n    return re.sub(r'\\s+', '-', s)\n"),
    (
        "fib",
        "n",
        "    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n",
    ),
    (
        "clip",
        "x, low=0, high=9",
        "    # between the two\n    x = max(low, x)\n\n    return min(x, high)\n",
    ),
)
PROSE = (
    "Here is the function you asked for:\n",
    "Sure! To solve this, we go through the list once.\n\n",
    "**Solution**\n\n1. Read the input.\n2. Return the result.\n\n",
)
CLOSING = (
    "\nThis function returns the result in linear time.\n",
    "\nExplanation:\n- It goes through the input once.\n- It's easy to read.\n",
    "\n\n### Note\nYou can call it as shown above.",
    "\nThe idea: nothing is stored, so it's O(1).",
)
USAGE = "```\n>>> result\n3\n```\n"
OTHER = "```python\ndef helper_sort(items):\n    return sorted(items)\n```\n"
FIRST = "```python\ndef NAME(*values):\n    raise NotImplementedError\n```\n"


def drawn(rng: random.Random) -> tuple[str, str, str]:
    """Return a name, the head of its function and the body."""
    name, arguments, body = rng.choice(FUNCTIONS)
    return name, f"def {name}({arguments}):\n", body


def fenced(rng: random.Random, code: str, name: str) -> tuple[str, str]:
    """Return a program in fences, whole or not, among others or alone."""
    opening = rng.choice(("```python\n", "```py\n", "```\n", "```Python\n", "~~~python\n"))
    close = "~~~" if opening.startswith("~") else "```"
    whole = f"{opening}{code}{close}\n"
    before, after = rng.choice(PROSE), rng.choice(CLOSING)
    return rng.choice(
        (
            (whole, "fence"),
            (before + whole + after, "fence in prose"),
            (opening + code, "fence that stays open"),
            (before + opening + code, "fence that stays open after prose"),
            (code + close, "closing fence alone"),
            (code + close + after, "closing fence, then prose"),
            (before + whole + "\nFor example:\n" + USAGE + after, "fence, then an example"),
            (USAGE + before + whole, "an example, then the fence"),
            (OTHER + "That sorts. Now:\n" + whole, "another function first"),
            (whole + "A helper you may like:\n" + OTHER, "another function after it"),
            (
                FIRST.replace("NAME", name) + "That is only a stub. Complete:\n" + whole,
                "a stub first",
            ),
            (f"{before}{whole}Output:\n```\n3\n", "fence, then one that is cut off"),
            (f"{opening}{code}{close}\n\n{opening}assert {name}", "fence, then tests cut off"),
        )
    )


def bare(rng: random.Random, code: str, name: str) -> tuple[str, str]:
    """Return a program without fences."""
    before, after = rng.choice(PROSE), rng.choice(CLOSING)
    return rng.choice(
        (
            (code, "alone"),
            (before + code, "after prose"),
            (code + after, "before prose"),
            (before + code + after, "in prose"),
            (f"[BEGIN]\n{code}[DONE]\n", "marks"),
            (f"[BEGIN]\n{code}[DONE]\n{after}", "marks, then prose"),
            (f"[BEGIN]\n{code}", "mark that stays open"),
            (f"{code}\n# Example\nprint({name})\n", "with a call"),
            (f"import math\nfrom typing import List\n\n{code}", "with imports"),
            (f"{code}[DONE]\n", "closing mark alone"),
        )
    )


def no_program(rng: random.Random, head: str, body: str, name: str) -> tuple[str, str]:
    """Return an answer without the whole function."""
    cut = head + body.splitlines()[0][: rng.randint(6, 9)] + "(("
    return rng.choice((
        ("I would go through the list and count.", "prose alone"), ("", "nothing"),
        ("```python\n" + head, "head alone, cut off"), ("```python\n" + cut, "cut off in a line"),
        (f"```python\n{head.replace(name, name + '_two')}{body}```", "another name"),
        ("```\n```", "empty fence"), (OTHER, "another function"),
    ))  # fmt: skip


def draw_program(rng: random.Random) -> Item:
    """Return one answer to a description of a function, as of MBPP."""
    name, head, body = drawn(rng)
    facts = {"name": name, "tests": [f"assert {name}(1) == 2", f"assert {name}(2) == 3"]}
    way = rng.random()
    if way < 0.12:
        text, form = no_program(rng, head, body, name)
        return Item(form=form, text=text, truth=None, facts=facts)
    code = head + body
    if rng.random() < 0.3:
        code = f'{head}    """Return the result.\n\n    It is what was asked for.\n    """\n{body}'
    text, form = (fenced if way < 0.65 else bare)(rng, code, name)
    return Item(form=form, text=text, truth=code, facts=facts)


def draw_body(rng: random.Random) -> Item:
    """Return one answer to the beginning of a function, as of HumanEval."""
    name, head, body = drawn(rng)
    doc = '    """ Return the result.\n    >>> 1\n    """\n'
    prompt = f"from typing import List\n\n\n{head}{doc}"
    facts = {"name": name, "prompt": prompt}
    way, whole = rng.random(), head + doc + body
    if way < 0.1:
        text, form = no_program(rng, head, body, name)
        cut = "another" not in form
        return Item(form=form, text=text if cut else OTHER, truth=None, facts=facts)
    if way < 0.45:
        text, form = (fenced if way < 0.28 else bare)(rng, whole, name)
        return Item(form=f"whole function, {form}", text=text, truth=whole, facts=facts)
    flat = body.replace("\n    ", "\n").removeprefix("    ")
    after = rng.choice(CLOSING)
    text, form = rng.choice((
        (body, "body"), (body + after, "body, then prose"), (flat, "body without its indentation"),
        (body.removeprefix("    "), "body, first line without its indentation"),
        (f"```python\n{body}```", "body in a fence"), (f"{body}```\n", "body and a closing fence"),
        (f"{body}```{after}", "body, a closing fence and prose"),
        (f"{body}\n\ndef other():\n    return 1\n", "body, then another function"),
        (f"{body}\nprint({name}(1))\n", "body, then a call"),
        (f"```python\n{body}", "body in a fence that stays open"),
        (f"{body}\nif __name__ == '__main__':\n    main(", "body, then a line cut off"),
    ))  # fmt: skip
    return Item(form=form, text=text, truth=whole, facts=facts)
