"""The pages of the reference: modules with their public names, and the command line.

Nothing is listed by hand but modules: what is public in one is read from its source. The home of a
public name of `remask` that no page names is shown on a page of its own, so that the reference
stays whole.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import remask

GROUPS: Mapping[str, tuple[str, ...]] = {  # title of a page -> what it shows
    "Calls": ("api", "denoisers.load", "decide.rejection"),
    "Values": ("values",),
    "Errors": ("errors",),
    "Settings": (
        "sampling.settings", "consistency.settings", "probes.settings", "collect.settings",
        "tasks.settings", "settings",
    ),
    "Scorers": (
        "consistency.roundtrips", "consistency.metrics", "probes.scorer", "verifier.verifier",
        "baselines.confidence", "baselines.agreement", "baselines.judge", "baselines.editor",
        "baselines.likelihood", "baselines.text_likelihood", "baselines.length",
    ),
    "Fitting and certificates": (
        "decide.weights", "decide.auroc", "decide.threshold", "decide.calibration", "decide.stages",
        "verifier.fit",
    ),
    "Models": ("denoisers.base", "denoisers.wrap", "denoisers.preset", "denoisers.catalog"),
    "Tasks and answers": (
        "tasks", "tasks.base", "tasks.public.benchmark", "tasks.public.source",
        "tasks.public.wording", "answers.markup", "answers.number", "answers.choice",
    ),
    "Records": (
        "records.record", "records.manifest", "records.jsonl", "collect.collect", "collect.join",
        "collect.score_file",
    ),
    "Studies": ("report.studies", "report.studies.base", "analysis.figure", "report.table"),
    "Rewards": ("align.rewards", "align.combined"),
    "Harnesses": ("harnesses", "harnesses.lm_eval", "harnesses.inspect_ai"),
    "Testing kits": ("testing",),  # which offers what its modules hold
}  # fmt: skip


def complete(homes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the groups, and one more for the homes of public names that are in none."""
    shown = {module for modules in GROUPS.values() for module in modules}
    rest = tuple(sorted(set(homes.values()) - shown))
    return {**GROUPS, **({"Further names": rest} if rest else {})}


MODULES = complete(remask._HOMES)


def address(title: str) -> str:
    """Return the page of a title."""
    return f"reference/{title.lower().replace(' ', '-')}.md"


def module_page(title: str, modules: tuple[str, ...]) -> str:
    """Return a page that shows modules, each under a heading of its own.

    The list of contents names them with their packages: many are called `settings`.
    """
    parts = [f"::: remask.{module}\n    options:\n      toc_label: {module}" for module in modules]
    return f"# {title}\n\n" + "\n\n".join(parts) + "\n"


def names_page(homes: Mapping[str, str]) -> str:
    """Return the page of all public names of `remask`: where each is explained."""
    rows = [f"| [`remask.{n}`][remask.{homes[n]}.{n}] | `remask.{homes[n]}` |" for n in homes]
    return "\n".join([
        "# Public names", "",
        "What `import remask` offers. A name is loaded when it is first used, so that the import",
        "costs nothing. What further modules offer is on the other pages of this section.", "",
        "| name | where it lives |", "|---|---|", *sorted(rows, key=str.lower), "",
    ])  # fmt: skip


def flag_rows(command: Any) -> Iterator[str]:
    """Yield the rows of a table of a command's arguments and flags."""
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        flags = [*parameter.opts, *parameter.secondary_opts]
        name = ", ".join(f"`{flag}`" for flag in flags if flag.startswith("-"))
        given = parameter.default
        is_unsaid = given is None or given is False or given in ("", ()) or callable(given)
        default = "" if is_unsaid else f"`{given}`"  # 0 is said
        about = (getattr(parameter, "help", None) or "").replace("|", "\\|")
        yield f"| {name or f'`{parameter.name}`'} | {default} | {about} |"


def commands_page() -> str:
    """Return the page of the command line: every command with its flags, as it explains itself."""
    from remask.cli.app import COMMANDS, LazyCommands

    parts = [
        "# Command line", "",
        "Every command prints its flags with `--help`; this page is made of the same texts.", "",
    ]  # fmt: skip
    for name, (_, line) in COMMANDS.items():
        command = LazyCommands()[name]
        parts += [f"## remask {name}", "", command.help or line, ""]
        rows = ["| flag | default | |", "|---|---|---|", *flag_rows(command)]
        parts += ['<div class="flags" markdown>', "", *rows, "", "</div>", ""]
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Return the pages of the reference by their places on the site."""
    made = {
        "reference/index.md": names_page(remask._HOMES),
        "reference/commands.md": commands_page(),
    }
    return made | {address(title): module_page(title, names) for title, names in MODULES.items()}
