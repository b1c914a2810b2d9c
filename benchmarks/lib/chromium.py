"""A real chromium, driven over the pipe of its debugging protocol: no driver, no package.

Messages are JSON documents that end with a zero byte; chromium reads them from file 3 and answers
on file 4. The benchmark of the page and the tests in a browser use it.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

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
KEYS = {
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "PageDown": 34, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
LIMIT = 300.0  # seconds that only a defect takes
TYPED = {"Enter": "\r", " ": " "}

# The contrast of two colours by the formula of WCAG, and of an element with what lies behind it.
CONTRAST = """
(selector => {
  const linear = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((x) => linear(Number(x) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = document.querySelector(selector);
  const clear = (e) => /^rgba\\(.*, 0\\)$/.test(getComputedStyle(e).backgroundColor);
  let behind = element;
  while (clear(behind)) behind = behind.parentElement;
  const two = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
  const [high, low] = two.map(light).sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
})
"""


# Transitions have ended, and the window has not scrolled for ten frames.
STILL = """
(async () => {
  await Promise.all(document.getAnimations().map((a) => a.finished.catch(() => null)));
  let [still, at] = [0, null];
  while (still < 10) {
    still = window.scrollY === at ? still + 1 : 0;
    at = window.scrollY;
    await new Promise(requestAnimationFrame);
  }
  return true;
})()
"""


class Chromium:
    """One browser process with one page."""

    def __init__(self, profile: Path) -> None:
        if shutil.which(CHROMIUM) is None:
            raise FileNotFoundError(
                f"{CHROMIUM} is not installed: apt-get install chromium fonts-dejavu-core, or name "
                "another with CHROMIUM=PATH."
            )
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
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
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
            self._process.wait(60)
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
        for answer in self._messages(LIMIT):
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)
        raise TimeoutError(f"{method} got no answer in {LIMIT:.0f} s.")

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
        """Return the value of an expression in the page, awaited; its exception is an error."""
        found = self.call(
            "Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = LIMIT) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < until, f"not within {seconds} s: {condition}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait until nothing on the page moves any more."""
        self.run(STILL)

    def idle(self, milliseconds: int) -> None:
        """Wait by the page's own clock: what it has put off for less time has been done then."""
        self.run(f"new Promise((done) => setTimeout(done, {milliseconds}))")

    def press(self, key: str, *, control: bool = False) -> None:
        """Press and release a key, perhaps with Control held down."""
        code: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        code |= {"modifiers": 2} if control else {}
        text = {"text": TYPED[key]} if key in TYPED else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a point of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def choose_files(self, selector: str, paths: Sequence[Path]) -> None:
        """Choose files in a file picker, as a person would."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

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

    def contrast(self, selector: str) -> float:
        """Return how far an element's text stands out from what is behind it, from 1 to 21."""
        return float(self.run(f"{CONTRAST}({json.dumps(selector)})"))

    def screenshot(self, path: Path) -> Path:
        """Save what the window shows."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
        return path
