"""Devices that are pretended: tensors with real numbers that say they are on cpu:0, cpu:1, ...

Within `Pretended()` a tensor is on the device that it was made on or moved to, though all of them
lie in the memory of this machine. An operation on tensors of two devices is an error, as it would
be on two GPUs. Copies from one to another are counted.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

HOST = torch.device("cpu")
INDICES = (torch.long, torch.bool)


class Placed(Tensor):
    """A tensor that says where it is."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor, device: torch.device) -> "Placed":
        made = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device=device,
        )  # fmt: skip
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} outside of Pretended()")

    def tolist(self) -> Any:
        return self.inner.tolist()


class Pretended(TorchDispatchMode):
    """Where tensors say where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: Counter[tuple[str, str]] = Counter()  # (from, to)
        self._makers = _Makers()

    def __enter__(self) -> "Pretended":
        self._makers.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._makers.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        named = kwargs.get("device")
        if named is not None and torch.device(named).type != "meta":
            kwargs["device"] = HOST
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = self._there(func, given)
        out = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        if func._schema.is_mutable:
            return args[0]
        target = there if named is None else torch.device(named)
        if named is not None and there is not None and there != target:
            self.moves[str(there), str(target)] += 1
        return tree_map(lambda value: _placed(value, target), out)

    def _there(self, func: Any, given: list[Tensor]) -> torch.device | None:
        """Return where the operands are; they must be in one place, unless they are copied."""
        places = {leaf.device for leaf in given if leaf.device != HOST}
        copied = func in (torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default)
        if len(places) > 1 and not copied:
            raise RuntimeError(f"{func} has operands on {sorted(map(str, places))}")
        # Numbers may come from the host, and indices; other tensors must be moved.
        indexed = func in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default)
        hosts = [
            leaf
            for leaf in given
            if leaf.device == HOST and leaf.dim() > 0 and not (indexed and leaf.dtype in INDICES)
        ]
        if places and hosts and not copied:
            raise RuntimeError(f"{func} has operands on the host and on {places}")
        return given[0].device if copied else next(iter(places), None)


class _Makers(TorchFunctionMode):
    """Sees `torch.tensor`, which is no operation on tensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is not torch.tensor or kwargs.get("device") is None:
            return func(*args, **kwargs)
        device = torch.device(kwargs.pop("device"))
        return _placed(func(*args, **kwargs), device)


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, Placed) else value


def _placed(value: Any, target: torch.device | None) -> Any:
    plain = isinstance(value, Tensor) and value.device.type != "meta"
    return Placed(value, target) if plain and target not in (None, HOST) else value
