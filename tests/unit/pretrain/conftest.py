"""Small autoregressive models as others write them: transformers, tokenizers and gguf."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import ancestors


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Llama of two layers, as transformers saves it."""
    return ancestors.write_hub(tmp_path_factory.mktemp("llama"), "llama")
