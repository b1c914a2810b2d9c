"""The contract of a denoiser, check by check."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from tokenizers import decoders
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser, block_causal, starts_apart
from remask.denoisers.kv_cache import KVCache
from remask.denoisers.tokenizer import Tokenizer
from remask.errors import InputError
from remask.sampling.batches import whole_length
from remask.sampling.sampler import sample
from remask.sampling.settings import SamplerSettings
from remask.settings import checked
from remask.testing.require import require
from remask.values import Canvas

_TEXTS = (
    "", " ", "a", "  two  spaces\n\n\tand a tab ", "12,345.67 + 8 = ?", "naïve café, e\u0301",
    "漢字 и кириллица", "🦆👩‍🔬\u200b\ufeff\x00\x7f", "\r\n ends \n\r",
    "{prompt} {0} %s \\boxed{1}",
)  # fmt: skip
# Largest difference that rounding may make, as a share of the largest logit (at least 1).
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@checked
def check_denoiser(denoiser: Denoiser) -> None:
    """Raise AssertionError, with a sentence naming what is violated, unless the contract holds."""
    _check_facts(denoiser)
    _check_tokenizer(denoiser)
    _check_logits(denoiser)
    _check_embeddings(denoiser)
    _check_batch(denoiser)
    _check_padding(denoiser)
    _check_both_ways(denoiser)
    if denoiser.block_size is not None:
        _check_past(denoiser, denoiser.block_size)
        _check_doubled(denoiser, denoiser.block_size)
    _check_sampling(denoiser)


@checked
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
    require(len(places) >= 4, denoiser, f"{text!r} has fewer than 4 tokens; give a longer text")
    tokens = ids.repeat(len(places), 1)  # (C, L)
    tokens[torch.arange(len(places), device=device), places] = tokenizer.mask_id
    written = (torch.arange(len(ids), device=device) >= len(head)).expand_as(tokens)
    hidden = denoiser.hidden(Canvas(tokens=tokens, canvas=written, attend=None))  # (C, L, H)
    shares = {}
    for shift in (0, -1, 1):
        rows = [i for i, place in enumerate(places.tolist()) if 0 <= place + shift < len(ids)]
        best = denoiser.head(hidden[rows, places[rows] + shift]).argmax(-1)
        shares[shift] = (best == ids[places[rows]]).cpu().double().mean().item()
    likely = max(shares, key=lambda shift: shares[shift])
    observed = f"row i{likely:+d} predicts token i in {shares[likely]:.0%} of places"
    known = shares[likely] >= 0.5
    require(known, denoiser, f"at best {observed}; is {text!r} known to the model")
    require(likely == 0, denoiser, f"logits are shifted: {observed}, row i in {shares[0]:.0%}")


def _check_facts(denoiser: Denoiser) -> None:
    for name in ("vocab_size", "max_length", "forwards_per_call"):
        value = getattr(denoiser, name)
        require(isinstance(value, int) and value >= 1, denoiser, f"{name} is {value!r}")
    require(bool(denoiser.name), denoiser, "name is empty")


def _check_tokenizer(denoiser: Denoiser) -> None:
    tokenizer = denoiser.tokenizer
    ends, mask_id = tokenizer.eos_ids, tokenizer.mask_id
    require(len(ends) >= 1, denoiser, "the tokenizer names no end token")
    require(len(set(ends)) == len(ends), denoiser, f"eos_ids {ends} repeat an id")
    require(mask_id not in ends, denoiser, f"the mask token {mask_id} is an end token")
    require(mask_id != tokenizer.pad_id, denoiser, f"the mask token {mask_id} pads")
    for text in _TEXTS:
        ids = _encode(denoiser, text)
        largest = max([*ids, *ends, mask_id, tokenizer.pad_id])
        require(largest < denoiser.vocab_size, denoiser, f"id {largest} has no logit")
        if _keeps_bytes(tokenizer):
            back = tokenizer.decode(ids)
            require(back == text, denoiser, f"text {text!r} comes back as {back!r}")
    one, other = tokenizer.render("One."), tokenizer.render("And another?")
    require(one != other, denoiser, "render leaves the prompt out")
    require(one[-1] == other[-1], denoiser, "render does not end with the template's own tail")
    require(one[-1] not in ends, denoiser, "render ends with an end token, not ready for a canvas")


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
    require(
        shape[:2] == (2, 8) and len(shape) == 3, denoiser, f"hidden of (2, 8) tokens is {shape}"
    )
    logits = denoiser.head(hidden.flatten(0, 1))  # (M, V)
    wanted = (16, denoiser.vocab_size)
    require(
        tuple(logits.shape) == wanted, denoiser, f"logits are {tuple(logits.shape)}, not {wanted}"
    )
    require(logits.dtype == torch.float32, denoiser, f"logits are {logits.dtype}, not float32")
    # Minus infinity is how a wrapper forbids a token; a row of nothing else predicts nothing.
    require(not logits.isnan().any(), denoiser, "logits hold NaN")
    require(bool((logits < torch.inf).all()), denoiser, "logits hold plus infinity")
    require(bool((logits > -torch.inf).any(1).all()), denoiser, "a row of logits allows no token")
    first = logits.clone()
    logits.fill_(0.0)
    again = denoiser.head(hidden.flatten(0, 1))
    require(torch.equal(first, again), denoiser, "writing into logits changes the hidden states")
    repeated = _logits(denoiser, canvas).flatten(0, 1)
    require(torch.equal(first, repeated), denoiser, "the same input twice gives two results")
    picked = denoiser.head(hidden.flatten(0, 1)[[5]])
    apart = _distance(first[[5]], picked)
    require(apart <= _tolerance(denoiser), denoiser, f"head mixes rows: they move by {apart:.1e}")


def _check_embeddings(denoiser: Denoiser) -> None:
    tokens = torch.tensor(_ids(denoiser, [3, 3]), device=denoiser.device)
    vectors = denoiser.embed(tokens)
    shape = tuple(vectors.shape)
    require(shape[:2] == (2, 3) and len(shape) == 3, denoiser, f"embed of (2, 3) tokens is {shape}")
    require(vectors.dtype == torch.float32, denoiser, f"embed gives {vectors.dtype}, not float32")
    require(bool(vectors.isfinite().all()), denoiser, "embed gives NaN or infinity")
    alone = denoiser.embed(tokens[1, 2])
    require(torch.equal(alone, vectors[1, 2]), denoiser, "embed depends on more than the token")


def _check_batch(denoiser: Denoiser) -> None:
    rows = _ids(denoiser, [12, 12, 12])
    together = _logits(denoiser, _rows(denoiser, rows))
    for i, row in enumerate(rows):
        alone = _logits(denoiser, _rows(denoiser, [row]))[0]
        apart = _distance(alone, together[i])
        close = apart <= _tolerance(denoiser)
        require(close, denoiser, f"a row alone and in a batch differ by {apart:.1e}")


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
        require(close, denoiser, f"padding a row of {len(row)} to 12 moves logits by {apart:.1e}")
        apart = _distance(other[i, : len(row)], padded[i, : len(row)])
        require(apart <= tolerance, denoiser, f"the padding token moves logits by {apart:.1e}")


def _check_both_ways(denoiser: Denoiser) -> None:
    # The row ends with a block: one that has only begun shows its last token to nobody.
    length = 3 + whole_length(denoiser, 3, 9)
    (row,) = _ids(denoiser, [length])
    before = _logits(denoiser, _rows(denoiser, [row]))[0]
    size = denoiser.block_size or length
    # Of a small block that is shifted only the last but one sees the last, or nobody.
    nearest = length - (2 if size > 3 else 1)
    causal = "no earlier position sees the last token: attention is causal"
    for changed, reader, what in (
        (length - 1, slice(0, nearest), causal),
        (0, slice(2, length), "no later position sees the first token"),
    ):
        if changed and size < 3:
            continue
        other = [*row]
        other[changed] = row[changed - 3]  # not a neighbour: those may be equal
        after = _logits(denoiser, _rows(denoiser, [other]))[0]
        require(_distance(before[reader], after[reader]) > 0, denoiser, what)


def _first_end(denoiser: Denoiser, size: int) -> int:
    """Return where blocks of a row end, the first or those of its prompt, which has 3 tokens."""
    return 3 if starts_apart(denoiser) else size


def _check_past(denoiser: Denoiser, size: int) -> None:
    end = _first_end(denoiser, size)
    rows = _ids(denoiser, [end + size + (size + 1) // 2, end + 1])
    canvas = _rows(denoiser, rows)
    whole = _logits(denoiser, canvas)  # (2, L, V)

    def alike(start: int, shown: Tensor, what: str, numbers: Sequence[int] = (0, 1)) -> None:
        for i, number in enumerate(numbers):
            expected = whole[number, start : len(rows[number])]
            num = min(len(expected), shown.shape[1])
            _require_close(denoiser, expected[:num], shown[i, :num], what)

    first, second = _cut(canvas, 0, end), _cut(canvas, end, size)
    last = _cut(canvas, end + size, size)
    alike(0, _logits(denoiser, first), "later blocks move")
    model = block_causal(denoiser)
    cache = model.extend_cache(first)
    alike(end, _logits(denoiser, second, cache), "a cache moves")
    alike(end, _logits(denoiser, _cut(canvas, end, 2 * size), cache), "two blocks behind it move")
    lone = replace(
        second, tokens=second.tokens[1:], canvas=second.canvas[1:], attend=None,
        places=second.offsets[1:],
    )  # fmt: skip
    lone = _cut(lone, 0, 1)  # the row ends here
    left = cache.rows(torch.tensor([1], device=denoiser.device))
    alike(end, _logits(denoiser, lone, left), "leaving a batch moves", [1])
    cache = model.extend_cache(second, cache)
    alike(end + size, _logits(denoiser, last, cache), "a cache kept block by block moves")
    cache = model.extend_cache(_cut(canvas, 0, end + size))
    alike(end + size, _logits(denoiser, last, cache), "a cache kept in one pass moves")


def _check_doubled(denoiser: Denoiser, size: int) -> None:
    end = _first_end(denoiser, size)
    rows = _ids(denoiser, [end + size + (size + 1) // 2, end + 1])
    canvas = _rows(denoiser, rows)
    masked = canvas.tokens == denoiser.tokenizer.mask_id
    clean = canvas.tokens.masked_fill(masked, rows[0][0])
    shown = block_causal(denoiser).hidden_noisy_given_clean(canvas, clean)  # (2, L, H)
    logits = denoiser.head(shown.flatten(0, 1)).view(*clean.shape, -1)
    columns = torch.arange(clean.shape[1], device=clean.device)
    for start in range(end - size, clean.shape[1], size):
        tokens = torch.where(columns < start, clean, canvas.tokens)
        expected = _logits(denoiser, replace(canvas, tokens=tokens))
        for i, row in enumerate(rows):
            block = slice(max(0, start), min(start + size, len(row)))
            _require_close(denoiser, expected[i, block], logits[i, block], "doubling a row moves")


def _require_close(denoiser: Denoiser, expected: Tensor, shown: Tensor, what: str) -> None:
    apart = _distance(expected, shown) if expected.numel() else 0.0
    require(apart <= _tolerance(denoiser) / 10, denoiser, f"{what} logits by {apart:.1e}")


def _cut(canvas: Canvas, start: int, num: int) -> Canvas:
    """Return `num` columns of all rows."""
    here = slice(start, start + num)
    attend = None if canvas.attend is None else canvas.attend[:, here]
    return Canvas(
        tokens=canvas.tokens[:, here],
        canvas=canvas.canvas[:, here],
        attend=attend,
        places=canvas.offsets[:, here],
    )


def _check_sampling(denoiser: Denoiser) -> None:
    prompts = [denoiser.tokenizer.render(text) for text in ("One.", "And another?")]
    size = denoiser.block_size or 4
    for steps, temperature in ((4, 0.0), (2, 1.0)):
        settings = SamplerSettings(length=size, steps=steps, block=size, temperature=temperature)
        for answer in sample(denoiser, prompts, settings, items=["a", "b"]):
            unmasked = denoiser.tokenizer.mask_id not in answer.canvas
            require(unmasked, denoiser, "the sampler leaves the mask token in an answer")
            cost = steps * denoiser.forwards_per_call
            # A model's own blocks begin with the row: the canvas lies in two, or ends in the first,
            # and the cache takes a pass for the prompt and one for the first of two.
            most = 2 * cost + 2 * denoiser.forwards_per_call
            spent = cost if denoiser.block_size is None else min(answer.forwards, most)
            require(answer.forwards == spent, denoiser, f"{steps} steps cost {answer.forwards}")
    row = [prompts[0][0]] * denoiser.max_length
    try:
        sample(denoiser, [row], settings, items=["a"])
    except InputError:
        return
    require(False, denoiser, f"a row longer than max_length {denoiser.max_length} is accepted")


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


def _logits(denoiser: Denoiser, canvas: Canvas, cache: KVCache | None = None) -> Tensor:
    hidden = (
        denoiser.hidden(canvas) if cache is None else block_causal(denoiser).hidden(canvas, cache)
    )
    rows = hidden.flatten(0, 1)  # (B L, H)
    return denoiser.head(rows).view(*canvas.tokens.shape, -1)  # (B, L, V)


def _distance(a: Tensor, b: Tensor) -> float:
    """Return the largest difference as a share of the largest logit; two infinities are equal."""
    scale = a[a.isfinite()].abs().max().clamp(min=1.0)
    apart = (a - b).abs().masked_fill(a == b, 0.0)
    return (apart.max() / scale).item()


def _tolerance(denoiser: Denoiser) -> float:
    return _TOLERANCE[denoiser.hidden(_rows(denoiser, _ids(denoiser, [4]))).dtype]
