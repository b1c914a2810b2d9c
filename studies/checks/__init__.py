"""Checks of what the project promises; some share fixtures with the tests."""

import sys

from studies.shared.figures import ROOT

sys.path.append(str(ROOT / "tests" / "fixtures"))
