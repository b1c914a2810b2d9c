"""Shared code of the benchmarks, which are run by path: finds `studies` and the test fixtures."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT), str(ROOT / "tests" / "fixtures")]
