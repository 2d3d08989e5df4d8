"""The house rules that can be checked by reading the code: floors, bounds, cycles, docstrings."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "perdure"
FLOORS = ("domain", "backends", "pipeline", "engine", "frontends")
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_FILE = 600
MAX_FILES_IN_FOLDER = 20
MAX_FUNCTION = 80

CROSSINGS = {
    # Which front ends may import another one's modules; every one may import the library.
    "cli": {"library", "server", "gateway", "mcp", "hooks", "console"},
    "server": {"library", "gateway", "mcp"},
    "library": {"library", "gateway"},  # MemoryClient is the gateway in one's own process
}

SHARED_BY_PROVIDERS = {"shared", "http", "markdown", "git"}
"""Folders of backends that are no family: what several providers stand on."""


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {module_name(path) for path in MODULES}


@cache
def imports(path: Path) -> list[tuple[str, int]]:
    """Every perdure module that a file imports, with its line; names under TYPE_CHECKING count too."""
    return list(named(path))


def named(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.split(".")[0] == "perdure")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "perdure":
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in KNOWN else str(node.module)), node.lineno


def place(name: str) -> list[str]:
    return name.split(".")[1:]


def crossing(here: list[str], there: list[str]) -> str | None:
    """Name the rule that an import breaks, if any."""
    if not here or not there:
        return None  # the package itself names what is public, on whatever floor
    inner = len(here) > 2 and len(there) > 2
    if FLOORS.index(there[0]) > FLOORS.index(here[0]):
        return "a higher floor"
    if here[0] == "pipeline" and there[0] == "backends" and there[-1] != "base":
        return "steps know ports only"
    if there[0] == "backends" and there[-1] != "base" and there[1:2] and there[1] not in SHARED_BY_PROVIDERS:
        if here[0] == "backends" and inner and there[1] != here[1]:
            return "another family's provider"
        if here[0] == "engine" and len(there) > 2:
            return "providers are loaded by the registry"
    if here[0] == "frontends" and there[0] == "frontends" and len(here) > 1 and len(there) > 1:
        allowed = CROSSINGS.get(here[1], {"library"}) | {here[1], "faults"}
        return None if there[1] in allowed else "another front end"
    return None


def test_a_file_imports_its_own_floor_or_lower() -> None:
    broken = [
        f"{path}:{line} imports {name}: {rule}"
        for path in MODULES
        for name, line in imports(path)
        if (rule := crossing(place(module_name(path)), place(name)))
    ]
    assert broken == []


def test_only_the_app_and_mem0s_own_modules_import_the_mem0_dialect() -> None:
    """mem0's routes translate into the server's own; the server's own know nothing of them."""
    dialect = ["frontends", "server", "mem0"]
    for path in MODULES:
        here = place(module_name(path))
        if here[:3] == dialect or here == ["frontends", "server", "app"]:
            continue
        for name, line in imports(path):
            assert place(name)[:3] != dialect, f"{path}:{line} imports {name}: mem0's imports ours"


def test_steps_do_not_call_each_other() -> None:
    """A group's steps share its vocabulary; no step calls one of another group, which is the engine's to order."""
    shared = {
        "lexicon",
        "prompts",
        "prompting.quoting",
        "curation.rules.slots",
        "retrieval.standing_facts",
        "retrieval.words",
    }
    for path in MODULES:
        here = place(module_name(path))
        if len(here) < 2 or here[0] != "pipeline":
            continue
        for name, line in imports(path):
            there = place(name)
            if len(there) < 2 or there[0] != "pipeline":
                continue
            where = ".".join(there[1:])
            if not any(f"{where}.".startswith(f"{each}.") for each in shared):
                assert there[1] == here[1], f"{path}:{line}: the step {here[1:]} imports the step {there[1:]}"


def test_there_are_no_import_cycles() -> None:
    graph = {module_name(path): {name for name, _ in imports(path)} for path in MODULES}
    graph["perdure"] = set()
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name in done:
            return
        for other in sorted(graph.get(name, ())):
            if other != name:
                visit(other, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_no_folder_is_a_hall() -> None:
    """A folder holds at most so many files."""
    counts = Counter(path.parent for path in MODULES)
    assert {str(folder): count for folder, count in counts.items() if count > MAX_FILES_IN_FOLDER} == {}


TESTS = sorted(Path(__file__).parent.rglob("*.py"))


def test_the_tests_own_files_have_bounds_too() -> None:
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in TESTS}
    assert {name: count for name, count in lengths.items() if count > MAX_FILE} == {}


def too_long(path: Path) -> Iterator[str]:
    """Name a file, and each of its functions, that has more lines than the house allows."""
    text = path.read_text(encoding="utf-8")
    count = len(text.splitlines())
    if count > MAX_FILE:
        yield f"{path} has {count} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            documented = len((ast.get_docstring(node) or "").splitlines())
            if length - documented > MAX_FUNCTION:
                yield f"{path}:{node.lineno} {node.name} has {length} lines"


def test_bounds() -> None:
    assert [fault for path in MODULES for fault in too_long(path)] == []


def undocumented(path: Path) -> Iterator[str]:
    """Name a module, and each of its public functions and classes, that has no docstring.

    What a provider does is said once, by its family's port: its own functions need one where their names do not say it.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not ast.get_docstring(tree):
        yield f"{path} says nothing of itself"
    here = place(module_name(path))
    is_providers = here[:1] == ["backends"] and len(here) > 2 and here[1] not in ("shared", "http")
    asked = (ast.ClassDef,) if is_providers else (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in tree.body:
        if isinstance(node, asked) and not node.name.startswith("_") and not ast.get_docstring(node):
            yield f"{path}:{node.lineno} {node.name} has no docstring"


def test_public_names_are_documented() -> None:
    assert [fault for path in MODULES for fault in undocumented(path)] == []


def test_importing_perdure_loads_no_third_party_package() -> None:
    probe = (
        "import sys; before = set(sys.modules); import perdure; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(name for name in new if name != 'perdure' and name not in sys.stdlib_module_names))"
    )
    result = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_exported_names_are_complete() -> None:
    import perdure

    assert sorted(perdure.__all__) == sorted(perdure._HOME_OF)
    for name in perdure.__all__:
        assert getattr(perdure, name).__name__ == name
    assert set(dir(perdure)) >= set(perdure.__all__)
