"""The modules that make the site lie beside it, not in the package."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "website"), str(ROOT / "tests")]
