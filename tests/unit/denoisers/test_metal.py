"""Metal, which has no float64: everything that a model is used for runs on a device without it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from metal import Metal, has_kernel
from standin_checkpoints import write_standin

import remask
from remask import rng
from remask.consistency.roundtrips import independent_masks
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.denoisers.native import dtype_of
from remask.sampling.schedule import rounded_schedule
from remask.sampling.settings import SamplerSettings
from remask.testing import write_checkpoint
from remask.values import Canvas

MPS = torch.device("mps")
PROMPT, ANSWER = "What is 2 + 3?", "That is 2+3=5. The answer is 5."
TRIPS = ConsistencySettings(trips=2, rebuild_steps=2)
# Full attention; the same, shifted; blocks and experts.
MODELS = ("llada", "Dream-org/Dream-v0-Instruct-7B", "inclusionAI/LLaDA2.0-mini")


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metal]:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 10**10)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 0)
    with Metal() as mode:
        yield mode


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    if request.param == "llada":
        return write_checkpoint(place)
    return write_standin(request.param, place)


def load_both(folder: Path) -> tuple[Denoiser, Denoiser]:
    there, here = (load(folder, device=device, dtype="float32") for device in ("auto", "cpu"))
    assert (there.device.type, here.device.type) == ("mps", "cpu")
    return there, here


@pytest.mark.usefixtures("metal")
def test_the_pretended_device_lacks_what_metal_lacks() -> None:
    x = torch.arange(4.0, device=MPS)
    assert (x + 1).device.type == "mps"
    with pytest.raises(TypeError, match="float64"):
        x.double()
    with pytest.raises(TypeError, match="float64"):
        torch.zeros(2, dtype=torch.float64, device=MPS)
    with pytest.raises(NotImplementedError, match="geqrf"):
        torch.geqrf(x[None])
    with pytest.raises(RuntimeError, match="host"):
        x + torch.arange(4.0)
    assert x.cpu().double().sum() == 6
    assert has_kernel(torch.ops.aten.sort.stable._schema)


@pytest.mark.usefixtures("metal")
def test_operations_of_others_are_there_where_they_are_made_of_what_is_there() -> None:
    x = torch.arange(4.0, device=MPS)
    with torch.library._scoped_library("metal_test", "DEF") as library:
        for name, key, kernel in (
            ("of_the_cpu", "CPU", lambda x: x + 1),
            ("of_adds", "CompositeExplicitAutograd", lambda x: x + 1),
            ("of_geqrf", "CompositeExplicitAutograd", lambda x: torch.geqrf(x[None])[0]),
        ):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, kernel, key)
        assert torch.ops.metal_test.of_adds(x).cpu().tolist() == [1, 2, 3, 4]
        with pytest.raises(NotImplementedError, match=r"metal_test\.of_the_cpu"):
            torch.ops.metal_test.of_the_cpu(x)
        with pytest.raises(NotImplementedError, match="geqrf"):
            torch.ops.metal_test.of_geqrf(x)


@pytest.mark.parametrize(
    "how",
    [
        {"temperature": 0.7, "top_p": 0.9, "top_k": 20},
        {"order": "origin"},
        {"order": "topk_margin", "order_temperature": 0.3, "temperature": 0.5},
        {"reveal_threshold": 0.1},
    ],
)
def test_answers_are_those_of_the_cpu(metal: Metal, folder: Path, how: dict[str, Any]) -> None:
    there, here = load_both(folder)
    settings = SamplerSettings(length=32, steps=3, block=here.block_size or 32, **how)
    drawn = remask.sample(there, PROMPT, settings=settings, trace=True)
    assert drawn.canvas == remask.sample(here, PROMPT, settings=settings).canvas
    assert metal.moves["cpu"] > 0


@pytest.mark.usefixtures("metal")
def test_scores_are_those_of_the_cpu(folder: Path) -> None:
    """Of the scorers that sample nothing: that is asked above."""
    there, here = load_both(folder)
    ours, theirs = (
        remask.score(model, PROMPT, ANSWER, metrics="core", settings=TRIPS)
        for model in (there, here)
    )
    assert ours.value == pytest.approx(theirs.value, abs=1e-6)
    assert ours.drift == theirs.drift
    for scorer in ("probe", "verifier", "dise", "perplexity", "editor"):
        ours, theirs = (
            remask.score(model, PROMPT, ANSWER, scorer=scorer) for model in (there, here)
        )
        assert ours.value == pytest.approx(theirs.value, abs=1e-6), scorer
        assert ours.forwards == theirs.forwards, scorer


@pytest.mark.usefixtures("metal")
def test_half_precision_runs_there(folder: Path) -> None:
    """In float16, as this machine may lack instructions for bfloat16: drawn, and scored."""
    there, here = (load(folder, device=device, dtype="float16") for device in ("auto", "cpu"))
    assert (there.device.type, dtype_of(there)) == ("mps", "float16")
    how = SamplerSettings(length=32, steps=2, block=here.block_size or 32)
    ours, theirs = (remask.sample(model, PROMPT, settings=how) for model in (there, here))
    assert ours.canvas == theirs.canvas
    for scorer in ("roundtrips", "probe"):
        settings = {"settings": TRIPS, "metrics": "core"} if scorer == "roundtrips" else {}
        ours, theirs = (
            remask.score(model, PROMPT, ANSWER, scorer=scorer, **settings)
            for model in (there, here)
        )
        assert ours.value == pytest.approx(theirs.value, abs=1e-3), scorer


@pytest.mark.usefixtures("metal")
@pytest.mark.parametrize("weights", ["int8", "nf4"])
def test_packed_weights_lie_there_too(tmp_path: Path, weights: str) -> None:
    write_checkpoint(tmp_path)
    there, here = (
        remask.score(
            load(tmp_path, device=device, dtype="float32", weights=weights),
            PROMPT, ANSWER, scorer="probe",
        ).value
        for device in ("mps", "cpu")
    )  # fmt: skip
    assert there == pytest.approx(here, abs=1e-6)


@pytest.mark.usefixtures("metal")
def test_draws_are_those_of_the_cpu_rounded() -> None:
    keys = rng.keys(3, ["a", "b"], "sample", 0, MPS)
    places = torch.arange(500, device=MPS)
    for draw in (rng.uniform, rng.gumbel):
        there = draw(keys[:, None], places)
        here = draw(keys.cpu()[:, None], places.cpu())
        assert (there.dtype, here.dtype) == (torch.float32, torch.float64)
        assert torch.equal(there.cpu(), here.float())
    streams = rng.fold_in(keys[:, None], places)
    assert torch.equal(streams.cpu(), rng.fold_in(keys.cpu()[:, None], places.cpu()))


@pytest.mark.usefixtures("metal")
def test_a_draw_that_rounds_to_one_stays_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bits set: 1 - 2**-53 in float64, which is 1 in float32 and would count one too many."""
    monkeypatch.setattr(rng, "fold_in", lambda state, counter: torch.full((1,), -1))
    (draw,) = rng.uniform(torch.zeros(1, dtype=torch.long, device=MPS), 0).tolist()
    assert draw == 1 - 2**-24


@pytest.mark.usefixtures("metal")
def test_masks_are_those_of_the_cpu() -> None:
    prompts, canvases = [[1] * 5, [1] * 3], [[2] * 200, [2] * 150]
    masks = []
    for device in (MPS, torch.device("cpu")):
        canvas = Canvas.of(prompts, canvases, 0, device)
        keys = rng.keys(0, ["a", "b"], "perturb", 1, device)
        ratio = torch.full((2,), 0.7, device=device)
        masks.append(independent_masks(canvas, canvas.canvas, ratio, keys).cpu())
    assert torch.equal(*masks)


@pytest.mark.usefixtures("metal")
def test_halves_are_rounded_there_as_here() -> None:
    masked = torch.tensor([32, 7, 0])
    there = rounded_schedule(masked.to(MPS), 8)
    assert there.device.type == "mps"
    assert torch.equal(there.cpu(), rounded_schedule(masked, 8))
