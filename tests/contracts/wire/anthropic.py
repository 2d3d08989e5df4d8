"""Anthropic's provider against its wire, for the contract suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.backends.wire.anthropic import KEY, AnthropicWire


@pytest.fixture
def anthropic_llm_script() -> Iterator[Callable[[list[Any]], dict[str, Any]]]:
    """Settings under which the provider gives the answers; every server ends with the test."""
    with ExitStack() as servers:

        def script(answers: list[Any]) -> dict[str, Any]:
            wire = servers.enter_context(AnthropicWire(*answers))
            timeout = 0.5 if {"error": "timeout"} in answers else 30
            return {"api_key": KEY, "base_url": wire.address, "retries": 0, "timeout": timeout}

        yield script
