"""The public loops write what the library writes: they measure the same work."""

from dataclasses import replace

import pytest
import torch
from lib import public
from lib.shapes import SHAPES, Shape, build, random_answers, random_tokens
from verify import SETTINGS, masked_rows

from remask.consistency.roundtrips import round_trips
from remask.denoisers.experts import Experts
from remask.denoisers.native import NativeDenoiser
from remask.sampling.sampler import sample

TOYS = ["toy", "toydream", "toymoe", "toyblocks"]


def sharp(shape: Shape) -> NativeDenoiser:
    """Return a network whose predictions differ from place to place, and are never the mask.

    The library does not predict it either; the public loops would.
    """
    denoiser = build(shape, torch.device("cpu"))
    for name, parameter in denoiser.model.named_parameters():
        parameter.mul_(4 if "mlp" in name else 6)
    denoiser.model.unembedding.weight[shape.mask_id] = 0
    return denoiser


@pytest.mark.parametrize("name", TOYS)
def test_the_public_loop_rebuilds_what_the_library_rebuilds(name: str) -> None:
    """16 masked tokens in 4 steps are 4 per step in either schedule, so every token must agree.

    In blocks of 8 from the start of the row they are 4, 8 and, with the tail of the last block, 8:
    1, 2 and 2 per step.
    """
    shape = SHAPES[name]
    denoiser = sharp(shape)
    settings = replace(SETTINGS, mask_ratio=1.0, rebuild_steps=4)
    found = round_trips(denoiser, random_answers(shape, 3), settings)
    distinct = {token for t in found for token in t.rebuilt.flatten().tolist()}
    assert len(distinct) > 8, "rebuilds that are all alike would prove nothing"
    for trips in found:
        rows = masked_rows(trips, shape.mask_id, torch.device("cpu"))
        assert (rows[:, 12:] == shape.mask_id).all()
        assert (rows[:, :12] == torch.tensor(trips.sample.prompt)).all()
        with public.public_experts(denoiser.model):
            rebuilt = public.rebuild(denoiser, rows, 12, 4)
        assert torch.equal(rebuilt[:, 12:], trips.rebuilt)


@pytest.mark.parametrize("name", TOYS)
def test_the_public_loop_writes_what_the_library_writes(name: str) -> None:
    shape = SHAPES[name]
    denoiser, settings = sharp(shape), shape.writing.settings
    prompts = random_tokens(shape, 3, shape.writing.num_given)
    ours = sample(denoiser, prompts, settings, items=["a", "b", "c"])
    assert len({token for answer in ours for token in answer.canvas}) > 6
    for prompt, answer in zip(prompts, ours, strict=True):
        rows = public.write(denoiser, [prompt], settings)
        assert rows[0].tolist() == [*prompt, *answer.canvas]


@pytest.mark.parametrize("name", ["toymoe", "toyblocks"])
def test_experts_one_by_one_give_what_the_library_gives(name: str) -> None:
    network = sharp(SHAPES[name]).model
    layer = next(module for module in network.modules() if isinstance(module, Experts))
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
    ours = layer(x)
    with public.public_experts(network):
        assert "forward" in vars(layer)
        assert torch.allclose(layer(x), ours, rtol=1e-4, atol=1e-5)
    assert "forward" not in vars(layer), "the library's own way is back"


def test_only_the_likeliest_tokens_keep_their_logits() -> None:
    """Masses 0.5, 0.3, 0.2: the second crosses 0.7 and stays, the third is beyond."""
    logits = torch.tensor([[0.2, 0.5, 0.3]]).log()
    kept = public.likeliest(logits, 0.7)
    assert kept.isfinite().tolist() == [[False, True, True]]
