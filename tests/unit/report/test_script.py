"""The script of a report: the page's modules, in one text that a browser takes from disk."""

import re

from remask.report import script


def test_a_module_becomes_a_function_that_returns_what_it_exports() -> None:
    module = (
        'import { a, b } from "./dom.js";\n'
        "const own = a;\n"
        "export const one = own;\n"
        "export function two() {}\n"
        "export async function three() {}\n"
        "export class Four {}\n"
    )
    assert script._wrapped(module) == (
        "(() => {\nconst { a, b } = dom;\nconst own = a;\nconst one = own;\nfunction two() {}\n"
        "async function three() {}\nclass Four {}\nreturn { one, two, three, Four };\n})();\n"
    )


def test_every_module_stands_before_those_that_use_it() -> None:
    for place, name in enumerate(script.MODULES):
        text = (script.WEB / f"{name}.js").read_text()
        used = re.findall(r'from "\./(\w+)\.js"', text)
        assert set(used) <= set(script.MODULES[:place]), name
    own = re.findall(r'from "\./(\w+)\.js"', (script.OWN / "report.js").read_text())
    assert own, "the report paints with the page's modules"
    assert set(own) <= set(script.MODULES)


def test_nothing_of_a_module_is_left_in_the_script() -> None:
    """An import, an export or the end of a script element would break the page."""
    text = script.script()
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    assert "</script" not in text
    assert text.isascii()


def test_the_page_s_colours_come_first_so_that_a_report_may_change_them() -> None:
    assert script.style().index("--paper:") < script.style().index(".answer {")
