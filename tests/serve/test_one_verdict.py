"""The command line, the library and the server give one verdict, and only in known settings."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from remask import api, cli
from remask.consistency.settings import ConsistencySettings
from remask.denoisers.base import Denoiser
from remask.denoisers.load import load
from remask.errors import SettingsError
from remask.serve.app import build_app
from remask.serve.service import build_service
from remask.serve.settings import ServeSettings
from remask.testing import write_checkpoint
from remask.verifier.threshold import NO_THRESHOLD, PAPER, ScoreThreshold, text_source

Client = Any  # see conftest.py
PROMPT, ANSWER = "What is 12 + 5?", "12 + 5 = 17"
# Every score exceeds -2; the editor has no threshold. An answer that is given as text has no
# generation, so the threshold of `verifier` never applies to it.
THRESHOLDS = {"roundtrips": -2.0, "probe": -2.0, "verifier": 2.0, "verifier_at_hand": -2.0}
LIMIT = 300.0  # seconds that only a defect takes


@pytest.fixture(scope="module")
def judged_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose preset has thresholds."""
    made = write_checkpoint(
        tmp_path_factory.mktemp("judged") / "model", layers=1, width=16, heads=2, inner=16,
        length=16, max_length=1024,
    )  # fmt: skip
    path = made / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "threshold": THRESHOLDS}))
    return made


@pytest.fixture(scope="module")
def model(judged_folder: Path) -> Denoiser:
    return load(str(judged_folder), device="cpu")


@pytest.fixture(scope="module")
def served(client: Client, model: Denoiser, judged_folder: Path) -> Iterator[Client]:
    settings = ServeSettings(model=str(judged_folder), seconds=LIMIT, body_seconds=LIMIT)
    service = build_service(model, settings)
    yield type(client)(service, build_app(service))
    service.batcher.close(LIMIT)


@dataclass(frozen=True)
class Change:
    """The same departure from the settings of the preset's threshold, in each entry point."""

    flags: tuple[str, ...]
    fields: dict[str, Any]  # of the request's `remask`
    trips: dict[str, Any] = field(default_factory=dict)
    metrics: Any = "paper"
    kind: str = "number"
    scorer: str = "roundtrips"
    own: bool = True

    @property
    def body(self) -> dict[str, Any]:
        return {"prompt": PROMPT, "kind": self.kind, "remask": self.fields}


def trips(name: str, value: Any) -> Change:
    flag = f"--{name.replace('_', '-')}"
    return Change((flag, str(value)), {name: value}, trips={name: value})


KNOWN = {
    "usual": Change((), {}),
    "probe": Change(("--scorer", "probe"), {"scorer": "probe"}, scorer="probe"),
    "verifier": Change(("--scorer", "verifier"), {"scorer": "verifier"}, scorer="verifier"),
    "external, by the verifier": Change(
        ("--scorer", "verifier"), {"scorer": "verifier"}, scorer="verifier", own=False
    ),
}
UNKNOWN = {
    "trips": trips("trips", 1),
    "mask_ratio": trips("mask_ratio", 0.2),
    "mask_design": trips("mask_design", "stratified"),
    "rebuild_steps": trips("rebuild_steps", 2),
    "rebuild_temperature": trips("rebuild_temperature", 1.0),
    "metrics": Change(("--metrics", "core"), {"metrics": "core"}, metrics="core"),
    "kind": Change(("--kind", "text"), {}, kind="text"),
    "scorer": Change(("--scorer", "editor"), {"scorer": "editor"}, scorer="editor"),
    "source": Change((), {}, own=False),
    "source, by the probe": Change(
        ("--scorer", "probe"), {"scorer": "probe"}, scorer="probe", own=False
    ),
}
SETTINGS = ("trips", "mask_ratio", "mask_design", "rebuild_steps", "rebuild_temperature", "metrics")
VERDICT = ("verdict", "threshold", "threshold_source", "threshold_reason")


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], judged_folder: Path
) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        place = ("--model", str(judged_folder), "--device", "cpu")
        monkeypatch.setattr("sys.argv", ["remask", *words, *place])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        shown = capsys.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return run


def threshold_of(model: Denoiser, change: Change) -> ScoreThreshold:
    scorer: api.AnyScorer = change.scorer
    if scorer == "roundtrips":
        settings = ConsistencySettings(**change.trips)
        scorer = api.consistency(model, kind=change.kind, settings=settings, metrics=change.metrics)
    made = api.find_scorer(scorer, model, [PROMPT], kind=change.kind)
    source = text_source(change.own, change.scorer, is_fitted=False)
    return api.threshold_for(model, made, kind=change.kind, source=source)


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
def test_an_answer_has_one_verdict_wherever_it_is_asked_for(
    served: Client, model: Denoiser, command: Any, name: str
) -> None:
    change, is_known = {**KNOWN, **UNKNOWN}[name], name in KNOWN
    threshold = threshold_of(model, change)
    own = ("--own",) if change.own else ()
    code, out, _ = command("verify", PROMPT, ANSWER, "--json", *own, *change.flags)
    told = json.loads(out)
    remask = {**change.fields, "own": change.own}
    found = served.ok("/v1/verify", {**change.body, "answer": ANSWER, "remask": remask})
    assert code == 0
    assert {key: told[key] for key in VERDICT} == {key: found[key] for key in VERDICT}
    assert threshold.fields == {key: told[key] for key in VERDICT[1:]}
    assert told["score"] == pytest.approx(found["score"], abs=1e-5)
    at_hand = change.scorer == "verifier"
    assert told["scorer"] == found["scorer"] == ("verifier_at_hand" if at_hand else change.scorer)
    assert told["verdict"] == ("trust" if is_known else "unknown")
    assert (told["trusted"], found["accepted"]) == ((True, True) if is_known else (None, None))
    shown = command("verify", PROMPT, ANSWER, *own, *change.flags)[1]
    assert (NO_THRESHOLD in shown) is (not is_known)
    assert ("trust" in shown) is is_known
    given = ("--threshold", "2")
    code, out, _ = command("verify", PROMPT, ANSWER, "--json", *own, *change.flags, *given)
    assert (json.loads(out)["verdict"], json.loads(out)["threshold_source"]) == ("doubt", "given")


@pytest.mark.parametrize("name", [*SETTINGS, "scorer"])
def test_rejection_sampling_needs_a_known_threshold(
    served: Client, model: Denoiser, command: Any, name: str
) -> None:
    change = UNKNOWN[name]
    code, out, err = command("solve", PROMPT, "--budget", "1", *change.flags)
    error = served.refused("/v1/solve", {**change.body, "remask": {**change.fields, "budget": 1}})
    assert (code, out) == (1, "")
    assert error["param"] == "remask.threshold"
    assert err == f"remask: {error['message']}\n"
    assert error["message"].startswith(NO_THRESHOLD)
    how = {"scorer": change.scorer}
    if change.scorer == "roundtrips":
        how = {"settings": ConsistencySettings(**change.trips), "metrics": change.metrics}
    with pytest.raises(SettingsError, match="no threshold is known for these settings"):
        api.solve(model, PROMPT, kind=change.kind, budget=1, **how)


@pytest.mark.parametrize(
    ("kind", "limit", "source", "verdict"),
    [("number", -2.0, "preset", "trust"), ("text", 0.75, PAPER, "unknown")],
)
def test_default_round_trips_stop_by_the_preset_s_threshold_or_the_paper_s(
    served: Client, model: Denoiser, command: Any, kind: str, limit: float, source: str,
    verdict: str,
) -> None:  # fmt: skip
    decision = api.solve(model, PROMPT, kind=kind, budget=1)
    assert (decision.threshold, decision.threshold_source) == (limit, source)
    told = json.loads(command("solve", PROMPT, "--kind", kind, "--budget", "1", "--json")[1])
    found = served.ok("/v1/solve", {"prompt": PROMPT, "kind": kind, "remask": {"budget": 1}})
    for document in (told, found, told["attempts"][0], found["attempts"][0]["verification"]):
        assert (document["threshold"], document["threshold_source"]) == (limit, source)
        assert document["verdict"] == verdict
    assert told["action"] == found["action"] == decision.action
    shown = command("solve", PROMPT, "--kind", kind, "--budget", "1")[1]
    assert f"threshold {limit:g}: {source}" in shown


def test_weights_and_listed_metrics_are_other_scores(command: Any) -> None:
    words = ("verify", PROMPT, ANSWER, "--json", "--own", "--metrics")
    told = json.loads(command(*words, "token_accuracy,answer_match")[1])
    assert (told["verdict"], told["threshold"]) == ("unknown", None)
    assert "metrics paper, got token_accuracy,answer_match" in told["threshold_reason"]
