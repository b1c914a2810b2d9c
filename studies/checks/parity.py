"""How far our logits are from those of the references, on the recorded tiny weights.

    python -m studies.checks.parity                              a table
    python -m studies.checks.parity --figures docs/figures.json --commit SHA --hardware "2 cores"

The figure of a family is the largest difference of a float32 logit, divided by the largest logit of
the reference. The records are those of tests/reference, and so is the comparison.
"""

import argparse
import sys
from collections.abc import Sequence

from studies.shared.figures import ROOT, figure_of, parse, save

sys.path.insert(0, str(ROOT / "tests" / "reference"))

import test_logits

# The names of the figures, and of the records.
NAMES = {
    "sdar": "sdar",
    "sdar-moe": "sdar_moe",
    "a2d-llama": "a2d_llama",
    "a2d-qwen2": "a2d_qwen2",
    "a2d-block": "a2d_block",
    "dreamreasoner": "dreamreasoner",
    "fastdllm2": "fast_dllm",
}


def main(words: Sequence[str]) -> None:
    """Measure every family; print, and merge where that is asked for."""
    arguments = parse(argparse.ArgumentParser(description=__doc__), words)
    found = {name: test_logits.relative(record) for name, record in NAMES.items()}
    for name, value in found.items():
        sys.stdout.write(f"parity/{name}/fp32  {value:.2e}\n")
    unit = "share of the largest logit"
    figures = {f"parity/{name}/fp32": figure_of(value, unit) for name, value in found.items()}
    save(arguments, figures, "parity", "python -m studies.checks.parity")


if __name__ == "__main__":
    main(sys.argv[1:])
