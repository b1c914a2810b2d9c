"""The house rules that a reader can check by walking the syntax trees of `src/`.

`ALLOWED` is the table of docs/architecture.md, and a test keeps the two equal. A room is a module
or package right under `remask`; inside `denoisers` every module is a room, because adapters must
not know one another. A room may always import itself.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

GROUND = {
    "errors", "values", "rng", "answers", "records", "inputs", "outputs", "fields", "limits",
}  # fmt: skip
ADAPTER = {
    "denoisers.base", "denoisers.past", "denoisers.tokenizer", "denoisers.transformer", "values",
    "errors",
}  # fmt: skip
FAMILY = ADAPTER | {"denoisers.config", "denoisers.native"}
DENOISERS = {
    "denoisers.base", "denoisers.past", "denoisers.tokenizer", "denoisers.transformer",
    "denoisers.config", "denoisers.experts", "denoisers.native", "denoisers.qwen",
    "denoisers.llada", "denoisers.dream", "denoisers.a2d", "denoisers.llada_moe",
    "denoisers.llada2", "denoisers.illada", "denoisers.sdar", "denoisers.dreamreasoner",
    "denoisers.fast_dllm", "denoisers.wrap", "denoisers.replicas", "denoisers.load",
    "denoisers.split",
    "denoisers.save", "denoisers.published", "denoisers.catalog", "denoisers.block_catalog",
    "denoisers.presets", "denoisers.resampling", "denoisers.special_ids",
    "denoisers.weights", "denoisers.preset",
}  # fmt: skip
CATALOGUE = {"denoisers.published", "denoisers.catalog", "denoisers.block_catalog"}
SCORER = {
    "sampling", "denoisers.base", "denoisers.tokenizer", "values", "answers", "errors", "rng",
}  # fmt: skip
ROOMS = {"decide", "tasks", "consistency", "baselines", "sampling"} | DENOISERS | GROUND
TOP = {
    "api", "studies", "pretrain", "jobs", "engine", "demo", "doctor", "listing", "options",
    "documents", "paint", "testing",
}  # fmt: skip

ALLOWED: dict[str, set[str]] = {
    "cli": ROOMS | TOP | {"remask", "align", "serve"},
    "remask": ROOMS | TOP,
    "demo": ROOMS | {"studies", "paint"},
    "jobs": ROOMS | {"api", "tables", "engine"},
    "serve": ROOMS | {"api", "studies", "options"},
    "engine": {"denoisers.base", "denoisers.native", "denoisers.tokenizer", "denoisers.wrap"}
    | {"denoisers.experts", "denoisers.replicas", "denoisers.load"}
    | {"records", "inputs", "tables", "errors"},
    "options": {"consistency", "sampling", "denoisers.base", "studies", "tasks", "errors", "api"}
    | {"limits", "questions"},
    "questions": {"tasks", "inputs", "errors"},
    "doctor": {"denoisers.catalog", "denoisers.load", "denoisers.tokenizer", "listing", "sampling"},
    "listing": {
        "denoisers.catalog",
        "denoisers.published",
        "denoisers.presets",
        "denoisers.resampling",
    }
    | {"sampling", "errors"},
    "documents": {"paint", "values"},
    "paint": {"denoisers.tokenizer", "values"},
    "tables": {"records", "errors"},
    "api": ROOMS - {"baselines"},
    "pretrain": ROOMS,
    "align": ROOMS,
    "studies": ROOMS | {"engine"},
    "decide": {"values", "errors", "records", "inputs", "fields", "limits", "sampling"},
    "tasks": {"errors", "answers", "records", "inputs", "tables"},
    "consistency": SCORER | {"denoisers.replicas", "limits"},
    "baselines": SCORER,
    "sampling": {"denoisers.base", "denoisers.past", "denoisers.tokenizer", "denoisers.replicas"}
    | {"denoisers.wrap", "values", "rng", "limits", "errors"},
    "denoisers.load": DENOISERS
    - {"denoisers.load", "denoisers.save", "denoisers.resampling"}
    - CATALOGUE
    | {"values", "errors"},
    "denoisers.published": {"errors"},
    "denoisers.block_catalog": {"denoisers.published", "errors"},
    "denoisers.catalog": {"denoisers.published", "denoisers.block_catalog", "errors"},
    "denoisers.presets": {"denoisers.preset", "denoisers.catalog", "denoisers.published"}
    | {"denoisers.resampling", "errors"},
    "denoisers.resampling": set(),
    "denoisers.preset": {"denoisers.resampling", "errors"},
    "denoisers.replicas": {"denoisers.base", "denoisers.wrap"},
    "denoisers.split": {"denoisers.native", "errors"},
    "denoisers.config": {"errors"},
    "denoisers.save": {"records"},
    "denoisers.wrap": ADAPTER,
    "denoisers.native": ADAPTER | {"denoisers.special_ids"},
    "denoisers.llada": FAMILY,
    "denoisers.qwen": FAMILY,
    "denoisers.dream": FAMILY | {"denoisers.qwen"},
    "denoisers.a2d": FAMILY | {"denoisers.qwen"},
    "denoisers.illada": FAMILY | {"denoisers.qwen"},
    "denoisers.dreamreasoner": FAMILY | {"denoisers.qwen"},
    "denoisers.fast_dllm": FAMILY | {"denoisers.qwen"},
    "denoisers.sdar": FAMILY | {"denoisers.qwen", "denoisers.experts"},
    "denoisers.llada_moe": FAMILY | {"denoisers.experts"},
    "denoisers.llada2": FAMILY | {"denoisers.experts"},
    "denoisers.experts": {"values", "errors"},
    "denoisers.transformer": {"values", "errors"},
    "denoisers.base": {"denoisers.past", "denoisers.preset", "denoisers.tokenizer"}
    | {"values", "errors"},
    "denoisers.past": {"values", "errors"},
    "denoisers.weights": {"denoisers.tokenizer", "errors"},
    "denoisers.tokenizer": {"denoisers.special_ids", "inputs", "limits", "errors"},
    "denoisers.special_ids": {"errors"},
    "testing": {"denoisers.base", "denoisers.past", "denoisers.tokenizer", "denoisers.llada"}
    | {"denoisers.save", "sampling", "values", "rng", "errors"},
    "records": {"inputs", "errors"},
    "inputs": {"errors"},
    "outputs": {"records", "errors"},
    "fields": {"errors"},
    "limits": {"fields", "errors"},
    "answers": {"errors"},
    "values": {"errors"},
    "rng": {"errors"},
    "errors": set(),
}
WITHOUT_TORCH = {
    "tasks", "tables", "answers", "records", "inputs", "outputs", "fields", "limits", "errors",
    "denoisers.presets", "denoisers.preset", "denoisers.resampling", "listing",
    "paint",
}  # fmt: skip
WITHOUT_TORCH |= CATALOGUE
HEAVY = {
    "sentence_transformers", "matplotlib", "ray", "fastapi", "peft", "accelerate", "datasets",
    "pyarrow", "sklearn", "transformers",
}  # fmt: skip
SEEDS = {
    "torch.manual_seed", "torch.random.manual_seed", "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all", "numpy.random.seed", "np.random.seed",
}  # fmt: skip


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((SRC / "remask").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def room_of(module: str) -> str:
    """Return the room of a module: 'remask.tasks.base' -> 'tasks', the façade -> 'remask'."""
    parts = module.split(".")
    if len(parts) == 1:
        return "remask"
    return ".".join(parts[1:3]) if parts[1] == "denoisers" else parts[1]


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
def test_a_module_imports_only_what_its_room_may(module: str) -> None:
    room = room_of(module)
    if module == "remask.denoisers":
        assert not imports_of(module), "denoisers/__init__.py stays empty: every adapter runs it"
        return
    assert room in ALLOWED, f"room {room!r} is not in the table of docs/architecture.md"
    ours = {name for name in imports_of(module) if name.split(".")[0] == "remask"}
    edges = {room_of(name) for name in ours} - {room}
    assert edges <= ALLOWED[room], f"{room} may not import {sorted(edges - ALLOWED[room])}"


def test_the_table_in_the_docs_is_the_table_of_this_test() -> None:
    section = (ROOT / "docs" / "architecture.md").read_text().split("<!--imports-->")[1]
    groups = {
        name: set(re.findall(r"`([\w.]+)`", members))
        for name, members in re.findall(r"^- \*(\w+)\*: (.*)$", section, re.MULTILINE)
    }
    table = {}
    for room, cell in re.findall(r"^\| `([\w.]+)` \| (.*?) \|", section, re.MULTILINE):
        named = [groups[name] for name in re.findall(r"\*(\w+)\*", cell)]
        table[room] = set(re.findall(r"`([\w.]+)`", cell)).union(*named)
    assert table == ALLOWED


def test_allowed_imports_have_no_cycle() -> None:
    left = {room: set(edges) for room, edges in ALLOWED.items()}
    while left:
        free = [room for room, edges in left.items() if not edges & left.keys()]
        assert free, f"these rooms may import one another in a circle: {sorted(left)}"
        for room in free:
            del left[room]


@pytest.mark.parametrize("module", MODULES)
def test_heavy_packages_are_imported_inside_functions(module: str) -> None:
    assert not packages_of(module, on_import=True) & HEAVY


@pytest.mark.parametrize("module", [name for name in MODULES if room_of(name) in WITHOUT_TORCH])
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


@pytest.mark.parametrize("module", MODULES)
def test_files_and_functions_stay_short(module: str) -> None:
    num_lines = len(MODULES[module].read_text().splitlines())
    assert num_lines <= 450, f"{num_lines} lines: this file holds more than one noun"
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= 60, f"{node.name} has {length} lines"


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
    assert set(imported(nodes, "remask.jobs", is_package=False)) == {"ast", "ray"}
