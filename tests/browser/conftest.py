"""A real chromium, driven over the pipe of its debugging protocol: no driver, no package.

Messages are JSON documents that end with a zero byte; chromium reads them from file 3 and answers
on file 4. These tests run only where they are asked for: `pytest -m browser tests/browser`.
"""

import base64
import fcntl
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

CHROMIUM = os.environ.get("CHROMIUM", "chromium")
FLAGS = (
    "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-dev-shm-usage", "--force-device-scale-factor=1",
    "--no-sandbox",  # containers run tests as root, where the sandbox cannot start
)  # fmt: skip
JOIN = (
    "import os, sys; _, read, write, *command = sys.argv;"
    "os.dup2(int(read), 3); os.dup2(int(write), 4); os.execvp(command[0], command)"
)
KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39}


class Chromium:
    """One browser process with one page."""

    def __init__(self, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Above 4, so that neither is in the way of the other when they become 3 and 4.
        theirs = [fcntl.fcntl(file, fcntl.F_DUPFD, 5) for file in (theirs_in, theirs_out)]
        options = [*FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", JOIN, *map(str, theirs), CHROMIUM, *options],
            pass_fds=theirs,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for file in (theirs_in, theirs_out, *theirs):
            os.close(file)
        self._number = 0
        self._rest = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []  # what the page reported without being asked

    def __enter__(self) -> "Chromium":
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            os.close(self._out)
            os.close(self._in)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return what chromium answers to one call."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for answer in self._messages(30.0):
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)
        raise TimeoutError(f"{method} got no answer in 30 s.")

    def _messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        until = time.monotonic() + seconds
        while True:
            while b"\0" in self._rest:
                line, self._rest = self._rest.split(b"\0", 1)
                yield json.loads(line)
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return
            more = os.read(self._in, 1 << 20)
            assert more, "chromium has ended."
            self._rest += more

    def open(self, url: str) -> None:
        """Open a page anew and wait until it has loaded."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, code: str) -> Any:
        """Return the value of an expression in the page; its exception fails the test."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 20.0) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < until, f"not within {seconds} s: {condition}"
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window and whether the person prefers dark pages."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> Path:
        """Save what the window shows."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
        return path


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs chromium; left out unless asked for")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted = "browser" in (config.getoption("markexpr") or "")
    return None if wanted or collection_path.suffix != ".py" else True


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found
