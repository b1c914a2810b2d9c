"""The line for a shell: where there is one, and where there is no flag for it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from remask.denoisers.base import Preset
from remask.serve.cli_equivalent import solve_command
from remask.serve.inputs import read_chat
from remask.serve.openai_schema import ChatRequest
from remask.serve.schema import ChatSettings, Message
from remask.serve.service import Service, build_service
from remask.serve.settings import ServeSettings
from remask.testing import ScriptedDenoiser

LIMIT = 300.0  # seconds that only a defect takes


@pytest.fixture
def service() -> Iterator[Service]:
    """A model whose preset has a nucleus of 0.9."""
    preset = Preset(length=16, steps=16, block=16, temperature=1.0, top_p=0.9)
    model = ScriptedDenoiser(script=lambda tokens: torch.zeros(*tokens.shape, 262), preset=preset)
    made = build_service(model, ServeSettings(model="m"))
    yield made
    made.batcher.close(LIMIT)


def test_packed_weights_are_part_of_the_command(service: Service) -> None:
    body = ChatRequest(model="m", messages=[Message(role="user", content="p")])
    service = replace(service, settings=replace(service.settings, weights="nf4"))
    command = solve_command(service, read_chat(service, body))
    assert command is not None
    assert command.startswith("remask solve --model=m --weights=nf4 ")


@pytest.mark.parametrize(("top_p", "written"), [(None, True), (0.9, True), (0.5, False)])
def test_a_nucleus_of_the_preset_needs_no_flag(
    service: Service, top_p: float | None, written: bool
) -> None:
    """The preset has 0.9, which the command line takes from it too; 0.5 has no flag."""
    body = ChatRequest(
        model="m",
        messages=[Message(role="user", content="p")],
        top_p=top_p,
        remask=ChatSettings(budget=10),
    )
    command = solve_command(service, read_chat(service, body))
    assert (command is not None) == written
