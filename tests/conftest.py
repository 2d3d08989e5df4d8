"""What every test stands on: a clean environment, a folder of its own, and memories that are closed again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.backends.embedders.minilm import MiniLMEmbedder

PROVIDERS_VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "AZURE_OPENAI_AD_TOKEN", "GOOGLE_GENAI_USE_VERTEXAI"),
    *("OLLAMA_HOST", "OLLAMA_API_KEY", "HF_TOKEN", "HUGGINGFACE_API_KEY", "HUGGING_FACE_HUB_TOKEN", "DATABASE_URL"),
)
"""What providers read where their settings leave something out."""


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the whole run: the model's graph is built once, not for every test."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, cache_folder: Path
) -> None:
    """No variable of the developer's own reaches a test, and nothing is written to their home."""
    for name in list(os.environ):
        if name.startswith("PERDURE_") and name != "PERDURE_MINILM_REFERENCE":
            monkeypatch.delenv(name)
    for name in PROVIDERS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))


@pytest.fixture(scope="session")
def loaded_model() -> MiniLMEmbedder:
    """Keeps the model loaded between tests: memories of one process share it while one of them holds it."""
    embedder = MiniLMEmbedder(MiniLMEmbedder.Settings())
    asyncio.run(embedder.embed("load now"))
    return embedder


Open = Callable[..., Memory]


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Open]:
    """Opens memories in the test's folder; each keyword is a key of the configuration."""
    opened: list[Memory] = []

    def open_one(**config: Any) -> Memory:
        config.setdefault("path", str(tmp_path / "memory"))
        memory = Memory(config)
        opened.append(memory)
        return memory

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture(params=["sqlite", "memory"])
def memory(request: pytest.FixtureRequest, open_memory: Open, loaded_model: MiniLMEmbedder) -> Memory:
    """A memory with the rules curator and `minilm`, on each embedded store."""
    return open_memory(vector_store={"provider": request.param})


@pytest.fixture
def quick(open_memory: Open) -> Memory:
    """A memory with the hashed embedder: for tests in which meaning plays no part."""
    return open_memory(embedder={"provider": "hashed"})
