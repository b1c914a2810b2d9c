"""A small natural-language model, from its training rows to docs/real.md."""
