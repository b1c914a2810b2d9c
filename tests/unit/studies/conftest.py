"""What is asked of every page is asked of the pages that studies write."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
