"""How the contract suite opens each vector store: one module for each provider, found by its name.

Such a module holds `PROVIDERS`: a `Provider` for each way of running it (usually one, under the provider's name).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.backends import registry


@dataclass(frozen=True)
class Provider:
    """How the suite opens a store in a folder of its own."""

    name: str
    """The provider's name in the registry."""
    settings: Callable[[Path], dict[str, Any]]
    """Settings of a store that is the folder's own and empty at first; starts the engine with the first call.

    The same folder gives the same settings, also in another process. Raises `pytest.skip.Exception` where the engine
    cannot be had on this machine.
    """
    engine: str = "itself"
    """What the tests run it against: a real engine with its version, or a fake, plainly said (docs/stores.md)."""
    server: bool = False
    """Whether an engine is started for it: its tests then stay on one worker."""
    shared: bool = False
    """Whether several instances, also of several processes, may have the same store open at one time."""
    bare: bool = True
    """Whether rows without a vector can be kept."""
    atomic: bool = True
    """Whether a batch is seen whole or not at all, also by others and after a kill; else the journal completes it."""
    longest: int = 1_000_000
    """Characters of a text that the engine can surely keep."""
    examples: int = 40
    """Examples that Hypothesis draws; 25 times as many with `--hypothesis-profile=thorough`."""


def _found() -> dict[str, Provider]:
    found: dict[str, Provider] = {}
    for name in registry.providers("vector_stores"):
        module = importlib.import_module(f"{__name__}.{name}")
        found.update(module.PROVIDERS)
    return found


def all_providers() -> Mapping[str, Provider]:
    """Every way of running every provider, by its id in the tests."""
    return _found()
