r"""Answers that are a formula, as to MATH.

The truth is the answer in the spelling of the benchmark's own solutions; `others` are answers that
look like it and are different: another base, an open interval for a closed one, too few digits.
Unreadable is little here: what is cut off, and what says nothing.
"""

import random
from fractions import Fraction
from math import gcd

from grammar.item import Item

PLAIN = (
    "",
    "Let $n$ be the number of ways. We have $n^2 = 49$, so $n = 7$.\n",
    "By the formula, \\[ a_k = \\frac{k(k+1)}{2}, \\] and $a_4 = 10$.\n\n",
    "Using \\(f(x) = 2x + 3\\), we get \\(f(5) = 13\\).\n",
    "**Step 1:** Expand:\n\\begin{align*}\n(x+1)^2 &= x^2 + 2x + 1.\n\\end{align*}\n",
    "<reasoning>\nThe sum is $1 + 2 + 3 = 6$.\n</reasoning>\n",
    "In base ten it is 12 and in base eight 14_8.\n",
)
BOXED = "Half of the sum is $\\boxed{3}$, and we go on.\n"
AFTER = ("", "", "\n", ".", "\n\nI hope it is correct.", " This took 3 steps.", "\n</answer>")

Value = tuple[str, tuple[str, ...], tuple[str, ...]]  # gold, spellings, others


def rational(rng: random.Random) -> Value:
    top, bottom = rng.randint(1, 30), rng.choice((2, 3, 4, 5, 7, 8, 9, 12))
    while gcd(top, bottom) > 1:
        top += 1
    gold = f"\\frac{{{top}}}{{{bottom}}}"
    value = Fraction(top, bottom)
    digits = f"{float(value):.12f}"
    spellings = [
        gold, f"\\dfrac{{{top}}}{{{bottom}}}", f"{top}/{bottom}", f"\\tfrac{{{top}}}{{{bottom}}}",
        f"\\frac{{{2 * top}}}{{{2 * bottom}}}", digits, f"x = {gold}",
        f"\\frac{{ {top} }}{{ {bottom} }}",
    ]  # fmt: skip
    if top > bottom:
        whole, rest = divmod(top, bottom)
        spellings += [f"{whole}\\frac{{{rest}}}{{{bottom}}}", f"{whole} \\frac{rest}{{{bottom}}}"]
    others = [f"\\frac{{{bottom}}}{{{top}}}", f"-{gold}", f"{float(value) + 0.01:.4f}"]
    if bottom in (3, 7, 9, 12):
        others.append(f"{float(value):.3f}")
    return gold, tuple(spellings), tuple(others)


def integer(rng: random.Random) -> Value:
    n = rng.choice((rng.randint(2, 99), rng.randint(1000, 999_999)))
    gold = str(n)
    spellings = (
        gold, f"{n:,}", f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", ",\\!"),
        f"{n:,}".replace(",", "\\,"), f"{n}.0", f"n = {n}", f"{n} \\text{{ ways}}", f"\\$ {n}",
        f"\\${n}", f"{n}\\%", f"{n}^\\circ", f"{n}^{{\\circ}}", f"{n}°", f"{n}\\text{{ cm}}^2",
        f"{n - 1} + 1 = {n}", f"\\textbf{{{n}}}", f"{n} \\mbox{{ units}}", f"{{{n}}}",
        f"\\frac{{{3 * n}}}{{3}}", f"{n} units",
    )  # fmt: skip
    return gold, spellings, (str(n + 1), f"-{n}", f"{n}0", f"{n}x")


def powers(rng: random.Random) -> Value:
    k, d = rng.randint(2, 6), rng.randint(1, 9)
    gold = str(Fraction(d * 10 + 5, 10) * 10**k)
    spelled = (f"{d}.5 \\times 10^{k}", f"{d}.5 \\times 10^{{{k}}}", f"{d}.5 \\cdot 10^{k}", gold)
    return gold, spelled, (f"{d}.5", f"10^{k}", f"{d}.5 \\times 10^{k + 1}")


def based(rng: random.Random) -> Value:
    digits = "".join(rng.choice("1234567") for _ in range(rng.randint(2, 5)))
    spelled = (f"{digits}_8", f"{digits}_{{8}}", f"{digits}_{{\\text{{8}}}}", f"{digits}_{{ 8 }}")
    return f"{digits}_8", spelled, (f"{digits}_9", f"{digits}_{{5}}", f"{digits}1_8")


def rooted(rng: random.Random) -> Value:
    a, b = rng.randint(2, 9), rng.choice((2, 3, 5, 6, 7))
    gold = f"{a}\\sqrt{{{b}}}"
    spelled = (
        gold, f"{a} \\sqrt{{{b}}}", f"{a}\\sqrt {b}", f"\\sqrt{{{a * a * b}}}",
        f"{a} \\cdot \\sqrt{{{b}}}", f"{a * b**0.5:.10f}", f"x = {gold}",
    )  # fmt: skip
    return (
        gold,
        spelled,
        (f"{a}\\sqrt{{{b + 8}}}", f"{a}", f"{a + 1}\\sqrt{{{b}}}", f"{a * b**0.5:.2f}"),
    )


def circular(rng: random.Random) -> Value:
    a = rng.randint(2, 40)
    spelled = (
        f"{a}\\pi", f"{a} \\pi", f"{a}π", f"{a}\\pi \\text{{ cm}}^2", f"{a} \\cdot \\pi",
        f"A = {a}\\pi", f"{a}\\pi \\text{{ square units}}",
    )  # fmt: skip
    return f"{a}\\pi", spelled, (str(a), f"{a}\\pi^2", f"{a + 1}\\pi")


def pair(rng: random.Random) -> Value:
    a, b = rng.sample(range(-9, 10), 2)
    spelled = (
        f"({a}, {b})",
        f"({a},{b})",
        f"\\left({a}, {b}\\right)",
        f"\\left( {a} , {b} \\right)",
        f"(x, y) = ({a}, {b})",
    )
    return f"({a},{b})", spelled, (f"({b},{a})", f"[{a},{b}]", f"({a},{b},0)")


def interval(rng: random.Random) -> Value:
    a = rng.randint(-9, 9)
    b = a + rng.randint(1, 9)
    spelled = (f"[{a}, {b})", f"[{a},{b})", f"\\left[{a}, {b}\\right)", f"x \\in [{a}, {b})")
    return f"[{a},{b})", spelled, (f"({a},{b})", f"[{a},{b}]", f"[{a},{b + 1})")


def several(rng: random.Random) -> Value:
    a, b = rng.sample(range(-9, 10), 2)
    spelled = (
        f"{a}, {b}", f"{b}, {a}", f"{a},{b}", f"{a} \\text{{ and }} {b}", f"{b} \\text{{ or }} {a}",
        f"{b}, \\, {a}",
    )  # fmt: skip
    return f"{a},{b}", spelled, (str(a), f"{a},{b},20", f"{a},{b + 20}")


def listed(rng: random.Random) -> Value:
    a, b, c = rng.sample(range(-9, 10), 3)
    spelled = (
        f"\\{{{a}, {b}, {c}\\}}",
        f"\\left\\{{{c}, {a}, {b}\\right\\}}",
        f"\\{{{b},{a},{c}\\}}",
    )
    return f"\\{{{a},{b},{c}\\}}", spelled, (f"({a},{b},{c})", f"\\{{{a},{b}\\}}")


def polynomial(rng: random.Random) -> Value:
    a, b, c = rng.randint(2, 9), rng.randint(2, 9), rng.randint(1, 9)
    gold = f"{a}x^2+{b}x-{c}"
    spelled = (
        gold,
        f"{a}x^2 + {b}x - {c}",
        f"{a}x^{{2}} + {b}x - {c}",
        f"-{c} + {b}x + {a}x^2",
        f"p(x) = {a}x^2 + {b}x - {c}",
    )
    return gold, spelled, (f"{a}x^2+{b}x+{c}", f"{a}x^2", f"{b}x^2+{a}x-{c + 1}")


def worded(rng: random.Random) -> Value:
    name, other = rng.sample(("Evelyn", "Navin", "Carla", "Tuesday", "hyperbola", "even", "odd"), 2)
    spelled = (
        f"\\text{{{name}}}",
        f"\\text{{ {name} }}",
        name,
        f"\\textbf{{{name}}}",
        f"\\mathrm{{{name}}}",
    )
    return f"\\text{{{name}}}", spelled, (f"\\text{{{other}}}", "7")


def option(rng: random.Random) -> Value:
    one, other = rng.sample("ABCDE", 2)
    spelled = (f"\\text{{({one})}}", f"\\textbf{{({one})}}", f"({one})", one, f"\\text{{{one}}}")
    return f"\\text{{({one})}}", spelled, (f"\\text{{({other})}}", "3")


def vector(rng: random.Random) -> Value:
    a, b, c = rng.randint(-9, 9), rng.randint(-9, 9), rng.randint(2, 9)
    gold = f"\\begin{{pmatrix}} {a} \\\\ {b} \\\\ \\frac{{1}}{{{c}}} \\end{{pmatrix}}"
    tight = f"\\begin{{pmatrix}}{a}\\\\{b}\\\\\\frac{{1}}{{{c}}}\\end{{pmatrix}}"
    wrong = f"\\begin{{pmatrix}} {a} \\\\ {b + 1} \\\\ \\frac{{1}}{{{c}}} \\end{{pmatrix}}"
    return gold, (gold, tight), (wrong,)


def complexes(rng: random.Random) -> Value:
    a, b = rng.randint(1, 9), rng.randint(2, 9)
    return f"{a}-{b}i", (f"{a} - {b}i", f"{a}-{b}i", f"-{b}i + {a}"), (f"{a}+{b}i", str(a))


KINDS = (
    rational, rational, integer, integer, integer, powers, based, rooted, circular, pair, interval,
    several, listed, polynomial, worded, option, vector, complexes,
)  # fmt: skip
UNBOXED = (rational, integer, based, rooted, circular, pair, interval, listed, polynomial)


def boxed(rng: random.Random, value: str) -> tuple[str, str]:
    """Return a formula in a box, in one of the nestings that are seen."""
    shape = rng.choice((
        "\\boxed{V}", "$\\boxed{V}$", "\\(\\boxed{V}\\)", "\\[\n\\boxed{V}\n\\]", "$$\\boxed{V}$$",
        "Thus, the value is $\\boxed{V}$.", "The final answer is $\\boxed{V}$.", "\\boxed{ V }",
        "<answer>\n\\boxed{V}\n</answer>", "<answer>\\boxed{V}</answer>",
        "<answer>\n\\[ \\boxed{V} \\]\n</answer>",
        "<answer>\nThe speed is \\boxed{V} inches per second.\n</answer>", "\\boxed{\\boxed{V}}",
        "<answer>\n\\boxed{V}", "\\fbox{V}", "**Final Answer:** $\\boxed{V}$", "= \\boxed{V}$",
        "<answer>V</answer>", "<answer>\nV\n</answer>", "<answer>$V$</answer>",
        "<answer>\\(V\\)</answer>", "\\boxed{V} units", "\\boxed{V}\n\\boxed{}",
        "\\boxed{V}$ and so $\\boxed{V}$",
    ))  # fmt: skip
    return shape.replace("V", value), shape


def stated(rng: random.Random, value: str) -> tuple[str, str]:
    """Return a formula in a statement or in the last sentence."""
    shape = rng.choice((
        "The answer is $V$.", "The final answer is $V$. I hope it is correct.", "Answer: $V$",
        "Final Answer: The largest $n$ is $V$.", "The answer is: \\(V\\).",
        "The answer is \\[ V. \\]", "The answer would be $V$.",
        "**Final Answer**\n\nThe answer is $V$.", "The answer should be \\(V\\)",
        "Therefore, the value of $x$ is $V$.", "Final Answer: the value of \\(b\\) is \\(V\\).",
        "So the area equals $V$.", "The answer is **$V$**.",
        "The final answer is thus $V$ in all cases.",
    ))  # fmt: skip
    return shape.replace("V", value), shape


def numeral(rng: random.Random) -> Item:
    """Return an answer whose value is a plain number in a sentence."""
    n = rng.randint(2, 9999)
    shape, value = rng.choice(
        (
            ("Final Answer: The largest $n$ is V.", str(n)),
            ("The answer is $\\$V$.", f"{n:,}"),
            ("The answer is V.", str(n)),
            ("Answer: V", f"{n:,}"),
            ("Therefore, the value of $b$ is V.", str(n)),
            ("Final Answer: the number of such $k$ is V.", str(n)),
            ("The answer is V dollars.", str(n)),
            ("The answer is 20% of 50, which is V.", str(n)),
            ("The answer would be V.", f"-{n}"),
            ("The answer is V, since $2 \\cdot 3 = 6$.", str(n)),
            ("#### V", f"{n:,}"),
        )
    )
    text = rng.choice(PLAIN) + shape.replace("V", value)
    return Item(form=shape, text=text, truth=value.replace(",", ""), others=(str(n + 1), f"{n}x"))


def joined(rng: random.Random) -> Item:
    """Return a list of which each item has a box of its own."""
    a, b = rng.sample(range(-9, 10), 2)
    shape = rng.choice((
        "\\boxed{A} \\text{ and } \\boxed{B}", "$\\boxed{A}$ and $\\boxed{B}$",
        "$\\boxed{A}, \\boxed{B}$", "\\(\\boxed{A}\\) or \\(\\boxed{B}\\)",
        "x = \\boxed{A}, \\quad \\boxed{B}",
    ))  # fmt: skip
    text = (
        "The roots are " + shape.replace("A", str(b)).replace("B", str(a)) + rng.choice((".", ""))
    )
    return Item(
        form=shape, text=rng.choice(PLAIN) + text, truth=f"{a},{b}", others=(str(a), str(b))
    )


def unreadable(rng: random.Random) -> Item:
    """Return an answer that is cut off, or says nothing."""
    text, form = rng.choice((
        ("So the value is $\\boxed{\\frac{1}{", "box cut off"),
        (f"Thus it is \\boxed{{{rng.randint(10, 99)}", "number cut off"),
        ("<answer>\n\\boxed{x^2 + ", "box in a tag cut off"), ("\\boxed{}", "empty box"),
        ("<answer>\n\\boxed{...}\n</answer>", "box of points"),
        ("<answer>\n\n</answer>", "empty tag"), ("The answer is $\\frac{3}{", "formula cut off"),
    ))  # fmt: skip
    return Item(form=form, text=rng.choice(PLAIN) + text, truth=None)


def draw_formula(rng: random.Random) -> Item:
    """Return one answer to a competition problem."""
    way = rng.random()
    if way < 0.06:
        return unreadable(rng)
    if way < 0.14:
        return joined(rng)
    if way < 0.24:
        return numeral(rng)
    preface, after = rng.choice((*PLAIN, BOXED)), rng.choice(AFTER)
    if way < 0.75:
        gold, spellings, others = rng.choice(KINDS)(rng)
        value = rng.choice(spellings)
        text, form = boxed(rng, value)
    else:
        gold, spellings, others = rng.choice(UNBOXED)(rng)
        value = rng.choice([s for s in spellings if "$" not in s and "=" not in s])
        text, form = stated(rng, value)
        preface, after = preface if preface != BOXED else "", ""
    if form.startswith(("<answer>V", "<answer>\nV", "<answer>$V", "<answer>\\(V")) and "$" in value:
        return draw_formula(rng)
    return Item(
        form=f"{form}: {value}",
        text=preface + text + after,
        truth=gold,
        others=(rng.choice(others),),
    )
