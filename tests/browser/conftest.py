"""The tests in a real browser run only where they are asked for: `pytest -m browser tests/browser`.

What drives chromium, and the server that plays documents back, lie beside the page's benchmark.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs chromium; left out unless asked for")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted = "browser" in (config.getoption("markexpr") or "")
    return None if wanted or collection_path.suffix != ".py" else True


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from serving.chromium import Chromium

    try:
        started = Chromium(tmp_path_factory.mktemp("profile"))
    except FileNotFoundError as error:
        pytest.exit(str(error), returncode=1)
    with started as found:
        yield found


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A server that plays documents back."""
    from serving.playback import Playback

    with Playback() as found:
        yield found


@pytest.fixture
def stage(server: Any) -> Any:
    """The server with three candidates, of which the last one is accepted."""
    from person import TEXT
    from serving.playback import pieces, verification

    server.reset()
    server.answers = [
        verification(pieces(TEXT), lost=lost, seed=seed)
        for lost, seed in ((0.35, 1), (0.3, 2), (0.05, 5))
    ]
    assert [answer["accepted"] for answer in server.answers] == [False, False, True]
    return server


@pytest.fixture
def page(browser: Any, stage: Any) -> Any:
    """The server's page, opened anew in a window of 1280 x 900."""
    from person import visit

    browser.look(1280, 900)
    visit(browser, stage)
    return browser


@pytest.fixture(scope="session")
def embedded() -> Iterator[str]:
    """The address of a server with the embedded model."""
    yield from served("roundtrips")


@pytest.fixture(scope="session")
def embedded_verifier() -> Iterator[str]:
    """The address of a server that scores with the verifier."""
    yield from served("verifier")


def served(scorer: str) -> Iterator[str]:
    from serving.live import live

    import remask
    from remask.serve.settings import ServeSettings

    settings = ServeSettings(model="tiny", scorer=scorer, metrics="core", seconds=300.0)
    with live(remask.load("tiny"), settings) as (_, url):
        yield url
