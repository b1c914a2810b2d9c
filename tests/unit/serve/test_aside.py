"""What is made before the model's thread begins is made in a thread that is over."""

import threading

import pytest

from remask.serve.aside import made_aside


def test_what_is_made_comes_from_a_thread_that_is_over() -> None:
    thread = made_aside(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive(), "its workers would go on beside those of the model"


def test_what_fails_there_fails_here_as_it_is() -> None:
    fault = ValueError("no such model")

    def fail() -> None:
        raise fault

    with pytest.raises(ValueError, match="no such model") as raised:
        made_aside(fail)
    assert raised.value is fault
    assert "remask-aside" not in {thread.name for thread in threading.enumerate()}
