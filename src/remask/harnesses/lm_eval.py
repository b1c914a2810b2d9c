"""A model of lm-evaluation-harness: `simple_evaluate(model=RemaskLM(model="tiny"), tasks=[...])`.

Importing this module registers the name `remask` for `--model`; `python -m remask.harnesses` is the
harness's own command with it. Answers come as text that carries its score (`ScoredText`), through
filters, samples and the harness's cache; `add_scores` writes the scores out into the samples log.

What stands in a request is text, in which the template of a chat is already there or is not wanted;
so it is read as it is. A prompt too long for the model loses its beginning, as with other models of
the harness, and is counted in a warning.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import model_registry, register_model
from lm_eval.utils import simple_parse_args_string
from tqdm import tqdm

import remask
from remask import Denoiser, Sample
from remask.api import AnyScorer, item_of
from remask.errors import InputError, SettingsError
from remask.harnesses.answers import Answer, Answerer, Wanted, score_fields
from remask.harnesses.settings import HarnessSettings
from remask.settings import validate
from remask.turns import read_turns

_LOG = logging.getLogger(__name__)
# Requests whose answers are handed over together, and kept in the harness's cache: a pass of a GPU
# takes many, and a CPU gains nothing from more.
_AT_ONCE = {"cpu": 8, "": 256}
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_OURS = ("temperature", "top_p", "top_k", "steps", "block")
# What other models of the harness know, and the values that ask for nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "num_beams": (1,), "repetition_penalty": (1,), "frequency_penalty": (0,), "typical_p": (1,),
    "presence_penalty": (0,), "min_p": (0,), "num_return_sequences": (1,), "n": (1,),
    "length_penalty": (1,), "use_cache": (True, False), "early_stopping": (True, False),
}  # fmt: skip


class ScoredText(str):
    """An answer as text, and what is known of it: `remask` holds the fields of its score."""

    remask: dict[str, Any] | None

    def __new__(cls, text: str, remask: dict[str, Any] | None = None) -> "ScoredText":
        """Return the text; without a score where there is none."""
        made = super().__new__(cls, text)
        made.remask = remask
        return made


class RemaskLM(TemplateLM):  # type: ignore[misc]  # the harness has no types
    """A model of remask behind the harness's requests."""

    def __init__(
        self,
        model: str | Denoiser,
        *,
        scorer: AnyScorer = "",
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        **settings: Any,
    ) -> None:
        """Load the model.

        Args:
            model: its name, or the model itself.
            scorer: of the answers: a name, `module:name`, an object; empty: nothing scores them.
            batch_size: the harness's; batches are cut by tokens here, and no number changes them.
            max_batch_size: as `batch_size`.
            settings: the rest of `HarnessSettings`, by name.
        """
        super().__init__()
        named = {"model": model if isinstance(model, str) else model.name, **settings}
        if isinstance(scorer, str):
            named["scorer"] = scorer
        self.settings = validate(HarnessSettings, named, "model_args")
        self.answerer = Answerer.of(model, scorer, self.settings)
        self.denoiser = self.answerer.model
        self.forwards = 0  # passes so far, of writing, scoring and reading
        self._at_once = _AT_ONCE.get(self.denoiser.device.type, _AT_ONCE[""])
        self._shortened = 0  # prompts that lost their beginning
        self._has_warned = False

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: dict[str, Any] | None = None
    ) -> "RemaskLM":
        """Return the model of `--model_args model=tiny,scorer=verifier`."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None
    ) -> "RemaskLM":
        """Return the model of such arguments; they go before what the harness adds."""
        added = {name: v for name, v in (additional_config or {}).items() if v is not None}
        if "device" in added:
            added["device"] = _device(str(added["device"]))
        if "model" not in arg_dict:
            raise SettingsError("model is missing; give --model_args model=tiny, or a hub id.")
        return cls(**{**added, **arg_dict})

    # What the harness asks of any model.

    @property
    def max_length(self) -> int:
        """Tokens that a prompt and its canvas may have."""
        return self.denoiser.max_length

    @property
    def eot_token_id(self) -> int:
        """The token that ends a text."""
        return self.denoiser.tokenizer.eos_id

    @property
    def tokenizer_name(self) -> str:
        """What the harness keeps requests under, as their text depends on the template."""
        return self.denoiser.name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the template, for the harness's record of what was run."""
        return self.denoiser.tokenizer.template if chat_template else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """Return a chat as the text that the model reads; a last turn of its own is continued."""
        turns = read_turns([(one["role"], one["content"]) for one in chat_history])
        if bool(turns.beginning) == add_generation_prompt:
            raise InputError(
                "the last message is the assistant's where a reply is to be continued, and the "
                "user's where one is to be written; see add_generation_prompt."
            )
        return self.denoiser.tokenizer.chat(*turns)

    def get_model_info(self) -> dict[str, Any]:
        """Return what the harness writes into its results, beside its own settings."""
        known = {**asdict(self.settings), "version": remask.__version__, "forwards": self.forwards}
        return {"remask": known}

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **further: Any
    ) -> list[int]:
        """Return the ids of a text as it is."""
        return self.denoiser.tokenizer.encode_whole(string, "text of a request")

    # Requests.

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Return an answer to each request, cut before the first of its texts to stop at."""
        wanted = list(self._wanted(requests))
        texts: list[str] = []
        with tqdm(total=len(wanted), desc="Writing answers", disable=disable_tqdm) as bar:
            for start in range(0, len(wanted), self._at_once):
                part = wanted[start : start + self._at_once]
                for request, answer in zip(
                    requests[start:], self.answerer.answers(part), strict=False
                ):
                    texts.append(self._text(answer))
                    self.cache_hook.add_partial("generate_until", request.args, texts[-1])
                bar.update(len(part))
        self._tell_shortened()
        return texts

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return log p of each continuation, and whether greedy decoding writes it."""
        self._warn_of_instruct()
        values: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm)
        self._tell_shortened()
        return values

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str], list[int], list[int]]],
        disable_tqdm: bool = False,
        **further: Any,
    ) -> list[tuple[float, bool]]:
        """Return the same of texts as ids."""
        values: list[tuple[float, bool]] = []
        with tqdm(total=len(requests), desc="Reading texts", disable=disable_tqdm) as bar:
            for start in range(0, len(requests), self._at_once):
                part = requests[start : start + self._at_once]
                samples = [self._given(item_of(c), ctx, ids) for (c, _), ctx, ids in part]
                read = self._read(samples, greedy=self.settings.greedy)
                for (pair, _, _), (logp, is_greedy) in zip(part, read, strict=True):
                    values.append((logp, is_greedy))
                    self.cache_hook.add_partial("loglikelihood", pair, values[-1])
                bar.update(len(part))
        return values

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Return log p of each whole text, in windows as long as the model can read."""
        self._warn_of_instruct()
        values: list[float] = []
        for request in tqdm(requests, desc="Reading texts", disable=disable_tqdm):
            (text,) = request.args
            ids = self.tok_encode(text)
            windows = [
                self._given(f"{item_of(text)}/{start}", ids[before:start], ids[start:stop])
                for before, start, stop in _windows(len(ids), self._room(0))
            ]
            values.append(sum(logp for logp, _ in self._read(windows, greedy=False)))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, values[-1])
        return values

    def _wanted(self, requests: Iterable[Any]) -> Iterator[Wanted]:
        """Yield what is to be written; a request that comes again asks for another answer."""
        seen: dict[tuple[str, str], int] = {}
        for request in requests:
            context, kwargs = request.args
            given, stops = _generation(kwargs)
            sampler = self.answerer.sampler(**given)
            again = context, repr(sorted(kwargs.items()))
            number = seen[again] = seen.get(again, -1) + 1
            ids = self._fitting(self.tok_encode(context), self._room(sampler.length))
            if not ids:
                raise InputError("the prompt of a request is empty; give the question as text.")
            yield Wanted(context, tuple(ids), sampler, stops, number, self.settings.seed)

    def _text(self, answer: Answer) -> ScoredText:
        self.forwards += answer.sample.forwards
        if answer.score is None:
            return ScoredText(answer.text)
        self.forwards += answer.score.forwards
        return ScoredText(answer.text, score_fields(answer.score, answer.threshold))

    def _given(self, item: str, context: list[int], ids: list[int]) -> Sample:
        """Return a given text after its context."""
        prompt = tuple(self._fitting(context, self._room(len(ids))))
        return Sample(item=item, prompt=prompt, canvas=tuple(ids), num_response=len(ids), text="")

    def _read(self, samples: Sequence[Sample], greedy: bool) -> list[tuple[float, bool]]:
        """Return log p of given texts, and whether greedy decoding writes them."""
        s = self.settings
        read = remask.log_likelihood(
            self.denoiser, samples, draws=s.draws, seed=s.seed, greedy=greedy
        )
        self.forwards += sum(one.forwards for one in read)
        return [(one.logp, bool(one.is_greedy)) for one in read]

    def _room(self, num_canvas: int) -> int:
        """Return how many tokens fit beside a canvas, which may grow to the end of its block."""
        return self.max_length - num_canvas - (self.denoiser.block_size or 0)

    def _fitting(self, ids: list[int], room: int) -> list[int]:
        """Return what of a prompt there is room for: its end."""
        if len(ids) <= room:
            return ids
        self._shortened += 1
        return ids[len(ids) - max(room, 0) :]

    def _tell_shortened(self) -> None:
        if self._shortened:
            _LOG.warning(
                "%d prompts were longer than the %d tokens that %s can hold beside an answer, and "
                "lost their beginning; ask for fewer examples, or for shorter answers.",
                self._shortened, self.max_length, self.denoiser.name,
            )  # fmt: skip
        self._shortened = 0

    def _warn_of_instruct(self) -> None:
        """Say once what the number is worth of a model that was trained to answer."""
        called = Path(self.denoiser.name).name.lower()  # not the folders that it lies in
        if "base" not in called and not self._has_warned:
            _LOG.warning(
                "log p is a Monte Carlo bound (%d draws) made for base models, and %s does not "
                "call itself one; of a model trained to answer, use tasks that let it write.",
                self.settings.draws, self.denoiser.name,
            )  # fmt: skip
        self._has_warned = True


if "remask" not in model_registry:  # else by the entry point, which leads here
    register_model("remask")(RemaskLM)


def add_scores(results: dict[str, Any]) -> dict[str, Any]:
    """Write the scores that answers carry into the results of `simple_evaluate`, and return them.

    Every logged sample gets the fields of its score: remask_score, remask_stderr and so on,
    a list of each where a sample has several answers. A metric of a task that is 0 or 1 says which
    answers are right: the task's results get remask_auroc_METRIC, the chance that a right answer
    outscores a wrong one.
    """
    for task, samples in results.get("samples", {}).items():
        for sample in samples:
            scored = [
                answer.remask
                for answers in sample["resps"]
                for answer in answers
                if isinstance(answer, ScoredText) and answer.remask is not None
            ]
            for name in scored[0] if scored else ():
                values = [fields[name] for fields in scored]
                sample[f"remask_{name}"] = values if len(values) > 1 else values[0]
        results["results"][task].update(_separation(samples))
    return results


def _separation(samples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how well the scores of a task's samples tell right answers from wrong ones."""
    chances: dict[str, float] = {}
    scored = [s for s in samples if isinstance(s.get("remask_score"), float)]
    for key in dict.fromkeys(s["filter"] for s in scored):
        rows = [s for s in scored if s["filter"] == key]
        for metric in rows[0]["metrics"]:
            values = [s[metric] for s in rows]
            if all(isinstance(v, int | float) and v in (0, 1) for v in values):
                value = remask.auroc([s["remask_score"] for s in rows], values)
                if value is not None:
                    chances[f"remask_auroc_{metric},{key}"] = value
    return chances


def _generation(kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what a request says of writing, under the names of the settings, and where to stop."""
    rest = dict(kwargs)
    until = rest.pop("until", None) or ()
    stops = (until,) if isinstance(until, str) else tuple(until)
    lengths = {name: rest.pop(name) for name in _LENGTHS if rest.get(name) is not None}
    _check_kinds({"until": stops, **lengths})
    given: dict[str, Any] = {"length": next(iter(lengths.values()), None)}
    given |= {name: rest.pop(name) for name in _OURS if name in rest}
    if rest.pop("do_sample", None) is False:
        given["temperature"] = 0.0
    for name, value in rest.items():
        if value is not None and value not in _NEUTRAL.get(name, ()):
            raise SettingsError(
                f"the setting {name} of a request is {value!r:.80}, which a diffusion model of "
                f"remask has not; leave it out, or set until, {', '.join((_LENGTHS[0], *_OURS))} "
                "or do_sample."
            )
    return given, stops


def _check_kinds(values: Mapping[str, Any]) -> None:
    """Refuse texts to stop at that are none, and a length that is no number of tokens."""
    for name, value in values.items():
        is_text = name == "until" and all(isinstance(stop, str) for stop in value)
        is_length = name != "until" and isinstance(value, int) and value > 0
        if not is_text and not is_length:
            wanted = "texts" if name == "until" else "a whole number of at least 1"
            raise SettingsError(
                f"the setting {name} of a request is {value!r:.80}; it must be {wanted}."
            )


def _windows(length: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Yield where the context of each window begins, and the window; the last has all it can see.

    Every token stands in one window. Those before the last have no context: they fill the model.
    """
    for start in range(0, length, most):
        stop = min(start + most, length)
        yield max(0, stop - most) if start else 0, start, stop


def _device(name: str) -> str:
    """Return a device of the harness, whose default is a GPU that there need not be."""
    import torch

    if name.startswith("cuda") and not torch.cuda.is_available():
        _LOG.warning("the harness says device %s, and there is no CUDA here; auto is taken.", name)
        return "auto"
    return name
