"""Earlier turns in front of a prompt, in the chat templates of all families.

What is expected is written down from the families' own templates. LLaDA's trims what is said, those
of Qwen and inclusionAI do not; Qwen3's writes an empty thought into the reply it asks for, and into
no earlier one.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.denoisers import a2d, dream, llada, llada2, llada_moe
from remask.denoisers.special_ids import TokenSpelling
from remask.denoisers.tokenizer import LLADA_SYSTEM
from remask.errors import InputError
from remask.testing import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
EXAMPLES = (("One?", "1"), (" Two?\n", " 2 \n"))
PLAIN = st.text(min_size=1).filter(lambda text: "<|" not in text and text.strip() != "")


def rendered(spelling: TokenSpelling) -> str:
    tokenizer = replace(
        TOKENIZER, template=spelling.template, primer=spelling.primer, trims=spelling.trims
    )
    return tokenizer.backend.decode(tokenizer.render("Three?", EXAMPLES), skip_special_tokens=False)


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        (
            llada.FAMILY,
            "<|startoftext|>"
            "<|start_header_id|>user<|end_header_id|>\n\nOne?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n1<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nTwo?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n2<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nThree?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            dream.FAMILY,
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
            "<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n1<|im_end|>\n"
            "<|im_start|>user\n Two?\n<|im_end|>\n<|im_start|>assistant\n 2 \n<|im_end|>\n"
            "<|im_start|>user\nThree?<|im_end|>\n<|im_start|>assistant\n",
        ),
        *(
            (
                family,
                "<role>SYSTEM</role>detailed thinking off<|role_end|>"
                "<role>HUMAN</role>One?<|role_end|><role>ASSISTANT</role>1<|role_end|>"
                "<role>HUMAN</role> Two?\n<|role_end|><role>ASSISTANT</role> 2 \n<|role_end|>"
                "<role>HUMAN</role>Three?<|role_end|><role>ASSISTANT</role>",
            )
            for family in (llada_moe.FAMILY, llada2.FAMILY)
        ),
        (
            a2d.FAMILY,
            "<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n1<|im_end|>\n"
            "<|im_start|>user\n Two?\n<|im_end|>\n<|im_start|>assistant\n 2 \n<|im_end|>\n"
            "<|im_start|>user\nThree?<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
    ],
)
def test_the_head_stands_once_and_every_turn_is_closed(
    spelling: TokenSpelling, expected: str
) -> None:
    assert rendered(spelling) == expected


@given(asked=PLAIN, reply=PLAIN, prompt=PLAIN)
def test_what_is_said_in_a_turn_is_text(asked: str, reply: str, prompt: str) -> None:
    """Braces too: the ids are those of the four pieces of the template and of the three texts."""
    told = TOKENIZER.render(prompt, [(asked + "{prompt}", reply)])
    alone = TOKENIZER.render(prompt)
    user = TOKENIZER.render(asked + "{prompt}")
    assert told[: len(user)] == user
    assert told[-len(alone) + 1 :] == alone[1:]  # without its <|startoftext|>
    between = told[len(user) : len(told) - len(alone) + 1]
    assert between == [*TOKENIZER.encode(reply.strip()), 5]  # <|eot_id|>


@given(system=PLAIN, prompt=PLAIN)
def test_a_system_turn_is_text_that_stands_before_the_others(system: str, prompt: str) -> None:
    """Braces too: what it says is not looked through for fields."""
    known = replace(TOKENIZER, system=LLADA_SYSTEM)
    alone, said = known.render(prompt), f"{system}{{prompt}}"
    told = known.render(prompt, system=said)
    assert told[-len(alone) + 1 :] == alone[1:]  # without its <|startoftext|>
    turn = told[: len(told) - len(alone) + 1]
    text = known.backend.decode(turn, skip_special_tokens=False)
    assert text == LLADA_SYSTEM.replace("{system}", said.strip())


def test_without_system_turns_it_opens_the_first_turn_of_the_user() -> None:
    folded = TOKENIZER.render("Three?", system="Be brief.")
    assert folded == TOKENIZER.render("Be brief.\n\nThree?")
    folded = TOKENIZER.render("Three?", EXAMPLES, "Be brief.")
    opened = [("Be brief.\n\nOne?", "1"), EXAMPLES[1]]
    assert folded == TOKENIZER.render("Three?", opened)


@pytest.mark.parametrize(
    ("system", "why"), [(" ", "is empty"), ("a<|eot_id|>b", "contains the special token")]
)
def test_a_system_turn_that_says_nothing_or_ends_itself_is_refused(system: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        TOKENIZER.render("Three?", system=system)


@pytest.mark.parametrize("template", ["{prompt}", "Q: {prompt}\nA: "])
def test_a_template_without_turns_refuses_examples(template: str) -> None:
    with pytest.raises(InputError, match="this model's template has no turns"):
        rendered(TokenSpelling(template=template, ends=()))
    assert replace(TOKENIZER, template=template).render("Three?")


def test_an_empty_question_is_refused_and_an_empty_reply_is_not() -> None:
    """A client sends back what it was answered, which may have been nothing."""
    with pytest.raises(InputError, match="the prompt is empty"):
        TOKENIZER.render("Three?", [("", "1")])
    empty, said = (TOKENIZER.chat("Three?", [("One?", reply)]) for reply in ("", "1"))
    assert len(empty) == len(said) - 1


def test_a_special_token_in_a_reply_is_refused() -> None:
    with pytest.raises(InputError, match="contains the special token"):
        TOKENIZER.render("Three?", [("One?", "1<|eot_id|>")])
