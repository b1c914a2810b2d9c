"""Where the authors' files and the package must agree: turns of a chat, and the ids of tokens."""

import json
from pathlib import Path
from typing import Any

import jinja2
import pytest
from standin_checkpoints import STANDINS

import remask
from remask.denoisers.catalog import CHECKPOINTS

IDS = tuple(checkpoint.id for checkpoint in CHECKPOINTS)


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def snapshot(hub: Path, model: str) -> Path:
    root = hub / f"models--{model.replace('/', '--')}"
    return root / "snapshots" / (root / "refs" / "main").read_text()


def template_of(folder: Path) -> jinja2.Template:
    file = folder / "chat_template.jinja"
    text = (
        file.read_text()
        if file.exists()
        else read(folder, "tokenizer_config.json")["chat_template"]
    )
    # As transformers sets it up: a line break at the end of a block stays where it is written.
    return jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(text)


@pytest.mark.parametrize("model", IDS)
def test_the_published_template_renders_the_turns_that_the_package_renders(
    hub: Path, model: str
) -> None:
    """Written from the authors' descriptions on one side, and by the adapters on the other."""
    standin, folder = STANDINS[model], snapshot(hub, model)
    tokenizer = remask.load(model).tokenizer
    turns = [("system", "Be brief."), ("user", "2 + 3?"), ("assistant", "5."), ("user", "And 4?")]
    messages = [{"role": role, "content": content} for role, content in turns]
    bos = read(folder, "tokenizer_config.json").get("bos_token")
    template = template_of(folder)

    def rendered(messages: list[dict[str, str]]) -> list[int]:
        text = template.render(
            messages=messages, bos_token=bos, add_generation_prompt=True, **standin.asked_with
        )
        ids: list[int] = tokenizer.backend.encode(text, add_special_tokens=False).ids
        return ids

    assert tokenizer.render("2 + 3?") == rendered(messages[1:2])
    assert tokenizer.render("And 4?", [("2 + 3?", "5.")]) == rendered(messages[1:])
    assert tokenizer.render("2 + 3?", system="Be brief.") == rendered(messages[:2])
    assert tokenizer.render("And 4?", [("2 + 3?", "5.")], "Be brief.") == rendered(messages)


@pytest.mark.parametrize("model", IDS)
def test_the_package_finds_the_mask_and_the_end_that_the_authors_mean(
    hub: Path, model: str
) -> None:
    standin, tokenizer = STANDINS[model], remask.load(model).tokenizer
    assert tokenizer.backend.id_to_token(tokenizer.mask_id) == standin.mask
    assert standin.end in [tokenizer.backend.id_to_token(i) for i in tokenizer.eos_ids]
