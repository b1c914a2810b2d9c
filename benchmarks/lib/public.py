"""The public loops, re-implemented plainly: what the models' own code does, step by step.

LLaDA's generate (also used for LLaDA-MoE), Dream's diffusion_generate and LLaDA2's generate. They
run on the library's network, so what is compared is the loop: logits at every position, a softmax
over them (in float64 where the forks of LLaDA take it so), a top-k for each row whose k is read
from the device, nothing kept from one forward to the next. Experts are visited one by one, as the
released code of each family visits them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.shapes import windows
from remask.denoisers.experts import Experts
from remask.denoisers.llada2 import LLaDA2
from remask.denoisers.native import NativeDenoiser, Network
from remask.sampling.schedule import even_schedule
from remask.sampling.settings import SamplerSettings


@torch.no_grad()
def rebuild(denoiser: NativeDenoiser, rows: Tensor, start: int, steps: int) -> Tensor:
    """Return rows (B, L) with everything masked from `start` on filled in, greedily.

    All at once, the same number of tokens in every step; or block by block, `steps` for each, of
    rows that end with a block.
    """
    rows = rows.clone()
    for window in windows(start, rows.shape[1], denoiser.block_size):
        fill(denoiser, rows, window, steps)
    return rows


@torch.no_grad()
def write(
    denoiser: NativeDenoiser, prompts: Sequence[Sequence[int]], settings: SamplerSettings
) -> Tensor:
    """Return prompts (B, P) with answers, written as the code of the model's family writes them.

    LLaDA2's fills up the last block with masks, writes it whole and cuts the answer afterwards.
    """
    given = torch.tensor(prompts, device=denoiser.device)
    start, end = given.shape[1], given.shape[1] + settings.length
    parts = windows(start, end, denoiser.block_size)
    blank = given.new_full((len(given), parts[-1].stop - start), denoiser.tokenizer.mask_id)
    rows = torch.cat([given, blank], 1)
    if settings.order == "entropy":
        write_dream(denoiser, rows, settings)
        return rows
    per_block = settings.steps // (settings.length // settings.block)
    if denoiser.block_size is None:
        firsts = range(start, end, settings.block)
        parts = [slice(first, first + settings.block) for first in firsts]
    for window in parts:
        fill(denoiser, rows, window, per_block, settings.reveal_threshold)
    return rows[:, :end]


def fill(
    denoiser: NativeDenoiser,
    rows: Tensor,
    window: slice,
    steps: int,
    threshold: float | None = None,
) -> None:
    """Reveal what is masked inside the window of rows (B, L), in place."""
    look = look_everywhere if denoiser.block_size is None else look_back
    here, mask_id = rows[:, window], denoiser.tokenizer.mask_id  # a view
    reveals = even_schedule((here == mask_id).sum(1), steps)  # (S, B)
    for step in range(steps):
        masked = here == mask_id
        if not masked.any():
            return
        found, probs = look(denoiser, rows, window)  # (B, W)
        confidence = probs.masked_fill(~masked, -torch.inf)
        for i in range(len(rows)):
            number = int(reveals[step, i])
            if threshold is not None:  # whatever is sure enough, and the surest in any case
                number = max(1, int((confidence[i] >= threshold).sum()))
            places = confidence[i].topk(number).indices
            here[i, places] = found[i, places]


def look_everywhere(denoiser: NativeDenoiser, rows: Tensor, window: slice) -> tuple[Tensor, Tensor]:
    """Return tokens and probabilities inside the window, (B, W): LLaDA's way."""
    logits = denoiser.model.project(denoiser.model(rows))  # (B, L, V)
    found = logits.argmax(-1)
    probs = logits.double().softmax(-1).gather(-1, found[..., None])[..., 0]  # (B, L)
    return found[:, window], probs[:, window]


def look_back(denoiser: NativeDenoiser, rows: Tensor, window: slice) -> tuple[Tensor, Tensor]:
    """Return the same, (B, W): LLaDA2's way, which looks no further than its block."""
    seen = rows[:, : window.stop]
    logits = denoiser.model.project(denoiser.model(seen)).float()  # (B, stop, V)
    probs, found = logits[:, window].softmax(-1).max(-1)
    return found, probs


def write_dream(denoiser: NativeDenoiser, rows: Tensor, settings: SamplerSettings) -> None:
    """Reveal what is masked in rows (B, L), in place, in the order of least entropy."""
    times = torch.linspace(1, 1e-3, settings.steps + 1)
    shares = [*(1 - times[1:-1] / times[:-2]).tolist(), 1.0]
    for share in shares:
        masked = rows == denoiser.tokenizer.mask_id
        logits = denoiser.model.project(denoiser.model(rows))  # (B, L, V)
        probs = likeliest(logits[masked], settings.top_p or 1.0).softmax(-1)  # (M, V)
        found = torch.zeros_like(rows).masked_scatter_(masked, probs.argmax(-1))
        sure = (probs * (probs + 1e-10).log()).sum(-1)
        number = int(masked.sum() / len(rows) * share)  # of each row, as in the mean one
        ranked = torch.full(rows.shape, -torch.inf, dtype=sure.dtype, device=rows.device)
        places = ranked.masked_scatter_(masked, sure).topk(number).indices  # (B, number)
        rows.scatter_(1, places, found.gather(1, places))


def likeliest(logits: Tensor, top_p: float) -> Tensor:
    """Return logits (M, V) without those beyond the likeliest that hold `top_p` of the mass."""
    ranked, order = logits.sort(descending=True)
    beyond = ranked.softmax(-1).cumsum(-1) > top_p
    beyond = torch.cat([torch.zeros_like(beyond[:, :1]), beyond[:, :-1]], 1)  # the crosser stays
    return logits.masked_fill(torch.empty_like(beyond).scatter_(1, order, beyond), -torch.inf)


@contextmanager
def public_experts(network: Network) -> Iterator[None]:
    """Let a network visit its experts as public code does, for a while."""
    visit = after_sorting if isinstance(network, LLaDA2) else expert_by_expert
    layers = [module for module in network.modules() if isinstance(module, Experts)]
    for layer in layers:
        layer.forward = partial(visit, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def expert_by_expert(layer: Experts, x: Tensor) -> Tensor:
    """Return x (..., width) of the same shape: LLaDA-MoE asks for every expert who chose it."""
    rows = x.flatten(0, -2)  # (T, width)
    weights, chosen = layer.router(rows)  # (T, k)
    out = torch.zeros_like(rows)
    for number in range(len(layer.down)):
        tokens, ranks = (chosen == number).nonzero(as_tuple=True)  # the host waits for their count
        term = expert(layer, number, rows[tokens]) * weights[tokens, ranks, None]
        out.index_add_(0, tokens, term.to(rows.dtype))
    return out.view(x.shape)


def after_sorting(layer: Experts, x: Tensor) -> Tensor:
    """Return x (..., width) of the same shape: LLaDA2 sorts tokens by expert, then cuts slices."""
    rows = x.flatten(0, -2)  # (T, width)
    weights, chosen = layer.router(rows)  # (T, k)
    order = chosen.flatten().argsort()
    counts = chosen.flatten().bincount(minlength=len(layer.down)).tolist()
    gathered = rows[order // chosen.shape[1]]  # (T k, width)
    slices = enumerate(torch.split(gathered, counts))
    outputs = torch.empty_like(gathered)
    outputs[order] = torch.cat([expert(layer, i, part) for i, part in slices if len(part)])
    terms: Tensor = outputs.view(*chosen.shape, -1).to(weights.dtype) * weights[..., None]
    return terms.sum(1).to(x.dtype).view(x.shape)


def expert(layer: Experts, number: int, rows: Tensor) -> Tensor:
    """Return what one expert makes of rows (n, width): three products."""
    gate, up = layer.gate_up[number].chunk(2)
    return F.linear(F.silu(F.linear(rows, gate)) * F.linear(rows, up), layer.down[number])
