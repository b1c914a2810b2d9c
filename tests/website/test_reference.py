"""The reference has every public name, and every command with its flags."""

from importlib.util import find_spec

import reference  # type: ignore[import-not-found]

import remask
from remask.cli.app import COMMANDS


def test_every_module_of_the_reference_is_there_once() -> None:
    modules = [module for modules in reference.MODULES.values() for module in modules]
    assert len(set(modules)) == len(modules)
    assert [m for m in modules if find_spec(f"remask.{m}") is None] == []


def test_every_public_name_leads_to_where_it_is_explained() -> None:
    page = reference.pages()["reference/index.md"]
    for name in remask.__all__:
        assert f"[`remask.{name}`][remask.{remask._HOMES[name]}.{name}]" in page


def test_a_public_name_whose_home_is_in_no_group_has_a_page_all_the_same() -> None:
    assert reference.complete({"score": "api"}).keys() == reference.GROUPS.keys()
    further = reference.complete({"score": "api", "new": "elsewhere"})["Further names"]
    assert further == ("elsewhere",)


def test_the_command_line_is_shown_with_its_flags() -> None:
    page = reference.commands_page()
    for name in COMMANDS:
        assert f"## remask {name}\n" in page
    verify = page.split("## remask verify\n")[1].split("\n## ")[0]
    assert "| `--model`, `-m` |" in verify or "| `-m`, `--model` |" in verify
    assert "| `answer` |" in verify
    assert "| `--trips` | `4` | Round trips per answer. |" in verify
    assert "| `--seed` | `0` |" in verify
    assert "| `--json` |  |" in verify
