"""The packages of the extra `quant`: loaded for weights in few bits, and for nothing else.

transformers and peft, which come with the sentence encoder and with LoRA, import both packages
wherever they are installed. That takes seconds, and each logs which kernels this machine lacks.
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
    """Say that nobody but remask needs transformers here: `aside` may keep the packages from it."""
    before = _process["ours"]
    _process["ours"] = True
    try:
        yield
    finally:
        _process["ours"] = before


@contextmanager
def aside() -> Iterator[None]:
    """Import here what would import the packages on the way; their warnings are not logged.

    In a process of our own it does not find them either. Elsewhere it must: transformers never
    looks again, and whoever called us may want to quantise with it.
    """
    absent = [p for p in PACKAGES if _process["ours"] and p not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None: not to be found
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
