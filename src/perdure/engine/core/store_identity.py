"""Check that the vector store is the one that the ledger was written for, and count what it lacks.

For each place of a store (a file, a folder, a server) the ledger records the identity of the store. Another identity at
the same place means that the first store is gone: deleted, or replaced. Stores at other places share the ledger.
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
PAGE = 500  # rows looked for at a time
NOTED = "stores"  # the ledger's setting with, for each place, the store's identity and those of stores that are gone
_IN_FOLDER = {"sqlite": "memories.db", "markdown": ""}  # the default location of a store in the memory's folder
_TELLING = ("url", "host", "port", "address", "index", "prefix", "namespace", "schema", "database", "db_name")
"""Settings that locate a store."""


def store_mark(store_identity: str, collection: str) -> str:
    """The mark of one store's jobs and settings in a ledger that stores may share."""
    return hashlib.sha256(f"{store_identity}/{collection}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The ledger's knowledge of the open store's place."""

    place: str
    identity: str
    gone: tuple[str, ...] = ()  # identities of earlier stores there, whose memories were not copied over
    shared: bool = False  # whether stores at other places use the same ledger: what is missing here may be there


class LossCheck:
    """Checks what the ledger knows and the store has lost."""

    def __init__(self, config: MemoryConfig) -> None:
        self._config = config
        self.store_place: StorePlace | None = None
        """None without a ledger, or if the store does not outlive the process."""
        self.warning: str | None = None  # a sentence, as long as memories are missing

    async def look(self, store: VectorStore, collection: str, ledger: Ledger, identity: str) -> None:
        """Check whether this is the store that the ledger was written for, and warn about what it lacks."""
        found = await _look(ledger, self._config, identity)
        count = await _lost_count(store, collection, ledger, found)
        if found.gone and not count:  # their memories were copied over, or forgotten
            await ledger.settings.merge(NOTED, {found.place: {"identity": identity, "gone": []}})
            found = replace(found, gone=())
        self.store_place = found
        self.warning = None
        if count:
            self.warn(_told(self._config, count))

    def warn(self, sentence: str) -> None:
        """Warn now and with each search about what is missing."""
        self.warning = sentence
        logger.warning("%s", sentence)


async def _look(ledger: Ledger, config: MemoryConfig, identity: str) -> StorePlace:
    place = _place_of(config)
    noted = await ledger.settings.get(NOTED)
    was = noted.get(place, {})
    gone = [id for id in was.get("gone", []) if id != identity]  # it was restored
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
    """Return how many memories the ledger knows and the store lacks, if the store seems replaced.

    That is if another store was there before, or if this one is empty and no other shares the ledger.
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
    provider, folder = config.vector_store.provider, config.ledger_path.absolute().parent
    where = f"the {provider} store in {config.home.absolute()}" if config.home else f"the {provider} store"
    known = "1 memory" if count == 1 else f"{count} memories"
    return (
        f"{where} was lost or replaced: it does not hold {known} that the ledger knows; "
        f"`perdure doctor --repair --path {config.home or folder}` rebuilds what the ledger has kept of them"
    )


def _place_of(config: MemoryConfig) -> str:
    """Return the place of the configured store: a path, relative to the ledger's folder if inside it, or a digest."""
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
    return f"{provider}:{hashlib.sha256(where.encode()).hexdigest()[:24]}"  # an address may contain a key


def _exists(place: str, config: MemoryConfig) -> bool:
    """Whether a place may still exist; unknown, and so True, for anything but a path."""
    provider, mark, _ = place.partition(":")
    if mark and provider.isidentifier():
        return True
    return (config.ledger_path.absolute().parent / place).exists()
