"""How much of the largest tensor is held at once. No torch here: `remask models` counts with it."""

HEAD_ELEMENTS = 2**29  # logits held at once: 2 GB of float32
