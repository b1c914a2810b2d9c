"""docs/figures.json, as the studies read and write it."""

from studies.shared.figures import FIGURES, figure_of, merge, parse, read, save, select

__all__ = ["FIGURES", "figure_of", "merge", "parse", "read", "save", "select"]
