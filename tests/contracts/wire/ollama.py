"""How the contract suites reach Ollama's providers: over HTTP, at a local server that speaks its wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.backends.wire.ollama import OllamaWire


@pytest.fixture
def ollama_llm_script() -> Iterator[Callable[[list[Any]], dict[str, Any]]]:
    """Settings under which the provider gives the answers; every server ends with the test."""
    with ExitStack() as servers:

        def script(answers: list[Any]) -> dict[str, Any]:
            wire = servers.enter_context(OllamaWire(*answers))
            timeout = 0.5 if {"error": "timeout"} in answers else 30
            return {"base_url": wire.address, "retries": 0, "timeout": timeout}

        yield script


@pytest.fixture(scope="module")
def ollama_embedder_config() -> Iterator[dict[str, Any]]:
    with OllamaWire() as wire:
        yield {"base_url": wire.address, "model": "all-minilm"}
