"""Gradients of attention for the head shapes of every family: finite, and right to rounding?

    PYTHONPATH=src python benchmarks/finite_gradients.py --device cuda
    PYTHONPATH=src python benchmarks/finite_gradients.py --device cpu --lengths 24 --no-compile

Each case is a head shape, a mask, a length, and eager or compiled execution. A case passes if the
output and the gradients of q, k and v, computed by the attention layer that training uses, are
finite and differ from the math kernel in float32 by at most TOLERANCE (norm of the difference over
norm). CUDA cases run in bfloat16, CPU cases in float32. On CUDA the script also runs the eager
cases with cuDNN's kernel, which training does not use: it shows the fault of that kernel.

`adapt/finite_gradients` is the share of cases that pass. The script needs torch alone and takes
about a minute on an H200.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from lib.figures import figure_of, parse, save
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from remask.denoisers.attention_kernels import attention_kernels
from remask.denoisers.transformer import Attention

HEADS = {  # query heads, key and value heads, head size: the models that have them
    (32, 32, 128): "LLaDA-8B, LLaDA-1.5",
    (16, 16, 128): "LLaDA-MoE",
    (32, 8, 128): "iLLaDA, SDAR 4B and 8B, TraDo, DreamReasoner, Llama-3.1-8B",
    (28, 4, 128): "Dream, DiffuCoder, Fast-dLLM 7B, Qwen2.5-7B",
    (12, 2, 128): "Fast-dLLM 1.5B, Qwen2.5-1.5B",
    (14, 2, 64): "A2D Qwen2.5-0.5B",
    (16, 8, 128): "A2D Qwen3-0.6B, SDAR 1.7B",
    (32, 4, 128): "SDAR 30B-A3B, LLaDA2-flash",
    (16, 4, 128): "LLaDA2-mini",
    (9, 3, 64): "SmolLM2-135M",
    (15, 5, 64): "SmolLM2-360M",
    (32, 32, 64): "SmolLM2-1.7B",
    (32, 8, 64): "Llama-3.2-1B",
    (5, 5, 64): "tiny",
}
MASKS = ("none", "causal", "padding", "blocks", "cached")
TOLERANCE = {torch.bfloat16: 0.02, torch.float32: 1e-4}
BLOCK = 32  # tokens of a block of the masks `blocks` and `cached`
FAILED, UNSUPPORTED = "not finite or wrong", "not supported"
Function = Callable[..., Tensor]


class Case(NamedTuple):
    """One measured case."""

    heads: tuple[int, int, int]
    mask: str
    length: int
    compiled: bool = False

    def __str__(self) -> str:
        how = "compiled" if self.compiled else "eager"
        return f"heads {self.heads}, mask {self.mask}, length {self.length}, {how}"


def mask_of(case: Case, device: torch.device) -> Tensor | None:
    """Return the mask of two rows, (2, 1, 1 or L, L) bool, or None."""
    columns = torch.arange(case.length, device=device)
    if case.mask == "padding":
        widths = torch.tensor([case.length, max(1, case.length * 2 // 3)], device=device)
        return (columns < widths[:, None])[:, None, None]
    if case.mask in ("blocks", "cached"):
        blocks = columns // BLOCK
        return (blocks[:, None] >= blocks).expand(2, 1, -1, -1).contiguous()
    return None


def drawn(case: Case, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Return q, k, v and the gradient of the output, each (2, L, heads, head_dim)."""
    num_heads, num_kv_heads, head_dim = case.heads
    generator = torch.Generator(device).manual_seed(0)
    return [
        torch.randn(2, case.length, number, head_dim, generator=generator, device=device).to(dtype)
        for number in (num_heads, num_kv_heads, num_kv_heads, num_heads)
    ]


def results_of(function: Function, drawings: Sequence[Tensor], mask: Tensor | None) -> list[Tensor]:
    """Return the output of a function of q, k, v and mask, and the three gradients."""
    q, k, v, out_grad = drawings
    leaves = [part.detach().clone().requires_grad_() for part in (q, k, v)]
    out = function(*leaves, mask)
    return [out.detach(), *torch.autograd.grad(out, leaves, out_grad)]


def ours(case: Case, device: torch.device) -> Function:
    """Return the attention of the project's layer, compiled if the case says so."""
    num_heads, num_kv_heads, head_dim = case.heads
    layer = Attention(64, num_heads, num_kv_heads, head_dim=head_dim).to(device)

    def run(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if case.mask == "cached":
            return layer._mix(q, torch.cat((k, v), 2), mask)
        return layer.full(q, k, v, mask, causal=case.mask == "causal")

    if not case.compiled:
        return run
    torch.compiler.reset()  # earlier cases count as recompilations of the same code, up to a limit
    return torch.compile(run, dynamic=False)


def with_kernel(kernel: SDPBackend, *, causal: bool) -> Function:
    """Return grouped attention that uses one kernel of torch."""

    def run(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        parts = [part.transpose(1, 2) for part in (q, k, v)]
        with sdpa_kernel(kernel):
            out = F.scaled_dot_product_attention(
                *parts, attn_mask=mask, is_causal=causal, enable_gqa=q.shape[2] != k.shape[2]
            )
        return out.transpose(1, 2)

    return run


def verdict(found: Sequence[Tensor], exact: Sequence[Tensor]) -> str:
    """Return "" if all tensors are finite and near the exact ones, otherwise what is wrong."""
    names = ("output", "gradient of q", "gradient of k", "gradient of v")
    for name, one, other in zip(names, found, exact, strict=True):
        if not one.isfinite().all():
            return f"{name} is not finite"
        difference = float((one.float() - other).norm() / other.norm())
        if not difference <= TOLERANCE[one.dtype]:
            return f"{name} differs by {difference:.3g}"
    return ""


def cases_of(lengths: Sequence[int], *, compiled: bool) -> Iterator[Case]:
    """Yield the eager cases, then the compiled ones, which take seconds each: one length only."""
    pairs = [(heads, mask) for heads in HEADS for mask in MASKS]
    yield from (Case(*pair, length) for pair in pairs for length in lengths)
    if compiled:
        yield from (Case(*pair, max(lengths), compiled=True) for pair in pairs)


def measure(case: Case, device: torch.device, found: Counter[str]) -> bool:
    """Print what is wrong with a case; count cuDNN's outcome; return whether the case passes."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    drawings, mask = drawn(case, device, dtype), mask_of(case, device)
    causal = case.mask == "causal"
    exact = results_of(
        with_kernel(SDPBackend.MATH, causal=causal), [part.float() for part in drawings], mask
    )
    wrong = verdict(results_of(ours(case, device), drawings, mask), exact)
    if wrong:
        sys.stdout.write(f"FAILED  {case}: {wrong}\n")
    if device.type == "cuda" and not case.compiled:
        try:
            forced = with_kernel(SDPBackend.CUDNN_ATTENTION, causal=causal)
            fault = verdict(results_of(forced, drawings, mask), exact)
        except RuntimeError:  # no kernel of cuDNN takes the case
            found[UNSUPPORTED] += 1
        else:
            found[FAILED if fault else "right"] += 1
            if fault:
                sys.stdout.write(f"cuDNN   {case}: {fault}\n")
    return not wrong


def main(words: Sequence[str]) -> int:
    """Measure all cases; print, and write the figure if the command line asks for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 1000])
    parser.add_argument("--no-compile", action="store_true", help="run eager cases alone")
    parser.add_argument("--seconds", type=float, default=75, help="start no compilation later")
    arguments = parse(parser, words)
    if arguments.figures and arguments.device != "cuda":
        parser.error("--figures needs --device cuda.")
    device, started = torch.device(arguments.device), time.perf_counter()
    found: Counter[str] = Counter()
    passed = []
    cases = list(cases_of(arguments.lengths, compiled=not arguments.no_compile))
    for case in cases:
        if case.compiled and time.perf_counter() - started > arguments.seconds:
            sys.stdout.write(f"{len(cases) - len(passed)} compiled cases left out: no time\n")
            break
        passed.append(measure(case, device, found))
    share = sum(passed) / len(passed)
    seconds = time.perf_counter() - started
    sys.stdout.write(f"torch {torch.__version__}, kernels for training: {attention_kernels()}\n")
    if found:
        outcomes = ", ".join(f"{number} {name}" for name, number in sorted(found.items()))
        sys.stdout.write(f"cuDNN's kernel, eager cases: {outcomes}\n")
    sys.stdout.write(f"adapt/finite_gradients  {share:.4f}  n {len(passed)}  {seconds:.0f} s\n")
    figures = {"adapt/finite_gradients": figure_of(share, "share of cases", len(passed))}
    command = "python benchmarks/finite_gradients.py --device cuda"
    save(arguments, figures, "finite-gradients", command)
    return 0 if share == 1 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
