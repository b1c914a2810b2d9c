"""The model is loaded in a thread that ends."""

import threading

import pytest

from remask.serve.service import run_in_thread


def test_what_is_made_comes_from_a_thread_that_is_over() -> None:
    thread = run_in_thread(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive(), "its workers would go on beside those of the model"


def test_what_fails_there_fails_here_as_it_is() -> None:
    fault = ValueError("no such model")

    def fail() -> None:
        raise fault

    with pytest.raises(ValueError, match="no such model") as raised:
        run_in_thread(fail)
    assert raised.value is fault
    assert "remask-load" not in {thread.name for thread in threading.enumerate()}
