"""What `from perdure import Memory` imports, and what the public signatures name."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing

import pytest

from perdure import AsyncMemory, Memory

PROBE = """
import sys
{first}
print(*sys.modules)
"""

HEAVY = {
    "numpy",
    "pydantic",
    "sqlalchemy",
    "sqlalchemy.dialects.postgresql",
    "onnxruntime",
    "tokenizers",
    "typer",
    "rich",
}
RARE = (
    "perdure.backends.git",
    "perdure.backends.graphs",
    "perdure.backends.ledgers",
    "perdure.backends.llms",
    "perdure.backends.markdown",
    "perdure.backends.vector_stores",
    "perdure.domain.access",
    "perdure.domain.graph",
    "perdure.domain.runtime",
    "perdure.domain.session",
    "perdure.engine.agent_runtime",
    "perdure.engine.chat",
    "perdure.engine.graph",
    "perdure.engine.maintenance",
    "perdure.engine.markdown",
    "perdure.engine.team",
    "perdure.engine.transfer",
    "perdure.frontends.gateway",
    "perdure.frontends.server",
    "perdure.pipeline",
)
"""What the import leaves to those who use it."""

NOT_FOR_A_SEARCH = (
    "sqlalchemy",
    "perdure.backends.git",
    "perdure.backends.graphs",
    "perdure.backends.markdown",
    "perdure.domain.runtime",
    "perdure.engine.agent_runtime",
    "perdure.engine.graph",
    "perdure.engine.markdown",
    "perdure.engine.team",
    "perdure.engine.transfer",
    "perdure.engine.write",
    "perdure.frontends.gateway",
    "perdure.frontends.server",
    "perdure.pipeline.curation.llm",
    "perdure.pipeline.curation.importers",
    "perdure.pipeline.curation.rules.extraction",
    "perdure.pipeline.curation.rules.relations",
    "perdure.pipeline.curation.rules.slots",
    "perdure.pipeline.quarantine",
)
"""What a process that opens a memory and searches it does not need."""


def loaded_by(code: str) -> set[str]:
    result = subprocess.run([sys.executable, "-c", PROBE.format(first=code)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def among(modules: set[str], names: tuple[str, ...]) -> list[str]:
    return sorted(name for name in modules if any(f"{name}.".startswith(f"{each}.") for each in names))


@pytest.mark.parametrize("name", ["Memory", "AsyncMemory"])
def test_importing_memory_loads_no_heavy_package_and_nothing_rare(name: str) -> None:
    modules = loaded_by(f"from perdure import {name}")
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()
    assert among(modules, RARE) == []


def test_a_search_loads_nothing_that_only_writing_and_other_front_ends_need(tmp_path) -> None:
    with Memory({"path": str(tmp_path), "embedder": {"provider": "hashed"}}) as memory:
        memory.add("I live in Oslo", user_id="ana")
    settings = {"path": str(tmp_path), "embedder": {"provider": "hashed"}}
    modules = loaded_by(
        "from perdure import Memory\n"
        f"with Memory({settings!r}) as memory:\n"
        "    assert memory.search('where does she live?', user_id='ana').results"
    )
    assert among(modules, NOT_FOR_A_SEARCH) == []


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_tools_that_inspect_a_method_can_resolve_its_types(kind: type) -> None:
    """Frameworks make tools of methods by their annotations; only the constructor names the settings."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            typing.get_type_hints(method)
