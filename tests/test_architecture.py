"""The rules between packages, checked by walking the syntax trees of `src/`.

`ALLOWED` is the table of docs/architecture.md, and a test keeps the two equal. A package is what
lies right under `remask`, be it one module; it may always import itself. The families of
`denoisers` must not know one another.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "values": {"extension", "settings", "errors"},
    "rng": {"errors"},
    "answers": {"settings", "errors"},
    "turns": {"errors"},
    "settings": {"errors"},
    "extension": {"settings", "errors"},
    "records": {"settings", "errors"},
    "denoisers": {"values", "records", "extension", "settings", "errors"},
    "sampling": {"denoisers", "values", "rng", "settings", "errors"},
}
ALLOWED["consistency"] = ALLOWED["sampling"] | {"sampling", "answers", "extension"}
ALLOWED["probes"] = ALLOWED["consistency"] | {"consistency"}
ALLOWED["baselines"] = ALLOWED["consistency"]
ALLOWED["decide"] = {"sampling", "values", "records", "extension", "settings", "errors"}
ALLOWED["tasks"] = {"answers", "records", "extension", "settings", "errors"}
ALLOWED["verifier"] = ALLOWED["probes"] | {"probes", "decide", "records"}
ALLOWED["scoring"] = {
    "decide", "tasks", "verifier", "probes", "consistency", "baselines", "sampling", "denoisers",
    "values", "answers", "extension", "settings", "errors",
}  # fmt: skip
ALLOWED["testing"] = {"sampling", "denoisers", "values", "rng", "settings", "errors"}
METHOD = set(ALLOWED) - {"testing"}
ALLOWED["api"] = METHOD
ALLOWED["collect"] = METHOD | {"api"}
ALLOWED["analysis"] = METHOD | {"collect"}
ALLOWED["report"] = ALLOWED["analysis"] | {"analysis"}
ALLOWED["pretrain"] = METHOD
ALLOWED["align"] = METHOD
ALLOWED["serve"] = METHOD | {"api"}
ALLOWED["remask"] = METHOD | {"api"}
ALLOWED["harnesses"] = {"remask", "api", "turns", "settings", "errors"}
ALLOWED["cli"] = set(ALLOWED)
WITHOUT_TORCH = {"tasks", "answers", "turns", "records", "extension", "settings", "errors"}
HEAVY = {
    "sentence_transformers", "matplotlib", "ray", "fastapi", "peft", "accelerate", "datasets",
    "pyarrow", "sklearn", "transformers", "lm_eval", "inspect_ai",
}  # fmt: skip
# Modules that are read by a heavy package alone, which is then there.
GUESTS = {
    "remask.harnesses.lm_eval": {"lm_eval"},
    "remask.harnesses.inspect_ai": {"inspect_ai"},
    "remask.harnesses.inspect_model": {"inspect_ai"},
}
SEEDS = {
    "torch.manual_seed", "torch.random.manual_seed", "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all", "numpy.random.seed", "np.random.seed",
}  # fmt: skip


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((SRC / "remask").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def package_of(module: str) -> str:
    """Return the package of a module: 'remask.tasks.base' -> 'tasks', the façade -> 'remask'."""
    parts = module.split(".")
    if len(parts) == 1:
        return "remask"
    return parts[1]


def at_import_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run on import: no function bodies, nothing under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not lazy and not typing_only:
            yield node
            yield from at_import_time(node)


def imported(nodes: Iterator[ast.AST], importer: str, is_package: bool) -> Iterator[str]:
    """Yield what the nodes import: our modules by their full name, packages by theirs."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = importer.split(".")[: None if is_package else -1]
                kept = above[: len(above) - node.level + 1]
                base = ".".join([*kept, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else base for name in names)


def imports_of(module: str, *, on_import: bool = False) -> set[str]:
    tree = TREES[module]
    nodes = at_import_time(tree) if on_import else ast.walk(tree)
    return set(imported(nodes, module, MODULES[module].name == "__init__.py"))


def packages_of(module: str, *, on_import: bool = False) -> set[str]:
    return {name.split(".")[0] for name in imports_of(module, on_import=on_import)}


def reached_on_import(module: str) -> set[str]:
    """Return every package that `import module` pulls in, through our own modules."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in TREES:
            waiting += imports_of(name, on_import=True)
        if "." in name:
            waiting.append(name.rpartition(".")[0])  # a parent package runs first
    return {name.split(".")[0] for name in seen}


def dotted(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_what_its_package_may(module: str) -> None:
    package = package_of(module)
    if module == "remask.denoisers":
        assert not imports_of(module), "denoisers/__init__.py stays empty: every adapter runs it"
        return
    assert package in ALLOWED, f"package {package!r} is not in the table of docs/architecture.md"
    ours = {name for name in imports_of(module) if name.split(".")[0] == "remask"}
    edges = {package_of(name) for name in ours} - {package}
    assert edges <= ALLOWED[package], f"{package} may not import {sorted(edges - ALLOWED[package])}"


def test_the_table_in_the_docs_is_the_table_of_this_test() -> None:
    section = (ROOT / "docs" / "architecture.md").read_text().split("<!--imports-->")[1]
    groups = {
        name: set(re.findall(r"`([\w.]+)`", members))
        for name, members in re.findall(r"^- \*(\w+)\*: (.*)$", section, re.MULTILINE)
    }
    table = {}
    for package, cell in re.findall(r"^\| `([\w.]+)` \| (.*?) \|", section, re.MULTILINE):
        named = [groups[name] for name in re.findall(r"\*(\w+)\*", cell)]
        table[package] = set(re.findall(r"`([\w.]+)`", cell)).union(*named)
    assert table == ALLOWED


def test_allowed_imports_have_no_cycle() -> None:
    left = {package: set(edges) for package, edges in ALLOWED.items()}
    while left:
        free = [package for package, edges in left.items() if not edges & left.keys()]
        assert free, f"these packages may import one another in a circle: {sorted(left)}"
        for package in free:
            del left[package]


def families() -> set[str]:
    """Return the modules of `denoisers` that declare a family."""
    return {
        module
        for module, tree in TREES.items()
        if package_of(module) == "denoisers" and "\nFAMILY = " in f"\n{ast.unparse(tree)}"
    }


@pytest.mark.parametrize("module", MODULES)
def test_a_family_is_known_to_the_loader_alone(module: str) -> None:
    if package_of(module) == "denoisers" and module != "remask.denoisers.load":
        assert not imports_of(module) & (families() - {module})


def test_the_loader_knows_every_family() -> None:
    assert {"remask.denoisers.llada", "remask.denoisers.sdar"} <= families()
    assert families() <= imports_of("remask.denoisers.load")


@pytest.mark.parametrize("module", MODULES)
def test_heavy_packages_are_imported_inside_functions(module: str) -> None:
    assert not packages_of(module, on_import=True) & (HEAVY - GUESTS.get(module, set()))


def test_nobody_imports_a_guest_of_a_heavy_package_but_inside_functions() -> None:
    for module in MODULES:
        assert not imports_of(module, on_import=True) & GUESTS.keys(), module


@pytest.mark.parametrize("module", [name for name in MODULES if package_of(name) in WITHOUT_TORCH])
def test_graders_extraction_and_records_do_without_torch(module: str) -> None:
    assert "torch" not in packages_of(module)


def test_the_command_line_starts_without_torch() -> None:
    assert "remask.cli" in MODULES
    assert not reached_on_import("remask.cli") & (HEAVY | {"torch"})


@pytest.mark.parametrize("module", MODULES)
def test_nothing_seeds_a_global_generator(module: str) -> None:
    used = {dotted(node) for node in ast.walk(TREES[module])} & SEEDS
    named = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    } & SEEDS
    assert not used | named, "draws are keyed by identity: see remask.rng"


def test_no_module_is_named_after_nothing() -> None:
    names = {part for module in MODULES for part in module.split(".")}
    assert not names & {"utils", "util", "common", "helpers", "misc"}


def parse(code: str, importer: str = "remask.tasks.base") -> set[str]:
    return set(imported(ast.walk(ast.parse(code)), importer, is_package=False))


def test_imports_are_resolved_however_they_are_written() -> None:
    """The walker itself: plain, from a package, of a name, and relative imports."""
    assert parse("import remask.errors") == {"remask.errors"}
    assert parse("from remask import errors") == {"remask.errors"}
    assert parse("from remask.errors import TaskError") == {"remask.errors"}
    assert parse("from ..errors import TaskError") == {"remask.errors"}
    assert parse("from . import base") == {"remask.tasks.base"}
    assert parse("def f():\n    import torch.nn") == {"torch.nn"}


def test_imports_in_functions_do_not_run_on_import() -> None:
    code = "import ast\nif ast:\n    import ray\ndef f():\n    import torch"
    nodes = at_import_time(ast.parse(code))
    assert set(imported(nodes, "remask.collect.score_file", is_package=False)) == {"ast", "ray"}
