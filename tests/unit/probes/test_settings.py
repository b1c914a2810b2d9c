"""Probes and their names."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remask.errors import SettingsError
from remask.probes.settings import REPEATED, Probe

NAMES = {
    "critical": Probe(pattern="critical"),
    "halves8": Probe(pattern="halves", passes=8),
    "stratified15x4": Probe(pattern="stratified", passes=4, ratio=0.15),
    "stratified80x8": Probe(pattern="stratified", passes=8),
    "visible": Probe(pattern="visible"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_all_of_a_probe(name: str) -> None:
    assert NAMES[name].name == name
    assert Probe.named(name) == NAMES[name]


@given(
    pattern=st.sampled_from([*REPEATED, "critical", "visible"]),
    passes=st.integers(1, 5_000),
    percent=st.integers(1, 100),
)
def test_every_probe_is_read_back_from_its_name(pattern: str, passes: int, percent: int) -> None:
    probe = Probe(
        pattern=pattern,  # type: ignore[arg-type]
        passes=2 * passes if pattern in REPEATED else 1,
        ratio=percent / 100 if pattern == "stratified" else 0.8,
    )
    assert Probe.named(probe.name) == probe


@given(st.text(max_size=20) | st.from_regex(r"[a-z]{6,9}[0-9]*x?[0-9]*", fullmatch=True))
def test_a_name_is_read_or_refused(name: str) -> None:
    with suppress(SettingsError):
        assert Probe.named(name).name == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("critic", "Unknown probe"),
        ("critical ", "Unknown probe"),
        ("halves", "must be even, got 1"),
        ("halves08", "Unknown probe"),
        ("halves80x8", "Unknown probe"),
        ("stratified015x4", "Unknown probe"),
        ("forced8", "Unknown probe"),
        ("critical2", "must be 1, got 2"),
        ("halves7", "must be even, got 7"),
        ("stratified15x0", "at least 1"),
        ("stratified0x4", "above 0"),
        ("stratified101x4", "at most 1"),
        ("halves99999", "at most 10,000"),
    ],
)
def test_an_invalid_name_is_refused(name: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        Probe.named(name)


def test_settings_that_a_name_cannot_hold_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"got 0\.155"):
        Probe(pattern="stratified", ratio=0.155)
    with pytest.raises(SettingsError, match=r"no ratio, got 0\.5"):
        Probe(pattern="critical", ratio=0.5)
