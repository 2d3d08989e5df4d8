"""How the contract suites reach OpenAI's and Azure's providers: over HTTP, at a local server that speaks their wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.backends.wire.openai import KEY, OpenAIWire

Script = Callable[[list[Any]], dict[str, Any]]

DEPLOYMENTS = {"chat-one": "gpt-4o-mini", "vectors-one": "text-embedding-3-small"}


def patience(answers: list[Any]) -> float:
    """Seconds to wait for an answer: few only where none will come."""
    return 0.3 if {"error": "timeout"} in answers else 30.0


@pytest.fixture
def openai_llm_script() -> Iterator[Script]:
    with ExitStack() as servers:

        def script(answers: list[Any]) -> dict[str, Any]:
            wire = servers.enter_context(OpenAIWire(*answers))
            return {"base_url": wire.base_url, "api_key": KEY, "retries": 0, "timeout": patience(answers)}

        yield script


@pytest.fixture
def azure_openai_llm_script() -> Iterator[Script]:
    with ExitStack() as servers:

        def script(answers: list[Any]) -> dict[str, Any]:
            wire = servers.enter_context(OpenAIWire(*answers, deployments=DEPLOYMENTS))
            return {
                "base_url": wire.address,
                "api_key": KEY,
                "deployment": "chat-one",
                "retries": 0,
                "timeout": patience(answers),
            }

        yield script


@pytest.fixture(scope="module")
def openai_embedder_config() -> Iterator[dict[str, Any]]:
    with OpenAIWire() as wire:
        yield {"base_url": wire.base_url, "api_key": KEY}


@pytest.fixture(scope="module")
def azure_openai_embedder_config() -> Iterator[dict[str, Any]]:
    with OpenAIWire(deployments=DEPLOYMENTS) as wire:
        yield {"base_url": wire.address, "api_key": KEY, "deployment": "vectors-one"}
