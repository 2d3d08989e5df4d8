"""The ledger over any relational database: each method is one unit of work, run in a thread in one hop."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from perdure.backends.blocking import run_unit
from perdure.backends.ledgers import _units as units
from perdure.backends.ledgers._database import Database
from perdure.backends.ledgers._owners import boot_id
from perdure.backends.ledgers._scope_lock import ScopeLock
from perdure.backends.ledgers._scope_queue import QUEUES
from perdure.backends.ledgers._writer import Writer
from perdure.backends.ledgers.base import EpisodePage, Held, JournalEntry, Ledger, Mark, Remembered, Touched
from perdure.backends.ledgers.desk._desk import SqlDesk
from perdure.domain.clock import Clock, system_clock
from perdure.domain.errors import PerdureError
from perdure.domain.event import Change, Episode, HistoryRecord
from perdure.domain.job import Job
from perdure.domain.scope import Scope

if TYPE_CHECKING:
    from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("perdure")


class SqlLedger(SqlDesk, Ledger):
    """A ledger in a database that SQLAlchemy speaks."""

    def __init__(self, database: Database, clock: Clock = system_clock) -> None:
        super().__init__(database, clock)
        self._queue = QUEUES.of(database.identity)

    # ------------------------------------------------------------------ life
    @property
    def identity(self) -> str:
        """The database's."""
        return self._database.identity

    @property
    def owner(self) -> str:
        """The id of this opening."""
        return self._open_writer().owner

    async def open(self) -> None:
        """Connect, bring the tables up to date, claim an owner id."""
        await run_unit(self._open)

    async def close(self) -> None:
        """Scrub if that was put off, give up locks and id, disconnect."""
        await run_unit(self._close)

    def _open(self) -> None:
        with self._opening:
            if self._writer is not None:
                return
            units.load()
            try:
                self._database.open()
                self._prepare()
                owner = self._database.owners.claim()
                self._database.owners.sweep()
            except Exception as error:
                self._database.close()
                self._tell(error)
            self._writer = Writer(owner, boot_id(), self._database.owners.alive)
            self._tickets.clear()
            self._untidy = False
            _OPEN.add(self)

    def _prepare(self) -> None:
        alive = self._database.owners.alive
        with self._database.reading() as connection:
            current = units.schema.is_current(connection)
            holders = units.locks.owners(connection) if current else []
            dead = [owner for owner in holders if not alive(owner, connection)]
        if not current:
            with self._database.writing(durable=True) as connection:
                units.schema.bring_up_to_date(connection)
                self._database.prepare(connection)
        if dead:
            with self._database.writing(durable=False) as connection:
                for owner in dead:
                    units.locks.leave_all(connection, owner)

    def _close(self) -> None:
        with self._opening:
            if self._writer is None:
                return
            try:
                self._say_goodbye(self._writer.owner)
            finally:
                self._writer = None
                _OPEN.discard(self)
                self._database.owners.release()
                self._database.close()

    def _say_goodbye(self, owner: str) -> None:
        try:
            if self._run(self._database.reading, units.erasure.scrub_wanted):
                self._scrub()
            self._run(self._quickly, units.locks.leave_all, owner)
        except PerdureError as error:
            # What is left behind, others can tell from the owner's death.
            logger.warning("the ledger was closed in haste: %s", error)

    def forsake(self) -> None:
        """This process was forked from the one that opened the ledger: leave everything to that one."""
        # Locks may have been held by threads that this process does not have.
        self._opening = threading.Lock()
        self._drawing = threading.Lock()
        self._queue = QUEUES.of(self.identity)
        self._writer = None
        self._database.forsake()

    # ------------------------------------------------------------------ in one hop
    async def _read(self, unit: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.see(lambda connection, _: unit(connection, *args, **kwargs))

    async def _write(self, unit: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.alter(lambda connection, _: unit(connection, *args, **kwargs), durable=True, within=None)

    async def _note(self, unit: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.alter(lambda connection, _: unit(connection, *args, **kwargs), durable=False)

    # ------------------------------------------------------------------ journal
    async def write(
        self,
        entries: Sequence[JournalEntry],
        episodes: Sequence[Episode] = (),
        remember: Remembered | None = None,
        jobs: Sequence[Job] = (),
    ) -> None:
        """Acknowledge a batch."""
        write = partial(units.journal.write, jobs=jobs, now=self.now())
        await self.alter(
            lambda connection, writer: write(connection, writer, entries, episodes, remember),
            durable=True,
            within=_scopes([entry.change for entry in entries], episodes, remember, jobs),
        )

    async def applied(self, batch_id: str) -> None:
        """Turn a batch into history."""
        await self.alter(lambda connection, writer: units.journal.applied(connection, writer, batch_id), durable=False)

    async def abandon(self, batch_id: str) -> None:
        """Forget a batch."""
        await self._write(units.journal.abandon, batch_id)

    async def pending(self, store_identity: str) -> list[JournalEntry]:
        """What a crash left over."""
        return await self.alter(
            lambda connection, writer: units.journal.pending(connection, writer, store_identity),
            durable=True,
            within=None,
        )

    async def unsynced(self, store_identity: str) -> list[str]:
        """Applied batches."""
        return await self._read(units.journal.unsynced, store_identity)

    async def synced(self, store_identity: str, batch_ids: Sequence[str]) -> None:
        """Drop applied batches."""
        await self._note(units.journal.synced, store_identity, batch_ids)

    # ------------------------------------------------------------------ history
    async def record(
        self,
        changes: Sequence[Change],
        episodes: Sequence[Episode] = (),
        remember: Remembered | None = None,
        jobs: Sequence[Job] = (),
    ) -> None:
        """Add history without a journal."""
        record = partial(units.journal.record, jobs=jobs, now=self.now())
        await self.alter(
            lambda connection, _: record(connection, changes, episodes, remember),
            durable=True,
            within=_scopes(changes, episodes, remember, jobs),
        )

    async def import_history(self, records: Sequence[HistoryRecord]) -> int:
        """Add foreign history."""
        return await self._write(units.history.import_history, records)

    async def history(self, memory_id: str) -> list[HistoryRecord]:
        """A memory's records."""
        return await self._read(units.history.of_memory, memory_id)

    async def history_record(self, event_id: str) -> HistoryRecord | None:
        """One record."""
        return await self._read(units.history.one_record, event_id)

    async def event(self, event_id: str) -> Change | None:
        """The change behind one record."""
        return await self._read(units.history.one_change, event_id)

    async def later_events(self, memory_id: str, sequence: int) -> list[HistoryRecord]:
        """What came after."""
        return await self._read(units.history.later_records, memory_id, sequence)

    async def events_since(self, scope: Scope, moment: str) -> list[Change]:
        """What to take back, newest first."""
        return await self._read(units.history.changes_since, scope, moment)

    async def events_of_scope(self, scope: Scope, limit: int = 500, after: int = 0) -> list[HistoryRecord]:
        """One page of records."""
        return await self._read(units.history.page_of_scope, scope, limit, after)

    async def touched(self, scope: Scope, since: Mark | None = None) -> Touched:
        """Rows that may have changed."""
        return await self._read(units.feed.touched, scope, since)

    # ------------------------------------------------------------------ episodes
    async def insert_episodes(self, episodes: Sequence[Episode]) -> int:
        """Keep messages."""
        return await self._write(units.episodes.add_episodes, episodes)

    async def get_episodes(self, ids: Sequence[str]) -> list[Episode]:
        """Episodes by id."""
        return await self._read(units.episodes.get_episodes, ids)

    async def list_episodes(
        self, scope: Scope, limit: int = 100, cursor: str | None = None, *, include_hidden: bool = False
    ) -> EpisodePage:
        """One page."""
        return await self._read(units.episodes.list_episodes, scope, limit, cursor, include_hidden)

    async def recent_episodes(self, scope: Scope, limit: int, before: str | None = None) -> list[Episode]:
        """The last ones."""
        return await self._read(units.episodes.recent_episodes, scope, limit, before)

    async def pending_episodes(self, scope: Scope, limit: int = 1000) -> list[Episode]:
        """Those to extract."""
        return await self._read(units.episodes.pending_episodes, scope, limit)

    async def mark_extracted(self, ids: Sequence[str]) -> None:
        """Extracted."""
        await self._note(units.episodes.mark_extracted, ids)

    async def hide_episodes(self, ids: Sequence[str], hidden: bool = True) -> None:
        """Hide or show."""
        await self._write(units.episodes.hide_episodes, ids, hidden)

    async def add_fingerprints(self, scope: Scope, fingerprints: Iterable[str]) -> None:
        """Remember injected text."""
        await self._note(units.caches.add_fingerprints, scope, list(fingerprints), self.now())

    async def known_fingerprints(self, scope: Scope, fingerprints: Iterable[str]) -> set[str]:
        """Injected text seen before."""
        return await self._read(units.caches.known_fingerprints, scope, list(fingerprints), self.now())

    # ------------------------------------------------------------------ caches
    async def remembered(self, key: str, scope: Scope) -> str | None:
        """An earlier answer."""
        return await self._read(units.caches.remembered, key, scope, self.now())

    async def cached(self, key: str, scope: Scope) -> str | None:
        """A cached value."""
        return await self._read(units.caches.get, key, scope, self.now())

    async def cache(self, key: str, scope: Scope, value: str) -> None:
        """Cache a value."""
        await self._note(units.caches.put, key, scope, value, self.now())

    # ------------------------------------------------------------------ erasure
    async def erase(
        self,
        memory_ids: Sequence[str],
        episode_ids: Sequence[str],
        scope: Scope | None = None,
        *,
        cached_in: Scope | None = None,
    ) -> dict[str, int]:
        """Redact, delete, count."""
        return await self._write(units.erasure.erase, memory_ids, episode_ids, scope, cached_in)

    async def count_places(
        self,
        memory_ids: Sequence[str],
        episode_ids: Sequence[str],
        scope: Scope | None = None,
        *,
        cached_in: Scope | None = None,
    ) -> dict[str, int]:
        """Count."""
        return await self._read(units.erasure.count_places, memory_ids, episode_ids, scope, cached_in)

    async def scrub(self) -> bool:
        """Clean the bytes."""
        self._open_writer()
        return await run_unit(self._scrub)

    def _scrub(self) -> bool:
        wanted = self._run(self._database.reading, units.erasure.scrub_wanted)
        try:
            clean = self._database.scrub()
        except Exception as error:
            self._tell(error)
        if clean and wanted:
            self._run(self._quickly, units.erasure.note_scrubbed, wanted)
        return clean

    # ------------------------------------------------------------------ locks
    def lock(self, scope: Scope, store_identity: str | None = None) -> AbstractAsyncContextManager[Held]:
        """Hold off whoever overlaps."""
        return ScopeLock(self._queue, self, scope, store_identity)

    # ------------------------------------------------------------------ upkeep
    async def reset(self) -> None:
        """Clear everything."""
        await self._write(units.upkeep.reset)

    async def check(self) -> list[str]:
        """What disagrees."""
        self._open_writer()
        return await run_unit(self._check)

    def _check(self) -> list[str]:
        # What stands in a damaged file says nothing about what was written there.
        try:
            found = self._database.check()
        except Exception as error:
            self._tell(error)
        return found or self._run(self._database.reading, units.upkeep.check)

    async def stats(self) -> dict[str, int]:
        """How many rows of each kind."""
        return await run_unit(self._stats)

    def _stats(self) -> dict[str, int]:
        counts = self._run(self._database.reading, units.upkeep.stats)
        try:
            return {**counts, "bytes": self._database.size()}
        except Exception as error:
            self._tell(error)


def _scopes(
    changes: Iterable[Change], episodes: Iterable[Episode], remember: Remembered | None, jobs: Iterable[Job]
) -> list[Scope]:
    """The scopes that a write is about, and so one of which its lock covers."""
    return [
        *(change.item.scope for change in changes),
        *(Scope(**episode.scope) for episode in episodes),
        *([] if remember is None else [remember.scope]),
        *(job.scope for job in jobs),
    ]


_OPEN: weakref.WeakSet[SqlLedger] = weakref.WeakSet()


def _after_fork() -> None:
    for ledger in list(_OPEN):
        ledger.forsake()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
