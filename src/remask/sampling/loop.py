"""The one denoising loop: from masked tokens to revealed ones, step by step.

Each step predicts every masked position and keeps some of the predictions for good: which ones, a
`Rule` says, how many, a schedule. Writing an answer and rebuilding one are both this loop.

The rules are those the models were published with: LLaDA's, Dream's four orders (arXiv:2508.15487),
and the confidence threshold of Fast-dLLM (arXiv:2505.22618), which is that of LLaDA2.0
(arXiv:2512.15745) too. LLaDA2.0 and SDAR ask for more than the threshold, where Fast-dLLM and this
loop ask for no less; that is seen at a threshold of 1 alone. Above temperature 0 their confidence
is that of the order `maskgit_plus`. Ties go to the earlier position. Probabilities within 1e-7 of 1
are equal in float32, and log-probabilities within 1e-6 often are: such positions are unmasked from
left to right.

Departures from the published loops of LLaDA and Dream: the mask token is never predicted,
probabilities are float32, those that are reported are untempered and unfiltered, and noise is keyed
by row (see `rng`), so at a temperature above 0 tokens are distributed as theirs, and at 0 they are
theirs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from remask import rng
from remask.denoisers.base import Denoiser, block_causal
from remask.denoisers.kv_cache import KVCache
from remask.errors import SettingsError
from remask.sampling.commit import commit_threshold, opens, token_gap
from remask.sampling.outputs import checked_states, fault_in, log_probs, logits_of, raise_fault
from remask.sampling.schedule import Schedule
from remask.sampling.settings import BLIND_ORDERS, DREAM_ORDERS, HEAD_ELEMENTS, Order, Rule
from remask.sampling.trace import BlockTrace
from remask.values import Canvas

LAST = -1e9  # below every confidence, and finite: places that are not masked come later still
# Counters of draws that belong to a place or a row, below those of the vocabulary's tokens.
PLACE, _ORDER = -2, -3
_CONFIDENT = Rule()  # the most confident first


class Denoised(NamedTuple):
    """What the loop leaves behind, on the model's device."""

    tokens: Tensor  # (B, L)
    probs: Tensor  # (B, L) of each token when it was revealed; 1 where it was given
    steps: Tensor  # (B, L) the step that revealed it, -1 where it was given
    confidence: Tensor  # (B,) mean over steps of the mean highest probability at watched positions
    watched: Tensor  # (B,) steps that had such positions
    logp: Tensor  # (B, L) log p of `truth` at the first step, 0 where not masked
    forwards: Tensor  # (B,) forward passes each row needed: one for every step it took part in


class Prediction(NamedTuple):
    """What the head says of M gathered rows."""

    tokens: Tensor  # (M,)
    logp: Tensor  # (M,) of those tokens, untempered
    top: Tensor  # (M,) the highest log-probability
    fault: Tensor  # () see `outputs.fault_in`
    truth: Tensor  # (M,) log-probability of the tokens asked about
    sure: Tensor  # (M,) the confidence that ranks them
    # Before temperature and filters, and (0,) where nobody needs them:
    likeliest: Tensor  # (M,) tokens
    entropy: Tensor  # (M,) in nats
    gap: Tensor  # (M,) between the two likeliest tokens, in logits
    top_tokens: Tensor  # (M, K) the likeliest of all, and
    top_logp: Tensor  # (M, K) their log-probabilities; K is 0 where nobody needs them


def denoise(
    denoiser: Denoiser,
    canvas: Canvas,
    schedule: Schedule,
    steps: int,
    *,
    within: Tensor | None = None,
    cache: KVCache | None = None,
    temperature: float = 0.0,
    rule: Rule = _CONFIDENT,
    keys: Tensor | None = None,
    watch: Tensor | None = None,
    truth: Tensor | None = None,
    steady: bool = False,
    skips_idle: bool = False,
    trace: BlockTrace | None = None,
) -> Denoised:
    """Reveal every masked token of `canvas` (or of its positions `within`) in `steps` steps.

    Args:
        denoiser: predicts.
        canvas: rows; their masked positions are those that hold the mask token.
        schedule: (masked per row (B,), steps) -> reveals (S, B).
        steps: forward passes; a rule with a threshold or a gap may do with fewer.
        within: (B, L) bool, the block being written; everything masked by default.
        cache: of the columns before those of `canvas`, where the model is block-causal.
        temperature: Gumbel noise on the logits; 0 is greedy.
        rule: which tokens may be drawn, and which places go first; the most confident by default.
        keys: (B,) random streams; needed by temperature > 0 and by rules that draw places.
        watch: (B, L) bool, positions whose highest probability is averaged; the canvas by default.
        truth: (B, L) tokens whose log-probability at the first step is wanted.
        steady: a step reveals its count, although a threshold may have brought it ahead of it.
        skips_idle: a step that unmasks nothing of a row takes no pass of it: the next prediction is
            of the same tokens, and counts for both steps. Not for a rule with a threshold or a gap.
        trace: is shown every step.
    """
    keys = _keys(keys, drawn=temperature > 0 or draws_places(rule))
    tokens, offsets = canvas.tokens, canvas.offsets
    masked = _masked(tokens, within, denoiser.tokenizer.mask_id)
    notes = _Notes(tokens, canvas.canvas if watch is None else watch, trace)
    truth = (tokens if truth is None else truth).flatten()
    hidden, num_top = hidden_behind(denoiser, cache), trace.num_top if trace else 0
    pace = _Pace(masked, schedule(masked.sum(1), steps), rule, steady, skips_idle)
    for step in range(steps):
        num_places = pace.num_masked(step, masked)
        if num_places == 0:
            break
        # A stable sort lists the masked places first; unlike nonzero() it needs no host read.
        places = (~masked).flatten().byte().argsort(stable=True)[:num_places]  # (M,)
        # Streams of this step, one per position of each row's own canvas: blind to the batch.
        number = pace.numbers[step]  # (B,)
        streams = None if keys is None else rng.fold_in(rng.fold_in(keys, number)[:, None], offsets)
        noise = _noise(temperature, streams, places)
        rows = hidden(replace(canvas, tokens=tokens)).flatten(0, 1)[places]  # (M, H)
        predicted = predict(
            denoiser, rows, truth[places], rule, noise, entropy=trace is not None, num_top=num_top
        )
        rank = _ranked(scatter(predicted.sure, places, masked.shape, -1.0), rule, streams)
        predicted, revealed = pace.reveal(step, predicted, places, rank, masked)
        drawn = scatter(predicted.tokens, places, masked.shape, 0)
        tokens = torch.where(revealed, drawn, tokens)
        notes.note(step, pace, predicted, tokens, places, masked, revealed)
        masked = masked & ~revealed
    return notes.finish(tokens, denoiser)


def hidden_behind(denoiser: Denoiser, cache: KVCache | None) -> Callable[[Canvas], Tensor]:
    """Return `hidden` of the columns behind a cache, or of whole rows without a cache."""
    own = denoiser.hidden
    states = own if cache is None else partial(block_causal(denoiser).hidden, cache=cache)
    return lambda canvas: checked_states(denoiser, states(canvas), canvas.tokens)


def _masked(tokens: Tensor, within: Tensor | None, mask_id: int) -> Tensor:
    masked = tokens == mask_id
    return masked if within is None else masked & within


def _keys(keys: Tensor | None, *, drawn: bool) -> Tensor | None:
    """Return the streams, (B,), or None where nothing is drawn from them."""
    if drawn and keys is None:
        raise SettingsError("temperature and drawn places need keys: one stream per row.")
    return keys if drawn else None


def _noise(
    temperature: float, streams: Tensor | None, places: Tensor
) -> tuple[float, Tensor] | None:
    """Return the temperature and the streams of flat `places`; None where nothing is drawn."""
    if streams is None or temperature == 0:
        return None
    return temperature, streams.flatten()[places]


def _ranked(sure: Tensor, rule: Rule, streams: Tensor | None) -> Tensor:
    """Return what positions are ranked by, (B, L), with the draws of a rule that has some.

    The highest of confidence / temperature + Gumbel noise are positions drawn one after another
    without replacement from softmax(confidence / temperature), as Dream's multinomial draws them.
    """
    if rule.order == "sequential":
        return -torch.arange(sure.shape[1], dtype=sure.dtype, device=sure.device).expand_as(sure)
    if streams is not None and rule.order in BLIND_ORDERS:
        return rng.uniform(streams, PLACE)
    if streams is not None and rule.order_temperature > 0:
        return sure / rule.order_temperature + rng.gumbel(streams, _ORDER)
    return sure


class _Pace:
    """How many places of each row a step reveals: `reveals` (S, B), and what a rule adds."""

    def __init__(
        self, masked: Tensor, reveals: Tensor, rule: Rule, steady: bool, skips_idle: bool
    ) -> None:
        steps = torch.arange(len(reveals), device=masked.device)[:, None].expand_as(reveals)
        if skips_idle:  # each row goes from one step that unmasks tokens to the next
            order = (reveals == 0).byte().argsort(dim=0, stable=True)
            reveals, steps = reveals.gather(0, order), steps.gather(0, order)
        self.numbers = steps  # (S, B) the step of the schedule that each row takes
        self.repeats = torch.diff(steps, dim=0, prepend=torch.full_like(steps[:1], -1))  # (S, B)
        self.reveals, self.rule, self.steady = reveals, rule, steady
        self.left = masked.sum(1) - reveals.cumsum(0)  # (S, B) that may stay masked
        early = rule.reveal_threshold is not None or rule.commit_gap is not None
        self.totals = None if early else self._totals(masked)

    def _totals(self, masked: Tensor) -> list[int]:
        """Return the batch's masked tokens before each step: the one host read of the loop."""
        each = self.reveals.sum(1)
        return [int(total) for total in (masked.sum() - each.cumsum(0) + each).tolist()]

    def num_masked(self, step: int, masked: Tensor) -> int:
        """Return the batch's masked tokens before this step.

        What a rule that stops early leaves is known only now: the price is a host read.
        """
        return int(masked.sum()) if self.totals is None else self.totals[step]

    def reveal(
        self, step: int, predicted: Prediction, places: Tensor, rank: Tensor, masked: Tensor
    ) -> tuple[Prediction, Tensor]:
        """Return what this step takes over of a prediction, and at which places, (B, L) bool."""
        left = masked.sum(1) - self.reveals[step] if self.steady else self.left[step]
        due = num_due(rank, masked, left, self.rule.reveal_threshold)
        revealed = pick(rank, masked, due)
        if self.rule.commit_gap is None:
            return predicted, revealed
        gaps = scatter(predicted.gap, places, masked.shape, 0.0)
        threshold = commit_threshold(self.rule.commit_gap, step, len(self.reveals))
        committed = masked & opens(gaps, masked, threshold)[:, None]
        here = committed.flatten()[places]  # (M,)
        sure = predicted._replace(
            tokens=torch.where(here, predicted.likeliest, predicted.tokens),
            logp=torch.where(here, predicted.top, predicted.logp),
        )
        return sure, revealed | committed


class _Notes:
    """What is written down on the way, all of it on the device."""

    def __init__(self, tokens: Tensor, watch: Tensor, trace: BlockTrace | None) -> None:
        device = tokens.device
        self.watch, self.trace = watch, trace
        self.probs = torch.ones(tokens.shape, device=device)
        self.steps = torch.full_like(tokens, -1)
        self.logp = torch.zeros(tokens.shape, device=device)
        self.watched, self.seen, self.busy = torch.zeros(3, len(tokens), device=device)
        self.fault = torch.zeros((), dtype=torch.uint8, device=device)

    def note(
        self,
        step: int,
        pace: _Pace,
        predicted: Prediction,
        tokens: Tensor,
        places: Tensor,
        masked: Tensor,
        revealed: Tensor,
    ) -> None:
        """Take down one step; `masked` as it was before it, `tokens` as they are now."""
        looking = masked & self.watch
        num_looking = looking.sum(1)
        top = scatter(predicted.top.exp(), places, masked.shape, 0.0)
        watched = (top * looking).sum(1) / num_looking.clamp(min=1)
        repeats = pace.repeats[step] * (num_looking > 0)  # (B,)
        self.watched += watched * repeats
        self.seen += repeats
        self.busy += masked.any(1)
        self.fault = torch.maximum(self.fault, predicted.fault)
        if step == 0:
            self.logp = scatter(predicted.truth, places, masked.shape, 0.0)
        prob = scatter(predicted.logp.exp(), places, masked.shape, 1.0)
        self.probs = torch.where(revealed, prob, self.probs)
        self.steps = torch.where(revealed, pace.numbers[step][:, None], self.steps)
        if self.trace is not None:
            entropy = scatter(predicted.entropy, places, masked.shape, 0.0)
            likeliest = scatter(predicted.likeliest, places, masked.shape, 0)
            tentative = torch.where(masked & ~revealed, likeliest, tokens)
            self.trace.note(tentative, entropy, masked, revealed)
            self.trace.note_top(predicted.top_tokens, predicted.top_logp, places, revealed)

    def finish(self, tokens: Tensor, denoiser: Denoiser) -> Denoised:
        """Return the outcome, or raise if a logit was not finite."""
        raise_fault(denoiser, self.fault)
        return Denoised(
            tokens=tokens,
            probs=self.probs,
            steps=self.steps,
            confidence=self.watched / self.seen.clamp(min=1),
            watched=self.seen,
            logp=self.logp,
            forwards=self.busy.long() * denoiser.forwards_per_call,
        )


def predict(
    denoiser: Denoiser,
    rows: Tensor,
    truth: Tensor,
    rule: Rule,
    noise: tuple[float, Tensor] | None,
    *,
    entropy: bool = False,
    num_top: int = 0,
) -> Prediction:
    """Return the prediction at gathered rows (M, H), projecting a bounded number at a time.

    `num_top` of the likeliest tokens of each are told, entropies where they are wanted.
    """
    # Noise is float64 and needs several tensors of that size at once, a closer look some more.
    plain = noise is None and not looks_closer(rule) and not filters_tokens(rule)
    size = max(1, HEAD_ELEMENTS // denoiser.vocab_size // (1 if plain else 8))
    parts = []
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        logits = logits_of(denoiser, rows[part])  # (m, V)
        best, likeliest = logits.max(1)
        tokens, sure = likeliest, None
        if not plain:
            here = None if noise is None else (noise[0], noise[1][part])
            ends, cuts = denoiser.tokenizer.eos_ids, denoiser.preset.cuts_top_k_first
            tokens, sure = _choose(logits, tokens, rule, here, ends, top_k_first=cuts)
        chosen = logits.gather(1, tokens[:, None])[:, 0]
        known = logits.gather(1, truth[part, None])[:, 0]
        gap = best[:0] if rule.commit_gap is None else token_gap(logits)
        top_logits, top_tokens = _likeliest(logits, num_top)
        # In place: a second tensor of this size would double the peak memory.
        total = logits.sub_(best[:, None]).exp_().sum(1).log_().add_(best)  # (m,)
        logp = log_probs(chosen, total)
        parts.append(
            Prediction(
                tokens=tokens,
                logp=logp,
                top=best - total,
                fault=fault_in(best)[None],
                truth=log_probs(known, total),
                sure=logp.exp() if sure is None else sure,
                likeliest=likeliest if entropy or len(gap) else likeliest[:0],
                entropy=_entropy(logits) if entropy else best[:0],
                gap=gap,
                top_tokens=top_tokens,
                top_logp=top_logits - total[:, None],
            )
        )
    whole = Prediction(*(torch.cat(field) for field in zip(*parts, strict=True)))
    return whole._replace(fault=whole.fault.amax())


def _likeliest(logits: Tensor, num_top: int) -> tuple[Tensor, Tensor]:
    """Return the highest logits of each row (m, V) and their tokens, (m, K)."""
    if num_top == 0:
        return logits[:, :0], logits[:, :0].long()
    best = logits.topk(min(num_top, logits.shape[1]), dim=1)
    return best.values, best.indices


def _entropy(odds: Tensor) -> Tensor:
    """Return the entropy, (m,), of rows of `odds` (m, V), which are written over."""
    mass = odds.sum(1)
    torch.special.entr(odds, out=odds)
    return odds.sum(1) / mass + mass.log()


def _choose(
    logits: Tensor,
    tokens: Tensor,
    rule: Rule,
    noise: tuple[float, Tensor] | None,
    ends: Sequence[int],
    *,
    top_k_first: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return a token per row of `logits`, (m,), and the confidence where the rule looks closer."""
    temperature, streams = (1.0, None) if noise is None else noise
    odds = logits
    if filters_tokens(rule):
        allowed = filtered(logits / temperature, rule.top_p, rule.top_k, top_k_first=top_k_first)
        odds = logits.masked_fill(~allowed, -torch.inf)
    if streams is not None:
        draws = rng.gumbel(streams[:, None], torch.arange(logits.shape[1], device=logits.device))
        tokens = (odds.to(draws.dtype) + temperature * draws).argmax(1)
    if not looks_closer(rule):
        return tokens, None
    seen = odds / temperature if rule.order in DREAM_ORDERS else logits
    return tokens, certainty(rule.order, seen, tokens, ends if rule.ends_last else ())


def scatter(values: Tensor, places: Tensor, shape: torch.Size, rest: float) -> Tensor:
    """Return a tensor of `shape` with `values` at flat `places` and `rest` elsewhere."""
    out = torch.full((shape.numel(),), rest, dtype=values.dtype, device=values.device)
    return out.scatter_(0, places, values).view(shape)


def draws_places(rule: Rule) -> bool:
    """Say whether places are drawn, so that rows need random streams."""
    return rule.order in BLIND_ORDERS or rule.order_temperature > 0


def filters_tokens(rule: Rule) -> bool:
    """Say whether some tokens may not be drawn."""
    return rule.top_k is not None or (rule.top_p is not None and rule.top_p < 1)


def looks_closer(rule: Rule) -> bool:
    """Say whether the confidence is another number than the probability of the token."""
    blind = rule.order in (*BLIND_ORDERS, "sequential")
    return not blind and (rule.order != "low_confidence" or rule.ends_last)


def num_due(confidence: Tensor, masked: Tensor, left: Tensor, threshold: float | None) -> Tensor:
    """Return how many to reveal now, (B,), so that at most `left` (B,) stay masked.

    With a threshold it is also all from there up, and at least one: the schedule has become the
    slowest that is allowed.
    """
    due = masked.sum(1) - left
    if threshold is None:
        return due
    sure = (masked & (confidence >= threshold)).sum(1)
    return torch.maximum(sure, due).clamp(min=1)


def pick(confidence: Tensor, masked: Tensor, num_reveal: Tensor) -> Tensor:
    """Return the most confident `num_reveal` masked positions of each row, (B, L) bool.

    Ties go to the earlier position, so a row's choice does not depend on its neighbours.
    """
    ranked = confidence.masked_fill(~masked, -torch.inf)
    order = ranked.argsort(dim=1, descending=True, stable=True)  # (B, L)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(order.shape[1], device=order.device).expand_as(order))
    return masked & (rank < num_reveal[:, None])


def certainty(order: Order, logits: Tensor, tokens: Tensor, last: Sequence[int] = ()) -> Tensor:
    """Return the confidence in `tokens` (M,) under `logits` (M, V), (M,); higher goes first.

    Tokens of `last` come last, and the others are compared as if there were no such tokens.
    """
    if not last:
        return _sureness(order, logits.softmax(1), tokens)
    others, late = logits.clone(), torch.zeros_like(tokens, dtype=torch.bool)
    for token in last:  # one by one: a list of ids would have to travel to the device
        others[:, token] = -torch.inf
        late |= tokens == token
    return _sureness(order, others.softmax(1), tokens).masked_fill(late, LAST)


def _sureness(order: Order, probs: Tensor, tokens: Tensor) -> Tensor:
    if order == "topk_margin":
        first, second = probs.topk(2, dim=1).values.unbind(1)
        return first - second
    if order == "entropy":
        return (probs * (probs + 1e-10).log()).sum(1)  # Dream's guard against log 0
    return probs.gather(1, tokens[:, None])[:, 0]


def filtered(
    logits: Tensor, top_p: float | None, top_k: int | None, *, top_k_first: bool = False
) -> Tensor:
    """Return which tokens of each row may be drawn, (M, V) bool: those that pass both filters.

    With `top_k_first`, `top_p` is a share of the mass that `top_k` leaves, otherwise of all mass.
    """
    allowed = torch.ones_like(logits, dtype=torch.bool)
    if top_k is not None:
        allowed &= logits >= logits.topk(min(top_k, logits.shape[1]), dim=1).values[:, -1:]
    if top_p is not None and top_p < 1:
        left = logits.masked_fill(~allowed, -torch.inf) if top_k_first else logits
        allowed &= logits >= _least_of_mass(left, top_p)
    return allowed


def _least_of_mass(logits: Tensor, top_p: float) -> Tensor:
    """Return the last logit that is kept, (M, 1): that of the token that crosses `top_p`."""
    ranked = logits.sort(dim=1, descending=True).values
    likelier = ranked.softmax(1).cumsum(1).roll(1, dims=1)  # mass before each token
    likelier[:, 0] = 0
    return ranked.masked_fill(likelier > top_p, torch.inf).amin(1, keepdim=True)
