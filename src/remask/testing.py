"""The conformance kit: does a denoiser, or a scorer, keep its contract?

`check_denoiser` and `check_scorer` raise AssertionError with a sentence that names what is
violated, under any test runner. `ScriptedDenoiser` has logits written by hand and
`write_checkpoint` writes a small random LLaDA, so that every loop runs without trained weights.

Not here: whether a model is any good. Nor can logits that are shifted by one place always be told
from good ones without trained weights: the padding checks catch a shift that wraps around or looks
ahead, `check_alignment` catches every shift, given a text that the model knows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import tokenizers
import torch
import torch.nn.functional as F
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser, Preset
from remask.denoisers.llada import ARCHITECTURE, LLaDA, LLaDAConfig, hub_tensors
from remask.denoisers.save import save
from remask.denoisers.tokenizer import LLADA_TEMPLATE, Tokenizer
from remask.errors import InputError
from remask.sampling.sampler import SamplerSettings, sample
from remask.values import Canvas, Sample, Score, Scorer

_SPECIAL_TOKENS = (
    "<|endoftext|>", "<|mdm_mask|>", "<|startoftext|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
)  # fmt: skip
_TEXTS = (
    "", " ", "a", "  two  spaces\n\n\tand a tab ", "12,345.67 + 8 = ?", "naïve café, e\u0301",
    "漢字 и кириллица", "🦆👩‍🔬\u200b\ufeff\x00\x7f", "\r\n ends \n\r",
    "{prompt} {0} %s \\boxed{1}",
)  # fmt: skip
# Largest difference that rounding may make, as a share of the largest logit (at least 1).
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def tiny_tokenizer() -> Tokenizer:
    """Return a tokenizer of single bytes with LLaDA's special tokens: 262 ids, nothing learned."""
    names = (*_SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()))
    backend = tokenizers.Tokenizer(models.BPE(vocab={n: i for i, n in enumerate(names)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(_SPECIAL_TOKENS))
    return Tokenizer(
        backend=backend,
        mask_id=_SPECIAL_TOKENS.index("<|mdm_mask|>"),
        eos_ids=(0, _SPECIAL_TOKENS.index("<|eot_id|>")),
        pad_id=0,
        template=LLADA_TEMPLATE,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ScriptedDenoiser:
    """A denoiser that says what `script` says: tokens (B, L) -> logits (B, L, V).

    The script never sees padding: rows of a ragged batch are handed to it one by one.
    """

    script: Callable[[Tensor], Tensor]
    name: str = "scripted"
    tokenizer: Tokenizer = field(default_factory=tiny_tokenizer)
    preset: Preset = field(default_factory=lambda: Preset(length=16, steps=16, block=16))
    max_length: int = 512
    forwards_per_call: int = 1
    block_size: int | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @staticmethod
    def from_table(table: Tensor) -> "ScriptedDenoiser":
        """Return one whose logits at position i are row i of `table` (L, V), whatever it reads."""
        return ScriptedDenoiser(
            script=lambda tokens: table[: tokens.shape[1]].expand(len(tokens), -1, -1),
            max_length=len(table),
        )

    @staticmethod
    def reciting(ids: Sequence[int], margin: float = 10.0) -> "ScriptedDenoiser":
        """Return one that predicts ids[i] at position i, by `margin` over every other token."""
        width = tiny_tokenizer().backend.get_vocab_size()
        return ScriptedDenoiser.from_table(margin * F.one_hot(torch.tensor(ids), width).float())

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        size: int = self.tokenizer.backend.get_vocab_size()
        return size

    def hidden(self, canvas: Canvas) -> Tensor:
        """Return the logits themselves, (B, L, V); zero where a row is padded."""
        if canvas.attend is None:
            return self.script(canvas.tokens)
        out = torch.zeros(*canvas.tokens.shape, self.vocab_size, device=self.device)
        for row, length in enumerate(canvas.attend.sum(1).tolist()):
            out[row, :length] = self.script(canvas.tokens[row : row + 1, :length])[0]
        return out

    def head(self, rows: Tensor) -> Tensor:
        """Return a copy of the rows: callers write into logits."""
        return rows.float().clone()

    def embed(self, tokens: Tensor) -> Tensor:
        """Return one-hot vectors, (..., V)."""
        return F.one_hot(tokens, self.vocab_size).float()


def write_checkpoint(
    folder: Path,
    *,
    layers: int = 2,
    width: int = 32,
    heads: int = 4,
    kv_heads: int | None = None,
    inner: int = 64,
    tied: bool = False,
    max_length: int = 512,
    length: int = 32,
    shards: int = 1,
    seed: int = 0,
    dtype: torch.dtype = torch.bfloat16,
) -> Path:
    """Write a small random LLaDA in the hub's layout, as `load` reads it; return `folder`.

    The weights are a function of `seed`. `length` is the canvas, steps and block of the preset;
    `shards` is about how many weight files there are, more than one with an index.
    """
    tokenizer = tiny_tokenizer()
    config = {
        "architectures": [ARCHITECTURE],
        "d_model": width,
        "n_layers": layers,
        "n_heads": heads,
        "n_kv_heads": kv_heads or heads,
        "mlp_hidden_size": inner,
        "vocab_size": tokenizer.backend.get_vocab_size(),
        "max_sequence_length": max_length,
        "weight_tying": tied,
        "mask_token_id": tokenizer.mask_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.pad_id,
    }
    tensors = hub_tensors(_random_llada(LLaDAConfig.read(config), seed))
    size = sum(tensor.numel() * dtype.itemsize for tensor in tensors.values())
    save(
        folder,
        config,
        {"length": length, "steps": length, "block": length},
        tokenizer.backend,
        tensors,
        dtype=dtype,
        max_shard_bytes=math.ceil(size / shards),
    )
    return folder


@torch.no_grad()
def _random_llada(config: LLaDAConfig, seed: int) -> LLaDA:
    """Return a network with larger weights than training starts from: every layer must show."""
    model = LLaDA(config)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.copy_(noise / config.d_model**0.5 if parameter.dim() == 2 else 1 + 0.1 * noise)
    return model


def check_denoiser(denoiser: Denoiser) -> None:
    """Raise AssertionError, with a sentence naming what is violated, unless the contract holds."""
    _check_facts(denoiser)
    _check_tokenizer(denoiser)
    _check_logits(denoiser)
    _check_embeddings(denoiser)
    _check_batch(denoiser)
    _check_padding(denoiser)
    _check_both_ways(denoiser)
    _check_sampling(denoiser)


def check_alignment(denoiser: Denoiser, text: str, *, prompt: str = "") -> None:
    """Raise AssertionError unless row i of the logits predicts token i of a text the model knows.

    Every token is masked alone, the others in sight, and must mostly be predicted in its own place.

    Args:
        denoiser: trained.
        text: something it has surely learned, of at least 4 tokens.
        prompt: the user's turn that `text` answers; none by default.
    """
    tokenizer, device = denoiser.tokenizer, denoiser.device
    head = tokenizer.render(prompt) if prompt else []
    ids = torch.tensor([*head, *tokenizer.encode(text)], device=device)  # (L,)
    places = torch.arange(len(head), len(ids), device=device)  # (C,)
    _require(len(places) >= 4, denoiser, f"{text!r} has fewer than 4 tokens; give a longer text")
    tokens = ids.repeat(len(places), 1)  # (C, L)
    tokens[torch.arange(len(places), device=device), places] = tokenizer.mask_id
    written = (torch.arange(len(ids), device=device) >= len(head)).expand_as(tokens)
    hidden = denoiser.hidden(Canvas(tokens=tokens, canvas=written, attend=None))  # (C, L, H)
    shares = {}
    for shift in (0, -1, 1):
        rows = [i for i, place in enumerate(places.tolist()) if 0 <= place + shift < len(ids)]
        best = denoiser.head(hidden[rows, places[rows] + shift]).argmax(-1)
        shares[shift] = (best == ids[places[rows]]).double().mean().item()
    likely = max(shares, key=lambda shift: shares[shift])
    told = f"row i{likely:+d} predicts token i in {shares[likely]:.0%} of places"
    known = shares[likely] >= 0.5
    _require(known, denoiser, f"at best {told}; is {text!r} known to the model")
    _require(likely == 0, denoiser, f"logits are shifted: {told}, row i in {shares[0]:.0%}")


def check_scorer(scorer: Scorer, samples: Sequence[Sample]) -> None:
    """Raise AssertionError unless `scorer` keeps its contract on `samples` (at least two).

    That higher means more to be trusted cannot be checked without knowing which answers are right.
    """
    _require(len(samples) >= 2, scorer, "two samples are needed to see whether neighbours matter")
    _require(bool(scorer.name.strip()), scorer, "name is empty")
    together = scorer.score(samples)
    sizes = f"{len(samples)} samples gave {len(together)} scores"
    _require(len(together) == len(samples), scorer, sizes)
    for i, score in enumerate(together):
        _check_score(scorer, score, f"the score of sample {i}")
    backwards = scorer.score(samples[::-1])[::-1]
    alone = [scorer.score([s])[0] for s in samples]
    for i, score in enumerate(together):
        for how, other in (("in reverse order", backwards[i]), ("alone", alone[i])):
            _require(
                _same_score(score, other),
                scorer,
                f"sample {i} scores {score.value} in a batch and {other.value} {how}",
            )


def _check_score(scorer: Scorer, score: Score, what: str) -> None:
    if score.value is None:
        _require(bool(score.reason), scorer, f"{what} is None without a reason")
    numbers = [score.value, score.stderr, *score.by_metric.values(), *score.drift]
    numbers += [value for trips in score.by_trip.values() for value in trips]
    finite = all(math.isfinite(number) for number in numbers if number is not None)
    _require(finite, scorer, f"{what} holds NaN or infinity: {score}")
    _require(score.forwards >= 0, scorer, f"{what} cost {score.forwards} forwards")


def _same_score(one: Score, other: Score) -> bool:
    a = {"value": one.value, **one.by_metric}
    b = {"value": other.value, **other.by_metric}
    return a.keys() == b.keys() and all(_close(a[name], b[name]) for name in a)


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= 1e-5


def _require(kept: bool, who: Denoiser | Scorer, sentence: str) -> None:
    if not kept:
        raise AssertionError(f"{who.name}: {sentence}.")


def _check_facts(denoiser: Denoiser) -> None:
    for name in ("vocab_size", "max_length", "forwards_per_call"):
        value = getattr(denoiser, name)
        _require(isinstance(value, int) and value >= 1, denoiser, f"{name} is {value!r}")
    _require(bool(denoiser.name), denoiser, "name is empty")


def _check_tokenizer(denoiser: Denoiser) -> None:
    tokenizer = denoiser.tokenizer
    ends, mask_id = tokenizer.eos_ids, tokenizer.mask_id
    _require(len(ends) >= 1, denoiser, "the tokenizer names no end token")
    _require(len(set(ends)) == len(ends), denoiser, f"eos_ids {ends} repeat an id")
    _require(mask_id not in ends, denoiser, f"the mask token {mask_id} is an end token")
    _require(mask_id != tokenizer.pad_id, denoiser, f"the mask token {mask_id} pads")
    for text in _TEXTS:
        ids = _encode(denoiser, text)
        largest = max([*ids, *ends, mask_id, tokenizer.pad_id])
        _require(largest < denoiser.vocab_size, denoiser, f"id {largest} has no logit")
        if _keeps_bytes(tokenizer):
            back = tokenizer.decode(ids)
            _require(back == text, denoiser, f"text {text!r} comes back as {back!r}")
    one, other = tokenizer.render("One."), tokenizer.render("And another?")
    _require(one != other, denoiser, "render leaves the prompt out")
    _require(one[-1] == other[-1], denoiser, "render does not end with the template's own tail")
    _require(one[-1] not in ends, denoiser, "render ends with an end token, not ready for a canvas")


def _encode(denoiser: Denoiser, text: str) -> list[int]:
    try:
        return denoiser.tokenizer.encode(text)
    except Exception as error:  # whatever a backend raises, some text cannot be read
        raise AssertionError(f"{denoiser.name}: text {text!r} is refused ({error}).") from error


def _keeps_bytes(tokenizer: Tokenizer) -> bool:
    byte_level = isinstance(tokenizer.backend.decoder, decoders.ByteLevel)
    return byte_level and tokenizer.backend.normalizer is None


def _check_logits(denoiser: Denoiser) -> None:
    canvas = _rows(denoiser, _ids(denoiser, [8, 8]))
    hidden = denoiser.hidden(canvas)
    shape = tuple(hidden.shape)
    _require(
        shape[:2] == (2, 8) and len(shape) == 3, denoiser, f"hidden of (2, 8) tokens is {shape}"
    )
    logits = denoiser.head(hidden.flatten(0, 1))  # (M, V)
    wanted = (16, denoiser.vocab_size)
    _require(
        tuple(logits.shape) == wanted, denoiser, f"logits are {tuple(logits.shape)}, not {wanted}"
    )
    _require(logits.dtype == torch.float32, denoiser, f"logits are {logits.dtype}, not float32")
    # Minus infinity is how a wrapper forbids a token; a row of nothing else predicts nothing.
    _require(not logits.isnan().any(), denoiser, "logits hold NaN")
    _require(bool((logits < torch.inf).all()), denoiser, "logits hold plus infinity")
    _require(bool((logits > -torch.inf).any(1).all()), denoiser, "a row of logits allows no token")
    kept = logits.clone()
    logits.fill_(0.0)
    again = denoiser.head(hidden.flatten(0, 1))
    _require(torch.equal(kept, again), denoiser, "writing into logits changes the hidden states")
    repeated = _logits(denoiser, canvas).flatten(0, 1)
    _require(torch.equal(kept, repeated), denoiser, "the same input twice gives two results")
    picked = denoiser.head(hidden.flatten(0, 1)[[5]])
    apart = _distance(kept[[5]], picked)
    _require(apart <= _tolerance(denoiser), denoiser, f"head mixes rows: they move by {apart:.1e}")


def _check_embeddings(denoiser: Denoiser) -> None:
    tokens = torch.tensor(_ids(denoiser, [3, 3]), device=denoiser.device)
    vectors = denoiser.embed(tokens)
    shape = tuple(vectors.shape)
    _require(
        shape[:2] == (2, 3) and len(shape) == 3, denoiser, f"embed of (2, 3) tokens is {shape}"
    )
    _require(vectors.dtype == torch.float32, denoiser, f"embed gives {vectors.dtype}, not float32")
    _require(bool(vectors.isfinite().all()), denoiser, "embed gives NaN or infinity")
    alone = denoiser.embed(tokens[1, 2])
    _require(torch.equal(alone, vectors[1, 2]), denoiser, "embed depends on more than the token")


def _check_batch(denoiser: Denoiser) -> None:
    rows = _ids(denoiser, [12, 12, 12])
    together = _logits(denoiser, _rows(denoiser, rows))
    for i, row in enumerate(rows):
        alone = _logits(denoiser, _rows(denoiser, [row]))[0]
        apart = _distance(alone, together[i])
        close = apart <= _tolerance(denoiser)
        _require(close, denoiser, f"a row alone and in a batch differ by {apart:.1e}")


def _check_padding(denoiser: Denoiser) -> None:
    rows = _ids(denoiser, [5, 12, 9])
    canvas = _rows(denoiser, rows)
    padded = _logits(denoiser, canvas)
    real = torch.tensor([[i < len(row) for i in range(12)] for row in rows], device=padded.device)
    filled = canvas.tokens.where(real, rows[1][0])  # a text token
    other = _logits(denoiser, replace(canvas, tokens=filled))
    tolerance = _tolerance(denoiser)
    for i, row in enumerate(rows):
        alone = _logits(denoiser, _rows(denoiser, [row]))[0]
        apart = _distance(alone, padded[i, : len(row)])
        close = apart <= tolerance
        _require(close, denoiser, f"padding a row of {len(row)} to 12 moves logits by {apart:.1e}")
        apart = _distance(other[i, : len(row)], padded[i, : len(row)])
        _require(apart <= tolerance, denoiser, f"the padding token moves logits by {apart:.1e}")


def _check_both_ways(denoiser: Denoiser) -> None:
    (row,) = _ids(denoiser, [12])
    before = _logits(denoiser, _rows(denoiser, [row]))[0]
    for changed, reader, what in (
        (11, slice(0, 10), "no earlier position sees the last token: attention is causal"),
        (0, slice(2, 12), "no later position sees the first token"),
    ):
        other = [*row]
        other[changed] = row[changed - 3]  # not a neighbour: those may be equal
        after = _logits(denoiser, _rows(denoiser, [other]))[0]
        _require(_distance(before[reader], after[reader]) > 0, denoiser, what)


def _check_sampling(denoiser: Denoiser) -> None:
    prompts = [denoiser.tokenizer.render(text) for text in ("One.", "And another?")]
    size = denoiser.block_size or 4
    for steps, temperature in ((4, 0.0), (2, 1.0)):
        settings = SamplerSettings(length=size, steps=steps, block=size, temperature=temperature)
        for answer in sample(denoiser, prompts, settings, items=["a", "b"]):
            unmasked = denoiser.tokenizer.mask_id not in answer.canvas
            _require(unmasked, denoiser, "the sampler leaves the mask token in an answer")
            cost = steps * denoiser.forwards_per_call
            # A model's own blocks begin with the row: the canvas lies in two, or ends in the first.
            spent = cost if denoiser.block_size is None else min(answer.forwards, 2 * cost)
            _require(answer.forwards == spent, denoiser, f"{steps} steps cost {answer.forwards}")
    row = [prompts[0][0]] * denoiser.max_length
    try:
        sample(denoiser, [row], settings, items=["a"])
    except InputError:
        return
    _require(False, denoiser, f"a row longer than max_length {denoiser.max_length} is accepted")


def _ids(denoiser: Denoiser, lengths: Sequence[int]) -> list[list[int]]:
    """Return rows of distinct text tokens, every third one masked and the two ends in sight."""
    text = sorted(set(range(denoiser.vocab_size)) - denoiser.tokenizer.special_ids)
    rows = []
    for number, length in enumerate(lengths):
        state = torch.tensor(rng.key(0, str(number), "conformance"))
        order = rng.uniform(state, torch.arange(len(text))).argsort()[:length].tolist()
        masked = range(1, length - 1, 3)
        rows.append(
            [denoiser.tokenizer.mask_id if i in masked else text[k] for i, k in enumerate(order)]
        )
    return rows


def _rows(denoiser: Denoiser, rows: Sequence[Sequence[int]]) -> Canvas:
    """Return the batch; the first three tokens of a row are its prompt."""
    return Canvas.of(
        [row[:3] for row in rows],
        [row[3:] for row in rows],
        denoiser.tokenizer.pad_id,
        denoiser.device,
    )


def _logits(denoiser: Denoiser, canvas: Canvas) -> Tensor:
    rows = denoiser.hidden(canvas).flatten(0, 1)  # (B L, H)
    return denoiser.head(rows).view(*canvas.tokens.shape, -1)  # (B, L, V)


def _distance(a: Tensor, b: Tensor) -> float:
    """Return the largest difference as a share of the largest logit; two infinities are equal."""
    scale = a[a.isfinite()].abs().max().clamp(min=1.0)
    apart = (a - b).abs().masked_fill(a == b, 0.0)
    return (apart.max() / scale).item()


def _tolerance(denoiser: Denoiser) -> float:
    return _TOLERANCE[denoiser.hidden(_rows(denoiser, _ids(denoiser, [4]))).dtype]
