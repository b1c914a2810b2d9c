"""What the re-implementations of the families share, in `plain`, lies beside their tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
