"""What holds for every test: none fails by the clock of a busy machine."""

import os
import re
from pathlib import Path

import hypothesis
import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before torch is imported: as many workers as cores, so each has one.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A test that goes wrong by the clock does so on a busy machine: `pytest -m clock` runs all that
# could, beside whatever keeps the machine busy.
TOUCHES = re.compile(
    r"^(?:import|from) (?:asyncio|concurrent|httpx|live|multiprocessing|openai|schemathesis|select"
    r"|signal|socket|subprocess|threading|time)\b|remask\.tasks\.execution|symbolic import"
    r"|allow_execution|tasks\.pycode|\bclient\b",
    re.MULTILINE,
)

# Neither an example that takes long nor data that are drawn slowly are defects of the code.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "clock: touches clocks, processes or sockets")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    touching = {
        path: bool(TOUCHES.search(path.read_text(encoding="utf-8")))
        for path in {Path(item.path) for item in items}
    }
    for item in items:
        if touching[Path(item.path)]:
            item.add_marker("clock")
        if item.path.parent.name != "standins":
            # A file stays with one worker, which makes its fixtures once. The table of stand-ins
            # has no such fixtures, and is too long for one.
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.fixture(scope="session", autouse=True)
def patient_graders() -> None:
    """Let graders wait: where a deadline is what is tested, the test sets one of its own."""
    from remask.tasks.public import programs, symbolic

    programs.SECONDS = symbolic.CHECKER.seconds = 120.0
