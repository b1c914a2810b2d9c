"""The site of the documentation from disk: its search runs where a browser starts no worker."""

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

SCRIPTS = Path(__file__).resolve().parents[2] / "website" / "theme" / "assets" / "javascripts"
WORKER = "addEventListener('message', ({ data }) => postMessage(data + 1));"
PAGE = """<!doctype html><title>a page</title><script src="iframe-worker.js"></script>
<script>
  window.answers = [];
  const worker = new Worker("worker.js");
  worker.addEventListener("message", ({ data }) => answers.push(data));
  worker.postMessage(1);
</script><body></body>"""


def test_a_worker_answers_on_a_page_from_disk(browser: Any, tmp_path: Path) -> None:
    """It is begun before the page is there, and answers what was sent before it began."""
    shutil.copy(SCRIPTS / "iframe-worker.js", tmp_path)
    (tmp_path / "worker.js").write_text(WORKER)
    (tmp_path / "page.html").write_text(PAGE)
    browser.open((tmp_path / "page.html").as_uri())
    browser.wait("answers.length === 1")
    browser.run("worker.postMessage(5)")
    browser.wait("answers.length === 2")
    assert browser.run("answers") == [2, 6]
    browser.run("worker.terminate()")
    assert browser.run("document.querySelectorAll('iframe').length") == 0
