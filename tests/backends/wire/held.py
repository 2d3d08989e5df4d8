"""Backends that a test builds and drops within one expression: held until the test is over.

One that is collected while its loop still runs leaves its sockets to the garbage collector, which warns of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from perdure.backends import registry

_held: list[Any] = []


def build(family: str, name: str, config: Mapping[str, Any]) -> Any:
    """As the registry builds it."""
    _held.append(registry.build(family, name, config))
    return _held[-1]


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    yield
    _held.clear()
