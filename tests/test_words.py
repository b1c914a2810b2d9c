"""The words of the code: the field's, and one thing per name.

Names alone are looked at, of modules, classes, functions, parameters, variables and attributes that
`src/` binds. Prose and data keys are free.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"
MODULES = {
    path.relative_to(SRC).as_posix(): ast.parse(path.read_text())
    for path in sorted((SRC / "remask").rglob("*.py"))
}
VAGUE = {"found", "told", "asked", "kept"}  # names that say that something happened, not what
# Names of ours that have a better one now: Departure is TripInput, remember is extend_cache ...
OLD = {
    "Departure", "travel", "Trip", "Past", "remember", "Kept", "doubled", "settle", "mix", "feed",
    "after", "Walk", "Part", "company", "manner", "counts", "bring", "portions", "Portion", "Held",
    "Elsewhere", "rooms", "walls", "doors", "errand", "Errand", "gate", "Gate", "faults", "telling",
    "question", "shapes", "about", "meters", "work", "commands", "team", "leads", "journal",
    "monitor", "pay", "Roller", "promise", "evidence", "paint", "documents", "options", "findings",
    "layout", "sources", "entries", "painting", "past",
}  # fmt: skip
# Where such a word is another's, or means what it says.
THEIRS = {
    ("remask/cli/app.py", "commands"),  # click's
    ("remask/denoisers/experts.py", "gate"),  # the router's matrix, as the literature calls it
    ("remask/pretrain/corpus.py", "mix"),  # of tasks, as in --mix
    ("remask/pretrain/settings.py", "mix"),
}


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that a module binds, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.alias(asname=str(name)):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)):
                yield name, node.lineno


def classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    yield from (node for node in ast.walk(tree) if isinstance(node, kinds))


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for module, tree in MODULES.items():
        for node in classes(tree):
            if not node.name.startswith("_"):
                places[node.name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("module", MODULES)
def test_a_name_says_what_it_holds(module: str) -> None:
    vague = [f"{name} in line {line}" for name, line in bound(MODULES[module]) if name in VAGUE]
    assert vague == []


def declared(module: str) -> Iterator[str]:
    """Yield the names of a module, its classes and functions, and of their attributes."""
    tree = MODULES[module]
    yield Path(module).stem
    yield from (node.name for node in (*classes(tree), *functions(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    for node in classes(tree):
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                yield line.target.id
            elif isinstance(line, ast.Assign):
                yield from (target.id for target in line.targets if isinstance(target, ast.Name))


@pytest.mark.parametrize("module", MODULES)
def test_nothing_bears_an_old_name(module: str) -> None:
    old = {name for name in declared(module) if name in OLD and (module, name) not in THEIRS}
    assert old == set()


def test_the_walk_sees_every_way_to_bind_a_name() -> None:
    code = """
import a as told
for kept, (asked, *found) in []: pass
def told(kept, /, asked=1, *found, **told): self.kept = 1
class asked: found: int = 1
with a as kept: pass
try: pass
except E as asked: pass
match x:
    case [found, *told]: pass
(kept := 1)
[1 for asked in []]
"""
    counted = Counter(name for name, _ in bound(ast.parse(code)))
    assert {name: counted[name] for name in VAGUE} == {"kept": 5, "asked": 5, "found": 4, "told": 4}
