"""Google's providers against their wire, for the contract suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.backends.wire.google import KEY, GoogleWire


@pytest.fixture
def google_llm_script() -> Iterator[Callable[[list[Any]], dict[str, Any]]]:
    """Settings under which the provider gives the answers; every server ends with the test."""
    with ExitStack() as servers:

        def script(answers: list[Any]) -> dict[str, Any]:
            wire = servers.enter_context(GoogleWire(*answers))
            timeout = 0.5 if {"error": "timeout"} in answers else 30
            return {"api_key": KEY, "base_url": wire.address, "retries": 0, "timeout": timeout}

        yield script


@pytest.fixture(scope="module")
def google_embedder_config() -> Iterator[dict[str, Any]]:
    """Settings under which the embedder asks a server of the module's own."""
    with GoogleWire() as wire:
        # Many connections at once may find the server's queue full: then they are tried again.
        yield {"api_key": KEY, "base_url": wire.address, "dimensions": 768, "retries": 3, "retry_delay": 0.1}
