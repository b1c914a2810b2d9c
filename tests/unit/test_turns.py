"""Messages of a chat: whatever their order, they make turns or are refused in a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.errors import InputError
from remask.turns import AskedChat, read_turns

ROLES = st.sampled_from(["system", "developer", "user", "assistant", "tool"])


def test_turns_by_hand() -> None:
    user, reply = ("user", "2?"), ("assistant", "Two.")
    assert read_turns([user]) == AskedChat("2?")
    assert read_turns([("system", "Be"), ("developer", "brief."), user]) == AskedChat(
        "2?", system="Be\n\nbrief."
    )
    assert read_turns([("user", "1?"), reply, user, user]) == AskedChat(
        "2?\n\n2?", (("1?", "Two."),)
    )
    assert read_turns([user, reply]) == AskedChat("2?", beginning="Two.")
    assert read_turns([user, reply, ("assistant", ""), ("assistant", "And")]) == AskedChat(
        "2?", beginning="Two.\n\nAnd"
    )


def test_what_a_system_turn_says_comes_first_wherever_it_stands() -> None:
    user, reply, late = ("user", "2?"), ("assistant", "Two."), ("developer", "briefly")
    told = AskedChat("2?", (("2?", "Two."),), "Be\n\nbriefly")
    for chat in (
        [("system", "Be"), user, reply, late, user],
        [user, ("system", "Be"), reply, user, late],
        [user, reply, ("system", "Be"), late, user],
    ):
        assert read_turns(chat) == told


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "the roles of the messages are none; give turns of user and assistant"),
        ([("assistant", "a")], "the roles of the messages are assistant; give turns"),
        ([("system", "b"), ("assistant", "c"), ("user", "a")], "are system, assistant, user; give"),
        ([("tool", "a")], "the role 'tool' is unknown; use system, developer, user or assistant."),
    ],
)
def test_what_is_no_chat_is_refused(messages: list[tuple[str, str]], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        read_turns(messages)
    assert sentence in str(error.value)


@given(st.lists(st.tuples(ROLES, st.text("ab ", min_size=1, max_size=4)), max_size=6))
def test_no_word_is_lost_and_none_is_added(messages: list[tuple[str, str]]) -> None:
    try:
        chat = read_turns(messages)
    except InputError as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert "\n" not in sentence
        return
    spoken = [*(text for pair in chat.examples for text in pair), chat.prompt, chat.beginning]
    system = ("system", "developer")
    for told, given_by in ((spoken, False), ([chat.system], True)):
        said = "".join(told).replace("\n", "")
        assert said == "".join(text for role, text in messages if (role in system) == given_by)
