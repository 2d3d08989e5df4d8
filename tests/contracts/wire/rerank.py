"""How the contract suite reaches every reranker: a tiny model in a folder, and local servers that speak the wires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.backends.rerankers.rerank_folders import tiny_folder
from tests.backends.wire.rerank import KEY, WIRES


@pytest.fixture(scope="module")
def cross_encoder_reranker_config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"path": str(tiny_folder(tmp_path_factory.mktemp("reranker")))}


@pytest.fixture(scope="module")
def cohere_reranker_config() -> Iterator[dict[str, Any]]:
    yield from _served("cohere")


@pytest.fixture(scope="module")
def jina_reranker_config() -> Iterator[dict[str, Any]]:
    yield from _served("jina")


@pytest.fixture(scope="module")
def voyage_reranker_config() -> Iterator[dict[str, Any]]:
    yield from _served("voyage")


def _served(name: str) -> Iterator[dict[str, Any]]:
    with WIRES[name]() as wire:
        yield {"base_url": wire.base_url, "api_key": KEY, "retry_delay": 0.1}
