"""A checkpoint that others have published, and how they sampled it: the words of the catalogue.

A preset keeps the names its authors gave to the parameters and the accuracy they report; nothing of
it was measured by us. Where the settings and the accuracy come from different places, the source
says so. The data is in `catalog` and `block_catalog`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Setting = int | float | str | bool
# Bytes of a number whose weights are packed (`formats`), with its share of a scale in nf4.
PACKED_BYTES = {"int8": 1.0, "nf4": 0.5 + 4 / 64}


@dataclass(frozen=True, kw_only=True)
class Published:
    """How the authors of a model sampled it for one task, and what they report."""

    task: str
    settings: Mapping[str, Setting]  # under the authors' own names
    accuracy: float | None  # in per cent; None: not reported with these settings
    source: str
    prompt: str = ""  # how the question was asked, where that is known


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    id: str  # on the hub
    family: str
    architecture: str  # architectures[0] of its config.json
    num_parameters: int
    width: int
    vocab_size: int
    context: int  # tokens it was trained on at once, prompt included
    licence: str | None  # None: not checked
    experts_per_token: int = 0  # 0: no experts
    tied: bool = False  # the head is the embedding
    num_float32: int = 0  # numbers beside the parameters that stay in float32
    num_kept: int = 0  # keys and values that a column leaves behind; 0: none are kept
    presets: tuple[Published, ...] = ()

    def num_bytes(self, itemsize: int = 2) -> int:
        """Return the bytes of the weights in a dtype of this size; two is bfloat16."""
        return itemsize * self.num_parameters + 4 * self.num_float32

    def packed_bytes(self, itemsize: int = 2) -> dict[str, int]:
        """Return about the bytes of the weights in each format: embedding and head stay whole."""
        whole = self.width * self.vocab_size * (1 if self.tied else 2)
        rest, apart = self.num_parameters - whole, 4 * self.num_float32
        return {
            name: int(itemsize * whole + size * rest + apart) for name, size in PACKED_BYTES.items()
        }
