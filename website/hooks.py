"""What mkdocs does beyond its settings: pages from outside docs, notebooks, the reference.

The pages stay as the repository shows them; here they become those of the site.
"""

import json
from pathlib import Path
from typing import Any

import carried
import flags
import notebook_page
import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
REST = "How-to guides"  # the section of pages that the navigation does not name
_sources: dict[str, str] = {}  # page of the site -> file of the repository


def named(nav: Any) -> set[str]:
    """Return the pages that a navigation names."""
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*(named(part) for part in parts))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the reference, the models and every page without a place to the navigation."""
    nav: list[dict[str, Any]] = config.nav or []
    (section,) = [part["Reference"] for part in nav if "Reference" in part]
    section[2:2] = [{title: reference.address(title)} for title in reference.MODULES]
    docs = Path(config.docs_dir)
    (models,) = [part["Families"] for part in section if "Families" in part]
    models += [f"models/{page.name}" for page in sorted((docs / "models").glob("*.md"))]
    (rest,) = [part[REST] for part in nav if REST in part]
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    rest += sorted(pages - named(nav))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add README, CHANGELOG, the files that pages link to, the notebooks and the reference."""
    docs = Path(config.docs_dir)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in carried.HOMES}
    for page in files.documentation_pages():
        texts[f"docs/{page.src_uri}"] = page.content_string
    for path in sorted((docs / "tutorials").glob("*.ipynb")):
        place = f"docs/tutorials/{path.name}"
        text, pictures = notebook_page.page_of(json.loads(path.read_text("utf-8")), path.name)
        texts[place] = text
        files.append(File.generated(config, carried.on_site(place), content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=picture))
    for path in carried.to_carry(texts, ROOT):
        content = (ROOT / path).read_bytes()
        shown = (
            content
            if carried.on_site(path).endswith(carried.PICTURES)
            else carried.as_page(path, content.decode())
        )
        files.append(File.generated(config, carried.on_site(path), content=shown))
        _sources[carried.on_site(path)] = path
    for name, home in carried.HOMES.items():
        files.append(File.generated(config, home, content=texts[name]))
        _sources[home] = name
    for name, text in reference.pages().items():
        files.append(File.generated(config, name, content=text))
        _sources[name] = ""  # written for the site
    return files


def on_page_markdown(markdown: str, page: Page, **others: Any) -> str:
    """Turn a page of the repository into one of the site."""
    source = _sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return carried.for_site(markdown, source) if source else markdown


def on_page_content(html: str, **others: Any) -> str:
    """Keep flags in one piece."""
    return flags.in_one_piece(html)
