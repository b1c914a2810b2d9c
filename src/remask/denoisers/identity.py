"""Identify the weights of a model and their precision."""

import hashlib

import torch
from torch import Tensor, nn

from remask.denoisers.quantise import PackedMatrix

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
_CHUNK = 2**22  # numbers; their int64 copies take 32 MB


def fingerprint(model: nn.Module) -> str:
    """Return a digest of all weights of a model; it does not depend on the device."""
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    for name, module in model.named_modules():
        if isinstance(module, PackedMatrix):
            tensors |= {f"{name}.codes": module.codes, f"{name}.scales": module.scales}
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        about = f"{name} {tuple(tensor.shape)} {tensor.dtype} {_checksums(tensor.detach())}"
        digest.update(about.encode())
    return digest.hexdigest()[:32]


def _checksums(tensor: Tensor) -> list[int]:
    """Return the sum of a tensor's bits, as integers, and their sum weighted by position."""
    bits = tensor.contiguous().flatten().view(_INTEGERS[tensor.element_size()])
    total = torch.zeros(2, dtype=torch.int64, device=tensor.device)  # modulo 2**64
    for start in range(0, len(bits), _CHUNK):
        values = bits[start : start + _CHUNK].to(torch.int64)
        places = torch.arange(start + 1, start + 1 + len(values), device=tensor.device)
        total += torch.stack([values.sum(), (values * places).sum()])
    return [int(value) for value in total.tolist()]


def precision_name(dtype: torch.dtype, packed_as: str = "") -> str:
    """Return the name of a precision, such as bfloat16 or nf4/bfloat16.

    Scores depend on the precision, so records, certificates and fits of another one are refused.
    """
    name = str(dtype).removeprefix("torch.")
    return f"{packed_as}/{name}" if packed_as else name
