"""Import torchao and bitsandbytes for quantised weights only.

transformers and peft import both packages if they are installed. That takes seconds, and both log
warnings about missing kernels.
"""

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from remask.errors import MissingExtra

PACKAGES = ("torchao", "bitsandbytes")
_process = {"ours": False}


@contextmanager
def own_process() -> Iterator[None]:
    """Allow `aside` to hide the packages: no other code in this process uses transformers."""
    before = _process["ours"]
    _process["ours"] = True
    try:
        yield
    finally:
        _process["ours"] = before


@contextmanager
def aside() -> Iterator[None]:
    """Suppress warnings of the packages during an import; in our own process, hide them too.

    In other processes they stay visible, because transformers looks for them only once, and the
    caller may need them.
    """
    absent = [p for p in PACKAGES if _process["ours"] and p not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: an import fails
    try:
        with _hushed():
            yield
    finally:
        for package in absent:
            del sys.modules[package]


def imported(package: str) -> Any:
    try:
        with _hushed():
            return importlib.import_module(package)
    except ImportError:
        raise MissingExtra(package, "quant", "use weights full") from None


@contextmanager
def _hushed() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
