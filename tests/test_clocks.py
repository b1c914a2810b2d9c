"""No test fails by the clock: none measures speed, and what is waited for has ample time."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
FILES = sorted(path for path in TESTS.rglob("*.py") if path != Path(__file__).resolve())
LEAST = 60.0  # seconds
# Clocks that only measure; and limits: of a wait, or of the time since a moment.
MEASURES = re.compile(r"\b(?:perf_counter|process_time|thread_time|timeit)\b|\btime\.time\(")
LIMITS = re.compile(
    r"\btimeout=(\d[\d_.]*)|\b(?:wait|join)\((\d[\d_.]*)\)|\bdeadline=(\d[\d_.]*)"
    r"|monotonic\(\) - \w+ < (\d[\d_.]*)|monotonic\(\) \+ (\d[\d_.]*)"
)


def short_limits(text: str) -> list[str]:
    """Return the limits of a test file that a busy machine could reach."""
    return [
        match.group()
        for match in LIMITS.finditer(text)
        if float(next(filter(None, match.groups()))) < LEAST
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_fails_by_the_clock(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not MEASURES.search(text), "speed is measured in benchmarks/, here things are counted"
    assert short_limits(text) == []


def test_short_limits_are_seen() -> None:
    assert short_limits("run(x, timeout=30)\nthread.join(10)") == ["timeout=30", "join(10)"]
    assert short_limits("assert time.monotonic() - start < 5") == ["monotonic() - start < 5"]
    assert short_limits("wait(LIMIT)\ntimeout=600, join(60)") == []
