"""A Metal device that is pretended: it lacks what the real one lacks.

Within `Metal()` tensors on "mps" hold real numbers in the memory of this machine. There is no
float64 there, and no operation for which this torch has no Metal kernel, by the table of kernels
that it comes with; tensors of the host must be moved, and arrays are made on the host alone. What
a kernel does with numbers, and how fast, is not pretended.
"""

import re
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

MPS, HOST = torch.device("mps:0"), torch.device("cpu")
_COPIES = (
    Tensor.to, Tensor.copy_, Tensor.cpu, Tensor.__setitem__,
    torch._has_compatible_shallow_copy_type,
)  # fmt: skip
# Attention is another kernel there; that of the CPU is what runs here.
_ELSEWHERE = ("_scaled_dot_product_flash_attention_for_cpu",)


_COMPOSITE = torch._C.DispatchKey.CompositeExplicitAutograd  # the kernel of any device


class MetalTensor(Tensor):
    """A tensor that `Metal` takes for one on its device."""


class Metal(TorchFunctionMode):
    """Where "mps" is pretended."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: Counter[str] = Counter()  # to which device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return MPS if isinstance(args[0], MetalTensor) else func(*args)
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = [leaf for leaf in given if isinstance(leaf, MetalTensor)]
        target, args, kwargs = _on_host(func, args, kwargs)
        if func in (Tensor.numpy, Tensor.__array__) and there:
            raise TypeError("an array is made of a tensor on the host; move it first")
        if there and func not in _COPIES:
            _check_places(func, given)
        with torch._C.DisableTorchFunctionSubclass(), _Kernels(active=bool(there)):
            out = func(*args, **kwargs)
        is_here = bool(there) if target is None else target == MPS
        if target is not None and given:
            self.moves[target.type] += 1
        if isinstance(out, torch.Size):
            return out
        return tree_map(lambda value: _placed(func, value, is_here), out)


class _Kernels(TorchDispatchMode):
    """Refuses what Metal has no kernel for."""

    def __init__(self, *, active: bool) -> None:
        super().__init__()
        self.active = active

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.active:
            return func(*args, **(kwargs or {}))
        if not has_kernel(func._schema):
            raise NotImplementedError(f"{func} is not implemented on Metal")
        if func.namespace == "aten":
            return func(*args, **(kwargs or {}))
        with self:  # what it is made of is looked at too
            return func._op_dk(_COMPOSITE, *args, **(kwargs or {}))


def _on_host(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.device | None, tuple[Any, ...], dict[str, Any]]:
    """Return where the result is to be, None: where the operands are, and arguments without it."""
    if func is Tensor.cpu:
        return HOST, args, kwargs
    named = kwargs.get("device")
    if func is Tensor.to and len(args) > 1 and isinstance(args[1], torch.device | str):
        named, args = args[1], (args[0], HOST, *args[2:])
    if named is None:
        return None, args, kwargs
    device = torch.device(named)
    if device.type != "mps":
        return device, args, kwargs
    if "device" in kwargs:
        kwargs["device"] = HOST
    return MPS, args, kwargs


def _check_places(func: Any, given: list[Tensor]) -> None:
    """Raise where a tensor of the host is computed with; a number may come from there."""
    indexed = func is Tensor.__getitem__ and isinstance(given[0], MetalTensor)
    for leaf in given:
        if not isinstance(leaf, MetalTensor) and leaf.dim() > 0 and not indexed:
            raise RuntimeError(f"{func} has operands on the host and on Metal")


def _placed(func: Any, value: Any, is_here: bool) -> Any:
    if not isinstance(value, Tensor) or value.is_meta:
        return value
    if not is_here:
        return value.as_subclass(Tensor) if isinstance(value, MetalTensor) else value
    if value.dtype == torch.float64:
        raise TypeError(f"{func} makes float64, which Metal does not have")
    return value if isinstance(value, MetalTensor) else value.as_subclass(MetalTensor)


def has_kernel(schema: Any) -> bool:
    """Say whether an operation has a Metal kernel, or is made of others.

    What is not torch's own has no kernel there, unless whoever wrote it made it of torch's.
    """
    name = schema.name.removeprefix("aten::")
    whole = f"{name}.{schema.overload_name}".rstrip(".")
    if "::" in name:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(whole, _COMPOSITE.name))
    return name in _ELSEWHERE or _kernels().get(whole, False)


@cache
def _kernels() -> dict[str, bool]:
    """Return, by operation, whether this torch has it on Metal; composites it has everywhere."""
    table = files("torchgen").joinpath("packaged/ATen/native/native_functions.yaml").read_text()
    own: dict[str, bool] = {}
    elsewhere: dict[str, str] = {}  # operation -> the one whose kernels it has
    for entry in re.split(r"^- func: ", table, flags=re.MULTILINE)[1:]:
        name = entry[: entry.index("(")]
        delegate = re.search(r"^  structured_delegate: (\S+)", entry, re.MULTILINE)
        kernels = re.search(r"^  dispatch:\n((?:    .*\n)+)", entry, re.MULTILINE)
        if delegate:
            elsewhere[name] = delegate[1]
        own[name] = kernels is None or bool(re.search(r"MPS|Composite", kernels[1]))
    return own | {name: own[other] for name, other in elsewhere.items()}
