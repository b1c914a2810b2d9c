"""A server that scores with something else than round trips."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import remask
from remask import api
from remask.decide.provenance import Provenance
from remask.denoisers.base import Denoiser
from remask.denoisers.native import NativeDenoiser
from remask.errors import SettingsError
from remask.serve import responses
from remask.serve.app import build_app
from remask.serve.service import build_service
from remask.serve.settings import ServeSettings
from remask.verifier.fit import fit_verifier
from remask.verifier.threshold import NO_THRESHOLD

Client = Any  # see conftest.py
PROMPT, ANSWER = "What is 12 + 5?", "12 + 5 = 17. The answer is 17."
BODY: dict[str, Any] = {"prompt": PROMPT, "answer": ANSWER}
LIMIT = 300.0  # seconds that only a defect takes


@pytest.fixture(
    scope="module", params=["editor", "self_evaluation", "confidence", "probe", "verifier"]
)
def other(
    request: pytest.FixtureRequest, client: Client, denoiser: Denoiser, settings: ServeSettings
) -> Iterator[Client]:
    """The same model, served with each of these scorers."""
    changed = replace(settings, metrics="paper", scorer=request.param)
    service = build_service(denoiser, changed)
    yield type(client)(service, build_app(service))
    service.batcher.close(LIMIT)


def test_round_trips_are_named_where_nothing_else_was_chosen(client: Client) -> None:
    assert client.ok("/v1/verify", {**BODY, "remask": {"trips": 1}})["scorer"] == "roundtrips"
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["remask"]["scorer"], model["remask"]["preset"]["threshold"]) == (
        "roundtrips",
        None,
    ), "0.75 is the paper's"


def test_an_answer_has_the_score_of_the_library_and_no_verdict_without_a_threshold(
    other: Client, denoiser: Denoiser
) -> None:
    """Also under an identity of its own: the judge finds its question by it, draws depend on it."""
    name = other.service.settings.scorer
    changes: dict[str, Any]
    for changes in ({"item": "mine"}, {"trace": True}, {}):
        item = changes.get("item", api.item_of(PROMPT))
        sample = api.sample_from_text(denoiser, PROMPT, ANSWER, item=item)
        [known] = api.find_scorer(name, denoiser, {item: PROMPT}).score([sample])
        found = other.ok("/v1/verify", {**BODY, "remask": changes})
        responses.Verification.model_validate(found, strict=True)
        assert found["score"] == pytest.approx(known.value, abs=1e-5)
        assert (found["threshold"], found["accepted"]) == (None, None)
        assert (found["verdict"], found["threshold_source"]) == ("unknown", None)
        assert found["threshold_reason"].startswith(NO_THRESHOLD)
        assert found["scorer"] == (known.scorer or name)
        assert (found["reason"], found["trips"]) == (known.reason, [])
        assert found["settings"] == {"kind": "number", "seed": 0}
        assert {token["drift"] for token in found["tokens"]} == {None}
    sure = other.ok("/v1/verify", {**BODY, "remask": {"threshold": -1.0}})
    assert sure["accepted"] is (None if known.value is None else True)


def test_what_a_scorer_read_of_a_token_stands_with_it_and_is_left_out_elsewhere(
    other: Client, denoiser: Denoiser
) -> None:
    name = other.service.settings.scorer
    known = remask.score(denoiser, PROMPT, ANSWER, scorer=name, seed=3)
    verified = other.ok("/v1/verify", {**BODY, "seed": 3})
    assert verified["cost"]["forwards"] == known.forwards
    assert "stage" not in verified, "nothing was fitted"
    logp = [token["logp"] for token in verified["tokens"] if "logp" in token]
    assert [x is None for x in logp] == [x is None for x in known.logp]
    read = [x for x in logp if x is not None]
    assert read == pytest.approx([x for x in known.logp if x is not None], abs=1e-5)
    assert bool(read) is (name in ("probe", "verifier"))
    body = {"prompt": PROMPT, "remask": {"budget": 1, "threshold": 2.0}}
    (attempt,) = other.ok("/v1/solve", body)["attempts"]
    assert ("logp" in attempt["verification"]["tokens"][0]) is bool(read)


def test_the_parts_of_a_label_free_score_add_up_to_it(serving: Any) -> None:
    found = serving(scorer="verifier").ok("/v1/verify", BODY)
    parts = found["metrics"].values()
    assert found["score"] == pytest.approx(sum(part["weight"] * part["value"] for part in parts))
    assert [part["weight"] for part in parts] == pytest.approx([1 / 3] * 3)


def test_a_decision_needs_a_threshold_of_the_scorer(other: Client) -> None:
    name = other.service.settings.scorer
    error = other.refused("/v1/solve", {"prompt": PROMPT, "remask": {"budget": 2}})
    assert error["param"] == "remask.threshold"
    assert error["message"].startswith(NO_THRESHOLD)
    body = {"prompt": PROMPT, "remask": {"budget": 2, "threshold": 2.0}}
    found = other.ok("/v1/solve", body)
    responses.Solution.model_validate(found, strict=True)
    assert (found["scorer"], found["action"], len(found["attempts"])) == (name, "fallback", 2)
    (model,) = other.get("/v1/models").json()["data"]
    assert (model["remask"]["scorer"], model["remask"]["preset"]["threshold"]) == (name, None)


def test_a_chat_is_scored_too_and_decides_by_a_threshold_alone(other: Client) -> None:
    name, body = other.service.settings.scorer, {"model": other.service.settings.model}
    body |= {"messages": [{"role": "user", "content": PROMPT}]}
    (choice,) = other.ok("/v1/chat/completions", {**body, "remask": {}})["choices"]
    assert (choice["remask"]["scorer"], choice["remask"]["accepted"]) == (name, None)
    assert other.ok("/v1/chat/completions", body)["choices"]
    error = other.refused("/v1/chat/completions", {**body, "remask": {"budget": 2}})
    assert error["param"] == "remask.threshold"


def test_a_threshold_of_the_model_s_files_is_that_of_its_scorer(
    serving: Any, denoiser: Denoiser
) -> None:
    """Scores of the editor lie in 0..1: one above -1 is accepted at once, one above 2 never is."""
    tasks = {"choice": {"threshold": {"editor": 2.0}}}
    preset = replace(denoiser.preset, threshold={"editor": -1.0}, tasks=tasks)
    assert isinstance(denoiser, NativeDenoiser)
    served = serving(replace(denoiser, preset=preset), scorer="editor")
    actions = [
        served.ok("/v1/solve", {"prompt": PROMPT, "kind": kind, "remask": {"budget": 2}})["action"]
        for kind in ("number", "choice")
    ]
    assert actions == ["accept", "fallback"]


@pytest.mark.parametrize("field", ["trips", "metrics"])
def test_settings_of_round_trips_are_refused(other: Client, field: str) -> None:
    value: Any = 4 if field == "trips" else "core"
    error = other.refused("/v1/verify", {**BODY, "remask": {field: value}})
    assert error["param"] == f"remask.{field}"
    assert other.service.settings.scorer in error["message"]


@pytest.mark.parametrize("name", ["probe", "verifier", "editor", "roundtrips"])
def test_a_request_may_choose_its_scorer(client: Client, denoiser: Denoiser, name: str) -> None:
    found = client.ok("/v1/verify", {**BODY, "remask": {"scorer": name, "threshold": 0.5}})
    metrics = {"metrics": "core"} if name == "roundtrips" else {}
    known = remask.score(denoiser, PROMPT, ANSWER, scorer=name, **metrics)
    assert found["score"] == pytest.approx(known.value, abs=1e-5)
    assert found["scorer"] == known.scorer == (name if name != "verifier" else "verifier_at_hand")
    assert ("trips" in found["settings"]) is (name == "roundtrips")


def test_a_fit_of_too_few_labels_says_so_with_its_score(
    serving: Any, denoiser: Denoiser, tmp_path: Path
) -> None:
    about = Provenance(
        scorer="verifier", metric_set="features", metrics=(), task="wordmath", split="validation",
        model=denoiser.name, seed=0, version="", date="",
    )  # fmt: skip
    few = fit_verifier([{"critical.critical_mean": -1.0}], [True], about)
    few.save(tmp_path / "few.json")
    served = serving(metrics="paper", scorer="verifier", fitted=tmp_path / "few.json")
    found = served.ok("/v1/verify", BODY)
    body = {"prompt": PROMPT, "remask": {"budget": 1, "threshold": 2.0}}
    (attempt,) = served.ok("/v1/solve", body)["attempts"]
    error = served.refused("/v1/solve", {"prompt": PROMPT})
    assert error["message"] == f"{NO_THRESHOLD} (the fitted verifier has none: {few.reason})."
    for document in (found, attempt["verification"]):
        assert (document["reason"], "stage" in document) == (few.reason, False)


def test_round_trips_can_be_chosen_on_a_server_of_another_scorer(serving: Any) -> None:
    served = serving(scorer="probe")
    body = {**BODY, "remask": {"scorer": "roundtrips", "trips": 1, "rebuild_steps": 2}}
    found = served.ok("/v1/verify", body)
    (model,) = served.get("/v1/models").json()["data"]
    assert (found["scorer"], found["cost"]["forwards"]) == ("roundtrips", 2)
    assert (found["threshold"], found["verdict"]) == (None, "unknown")
    assert model["remask"]["scorers"][:3] == ["probe", "roundtrips", "verifier"]


@pytest.mark.parametrize("name", ["os:system", "nonsense", "", "verifier\n"])
def test_a_request_names_no_scorer_from_outside(client: Client, name: str) -> None:
    """Not even one that could be imported: what runs is up to whoever started the server."""
    error = client.refused("/v1/verify", {**BODY, "remask": {"scorer": name}})
    assert error["param"] == "remask.scorer"
    assert error["message"].startswith(f"Unknown scorer {name!r}. ")


def test_a_fitted_verifier_is_served_with_its_threshold(
    serving: Any, denoiser: Denoiser, tmp_path: Path
) -> None:
    """Of ten answers the right ones have values of .8, the wrong ones of .2."""
    path = tmp_path / "verifier.json"
    about = Provenance(
        scorer="verifier", metric_set="features", metrics=(), task="wordmath", split="validation",
        model=denoiser.name, seed=0, version="", date="",
        settings={"sampler": {"length": 64, "temperature": 0.5}},
    )  # fmt: skip
    answers = [{"critical.critical_mean": math.log(0.8 if k < 5 else 0.2)} for k in range(10)]
    staged = fit_verifier(answers, [k < 5 for k in range(10)], about)
    staged.save(path)
    changed = {"metrics": "paper", "scorer": "verifier", "fitted": path, "max_forwards": 4}
    served = serving(**changed)
    sample = api.sample_from_text(denoiser, PROMPT, ANSWER, length=64)
    scorer = api.verifier(denoiser, {sample.item: PROMPT}, fitted=staged, budget=4)
    (known,) = scorer.score([sample])
    found = served.ok("/v1/verify", BODY)
    assert found["score"] == pytest.approx(known.value, abs=1e-5)
    assert (found["threshold"], found["cost"]["forwards"]) == (staged.threshold, 1)
    other = served.ok("/v1/verify", {**BODY, "remask": {"scorer": "probe"}})
    assert other["threshold"] is None, "what was fitted is of the verifier"
    solved = served.ok("/v1/solve", {"prompt": PROMPT, "remask": {"budget": 1}})
    drawn = [solved["settings"][name] for name in ("length", "temperature")]
    assert drawn == [64, 0.5], "as the answers that it was fitted to"
    error = served.refused("/v1/solve", {"prompt": PROMPT, "temperature": 0.7})
    assert error["param"] == "temperature"
    body = {"prompt": PROMPT, "max_tokens": 32, "remask": {"budget": 1}}
    error = served.refused("/v1/solve", body)
    assert (error["param"], "written with length 64, got" in error["message"]) == (
        "max_tokens", True,
    )  # fmt: skip
    error = served.refused("/v1/verify", {**BODY, "kind": "choice"})
    assert "fitted on kind wordmath, got choice" in error["message"]
    other_model = replace(about, metrics=staged.provenance.metrics, model="o")
    replace(staged, provenance=other_model).save(path)
    with pytest.raises(SettingsError, match="fitted on model o, got "):
        serving(**changed)
