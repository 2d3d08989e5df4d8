"""Check that the vector store is the one that the ledger was written for, and count what it lacks.

The ledger notes for each place of a store (a file, a folder, a server) which store it found there. Another one at the
same place means that the first is gone: deleted, or replaced. Places beside it share the ledger.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.engine.maintenance.last_events import live_ids

if TYPE_CHECKING:
    from perdure.backends.ledgers.base import Ledger
    from perdure.backends.vector_stores.base import VectorStore
    from perdure.engine.config.config import MemoryConfig

logger = logging.getLogger("perdure")

PAGE = 500
"""Rows looked for at a time."""
NOTED = "stores"
"""The setting of the ledger that holds, for each place, the store's identity and those that are gone from there."""
_IN_FOLDER = {"sqlite": "memories.db", "markdown": ""}
"""Where those lie in the memory's folder that are told no path."""
_TELLING = ("url", "host", "port", "address", "index", "prefix", "namespace", "schema", "database", "db_name")
"""Settings that say where a store is."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """What the ledger knows of the place where the open store stands."""

    place: str
    identity: str
    gone: tuple[str, ...] = ()
    """Identities of stores that stood there before, whose memories were not brought over."""
    shared: bool = False
    """Whether stores at other places write into the same ledger: what is not here may be there."""


class LossCheck:
    """What the ledger knows and the store has lost."""

    def __init__(self, config: MemoryConfig) -> None:
        self._config = config
        self.store_place: StorePlace | None = None
        """None where there is no ledger, or no store that outlives the process."""
        self.warning: str | None = None
        """A sentence, as long as memories are missing."""

    async def look(self, store: VectorStore, collection: str, ledger: Ledger, identity: str) -> None:
        """See whether this is the store that the ledger was kept for, and say so where it lacks what that held."""
        found = await _look(ledger, self._config, identity)
        count = await _lost_count(store, collection, ledger, found)
        if found.gone and not count:  # what those held has been brought over, or was forgotten
            await ledger.settings.merge(NOTED, {found.place: {"identity": identity, "gone": []}})
            found = replace(found, gone=())
        self.store_place = found
        self.warning = None
        if count:
            self.warn(_told(self._config, count))

    def warn(self, sentence: str) -> None:
        """Say what is missing now, and with each search."""
        self.warning = sentence
        logger.warning("%s", sentence)


async def _look(ledger: Ledger, config: MemoryConfig, identity: str) -> StorePlace:
    """Where the store stands, noted for the next time."""
    place = _place_of(config)
    noted = await ledger.settings.get(NOTED)
    was = noted.get(place, {})
    gone = [id for id in was.get("gone", []) if id != identity]  # it was put back
    if was.get("identity") not in (None, identity, *gone):
        gone.append(was["identity"])
    others = {other: told for other, told in noted.items() if other != place}
    moved = [other for other, told in others.items() if told["identity"] == identity]
    now = {"identity": identity, "gone": gone}
    if now != was or moved:
        await ledger.settings.merge(NOTED, {place: now, **dict.fromkeys(moved)})
    shared = any(other not in moved and _exists(other, config) for other in others)
    return StorePlace(place, identity, tuple(gone), shared)


async def _lost_count(store: VectorStore, collection: str, ledger: Ledger, found: StorePlace) -> int:
    """How many memories the ledger knows to stand that the store has not; looked for only where it seems replaced.

    That is where another store stood before, or where this one is empty and no other shares the ledger.
    """
    if not found.gone and (found.shared or await _holds_rows(store)):
        return 0
    counts = await ledger.stats()
    if counts["history"] == counts["erased"]:
        return 0
    known = await live_ids(ledger)
    there: set[str] = set()
    for start in range(0, len(known), PAGE):
        there.update(point.id for point in await store.get_many(collection, known[start : start + PAGE]))
    return len(known) - len(there)


async def _holds_rows(store: VectorStore) -> bool:
    for name in await store.list_collections():
        if (await store.get_collection_info(name)).count:
            return True
    return False


def _told(config: MemoryConfig, count: int) -> str:
    """What is missing, and the command that brings it back."""
    provider, folder = config.vector_store.provider, config.ledger_path.absolute().parent
    where = f"the {provider} store in {config.home.absolute()}" if config.home else f"the {provider} store"
    known = "1 memory" if count == 1 else f"{count} memories"
    return (
        f"{where} was lost or replaced: it does not hold {known} that the ledger knows; "
        f"`perdure doctor --repair --path {config.home or folder}` rebuilds what the ledger has kept of them"
    )


def _place_of(config: MemoryConfig) -> str:
    """The place of the configured store: a path, from the ledger's folder where it lies in it, or a digest."""
    provider, told = config.vector_store.provider, dict(config.vector_store.config)
    while provider == "cached" and isinstance(told.get("store"), dict):
        provider, told = str(told["store"].get("provider")), dict(told["store"].get("config") or {})
    if provider in _IN_FOLDER and config.home is not None:
        told.setdefault("path", config.home / _IN_FOLDER[provider])
    if told.get("path") is not None:
        full = Path(str(told["path"])).expanduser().absolute()
        beside = config.ledger_path.absolute().parent
        return str(full.relative_to(beside)) if full.is_relative_to(beside) else str(full)
    where = json.dumps([provider, {name: str(told[name]) for name in _TELLING if name in told}], sort_keys=True)
    return f"{provider}:{hashlib.sha256(where.encode()).hexdigest()[:24]}"  # an address may hold a key


def _exists(place: str, config: MemoryConfig) -> bool:
    """Whether something may stand at a place still; of what is no path nobody can tell."""
    provider, mark, _ = place.partition(":")
    if mark and provider.isidentifier():
        return True
    return (config.ledger_path.absolute().parent / place).exists()
