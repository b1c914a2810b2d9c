"""The page in a real browser: how soon it is seen, how smoothly it moves, what it looks like.

    python benchmarks/page.py measure
    python benchmarks/page.py measure --figures docs/figures.json --commit SHA --hardware "2 cores"
    python benchmarks/page.py screenshots docs/images/

First paint is read from the browser's own clock, on loopback, without its cache. Frames are those
of a heat map of 8 trips and 500 tokens while its cursor moves and it scrolls. Pictures show the
embedded model at work. Needs chromium and the extra `serve`.
"""

import argparse
import base64
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lib.figures import figure_of, parse, save
from serving.chromium import Chromium
from serving.live import live
from serving.playback import Playback, pieces, verification

import remask
from remask.serve.settings import ServeSettings

LOADS = 20
FRAMES = 240
TRIPS, TOKENS = 8, 500
# The first hard problem: the embedded model gets it wrong once before an answer comes back.
TASK, LEVEL, SEED = "wordmath", "hard", 0
PAINT = "performance.getEntriesByType('paint').find((e) => e.name === 'first-contentful-paint')"
SCRUB = f"""
(async () => {{
  const heat = document.querySelector('.heat');
  heat.focus();
  const key = new KeyboardEvent('keydown', {{ key: 'ArrowRight' }});
  const frame = () => new Promise(requestAnimationFrame);
  const took = [];
  let before = await frame();
  for (let k = 0; k < {FRAMES}; k += 1) {{
    heat.dispatchEvent(key);
    heat.scrollLeft += 3;
    const now = await frame();
    took.push(now - before);
    before = now;
  }}
  return took;
}})()
"""


def first_paints(browser: Chromium, url: str) -> list[float]:
    """Return the milliseconds until something of the page is seen, load by load."""
    browser.call("Network.setCacheDisabled", cacheDisabled=True)
    found = []
    for _ in range(LOADS):
        browser.open(url)
        browser.wait(f"!!{PAINT}")
        found.append(float(browser.run(f"{PAINT}.startTime")))
    return found


def frames(browser: Chromium, stage: Playback) -> list[float]:
    """Return the milliseconds of each frame while the heat map is scrubbed."""
    text = "Ben has 12 apples and Zoe has 5 more, so she has 12 + 5 = 17. "
    stage.answers = [verification((pieces(text) * 40)[:TOKENS], lost=0.1, trips=TRIPS)]
    browser.open(f"{stage.url}/")
    browser.wait("document.querySelectorAll('.example').length > 0")
    browser.run("document.querySelector('.example').click()")
    browser.run("document.getElementById('go').click()")
    browser.wait("!!document.querySelector('.lane.won')")
    took: list[float] = browser.run(SCRUB)
    return took


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Yield a browser with a window of 1280 x 900 and a profile that is thrown away."""
    scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with scratch as profile, Chromium(Path(profile)) as browser:
        browser.look(1280, 900)
        yield browser


@contextmanager
def embedded() -> Iterator[str]:
    """Yield the address of a server with the embedded model."""
    settings = ServeSettings(model="tiny", metrics="core", seconds=600.0)
    with live(remask.load("tiny"), settings) as (_, url):
        yield url


def measure(arguments: argparse.Namespace) -> None:
    """Print first paint and frames, and merge the former into the figures."""
    with chromium() as browser:
        with embedded() as url:
            paints = first_paints(browser, f"{url}/")
        with Playback() as stage:
            took = sorted(frames(browser, stage))
    median = statistics.median(paints)
    print(f"first paint: median {median:.0f} ms of {LOADS} loads, at most {max(paints):.0f} ms")
    slow = sum(ms > 1000 / 30 for ms in took)
    print(
        f"heat map of {TRIPS} x {TOKENS}: a frame in {statistics.median(took):.1f} ms (median), "
        f"{took[int(0.95 * FRAMES)]:.1f} ms (95 %); {slow} of {FRAMES} took longer than 33 ms"
    )
    figure = figure_of(median, "ms", LOADS, low=min(paints), high=max(paints))
    save(arguments, {"page/first_paint_ms": figure}, "page", "python benchmarks/page.py measure")


def screenshots(folder: Path) -> None:
    """Save four pictures: the race, the winner in the dark, a loser, and that one on a phone."""
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, embedded() as url:
        _race(browser, url)
        _shot(browser, folder / "race.png", "body", dark=False, size=(1280, 1080))
        _point(browser, ".lane.won .pick")
        _shot(browser, folder / "dark.png", "#answer", dark=True)
        _point(browser, ".lane .pick")
        _shot(browser, folder / "drift.png", "#answer", dark=False)
        _shot(browser, folder / "phone.png", "#answer", dark=False, size=(390, 844))


def _race(browser: Chromium, url: str) -> None:
    """Let the embedded model solve the problem, which a link brings."""
    body = {"task": TASK, "level": LEVEL, "seed": SEED, "remask": {}}
    link = base64.urlsafe_b64encode(json.dumps(["solve", body]).encode()).decode().rstrip("=")
    browser.open(f"{url}/#ask={link}")
    prompt = json.dumps(remask.task(TASK).problem(SEED, level=LEVEL).prompt)
    browser.wait(f"document.getElementById('prompt').value === {prompt}")
    browser.run("document.getElementById('go').click()")
    browser.wait("!!document.querySelector('.lane.won')", seconds=900)
    browser.wait("document.getElementById('waiting').hidden")
    browser.settle()  # the page brings the race into view


def _point(browser: Chromium, candidate: str) -> None:
    """Show a candidate, its cursor on the first token that drifts far, if one does."""
    browser.run(f"document.querySelector('{candidate}').click()")
    browser.run(
        "document.querySelector('#answer-text .sd')"
        "?.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }))"
    )
    browser.run(
        "(() => { const e = document.getElementById('player-scrub'); e.value = '9';"
        " e.dispatchEvent(new Event('input')); })()"
    )


def _shot(
    browser: Chromium, path: Path, selector: str, *, dark: bool, size: tuple[int, int] = (1280, 980)
) -> None:
    browser.look(*size, dark=dark)
    browser.run("document.activeElement.blur()")
    browser.run(
        f"document.querySelector('{selector}').scrollIntoView({{ behavior: 'instant' }});"
        " new Promise((done) => setTimeout(done, 900))"
    )
    browser.screenshot(path)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def main(words: Sequence[str]) -> None:
    """Measure, or make pictures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("measure", "screenshots"))
    parser.add_argument("folder", type=Path, nargs="?", help="where to leave the pictures")
    arguments = parse(parser, words)
    if arguments.what == "measure":
        measure(arguments)
    elif arguments.folder is None:
        parser.error("screenshots needs a folder.")
    else:
        screenshots(arguments.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
