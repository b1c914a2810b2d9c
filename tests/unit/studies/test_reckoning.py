"""Sums in answers, by hand and by a grammar of its own: what holds, and what is wrong by them."""

from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from studies.language.reckoning import all_hold, anew, is_wrong_by_sums, sums

WHOLE = "Each bag has 12*3=36 pens.\nBoth have 36*2=72.\n#### 72"


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (WHOLE, True),
        ("12*3=37", False),
        ("10/3=3.33", True),
        ("10/3=3.34", False),
        ("7/2=3", True),  # to the last digit that is said
        ("7/2=5", False),
        ("The scarves cost 4*34=$136.", True),
        ("$4*34 = $136", True),
        ("1,000+200=1,200", True),
        ("(2+3)*4=20 and 2+3*4=14", True),
        ("(2+3)*4=14", False),
        ("-3+5=2", True),
        ("3-5=-2", True),
        (".5*08=4", True),
        ("1/4=.25", True),
        ("4/0=4", False),
        ("2+3=5 and 2+2=5", False),
        ("He has 5. 3+4=7", True),
        ("Step 1) 3*4=13", False),
        ("- 3+4=7", True),  # a dash, no minus
        ("So -3+5=2.", True),
        ("5 -3+4=6", True),
        ("-(3+4)+9=2", True),
        ("5-(-3)=8", True),
        ("100-25=75 - so there are 75", True),
        ("10*40=$400/week, total:2*5=$10", True),
        ("3*4=12+5=18", False),  # 12+5 is not
        ("3, 4+5=8", False),
    ],
)
def test_sums_hold_or_do_not(text: str, held: bool) -> None:
    assert all_hold(text) is held


@pytest.mark.parametrize(
    "text",
    [
        "", "She has 5.", "x=5", "5=5", "3+=5", "20%*50=10", "2**3=8", "1.2.3+1=2", "#### 7",
        # On the right no number alone.
        "6/8=3/4", "2*3=4+2", "5/20=25%", "5*3=15 x 2", "6/7=90/x",
        # On the left the end of something else.
        "20%*50+3=13", "20% * 50 + 3 = 13", "x*2+3=9", "2x*5+1=11", "4^2+1=17", "X - 3*6=77",
        "8 x 1 1/2=12", "2 x 3+4=10", "1 1/2*60=90", "$100 000*10/100=$10000", "7:30+2=9",
    ],
)  # fmt: skip
def test_what_is_no_sum_is_none(text: str) -> None:
    assert sums(text) == []
    assert all_hold(text) is None


def test_an_answer_is_reckoned_from_its_first_sum_to_its_last() -> None:
    """12*3 is 36 and not 38: 38*2 then stands for 36*2, which is 72 and not 77."""
    text = "12*3=38\n38*2=77\n#### 77"
    assert anew(text, "77") == 72
    assert is_wrong_by_sums(text, "77", "72")
    assert not is_wrong_by_sums(text, "77", "76"), "38*2, were 38 right"


def test_what_was_rounded_stays_as_it_was_said() -> None:
    assert anew("10/3=3.33\n3.33*3=9.99", "9.99") == Fraction("9.99")


def test_an_answer_of_no_sum_is_what_it_says() -> None:
    assert anew("2+2=5", "9") == 9
    assert anew("2+2=5", "1,200") == 1200
    assert anew(WHOLE, "seventy") is None
    assert not is_wrong_by_sums("2+2=5", None, "4")
    assert not is_wrong_by_sums("2+2=5", "5", "four")
    assert is_wrong_by_sums("2+2=5", "5", "4.0")


NUMBERS = st.integers(0, 999)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> tuple[str, Fraction]:
    """Return the text of an expression, every part in brackets, and its value."""
    if depth == 0 or draw(st.booleans()):
        number = draw(NUMBERS)
        return str(number), Fraction(number)
    (left, a), (right, b) = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    sign = draw(st.sampled_from("+-*/"))
    assume(sign != "/" or b)
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[sign]
    return f"({left}{sign}{right})", value


def said(value: Fraction, digits: int) -> str:
    """Return a number to so many digits behind its point, rounded."""
    scaled = round(value * 10**digits)
    whole, rest = divmod(abs(scaled), 10**digits)
    sign = "-" if scaled < 0 else ""
    return f"{sign}{whole}.{rest:0{digits}d}" if digits else f"{sign}{whole}"


@given(expressions(), st.integers(0, 3), st.integers(1, 9))
@example(("(1/3)", Fraction(1, 3)), 2, 1)
@example(("(0-5)", Fraction(-5)), 0, 1)
def test_what_is_rounded_rightly_holds_and_what_is_beyond_does_not(
    expression: tuple[str, Fraction], digits: int, off: int
) -> None:
    text, value = expression
    assume(any(sign in text for sign in "+-*/"))
    right, wrong = said(value, digits), said(value + Fraction(off, 10**digits), digits)
    assume(right != wrong)  # of two halves, one rounds up and one down
    assert all_hold(f"So {text}={right} of them.") is True
    assert all_hold(f"So {text}={wrong} of them.") is False
    whole = value.denominator == 1
    if whole:
        assert is_wrong_by_sums(f"{text}={wrong}\n#### {wrong}", wrong, said(value, 0))


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all_hold(text) in (True, False, None)
    assert anew(text, "5") is not None


@given(st.text(alphabet="0123456789+-*/().,$= \n", max_size=300))
def test_any_text_of_digits_and_signs_is_read(text: str) -> None:
    assert all_hold(text) in (True, False, None)
    is_wrong_by_sums(text, "5", "4")
