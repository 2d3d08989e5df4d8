"""The units of work, imported when a ledger first opens: SQLAlchemy, on which they stand, costs 0.2 s."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.backends.ledgers.sql import (
        caches,
        episodes,
        erasure,
        history,
        jobs,
        journal,
        locks,
        schema,
        sessions,
        upkeep,
    )
    from perdure.backends.ledgers.sql import response_chains as chains
    from perdure.backends.ledgers.sql.agent_runtime import records
    from perdure.backends.ledgers.sql.server import api_keys as keys
    from perdure.backends.ledgers.sql.server import audit, promotions, settings

__all__ = ["audit", "caches", "chains", "episodes", "erasure", "history", "jobs", "journal", "keys", "load",
           "locks", "promotions", "records", "schema", "sessions", "settings", "upkeep"]  # fmt: skip
_MODULES = {
    "audit": "server.audit",
    "chains": "response_chains",
    "keys": "server.api_keys",
    "promotions": "server.promotions",
    "records": "agent_runtime.records",
    "settings": "server.settings",
}
"""Where a unit's name is not that of its module."""


def load() -> None:
    """Import all of them now, in the thread of the caller."""
    for name in __all__:
        if name != "load":
            __getattr__(name)


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = import_module(f"{__package__}.{_MODULES.get(name, name)}")
    return module
