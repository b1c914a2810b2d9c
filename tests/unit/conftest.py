"""Small models for the unit tests: one with logits written by hand, a random LLaDA and LLaDA2."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import tokenizers
import torch
from few_draws import few_draws
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from remask.denoisers import llada2
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.llada import LLaDA, LLaDAConfig
from remask.denoisers.native import NativeDenoiser
from remask.denoisers.tokenizer import Tokenizer
from remask.records.record import BaselineCost, Record
from remask.testing import ScriptedDenoiser
from remask.values import Canvas, Sample
from remask.verifier.columns import LABEL_FREE_PROBES, readings_of

SPECIAL = ("<eos>", "<mask>", "<eot>")
EOS_ID, MASK_ID, EOT_ID = range(3)
RIVAL = 5  # a token that no answer of models that know one holds
Script = Callable[[Canvas], Tensor]  # -> logits (B, L, V)


class Scripted(ScriptedDenoiser):
    """A scripted denoiser whose script is shown the whole canvas: it knows where prompts end."""

    def hidden(self, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
        return self.script(canvas)  # type: ignore[arg-type]


def make_tokenizer(alphabet: Sequence[str]) -> Tokenizer:
    """Return a tokenizer with one token per letter and no merges."""
    vocabulary = {name: i for i, name in enumerate((*SPECIAL, *sorted(alphabet)))}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.add_special_tokens(list(SPECIAL))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return Tokenizer(
        backend=backend,
        mask_id=MASK_ID,
        eos_ids=(EOS_ID, EOT_ID),
        pad_id=EOS_ID,
        template="Q: {prompt}\nA: ",
    )


def make_llada(tokenizer: Tokenizer, *, seed: int, std: float) -> NativeDenoiser:
    """Return a LLaDA of two layers with random weights, large enough for its logits to differ."""
    config = LLaDAConfig(
        d_model=32, n_layers=2, n_heads=4, n_kv_heads=2, mlp_hidden_size=48,
        vocab_size=int(tokenizer.backend.get_vocab_size()), max_sequence_length=512,
    )  # fmt: skip
    network = LLaDA(config)
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=std, generator=generator)
    network.requires_grad_(False)
    return NativeDenoiser(name="random", model=network, tokenizer=tokenizer, preset=Preset())


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Threads cost more than they bring at this size, all the more on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Byte-level: encodes any text, one token per byte."""
    return make_tokenizer(pre_tokenizers.ByteLevel.alphabet())


@pytest.fixture(scope="session")
def llada(tokenizer: Tokenizer) -> NativeDenoiser:
    return make_llada(tokenizer, seed=1, std=0.3)


@pytest.fixture(scope="session")
def enumerable_llada() -> NativeDenoiser:
    """Three letters, so that every sequence of three of them can be listed."""
    return make_llada(make_tokenizer("abc"), seed=2, std=0.3)


@pytest.fixture(scope="session")
def scripted(tokenizer: Tokenizer) -> Callable[[Script], Scripted]:
    """Turn a script into a denoiser."""
    return lambda script: Scripted(tokenizer=tokenizer, script=script)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def ids(tokenizer: Tokenizer) -> Callable[[str], tuple[int, ...]]:
    """Turn text into ids; `.` stands for EOS and `_` for the mask token."""
    named = {".": EOS_ID, "_": MASK_ID}
    return lambda text: tuple(
        named[letter] if letter in named else tokenizer.encode(letter)[0] for letter in text
    )


@pytest.fixture(scope="session")
def by_place(
    scripted: Callable[[Script], Scripted], ids: Callable[[str], tuple[int, ...]]
) -> Callable[[Sequence[Mapping[str, float]]], Scripted]:
    """Turn one distribution per canvas place, letter -> probability, into a denoiser."""

    def build(places: Sequence[Mapping[str, float]]) -> Scripted:
        table = torch.full((len(places), 3 + 256), -torch.inf)  # (C, V)
        for place, distribution in enumerate(places):
            for letter, probability in distribution.items():
                table[place, ids(letter)[0]] = torch.tensor(probability).log()
        return scripted(lambda canvas: table[canvas.offsets.clamp(0, len(places) - 1)])

    return build


@pytest.fixture(scope="session")
def answer(tokenizer: Tokenizer, ids: Callable[[str], tuple[int, ...]]) -> Callable[..., Sample]:
    """Turn a canvas in letters into a sample brought from outside."""

    def build(canvas: str, *, prompt: str = "p", item: str = "item", number: int = 0) -> Sample:
        tokens = ids(canvas)
        return Sample(
            item=item,
            number=number,
            prompt=ids(prompt),
            canvas=tokens,
            num_response=tokenizer.num_response(tokens),
            text=tokenizer.decode(tokens),
        )

    return build


@pytest.fixture(scope="session")
def block_causal(tokenizer: Tokenizer) -> NativeDenoiser:
    """A LLaDA2 of two layers and blocks of 4, with random weights."""
    config: dict[str, Any] = {
        "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 24,
        "first_k_dense_replace": 1, "num_experts": 8, "num_experts_per_tok": 2,
        "num_shared_experts": 1, "moe_intermediate_size": 8, "n_group": 4, "topk_group": 2,
        "vocab_size": int(tokenizer.backend.get_vocab_size()), "rope_theta": 100.0,
        "max_position_embeddings": 64, "use_bias": False, "block_size": 4, "rms_norm_eps": 1e-6,
    }  # fmt: skip
    network = llada2.FAMILY.build(config)
    generator = torch.Generator().manual_seed(5)
    for parameter in network.requires_grad_(False).parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, 0.5, generator=generator)
    return NativeDenoiser(name="random", model=network, tokenizer=tokenizer, preset=Preset())


Row = dict[str, Any]  # a record as `collect` writes it


def build_record(
    problem: str = "a",
    number: int = 0,
    *,
    right: bool = True,
    answer: str | None = "1",
    score: float | None = 0.5,
    confidence: float = 0.5,
    by_trip: Mapping[str, Sequence[float | None]] | None = None,
    process_ok: bool | None = None,
    task: str = "wordmath",
    level: str = "hard",
) -> Record:
    trips = {"token_accuracy": (score, score)} if by_trip is None else by_trip
    return Record(
        id=f"{task}/{level}/{problem}",
        task=task,
        level=level,
        number=number,
        prompt="How many?",
        gold="1",
        text=f"#### {answer}",
        answer=answer,
        right=right,
        process_ok=right if process_ok is None else process_ok,
        forwards=10,
        scores={"confidence": confidence, "confidence_canvas": 0.9, "roundtrips": score},
        stderr=0.0,
        by_trip={name: list(values) for name, values in trips.items()},
        drift=[0.0, 0.5, None],
        verify_forwards=8,
    )


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    """Return a sample with 2 trips: 10 forwards to write, 8 to verify."""
    return build_record


@pytest.fixture(scope="session")
def make_row() -> Callable[..., Row]:
    """Return the same as the object of its line."""
    return lambda *args, **further: build_record(*args, **further).to_json()


def draw_records(
    problems: int,
    samples: int = 1,
    *,
    split: str = "test",
    task: str = "wordmath",
    level: str = "hard",
    num_read: int = 1,
) -> list[Record]:
    rng = random.Random(f"{split} {task} {level} {problems}")
    rows = []
    for problem, number in product(range(problems), range(samples)):
        right = rng.random() < 0.6
        signal = 1.0 if right else -1.0
        # Values in 0..1 that know, with noise, whether the answer is right.
        score, confidence, written, *probed = (
            1 / (1 + math.exp(-signal - rng.gauss(0, 1.5)))
            for _ in range(3 + 2 * len(LABEL_FREE_PROBES))
        )
        names = [
            f"{probe}.{which}" for probe in LABEL_FREE_PROBES for which in readings_of(probe)[:2]
        ]
        features = {name: math.log(value) for name, value in zip(names, probed, strict=True)}
        features |= {"generation.response_min": math.log(written), "critical_count": 2.0}
        features |= {"length": float(rng.randint(5, 9))}
        row = build_record(
            f"{split}/11/{problem}", number, right=right, task=task, level=level,
            answer="1" if right else rng.choice("234"), score=score, confidence=confidence,
        )  # fmt: skip
        unread = replace(row, by_trip={}, verify_forwards=None, scores={"confidence": confidence})
        scores = {**row.scores, "tre": rng.gauss(0, 1) - 9}
        read = replace(row, features=features, scores=scores, baselines={"tre": BaselineCost(0)})
        rows.append(read if number < num_read else unread)
    return rows


@pytest.fixture(scope="session")
def draw_features() -> Callable[..., list[Record]]:
    """Return pools of which the first `num_read` samples have round trips and features."""
    return draw_records


@pytest.fixture(scope="session")
def digits() -> Callable[[Sample], list[bool]]:
    """Say of an answer in single letters that its digits are critical; its end token is not."""

    def marks(sample: Sample) -> list[bool]:
        text = sample.text.ljust(sample.num_response)
        return [letter.isdigit() for letter in text[: sample.num_response]]

    return marks


@pytest.fixture(scope="session")
def knowing(
    scripted: Callable[..., Denoiser],
) -> Callable[[Sample, Callable[[int, int], float]], Denoiser]:
    """Return a model that knows one answer: token i has a chance that depends on the masks.

    `chance(i, n)` is that of canvas token i while n tokens of the row are masked.
    """

    def build(sample: Sample, chance: Callable[[int, int], float]) -> Denoiser:
        def script(canvas: Canvas) -> Tensor:
            out = torch.full((*canvas.tokens.shape, 259), -torch.inf)
            for row, tokens in enumerate(canvas.tokens):
                num_masked = int((tokens == MASK_ID).sum())
                for i, token in enumerate(sample.canvas):
                    odds = torch.tensor([chance(i, num_masked), 1 - chance(i, num_masked)])
                    out[row, len(sample.prompt) + i, [token, RIVAL]] = odds.log()
            return out

        return scripted(script)

    return build


@pytest.fixture(scope="module")
def few_resamples() -> Iterator[None]:
    """Twenty resamples per interval, not a thousand, where tests look at no interval."""
    with few_draws(20):
        yield
