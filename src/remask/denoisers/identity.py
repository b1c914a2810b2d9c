"""Which model this is: what tells its weights, and their precision, from others."""

import hashlib

import torch
from torch import nn

from remask.denoisers.packed import PackedMatrix


def fingerprint(model: nn.Module) -> str:
    """Return a digest of the first weights of every tensor.

    A folder may hold another model tomorrow, under the same name and of the same shape.
    """
    digest = hashlib.sha256()
    for name, tensor in model.named_parameters():
        first = tensor.detach().flatten()[:8].float().cpu()
        digest.update(f"{name} {tuple(tensor.shape)} {first.tolist()}".encode())
    for name, module in model.named_modules():
        if isinstance(module, PackedMatrix):
            codes = module.codes.flatten()[:8].float().cpu()
            digest.update(f"{name} {module.shape} {codes.tolist()}".encode())
    return digest.hexdigest()[:16]


def precision_name(dtype: torch.dtype, packed_as: str = "") -> str:
    """Return what records, certificates and verifiers call a precision: bfloat16, nf4/bfloat16.

    Scores at another precision are other scores: what was collected or fitted at one is refused at
    another by this name.
    """
    name = str(dtype).removeprefix("torch.")
    return f"{packed_as}/{name}" if packed_as else name
