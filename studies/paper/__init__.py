"""The paper's experiments on the embedded model, and docs/results.md."""
