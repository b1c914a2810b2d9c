"""The facts that `doctor` and `models` report."""

import torch

from remask import doctor
from remask.denoisers.llada import LLaDA, LLaDAConfig


def test_the_size_of_the_known_models_is_that_of_their_network() -> None:
    """LLaDA-8B: width 4,096, 32 layers of 32 heads, MLP 12,288, vocabulary 126,464, not tied."""
    config = LLaDAConfig(
        d_model=4096, n_layers=32, n_heads=32, n_kv_heads=32, mlp_hidden_size=12288,
        vocab_size=126464, max_sequence_length=4096,
    )  # fmt: skip
    with torch.device("meta"):
        network = LLaDA(config)
    size = sum(parameter.numel() for parameter in network.parameters())
    assert set(doctor.HUB_PARAMETERS.values()) == {size}


def test_extras_name_what_is_missing_and_the_line_that_installs_it() -> None:
    found = doctor.extras(
        [
            "torch>=2.5",
            'rich>=13; extra == "shown"',
            "no-such-package>=1; extra == 'more'",
            'pytest; extra == "more"',
            'remask[shown,more]; extra == "all"',
        ]
    )
    assert found == {
        "shown": {"missing": [], "install": None},
        "more": {"missing": ["no-such-package"], "install": "pip install 'remask[more]'"},
    }


def test_free_memory_is_known_on_this_system() -> None:
    free = doctor.examine()["free_memory_gb"]
    assert free is None or 0 < free < 100_000
