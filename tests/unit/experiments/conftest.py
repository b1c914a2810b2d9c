"""The scripts of experiments/ find one another beside themselves; so do their tests."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "experiments"), str(ROOT / "benchmarks")]
sys.path.append(str(ROOT / "tests"))  # what is asked of every page is asked of theirs
