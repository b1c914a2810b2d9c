"""A hub cache with the stand-in of every published model, which the hub's own code reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from standin_checkpoints import write_standin

from remask.denoisers.catalog import CHECKPOINTS


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache folder; while it is there, the hub is offline and looks nowhere else."""
    folder = tmp_path_factory.mktemp("hub")
    for checkpoint in CHECKPOINTS:
        write_standin(checkpoint.id, folder)
    with pytest.MonkeyPatch.context() as patch:
        # The library reads both variables when it is imported; children read them anew.
        for name, value in (("HF_HUB_CACHE", str(folder)), ("HF_HUB_OFFLINE", True)):
            patch.setattr(f"huggingface_hub.constants.{name}", value)
            patch.setenv(name, str(value))
        yield folder
