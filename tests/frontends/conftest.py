"""What tests of the front ends stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import MemoryStore
from tests.conftest import Open


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, open_memory: Open) -> MemoryStore:
    """A store over each embedded vector store, with the hashed embedder."""
    return MemoryStore(open_memory(embedder={"provider": "hashed"}, vector_store={"provider": request.param}))
