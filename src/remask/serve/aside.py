"""What is computed before the model's own thread begins, in a thread that is over afterwards.

Torch keeps workers for every thread that has computed. Where all of them together are more than the
cores, they sleep after every step and have to be woken for the next, which costs the model's thread
an eighth of its speed on two cores (docs/LOG.md). The workers of a thread end with it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

_Made = TypeVar("_Made")


def made_aside(make: Callable[[], _Made]) -> _Made:
    """Return what `make` returns, or raise what it raises; Ctrl-C does not wait for it."""
    made: Future[_Made] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    thread = Thread(target=run, name="remask-aside", daemon=True)
    thread.start()
    try:
        return made.result()
    finally:
        if made.done():
            thread.join()  # its workers end with it
