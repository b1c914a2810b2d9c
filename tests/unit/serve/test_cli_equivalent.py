"""The line for a shell: where there is one, and where there are no words for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from remask.denoisers.base import Preset
from remask.serve.cli_equivalent import solve_command
from remask.serve.inputs import question_of, sampler_of
from remask.serve.schema import SolveRequest, SolveSettings
from remask.serve.service import ServeSettings


@pytest.mark.parametrize(("asked", "told"), [(None, True), (0.9, True), (0.5, False)])
def test_a_nucleus_of_the_preset_needs_no_words(asked: float | None, told: bool) -> None:
    """The preset has 0.9, which the command line takes from it too; 0.5 has no flag."""
    service: Any = SimpleNamespace(
        denoiser=SimpleNamespace(preset=Preset(top_p=0.9), block_size=None),
        settings=ServeSettings(model="m"),
    )
    question = question_of(SolveRequest(prompt="p"), SolveSettings())
    sampler = sampler_of(service, question, temperature=None, max_tokens=None, top_p=asked)
    command = solve_command(service, question, sampler, 10)
    assert (command is not None) == told
