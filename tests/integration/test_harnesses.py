"""lm-evaluation-harness and Inspect, as their authors ship them, on a small random model, offline.

Both are slow to import, so what needs them is one file, and each runs whole but once.
"""

import asyncio
import json
import logging
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import remask
from remask.api import item_of
from remask.errors import InputError, SettingsError
from remask.testing import write_checkpoint

lm_eval: Any = pytest.importorskip("lm_eval")
pytest.importorskip("inspect_ai")

ROOT = Path(__file__).resolve().parents[2]
ROWS = [{"question": f"What is {k} + 1?", "answer": str(k + 1)} for k in range(3)]
TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
test_split: test
output_type: {kind}
metadata: {{version: 1}}
{more}
"""
WRITE = """
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["QED"], do_sample: false, max_gen_toks: 16}
repeats: 1
filter_list:
  - {name: whole, filter: [{function: take_first}]}
  - {name: number, filter: [{function: regex, regex_pattern: "([0-9]+)"}, {function: take_first}]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""
CHOOSE = """
doc_to_text: "{{question}} "
doc_to_choice: "{{[answer, 'none']}}"
doc_to_target: 0
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
READ = """
doc_to_text: ""
doc_to_target: "{{question}}"
metric_list: [{metric: bits_per_byte}]
"""


@pytest.fixture(scope="module", autouse=True)
def offline() -> Any:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of bytes that can read 256 of them, and the tasks beside it."""
    place = tmp_path_factory.mktemp("harness")
    write_checkpoint(
        place / "model", layers=1, width=16, heads=2, inner=16, length=16, max_length=256,
        dtype=torch.float32,
    )  # fmt: skip
    rows = place / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, kind, more in (
        ("write", "generate_until", WRITE),
        ("choose", "multiple_choice", CHOOSE),
        ("read", "loglikelihood_rolling", READ),
    ):
        text = TASK.format(name=name, rows=rows, kind=kind, more=more)
        (place / f"{name}.yaml").write_text(text)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> remask.Denoiser:
    return remask.load(folder / "model", device="cpu")


# --- lm-evaluation-harness --------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(folder: Path) -> Any:
    """One run of the harness over all three kinds of requests, with its cache and its log."""
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from remask.harnesses.lm_eval import add_scores

    tracker = EvaluationTracker(output_path=str(folder / "out"))
    given = f"model={folder / 'model'},scorer=verifier,steps=4,draws=4,device=cpu"
    found = lm_eval.simple_evaluate(
        model="remask", model_args=given, tasks=["write", "choose", "read"], bootstrap_iters=0,
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        evaluation_tracker=tracker, use_cache=str(folder / "cache"),
    )  # fmt: skip
    add_scores(found)
    samples = found.pop("samples")
    tracker.save_results_aggregated(results=found, samples=samples)
    tracker.save_results_samples(task_name="write", samples=samples["write"])
    return {**found, "samples": samples}


def expected(model: remask.Denoiser) -> tuple[list[remask.Sample], list[remask.Score]]:
    """Return what the library itself answers, and how it scores that."""
    prompts = [row["question"] for row in ROWS]
    ids = [model.tokenizer.encode(prompt) for prompt in prompts]
    settings = replace(remask.sampler_settings(model, length=16, steps=4), temperature=0.0)
    samples = remask.sample_many(model, ids, settings=settings, items=[*map(item_of, prompts)])
    return samples, remask.score_many(
        model, list(zip(prompts, samples, strict=True)), scorer="verifier"
    )


def test_answers_and_scores_are_those_of_the_library(results: Any, model: remask.Denoiser) -> None:
    samples, scores = expected(model)
    logged = results["samples"]["write"]
    whole = [row for row in logged if row["filter"] == "whole"]
    assert [row["filtered_resps"] for row in whole] == [[s.text] for s in samples]
    for row in logged:  # under either filter, whatever it makes of the text
        score = scores[row["doc_id"]]
        assert row["remask_score"] == pytest.approx(score.value, abs=1e-6)
        assert (row["remask_scorer"], row["remask_reason"]) == ("verifier", None)
        assert row["remask_forwards"] == score.forwards
        assert row["remask_metrics"].keys() == score.by_metric.keys()
    known = results["config"]["remask"]
    assert (known["scorer"], known["draws"], known["version"]) == (
        "verifier", 4, remask.__version__
    )  # fmt: skip


def test_the_samples_log_of_the_harness_holds_the_scores(results: Any, folder: Path) -> None:
    (log,) = (folder / "out").rglob("samples_write_*.jsonl")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(rows) == 2 * len(ROWS)
    memory = [(row["doc_hash"], row["remask_score"]) for row in results["samples"]["write"]]
    assert [(row["doc_hash"], row["remask_score"]) for row in rows] == memory


def test_the_probability_of_choices_and_texts_is_the_bound(
    results: Any, model: remask.Denoiser
) -> None:
    """The blank before a choice belongs to it; a text alone has no context."""
    encode = model.tokenizer.encode
    for row, logged in zip(ROWS, results["samples"]["choose"], strict=True):
        item = item_of(f"{row['question']} ")
        texts = [f"  {row['answer']}", "  none"]  # the task's own blank, and the harness's
        given = [
            remask.Sample(item=item, prompt=tuple(encode(row["question"])), num_response=len(ids),
                          canvas=tuple(ids), text="") for ids in map(encode, texts)
        ]  # fmt: skip
        bounds = remask.log_likelihood(model, given, draws=4, greedy=True)
        for (value, is_greedy), bound in zip(
            (pair for (pair,) in logged["resps"]), bounds, strict=True
        ):
            assert float(value) == pytest.approx(bound.logp, abs=1e-4)
            assert str(is_greedy) == str(bound.is_greedy)
    row, logged = ROWS[0], results["samples"]["read"][0]
    ids = tuple(encode(row["question"]))
    given = [
        remask.Sample(item=f"{item_of(row['question'])}/0", prompt=(), canvas=ids,
                      num_response=len(ids), text="")
    ]  # fmt: skip
    ((value,),) = logged["resps"]
    assert float(value) == pytest.approx(
        remask.log_likelihood(model, given, draws=4)[0].logp, abs=1e-3
    )


def request(*arguments: Any) -> Any:
    return SimpleNamespace(args=arguments)


@pytest.fixture
def lm(model: remask.Denoiser) -> Callable[..., Any]:
    from remask.harnesses.lm_eval import RemaskLM

    def make(**settings: Any) -> Any:
        return RemaskLM(model, steps=4, draws=2, **settings)

    return make


def test_an_answer_is_cut_and_what_is_left_is_scored(
    lm: Callable[..., Any], model: remask.Denoiser
) -> None:
    asked = {"max_gen_toks": 16, "do_sample": False}
    (whole,) = lm().generate_until([request("What is 2?", asked)])
    stop = whole[5:8]
    left = whole.partition(stop)[0]
    assert left.strip()
    assert left != whole
    (cut, none) = lm(scorer="verifier").generate_until(
        [request("What is 2?", {**asked, "until": ["\0\0", stop]}),
         request("What is 2?", {**asked, "until": whole[0]})]
    )  # fmt: skip
    assert (cut, none) == (left, "")
    sample = remask.sample_from_text(
        model, model.tokenizer.encode("What is 2?"), left, item=item_of("What is 2?"), length=16
    )
    (score,) = remask.score_many(model, [("What is 2?", sample)], scorer="verifier")
    assert cut.remask["score"] == pytest.approx(score.value, abs=1e-6)
    assert none.remask["score"] is None
    assert none.remask["reason"].startswith("the answer is empty")


def test_what_is_asked_again_is_another_answer_and_together_is_as_alone(
    lm: Callable[..., Any],
) -> None:
    asked = {"max_gen_toks": 16, "temperature": 1.0, "do_sample": True, "num_beams": 1}
    one = [request("What is 2?", asked)]
    first, second, other = lm().generate_until([*one, *one, request("And 3?", asked)])
    assert first != second
    assert [first] == lm().generate_until(one)
    assert [other] == lm().generate_until([request("And 3?", asked)])


def test_a_request_that_cannot_be_met_is_refused_in_a_sentence(lm: Callable[..., Any]) -> None:
    with pytest.raises(SettingsError, match=r"num_beams of a request is 4, which a diffusion"):
        lm().generate_until([request("What?", {"num_beams": 4})])
    for name, value in (("max_gen_toks", "many"), ("max_new_tokens", 0), ("until", [3])):
        with pytest.raises(SettingsError, match=f"the setting {name} of a request is "):
            lm().generate_until([request("What?", {name: value})])
    with pytest.raises(InputError, match="the prompt of a request is empty"):
        lm().generate_until([request("", {})])
    with pytest.raises(InputError, match="contains the mask token"):
        lm().generate_until([request("a <|mdm_mask|> b", {})])
    with pytest.raises(SettingsError, match=r"Unknown setting 'stepz'. Did you mean 'steps'"):
        lm(stepz=3)
    with pytest.raises(SettingsError, match=r"Unknown scorer 'nope'. Known: roundtrips"):
        lm(scorer="nope")
    with pytest.raises(SettingsError, match=r"Unknown kind 'nope'. Known: number"):
        lm(kind="nope")
    with pytest.raises(SettingsError, match="model is missing; give --model_args"):
        type(lm()).create_from_arg_string("scorer=verifier")


def test_long_prompts_lose_their_beginning_and_texts_are_read_in_windows(
    lm: Callable[..., Any], model: remask.Denoiser, caplog: pytest.LogCaptureFixture
) -> None:
    from remask.harnesses.lm_eval import _windows

    asked = {"max_gen_toks": 16, "do_sample": False}
    with caplog.at_level(logging.WARNING):
        (found,) = lm().generate_until([request("x" * 300 + "What is 2?", asked)])
    assert "1 prompts were longer than the 256 tokens" in caplog.text
    assert found == lm().generate_until([request("x" * 230 + "What is 2?", asked)])[0]
    assert list(_windows(10, 4)) == [(0, 0, 4), (4, 4, 8), (6, 8, 10)]
    assert list(_windows(4, 4)) == [(0, 0, 4)]
    assert list(_windows(0, 4)) == []
    (value,) = lm().loglikelihood_rolling([request("ab" * 200)])
    parts = [("", "ab" * 128), ("ab" * 56, "ab" * 72)]
    assert value < 0
    assert value == pytest.approx(
        sum(logp for logp, _ in lm().loglikelihood([request(*part) for part in parts])), rel=0.2
    )


def test_a_model_that_answers_is_warned_of_once(
    lm: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    ours = lm()
    with caplog.at_level(logging.WARNING):
        ours.loglikelihood([request("a", "b")], disable_tqdm=True)
        ours.loglikelihood([request("a", "b")], disable_tqdm=True)
    assert caplog.text.count("a Monte Carlo bound (2 draws) made for base models") == 1


@pytest.mark.parametrize(
    ("name", "is_warned"),
    [("GSAI-ML/LLaDA-8B-Base", False), ("db/baseline/instruct", True), ("/data/x-base/", False)],
)
def test_a_base_model_is_known_by_its_own_name(
    lm: Callable[..., Any], caplog: pytest.LogCaptureFixture, name: str, is_warned: bool
) -> None:
    ours = lm()
    ours.denoiser = replace(ours.denoiser, name=name)
    with caplog.at_level(logging.WARNING):
        ours._warn_of_instruct()
    assert ("made for base models" in caplog.text) == is_warned


def test_a_chat_is_the_text_that_the_library_renders(
    lm: Callable[..., Any], model: remask.Denoiser
) -> None:
    ours = lm()
    chat = [
        {"role": "user", "content": "1?"}, {"role": "assistant", "content": "One."},
        {"role": "user", "content": "2?"},
    ]  # fmt: skip
    text = ours.apply_chat_template(chat)
    assert ours.tok_encode(text) == model.tokenizer.render("2?", [("1?", "One.")])
    told = ours.apply_chat_template([{"role": "system", "content": "Be brief."}, *chat])
    assert ours.tok_encode(told) == model.tokenizer.render("2?", [("1?", "One.")], "Be brief.")
    assert told != text
    begun = [*chat, {"role": "assistant", "content": "It is"}]
    assert ours.apply_chat_template(begun, add_generation_prompt=False) == text + "It is"
    with pytest.raises(InputError, match="see add_generation_prompt"):
        ours.apply_chat_template(begun)
    with pytest.raises(InputError, match="contains the special token"):
        ours.apply_chat_template([{"role": "user", "content": "a<|eot_id|>b"}])
    assert "{prompt}" in ours.chat_template(True)
    assert "/" not in ours.tokenizer_name


def test_the_cache_of_the_harness_keeps_the_scores(results: Any, folder: Path) -> None:
    from sqlitedict import SqliteDict

    with SqliteDict(str(folder / "cache_rank0.db"), flag="r") as cache:
        kept = [value for value in cache.values() if isinstance(value, str)]
    scores = {row["remask_score"] for row in results["samples"]["write"]}
    assert {value.remask["score"] for value in kept} == scores


def test_scores_and_truth_of_a_task_give_its_auroc() -> None:
    """Right answers score .9 and .4, wrong ones .5 and .1: three of four pairs are in order."""
    from remask.harnesses.lm_eval import ScoredText, add_scores

    rows = [(0.9, 1.0), (0.5, 0.0), (0.4, 1.0), (0.1, 0.0), (None, 1.0)]
    samples = [
        {"resps": [[ScoredText("x", {"score": score})]], "filter": "none", "acc": right,
         "metrics": ["acc", "length"], "length": 7} for score, right in rows
    ]  # fmt: skip
    twice = [{"resps": [[ScoredText("x", {"score": 0.1}), ScoredText("y", {"score": 0.2})]],
              "filter": "none", "metrics": [], }]  # fmt: skip
    plain = [{"resps": [["x"], [(-1.0, True)]], "filter": "none", "metrics": []}]
    found = add_scores(
        {"samples": {"a": samples, "b": twice, "c": plain}, "results": {"a": {}, "b": {}, "c": {}}}
    )
    assert found["results"] == {"a": {"remask_auroc_acc,none": 0.75}, "b": {}, "c": {}}
    assert found["samples"]["b"][0]["remask_score"] == [0.1, 0.2]
    assert "remask_score" not in found["samples"]["c"][0]
    assert type(ScoredText("x"))("y") == "y"  # the harness makes one of a target


def test_the_command_is_the_harness_s_own_with_scores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from remask.harnesses.__main__ import main

    calls: list[Any] = []
    monkeypatch.setattr(lm_eval, "simple_evaluate", lambda **given: calls.append(given))
    monkeypatch.setattr(
        "lm_eval.__main__.cli_evaluate", lambda: lm_eval.simple_evaluate(model="remask")
    )
    main()
    assert calls == [{"model": "remask"}]
    monkeypatch.setattr(
        "lm_eval.__main__.cli_evaluate",
        lambda: import_module("remask.harnesses.lm_eval").RemaskLM("nowhere"),
    )
    with pytest.raises(SystemExit, match="remask: model 'nowhere' is neither 'tiny', nor a folder"):
        main()


# --- Inspect ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log(folder: Path) -> Any:
    """One run of Inspect: two epochs of three questions, graded."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import get_model
    from inspect_ai.scorer import match

    from remask.harnesses.inspect_ai import remask_score

    questions = [Sample(input=row["question"], target=row["answer"]) for row in ROWS]
    (found,) = evaluate(
        Task(dataset=questions, scorer=[remask_score(match())]), epochs=2, temperature=1.0,
        model=get_model(f"remask/{folder / 'model'}", scorer="verifier", steps=4, device="cpu"),
        log_dir=str(folder / "logs"), display="none", log_format="json",
    )  # fmt: skip
    assert found.status == "success", found.error
    return found


def test_inspect_gets_the_answers_and_the_scores_of_the_library(
    log: Any, model: remask.Denoiser
) -> None:
    settings = remask.sampler_settings(model, steps=4, temperature=1.0)
    for row in ROWS:
        chat = model.tokenizer.chat(row["question"])
        prompt, texts = model.tokenizer.render(row["question"]), []
        for number in range(2):
            (sample,) = remask.sample_many(
                model, [prompt], settings=settings, items=[item_of(chat)], number=number
            )
            (score,) = remask.score_many(model, [(chat, sample)], scorer="verifier")
            texts.append((sample.text, pytest.approx(score.value, abs=1e-6)))
        logged = [s for s in log.samples if s.input == row["question"]]
        found = [(s.output.completion, s.output.metadata["remask"]["score"]) for s in logged]
        assert sorted(found) == sorted(texts, key=lambda pair: pair[0])
    assert len({s.output.completion for s in log.samples}) == 2 * len(ROWS)


def test_inspect_s_log_holds_the_scores_and_how_well_they_tell(log: Any) -> None:
    document = json.loads(Path(log.location.removeprefix("file://")).read_text())
    (scores,) = document["results"]["scores"]
    assert scores["name"] == "remask_score"
    assert {"mean", "stderr", "separation"} <= scores["metrics"].keys()
    for sample in document["samples"]:
        given = sample["output"]["metadata"]["remask"]
        assert sample["scores"]["remask_score"]["value"] == given["score"]
        assert sample["scores"]["remask_score"]["metadata"]["right"] is False
        assert sample["output"]["usage"]["output_tokens"] <= 16


@pytest.fixture(scope="module")
def api(folder: Path) -> Any:
    from remask.harnesses.inspect_model import RemaskAPI

    return RemaskAPI(str(folder / "model"), steps=4, device="cpu")


def ask(api: Any, *chats: list[Any], **config: Any) -> list[Any]:
    """Ask several chats at once, as Inspect does."""
    from inspect_ai.model import GenerateConfig

    async def together() -> list[Any]:
        how = GenerateConfig(**config)
        asked = [api.generate(chat, [], "auto", how) for chat in chats]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(together())


def test_inspect_chats_together_are_as_alone_and_one_that_fails_fails_alone(api: Any) -> None:
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser

    short = [ChatMessageUser(content="What is 2?")]
    turns = [*short, ChatMessageAssistant(content="It is 2."), ChatMessageUser(content="And 3?")]
    long = [ChatMessageUser(content="x" * 300)]
    settings = {"temperature": 1.0, "seed": 3, "stop_seqs": ["\0\0"]}
    first, fails, second = ask(api, short, long, turns, **settings)
    assert isinstance(fails, InputError)
    assert "more than the 256" in str(fails)
    assert ask(api, short, **settings)[0].completion == first.completion
    assert ask(api, turns, **settings)[0].completion == second.completion
    assert first.metadata is None
    assert first.stop_reason in ("stop", "max_tokens")
    (both,) = ask(api, short, num_choices=2, **settings)
    assert len({choice.message.text for choice in both.choices}) == 2
    assert both.choices[0].message.text == first.completion


def test_what_inspect_cannot_have_is_refused_in_a_sentence(api: Any) -> None:
    from inspect_ai.model import ChatMessageTool, ChatMessageUser, ContentImage

    user = [ChatMessageUser(content="What is 2?")]
    for chat, config, sentence in (
        (user, {"frequency_penalty": 0.5}, "the setting frequency_penalty of a request is 0.5"),
        ([ChatMessageTool(content="3")], {}, "the role 'tool' is unknown; use system,"),
        ([ChatMessageUser(content=[ContentImage(image="data:,")])], {}, "user holds image;"),
        ([], {}, "the roles of the messages are none; give turns of user"),
        (user, {"temperature": 0.0, "num_choices": 2}, "num_choices"),
    ):
        (found,) = ask(api, chat, **config)  # type: ignore[arg-type]
        assert sentence in str(found), found
        assert isinstance(found, remask.RemaskError)
    (fine,) = ask(api, user, frequency_penalty=0.0, max_retries=2, max_tokens=8)
    assert len(fine.completion) <= 8
    with pytest.raises(SettingsError, match="tools are given"):
        asyncio.run(api.generate(user, [SimpleNamespace(name="calculator")], "auto", None))


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("nope", {}, "model 'nope' is neither 'tiny', nor a folder"),
        ("tiny", {"scorer": "nope"}, "Unknown scorer 'nope'. Known: roundtrips, "),
        ("tiny", {"kind": "nope"}, "Unknown kind 'nope'. Known: number, "),
    ],
)
def test_inspect_says_in_a_sentence_what_cannot_be_loaded(
    name: str, settings: dict[str, str], sentence: str
) -> None:
    from inspect_ai._util.error import PrerequisiteError
    from inspect_ai.model import get_model

    with pytest.raises(PrerequisiteError) as caught:
        get_model(f"remask/{name}", memoize=False, **settings)
    assert caught.value.message.startswith(f"remask: {sentence}")
    assert isinstance(caught.value.__cause__, remask.RemaskError)


def test_a_score_that_is_not_there_is_unscored(folder: Path) -> None:
    from remask.harnesses.inspect_ai import remask_score

    for metadata, words in (
        (None, "the output has no score; ask a model of remask"),
        ({"remask": {"score": None, "reason": "the answer is empty."}}, "the answer is empty."),
    ):
        state = SimpleNamespace(output=SimpleNamespace(metadata=metadata, completion=""))
        found = asyncio.run(remask_score()(state, None))
        assert found.value != found.value
        assert words in found.explanation


def test_the_entry_points_lead_to_what_the_harnesses_look_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    module, _, name = project["lm_eval.models"]["remask"].partition(":")
    assert getattr(import_module(module), name).__name__ == "RemaskLM"
    import_module(project["inspect_ai"]["remask"])
    from inspect_ai._util.registry import registry_lookup

    assert registry_lookup("modelapi", "remask/remask")
    assert "remask" in sys.modules["lm_eval.api.registry"].model_registry
