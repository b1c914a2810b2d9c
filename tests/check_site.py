"""Fail where the built site has a dead link, or loads anything from another host.

    python tests/check_site.py build/site
    python tests/check_site.py build/site --figures docs/figures.json --commit SHA --hardware CPU

Every link that stays on the site leads to a file, and its anchor to an element, on every page.
Links to other hosts are for the reader to follow; what the browser loads by itself (scripts,
styles, fonts, pictures, frames) comes from the site alone. With --figures the number of pages is
written down.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from studies.shared.figures import figure_of, parse, save  # type: ignore[import-not-found]

LOADED = {  # element -> the attributes that a browser fetches without being asked
    "script": ("src",), "link": ("href",), "img": ("src", "srcset"), "iframe": ("src",),
    "source": ("src", "srcset"), "video": ("src", "poster"), "audio": ("src",), "embed": ("src",),
    "object": ("data",), "use": ("href", "xlink:href"), "input": ("src",), "image": ("href",),
}  # fmt: skip
NOT_LOADED = {"canonical", "alternate", "prev", "next", "author", "license"}  # `rel` of <link>
STYLE_URL = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")
FOREIGN = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)


class Reader(HTMLParser):
    """What one page holds: its anchors, its links, what it loads, whether a mark is left in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.prose: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and NOT_LOADED & set(given.get("rel", "").split()):
            self.links.append(given.get("href", ""))
        else:
            self.loads += [given[name] for name in LOADED.get(tag, ()) if given.get(name)]
        self.loads += STYLE_URL.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        self.prose.append(data)


def faults_of_links(
    page: str, reader: Reader, pages: Mapping[str, Reader], folder: Path
) -> list[str]:
    """Return a sentence for each link of a page, or file that it loads, that leads nowhere."""
    wrong = []
    for target in [*reader.links, *reader.loads]:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        place = (folder / page).parent / unquote(parts.path) if parts.path else folder / page
        if target.startswith("/"):
            wrong.append(f"{page}: {target} is absolute; the site may lie in a folder of its host.")
            continue
        place = place / "index.html" if place.is_dir() else place
        if not place.is_file():
            wrong.append(f"{page}: {target} leads to no file.")
            continue
        name = place.resolve().relative_to(folder.resolve()).as_posix()
        anchor = unquote(parts.fragment)
        if anchor and name in pages and anchor not in pages[name].anchors | {"__skip"}:
            wrong.append(f"{page}: {target} names no element of {name}.")
    return wrong


def faults_of_loads(page: str, reader: Reader) -> list[str]:
    """Return a sentence for each thing that a page would load from another host."""
    return [f"{page}: loads {target}." for target in reader.loads if FOREIGN.match(target)]


def faults_of_marks(page: str, reader: Reader) -> list[str]:
    """Return a sentence where the mark of a figure can be read on a page that explains no marks."""
    seen = sum("<!--fig:" in text for text in reader.prose)
    return [f"{page}: a mark of a figure can be seen."] if seen else []


def faults_of_styles(folder: Path) -> Iterator[str]:
    """Yield a sentence for each style sheet that loads from another host."""
    for path in sorted(folder.rglob("*.css")):
        for target in STYLE_URL.findall(path.read_text(encoding="utf-8")):
            if FOREIGN.match(target):
                yield f"{path.relative_to(folder)}: loads {target}."


def read_site(folder: Path) -> dict[str, Reader]:
    """Return the pages of a site by their places in it."""
    return {
        path.relative_to(folder).as_posix(): Reader(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
    }


def faults(folder: Path) -> list[str]:
    """Return all that is wrong with a built site."""
    pages = read_site(folder)
    wrong = [] if pages else [f"{folder} has no pages; build the site first: make docs."]
    for page, reader in pages.items():
        if page != "404.html":  # is shown for any address, and finds the first page by itself
            wrong += faults_of_links(page, reader, pages, folder)
        wrong += [*faults_of_loads(page, reader), *faults_of_marks(page, reader)]
    return [*wrong, *faults_of_styles(folder)]


def main(words: Sequence[str]) -> None:
    """Check the site, say how many pages it has, and write that down where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    arguments = parse(parser, words)
    wrong = faults(arguments.folder)
    if wrong:
        sys.exit("\n".join(wrong))
    pages = len(read_site(arguments.folder).keys() - {"404.html"})
    print(f"{pages} pages, no dead link, nothing from other hosts.")
    save(arguments, {"docs/pages": figure_of(pages, "pages")}, "docs", "make docs")


if __name__ == "__main__":
    main(sys.argv[1:])
