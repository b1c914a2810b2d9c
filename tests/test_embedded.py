"""The shipped weights: the only tests that need them, with the demo."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import remask
from remask.denoisers import catalog
from remask.denoisers.base import Denoiser
from remask.denoisers.devices import num_bytes
from remask.denoisers.load import EMBEDDED, outline
from remask.denoisers.tokenizer import read_json
from remask.serve.examples import ACCEPTED
from remask.testing import check_alignment, check_denoiser

EASY = "Ben has 12 apples. Zoe has 5 more than Ben. How many apples does Zoe have?"


@pytest.fixture(scope="module")
def model() -> Denoiser:
    return remask.load("tiny", device="cpu")


def test_the_weights_fit_in_32_megabytes() -> None:
    size = sum(path.stat().st_size for path in EMBEDDED.glob("*.safetensors"))
    assert 0 < size <= 32_000_000


def test_the_embedded_model_keeps_the_contract(model: Denoiser) -> None:
    check_denoiser(model)


def test_its_logits_stand_where_its_tokens_do(model: Denoiser) -> None:
    check_alignment(model, "Zoe has 12+5=17 apples. The answer is 17.", prompt=EASY)


def test_it_solves_an_easy_problem(model: Denoiser) -> None:
    assert remask.task("wordmath").extract(remask.sample(model, EASY).text) == "17"


def test_a_right_answer_outscores_a_wrong_one(model: Denoiser) -> None:
    """The wrong answer differs in its sum alone: 12 + 5 is not 19."""
    right = remask.score(model, EASY, "Zoe has 12+5=17 apples. The answer is 17.")
    wrong = remask.score(model, EASY, "Zoe has 12+5=19 apples. The answer is 19.")
    assert right.value is not None
    assert wrong.value is not None
    assert right.value > wrong.value + 0.1


def test_the_verifier_rejects_what_it_doubts(model: Denoiser) -> None:
    """A right answer is accepted at a threshold that the wrong one of before does not reach."""
    wrong = remask.score(
        model, EASY, "Zoe has 12+5=19 apples. The answer is 19.", scorer="verifier"
    )
    decision = remask.solve(model, EASY, scorer="verifier", threshold=wrong.value, budget=3)
    assert (decision.action, decision.score.scorer) == ("accept", "verifier")
    assert remask.task("wordmath").extract(decision.sample.text) == "17"
    spent = [score.forwards for _, score in decision.attempts]
    assert spent == [17] * len(spent)


def test_the_example_of_the_documentation_is_answered_as_it_says(model: Denoiser) -> None:
    page = (Path(__file__).parents[1] / "docs" / "server.md").read_text()
    request, answer = (
        json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", page, re.M | re.S)[:2]
    )
    assert request["remask"]["trips"] == 4, "what is usual"
    score = remask.score(model, request["prompt"], request["answer"], metrics="core")
    assert score.value == pytest.approx(answer["score"], abs=0.005)
    assert answer["threshold"] == request["remask"]["threshold"]
    assert score.verdict(answer["threshold"]) == answer["verdict"] == "trust"
    assert score.forwards == answer["cost"]["forwards"]


def test_the_right_solution_of_the_first_example_is_accepted(model: Denoiser) -> None:
    name, levels = next(iter(ACCEPTED.items()))
    level, (seed, *_) = next(iter(levels.items()))
    assert judged(model, name, level, seed) == "trust"


@pytest.mark.full
@pytest.mark.parametrize("scorer", ["roundtrips", "verifier"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_so_are_those_of_all_the_others_that_come_first(
    model: Denoiser, name: str, scorer: str
) -> None:
    places = [(level, seed) for level, seeds in ACCEPTED[name].items() for seed in seeds]
    found = {place: judged(model, name, *place, scorer=scorer, metrics="paper") for place in places}
    assert found == dict.fromkeys(places, "trust")


def judged(
    model: Denoiser, name: str, level: str, seed: int, *, scorer: str = "", metrics: Any = "core"
) -> str | None:
    """Return the verdict on a ready-made solution by the preset's threshold."""
    problem = remask.task(name).problem(seed, level=level)
    chosen = None if scorer in ("", "roundtrips") else scorer
    score = remask.score(
        model,
        problem.prompt,
        problem.solution,
        kind=name,
        scorer=chosen,
        metrics=metrics,
        seed=seed,
    )
    return score.verdict(model.preset.thresholds(name)[scorer or "roundtrips"])


def test_every_trained_prompt_and_solution_fits_its_canvas(model: Denoiser) -> None:
    for name in ("wordmath", "countdown", "choice", "pycode"):
        task = remask.task(name)
        for level in ("easy", "medium"):
            for i in range(50):
                problem = task.problem(i, level=level)
                assert len(model.tokenizer.encode(problem.prompt)) <= 96
                solution = model.tokenizer.encode(problem.solution)
                assert len(solution) < task.canvas_length(level) <= 96


def test_the_catalogue_knows_its_size() -> None:
    """`remask models` tells it without torch, so it is written down."""
    config = read_json(EMBEDDED / "config.json")
    network = outline(config, EMBEDDED)
    tiny = catalog.TINY
    assert tiny.num_parameters == sum(parameter.numel() for parameter in network.parameters())
    assert tiny.num_bytes() == num_bytes(network.to(torch.bfloat16))
    assert (tiny.width, tiny.vocab_size) == (network.embedding.embedding_dim, network.vocab_size)
    assert (tiny.context, tiny.num_kept) == (network.max_length, network.num_kept)
    assert [tiny.architecture] == config["architectures"]
