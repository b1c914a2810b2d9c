"""The final formula of a text: where it stands, and that it is whole."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remask.tasks.public.formula import find_expression
from remask.tasks.public.latex import normalise

TEXTS = st.one_of(
    st.text(max_size=300),
    st.text(
        alphabet="\\{}$()[],;.=^_ 0123frac sqrtboxedleftrightcuptextpi<>answer/#\n", max_size=300
    ),
)


@pytest.mark.parametrize(
    ("text", "answer", "tier"),
    [
        (r"First $\boxed{1}$, no: $\boxed{x^2}$, that is 9.", "x^2", 1),
        ("<answer> 3/4 </answer> or 5", "3/4", 1),
        ("It makes 3.\n#### 12", "12", 1),
        (r"The answer is $\frac{3}{4}$. It took 5 steps.", r"\frac{3}{4}", 2),
        ("The final answer is 3.5.", "3.5", 2),
        ("Answer: (3, 4)", "(3, 4)", 2),
        ("The answer is therefore 12 apples.", "12", 2),
        (r"We get $a = 2$ and then $a + b = 7$.", "a + b = 7", 3),
        (r"It is \(x+1\)", "x+1", 3),
        ("It costs 3 and then 8 dollars", "8", 3),
        ("nothing at all", None, None),
    ],
)
def test_the_final_answer_is_found_by_tiers(
    text: str, answer: str | None, tier: int | None
) -> None:
    found = find_expression(text)
    assert (found.answer, found.tier) == (answer, tier)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"<answer>\boxed{2}</answer>", "2"),
        (r"<answer>\(\boxed{2516_9}\)</answer>", "2516_9"),
        (r"\boxed{-2} \text{ and } \boxed{1}", "-2, 1"),
        (r"$\boxed{3}$ or $\boxed{3}$", "3"),
        ("Final Answer: The largest $n$ is 34.", "34"),
        (r"The answer is $\$36$.", r"\$36"),
        (r"The answer would be \(x + 1\).", "x + 1"),
        (r"Therefore, the value of $b$ is $\frac{1}{2}$.", r"\frac{1}{2}"),
        ("The answer is 20% of 50, which is 10.", "10"),
        (r"The answer is $7$, which is $2$ more than $5$.", "7"),
        (r"The answer is 7, since $2 + 5 = 7$.", "7"),
        (r"\boxed{1 + \boxed{7}}", "7"),
        (r"The answer is $3$ but \boxed{5", None),
        (r"So $x = 3$. \boxed{}", None),
        (r"The answer is $\frac{3}{", None),
        ("#### 3. Ways to see it\nThe answer is $x$.", "x"),
        ("The answer is Evelyn.", "Evelyn"),
        ("The answer is one that nobody could have guessed.", None),
    ],
)
def test_a_formula_is_read_whole_or_not_at_all(text: str, answer: str | None) -> None:
    assert find_expression(text).answer == answer


@given(TEXTS)
@example("\\boxed{" * 200)
@example("$" * 999)
@example("answer is " * 500)
@example("\\(" * 500)
@example("answer is $" * 200)
def test_no_text_makes_the_search_raise(text: str) -> None:
    read = find_expression(text)
    assert (read.answer is None) == (read.tier is None)


@given(TEXTS, st.sampled_from(["", " ", "\n", "\n\n  "]))
def test_blanks_at_the_end_do_not_count(text: str, blanks: str) -> None:
    whole = text.rstrip() + "\n"  # an open box ends with its line, so there must be an end
    assert find_expression(whole).answer == find_expression(whole + blanks).answer


@given(
    st.sampled_from(["3", r"\frac{1}{2}", "x^2+1", "(3,4)", r"\text{odd}", r"7\sqrt{2}", "52_8"])
)
def test_what_stands_around_a_box_does_not_count(value: str) -> None:
    around = (
        "{}",
        "${}$",
        r"\({}\)",
        "\\[\n{}\n\\]",
        "**{}**",
        "<answer>{}</answer>",
        "{}.",
        r"\fbox{{{}}}",
    )
    read = {
        find_expression(f"So it is {a.format(f'{chr(92)}boxed{{{value}}}')}").answer for a in around
    }
    assert {normalise(answer or "") for answer in read} == {normalise(value)}
