"""The site of the documentation: search from disk, where no worker starts, and the way back."""

import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytestmark = pytest.mark.browser

THEME = Path(__file__).resolve().parents[2] / "website" / "theme"
SCRIPTS = THEME / "assets" / "javascripts"
WORKER = "addEventListener('message', ({ data }) => postMessage(data + 1));"
PAGE = """<!doctype html><title>a page</title><script src="iframe-worker.js"></script>
<script>
  window.answers = [];
  const worker = new Worker("worker.js");
  worker.addEventListener("message", ({ data }) => answers.push(data));
  worker.postMessage(1);
</script><body></body>"""


class Site(SimpleHTTPRequestHandler):
    """A host that shows one page for whatever it does not find."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write((THEME / "404.html").read_bytes())

    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """The address of a host, with a site in one of its folders."""
    for name in ("index.html", "models/index.html", "assets/stylesheets/remask.css"):
        (tmp_path / "remask" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "remask" / name).write_text("there")
    handler = partial(Site, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("page", ["gone.html", "models/gone.html", "gone/from/here/", "models//a"])
def test_from_a_page_that_is_gone_a_link_leads_to_the_first(
    browser: Any, host: str, page: str
) -> None:
    browser.open(f"{host}/remask/{page}")
    browser.wait("document.getElementById('first').pathname === '/remask/index.html'")


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
