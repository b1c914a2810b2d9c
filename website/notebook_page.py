"""An executed notebook as a Markdown page: its text, its code, and what the code printed."""

import base64
import re
from collections.abc import Mapping
from typing import Any

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
DOWNLOAD = "[Download this page as a notebook]({name}){{ download }}\n"


def joined(text: str | list[str]) -> str:
    """Return a text that nbformat may keep as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def fenced(text: str, language: str) -> str:
    """Return a code block; the fence is longer than any in the text."""
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text) or [""]))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def printed(output: Mapping[str, Any]) -> str:
    """Return the text of an output; "" where it has none."""
    data = output.get("data", {})
    text = output.get("text", data.get("text/plain", ""))
    return COLOUR.sub("", joined(text))


def page_of(notebook: Mapping[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return the page of a notebook called `name`, and its pictures by their file names."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    stem = name.rpartition(".")[0]
    for cell in notebook["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source + "\n")
            continue
        parts.append(fenced(source, "python"))
        for output in cell["outputs"]:
            picture = output.get("data", {}).get("image/png")
            if picture is not None:
                file = f"{stem}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(joined(picture))
                parts.append(f"![What the code above drew]({file})\n")
            elif printed(output).strip():
                parts.append('<div class="printed" markdown>\n')
                parts.append(fenced(printed(output), "text"))
                parts.append("</div>\n")
    parts.append(DOWNLOAD.format(name=name))
    return "\n".join(parts), pictures
