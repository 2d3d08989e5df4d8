"""The units of work, imported when a ledger first opens: SQLAlchemy, on which they stand, costs 0.2 s."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.backends.ledgers import _caches as caches
    from perdure.backends.ledgers import _episodes as episodes
    from perdure.backends.ledgers import _erasure as erasure
    from perdure.backends.ledgers import _feed as feed
    from perdure.backends.ledgers import _history as history
    from perdure.backends.ledgers import _journal as journal
    from perdure.backends.ledgers import _locks as locks
    from perdure.backends.ledgers import _schema as schema
    from perdure.backends.ledgers import _upkeep as upkeep
    from perdure.backends.ledgers.desk import _audit as audit
    from perdure.backends.ledgers.desk import _chains as chains
    from perdure.backends.ledgers.desk import _jobs as jobs
    from perdure.backends.ledgers.desk import _keys as keys
    from perdure.backends.ledgers.desk import _promotions as promotions
    from perdure.backends.ledgers.desk import _sessions as sessions
    from perdure.backends.ledgers.desk import _settings as settings
    from perdure.backends.ledgers.runtime import _records as records

__all__ = ["audit", "caches", "chains", "episodes", "erasure", "feed", "history", "jobs", "journal", "keys", "load",
           "locks", "promotions", "records", "schema", "sessions", "settings", "upkeep"]  # fmt: skip
_FOLDERS = {
    **dict.fromkeys(("audit", "chains", "jobs", "keys", "promotions", "sessions", "settings"), "desk."),
    "records": "runtime.",
}


def load() -> None:
    """Import all of them now, in the thread of the caller."""
    for name in __all__:
        if name != "load":
            __getattr__(name)


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = import_module(f"perdure.backends.ledgers.{_FOLDERS.get(name, '')}_{name}")
    return module
