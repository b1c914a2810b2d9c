"""Links of Markdown pages, from where they lead in the repository to where they lead on the site.

Pages are written for the repository: README.md links to docs/models.md, a page of docs to
../examples/a.yaml. On the site README.md is the first page, the pages of docs lie beside it, and a
file that a page links to from outside docs is carried along as a page of its own.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

HOMES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}  # repository -> site
CARRIED = "repository"  # the folder of the site with files from outside docs
PICTURES = (".png", ".svg", ".jpg")
FENCE = re.compile(r"(^ *```.*?^ *```[ ]*$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
SPAN = re.compile(r"(`[^`\n]*`)")
WORD = re.compile(r"^( *```\w+)[ ]+[\w-]+[ ]*$", re.MULTILINE)  # as in ```bash no-run
UNSEPARATED = re.compile(r"^((?![-*|>#]|\d+\.| ).*\S.*)\n(?=- )", re.MULTILINE)
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".cff": "yaml", ".json": "json"}


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a page with everything but its code blocks changed."""
    pieces = FENCE.split(text)
    return "".join(piece if number % 2 else change(piece) for number, piece in enumerate(pieces))


def links(text: str) -> Iterator[str]:
    """Yield the targets of a page's links, as they are written."""
    for prose in FENCE.split(text)[::2]:
        for piece in SPAN.split(prose)[::2]:
            yield from LINK.findall(piece)


def in_repository(target: str, page: str) -> str | None:
    """Return the file that a link of a page leads to, from the root; None: elsewhere."""
    path = target.partition("#")[0]
    if not path or re.match(r"[a-z]+:|/", path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def on_site(path: str) -> str:
    """Return where a file of the repository lies among the sources of the site."""
    inside = PurePosixPath(path)
    if path in HOMES:
        return HOMES[path]
    if inside.parts[0] == "docs":
        inside = inside.relative_to("docs")
        return str(inside.with_suffix(".md") if inside.suffix == ".ipynb" else inside)
    return f"{CARRIED}/{path}" if inside.suffix in PICTURES else f"{CARRIED}/{path}.md"


def to_carry(pages: dict[str, str], root: Path) -> set[str]:
    """Return the files outside docs that these pages, by their paths, link to."""
    linked = {in_repository(target, page) for page, text in pages.items() for target in links(text)}
    return {
        path
        for path in linked
        if path and path not in HOMES and not path.startswith(("docs/", ".."))
        and (root / path).is_file()
    }  # fmt: skip


def as_page(path: str, content: str) -> str:
    """Return a file that is no Markdown as a page that shows it."""
    if path.endswith(".md"):
        return content
    language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
    return f"# {path}\n\n````{language}\n{content.rstrip()}\n````\n"


def for_site(text: str, page: str) -> str:
    """Return a page of the repository as the site's Markdown understands it.

    Links lead to where things lie on the site. A word behind the language of a code block goes,
    and a list that follows its paragraph at once gets the empty line that this Markdown wants.
    """
    here = posixpath.dirname(on_site(page))

    def moved(match: re.Match[str]) -> str:
        target = match[1]
        path = in_repository(target, page)
        if path is None:
            return target
        anchor = target[target.index("#") :] if "#" in target else ""
        return os.path.relpath(on_site(path), here or ".") + anchor

    def prose(piece: str) -> str:
        spans = SPAN.split(UNSEPARATED.sub(r"\1\n\n", piece))
        return "".join(s if n % 2 else LINK.sub(moved, s) for n, s in enumerate(spans))

    return WORD.sub(r"\1", outside_code(text, prose))
